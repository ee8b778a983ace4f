"""Fine-tune BERT for text classification. The whole loop is on this page: no Trainer, no callbacks.

Read it from `main` (what happens, in order) to `fit` (the loop: epoch, step, validation, best checkpoint).

    python train.py                                          # embedded reviews, a tiny BERT from random weights
    python train.py --data my.csv --model bert-base-uncased --amp
    torchrun --nproc_per_node 2 train.py …                   # the same flags, several processes
"""

from __future__ import annotations

from minibert import cli

if __name__ == "__main__":
    cli.leave_at_a_signal()

import contextlib
import dataclasses
import datetime
import math
import os
import platform
import re
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import minibert
from minibert import baselines, checkpoint, data, devices, metrics, sources
from minibert.cli import UserError, flag
from minibert.config import EncoderConfig
from minibert.convert import load_classifier, save_classifier
from minibert.distributed import Processes, processes
from minibert.files import folder_lock, read_json, storage_faults, write_csv, write_json
from minibert.model import Classifier, check_inputs
from minibert.optimization import (check_reinit, freeze, frozen_depth, lr_factor, make_optimizer, parameter_groups, reinit_layers,
                                   set_lr, warmup_steps)
from minibert.predictor import POOLINGS, Predictor, default_batch_tokens, pool_windows, token_budget_batches
from minibert.pretrained import resolve
from minibert.tokenization import Tokenizer, load_tokenizer, train_wordpiece

# What `--model tiny` is, and what it trains with unless a flag says otherwise: small enough for two minutes on two cores.
# No dropout: a model this small underfits in two minutes, and dropout would only slow it down.
TINY = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, initializer_range=0.05)
TINY_VOCABULARY = 2500
TINY_RECIPE = dict(lr=3e-3, epochs=6, batch_size=64, dropout=0.0, attention_dropout=0.0)
RECIPE = dict(lr=2e-5, epochs=3, batch_size=16)
OVERFIT_LOSS, OVERFIT_EPOCHS = 0.01, 300
SAVE_SECONDS = 300  # between states, unless --save-every says otherwise
HISTORY = ["epoch", "train_loss", "val_loss", "val_accuracy", "val_macro_f1", "lr", "seconds", "examples_per_s"]


@dataclass
class Flags:
    """Every flag, and what run.json keeps. None means: decided from the model or the device, and printed."""

    data: str = flag("reviews", "reviews, tickets, aspects (embedded), imdb (downloaded once), or a path: a .csv/.tsv/.jsonl "
                     "file, a folder with train.* (val.*, test.*), an aclImdb folder or its .tar.gz")
    text_col: str = flag("text", "name of the text column; two names `a,b` make a pair of texts")
    label_col: str = flag("label", "name of the label column; with --multi-label several 0/1 columns `a,b,c`")
    multi_label: bool = flag(False, "a row may have several labels, or none: `a|b` in the label column")
    model: str = flag("tiny", "tiny (random weights, vocabulary learned from the training texts), a hub name such as "
                      "bert-base-uncased, or a local folder")
    revision: str = flag(None, "branch, tag or commit of a hub model", metavar="NAME")
    head: str = flag("linear", "linear: dropout and one Linear on the raw [CLS] state; native: the family's own head, "
                     "which exports to transformers", choices=["linear", "native"])
    out: str = flag(None, "run folder [default: runs/<data>-<model>]", metavar="FOLDER")
    overwrite: bool = flag(False, "replace the run in --out")
    resume: bool = flag(False, "go on from the last state in --out, to the same end as if never interrupted")
    save_every: int = flag(None, "optimizer steps between saved states [default: every 5 minutes]", type=int, metavar="N")
    config: str = flag(None, "replay the flags of a run.json; flags given beside it win", metavar="FILE")
    max_len: int = flag(256, "tokens kept of each text, special tokens included")
    truncate: str = flag("right", "what a longer text loses: right (its end), left (its start), head+tail (its middle); "
                         "chunk reads all of it in overlapping windows", choices=["right", "left", "head+tail", "chunk"])
    stride: int = flag(64, "tokens that neighbouring windows share, with --truncate chunk")
    batch_size: int = flag(None, "texts per forward pass and process; a CPU takes long texts in smaller passes of the same "
                           "step [default: 16; tiny: 64]", type=int, metavar="N")
    accum: int = flag(1, "forward passes per optimizer step: equals an N times larger batch")
    lr: float = flag(None, "peak learning rate [default: 2e-5; tiny: 3e-3]", type=float, metavar="X")
    epochs: int = flag(None, "passes over the training texts [default: 3; tiny: 6]", type=int, metavar="N")
    warmup_ratio: float = flag(0.1, "share of the steps in which the rate rises from 0")
    weight_decay: float = flag(0.01, "AdamW's decay of the matrices (biases and LayerNorms are exempt)")
    max_grad_norm: float = flag(1.0, "gradients are scaled down to this norm")
    dropout: float = flag(None, "dropout of hidden states [default: the checkpoint's; tiny: 0]", type=float, metavar="X")
    attention_dropout: float = flag(None, "dropout of attention weights [default: the checkpoint's on a GPU; 0 on a CPU, "
                                    "where it would cost the fused kernel]", type=float, metavar="X")
    amp: str = flag(None, "mixed precision: bf16 on a CPU that has the instructions, fp16 on a GPU; or name it",
                    choices=["auto", "bf16", "fp16"], nargs="?", const="auto")
    attention: str = flag("sdpa", "sdpa (PyTorch's fused attention) or eager (the formula)", choices=["sdpa", "eager"])
    device: str = flag("auto", "auto, cuda, mps or cpu", choices=["auto", "cuda", "mps", "cpu"])
    seeds: list = flag([42], "one or more; several train one run each and give mean and spread", nargs="+", type=int,
                       metavar="N")
    split_seed: int = flag(42, "seed of the validation split and of --limit: the same for all --seeds")
    limit: int = flag(None, "the first N training texts after the shuffle", type=int, metavar="N")
    class_weights: str = flag("none", "balanced: a rare class weighs more in the loss", choices=["none", "balanced"])
    tune_threshold: bool = flag(False, "two classes: choose the probability that decides on validation (macro-F1)")
    sampler: str = flag("random", "balanced: classes are drawn equally often", choices=["random", "balanced"])
    layer_decay: float = flag(1.0, "each layer's rate is this times the rate of the layer above (0.95 is usual)")
    reinit_layers: int = flag(0, "give the top N layers fresh weights")
    freeze: str = flag(None, "do not train: embeddings, a number of lowest layers, or encoder (head only)", metavar="PART")
    label_smoothing: float = flag(0.0, "share of the target spread over all classes")
    patience: int = flag(0, "stop after N epochs without a better one: a higher validation macro-F1, or the same and a lower loss (0: never)")
    corrections: str = flag(None, "an errors.csv whose `correction` column replaces labels", metavar="FILE")
    overfit: int = flag(None, "the wiring check: drive N texts to a loss under 0.01, then stop; exit 1 if it fails",
                        type=int, metavar="N")
    workers: int = flag(0, "processes that build batches ahead (the result does not depend on it)")
    compile: bool = flag(False, "torch.compile the model")
    looked_at_by: str = flag(None, "who read the twenty examples printed before training", metavar="NAME")
    quiet: bool = flag(False, "print the epochs and the result only")


