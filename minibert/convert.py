"""Weights in and out: Hugging Face key names ↔ ours, one literal table per family, used in both directions.

Loading is strict. Every tensor of the encoder has to be in the file with its exact shape; only a classifier's head
and the pooler may be new, and the LoadReport names them. A key that nobody expects is an error. That is what a
non-strict load gets wrong: it copies what matches, leaves the rest random, and says nothing.

`python -m minibert.convert RUN OUT_DIR` writes a run as a Hugging Face folder with a model card.
"""

from __future__ import annotations

from . import cli

if __name__ == "__main__":
    cli.leave_at_a_signal()

import contextlib
import dataclasses
import json
import os
import pickle
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Sequence

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from . import checkpoint, files, pretrained, tokenization
from .cli import UserError, nearest
from .config import EncoderConfig, labels_from_config, problem_type
from .model import Classifier, Encoder, init_weights

# ours → Hugging Face's, by module; each stands for its `.weight` and `.bias`. {n} is the layer's number.
_BERT = {
    "embeddings.word_embeddings": "embeddings.word_embeddings",
    "embeddings.position_embeddings": "embeddings.position_embeddings",
    "embeddings.token_type_embeddings": "embeddings.token_type_embeddings",
    "embeddings.LayerNorm": "embeddings.LayerNorm",
    "layers.{n}.attention.query": "encoder.layer.{n}.attention.self.query",
    "layers.{n}.attention.key": "encoder.layer.{n}.attention.self.key",
    "layers.{n}.attention.value": "encoder.layer.{n}.attention.self.value",
    "layers.{n}.attention.output": "encoder.layer.{n}.attention.output.dense",
    "layers.{n}.attention_LayerNorm": "encoder.layer.{n}.attention.output.LayerNorm",
    "layers.{n}.feed_forward.intermediate": "encoder.layer.{n}.intermediate.dense",
    "layers.{n}.feed_forward.output": "encoder.layer.{n}.output.dense",
    "layers.{n}.output_LayerNorm": "encoder.layer.{n}.output.LayerNorm",
    "pooler": "pooler.dense",
}
_DISTILBERT = {
    "embeddings.word_embeddings": "embeddings.word_embeddings",
    "embeddings.position_embeddings": "embeddings.position_embeddings",
    "embeddings.LayerNorm": "embeddings.LayerNorm",
    "layers.{n}.attention.query": "transformer.layer.{n}.attention.q_lin",
    "layers.{n}.attention.key": "transformer.layer.{n}.attention.k_lin",
    "layers.{n}.attention.value": "transformer.layer.{n}.attention.v_lin",
    "layers.{n}.attention.output": "transformer.layer.{n}.attention.out_lin",
    "layers.{n}.attention_LayerNorm": "transformer.layer.{n}.sa_layer_norm",
    "layers.{n}.feed_forward.intermediate": "transformer.layer.{n}.ffn.lin1",
    "layers.{n}.feed_forward.output": "transformer.layer.{n}.ffn.lin2",
    "layers.{n}.output_LayerNorm": "transformer.layer.{n}.output_layer_norm",
}
KEYS = {"bert": _BERT, "roberta": _BERT, "distilbert": _DISTILBERT}

NATIVE_HEAD_KEYS = {
    "bert": {"head.classifier": "classifier"},
    "distilbert": {"head.dense": "pre_classifier", "head.classifier": "classifier"},
    "roberta": {"head.dense": "classifier.dense", "head.classifier": "classifier.out_proj"},
}
# Under a name of our own, so that no other program takes a head on the raw [CLS] row for one behind the pooler.
LINEAR_HEAD_KEYS = {"head.classifier": "linear_head"}

# What task and wrapper classes put before every key.
PREFIX = {"bert": "bert.", "distilbert": "distilbert.", "roberta": "roberta."}
WRAPPERS = ("module.", "_orig_mod.")  # DataParallel and torch.compile

