"""Text to token ids and back: the `tokenizers` library behind one small class.

    text ──ids──▶ content ids ──build──▶ [CLS] … [SEP] within max_len ──batch──▶ padded int64 tensors

The library is configured once, when a tokenizer is loaded, and never again: truncation, padding and the special
tokens around a text are done here, in Python, where they can be read. That also makes the object thread-safe
(setting a truncation length on a shared library object while another thread encodes is a data race).
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from .cli import UserError
from .config import EncoderConfig
from .files import read_json, write_atomic, write_json

if TYPE_CHECKING:  # importing torch takes seconds, and ids need none of it
    import torch

TRUNCATIONS = ("right", "left", "head+tail")
SOURCES = ("tokenizer.json", "vocab.txt", "vocab.json + merges.txt")

# Texts handed to the library at once: its Encoding objects take some 200 bytes a token, so a chunk is bounded
# both in texts and in characters, however large the data set is.
_CHUNK_TEXTS, _CHUNK_CHARS = 1024, 2_000_000
_SHORTEN_FROM = 10_000  # characters of a text in which over-long words are looked for: some take the library minutes a MB


@dataclass(frozen=True)
class Layout:
    """The special ids around a text (`before A after`) or a pair (`before A between B after`).

    BERT: [CLS] A [SEP] B [SEP].  RoBERTa: <s> A </s> </s> B </s>.
    `segments`: whether B (and the [SEP] behind it) has token type 1; False where the model has one segment or none.
    """
    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    segments: bool


class Tokenizer:
    """A BERT-family tokenizer: content ids, truncation that always ends in [SEP], padded batches, display.

    Made by `load_tokenizer` or `train_wordpiece`. Attributes: `vocab_size` (largest id + 1), `pad_id`, `unk_id`,
    `cls_id`, `sep_id`, `mask_id` (None where the vocabulary has none), `family` ("bert", "distilbert" or
    "roberta"), `max_tokens` (longest input the model's position table takes, None when unknown), `saved_cut`
    (model_max_length or None, truncation side: how its files say that texts are cut).
    """

    def __init__(self, backend: tokenizers.Tokenizer, special: dict[str, str], family: str,
                 max_tokens: int | None = None, segments: bool = True, saved_cut: tuple[int | None, str] = (None, "right")):
        """`special` maps "pad_token", "unk_token", "cls_token", "sep_token" and perhaps "mask_token" to their strings;
        `segments` is False where the model has no second segment; `saved_cut` is what `save` writes unless told
        otherwise: (model_max_length, truncation_side)."""
        backend.no_truncation()  # what a file brought along is an earlier run's setting, not this one's
        backend.no_padding()
        if isinstance(backend.model, models.BPE):
            backend.model.dropout = None  # merges left out at random: a setting for pre-training
        self._backend = backend
        self._special = special
        self.saved_cut = saved_cut
        self.family = family
        self.max_tokens = max_tokens
        self.vocab_size = max(backend.get_vocab(with_added_tokens=True).values()) + 1
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = (
            backend.token_to_id(special[f"{name}_token"]) for name in ("pad", "unk", "cls", "sep"))
        self.mask_id = backend.token_to_id(special["mask_token"]) if "mask_token" in special else None
        self.layout = _layout(backend, self.cls_id, self.sep_id, segments)
        self._special_ids = {self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id}
        self._bytes = _byte_alphabet() if isinstance(backend.model, models.BPE) else None
        self._shapes = _shapes(backend)

    # ---------------------------------------------------------------- text → content ids

    def ids(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The content ids of each text, int32: no special tokens added, nothing cut off.

        Empty, blank and control-only texts give an empty array. Raises UserError for an item that is no string.
        """
        return [np.array(e.ids, dtype=np.int32) for chunk in _chunks(self._clean(texts))
                for e in self._encode(lambda: self._backend.encode_batch_fast(chunk, add_special_tokens=False))]

    def offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The content ids of one text and, for each, its (start, end) in characters of `text`: text[start:end]."""
        _check_strings([text])
        encoding = self._encode(lambda: self._backend.encode(_no_surrogates(text), add_special_tokens=False))
        return list(encoding.ids), [tuple(pair) for pair in encoding.offsets]

    def _clean(self, texts: Sequence[str]) -> list[str]:
        _check_strings(texts)
        return [self._shorten(_no_surrogates(t)) for t in texts]

    def _shorten(self, text: str) -> str:
        # WordPiece makes any word over 100 characters one [UNK], whatever the rest of it: keep 101 of them. Of each run
        # only inner characters go, so that what stands beside it (an added token, say) keeps its neighbours.
        if self._shapes is None or len(text) < _SHORTEN_FROM:
            return text
        longest = self._backend.model.max_input_chars_per_word
        for run in (rb"(d)d+(?=d)", rb"(?<![wd])((?:d{0,2}w){%d})[wd]+(?=[wd])" % (longest + 1)):
            kept, at = [], 0
            for found in re.finditer(run, self._shapes.of(text)):
                kept.append(text[at:found.end(1)])
                at = found.end()
            text = "".join([*kept, text[at:]])
        return text

    @staticmethod
    def _encode(call: Callable[[], Any]) -> Any:
        return _library(call, "the tokenizer cannot encode this text")

    # ---------------------------------------------------------------- content ids → model input

    def num_special(self, pair: bool = False) -> int:
        """How many special tokens `build` adds: 2 for a text; 3 (BERT) or 4 (RoBERTa) for a pair."""
        return len(self.layout.before) + len(self.layout.after) + (len(self.layout.between) if pair else 0)

    def room(self, max_len: int, pair: bool = False) -> int:
        """Content tokens that fit into `max_len`, itself capped at `max_tokens`. Raises UserError below 1."""
        if isinstance(max_len, bool) or not isinstance(max_len, (int, np.integer)):
            raise UserError(f"max_len must be a whole number of tokens, not {max_len!r}.")
        limit = int(max_len) if self.max_tokens is None else min(int(max_len), self.max_tokens)
        # The library itself returns the whole text, silently, when asked for less than the special tokens need.
        if limit <= self.num_special(pair):
            raise UserError(f"max_len {max_len} leaves no room for text beside the {self.num_special(pair)} special "
                            f"tokens; choose at least {self.num_special(pair) + 1}.")
        return limit - self.num_special(pair)

    def build(self, a: Sequence[int], b: Sequence[int] | None = None, max_len: int = 256,
              truncate: str = "right") -> tuple[list[int], list[int]]:
        """(input_ids, token_type_ids) of one text or pair: cut to fit, then [CLS] and [SEP] put around.

        a, b: content ids from `ids`. `truncate` says which end goes: "right", "left", or "head+tail" (the middle).
        A pair is cut longest first: the shorter side keeps all it has, up to half of the room.
        Never longer than max_len nor max_tokens, and the last id is always [SEP].
        """
        room = self.room(max_len, pair=b is not None)
        if b is None:
            return self._wrap(cut(a, room, truncate))
        room_a, room_b = _share(len(a), len(b), room)
        return self._wrap(cut(a, room_a, truncate), cut(b, room_b, truncate))

    def windows(self, a: Sequence[int], b: Sequence[int] | None = None, max_len: int = 256,
                stride: int = 64) -> list[tuple[list[int], list[int]]]:
        """A long text as several model inputs, neighbours sharing `stride` content tokens; at least one window.

        Of a pair, `a` is cut into windows and each carries `b`, cut to half of the room where both are long.
        Raises UserError unless 0 <= stride < the content tokens that every window has.
        """
        room = self.room(max_len, pair=b is not None)
        narrowest = room if b is None else room - room // 2
        if not 0 <= stride < narrowest:
            raise UserError(f"stride {stride} must be at least 0 and below {narrowest}, the text tokens of one window at "
                            f"max_len {max_len}.")
        kept_b = None if b is None else cut(b, max(room - len(a), room // 2), "right")
        size = room - len(kept_b or [])
        if len(a) <= size:
            return [self._wrap(cut(a, size, "right"), kept_b)]
        # A window that began within the last `stride` tokens would hold only what its neighbour holds.
        starts = range(0, len(a) - stride, size - stride)
        return [self._wrap(cut(a[start:start + size], size, "right"), kept_b) for start in starts]

    def _wrap(self, a: list[int], b: list[int] | None = None) -> tuple[list[int], list[int]]:
        before, between, after, segments = (self.layout.before, self.layout.between, self.layout.after,
                                            self.layout.segments)
        if b is None:
            ids = [*before, *a, *after]
            return ids, [0] * len(ids)
        ids = [*before, *a, *between, *b, *after]
        second = len(b) + len(after)
        return ids, [0] * (len(ids) - second) + [int(segments)] * second

    def batch(self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_len: int = 256,
              truncate: str = "right") -> dict[str, torch.Tensor]:
        """{"input_ids", "attention_mask", "token_type_ids"}: (B, S) int64, padded right to the longest of the batch.

        attention_mask is 1 on real tokens, 0 on padding. An empty list gives (0, 0) tensors.
        """
        if isinstance(texts, str):
            raise UserError("batch takes a list of texts; wrap a single one: batch([text]).")
        if pairs is not None and len(pairs) != len(texts):
            raise UserError(f"{len(texts)} texts but {len(pairs)} second texts; each text needs its pair.")
        seconds = [None] * len(texts) if pairs is None else self.ids(pairs)
        rows = [self.build(a, b, max_len, truncate) for a, b in zip(self.ids(texts), seconds)]
        return self.pad(rows)

    def pad(self, rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> dict[str, torch.Tensor]:
        """The batch of rows made by `build` or `windows`: see `batch`."""
        import torch
        shape = (len(rows), max((len(ids) for ids, _ in rows), default=0))
        input_ids, mask, types = np.full(shape, self.pad_id, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for i, (ids, type_ids) in enumerate(rows):
            input_ids[i, :len(ids)] = ids
            mask[i, :len(ids)] = 1
            types[i, :len(ids)] = type_ids
        return {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(mask),
                "token_type_ids": torch.from_numpy(types)}

    # ---------------------------------------------------------------- display and checks

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """One displayable string per id. WordPiece keeps its ## (a piece that continues a word); byte-level and
        sentencepiece tokens show the space they begin with ("Ġfilm", "▁film" → " film"); of a character that is split
        over several tokens each shows "\ufffd". An id outside the vocabulary: "<id 123>"."""
        out = []
        for i in map(int, ids):
            token = self._backend.id_to_token(i) if 0 <= i < self.vocab_size else None
            out.append(f"<id {i}>" if token is None else token if i in self._special_ids else self._show(token))
        return out

    def _show(self, token: str) -> str:
        if self._bytes is None:
            return token.replace("▁", " ")
        if all(c in self._bytes for c in token):  # an added token is stored as it reads
            return bytes(self._bytes[c] for c in token).decode("utf-8", "replace")
        return token

    def unknown_share(self, ids: Sequence[int]) -> float:
        """Share of ids that are the unknown token, 0.0 for an empty text: above some percent the model reads little."""
        ids = np.asarray(ids)
        return float((ids == self.unk_id).mean()) if ids.size else 0.0

    # ---------------------------------------------------------------- writing

    def save(self, folder: str | Path, max_len: int | None = None, truncate: str | None = None) -> None:
        """Write tokenizer.json and tokenizer_config.json (and vocab.txt for WordPiece), each whole or not at all.

        `AutoTokenizer.from_pretrained(folder)` then gives the same ids. No truncation or padding is stored in
        tokenizer.json; `max_len` becomes model_max_length and "left" the truncation side, so that a reader's
        tokenizer cuts as this one did ("head+tail" and windows have no name there: such a reader cuts on the right).
        Left out, both are as they were in the files this tokenizer was read from.
        """
        folder = Path(folder)
        length, side = self.saved_cut
        lengths = [n for n in (max_len or length, self.max_tokens) if n is not None]
        config: dict[str, Any] = {"tokenizer_class": _class_name(self._backend, self.family), **self._special,
                                  **_casing(self._backend)}
        if not isinstance(self._backend.model, models.WordPiece):  # RoBERTa's class knows [CLS] and [SEP] by these names too
            config["bos_token"], config["eos_token"] = self._special["cls_token"], self._special["sep_token"]
        if lengths:
            config["model_max_length"] = min(lengths)
        config["truncation_side"] = side if truncate is None else "left" if truncate == "left" else "right"
        config["padding_side"] = "right"
        config["clean_up_tokenization_spaces"] = False
        write_atomic(folder / "tokenizer.json", self._backend.to_str(pretty=False))
        write_json(folder / "tokenizer_config.json", config)
        if isinstance(self._backend.model, models.WordPiece):
            write_atomic(folder / "vocab.txt", _vocab_txt(self._backend))


# -------------------------------------------------------------------- truncation

def cut(ids: Sequence[int], room: int, truncate: str) -> list[int]:
    """At most `room` of the ids, as a list of int.

    "head+tail" keeps both ends and drops the middle (Sun et al. 2019, "How to Fine-Tune BERT for Text
    Classification?", section 5.3.1: the first 128 and the last 382 of 510). For another room the head is the same
    share of it, round(room * 128 / 510), and the tail the rest.
    """
    if truncate not in TRUNCATIONS:
        raise UserError(f"truncate must be one of {', '.join(TRUNCATIONS)}, not {truncate!r}.")
    if len(ids) <= room:
        kept = ids
    elif truncate == "right":
        kept = ids[:room]
    elif truncate == "left":
        kept = ids[len(ids) - room:]
    else:
        head = round(room * 128 / 510)
        kept = [*ids[:head], *ids[len(ids) - (room - head):]]
    return np.asarray(kept, dtype=np.int64).tolist()


def _share(n_a: int, n_b: int, room: int) -> tuple[int, int]:
    """How the room of a pair is divided: (for a, for b). As the reference does it, one token at a time off the longer."""
    short, long = min(n_a, n_b), max(n_a, n_b)
    if short + long <= room:
        return n_a, n_b
    if short > room // 2:
        short = room // 2
    return (short, room - short) if n_a <= n_b else (room - short, short)


# -------------------------------------------------------------------- reading

def load_tokenizer(name_or_folder: str | Path, revision: str | None = None) -> Tokenizer:
    """The tokenizer of a checkpoint: a local folder, or a hub name (downloaded once, then cached).

    Reads tokenizer.json; else vocab.txt with the casing of tokenizer_config.json; else vocab.json + merges.txt.
    Raises UserError, one sentence, when none is there or a file is damaged.
    """
    folder = Path(name_or_folder).expanduser()
    if not folder.is_dir():
        from .pretrained import resolve
        folder = resolve(str(name_or_folder), revision=revision, weights=False).folder
    return _read(folder)


def _read(folder: Path) -> Tokenizer:
    settings = _json_object(folder / "tokenizer_config.json")
    if (folder / "tokenizer.json").is_file():
        where = folder / "tokenizer.json"
        text = _text(where)
        backend = _library(lambda: tokenizers.Tokenizer.from_str(text),
                           f"{where} is damaged, or was written by a newer version of the tokenizers library")
        _check_casing(backend, settings, folder)
    elif (folder / "vocab.txt").is_file():
        where = folder / "vocab.txt"
        backend = _from_vocab_txt(where, settings)
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        where = folder / "vocab.json"
        backend = _from_merges(folder, settings)
    else:
        raise UserError(f"{folder} holds no tokenizer: looked for {', '.join(SOURCES)}; copy the tokenizer files of the "
                        "checkpoint there.")
    return _library(lambda: _assemble(folder, where, backend, settings), f"{where} does not work as a tokenizer")


def _assemble(folder: Path, where: Path, backend: tokenizers.Tokenizer, settings: dict[str, Any]) -> Tokenizer:
    config = _json_object(folder / "config.json")
    named = {**_json_object(folder / "special_tokens_map.json"), **settings}
    special = _special_tokens(backend, named, config, where)
    _add_special(backend, special, named)
    stated = settings.get("model_max_length")
    # "no limit" is written as 1e30
    length = int(stated) if isinstance(stated, (int, float)) and not isinstance(stated, bool) and 2 < stated < 1e6 else None
    if config:
        model = EncoderConfig.from_dict(config, str(folder / "config.json"))
        family, longest, segments = model.model_type, model.max_tokens, model.type_vocab_size > 1
    else:
        family, longest, segments = ("bert" if isinstance(backend.model, models.WordPiece) else "roberta"), length, True
    side = "left" if settings.get("truncation_side") == "left" else "right"
    tokenizer = Tokenizer(backend, special, family, longest, segments, (length, side))
    tokenizer.ids(["a ∆ 例 😃"])  # a vocabulary without its unknown token fails only on a text that needs it
    return tokenizer


def _check_casing(backend: tokenizers.Tokenizer, settings: dict[str, Any], folder: Path) -> None:
    """tokenizer.json decides; say so where tokenizer_config.json, which other programs may follow, says otherwise."""
    for key, value in _casing(backend).items():
        if value is not None and settings.get(key, value) not in (value, None):
            warnings.warn(f"{folder}: tokenizer.json has {key} {value}, tokenizer_config.json {settings[key]}; "
                          "tokenizer.json is followed.", stacklevel=2)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise UserError(f"{path} is not UTF-8 text (byte {e.start}): the file is damaged or not what its name says.") from None
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror}.") from None


def _json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file, {} if there is no such file."""
    if not path.is_file():
        return {}
    value = read_json(path, "tokenizer's settings")
    if not isinstance(value, dict):
        raise UserError(f"{path} must hold a JSON object ({{…}}), not a {type(value).__name__}.")
    return value


def _from_vocab_txt(path: Path, settings: dict[str, Any]) -> tokenizers.Tokenizer:
    vocab: dict[str, int] = {}
    for i, token in enumerate(_text(path).rstrip("\n").split("\n")):
        if token in vocab:
            raise UserError(f"{path} lists {token!r} twice (lines {vocab[token] + 1} and {i + 1}), so its ids are not "
                            "the model's; get the file again.")
        vocab[token] = i
    lower = _switch(settings, "do_lower_case", path)
    if lower is None:
        # A lower-cased vocabulary cannot hold a capital, special tokens and [unused…] apart.
        capitals = [t for t in vocab if t != t.lower() and not (t.startswith("[") and t.endswith("]"))]
        lower = not capitals
        warnings.warn(f"{path.parent} does not say whether the model is cased (no do_lower_case in "
                      f"tokenizer_config.json); taken as {'uncased' if lower else 'cased'}, since its vocabulary has "
                      f"{'no capital letters' if lower else f'capitals such as {capitals[0]!r}'}.", stacklevel=2)
    chinese = _switch(settings, "tokenize_chinese_chars", path)
    return wordpiece(vocab, lower, strip_accents=_switch(settings, "strip_accents", path),
                     chinese=True if chinese is None else chinese, unknown=_content(settings.get("unk_token")) or "[UNK]")


def _switch(settings: dict[str, Any], key: str, beside: Path) -> bool | None:
    """A true/false setting of tokenizer_config.json, None where it is left out."""
    value = settings.get(key)
    if value is not None and not isinstance(value, bool):
        raise UserError(f"{beside.parent / 'tokenizer_config.json'}: {key} is {value!r}; it has to be true or false.")
    return value


def wordpiece(vocab: dict[str, int], lower: bool, strip_accents: bool | None = None, chinese: bool = True,
              unknown: str = "[UNK]") -> tokenizers.Tokenizer:
    """BERT's tokenizer as a library object. strip_accents=None means: as `lower` (the original BERT's rule)."""
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unknown, max_input_chars_per_word=100))
    backend.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=chinese,
                                                    strip_accents=strip_accents, lowercase=lower)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    return backend


