"""A run folder or a published classifier → predictions, batched.

    predictor = Predictor("runs/reviews-tiny")
    predictor.predict(["…", "…"])        # [{"label", "confidence", "scores"}, …], in the order given

    python -m minibert.predictor RUN FILE.csv > out.csv

The steps are methods of their own, because the server runs them on different threads: `encode` (text → windows of
ids), `forward` (windows → logits, one padded batch), `pool_windows` (windows → documents), `answer` (probabilities →
what the user reads).
"""

from __future__ import annotations

from . import cli

if __name__ == "__main__":
    cli.leave_at_a_signal()

import csv
import dataclasses
import io
import math
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TextIO

import numpy as np
import torch

from . import checkpoint, convert, devices, sources, tokenization
from .cli import UserError
from .distributed import Processes, processes
from .files import read_json
from .model import check_inputs

POOLINGS = ("mean_probs", "mean_logits", "max", "weighted")
MOST_THREADS = 1024
MULTI_LABEL = "multi_label_classification"
FAST_TOLERANCE = 0.25  # of a probability under --precision fast, against fp32 (see `make_fast`)
INT8_MOVES = "on average 0.002 in a tiny model, 0.02 in a 6-layer one"


class Window(NamedTuple):
    """One sequence as the encoder takes it, special tokens included. A text is one window, but under --truncate chunk."""
    input_ids: np.ndarray
    token_type_ids: np.ndarray