# Left out on purpose and without a word: buffers that hold 0, 1, 2, …; pre-training heads; distillation projections.
DROPPED = ("embeddings.position_ids", "embeddings.token_type_ids", "cls.", "lm_head.",
           "vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "fit_dense")
# Heads of tasks: left out where another head is wanted, and named in the report.
OTHER_HEADS = ("classifier.", "pre_classifier.", "linear_head.", "qa_outputs.")


@dataclass
class LoadReport:
    """What a load did: names copied, names newly initialised (ours), keys of the file left out (theirs), and the
    prefixes of other families that keys carried."""

    loaded: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    foreign_prefixes: list[str] = field(default_factory=list)


# ---------------------------------------------------------------------------------------------- reading files

def read_weights(paths: Iterable[str | os.PathLike]) -> dict[str, Tensor]:
    """All tensors of one checkpoint, from one file or several shards, safetensors or PyTorch's own format.

    Raises UserError, naming the file, for one that is damaged, not what its name says, or unsafe to open.
    """
    tensors: dict[str, Tensor] = {}
    for path in map(Path, paths):
        part = _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
        for key in part.keys() & tensors.keys():
            raise UserError(f"{path} holds {key!r}, which another shard holds too; the checkpoint is damaged.")
        tensors.update(part)
    return tensors


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as f:
            tensors = {key: f.get_tensor(key) for key in f.keys()}
            aliases = f.metadata() or {}
    except (SafetensorError, OSError, ValueError, RuntimeError) as e:
        raise UserError(_damaged(path, "a safetensors file", e)) from None
    for alias, stored in aliases.items():  # a tied tensor is stored once; the metadata says under which other name
        if stored in tensors and alias not in tensors:
            tensors[alias] = tensors[stored]
    return tensors


def _read_pickle(path: Path) -> dict[str, Tensor]:
    if torch.__version__ < "2.6":  # until then weights_only could be got round (CVE-2025-32434)
        raise UserError(f"{path} is a pickle, which is safe to open from torch 2.6 on; install the pinned torch, or use .safetensors.")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)  # never anything else: a pickle can run code
    except Exception as e:  # a damaged pickle can raise almost anything
        why = "it is damaged, or it holds more than tensors and opening it could run code; get a .safetensors file instead"
        raise UserError(_damaged(path, "a PyTorch weights file", why if isinstance(e, pickle.UnpicklingError) else e)) from None
    if not isinstance(state, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in state.items()):
        raise UserError(f"{path} does not hold a plain table of named tensors; save the model's state_dict() instead.")
    return state


def _damaged(path: Path, wanted: str, error: Exception | str) -> str:
    if not path.is_file():
        return f"{path} does not exist or is not a file."
    with path.open("rb") as f:
        head = f.read(64).lstrip().lower()
    if head.startswith(b"version https://git-lfs"):
        why = "it is a Git LFS pointer; run `git lfs pull`"
    elif head.startswith((b"<!doctype", b"<html", b"<?xml")):
        why = "it is a web page; download the file itself"
    elif not head:
        why = "it is empty; download it again"
    elif isinstance(error, str):
        why = error
    else:
        why = f"it is cut short or damaged; download it again ({type(error).__name__})"
    return f"{path} cannot be read as {wanted}: {why}."


# ---------------------------------------------------------------------------------------------- names

def key_map(module: Encoder | Classifier) -> dict[str, str]:
    """Hugging Face's key, without prefix → our parameter's name, for every parameter of `module`."""
    config = module.config
    within, pairs = "", {}
    if isinstance(module, Classifier):
        within = "encoder."
        pairs.update(LINEAR_HEAD_KEYS if module.head_type == "linear" else NATIVE_HEAD_KEYS[config.model_type])
    for mine, theirs in KEYS[config.model_type].items():
        for n in range(config.num_hidden_layers if "{n}" in mine else 1):
            pairs[within + mine.replace("{n}", str(n))] = theirs.replace("{n}", str(n))
    ours = {name for name, _ in module.named_parameters()}
    keys = {f"{theirs}.{kind}": f"{mine}.{kind}" for mine, theirs in pairs.items() for kind in ("weight", "bias")}
    keys = {theirs: mine for theirs, mine in keys.items() if mine in ours}
    assert len(keys) == len(ours), f"no key for {sorted(ours - set(keys.values()))}"
    return keys


def canonical(key: str) -> str:
    """A file's key without wrappers and prefix, `gamma`/`beta` (the first BERT files) as `weight`/`bias`.

    Whatever family the prefix names: it is the name of an attribute in somebody's program. config.json says what the
    weights are, and `load_classifier` says aloud where the two disagree.
    """
    key = key[len(_prefix(key)):]
    stem, _, last = key.rpartition(".")
    return f"{stem}.{ {'gamma': 'weight', 'beta': 'bias'}.get(last, last) }" if stem else key