# Flags that do not change what is learned: a resumed run may differ in them.
FREE_ON_RESUME = {"out", "overwrite", "resume", "save_every", "config", "workers", "looked_at_by", "quiet", "device",
                  "batch_size", "accum"}

NOT_REPLAYED = {"resume", "overwrite", "out", "config", "looked_at_by"}  # by --config


# ------------------------------------------------------------------------------------------------ flags

def read_flags(argv: list[str]) -> Flags:
    """Command line over `--config` over defaults; checked, and completed with the model's recipe."""
    parser = cli.parser(Flags, "train.py", __doc__.split("\n")[0])
    given = cli.parse(parser, argv)
    names = {f.name for f in dataclasses.fields(Flags)}
    replayed: dict[str, Any] = {}
    if given.get("config"):
        record = read_json(given["config"], "run.json to replay")
        saved = record.get("flags") if isinstance(record, dict) else None
        if not isinstance(saved, dict) or not saved.keys() <= names:
            raise UserError(f"--config {given['config']}: not a run.json of this version (no readable `flags` in it).")
        paths = record["data"].get("paths") if isinstance(record.get("data"), dict) else None
        for name in ("data", "corrections") if isinstance(paths, dict) else ():
            saved[name] = sources.found_again(saved.get(name), paths.get(name))  # a relative path, replayed in another folder
        try:  # as if they were typed: types and choices are checked in one place
            replayed = cli.parse(parser, [word for k, v in saved.items() if v is not None and v is not False and k not in NOT_REPLAYED
                                          for word in as_words(k, v)])
        except UserError as e:
            raise UserError(f"--config {given['config']}: {e}") from None
    flags = Flags(**{**replayed, **given})
    for name, value in (TINY_RECIPE if flags.model == "tiny" else RECIPE).items():
        if getattr(flags, name) is None:
            setattr(flags, name, value)
    if flags.out is None:
        short = lambda s: re.sub(r"[^\w.-]+", "-", re.sub(r"\.(csv|tsv|jsonl|tar\.gz|tgz)$", "", Path(s).name or s)).strip("-")
        flags.out = str(Path("runs") / f"{short(flags.data)}-{short(flags.model)}")
    check_flags(flags)
    return flags


def as_words(name: str, value: Any) -> list[str]:
    """A saved flag as it stands on a command line."""
    values = [] if value is True else value if isinstance(value, list) else [value]
    return ["--" + name.replace("_", "-"), *map(str, values)]


def check_flags(flags: Flags) -> None:
    """Values no training can have, refused before anything is read."""
    def need(ok: bool, name: str, what: str) -> None:
        if not ok:
            raise UserError(f"--{name.replace('_', '-')} {getattr(flags, name)}: {what}.")
    for name, value in vars(flags).items():
        need(type(value) is not int or value < 2**31, name, "2147483647 is the most")
    need(flags.split_seed >= 0, "split_seed", "it cannot be negative")
    need(flags.workers <= 256, "workers", "256 is the most; each is a process")
    need(flags.data.strip() != "", "data", "a name or a path is needed")
    for name in ("batch_size", "accum", "epochs"):
        need(getattr(flags, name) >= 1, name, "at least 1 is needed")
    for name in ("limit", "overfit", "save_every"):
        need(getattr(flags, name) is None or getattr(flags, name) >= 1, name, "at least 1 is needed")
    for name in ("workers", "reinit_layers", "patience", "stride"):
        need(getattr(flags, name) >= 0, name, "it cannot be negative")
    special = 2 if "," not in flags.text_col else 3  # at the least; `prepare` asks the tokenizer itself
    need(flags.max_len > special, "max_len", f"at least {special + 1} is needed, for the special tokens and one of the text")
    if flags.truncate == "chunk":
        room = min(flags.max_len, EncoderConfig.max_position_embeddings if flags.model == "tiny" else flags.max_len) - special
        room -= room // 2 if special == 3 else 0  # the second text may take the other half
        need(flags.stride < room, "stride", f"it has to be below {room}, the text tokens of one window at --max-len {flags.max_len}")
    for name in ("lr", "max_grad_norm"):
        need(math.isfinite(getattr(flags, name)) and getattr(flags, name) > 0, name, "a number above 0 is needed")
    need(flags.weight_decay >= 0 and math.isfinite(flags.weight_decay), "weight_decay", "a number from 0 is needed")
    need(0 < flags.layer_decay <= 1, "layer_decay", "a number above 0 and up to 1 is needed")
    need(0 <= flags.label_smoothing < 1, "label_smoothing", "a share from 0 to below 1 is needed")
    for name in ("dropout", "attention_dropout"):
        need(getattr(flags, name) is None or 0 <= getattr(flags, name) < 1, name, "a share from 0 to below 1 is needed")
    need(0 <= flags.warmup_ratio <= 1, "warmup_ratio", "a share from 0 to 1 is needed")
    need(len(set(flags.seeds)) == len(flags.seeds), "seeds", "each seed once")
    need(all(0 <= s < 2**31 for s in flags.seeds), "seeds", "seeds from 0 to 2147483647 are needed")
    if flags.multi_label and flags.label_smoothing:
        raise UserError("--label-smoothing is for one label per text; leave it out with --multi-label.")
    if flags.multi_label and flags.sampler == "balanced":
        raise UserError("--sampler balanced is for one label per text; use --class-weights balanced with --multi-label.")
    if flags.resume and flags.overwrite:
        raise UserError("--resume goes on with a run and --overwrite replaces it: give one of them.")
    if flags.overfit and (flags.resume or len(flags.seeds) > 1):
        raise UserError("--overfit is a short check: it takes one seed and no --resume.")


# ------------------------------------------------------------------------------------------------ the task

@dataclass
class Task:
    """What is the same for every seed: texts, labels, tokens, floors."""

    dataset: data.Dataset
    tokenizer: Tokenizer
    train_store: data.TokenStore
    val_store: data.TokenStore
    train_pairs: data.TokenStore | None
    val_pairs: data.TokenStore | None
    record: dict[str, Any]            # the parts of run.json that describe the data
    floors: dict[str, Any]

    def lengths(self, which: str) -> np.ndarray:
        """Tokens of each text (n,), special tokens included, before truncation."""
        first, second = (self.train_store, self.train_pairs) if which == "train" else (self.val_store, self.val_pairs)
        total = np.asarray(first.lengths) + self.tokenizer.num_special(second is not None)
        return total if second is None else total + np.asarray(second.lengths)

    def lengths_read(self, which: str, flags: Flags) -> np.ndarray:
        """Tokens the model reads of each text (n,): cut at --max-len, or all of it in windows."""
        return self.lengths(which) if flags.truncate == "chunk" else np.minimum(self.lengths(which), flags.max_len)