def say_on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Predictor:
    """A trained classifier with its tokenizer and everything that was fitted on validation.

    `run_or_model` is a run folder, a folder of several seeds (its best on validation is taken, and said), or the
    folder or hub name of a published classifier. `precision`: "fp32", or "fast" (see `make_fast`). `batch_tokens`
    bounds rows × longest row of a batch (see `default_batch_tokens`). `threads` sets torch's thread count for the whole
    process. `say` is told what was chosen.

    Public fields: `info` (run.json, or {} for a published classifier), `name`, `labels` (index order), `multi_label`,
    `takes_pairs`, `classifier`, `tokenizer`, `device`, `precision` (what is really used), `max_len`, `truncate`,
    `stride`, `pooling`, `temperature`, `thresholds` (multi-label: one per label), `decision_threshold` ((index, value)
    or None).

    Raises UserError where nothing that can classify is found. All methods may be called from any thread.
    """

    def __init__(self, run_or_model: str | os.PathLike, device: str | torch.device = "auto", precision: str = "fp32",
                 batch_tokens: int | None = None, threads: int | None = None, say: Callable[[str], Any] = say_on_stderr):
        source, info = find_run(str(run_or_model), say)
        self._set_up(convert.load_classifier(source, say=say), tokenization.load_tokenizer(source), info, name=source,
                     device=device, precision=precision, batch_tokens=batch_tokens, threads=threads, say=say)

    @classmethod
    def from_parts(cls, classifier: torch.nn.Module, tokenizer: Any, info: dict | None = None, *, name: str = "",
                   device: str | torch.device = "auto", precision: str = "fp32", batch_tokens: int | None = None,
                   threads: int | None = None, say: Callable[[str], Any] = say_on_stderr) -> Predictor:
        """A predictor from objects already in memory (`info` as in run.json). Puts the classifier in eval mode."""
        self = cls.__new__(cls)
        self._set_up(classifier, tokenizer, info or {}, name=name, device=device, precision=precision,
                     batch_tokens=batch_tokens, threads=threads, say=say)
        return self

    def _set_up(self, classifier, tokenizer, info, *, name, device, precision, batch_tokens, threads, say) -> None:
        if threads is not None:
            if not 1 <= threads <= MOST_THREADS:  # torch ends the process where the system gives no more
                raise UserError(f"threads is {threads}; it must be at least 1 and at most {MOST_THREADS}.")
            torch.set_num_threads(threads)
        self.name, self.info, self.tokenizer = name, info, tokenizer
        self.device = device if isinstance(device, torch.device) else devices.choose_device(device)
        self.batch_tokens = default_batch_tokens(self.device) if batch_tokens is None else batch_tokens
        if self.batch_tokens < 1:
            raise UserError(f"batch_tokens is {batch_tokens}; it must be at least 1.")
        try:
            self._read(info, classifier)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as e:
            if isinstance(e, UserError):
                raise
            raise UserError(f"{name}/run.json holds a value that it should not ({e}); restore the file or retrain.") from None
        if precision not in ("fp32", "fast"):
            raise UserError(f"precision '{precision}' is not one of fp32, fast.")
        self.classifier = classifier.to(self.device).eval()
        self.precision = make_fast(self.classifier, self.device, say) if precision == "fast" else "fp32"

    def _read(self, info: dict, classifier: torch.nn.Module) -> None:
        """What run.json says about reading texts and deciding; for a published classifier, what its files say."""
        self.labels = list(info.get("labels") or classifier.labels)
        if len(self.labels) != len(classifier.labels):
            raise UserError(f"{self.name}/run.json names {len(self.labels)} labels, but the head has {len(classifier.labels)}; "
                            f"the folder mixes two runs.")
        if self.labels != list(classifier.labels):
            raise UserError(f"{self.name}/run.json names the labels {self.labels}, but config.json {list(classifier.labels)}; "
                            "one of them was altered: restore it or retrain.")
        if info and not isinstance(info["multi_label"], bool):
            raise UserError(f"{self.name}/run.json: multi_label is {info['multi_label']!r}; it must be true or false.")
        self.multi_label = info["multi_label"] if info else classifier.problem_type == MULTI_LABEL
        self.takes_pairs = len(info.get("text_col") or ["text"]) == 2
        longest = min(classifier.config.max_tokens, self.tokenizer.max_tokens or classifier.config.max_tokens)
        length, side = self.tokenizer.saved_cut
        self.max_len = min(int(info.get("max_len") or length or longest), longest)
        self.truncate = info.get("truncate") or side
        self.stride = int(info.get("stride") or 0)
        self.pooling = info.get("pooling") or "mean_probs"
        self.temperature = float(info.get("temperature") or 1.0)
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise UserError(f"{self.name}/run.json holds the temperature {self.temperature}; it must be above 0.")
        self.thresholds = self._thresholds(info)
        self.decision_threshold = self._decision_threshold(info)

    def _thresholds(self, info: dict) -> np.ndarray | None:
        """Multi-label: the probability from which each label counts as given, (C,); 0.5 where none was tuned."""
        if not self.multi_label:
            return None
        tuned = info.get("thresholds") or {}
        return np.array([self._probability(tuned.get(label, 0.5)) for label in self.labels])

    def _probability(self, value: float) -> float:
        if not 0 <= float(value) <= 1:
            raise UserError(f"{self.name}/run.json holds the threshold {value}; it must be from 0 to 1.")
        return float(value)

    def _decision_threshold(self, info: dict) -> tuple[int, float] | None:
        tuned = info.get("decision_threshold")
        if not tuned or self.multi_label:
            return None
        if tuned["label"] not in self.labels or len(self.labels) != 2:
            raise UserError(f"{self.name}/run.json has a decision_threshold for '{tuned['label']}', which is not one "
                            f"of two labels ({', '.join(self.labels)}); the file is damaged.")
        return self.labels.index(tuned["label"]), self._probability(tuned["value"])

    # ---- text → windows → logits -----------------------------------------------------------------------------

    def check_pair(self, given: bool) -> None:
        """Raises UserError where a second text is missing, or `given` to a model that was trained on single ones."""
        if self.takes_pairs and not given:
            raise UserError("this model was trained on pairs of texts; give the second text too.")
        if given and not self.takes_pairs and self.info:  # a published classifier does not say what it takes
            raise UserError("this model was trained on single texts; leave the second text out.")

    def encode(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[list[Window]]:
        """The windows of each text: one, or several with `truncate="chunk"`. Never empty: a blank text is [CLS][SEP]."""
        if pairs is not None and len(pairs) != len(texts):
            raise UserError(f"there are {len(texts)} texts but {len(pairs)} second texts; each text needs its own.")
        if texts:
            self.check_pair(pairs is not None)
        first = self.tokenizer.ids(list(texts))
        second = self.tokenizer.ids(list(pairs)) if pairs is not None else [None] * len(first)
        if self.truncate == "chunk":
            rows = ([*self.tokenizer.windows(a, b, self.max_len, self.stride)] for a, b in zip(first, second))
        else:
            rows = ([self.tokenizer.build(a, b, self.max_len, self.truncate)] for a, b in zip(first, second))
        # As arrays: a list of Python ints takes ten times the memory, and there may be 25,000 texts.
        return [[Window(np.array(ids, np.int32), np.array(types, np.int8)) for ids, types in of_text] for of_text in rows]

    def forward(self, windows: Sequence[Window]) -> np.ndarray:
        """Logits (len(windows), C) float32 of one batch, padded to its longest member.

        Raises FloatingPointError if the model yields NaN or infinity: a wrong number is never passed on.
        """
        batch = self.tokenizer.pad(windows)
        if self.device.type != "cpu":  # there the model looks at the values itself; a GPU would end the process
            check_inputs(self.classifier.config, **batch)
        # inference_mode is a state of the thread, not of the process: it must stand here, where the work is done,
        # or a server's worker thread would record gradients.
        with torch.inference_mode():
            logits = self.classifier(**{name: t.to(self.device) for name, t in batch.items()})
            logits = logits.float().cpu().numpy()
        if not np.isfinite(logits).all():
            raise FloatingPointError("the model yields values that are not finite: its weights are damaged or its "
                                     "activations overflow in this precision.")
        return logits

    def window_logits(self, texts: Sequence[str], pairs: Sequence[str] | None = None, quiet: bool = True,
                      ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Logits of every window (W,C), the index of its text (W,), and its length in tokens (W,)."""
        windows = [(i, w) for i, of_text in enumerate(self.encode(texts, pairs)) for w in of_text]
        lengths = np.array([len(w.input_ids) for _, w in windows], dtype=np.int64)
        logits = np.zeros((len(windows), len(self.labels)), dtype=np.float32)
        with cli.progress(total=len(windows), desc="predict", unit="text", quiet=quiet) as bar:
            for rows in token_budget_batches(lengths, self.batch_tokens):
                logits[rows] = self.forward([windows[i][1] for i in rows])
                bar.update(len(rows))
        return logits, np.array([i for i, _ in windows], dtype=np.int64), lengths

    def logits(self, texts: Sequence[str], pairs: Sequence[str] | None = None, quiet: bool = True) -> np.ndarray:
        """Logits (n,C) float32 before temperature, in the order of `texts`; one row per document under chunk.

        Raises FloatingPointError if the model yields values that are not finite.
        """
        return self.pool(*self.window_logits(texts, pairs, quiet))

    def pool(self, logits: np.ndarray, document: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """What `window_logits` gives → one row per text (n,C)."""
        if self.truncate != "chunk":
            return logits
        return pool_windows(logits, document, lengths, self.pooling, self.multi_label)

    # ---- logits → answers ------------------------------------------------------------------------------------

    def to_probabilities(self, logits: np.ndarray) -> np.ndarray:
        """(n,C) float64 from pooled logits (n,C): softmax (or a sigmoid per label) of logits / temperature."""
        scaled = logits.astype(np.float64) / self.temperature
        return np.exp(log_sigmoid(scaled) if self.multi_label else log_softmax(scaled))

    def probabilities(self, texts: Sequence[str], pairs: Sequence[str] | None = None, quiet: bool = True) -> np.ndarray:
        """(n,C) float64, after temperature: rows sum to 1, but for multi-label, where each label has its own."""
        return self.to_probabilities(self.logits(texts, pairs, quiet))

    def decide(self, probabilities: np.ndarray) -> np.ndarray:
        """(n,) predicted class index; multi-label: (n,C) bool. Ties go to the lower index."""
        if self.multi_label:
            return probabilities >= self.thresholds
        if self.decision_threshold is not None:
            index, value = self.decision_threshold
            return np.where(probabilities[:, index] >= value, index, 1 - index)
        return probabilities.argmax(axis=1)

    def answer(self, probabilities: np.ndarray) -> dict[str, Any]:
        """What the user reads for one row of probabilities (C,): plain strings and floats."""
        scores = {label: float(p) for label, p in zip(self.labels, probabilities)}
        chosen = self.decide(probabilities[None])[0]
        if self.multi_label:
            return {"labels": [label for label, yes in zip(self.labels, chosen) if yes], "scores": scores,
                    "thresholds": {label: float(t) for label, t in zip(self.labels, self.thresholds)}}
        label = self.labels[int(chosen)]
        return {"label": label, "confidence": scores[label], "scores": scores}

    def predict(self, texts: Sequence[str], pairs: Sequence[str] | None = None, quiet: bool = True) -> list[dict]:
        """One answer per text, in order: {"label", "confidence", "scores"}, or {"labels", "scores", "thresholds"}."""
        return [self.answer(row) for row in self.probabilities(texts, pairs, quiet)]


# ---- the arithmetic ------------------------------------------------------------------------------------------

def log_softmax(x: np.ndarray) -> np.ndarray:
    """Along the last axis; the largest logit is taken off first, so that no exponential overflows."""
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def log_sigmoid(x: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0.0, -x)


def pool_windows(logits: np.ndarray, document: np.ndarray, lengths: np.ndarray, pooling: str,
                 multi_label: bool) -> np.ndarray:
    """Logits of windows (W,C) → logits of documents (n,C) float32. `document` (W,) counts 0…n-1 in order.

    mean_probs   mean of the windows' probabilities
    weighted     the same, each window weighted by its length in tokens
    mean_logits  mean of the logits
    max          per class, the largest logit of any window

    A mean of probabilities is given back as the logits that stand for it (log p, or log p/(1-p) per label), so that
    temperature is applied to every pooling in the same place and at temperature 1 nothing is changed.
    """
    starts = np.flatnonzero(np.r_[True, document[1:] != document[:-1]]) if len(document) else np.array([], np.int64)
    if not len(starts):
        return np.zeros((0, logits.shape[1]), dtype=np.float32)
    logits = logits.astype(np.float64)
    counts = np.diff(np.r_[starts, len(document)])
    if pooling == "max":
        return np.maximum.reduceat(logits, starts).astype(np.float32)
    if pooling == "mean_logits":
        return (np.add.reduceat(logits, starts) / counts[:, None]).astype(np.float32)
    if pooling not in POOLINGS:
        raise UserError(f"pooling '{pooling}' is not one of {', '.join(POOLINGS)}{cli.nearest(pooling, POOLINGS)}.")
    weights = lengths.astype(np.float64) if pooling == "weighted" else np.ones(len(document))
    share = np.log(weights / np.repeat(np.add.reduceat(weights, starts), counts))[:, None]
    # The mean is taken through logarithms: exp(-800) is 0 in floating point, and its logarithm would be -inf.
    if multi_label:
        given = np.logaddexp.reduceat(log_sigmoid(logits) + share, starts)
        not_given = np.logaddexp.reduceat(log_sigmoid(-logits) + share, starts)
        return (given - not_given).astype(np.float32)
    return np.logaddexp.reduceat(log_softmax(logits) + share, starts).astype(np.float32)


def token_budget_batches(lengths: np.ndarray, batch_tokens: int) -> Iterator[np.ndarray]:
    """Row indices, longest first, in batches of at most `batch_tokens` tokens after padding (at least one row each).

    Rows of like length share a batch, so almost nothing is padding; the longest go first, so that too large a budget
    runs out of memory in the first second and not in the last.
    """
    order = np.argsort(-lengths, kind="stable")
    at = 0
    while at < len(order):
        rows = max(1, batch_tokens // int(lengths[order[at]]))
        yield order[at:at + rows]
        at += rows


def default_batch_tokens(device: torch.device) -> int:
    """A GPU is filled by large batches. On a CPU they are slower: past some 2,000 tokens the activations of a layer no
    longer fit its cache (MiniLM on one core: 2,430 tokens a second at 2,048, 1,860 at 8,192, 1,260 at 16,384)."""
    return 2048 if device.type == "cpu" else 32_768


# ---- finding the model ---------------------------------------------------------------------------------------

def make_fast(classifier: torch.nn.Module, device: torch.device, say: Callable[[str], Any]) -> str:
    """Change a classifier in eval mode, in place, to what this device computes fastest; the name of what was chosen.

    bf16  GPUs that have it and CPUs with its instructions: the weights are cast. It has fp32's range and 8 bits of
          mantissa. (A CPU without the instructions emulates it, tens of times slower than fp32.)
    fp16  other GPUs.
    int8  other x86 CPUs: the layers' Linears alone, weights rounded once per output row, activations at each call with
          one scale for the whole batch; so the answer depends a little on who shares the batch. The feed-forward's second
          Linear stays in fp32: of GELU's outputs most are just below 0 and a few are far larger, and one scale loses most.
    fp32  where nothing is faster.

    Against fp32 a probability moves by at most FAST_TOLERANCE, and how far depends on the model. Measured with int8:
    tiny models on the 1,500 validation rows of the embedded reviews, alone and in company: by 0.002 on average and by
    at most 0.07 to 0.14; 3 to 5 labels changed. A 6-layer MiniLM fine-tuned on IMDB, 500 of its validation rows: by 0.020
    on average and by at most 0.21; 9 labels changed (with that second Linear in int8 too: 0.041, 0.31 and 17).
    """
    if device.type == "cuda":
        chosen = "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    elif device.type == "cpu" and devices.cpu_has_bf16():
        chosen = "bf16"
    elif device.type == "cpu" and torch.backends.quantized.engine in ("x86", "fbgemm"):
        chosen = "int8"
    else:
        say(f"precision fast: nothing is faster than fp32 on this {device.type}; staying in fp32.")
        return "fp32"
    if chosen == "int8":
        with warnings.catch_warnings():  # its successor is another package; the torch pinned here still has it
            warnings.simplefilter("ignore")
            torch.ao.quantization.quantize_dynamic(classifier, {
                name: torch.ao.quantization.per_channel_dynamic_qconfig for name, part in classifier.encoder.layers.named_modules(prefix="encoder.layers")
                if isinstance(part, torch.nn.Linear) and not name.endswith("feed_forward.output")}, inplace=True)
    else:
        classifier.to(torch.bfloat16 if chosen == "bf16" else torch.float16)
    say(f"precision fast: {chosen}; probabilities within {FAST_TOLERANCE} of fp32"
        + (f" ({INT8_MOVES}); compare both on your own rows." if chosen == "int8" else "."))
    return chosen


def find_run(source: str, say: Callable[[str], Any]) -> tuple[str, dict]:
    """(what to load, its run.json): a run folder, the best seed of a family (said); {} for a published classifier.

    Raises UserError for a run that is damaged or has not ended.
    """
    folder = Path(source).expanduser()
    if not folder.is_dir():
        return source, {}
    if not checkpoint.finished(folder) and checkpoint.seed_folders(folder):
        folder = best_seed(folder, say)
    if not checkpoint.finished(folder) and not (folder / "state").is_dir() and not (folder / "history.csv").exists():
        return source, {}
    info = checkpoint.load_run(folder).info
    missing = [key for key in ("labels", "multi_label", "max_len", "truncate") if key not in info]
    if missing:
        raise UserError(f"{folder / 'run.json'} has no {', '.join(missing)}; it is damaged, or another program's.")
    return str(folder), info


def best_seed(folder: Path, say: Callable[[str], Any]) -> Path:
    """Of the seed-N/ folders in `folder`, the one with the best macro-F1 on validation; it is named aloud."""
    seeds = [seed for seed in checkpoint.seed_folders(folder) if checkpoint.finished(seed)]
    scores = {}
    for seed in seeds:
        metrics = read_json(seed / "metrics.json", "run's metrics")
        val = metrics.get("val") if isinstance(metrics, dict) else None
        value = val.get("macro_f1") if isinstance(val, dict) else None
        if isinstance(value, (int, float)) and math.isfinite(value):
            scores[seed] = value
    if not scores:
        raise UserError(f"none of the seeds in {folder} has ended with a macro-F1 on validation; finish the run with "
                        f"--resume, or name one seed's folder.")
    best = max(scores, key=scores.__getitem__)
    say(f"{folder} holds {len(seeds)} seeds: taking {best.name}, the best on validation (macro-F1 {scores[best]:.4f}).")
    return best


# ---- scoring a file ------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Flags:
    text_col: str = cli.flag("", "the text column, or two as a,b for a pair model; by default the run's own", metavar="COL")
    device: str = cli.flag("auto", "cuda, mps or cpu")
    precision: str = cli.flag("fp32", "fp32, or fast: bf16, fp16 or int8, whichever the device is fastest with; "
                              f"probabilities within {FAST_TOLERANCE}", choices=("fp32", "fast"))
    batch_tokens: int = cli.flag(None, "tokens in a batch, padding included; by default what suits the device", type=int)
    threads: int = cli.flag(None, "CPU threads; by default torch's choice", type=int)
    chunk_rows: int = cli.flag(10_000, "rows held in memory at a time")
    quiet: bool = cli.flag(False, "no progress bar")


CHUNK_CHARACTERS = 32_000_000  # a chunk of rows ends here too: rows may be long


def score_file(predictor: Predictor, path: str | os.PathLike, out: TextIO, text_col: str = "", chunk_rows: int = 10_000,
               quiet: bool = True, group: Processes = Processes(), say: Callable[[str], Any] = say_on_stderr) -> int:
    """Write the input's columns, then prediction, confidence and one p_LABEL each, as CSV; the number of rows.

    Reads and writes chunk by chunk, so memory does not grow with the file. Under torchrun each process scores every
    n-th chunk and the first one writes them all, in order. Multi-label: `prediction` is the labels joined by "|" and
    `confidence` the probability of the least sure of its decisions. A row without a text is scored like any other, so
    that no row is missing from the output; `say` is told how many there were.

    Raises UserError for a missing text column, a malformed row or a name that the output would hold twice.
    """
    names = text_columns(predictor, text_col)
    header, numbered, _ = sources.open_table(path, names, [])
    at = [header.index(name) for name in names]
    added = ["prediction", "confidence"] + [f"p_{label}" for label in predictor.labels]
    twice = [name for name in added if name in header]
    if twice:
        raise UserError(f"{path} already has a column named '{twice[0]}', which the output adds; rename or drop it first.")
    if group.first:
        out.write(to_csv([header + added]))
    total = blank = 0
    with cli.progress(desc="score", unit="row", quiet=quiet or not group.first) as bar:
        for turn in turns(chunks((row for _, row in numbered), chunk_rows), group.world):
            mine = turn[group.rank] if group.rank < len(turn) else []
            scored = group.gather(to_csv(score_rows(predictor, mine, at)))
            if group.first:
                out.writelines(scored)
                out.flush()  # whoever reads along, or is left with what a killed process wrote, has whole rows
            count = sum(map(len, turn))
            total += count
            blank += sum(not all(row[c].strip() for c in at) for chunk in turn for row in chunk)
            bar.update(count)
    if blank and group.first:
        say(f"note: {blank:,} of {total:,} rows of {path} have an empty text; their predictions rest on no word.")
    return total


def text_columns(predictor: Predictor, text_col: str) -> list[str]:
    """The names in --text-col, else the run's own, else "text". Raises UserError for one name too few or too many."""
    names = [name.strip() for name in text_col.split(",")] if text_col else predictor.info.get("text_col") or ["text"]
    wanted = 2 if predictor.takes_pairs else 1
    # A published classifier does not say whether it takes pairs: it may be given two columns.
    if len(names) != wanted and (predictor.info or len(names) != 2):
        raise UserError(f"{predictor.name} reads {wanted} text column{'s' * (wanted > 1)}, but --text-col names "
                        f"{len(names)}.")
    return names


def score_rows(predictor: Predictor, rows: list[list[str]], at: list[int]) -> Iterator[list[str]]:
    """Each row with its prediction, confidence and probabilities behind it; `at`: where its text is, or its two texts."""
    if not rows:
        return
    texts, *second = ([row[c] for row in rows] for c in at)
    probabilities = predictor.probabilities(texts, *second)
    chosen = predictor.decide(probabilities)
    for row, p, c in zip(rows, probabilities, chosen):
        if predictor.multi_label:
            prediction = "|".join(label for label, yes in zip(predictor.labels, c) if yes)
            confidence = np.where(c, p, 1 - p).min()
        else:
            prediction, confidence = predictor.labels[c], p[c]
        yield row + [prediction, f"{confidence:.6f}"] + [f"{x:.6f}" for x in p]


def chunks(rows: Iterable[list[str]], chunk_rows: int) -> Iterator[list[list[str]]]:
    """Lists of rows, ended by `chunk_rows` or by CHUNK_CHARACTERS of text, whichever comes first."""
    chunk: list[list[str]] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += sum(map(len, row))
        if len(chunk) >= chunk_rows or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def turns(chunks: Iterator[list], world: int) -> Iterator[list[list]]:
    """Groups of `world` chunks: in each turn every process scores one. The last turn may be short."""
    turn = []
    for chunk in chunks:
        turn.append(chunk)
        if len(turn) == world:
            yield turn
            turn = []
    if turn:
        yield turn


def to_csv(rows: Iterable[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def main(argv: Sequence[str]) -> int:
    p = cli.parser(Flags, "python -m minibert.predictor",
                   "Score a .csv, .tsv or .jsonl file: its columns, then prediction, confidence and one p_LABEL each, as CSV on "
                   "standard output. Under torchrun the processes share the rows.")
    p.add_argument("run", metavar="RUN", help="a run folder, or a published classifier's name or folder")
    p.add_argument("file", metavar="FILE", help="the .csv, .tsv or .jsonl file")
    given = cli.parse(p, argv)
    run, file = given.pop("run"), given.pop("file")
    flags = Flags(**given)
    if flags.chunk_rows < 1:
        raise UserError(f"--chunk-rows is {flags.chunk_rows}; it must be at least 1.")
    device = devices.choose_device(flags.device, int(os.environ.get("LOCAL_RANK", 0)))
    with processes(device) as group:
        say = say_on_stderr if group.first else lambda line: None
        predictor = Predictor(run, device, flags.precision, flags.batch_tokens, flags.threads, say)
        # Buffered, whatever PYTHONUNBUFFERED asks of sys.stdout: an unbuffered write that a full disk cuts short is no error.
        with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="", closefd=False) as out:
            try:
                score_file(predictor, file, out, flags.text_col, flags.chunk_rows, flags.quiet, group)
            except FloatingPointError as e:
                raise UserError(str(e)) from None
            except KeyboardInterrupt:
                raise cli.Interrupted(f"{file} was not scored to its end; the output holds its first rows only.") from None
    return 0


if __name__ == "__main__":
    cli.run(main)
