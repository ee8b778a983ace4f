"""EncoderConfig: the numbers that fix an encoder, read from and written to a Hugging Face `config.json`.

Field names are Hugging Face's BERT names, word for word; DistilBERT's own (`dim`, `n_layers`, …) are
translated here, both ways, and nowhere else. What differs between the three families is the table
`FAMILIES`; the layers in model.py read properties, never the family's name.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from .cli import UserError, nearest


@dataclass(frozen=True)
class Family:
    """What one family does differently, as data.

    `spelling`: our field name → the family's own, where the two differ.
    `fixed`: fields the family does not have, with the value its code uses whatever is asked for.
    `defaults`: what the family means when config.json leaves a field out.
    """

    spelling: dict[str, str]
    fixed: dict[str, Any]
    defaults: dict[str, Any]
    positions_skip_padding: bool  # RoBERTa: position = pad id + count of real tokens so far
    has_pooler: bool
    attention_output_dropout: bool  # DistilBERT has none after the attention's output projection


_BERT_DEFAULTS = dict(hidden_act="gelu", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1,
                      classifier_dropout=None, initializer_range=0.02, layer_norm_eps=1e-12, pad_token_id=0)

FAMILIES: dict[str, Family] = {
    "bert": Family(
        spelling={}, fixed={}, defaults={**_BERT_DEFAULTS, "type_vocab_size": 2},
        positions_skip_padding=False, has_pooler=True, attention_output_dropout=True),
    "roberta": Family(
        spelling={}, fixed={}, defaults={**_BERT_DEFAULTS, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "pad_token_id": 1},
        positions_skip_padding=True, has_pooler=True, attention_output_dropout=True),
    "distilbert": Family(
        spelling={"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
                  "intermediate_size": "hidden_dim", "hidden_act": "activation", "hidden_dropout_prob": "dropout",
                  "attention_probs_dropout_prob": "attention_dropout", "classifier_dropout": "seq_classif_dropout"},
        fixed={"type_vocab_size": 0, "layer_norm_eps": 1e-12}, defaults={**_BERT_DEFAULTS, "classifier_dropout": 0.2},
        positions_skip_padding=False, has_pooler=False, attention_output_dropout=False),
}

# model_type in config.json → family. XLM-RoBERTa is RoBERTa with another vocabulary.
MODEL_TYPES = {"bert": "bert", "distilbert": "distilbert", "roberta": "roberta", "xlm-roberta": "roberta"}

# model_type → how its Hugging Face classes begin: BertModel, BertForSequenceClassification, …
CLASS_PREFIX = {"bert": "Bert", "distilbert": "DistilBert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta"}

PROBLEM_TYPES = ("single_label_classification", "multi_label_classification")

# Far above any published encoder, far below what exhausts a machine: a typing slip is a sentence, not an allocation.
_LIMITS = dict(vocab_size=10**7, hidden_size=2**16, num_hidden_layers=1000, num_attention_heads=4096,
               intermediate_size=2**20, max_position_embeddings=2**20, type_vocab_size=2**16)
_MOST_PARAMETERS = 10**10


@dataclass
class EncoderConfig:
    """The shape and the constants of an encoder. The defaults are BERT-base uncased (Devlin et al. 2018, §3).

    Raises UserError, naming the field, for values no encoder can have.
    """

    model_type: str = "bert"
    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    classifier_dropout: float | None = None  # None: as hidden_dropout_prob
    max_position_embeddings: int = 512
    type_vocab_size: int = 2  # 0: no segment table
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    has_pooler: bool | None = None  # None: as the family has it
    exported_model_type: str | None = None  # "xlm-roberta" where that is what was read; None: as model_type
    where: dataclasses.InitVar[str] = "EncoderConfig"  # names the file in error messages

    def __post_init__(self, where: str) -> None:
        if self.model_type not in FAMILIES:
            raise UserError(f"{where}: model_type {self.model_type!r} is not one of {', '.join(FAMILIES)}"
                            f"{nearest(self.model_type, FAMILIES)}.")
        for field, value in self.family.fixed.items():
            setattr(self, field, value)
        if self.exported_model_type is None:
            self.exported_model_type = self.model_type
        if self.has_pooler is None:
            self.has_pooler = self.family.has_pooler
        self._check(where)

    def _check(self, where: str) -> None:
        own = self.family.spelling

        def refuse(field: str, wanted: str) -> None:
            raise UserError(f"{where}: {own.get(field, field)} is {getattr(self, field)!r}; it has to be {wanted}.")

        for field, limit in _LIMITS.items():
            least = 0 if field == "type_vocab_size" else 1
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= limit:
                refuse(field, f"a whole number from {least} to {limit}")
        for field in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            value = getattr(self, field)
            if value is None and field == "classifier_dropout":
                continue
            if not _is_number(value) or not 0 <= value < 1:
                refuse(field, "a rate from 0 to below 1")
        for field in ("layer_norm_eps", "initializer_range"):
            if not _is_number(getattr(self, field)) or not 0 < getattr(self, field) <= 10:
                refuse(field, "a small positive number")
        if self.hidden_act not in ACTIVATIONS:
            refuse("hidden_act", f"one of {', '.join(ACTIVATIONS)}{nearest(self.hidden_act, ACTIVATIONS)}")
        if self.hidden_size % self.num_attention_heads:
            heads, width = own.get("num_attention_heads", "num_attention_heads"), own.get("hidden_size", "hidden_size")
            raise UserError(f"{where}: {self.num_attention_heads} heads ({heads}) do not divide {self.hidden_size} "
                            f"({width}); every head needs the same whole width.")
        pad = self.pad_token_id
        if pad is None and not self.family.positions_skip_padding:
            pass  # BERT can do without: nothing in it depends on the pad id
        elif not isinstance(pad, int) or isinstance(pad, bool) or not 0 <= pad < self.vocab_size:
            refuse("pad_token_id", f"a token id from 0 to {self.vocab_size - 1}")
        if self.max_tokens < 1:
            refuse("max_position_embeddings", f"more than {self.position_offset}, the rows that are never a position")
        total = self._rough_parameters()
        if total > _MOST_PARAMETERS:
            raise UserError(f"{where}: these sizes make {total:,} parameters; more than {_MOST_PARAMETERS:,} is a slip.")

    def _rough_parameters(self) -> int:
        d, f = self.hidden_size, self.intermediate_size
        rows = self.vocab_size + self.max_position_embeddings + self.type_vocab_size
        return rows * d + self.num_hidden_layers * (4 * d * d + 2 * d * f)

    @property
    def family(self) -> Family:
        return FAMILIES[self.model_type]

    @property
    def head_width(self) -> int:
        """W = D / H."""
        return self.hidden_size // self.num_attention_heads

    @property
    def position_offset(self) -> int:
        """The row of the first token: 0, or pad id + 1 where positions skip padding (RoBERTa: 2)."""
        return self.pad_token_id + 1 if self.family.positions_skip_padding else 0

    @property
    def max_tokens(self) -> int:
        """The longest sequence: 512 for BERT's 512 rows, and for RoBERTa's 514, of which two are never a position."""
        return self.max_position_embeddings - self.position_offset

    @property
    def head_dropout(self) -> float:
        """The rate in front of the classifying layer."""
        return self.hidden_dropout_prob if self.classifier_dropout is None else self.classifier_dropout

    @property
    def class_prefix(self) -> str:
        """How the Hugging Face classes of this model begin: "Bert", "DistilBert", "Roberta", "XLMRoberta"."""
        return CLASS_PREFIX[self.exported_model_type]

    @classmethod
    def from_dict(cls, d: dict[str, Any], where: str = "config.json") -> "EncoderConfig":
        """Read the content of a config.json. Raises UserError, naming `where` and the key, for what cannot be used."""
        read_as = model_type_of(d, where)
        family = FAMILIES[MODEL_TYPES[read_as]]
        values = {"model_type": MODEL_TYPES[read_as], "exported_model_type": read_as, **family.fixed}
        for field in _FILE_FIELDS:
            if field in family.fixed:
                continue
            key = family.spelling.get(field, field)
            if key not in d and field in d and field != key:
                key = field  # a DistilBERT config may also use the common names: the reference reads both
            if key in d:
                values[field] = d[key]
            elif field in family.defaults:
                values[field] = family.defaults[field]
            else:
                raise UserError(f"{where}: the key {key!r} is missing{nearest(key, d)}; without it the model's shape is unknown.")
        for key, value in _MUST_NOT_BE.items():
            if d.get(key, value[0]) not in value:
                raise UserError(f"{where}: {key} is {d[key]!r}, which changes the computation in a way this encoder does not follow.")
        return cls(**values, where=where)

    def to_dict(self) -> dict[str, Any]:
        """The content of a config.json, in the family's own field names."""
        family = self.family
        d = {"model_type": self.exported_model_type}
        for field in _FILE_FIELDS:
            if field not in family.fixed:
                d[family.spelling.get(field, field)] = getattr(self, field)
        if d.get("seq_classif_dropout", 0) is None:  # DistilBERT has no "as the other one" here
            d["seq_classif_dropout"] = self.head_dropout
        return d