def prepare(flags: Flags, procs: Processes, say: Callable[[str], None]) -> Task:
    """Read, check, tokenise, and print what a person should see before a model is trained."""
    layers = (TINY["num_hidden_layers"] if flags.model == "tiny" else  # a model that is not there costs no reading of data
              EncoderConfig.from_dict(resolve(flags.model, flags.revision, weights=False).config).num_hidden_layers)
    frozen_depth(flags.freeze, layers), check_reinit(flags.reinit_layers, layers)
    dataset = data.load_data(flags.data, flags.text_col, flags.label_col, multi_label=flags.multi_label,
                             seed=flags.split_seed, quiet=flags.quiet or not procs.first)
    if flags.tune_threshold and (flags.multi_label or len(dataset.labels) != 2):
        raise UserError("--tune-threshold is for two classes" + (" (--multi-label tunes a threshold per label by itself)." if flags.multi_label
                        else f"; there are {len(dataset.labels)}."))
    if flags.corrections:
        say(data.apply_corrections(dataset, flags.corrections))
    train, val = dataset.train, dataset.val
    if flags.overfit:
        train = val = data.wiring_rows(train, flags.overfit)
    elif flags.limit:
        train = data.limited(train, flags.limit, flags.split_seed)
    if not flags.multi_label and not flags.overfit and len(np.unique(train.labels)) < 2:  # load_data saw two
        raise UserError(f"--limit {flags.limit} leaves a single class in training; raise it." if flags.limit else
                        f"--corrections {flags.corrections} leaves a single class in training; a classifier needs two.")
    dataset = dataclasses.replace(dataset, train=train, val=val)
    for line in dataset.report.lines():
        say(line)
    if flags.limit or flags.overfit:
        say(f"limit       {len(train):,} training texts are used: {data.balance(train)}")

    quiet = flags.quiet or not procs.first
    tokenizer = (train_wordpiece(train.texts + (train.pairs or []), vocab_size=TINY_VOCABULARY) if flags.model == "tiny"
                 else load_tokenizer(flags.model, flags.revision))
    tokenizer.windows([], None if train.pairs is None else [], flags.max_len,  # refuses what no text could be cut by
                      flags.stride if flags.truncate == "chunk" else 0)
    store = lambda texts: None if texts is None else data.tokenize_store(tokenizer, texts, quiet=quiet)
    task = Task(dataset, tokenizer, store(train.texts), store(val.texts), store(train.pairs), store(val.pairs), {}, {})

    lengths = task.lengths("train")
    for line in data.token_length_report(lengths, flags.max_len):
        say(line)
    unknown = data.unknown_share(tokenizer, task.train_store)
    if unknown > 0.05:
        say(f"WARNING     {unknown:.1%} of the training tokens are unknown to this vocabulary; is it the right model?")
    say("examples    twenty training texts; read them, then record it with --looked-at-by NAME")
    for line in data.sample_rows(train, 20, flags.split_seed):
        say(line)

    if procs.first and not flags.overfit:
        texts, others = data.joined_texts(train), data.joined_texts(val)
        task.floors, _ = baselines.floors(texts, train.labels, others, val.labels, dataset.labels, flags.multi_label,
                                          quiet=quiet)
        for name, figures in task.floors.items():
            say(f"floor       {name:9s} val_acc {figures['accuracy']:.4f}  val_macro_f1 {figures['macro_f1']:.4f}"
                + (f" ({figures['note']})" if "note" in figures else ""))
    procs.wait()
    counts = train.labels.sum(0) if flags.multi_label else np.bincount(train.labels, minlength=len(dataset.labels))
    splits = {"train": dataset.train, "val": dataset.val, "test": dataset.test}
    task.record = {
        "name": dataset.name,
        "paths": {"data": None if flags.data in sources.NAMES else os.path.abspath(flags.data),
                  "corrections": os.path.abspath(flags.corrections) if flags.corrections else None},
        "fingerprint": {k: s.fingerprint() if s is not None else None for k, s in splits.items()},
        "n": {k: len(s) if s is not None else 0 for k, s in splits.items()},
        "label_counts": {name: int(c) for name, c in zip(dataset.labels, counts)},
        "lengths": {**{f"p{q}": int(np.percentile(lengths, q)) for q in (50, 90, 95, 99)}, "unknown_share": unknown,
                    "histogram": data.length_histogram(lengths)},
    }
    return task


# ------------------------------------------------------------------------------------------------ batches

class MicroBatches(torch.utils.data.Dataset):
    """This process's forward passes of one epoch, in order; built where a DataLoader worker asks for them."""

    def __init__(self, flags: Flags, task: Task, which: str, parts: list[np.ndarray], config: EncoderConfig):
        self.flags, self.tokenizer, self.parts, self.config = flags, task.tokenizer, parts, config
        self.store, self.pairs, split = ((task.train_store, task.train_pairs, task.dataset.train) if which == "train"
                                         else (task.val_store, task.val_pairs, task.dataset.val))
        self.labels = split.labels

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, i: int) -> tuple[dict[str, torch.Tensor], torch.Tensor | None, torch.Tensor]:
        """(model inputs (B,S), document of each window or None, targets (B,) or (B,C))."""
        rows = self.parts[i]
        targets = torch.from_numpy(np.ascontiguousarray(self.labels[rows]))
        if self.flags.truncate == "chunk":
            batch = data.collate_windows(self.tokenizer, self.store, rows, self.flags.max_len, self.flags.stride, self.pairs)
        else:
            batch = data.collate(self.tokenizer, self.store, rows, self.flags.max_len, self.flags.truncate, self.pairs)
        document = batch.pop("document", None)
        check_inputs(self.config, **batch)  # here, on the CPU: on a GPU a value outside a table is a device-side assert
        return batch, document, targets

    def start(self, device: torch.device, workers: int) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor | None, torch.Tensor]]:
        """The passes, one by one. Ctrl-C in a terminal and the end of a job reach the whole process group: workers, born
        with both signals blocked, work on until this process has finished its step and ends them.
        """
        loader = torch.utils.data.DataLoader(self, batch_size=None, shuffle=False, num_workers=workers,
                                             pin_memory=device.type == "cuda")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            return iter(loader)  # starts the workers, which inherit the mask
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def epoch_windows(flags: Flags, task: Task, effective_batch: int, seed: int, epoch: int) -> list[np.ndarray]:
    """The rows of each optimizer step of an epoch: a function of (seed, epoch, effective batch) and nothing else, so
    that `--accum k` is a k times larger batch, N processes are one, and a resumed run reads what it would have read.
    """
    lengths = task.lengths_read("train", flags)
    if flags.sampler == "balanced":
        rows = data.balanced_rows(task.dataset.train.labels, seed, epoch)
        return [rows[w] for w in data.length_buckets(lengths[rows], effective_batch, seed, epoch)]
    return data.length_buckets(lengths, effective_batch, seed, epoch)