def _from_merges(folder: Path, settings: dict[str, Any]) -> tokenizers.Tokenizer:
    vocab = _json_object(folder / "vocab.json")
    lines = _text(folder / "merges.txt").split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line.strip() and not line.startswith("#version")]
    bad = next((m for m in merges if len(m) != 2), None)
    if bad is not None:
        raise UserError(f"{folder / 'merges.txt'} holds the line {' '.join(bad)!r}; each must be two tokens and a space.")
    model = _library(lambda: models.BPE(vocab=vocab, merges=merges),
                     f"{folder / 'vocab.json'} and merges.txt do not make a byte-level BPE tokenizer")
    backend = tokenizers.Tokenizer(model)
    prefix_space = _switch(settings, "add_prefix_space", folder / "vocab.json") or False
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    backend.decoder = decoders.ByteLevel()
    return backend


def _library(call: Callable[[], Any], problem: str) -> Any:
    """The result of a call into the Rust library; whatever it throws becomes one UserError.

    A Rust panic arrives as an exception that is no `Exception`, so it would pass an ordinary handler.
    """
    try:
        return call()
    except (UserError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as e:
        detail = " ".join(str(e).split())[:200]
        raise UserError(f"{problem} ({detail}).") from None


# -------------------------------------------------------------------- what the files say about the special tokens

_DEFAULTS = {  # per role, the spellings of the families: BERT's, then RoBERTa's
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}


def _content(token: Any) -> str | None:
    """A special token as the files write it: a string, or an object with "content"."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _special_tokens(backend: tokenizers.Tokenizer, named: dict[str, Any], config: dict[str, Any],
                    where: Path) -> dict[str, str]:
    """{"cls_token": "[CLS]", …}: as tokenizer_config.json or special_tokens_map.json name them, else as the
    tokenizer itself does, else by the families' spellings. Raises UserError when one that is needed is missing."""
    own = {"unk_token": getattr(backend.model, "unk_token", None)}
    if backend.padding:
        own["pad_token"] = backend.padding["pad_token"]
    elif isinstance(config.get("pad_token_id"), int) and config["pad_token_id"] >= 0:
        own["pad_token"] = backend.id_to_token(config["pad_token_id"])
    found = {}
    for role, spellings in _DEFAULTS.items():
        tries = [t for t in (_content(named.get(role)), own.get(role), *spellings) if t]
        token = next((t for t in tries if backend.token_to_id(t) is not None), None)
        if token is not None:
            found[role] = token
        elif role != "mask_token":
            raise UserError(f"{where} has no {role.replace('_', ' ')} (looked for {', '.join(dict.fromkeys(tries))}): this is not "
                            "the tokenizer of a BERT, DistilBERT or RoBERTa checkpoint, or the file is damaged.")
    return found


def _add_special(backend: tokenizers.Tokenizer, special: dict[str, str], named: dict[str, Any]) -> None:
    """Make "[SEP]" in a text one token, as the reference does; `named` may say that one takes the space beside it too."""
    known = {t.content for t in backend.get_added_tokens_decoder().values()}
    for role, token in special.items():
        if token not in known:
            stated = named.get(role) if isinstance(named.get(role), dict) else {}
            sides = {key: stated.get(key) is True for key in ("lstrip", "rstrip", "single_word")}
            backend.add_special_tokens([tokenizers.AddedToken(token, normalized=False, special=True, **sides)])


def _layout(backend: tokenizers.Tokenizer, cls_id: int, sep_id: int, segments: bool) -> Layout:
    """The special ids around a text: as the file's post-processor puts them, else by the kind of tokenizer."""
    if backend.post_processor is not None:
        probe = backend.encode("a", "a")
        side = probe.sequence_ids  # None on special tokens, 0 in the first text, 1 in the second
        if 0 in side and 1 in side and side[0] is None and side[-1] is None:
            begin_a, begin_b = side.index(0), side.index(1)
            end_a, end_b = side.count(0) + begin_a, side.count(1) + begin_b
            return Layout(tuple(probe.ids[:begin_a]), tuple(probe.ids[end_a:begin_b]), tuple(probe.ids[end_b:]),
                          segments and probe.type_ids[begin_b] == 1)
    if isinstance(backend.model, models.WordPiece):
        return Layout((cls_id,), (sep_id,), (sep_id,), segments)
    return Layout((cls_id,), (sep_id, sep_id), (sep_id,), False)  # RoBERTa: <s> A </s> </s> B </s>


# -------------------------------------------------------------------- display

def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes each byte as one visible character: itself if printable, else the next one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(rest)}}