_FILE_FIELDS = [f.name for f in dataclasses.fields(EncoderConfig)
                if f.name not in ("model_type", "has_pooler", "exported_model_type")]

# Settings that would need other arithmetic: key → the values under which nothing changes.
_MUST_NOT_BE = {"position_embedding_type": ("absolute", None), "is_decoder": (False, None),
                "add_cross_attention": (False, None)}

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def model_type_of(d: Any, where: str = "config.json") -> str:
    """The model type of a config.json, one of MODEL_TYPES; refuses others by name with the list of what works.

    The first BERT files (and BERT-tiny, TinyBERT) carry no `model_type`; BERT's own field names then identify them.
    """
    if not isinstance(d, dict):
        raise UserError(f"{where} holds a {type(d).__name__}, not an object with a model's fields; give the model's own config.json.")
    known = ", ".join(MODEL_TYPES)
    model_type = d.get("model_type")
    if model_type is None:
        classes = d.get("architectures") or []
        bert_class = isinstance(classes, list) and all(str(c).startswith("Bert") for c in classes)
        if bert_class and {"hidden_size", "type_vocab_size", "vocab_size"} <= d.keys():
            return "bert"
        raise UserError(f"{where} has no model_type, so the family is unknown; add one of: {known}.")
    if not isinstance(model_type, str) or model_type not in MODEL_TYPES:
        raise UserError(f"{where}: model_type {model_type!r} is not a family minibert knows; what works: {known}.")
    return model_type