def rows_per_pass(batch_size: int, most_tokens: int | None, longest: int) -> int:
    """`batch_size`, or so many rows of `longest` tokens as make `most_tokens`; at least one."""
    return batch_size if most_tokens is None else max(1, min(batch_size, most_tokens // longest))


def share_of(window: np.ndarray, lengths: np.ndarray, batch_size: int, most_tokens: int | None, procs: Processes
             ) -> list[tuple[np.ndarray, bool]]:
    """This process's forward passes of one optimizer step: the rows of each, at most `batch_size` and (unless it is one
    row) `most_tokens`, all of like length, and whether they count.

    Every process gets the same number of passes, or the gradient exchange would wait for ever. A process that would
    have no row in a pass repeats one, which does not count.
    """
    rows = rows_per_pass(batch_size, most_tokens, int(lengths[window].max()))
    passes = math.ceil(len(window) / (rows * procs.world))
    window = window[np.argsort(lengths[window], kind="stable")]
    parts = np.array_split(window, passes * procs.world)[procs.rank::procs.world]
    return [(p, True) if len(p) else (window[:1], False) for p in parts]


# ------------------------------------------------------------------------------------------------ loss

def loss_sum(logits: torch.Tensor, targets: torch.Tensor, class_weights: torch.Tensor | None, smoothing: float) -> torch.Tensor:
    """The *sum* of the losses of the rows: logits (B,C) float32, targets (B,) int64 or (B,C) float32 multi-label.

    A sum, because a mean of micro-batch means is not the mean of the batch when their sizes (or class weights)
    differ; the caller divides once, by `loss_weight` of everything that shares the optimizer step.
    """
    if targets.dim() == 2:
        return F.binary_cross_entropy_with_logits(logits, targets, pos_weight=class_weights, reduction="sum")
    return F.cross_entropy(logits, targets, weight=class_weights, label_smoothing=smoothing, reduction="sum")


def loss_weight(labels: np.ndarray, class_weights: torch.Tensor | None) -> float:
    """What the sum is divided by: the rows' number, their class weights' total, or rows × labels (multi-label)."""
    if labels.ndim == 2:
        return float(labels.size)
    return float(len(labels) if class_weights is None else class_weights.double().cpu().numpy()[labels].sum())


def balanced_weights(labels: np.ndarray, classes: int) -> torch.Tensor:
    """n / (k · n_c) per class (King & Zeng 2001); multi-label: negatives per positive of each label (`pos_weight`)."""
    if labels.ndim == 2:
        positive = np.maximum(labels.sum(0), 1)
        return torch.tensor((len(labels) - positive) / positive, dtype=torch.float32)
    counts = np.maximum(np.bincount(labels, minlength=classes), 1)
    return torch.tensor(len(labels) / (classes * counts), dtype=torch.float32)


def document_logits(logits: torch.Tensor, document: torch.Tensor | None, documents: int) -> torch.Tensor:
    """Mean over each document's windows (W,C) → (B,C): a document weighs the same however many windows it has."""
    if document is None:
        return logits
    sums = logits.new_zeros(documents, logits.size(1)).index_add_(0, document, logits)
    return sums / torch.bincount(document, minlength=documents).unsqueeze(1)


# ------------------------------------------------------------------------------------------------ the loop

def seed_everything(*numbers: int) -> None:
    """Seed torch (every device) from several small numbers, mixed so that neighbours do not give alike streams."""
    torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1)))


def validate(model: Classifier, flags: Flags, task: Task, device: torch.device, precision: str, procs: Processes
             ) -> tuple[np.ndarray, float]:
    """Logits of every validation text (n,C) and the mean loss, on every process. The model's mode is restored."""
    was_training = model.training
    model.eval()  # dropout off
    lengths = task.lengths_read("val", flags)
    mine = np.argsort(-lengths, kind="stable")[procs.rank::procs.world]
    parts = [mine[rows] for rows in token_budget_batches(lengths[mine], default_batch_tokens(device))]
    found, total = [], 0.0
    with torch.inference_mode():
        batches = MicroBatches(flags, task, "val", parts, model.config).start(device, 0)
        for batch, document, targets in cli.progress(batches, desc="validation", total=len(parts), unit="batch",
                                                     quiet=flags.quiet or not procs.first):
            batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
            document = None if document is None else document.to(device)
            with devices.autocast(device, precision):
                logits = model(**batch)
            logits = document_logits(logits.float(), document, len(targets))
            total += float(loss_sum(logits, targets.to(device), None, 0.0))
            found.append(logits.cpu().numpy())
    model.train(was_training)
    n, classes = len(task.dataset.val), len(task.dataset.labels)
    logits = np.zeros((n, classes), dtype=np.float32)
    for rows, part in procs.gather((mine, np.concatenate(found) if found else logits[:0])):
        logits[rows] = part
    return logits, procs.sum([total], device)[0] / loss_weight(task.dataset.val.labels, None)


def val_figures(logits: np.ndarray, task: Task) -> tuple[float, float]:
    """(accuracy, macro-F1) on validation; multi-label: at threshold 0.5, accuracy of the whole set."""
    predicted = metrics.sigmoid(logits) >= 0.5 if task.dataset.multi_label else logits.argmax(1)
    return metrics.scores(task.dataset.val.labels, predicted, len(task.dataset.labels))


@dataclass
class Progress:
    """Where a run stands: what a saved state holds beside weights and optimizer."""

    epoch: int = 1                     # counted from 1
    window: int = 0                    # windows of this epoch already trained on
    step: int = 0                      # optimizer steps that happened (a skipped fp16 step does not)
    skipped: int = 0                   # fp16 steps skipped in a row
    loss: float = 0.0                  # this epoch's summed loss
    weight: float = 0.0                # what it is divided by
    best_epoch: int = 0
    best_macro_f1: float = -1.0
    best_val_loss: float = math.inf
    best_file: str | None = None
    best_sha256: str | None = None
    seconds: float = 0.0               # spent so far, earlier processes included
    epoch_seconds: float = 0.0         # of that, in this epoch
    history: list = dataclasses.field(default_factory=list)

    def next_epoch(self) -> None:
        self.epoch, self.window, self.loss, self.weight, self.epoch_seconds = self.epoch + 1, 0, 0.0, 0.0, 0.0