class _Shapes:
    """What BERT's normaliser and pre-tokenizer make of a character inside a word: w, it stays part of the word; d, it is
    dropped; -, anything else (the word is split there). They treat every character by itself, so asking once what becomes
    of it between two letters is enough.
    """

    def __init__(self, backend: tokenizers.Tokenizer):
        self._normalize, self._split = backend.normalizer.normalize_str, backend.pre_tokenizer.pre_tokenize_str
        self._known = np.zeros(0x110000, dtype=np.uint8)  # by code point; 0: not asked yet

    def of(self, text: str) -> bytes:
        """One letter for each character of `text`."""
        codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        for code in np.unique(codes[self._known[codes] == 0]):
            words = [word for word, _ in self._split(self._normalize(f"a{chr(code)}b"))]
            self._known[code] = ord("d" if words == ["ab"] else "w" if len(words) == 1 and len(words[0]) > 2 else "-")
        return self._known[codes].tobytes()


def _shapes(backend: tokenizers.Tokenizer) -> _Shapes | None:
    """What `Tokenizer._shorten` goes by; None where dropping characters could change an id: byte-level BPE and
    sentencepiece know no longest word, and an added token could begin inside a run, or hold one."""
    if not (isinstance(backend.model, models.WordPiece) and isinstance(backend.normalizer, normalizers.BertNormalizer)
            and isinstance(backend.pre_tokenizer, pre_tokenizers.BertPreTokenizer)):
        return None
    shapes = _Shapes(backend)
    added = [t.content for t in backend.get_added_tokens_decoder().values()]
    longest = backend.model.max_input_chars_per_word
    return None if any(len(t) > longest or shapes.of(t[:1]) != b"-" for t in added) else shapes