def labels_from_config(d: dict[str, Any], where: str = "config.json") -> list[str] | None:
    """The label names in index order from `id2label` (or `label2id`), or None where the file names none."""
    table = d.get("id2label")
    if table is None and isinstance(d.get("label2id"), dict):
        table = {str(index): name for name, index in d["label2id"].items()}
    if table is None:
        return None
    try:
        names = {int(index): str(name) for index, name in table.items()}
    except (AttributeError, TypeError, ValueError):
        raise UserError(f"{where}: id2label has to map the numbers 0, 1, … to names.") from None
    if sorted(names) != list(range(len(names))) or not names:
        raise UserError(f"{where}: id2label numbers its labels {sorted(names)}; they have to run from 0 without a gap.")
    labels = [names[i] for i in range(len(names))]
    if len(set(labels)) < len(labels):
        twice = next(name for name in labels if labels.count(name) > 1)
        raise UserError(f"{where}: id2label uses the name {twice!r} twice; every label needs its own.")
    return labels


def problem_type(d: dict[str, Any], where: str = "config.json") -> str:
    """`problem_type` of a config.json; left out it is single-label. Regression is refused."""
    value = d.get("problem_type") or "single_label_classification"
    if value not in PROBLEM_TYPES:
        raise UserError(f"{where}: problem_type {value!r} is not classification; what works: {', '.join(PROBLEM_TYPES)}.")
    return value