def fit(flags: Flags, seed: int, out: Path, task: Task, model: Classifier, device: torch.device, precision: str,
        procs: Processes, stop: Stop, say: Callable[[str], None]) -> Progress:
    """Train `model`; on return it holds the weights of the best epoch (or, with --overfit, the last)."""
    train, classes = task.dataset.train, len(task.dataset.labels)
    effective_batch = rows_per_step(flags, procs)
    lengths, most_tokens = task.lengths_read("train", flags), devices.pass_tokens(device, model.config.hidden_size)
    if len(train) < procs.world:
        raise UserError(f"{len(train)} training texts cannot be shared by {procs.world} processes; use fewer.")
    per_epoch = math.ceil(len(train) / effective_batch)
    epochs = OVERFIT_EPOCHS if flags.overfit else flags.epochs
    total = per_epoch * epochs
    warmup = warmup_steps(total, flags.warmup_ratio)
    class_weights = balanced_weights(train.labels, classes).to(device) if flags.class_weights == "balanced" else None

    groups = parameter_groups(model, flags.lr, flags.weight_decay, flags.layer_decay)
    optimizer = make_optimizer(groups, device)
    scaler = devices.make_scaler(device, precision)
    trained = [p for g in groups for p in g["params"]]
    at = Progress()
    if flags.resume and checkpoint.has_state(out):
        at = restore(out, flags, task, effective_batch, model, optimizer, scaler)
    if len(set(procs.gather((at.epoch, at.window)))) > 1:
        raise UserError(f"the processes find different states in {out}: every node must see the same --out.")
    if at.step:
        say(f"resume      from epoch {at.epoch}, optimizer step {at.step}")
    announce(say, flags, task, model, groups, device, precision, per_epoch, total, warmup, effective_batch)

    replicas = model
    if procs.world > 1:  # averages gradients over processes; unused parts are frozen, so it never waits for them
        replicas = DistributedDataParallel(model, device_ids=[procs.local_rank] if device.type == "cuda" else None)
    forward = torch.compile(replicas) if flags.compile else replicas
    model.train()
    saved_at = time.monotonic()
    eta = Eta(int(lengths.sum()), say)

    while at.epoch <= epochs and not (flags.patience and at.epoch - 1 - at.best_epoch >= flags.patience):
        ticked, busy, rows_seen = time.monotonic(), 0.0, 0
        windows = epoch_windows(flags, task, effective_batch, seed, at.epoch)
        todo = [(w, share_of(w, lengths, flags.batch_size, most_tokens, procs)) for w in windows[at.window:]]
        parts = [rows for _, passes in todo for rows, _ in passes]
        batches = MicroBatches(flags, task, "train", parts, model.config).start(device, flags.workers)

        for window, passes in cli.progress(todo, desc=f"epoch {at.epoch}", unit="step", quiet=flags.quiet or not procs.first):
            # Dropout masks are a function of (seed, epoch, window, process): a resumed run draws the same ones.
            seed_everything(seed, at.epoch, at.window, procs.rank)
            set_lr(optimizer, 1.0 if flags.overfit else lr_factor(at.step, total, warmup))
            optimizer.zero_grad(set_to_none=True)
            weight = loss_weight(train.labels[window], class_weights)  # of all rows of the step, on all processes
            window_loss = torch.zeros((), device=device)
            for i, (_, counts) in enumerate(passes):
                batch, document, targets = next(batches)
                batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
                targets = targets.to(device, non_blocking=True)
                document = None if document is None else document.to(device, non_blocking=True)
                # Gradients are exchanged once per optimizer step, with the last pass of the window.
                alone = replicas.no_sync() if procs.world > 1 and i + 1 < len(passes) else contextlib.nullcontext()
                with alone:
                    with devices.autocast(device, precision):
                        logits = forward(**batch)
                    logits = document_logits(logits.float(), document, len(targets))
                    loss = loss_sum(logits, targets, class_weights, flags.label_smoothing) / weight
                    if not counts:
                        loss = loss * 0.0
                    # DistributedDataParallel averages over processes; the loss is a sum over them.
                    scaler.scale(loss * procs.world).backward()
                window_loss += loss.detach()
            # The one right order: unscale, clip, step, update; the schedule follows only a step that happened.
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(trained, flags.max_grad_norm)
            window_loss, norm = torch.stack([window_loss, norm.to(window_loss.dtype)]).tolist()  # the one wait for the device
            due = procs.first and ((at.step + 1) % flags.save_every == 0 if flags.save_every
                                   else time.monotonic() - saved_at > SAVE_SECONDS)
            window_loss, stopping, due = procs.sum([window_loss, float(stop.asked), float(due)], device)
            if not math.isfinite(window_loss) or (not math.isfinite(norm) and not scaler.is_enabled()):
                raise UserError(f"the {'gradient' if math.isfinite(window_loss) else 'loss'} stopped being finite at optimizer "
                                f"step {at.step + 1} (epoch {at.epoch}); lower --lr (it is {flags.lr:g}) or leave --amp "
                                f"out. {out} holds no spoiled file" + ("; the best epoch so far is in its state/." if at.best_file else "."))
            scale = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            if scaler.get_scale() < scale:  # fp16 overflowed: the optimizer was skipped
                at.skipped += 1
                if at.skipped > 50:
                    raise UserError("fp16 overflowed in 50 steps in a row; use --amp bf16 or leave --amp out.")
            else:
                at.step, at.skipped = at.step + 1, 0
                at.loss, at.weight = at.loss + window_loss * weight, at.weight + weight
            at.window += 1
            rows_seen += len(window)
            now = time.monotonic()
            at.seconds, at.epoch_seconds, busy, ticked = at.seconds + now - ticked, at.epoch_seconds + now - ticked, busy + now - ticked, now
            eta.tick(int(lengths[window].sum()), at, epochs, per_epoch)

            if (due or stopping) and not flags.overfit:
                save(out, at, flags, task, effective_batch, model, optimizer, scaler, procs)
                saved_at = time.monotonic()
            if stopping:
                raise cli.Interrupted("the wiring check keeps no state." if flags.overfit else how_to_go_on(out, at))

        train_loss = at.loss / at.weight if at.weight else math.nan
        if flags.overfit:
            if train_loss < OVERFIT_LOSS or at.epoch == epochs:
                at.history.append([at.epoch, train_loss])
                return at
            at.next_epoch()
            continue

        logits, val_loss = validate(model, flags, task, device, precision, procs)
        if not np.isfinite(logits).all():
            raise UserError(f"validation after epoch {at.epoch} gave values that are not finite; lower --lr.")
        accuracy, macro_f1 = procs.gather(val_figures(logits, task))[0]  # rank 0's decide: other nodes may round otherwise
        say_always(procs, f"epoch {at.epoch}  train_loss {train_loss:.4f}  val_acc {accuracy:.4f}  val_macro_f1 {macro_f1:.4f}")
        at.seconds, at.epoch_seconds = at.seconds + time.monotonic() - ticked, at.epoch_seconds + time.monotonic() - ticked
        at.history.append([at.epoch, train_loss, val_loss, accuracy, macro_f1, max(g["lr"] for g in optimizer.param_groups),
                           at.epoch_seconds, rows_seen / max(busy, 1e-9)])
        # Of two epochs with the same macro-F1 (a handful of rows, all right) the surer one is better trained.
        if (macro_f1, -val_loss) > (at.best_macro_f1, -at.best_val_loss):
            at.best_epoch, at.best_macro_f1, at.best_val_loss = at.epoch, macro_f1, val_loss
            at.best_file, at.best_sha256 = on_first(procs, lambda: checkpoint.save_best(out, at.epoch, model.state_dict()))
        at.next_epoch()
        save(out, at, flags, task, effective_batch, model, optimizer, scaler, procs)
        saved_at = time.monotonic()
        if procs.sum([float(stop.asked)], device)[0]:
            raise cli.Interrupted(how_to_go_on(out, at))

    if procs.first:  # the one that writes the run folder; another node may not even see these files
        model.load_state_dict(checkpoint.load_best(out, at.best_file, at.best_sha256))  # the best epoch, not the last
    return at