# -------------------------------------------------------------------- small helpers

_SURROGATE = re.compile("[\ud800-\udfff]")


def _no_surrogates(text: str) -> str:
    """Half of a surrogate pair is no character (JSON can smuggle one in): it becomes U+FFFD, one for one."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _check_strings(texts: Sequence[str]) -> None:
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"text {i} is a {type(text).__name__}, not a string: {text!r:.60}.")


def _chunks(texts: list[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    chars = 0
    for text in texts:
        if chunk and (len(chunk) >= _CHUNK_TEXTS or chars + len(text) > _CHUNK_CHARS):
            yield chunk
            chunk, chars = [], 0
        chunk.append(text)
        chars += len(text)
    if chunk:
        yield chunk


def _casing(backend: tokenizers.Tokenizer) -> dict[str, Any]:
    """The normaliser's choices under the names tokenizer_config.json has for them."""
    n, p = backend.normalizer, backend.pre_tokenizer
    if isinstance(n, normalizers.BertNormalizer):
        return {"do_lower_case": n.lowercase, "strip_accents": n.strip_accents,
                "tokenize_chinese_chars": n.handle_chinese_chars}
    if isinstance(p, pre_tokenizers.ByteLevel):
        return {"add_prefix_space": p.add_prefix_space}
    return {}