def _prefix(key: str) -> str:
    """All that stands before a key's own name: "module.bert."."""
    rest = key
    while begins := next((p for p in (*WRAPPERS, *PREFIX.values()) if rest.startswith(p)), None):
        rest = rest[len(begins):]
    return key[:len(key) - len(rest)]


def _canonical_state(tensors: dict[str, Tensor], where: str) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    came_from: dict[str, str] = {}
    for key, tensor in tensors.items():
        name = canonical(key)
        if name in state:
            legacy = {key.rpartition(".")[2], came_from[name].rpartition(".")[2]} & {"gamma", "beta"}
            if not (legacy and torch.equal(state[name], tensor)):
                raise UserError(f"{where}: the keys {came_from[name]!r} and {key!r} are two values for one parameter.")
        state[name], came_from[name] = tensor, key
    return state


# ---------------------------------------------------------------------------------------------- loading

def load_state(module: Encoder | Classifier, tensors: dict[str, Tensor], *, where: str = "the checkpoint",
               new_head: bool = False, seed: int = 0) -> LoadReport:
    """Copy a checkpoint into `module` (which may be on the meta device), in float32 whatever the file holds.

    tensors: Hugging Face key → tensor. new_head: the classifier's head is initialised, not read.
    All checks come first, then the initialisation of what is new (from `seed`), then the copy. Raises UserError,
    leaving the module as it was, for missing, unknown or doubled keys and for shapes that differ.
    """
    state = _canonical_state(tensors, where)
    wanted = key_map(module)
    copied = {key: name for key, name in wanted.items() if key in state and not (new_head and name.startswith("head."))}
    fresh = {key: name for key, name in wanted.items() if key not in copied}
    left_out = [key for key in state if key not in copied and not key.startswith(DROPPED)]
    _check_keys(module, where, tensors, copied, fresh, left_out, new_head)
    params = dict(module.named_parameters())
    for key, name in copied.items():
        if state[key].shape != params[name].shape:
            raise UserError(f"{where}: {key} has shape {tuple(state[key].shape)}, but config.json makes it "
                            f"{tuple(params[name].shape)}; the two do not belong together.")
        if not state[key].is_floating_point():
            raise UserError(f"{where}: {key} holds {state[key].dtype}, not floating-point weights; quantised files cannot be loaded.")
    if any(p.is_meta for p in params.values()):
        module._apply(lambda t: torch.empty(t.shape, dtype=t.dtype))  # to_empty() does this, and imports sympy for it (1 s)
    _initialise(module, list(fresh.values()), seed)
    params = dict(module.named_parameters())
    with torch.no_grad():
        for key, name in copied.items():
            params[name].copy_(state[key])
    others = [prefix for family, prefix in PREFIX.items() if family != module.config.model_type]
    carried = {part + "." for key in tensors for part in _prefix(key).split(".")}  # whole names: "distilbert." ends in "bert."
    foreign = [prefix for prefix in others if prefix in carried]
    return LoadReport(list(copied.values()), list(fresh.values()), left_out, foreign)


def _check_keys(module: Encoder | Classifier, where: str, tensors: dict, copied: dict, fresh: dict, left_out: list,
                new_head: bool) -> None:
    config = module.config
    if not any(not name.startswith("head.") for name in copied.values()):
        begins = ", ".join(map(repr, list(tensors)[:3])) or "nothing"
        raise UserError(f"{where}: not one of its {len(tensors)} keys belongs to a {config.model_type} encoder, which config.json "
                        f"says it is (they begin with {begins}); get the weights and the config.json of one model.")
    # A new head may come with a new pooler; a trained head that lost the pooler it reads would be random.
    pooler_needed = isinstance(module, Classifier) and not new_head and module.head.spec.reads_pooler
    missing = [key for key, name in fresh.items() if not (new_head and name.startswith("head."))
               and (pooler_needed or not key.startswith("pooler."))]
    if missing:
        raise UserError(f"{where}: {len(missing)} weights are missing ({_some(missing)}); without them those parts would be random.")
    known = OTHER_HEADS + (("pooler.",) if config.family.has_pooler else ())
    unknown = [key for key in left_out if not key.startswith(known)]
    if unknown:
        raise UserError(f"{where}: {len(unknown)} keys are not part of a {config.model_type} with {config.num_hidden_layers} layers "
                        f"({_some(unknown)}){nearest(unknown[0], [*copied, *fresh])}; config.json and the weights do not belong together.")