# ------------------------------------------------------------------------------------------------ states

class Stop:
    """SIGINT and SIGTERM ask the loop to finish its step and save; a second one, later, ends the process at once.

    Not a second one within two seconds: after Ctrl-C torchrun passes on what the terminal has already sent to every
    process, and that is one wish, not two.
    """

    def __init__(self) -> None:
        self.asked, self.since = False, 0.0

    def __enter__(self) -> Stop:
        self.before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _ask(self, number: int, frame: Any) -> None:
        if self.asked and time.monotonic() - self.since > 2:
            raise KeyboardInterrupt
        if not self.asked:
            self.asked, self.since = True, time.monotonic()

    def __exit__(self, *exc: Any) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def how_to_go_on(out: Path, at: Progress) -> str:
    return (f"the state after optimizer step {at.step} is saved; go on with --resume beside the same flags "
            f"(the run folder is {out}).")


def on_first(procs: Processes, do: Callable[[], Any]) -> Any:
    """`do()` on rank 0; its result, or its failure, on every process (a failure on one alone would hang the others)."""
    result, problem = None, None
    if procs.first:
        try:
            result = do()
        except Exception as e:
            problem = e
    procs.check(problem)
    return procs.gather(result)[0]


def versions() -> dict[str, str]:
    import sklearn
    import tokenizers
    return {"minibert": minibert.__version__, "python": platform.python_version(), "torch": str(torch.__version__),
            "numpy": np.__version__, "scikit-learn": sklearn.__version__, "tokenizers": tokenizers.__version__}


def rows_per_step(flags: Flags, procs: Processes) -> int:
    """The effective batch: rows that share an optimizer step."""
    return flags.batch_size * flags.accum * procs.world


def identity(flags: dict[str, Any], effective_batch: int, data_record: dict[str, Any], made_with: dict[str, str]) -> dict[str, Any]:
    """What a state, or a seed that has ended, and the run that goes on from it must agree on."""
    same = {"--" + k.replace("_", "-"): str(v) for k, v in flags.items() if k not in FREE_ON_RESUME}
    return {**same, "batch size x accum x processes": effective_batch,
            **{f"{k} data": v for k, v in data_record["fingerprint"].items() if k != "test"},
            **{f"{k} version": v for k, v in made_with.items() if k in ("minibert", "torch")}}


def check_same_run(out: Path, saved: dict[str, Any], flags: Flags, effective_batch: int, task: Task) -> None:
    """Raise UserError naming what differs between the `identity` of what is saved in `out` and this run's."""
    differs = checkpoint.difference(saved, identity(dataclasses.asdict(flags), effective_batch, task.record, versions()))
    if differs:
        raise UserError(f"what is saved in {out} belongs to another run ({differs}); give the same flags and data, or start "
                        "over with --overwrite.")


def save(out: Path, at: Progress, flags: Flags, task: Task, effective_batch: int, model: Classifier,
         optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, procs: Processes) -> None:
    """Everything `restore` needs, by rank 0."""
    on_first(procs, lambda: checkpoint.save_state(out, {
        **dataclasses.asdict(at), "identity": identity(dataclasses.asdict(flags), effective_batch, task.record, versions()),
        "model": dict(model.state_dict()), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}))