def _class_name(backend: tokenizers.Tokenizer, family: str) -> str:
    """The class that reads the saved files back to the same ids.

    The families' own classes rebuild the tokenizer from its vocabulary and settings, so they are named only where
    that gives this tokenizer; PreTrainedTokenizerFast takes tokenizer.json as it is.
    """
    model, normalizer, split = backend.model, backend.normalizer, backend.pre_tokenizer
    if isinstance(model, models.WordPiece):
        usual = wordpiece({}, lower=True)
        if (isinstance(split, pre_tokenizers.BertPreTokenizer) and isinstance(normalizer, normalizers.BertNormalizer)
                and normalizer.clean_text and model.max_input_chars_per_word == usual.model.max_input_chars_per_word
                and model.continuing_subword_prefix == usual.model.continuing_subword_prefix):
            return "DistilBertTokenizer" if family == "distilbert" else "BertTokenizer"
    elif isinstance(model, models.BPE):
        if normalizer is None and isinstance(split, pre_tokenizers.ByteLevel) and split.use_regex:
            return "RobertaTokenizer"
    elif isinstance(model, models.Unigram):
        usual = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
        state = _json(model)
        if (split is not None and _json(split) == _json(usual) and state["unk_id"] == 3 and not state["byte_fallback"]
                and (normalizer is None or isinstance(normalizer, normalizers.Precompiled))):
            return "XLMRobertaTokenizer"
    return "PreTrainedTokenizerFast"