def _initialise(module: nn.Module, names: list[str], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for stem in dict.fromkeys(name.rpartition(".")[0] for name in names):
        init_weights(module.get_submodule(stem), module.config.initializer_range, generator)


def _some(keys: list[str], most: int = 5) -> str:
    return ", ".join(keys[:most]) + (f" and {len(keys) - most} more" if len(keys) > most else "")


@contextlib.contextmanager
def _without_values() -> Iterator[None]:
    """Modules built here have shapes only: no memory and no random numbers before the file is known to fit.

    torch's own initialisation is out of the way too: on such tensors it would draw nothing, but import torch's
    compiler first, which takes seconds.
    """
    normal, nn.init.normal_ = nn.init.normal_, lambda tensor, *args, **kwargs: tensor
    try:
        with torch.device("meta"):
            yield
    finally:
        nn.init.normal_ = normal


def load_encoder(name: str | os.PathLike, *, revision: str | None = None, implementation: str = "sdpa",
                 say: Callable[[str], Any] = print) -> Encoder:
    """An Encoder with published weights, from a hub name or a folder: float32, its LoadReport as `.load_report`.

    Raises UserError (a ValueError) if there is no such model, it is of another family or its weights do not fit.
    """
    found = pretrained.resolve(name, revision)
    where = f"{found.name}: config.json"
    tensors = read_weights(found.weights)
    config = _with_pooler_of(EncoderConfig.from_dict(found.config, where), tensors)
    with _without_values():
        encoder = Encoder(config, implementation)
    encoder.load_report = load_state(encoder, tensors, where=found.name)
    _tell(encoder.load_report, found.name, say)
    return encoder


def load_classifier(name: str | os.PathLike, num_labels: int | None = None, head: str | None = None, *,
                    labels: Sequence[str] | None = None, revision: str | None = None, implementation: str = "sdpa",
                    seed: int = 0, dropout: float | None = None, attention_dropout: float | None = None,
                    multi_label: bool = False, say: Callable[[str], Any] = print) -> Classifier:
    """A Classifier from a hub name or a folder: float32, its LoadReport as `.load_report`.

    Without `num_labels` and `labels`: the saved classifier as it is, with its own head and label names. With either:
    a new head ("linear" unless `head` says "native") on the saved encoder, initialised from `seed` and announced
    through `say`; `multi_label` makes it independent yes/no answers. `dropout` (hidden and head) and `attention_dropout` replace the rates of config.json.
    Raises UserError (a ValueError) where the files do not hold what is asked for.
    """
    found = pretrained.resolve(name, revision)
    where = f"{found.name}: config.json"
    config = EncoderConfig.from_dict(found.config, where)
    tensors = read_weights(found.weights)
    config = _with_pooler_of(config, tensors)
    if dropout is not None:
        config = dataclasses.replace(config, hidden_dropout_prob=dropout, classifier_dropout=dropout)
    if attention_dropout is not None:
        config = dataclasses.replace(config, attention_probs_dropout_prob=attention_dropout)
    new_head = num_labels is not None or labels is not None
    if new_head:
        names = _label_names(num_labels, labels, 1 if multi_label else 2)
        kind = head or "linear"
        problem = "multi_label_classification" if multi_label else "single_label_classification"
    else:
        names, kind, problem = _saved_head(found.name, found.config, where, config.model_type, tensors, head)
    with _without_values():
        classifier = Classifier(config, len(names), kind, implementation)
    classifier.labels, classifier.problem_type = names, problem
    classifier.load_report = load_state(classifier, tensors, where=found.name, new_head=new_head, seed=seed)
    if new_head:
        count = sum(p.numel() for p in classifier.head.parameters())
        say(f"new {kind} head for {len(names)} labels ({count:,} parameters, seed {seed}) on the encoder of {found.name}.")
    _tell(classifier.load_report, found.name, say)
    return classifier


def _with_pooler_of(config: EncoderConfig, tensors: dict[str, Tensor]) -> EncoderConfig:
    """RoBERTa's head reads no pooler and many of its files have none: then none is built. BERT's always is."""
    has = any(canonical(key).startswith("pooler.") for key in tensors)
    return config if has or config.model_type == "bert" else dataclasses.replace(config, has_pooler=False)


def _label_names(num_labels: int | None, labels: Sequence[str] | None, least: int) -> list[str]:
    if labels is None:
        if not isinstance(num_labels, int) or isinstance(num_labels, bool) or num_labels < 1:
            raise UserError(f"num_labels is {num_labels!r}; it has to be a whole number from {least}.")
        names = [f"LABEL_{i}" for i in range(num_labels)]
    else:
        names = [str(label) for label in labels]
        if not names or len(set(names)) < len(names) or num_labels not in (None, len(names)):
            raise UserError(f"labels {names} do not name {num_labels or 'the'} classes, each once.")
    if len(names) < least:  # softmax of one output is 1 whatever the text
        raise UserError("a classifier needs at least two labels, and one was asked for; for yes or no use two labels, or "
                        "multi_label=True (independent answers).")
    return names


def _saved_head(name: str, d: dict, where: str, model_type: str, tensors: dict[str, Tensor],
                head: str | None) -> tuple[list[str], str, str]:
    """Label names, head type and problem type of the classifier a checkpoint holds."""
    state = {canonical(key): tensor for key, tensor in tensors.items()}
    way_out = f"train one on its encoder first (python train.py --model {name}), or from Python give num_labels for a new head"
    kinds = {"linear": LINEAR_HEAD_KEYS, "native": NATIVE_HEAD_KEYS[model_type]}
    found = [kind for kind, keys in kinds.items() if all(f"{theirs}.weight" in state for theirs in keys.values())]
    classes = d.get("architectures") or []
    if not isinstance(classes, list):
        raise UserError(f"{where}: architectures is {classes!r}; it has to be a list of class names.")
    classes = [str(c) for c in classes]
    other_task = [c for c in classes if "For" in c and not c.endswith("ForSequenceClassification")]
    # Parts of a head, or a config.json that promises one: what is missing is then a key, not the classifier.
    parts = [key for key in state if key.startswith(OTHER_HEADS) and not key.startswith("qa_outputs.")]
    if not found and not other_task and (parts or any(c.endswith("ForSequenceClassification") for c in classes)):
        meant = "linear" if any(key.startswith("linear_head.") for key in parts) else "native"
        missing = [f"{theirs}.{k}" for theirs in kinds[meant].values() for k in ("weight", "bias") if f"{theirs}.{k}" not in state]
        unknown = [key for key in state if key not in parts and not key.startswith(("embeddings.", "encoder.", "transformer.", "pooler.", *DROPPED))]
        raise UserError(f"{name}: its classifier lacks {_some(missing)}" + (f" (the file has {_some(parts + unknown)})" if parts + unknown else "")
                        + f"; get the file again or correct the name, or {way_out}.")
    if not found or (other_task and found == ["native"]):
        what = other_task[0] if other_task else "an encoder"
        raise UserError(f"{name} is {what} without a text classifier; {way_out}.")
    kind = found[0]
    if head not in (None, kind):
        raise UserError(f"{name} holds a classifier with a {kind} head, not a {head} one; {way_out}.")
    rows = state[kinds[kind]["head.classifier"] + ".weight"].shape[0]
    labels = labels_from_config(d, where) or [f"LABEL_{i}" for i in range(rows)]
    if len(labels) != rows:
        raise UserError(f"{where} names {len(labels)} labels ({_some(labels)}), but the saved head has {rows} outputs; "
                        "correct id2label.")
    problem = problem_type(d, where)
    if rows == 1 and problem == "single_label_classification":
        raise UserError(f"{name} has one output: it predicts a number (regression), and minibert classifies; {way_out}.")
    return labels, kind, problem


def _tell(report: LoadReport, name: str, say: Callable[[str], Any]) -> None:
    if report.foreign_prefixes:
        say(f"{name}: its keys carry the prefix {_some(report.foreign_prefixes)} though its config.json names another family; config.json "
            "is followed. If that is wrong, correct its model_type.")
    fresh = [key for key in report.fresh if not key.startswith("head.")]
    if fresh:
        say(f"{name} has no {_some(fresh)}: newly initialised.")
    heads = [key for key in report.left_out if key.startswith(OTHER_HEADS)]
    if heads:
        say(f"{name} has a head for another task ({_some(heads)}): left out.")


# ---------------------------------------------------------------------------------------------- saving

def save_classifier(classifier: Classifier, folder: str | os.PathLike, extra_config: dict[str, Any] = {}) -> None:
    """Write `config.json` and `model.safetensors` in Hugging Face's layout and names, each whole or not at all.

    A native head goes out as the family's …ForSequenceClassification. A linear one goes out as the bare encoder
    (architectures […Model]) with `linear_head.*` beside it.
    """
    folder = Path(folder)
    config, native = classifier.config, classifier.head_type == "native"
    labels = classifier.labels
    d = {"architectures": [config.class_prefix + ("ForSequenceClassification" if native else "Model")],
         **config.to_dict(),
         "id2label": {str(i): name for i, name in enumerate(labels)}, "label2id": {name: i for i, name in enumerate(labels)},
         "problem_type": classifier.problem_type, **extra_config}
    prefix = PREFIX[config.model_type] if native else ""
    params = dict(classifier.named_parameters())
    tensors = {(prefix if name.startswith("encoder.") else "") + key: params[name].detach().float().cpu().contiguous()
               for key, name in key_map(classifier).items()}
    files.write_atomic(folder / "model.safetensors", lambda temp: save_file(tensors, temp, metadata={"format": "pt"}))
    files.write_json(folder / "config.json", d)


# ---------------------------------------------------------------------------------------------- a run as a Hugging Face folder

def export(run: str | os.PathLike, out: str | os.PathLike) -> None:
    """Write a finished run as a Hugging Face folder with a model card.

    The temperature fitted on validation goes into the last Linear: (x·Wᵀ + b)/T = x·(W/T)ᵀ + b/T. Thresholds have no
    place in the format; the card names them. Raises UserError for a linear head, a family of seeds, a full folder.
    """
    run, out = Path(run), Path(out)
    seeds = checkpoint.seed_folders(run) if run.is_dir() else []
    if seeds and not checkpoint.finished(run):
        raise UserError(f"{run} holds several seeds; name one of them: {', '.join(str(s) for s in seeds)}.")
    check_empty(out)
    info = checkpoint.load_run(run).info
    if missing := [key for key in ("model", "labels") if key not in info]:
        raise UserError(f"{run / 'run.json'} says nothing of {_some(missing)}: it is not the record that train.py wrote; restore it or retrain.")
    classifier = load_classifier(run)
    if classifier.head_type == "linear":
        raise UserError(f"{run} has a linear head, which reads the raw [CLS] row; {classifier.config.class_prefix}ForSequenceClassification "
                        "puts other layers in front and would compute something else: train with `--head native` to export.")
    last, temperature = classifier.head.classifier, float(info.get("temperature") or 1.0)
    with torch.no_grad():
        last.weight /= temperature
        last.bias /= temperature
    tokenizer = tokenization.load_tokenizer(run)
    metrics = files.read_json(run / "metrics.json", "metrics") if (run / "metrics.json").is_file() else {}
    card = model_card(info, metrics, classifier)
    with files.folder_lock(out, "a conversion"):
        check_empty(out)  # another conversion may have ended meanwhile
        for left in out.glob(".*.tmp"):  # by one that was killed while writing
            left.unlink(missing_ok=True)
        tokenizer.save(out)
        files.write_atomic(out / "README.md", card)
        save_classifier(classifier, out)
        (out / ".lock").unlink(missing_ok=True)


def check_empty(out: Path) -> None:
    """Raises UserError for a folder that holds something, but for what a conversion leaves that was killed: it writes
    tokenizer.json first, and config.json, without which nobody opens a model, last.
    """
    ours = {"README.md", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt", ".lock"}
    with files.storage_faults(f"write to {out}"):
        names = {p.name for p in out.iterdir() if not re.fullmatch(r"\..+\.tmp", p.name)} if out.is_dir() else set()
        if out.exists() and not out.is_dir() or not names <= (ours if "tokenizer.json" in names else {".lock"}):
            raise UserError(f"{out} is not an empty folder; choose a new one, so that nothing is overwritten.")


def model_card(info: dict[str, Any], metrics: dict[str, Any], classifier: Classifier) -> str:
    """README.md of an exported model, in Markdown: data, figures, limits. From run.json and metrics.json."""
    data, n = info.get("data") or {}, (info.get("data") or {}).get("n") or {}
    base = str(info["model"])
    head = ["---", "library_name: transformers", "pipeline_tag: text-classification"]
    if Path(base).exists():
        base = f"the weights in `{Path(base).resolve().name}`"
    elif base == "tiny":
        base = "random weights"
    else:
        head.append(f"base_model: {json.dumps(base)}")
        base = f"`{base}`"
    lines = [*head, "---", "", f"# {data.get('name', 'Text classifier')}: {', '.join(classifier.labels)}", "",
             f"A {classifier.config.class_prefix}ForSequenceClassification ({classifier.problem_type.replace('_', ' ')}), trained with "
             f"minibert {info.get('minibert', '')} from {base}.", "",
             "## Data", "", f"{data.get('name', 'not recorded')}: " + ", ".join(f"{count:,} {split} rows" for split, count in n.items()) + ".", ""]
    if data.get("label_counts"):
        lines += _table(["label", "training rows"], _label_counts(data["label_counts"])) + [""]
    return "\n".join([*lines, "## Figures", "", *_figures(metrics), "", "## Decisions", "", *_decisions(info, classifier), "",
                      "## Limits", "", *_limits(info, metrics)]) + "\n"


def _label_counts(counts: dict[str, Any]) -> list[list[str]]:
    counts = counts.get("train", counts) if isinstance(counts.get("train", None), dict) else counts
    return [[label, f"{count:,}"] for label, count in counts.items()]


def _figures(metrics: dict[str, Any]) -> list[str]:
    rows, classes = [], []
    for split in ("test", "val"):
        figures = metrics.get(split)
        if not figures:
            continue
        for name, block in [("this model", figures), *(figures.get("baselines") or {}).items()]:
            low, high = block.get("macro_f1_ci95") or (None, None)
            rows.append([split, name, str(figures.get("n", "")), f"{block['accuracy']:.4f}", f"{block['macro_f1']:.4f}",
                         "" if low is None else f"{low:.4f} to {high:.4f}"])
        classes += [[split, label, *(f"{c[k]:.4f}" for k in ("precision", "recall", "f1")), str(c["support"])]
                    for label, c in (figures.get("per_class") or {}).items()]
    if not rows:
        return ["None were measured."]
    return (_table(["split", "model", "rows", "accuracy", "macro-F1", "95 % interval"], rows) + [""]
            + _table(["split", "label", "precision", "recall", "F1", "rows"], classes))


def _decisions(info: dict[str, Any], classifier: Classifier) -> list[str]:
    lines = [f"- The logits are already divided by the temperature fitted on validation ({info.get('temperature') or 1.0:.4g}): "
             f"{'sigmoid' if classifier.problem_type.startswith('multi') else 'softmax'} of them gives calibrated probabilities."]
    for label, threshold in (info.get("thresholds") or {}).items():
        lines.append(f"- `{label}` counts as present from a probability of {threshold:.4g} (tuned on validation; not part of the weights).")
    if info.get("decision_threshold"):
        rule = info["decision_threshold"]
        lines.append(f"- `{rule['label']}` is chosen from a probability of {rule['value']:.4g}, not 0.5 (tuned on validation; not part of the weights).")
    return lines


def _limits(info: dict[str, Any], metrics: dict[str, Any]) -> list[str]:
    lines = ["- The figures hold for text like the training data; on other text they can be much lower.",
             "- The epoch, the temperature and any threshold were chosen on validation, so the validation figures flatter."]
    if not metrics.get("test"):
        lines.append("- It has not been measured on a test set.")
    per_class = (metrics.get("test") or metrics.get("val") or {}).get("per_class")
    if per_class:
        weakest = min(per_class, key=lambda label: per_class[label]["f1"])
        lines.append(f"- Its weakest class is `{weakest}`: of {per_class[weakest]['support']} it finds {per_class[weakest]['recall']:.0%}.")
    how = info.get("truncate", "right")
    lines.append(f"- It reads at most {info.get('max_len', 'the table’s')} tokens of a text"
                 + (": the first ones." if how == "right" else f"; it was trained and measured with `--truncate {how}`, "
                    "which a plain pipeline does not do: it cuts on the right."))
    return lines


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    clean = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in [header, ["---"] * len(header), *rows]]
    return ["| " + " | ".join(row) + " |" for row in clean]


def main(argv: Sequence[str]) -> None:
    p = cli.parser(dataclasses.make_dataclass("NoFlags", []), "python -m minibert.convert",
                   "Write a finished run with a native head as a Hugging Face folder with a model card.")
    p.add_argument("run", metavar="RUN", help="the run folder")
    p.add_argument("out", metavar="OUT_DIR", help="a new folder")
    given = cli.parse(p, argv)
    export(given["run"], given["out"])
    print(f"{given['out']} opens with AutoModelForSequenceClassification and AutoTokenizer.")


if __name__ == "__main__":
    cli.run(main)