def restore(out: Path, flags: Flags, task: Task, effective_batch: int, model: Classifier,
            optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> Progress:
    """Load the last state into model, optimizer and scaler. Raises UserError naming what differs from this run."""
    state = checkpoint.load_state(out)
    check_same_run(out, state["identity"], flags, effective_batch, task)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
    return Progress(**{f.name: state[f.name] for f in dataclasses.fields(Progress)})


# ------------------------------------------------------------------------------------------------ what is printed

def say_always(procs: Processes, line: str) -> None:
    if procs.first:
        print(line, flush=True)


def announce(say: Callable[[str], None], flags: Flags, task: Task, model: Classifier, groups: list[dict],
             device: torch.device, precision: str, per_epoch: int, total: int, warmup: int, effective_batch: int) -> None:
    """Device, parameters, memory plan and schedule, before the first step."""
    say(devices.describe(device, precision))
    count = lambda ps: sum(p.numel() for p in ps)
    trained, everything = count(p for g in groups for p in g["params"]), count(model.parameters())
    decayed = [g for g in groups if g["weight_decay"] > 0] or [g for g in groups if flags.weight_decay == 0]
    say(f"parameters  encoder {count(model.encoder.parameters()):,}, head {count(model.head.parameters()):,}; "
        f"{trained:,} trained, of which {count(p for g in decayed for p in g['params']):,} in "
        f"{sum(len(g['params']) for g in decayed)} matrices decay")
    c = model.config
    longest = min(flags.max_len, int(task.lengths("train").max()))
    rows = min(len(task.dataset.train), rows_per_pass(flags.batch_size, devices.pass_tokens(device, c.hidden_size), longest))
    plan = devices.memory_plan(
        c, trained, everything - trained, rows, longest, precision=precision,
        attention_dropout=c.attention_probs_dropout_prob, hidden_dropout=c.hidden_dropout_prob,
        fused_attention=flags.attention == "sdpa" and (device.type != "cpu" or c.attention_probs_dropout_prob == 0))
    # On a CPU the weights are part of what the process holds already.
    held = devices.resident_memory() - plan["weights"] if device.type == "cpu" else 0
    say("memory      " + ", ".join(f"{k} {v / 2**20:,.0f} MiB" for k, v in plan.items())
        + f"; in all about {sum(plan.values()) / 2**20:,.0f} MiB"
        + (f", beside the {held / 2**20:,.0f} MiB that libraries and texts hold" if held > 0 else ""))
    say(f"dropout     hidden {c.hidden_dropout_prob:g}, attention {c.attention_probs_dropout_prob:g}")
    say(f"schedule    {per_epoch:,} steps per epoch, {total:,} in all, {warmup:,} of warmup; rate {flags.lr:g}; "
        f"effective batch {effective_batch}")


class Eta:
    """Says once, after a few steps, when the training will end."""

    def __init__(self, tokens_per_epoch: int, say: Callable[[str], None]):
        self.say, self.per_epoch = say, tokens_per_epoch
        self.began, self.done, self.ticks, self.told = time.monotonic(), 0, 0, False

    def tick(self, tokens: int, at: Progress, epochs: int, windows_per_epoch: int) -> None:
        self.done, self.ticks = self.done + tokens, self.ticks + 1
        elapsed = time.monotonic() - self.began
        if self.told or self.ticks < 5 or elapsed < 3:
            return
        left = self.per_epoch * (epochs - at.epoch + 1 - at.window / windows_per_epoch) * elapsed / self.done
        end = datetime.datetime.now() + datetime.timedelta(seconds=left)
        self.say(f"end         in about {datetime.timedelta(seconds=round(left))}, at {end:%H:%M} (without the final report)")
        self.told = True


def turning_point(history: list[list], best_epoch: int) -> str:
    """The sentence on overfitting: where validation turned while the training loss still fell."""
    losses, best = [h[1] for h in history], [h[0] for h in history].index(best_epoch)
    if best + 1 < len(history) and losses[-1] < losses[best]:
        if history[-1][4] == history[best][4]:
            return (f"validation was as good after epoch {history[best][0]} as after the last, and surer (a lower loss): the model of "
                    f"epoch {history[best][0]} was kept.")
        return (f"validation turned after epoch {history[best][0]} while the training loss still fell "
                f"({losses[best]:.4f} to {losses[-1]:.4f}): the model of epoch {history[best][0]} was kept, not the last.")
    return f"validation was best at epoch {history[best][0]} of {len(history)}; that model was kept."


# ------------------------------------------------------------------------------------------------ one run

def build_model(flags: Flags, seed: int, task: Task, device: torch.device, say: Callable[[str], None]) -> Classifier:
    """The classifier, in fp32, on `device`, its random parts drawn from `seed`."""
    labels, tokenizer = task.dataset.labels, task.tokenizer
    rates = dict(dropout=flags.dropout, attention_dropout=flags.attention_dropout)
    if flags.attention_dropout is None and device.type == "cpu":
        # On a CPU, attention dropout forces PyTorch's unfused attention: twice the time of a whole training step.
        rates["attention_dropout"] = 0.0
    if flags.overfit:
        rates = dict(dropout=0.0, attention_dropout=0.0)
    if flags.model == "tiny":
        seed_everything(seed)
        config = EncoderConfig(model_type="bert", vocab_size=tokenizer.vocab_size, pad_token_id=tokenizer.pad_id, **TINY,
                               hidden_dropout_prob=rates["dropout"], attention_probs_dropout_prob=rates["attention_dropout"])
        model = Classifier(config, len(labels), flags.head, flags.attention)
    else:
        model = load_classifier(flags.model, len(labels), flags.head, labels=labels, revision=flags.revision,
                                implementation=flags.attention, seed=seed, multi_label=task.dataset.multi_label, say=say, **rates)
        if tokenizer.vocab_size > model.config.vocab_size:
            raise UserError(f"{flags.model}: its tokenizer knows {tokenizer.vocab_size:,} tokens but its embedding table has "
                            f"{model.config.vocab_size:,} rows; the files do not belong together.")
    model.labels = list(labels)
    model.problem_type = "multi_label_classification" if task.dataset.multi_label else "single_label_classification"
    if flags.max_len > model.config.max_tokens:
        say(f"length      --max-len {flags.max_len} is more than the model's {model.config.max_tokens} positions; using those")
        flags.max_len = model.config.max_tokens
    reinit_layers(model, flags.reinit_layers, seed)
    if flags.freeze:
        say(f"frozen      {len(freeze(model, flags.freeze))} parameter tensors ({flags.freeze})")
    return model.to(device)


def finish(flags: Flags, seed: int, out: Path, task: Task, model: Classifier, at: Progress, device: torch.device,
           precision: str, effective_batch: int) -> dict[str, Any]:
    """Fit temperature, pooling and thresholds on validation, write the run folder, return validation's figures."""
    dataset, val = task.dataset, task.dataset.val
    info: dict[str, Any] = {
        "minibert": minibert.__version__, "flags": dataclasses.asdict(flags), "seed": seed,
        "model": flags.model, "labels": dataset.labels, "multi_label": dataset.multi_label, "head": flags.head,
        "max_len": flags.max_len, "truncate": flags.truncate, "stride": flags.stride,
        "text_col": flags.text_col.split(","), "label_col": flags.label_col.split(","), "temperature": 1.0,
        "thresholds": None, "decision_threshold": None, "pooling": None,
        "dropout": {"hidden": model.config.hidden_dropout_prob, "attention": model.config.attention_probs_dropout_prob},
        "data": task.record, "versions": versions(), "git_commit": devices.git_commit(), "best_epoch": at.best_epoch,
        "parameters": {"encoder": sum(p.numel() for p in model.encoder.parameters()),
                       "head": sum(p.numel() for p in model.head.parameters()),
                       "trained": sum(p.numel() for p in model.parameters() if p.requires_grad)},
        "seconds": at.seconds, "peak_memory_bytes": devices.peak_memory(device), "device": str(device),
        "precision": precision, "effective_batch": effective_batch, "looked_at_by": flags.looked_at_by,
        "wiring": checkpoint.read_wiring(out, dataclasses.asdict(flags)),
    }
    # The same code that will serve scores validation once more, in fp32: these are the figures that are kept.
    predictor = Predictor.from_parts(model, task.tokenizer, info, name=str(out), device=str(device))
    logits, document, lengths = predictor.window_logits(val.texts, val.pairs, quiet=flags.quiet)
    if flags.truncate == "chunk":
        pooled = {p: pool_windows(logits, document, lengths, p, dataset.multi_label) for p in POOLINGS}
        info["pooling"] = max(POOLINGS, key=lambda p: val_figures(pooled[p], task)[1])
        logits = pooled[info["pooling"]]
    if dataset.multi_label:
        info["temperature"] = metrics.fit_temperature_multilabel(logits, val.labels)
        probs = metrics.sigmoid(logits / info["temperature"])
        info["thresholds"] = dict(zip(dataset.labels, map(float, metrics.tune_thresholds(val.labels, probs))))
        figures = metrics.multilabel_summary(val.labels, probs, dataset.labels, info["thresholds"])
    else:
        info["temperature"] = metrics.fit_temperature(logits, val.labels)
        probs, predicted = metrics.softmax(logits / info["temperature"]), None
        if flags.tune_threshold:
            value = metrics.tune_threshold(val.labels, probs[:, 1])
            info["decision_threshold"] = {"label": dataset.labels[1], "value": value}
            predicted = (probs[:, 1] >= value).astype(int)
        figures = metrics.summary(val.labels, probs, dataset.labels, predicted=predicted)
    figures["tuned_here"] = [name for name, used in (
        ("best epoch", True), ("temperature", True), ("thresholds", dataset.multi_label or flags.tune_threshold),
        ("pooling", flags.truncate == "chunk")) if used]

    with storage_faults(f"replace the run in {out}"):
        clear_reports(out)  # of the run that --overwrite replaces
        if out.name == f"seed-{seed}":
            clear_reports(out.parent)
        (out / "run.json").unlink(missing_ok=True)
    save_classifier(model, out)
    task.tokenizer.save(out, flags.max_len, flags.truncate)
    write_csv(out / "history.csv", HISTORY, at.history)
    write_json(out / "metrics.json", {"val": {**figures, "baselines": task.floors}})
    checkpoint.seal_run(out, info, ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
    return figures


def clear_reports(folder: Path) -> None:
    """Remove what evaluate.py wrote about weights that are replaced."""
    for old in [*folder.glob("*.png"), folder / "report.md", folder / "errors.csv", folder / "metrics.json"]:
        old.unlink(missing_ok=True)
    for old in [folder / "val", *folder.glob("on-*")]:
        shutil.rmtree(old, ignore_errors=True)


def train_one(flags: Flags, seed: int, out: Path, task: Task, device: torch.device, procs: Processes,
              say: Callable[[str], None]) -> dict[str, Any] | None:
    """One seed, from weights to a sealed run folder. Returns validation's figures (on rank 0)."""
    precision, remark = devices.choose_precision(device, flags.amp)
    if remark:
        say(remark)
    model = build_model(flags, seed, task, device, say)
    if flags.resume and on_first(procs, lambda: ended(out, flags)):  # a seed of a family
        info = checkpoint.load_run(out).info
        check_same_run(out, identity(info["flags"], info["effective_batch"], info["data"], info["versions"]), flags,
                       rows_per_step(flags, procs), task)
        say(f"seed {seed}     has ended already: {out}")
        return read_json(out / "metrics.json", "figures of the run")["val"]
    if not flags.resume and not flags.overfit:
        on_first(procs, lambda: checkpoint.clear_state(out))
    with Stop() as stop:
        at = fit(flags, seed, out, task, model, device, precision, procs, stop, say)
    if flags.overfit:
        return wiring_verdict(flags, at)
    say(turning_point(at.history, at.best_epoch))
    figures = on_first(procs, lambda: finish(flags, seed, out, task, model, at, device, precision, rows_per_step(flags, procs)))
    floor = max((f["macro_f1"] for f in task.floors.values()), default=0.0)
    if procs.first and figures["macro_f1"] < floor:
        say_always(procs, f"WARNING     seed {seed}: below the best floor ({floor:.4f} macro-F1): a bag of words does better than this model.")
    if not flags.multi_label:
        answers = metrics.class_counts(figures)[2]
        if np.count_nonzero(answers) == 1:
            say_always(procs, f"WARNING     seed {seed}: every validation text gets the label '{task.dataset.labels[int(answers.argmax())]}'; "
                       "try a lower --lr, more --epochs or --class-weights balanced.")
    say_always(procs, f"kept epoch {at.best_epoch}: val_acc {figures['accuracy']:.4f}  val_macro_f1 {figures['macro_f1']:.4f}"
               f"  ({datetime.timedelta(seconds=round(at.seconds))} of training) in {out}")
    return figures


def wiring_verdict(flags: Flags, at: Progress) -> dict[str, Any]:
    """What `--overfit` found: a model that cannot memorise a few texts has a broken part somewhere."""
    epoch, loss = at.history[-1]
    return {"n": flags.overfit, "loss": loss, "epochs": epoch, "ok": loss < OVERFIT_LOSS,
            **{k: getattr(flags, k) for k in ("data", "model", "head")}}


def ended(run: Path, flags: Flags) -> bool:
    """Whether nothing is left to do here. A state beside a finished run is of a run that --overwrite began and that
    --resume shall go on with, or was about to be removed: to resume from it writes the same files again.
    """
    return checkpoint.finished(run) and not (flags.resume and checkpoint.has_state(run))


def take_folder(flags: Flags, out: Path, held: contextlib.ExitStack) -> None:
    """Lock the run folder and refuse what may not be written over: in this order where it is there already, or a run
    that is alive would be called one that has not ended."""
    lock = lambda: held.enter_context(folder_lock(out, "a training run"))
    with storage_faults(f"use {out}"):
        was_there = out.is_dir()
        if was_there:
            lock()
        check_out(flags, out)
        if not was_there:
            lock()


def check_out(flags: Flags, out: Path) -> None:
    """Refuse to write over a run that ended, or past one that did not, unless told to."""
    runs = [out] if len(flags.seeds) == 1 else [out / f"seed-{s}" for s in flags.seeds]
    if flags.overfit:
        return
    # What would be left of the old one would be read as part of the new one, so --overwrite does not help here.
    if len(flags.seeds) == 1 and checkpoint.seed_folders(out):
        raise UserError(f"{out} holds a family of seeds; choose another --out for a single run, or remove that folder.")
    if len(flags.seeds) > 1 and (checkpoint.finished(out) or checkpoint.has_state(out)):
        raise UserError(f"{out} holds a single run; choose another --out for several seeds, or remove that folder.")
    others = [p.name for p in checkpoint.seed_folders(out) if p not in runs]
    if others:
        raise UserError(f"{out} also holds {', '.join(others)}, which would count with these seeds; choose another --out or remove them.")
    if flags.overwrite:
        return
    if all(ended(run, flags) for run in runs):
        raise UserError(f"{out} holds a run that has ended; choose another --out, or --overwrite to replace it.")
    if flags.resume:
        if not out.is_dir():  # a folder without a state is a run killed before its first one: it starts anew
            raise UserError(f"--resume: {out} holds nothing to go on from; leave --resume out to start.")
        return
    if any(checkpoint.finished(r) or checkpoint.has_state(r) for r in runs):
        raise UserError(f"{out} holds a run that has not ended; go on with --resume, or start over with --overwrite.")


def main(argv: list[str]) -> int:
    flags = read_flags(argv)
    device = devices.choose_device(flags.device, int(os.environ.get("LOCAL_RANK", "0")))
    devices.choose_precision(device, flags.amp)  # refused now, not after the data were read
    out = Path(flags.out)
    with processes(device) as procs, contextlib.ExitStack() as held:
        say = print if procs.first and not flags.quiet else lambda line: None
        on_first(procs, lambda: take_folder(flags, out, held))
        say("recipe      " + ", ".join(f"--{k.replace('_', '-')} {getattr(flags, k)}" for k in RECIPE) + f", --out {out}")
        task = prepare(flags, procs, say)
        results = []
        for seed in flags.seeds:
            folder = out if len(flags.seeds) == 1 else out / f"seed-{seed}"
            try:
                results.append(train_one(dataclasses.replace(flags, seeds=[seed]), seed, folder, task, device, procs, say))
            except (RuntimeError, MemoryError) as e:
                if str(e).startswith("DataLoader worker"):  # most often by the system, for want of memory
                    raise UserError(f"a process of --workers {flags.workers} was killed from outside, perhaps because the memory was used up; go on "
                                    "with --resume and the same flags, and fewer --workers.") from e
                if not devices.out_of_memory(e):
                    raise
                raise UserError(f"out of memory: use --batch-size {max(1, flags.batch_size // 2)} --accum {flags.accum * 2}, "
                                "which keeps the effective batch, or a smaller --max-len.") from e
        if not procs.first:
            return 0
        if flags.overfit:
            verdict = results[0]
            write_json(out / "wiring.json", verdict)
            print(f"wiring      {verdict['n']} texts, loss {verdict['loss']:.4f} after {verdict['epochs']} epochs: " + (
                "every part learns." if verdict["ok"] else f"NOT under {OVERFIT_LOSS}: the wiring or --lr is wrong."))
            return 0 if verdict["ok"] else 1
        if len(results) > 1:
            f1 = np.array([r["macro_f1"] for r in results])
            print(f"{len(f1)} seeds: val_macro_f1 mean {f1.mean():.4f}, spread (standard deviation) {f1.std(ddof=1):.4f}, "
                  f"worst {f1.min():.4f} (seed {flags.seeds[int(f1.argmin())]})")
        print(f"next: python evaluate.py {out}")
    return 0


if __name__ == "__main__":
    cli.run(main)