def _json(part: Any) -> dict[str, Any]:
    return json.loads(part.__getstate__())


def _vocab_txt(backend: tokenizers.Tokenizer) -> str:
    by_id = sorted(backend.get_vocab(with_added_tokens=False).items(), key=lambda item: item[1])
    return "".join(token + "\n" for token, _ in by_id)


# -------------------------------------------------------------------- a vocabulary of our own

_SPECIALS = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}


def train_wordpiece(texts: Sequence[str], vocab_size: int = 8000, lower: bool = True,
                    max_tokens: int | None = None, alphabet: int = 1000) -> Tokenizer:
    """A WordPiece tokenizer learned from `texts`: [PAD] [UNK] [CLS] [SEP] [MASK] at ids 0..4, then characters, then
    the pieces merged most often first. The same texts give the same vocabulary, in any order and any process.

    Only the `alphabet` commonest characters enter; others read as [UNK]. Raises UserError if the texts hold no word
    or vocab_size cannot hold the characters.
    """
    _check_strings(texts)
    lowered = wordpiece({}, lower).normalizer
    normal = [lowered.normalize_str(_no_surrogates(t)) for t in texts]
    counts: Counter[str] = Counter()
    for text in normal:
        counts.update(text)
    common = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
    kept, rare = sorted(common[:alphabet]), common[alphabet:]
    if not kept:
        raise UserError("no vocabulary can be learned: the texts hold no characters.")
    # The library numbers the continuation characters ("##a") in the order of a hash table, which differs from process
    # to process and decides ties between merges. Naming them all beforehand, sorted, fixes their ids.
    # (Punctuation and CJK characters are words of their own and never continue one.)
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    first = [*_SPECIALS.values(), *("##" + c for c in kept if len(split(lowered.normalize_str("a" + c))) == 1)]
    if vocab_size < len(first) + len(kept):
        raise UserError(f"vocab_size {vocab_size} is too small: the texts hold {len(kept)} different characters, which "
                        f"alone need {len(first) + len(kept)} entries.")
    drop = {ord(c): " " for c in rare}
    learner = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    learner.train_from_iterator((t.translate(drop) for t in normal), length=len(normal), trainer=trainers.WordPieceTrainer(
        vocab_size=vocab_size, min_frequency=2, show_progress=False, special_tokens=first,
        initial_alphabet=kept, continuing_subword_prefix="##"))
    backend = wordpiece(learner.get_vocab(with_added_tokens=False), lower)
    _add_special(backend, _SPECIALS, {})
    return Tokenizer(backend, dict(_SPECIALS), "bert", max_tokens)
