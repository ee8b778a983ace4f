"""Data: tables of text → checked splits → flat token arrays → length-bucketed, padded batches.

One way through: `load_data` (splits and a report on them), `tokenize_store` (each text tokenised once),
`length_buckets` (which rows share a batch, a function of (seed, epoch)), `collate` (a batch of tensors).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np
import torch

from . import cli, files, label_names, sources
from .cli import UserError
from .sources import Table
from .tokenization import Tokenizer

# ---------------------------------------------------------------------------------------------- splits


@dataclass
class Split:
    """Rows of one split. `labels` (n,) int64 class indices, or (n, k) float32 0/1 with several labels at once."""

    texts: list[str]
    labels: np.ndarray
    rows: np.ndarray                 # (n,) int64: the line of the source file (1-based), or a running number
    names: list[str]                 # the label behind each index
    pairs: list[str] | None = None   # second texts, of sentence pairs
    extra: dict[str, list[str]] = field(default_factory=dict)  # the other columns, for --slice-col; never analysed

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Sequence[int] | np.ndarray) -> Split:
        """The split of these row indices, in their order."""
        rows = np.asarray(rows, dtype=np.int64)
        pick = lambda cells: [cells[i] for i in rows]
        return Split(pick(self.texts), self.labels[rows], self.rows[rows], self.names,
                     None if self.pairs is None else pick(self.pairs), {k: pick(v) for k, v in self.extra.items()})

    def label_text(self, row: int) -> str:
        """The row's label, or its labels joined by "|", as the source writes them."""
        label = self.labels[row]
        return self.names[label] if self.labels.ndim == 1 else "|".join(n for n, on in zip(self.names, label) if on)

    def fingerprint(self) -> str:
        """SHA-256 of texts and labels by name: the same data, whatever file or label order it came in by."""
        parts = [part for i, text in enumerate(joined_texts(self)) for part in (text, self.label_text(i))]
        return files.sha256(*parts)

    def shared_with(self, *others: Split | None) -> np.ndarray:
        """(n,) bool: rows whose text stands, character for character, in one of the other splits too."""
        seen = {text for other in others if other is not None for text in joined_texts(other)}
        return np.array([text in seen for text in joined_texts(self)], dtype=bool)

    def conflicting(self) -> np.ndarray:
        """(n,) bool: rows whose text (case and spaces aside) occurs again in this split under another label."""
        groups = text_groups(joined_texts(self))
        first = np.zeros(groups.max(initial=-1) + 1, dtype=np.int64)
        first[groups[::-1]] = np.arange(len(self))[::-1]  # the first row of each group, because it is written last
        differs = self.labels != self.labels[first[groups]]
        differs = differs.any(1) if differs.ndim == 2 else differs
        return np.isin(groups, groups[differs])


@dataclass
class Dataset:
    """What `load_data` gives: label names in index order, the splits (val is never None), and the report on them."""

    name: str
    labels: list[str]
    multi_label: bool
    train: Split
    val: Split
    test: Split | None
    report: DataReport


def joined_texts(split: Split) -> list[str]:
    """One string per row: the text, or both texts of a pair on two lines (for the bag-of-words floors and duplicates)."""
    return split.texts if split.pairs is None else [f"{a}\n{b}" for a, b in zip(split.texts, split.pairs)]


def text_groups(texts: Sequence[str]) -> np.ndarray:
    """(n,) int64: equal numbers for texts that are equal but for case and spaces."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(" ".join(t.split()).casefold(), len(seen)) for t in texts], dtype=np.int64)


# ---------------------------------------------------------------------------------------------- loading

def load_data(spec: str | Path, text_col: str = "text", label_col: str = "label", multi_label: bool = False,
              seed: int = 42, val_fraction: float = 0.1, test_fraction: float = 0.1, quiet: bool = False,
              names: list[str] | None = None) -> Dataset:
    """Read `spec`, check it, and give train, validation and test splits with a report to print.

    spec: reviews, tickets, aspects (embedded), imdb (downloaded once), or the path of a .csv, .tsv, .jsonl file, a
    folder with train.* (val.*, test.*), an aclImdb folder or its .tar.gz. `text_col` "a,b" makes a pair of texts;
    `label_col` "a,b,c" with `multi_label` are 0/1 columns (the default, "label", is "labels" for aspects). `names`
    fixes the label names and their order; otherwise they are the labels of the training rows, sorted.

    What has no validation split gets one: `val_fraction` of the training rows, stratified, with rows of the same text
    on one side; never out of test. A single file without splits is carved into train, val and test.
    Rows with an empty text are dropped and reported. Raises UserError for everything that is wrong with the data.
    """
    if seed < 0:
        raise UserError(f"the seed {seed} must be 0 or more.")
    if not (0 < val_fraction < 1 and 0 < test_fraction < 1 and val_fraction + test_fraction < 1):
        raise UserError(f"validation {val_fraction} and test {test_fraction} must be shares of the rows, below 1 together.")
    text_cols, label_cols = _column_names(text_col, "--text-col", 2), _column_names(label_col, "--label-col", None)
    if spec == "aspects":
        if not multi_label:
            raise UserError("aspects has several labels a text: add --multi-label.")
        label_cols = ["labels"] if label_cols == ["label"] else label_cols
    if len(label_cols) > 1 and not multi_label:
        raise UserError(f"--label-col {label_col} names several columns: add --multi-label (each holds 0 or 1).")
    if set(text_cols) & set(label_cols):
        raise UserError(f"the column {min(set(text_cols) & set(label_cols))!r} cannot be both text and label.")

    name, tables = sources.read_source(spec, text_cols, label_cols, multi_label=multi_label, quiet=quiet)
    report = DataReport(name, next(iter(tables.values())).where)
    raw = {key: _rows_with_text(key, table, text_cols, label_cols, multi_label, report) for key, table in tables.items()}
    report.notes += dict.fromkeys(note for table in tables.values() for note in table.notes)

    known = _label_names(raw, names, multi_label, report)
    splits = {key: _encode(part, known, multi_label) for key, part in raw.items()}
    report.look_at(splits)
    _check_classes(splits.get("train", splits.get("all")), multi_label)
    train, val, test = _carve_missing(splits, seed, val_fraction, test_fraction, report)
    report.count({"train": train, "val": val} | ({} if test is None else {"test": test}), multi_label)
    _check_classes(train, multi_label)
    report.missing_classes(val, "val", multi_label)
    if test is not None:
        report.missing_classes(test, "test", multi_label)
    return Dataset(name, known, multi_label, train, val, test, report)


def load_rows(path: str | Path, names: list[str], text_col: str = "text", label_col: str = "label",
              multi_label: bool = False, say: Callable[[str], Any] = print) -> Split:
    """A whole file as one labelled split under a trained model's label `names`.

    Tells `say` what was dropped or odd. Raises UserError as `load_data` does; labels the model has not are listed.
    """
    text_cols, label_cols = _column_names(text_col, "--text-col", 2), _column_names(label_col, "--label-col", None)
    if Path(path).suffix.lower() not in sources.SUFFIXES:
        raise UserError(f"{path} must be a .csv, .tsv or .jsonl file.")
    table = sources.read_table(path, text_cols, label_cols, multi_label=multi_label)
    report = DataReport(Path(path).stem, str(path))
    part = _rows_with_text("all", table, text_cols, label_cols, multi_label, report)
    split = _encode(part, _label_names({"all": part}, names, multi_label, report), multi_label)
    for lines in report.dropped.values():
        say(f"note        {path}: {len(lines):,} rows dropped, empty text in {label_names.line_numbers(lines)}")
    for line in (*table.notes, *report.warnings):
        say(f"note        {path}: {line}")
    return split


def _column_names(text: str, flag: str, most: int | None) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names) or (most and len(names) > most):
        wanted = "one column, or two as a,b" if most else "one column, or several as a,b,c"
        raise UserError(f"{flag} {text!r}: give {wanted}.")
    return names


@dataclass
class _Raw:
    """A split whose labels are still words: one string a row, or a set of strings (multi-label)."""

    texts: list[str]
    labels: list[Any]
    rows: np.ndarray
    pairs: list[str] | None
    extra: dict[str, list[str]]
    where: str


def _rows_with_text(split: str, table: Table, text_cols: list[str], label_cols: list[str], multi_label: bool,
                    report: DataReport) -> _Raw:
    """The table's rows with their labels parsed; rows whose text (or one text of a pair) is empty are dropped."""
    texts = [table.columns[c] for c in text_cols]
    keep = [i for i in range(len(table)) if all(t[i].strip() for t in texts)]
    if len(keep) < len(table):
        kept = set(keep)
        report.dropped[split] = [table.lines[i] for i in range(len(table)) if i not in kept]
    report.read[split] = len(table)
    if not keep:
        raise UserError(f"{table.where} holds no row with a text{'' if split == 'all' else f' for {split}'}.")
    columns = {c: [v[i] for i in keep] for c, v in table.columns.items()}
    table = Table(table.where, columns, [table.lines[i] for i in keep])
    used = {*text_cols, *label_cols, ""}
    words = label_names.parse(table, label_cols, multi_label, report.warnings)
    return _Raw(table.columns[text_cols[0]], words, np.array(table.lines, dtype=np.int64),
                table.columns[text_cols[1]] if len(text_cols) == 2 else None,
                {c: v for c, v in table.columns.items() if c not in used}, table.where)


def _label_names(raw: dict[str, _Raw], given: list[str] | None, multi_label: bool, report: DataReport) -> list[str]:
    """Label names in index order: the given ones, else those of the training rows. Raises UserError for unseen ones."""
    found = {part.where if key == "all" else f"{key}, {part.where}": label_names.names_in(part.labels, part.rows, multi_label)
             for key, part in raw.items()}
    label_names.check_spellings(found | ({"the model": dict.fromkeys(given)} if given else {}), report.warnings)
    known = list(given) if given else label_names.in_order(next(names for key, names in zip(raw, found.values())
                                                           if key in ("train", "all")))
    for where, names in found.items():
        unseen = label_names.in_order(names.keys() - set(known))
        if unseen:
            raise UserError(f"{where}, line {min(names[name] for name in unseen)}: the labels {sources.some(unseen)} are not among the {len(known):,} labels of "
                            f"{'the model' if given else 'the training rows'}; correct them, or train with rows of them.")
    return known


def _encode(part: _Raw, known: list[str], multi_label: bool) -> Split:
    labels = label_names.encode(part.labels, known, multi_label)
    return Split(part.texts, labels, part.rows, known, part.pairs, part.extra)


def _class_counts(split: Split) -> np.ndarray:
    """(k,) rows per label."""
    if split.labels.ndim == 2:
        return split.labels.sum(0).astype(np.int64)
    return np.bincount(split.labels, minlength=len(split.names))


def _check_classes(train: Split, multi_label: bool) -> None:
    counts = _class_counts(train)
    if multi_label and not counts.any():
        raise UserError("no training row has any label; is --label-col the right column?")
    if not multi_label and (counts > 0).sum() < 2:
        shown = ", ".join(f"{n} {c:,}" for n, c in zip(train.names, counts))
        raise UserError(f"the training rows hold a single class ({shown} rows); a classifier needs at least two.")


# ---------------------------------------------------------------------------------------------- carving

def _carve_missing(splits: dict[str, Split], seed: int, val_fraction: float, test_fraction: float, report: DataReport
                   ) -> tuple[Split, Split, Split | None]:
    """Train, val, test; what the source does not give is carved out of the training rows, never out of test."""
    train, val, test = splits.get("train", splits.get("all")), splits.get("val"), splits.get("test")
    whole = len(train)
    if val is None and test is None:
        mask = carve(train, test_fraction, seed)
        test, train = train.take(np.flatnonzero(mask)), train.take(np.flatnonzero(~mask))
        report.notes.append(f"no test split is given: {len(test):,} of {whole:,} rows are set aside as test, stratified")
    if val is None:
        mask = carve(train, val_fraction * whole / len(train), seed + 1)
        val, train = train.take(np.flatnonzero(mask)), train.take(np.flatnonzero(~mask))
        report.notes.append(f"no validation split is given: {len(val):,} of {whole:,} training rows become validation, "
                            f"stratified, rows of one text on one side")
    return train, val, test


def carve(split: Split, fraction: float, seed: int) -> np.ndarray:
    """(n,) bool: about `fraction` of the rows, as many of each class as its share, equal texts never parted.

    Every class keeps at least one text on the side that is left, so 150 classes of 3 rows work: the share a class
    cannot give in whole rows is dealt out by largest remainder, ties by the seed. With several labels a row counts
    for its rarest one, which keeps the rare labels in proportion and the others nearly so.
    """
    rng = np.random.default_rng(seed)
    groups = text_groups(joined_texts(split))
    strata = _strata(split)
    _, first, sizes = np.unique(groups, return_index=True, return_counts=True)
    stratum = strata[first]  # a group goes by the label of its first row
    texts = np.bincount(stratum)

    share = np.bincount(stratum, weights=sizes) * fraction
    quota = np.floor(share).astype(np.int64)
    spare = max(1, round(len(split) * fraction)) - quota.sum()
    order = np.lexsort((rng.random(len(share)), quota - share))
    quota[order[texts[order] > 1][:max(spare, 0)]] += 1

    mask = np.zeros(len(first), dtype=bool)
    taken, left = np.zeros_like(quota), texts.copy()
    for g in rng.permutation(len(first)):
        s = stratum[g]
        if taken[s] + sizes[g] <= quota[s] and left[s] > 1:
            mask[g] = True
            taken[s] += sizes[g]
            left[s] -= 1
    if not mask.any():
        raise UserError(f"{len(split):,} rows ({len(first):,} different texts; classes: {np.count_nonzero(texts):,}) are too "
                        f"few to set some aside for validation or test; add rows, or give val and test files.")
    return mask[groups]


def _strata(split: Split) -> np.ndarray:
    if split.labels.ndim == 1:
        return split.labels
    on = split.labels > 0
    rarest = np.where(on, _class_counts(split), np.inf).argmin(1)
    return np.where(on.any(1), rarest, len(split.names))


def wiring_rows(train: Split, n: int) -> Split:
    """The first `n` rows for --overfit, from every class in turn; texts with two labels cannot be fitted and stay out."""
    usable = np.flatnonzero(~train.conflicting())
    strata = _strata(train)[usable]
    turn = np.zeros(len(usable), dtype=np.int64)
    for s in np.unique(strata):
        turn[strata == s] = np.arange((strata == s).sum())
    rows = usable[np.lexsort((np.arange(len(usable)), turn))][:n]
    if not len(rows):
        raise UserError("every training text carries two different labels; there is nothing to fit.")
    return train.take(np.sort(rows))


def limited(train: Split, n: int, seed: int) -> Split:
    """The first `n` rows after a shuffle by `seed`, for --limit."""
    return train.take(np.random.default_rng(seed).permutation(len(train))[:n])


def balance(split: Split) -> str:
    """Rows per label, in index order where they are few, and what the simplest answer would score."""
    no_label = int((split.labels.sum(1) == 0).sum()) if split.labels.ndim == 2 else None
    return _balance(dict(zip(split.names, map(int, _class_counts(split)))), len(split), no_label)


def apply_corrections(dataset: Dataset, path: str | Path) -> str:
    """Put the `correction` column of an errors.csv in place of labels of train and validation; says what was done.

    A row is found by its text and its label. Test labels are never touched: correcting only what a model got wrong
    would flatter it. Nor does what was read in a test row (column `split`) change a copy of it in training. Raises
    UserError for a correction that is no label, or a file without one.
    """
    table = sources.read_table(path, ["text"], ["truth", "correction"])
    wanted: dict[tuple[str, str], np.ndarray | int] = {}
    of_test = 0
    splits = table.columns.get("split", [""] * len(table))
    for line, split_name, text, truth, correction in zip(table.lines, splits, *(table.columns[c] for c in ("text", "truth", "correction"))):
        if not correction.strip():
            continue
        names = [n.strip() for n in correction.split("|") if n.strip()] if dataset.multi_label else [correction.strip()]
        if not set(names) <= set(dataset.labels):
            raise UserError(f"{path}, line {line}: the correction {correction[:60]!r} is no label of this data"
                            f"{cli.nearest(names[0], dataset.labels)}; the labels are {sources.some(dataset.labels)}.")
        if split_name == "test":
            of_test += 1
            continue
        wanted[text, truth] = (np.isin(dataset.labels, names).astype(np.float32) if dataset.multi_label
                               else dataset.labels.index(names[0]))
    if not wanted and of_test:
        raise UserError(f"{path} corrects test rows only, whose labels stay as they are; correct rows of train or val: "
                        "`evaluate.py RUN --label-errors` and `--split val` list suspect ones.")
    if not wanted:
        raise UserError(f"{path} holds no correction: write the right label into its `correction` column.")
    done, used = Counter(), set()
    for key, split in (("training", dataset.train), ("validation", dataset.val)):
        shown = split.texts if split.pairs is None else [f"{a} ‖ {b}" for a, b in zip(split.texts, split.pairs)]
        for i, text in enumerate(shown):
            at = (text, split.label_text(i))
            if at in wanted:
                split.labels[i] = wanted[at]
                done[key] += 1
                used.add(at)
    return (f"corrections {done['training']:,} labels of training and {done['validation']:,} of validation replaced; "
            f"{of_test + len(wanted) - len(used):,} of {of_test + len(wanted):,} corrections are for other rows (test labels "
            "stay as they are)")


# ---------------------------------------------------------------------------------------------- report

@dataclass
class DataReport:
    """What was found in the data, for a person to read before training: `lines()`."""

    name: str
    where: str
    read: dict[str, int] = field(default_factory=dict)                      # rows by split as given ("all": one file)
    dropped: dict[str, list[int]] = field(default_factory=dict)             # split as given → lines with an empty text
    counts: dict[str, dict[str, int]] = field(default_factory=dict)         # split as used → label → rows
    sizes: dict[str, int] = field(default_factory=dict)                     # split as used → rows
    no_label: dict[str, int] = field(default_factory=dict)                  # multi-label: split as used → rows without
    repeats: dict[str, int] = field(default_factory=dict)                   # rows whose text stands earlier in the split
    shared: dict[tuple[str, str], int] = field(default_factory=dict)        # different texts that two splits share
    alike: dict[str, int] = field(default_factory=dict)                     # more such rows when case and spaces are put aside
    alike_shared: dict[tuple[str, str], int] = field(default_factory=dict)  # more such texts, likewise
    conflicts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def look_at(self, splits: dict[str, Split]) -> None:
        """Count equal texts within and across the splits as given, exact ones and those equal but for case and spaces,
        and texts under two labels."""
        texts = {key: joined_texts(split) for key, split in splits.items()}
        distinct = {key: set(t) for key, t in texts.items()}
        groups = dict(zip(texts, np.split(text_groups([t for part in texts.values() for t in part]),
                                          np.cumsum([len(part) for part in texts.values()])[:-1])))
        for key in splits:
            self.repeats[key] = len(texts[key]) - len(distinct[key])
            self.alike[key] = len(distinct[key]) - len(np.unique(groups[key]))
        keys = list(splits)
        for a, b in [(a, b) for i, a in enumerate(keys) for b in keys[i + 1:]]:
            shared = distinct[a] & distinct[b]
            self.shared[a, b] = len(shared)
            exact = {group for text, group in zip(texts[a], groups[a]) if text in shared} if shared else set()
            self.alike_shared[a, b] = len(np.intersect1d(groups[a], groups[b])) - len(exact)
        self._find_conflicts(splits, groups)

    def _find_conflicts(self, splits: dict[str, Split], groups: dict[str, np.ndarray]) -> None:
        first: dict[int, tuple[str, int]] = {}  # group → where its text stands first
        place = lambda key, i: f"{'' if key == 'all' else key + ' '}line {splits[key].rows[i]}"
        for key, split in splits.items():
            for i, group in enumerate(groups[key].tolist()):
                key0, i0 = first.setdefault(group, (key, i))
                if (key0, i0) != (key, i) and (was := splits[key0].label_text(i0)) != (now := split.label_text(i)):
                    self.conflicts.append(f"{place(key0, i0)} says {was!r}, {place(key, i)} says {now!r}")

    def count(self, splits: dict[str, Split], multi_label: bool) -> None:
        """Count rows and classes of the splits as used."""
        for key, split in splits.items():
            self.sizes[key] = len(split)
            self.counts[key] = dict(zip(split.names, map(int, _class_counts(split))))
            if multi_label:
                self.no_label[key] = int((split.labels.sum(1) == 0).sum())
        train = self.counts["train"]
        if not multi_label and len(train) > 20 and len(train) > self.sizes["train"] / 2:
            self.warnings.append(f"{len(train):,} labels on {self.sizes['train']:,} training rows: is --label-col right?")

    def missing_classes(self, split: Split, key: str, multi_label: bool) -> None:
        missing = [n for n, c in zip(split.names, _class_counts(split)) if not c]
        if missing:
            self.warnings.append(f"{key} has no row of {len(missing)} of {len(split.names)} "
                                 f"{'labels' if multi_label else 'classes'} ({sources.some(missing, 5)}): nothing is measured "
                                 f"for them there")

    def lines(self) -> list[str]:
        """The report, one printable line each."""
        say = lambda head, text: out.append(f"{head:<11} {_one_line(text, 1000)}")
        out: list[str] = []
        lost = sum(map(len, self.dropped.values()))
        say("data", f"{self.name} ({self.where})")
        say("rows", f"{sum(self.read.values()):,} read, {lost:,} dropped"
            + "".join(f"; empty text in {key}: {label_names.line_numbers(lines)}" for key, lines in self.dropped.items()))
        say("splits", ", ".join(f"{key} {n:,} ({n / sum(self.sizes.values()):.1%})" for key, n in self.sizes.items())
            + ("" if "test" in self.sizes else ", no test rows"))
        for key, counts in self.counts.items():
            say(f"  {key}", _balance(counts, self.sizes[key], self.no_label.get(key)))
        for note in self.notes:
            say("note", note)
        found = [f"{n:,} within {key}" for key, n in self.repeats.items() if n]
        found += [f"{n:,} texts shared by {a} and {b}" for (a, b), n in self.shared.items() if n]
        stay = " (they stay, for comparability; evaluate.py also reports without them)" if any(self.shared.values()) else ""
        say("duplicates", (f"exact repeats: {', '.join(found)}" if found else "no text stands twice") + stay)
        found = [f"{n:,} more within {key}" for key, n in self.alike.items() if n]
        found += [f"{n:,} more shared by {a} and {b}" for (a, b), n in self.alike_shared.items() if n]
        if found:
            say("  alike", f"but for case or spaces: {', '.join(found)}")
        if self.conflicts:
            say("conflicts", f"{len(self.conflicts):,} rows give a text another label than before: "
                + "; ".join(self.conflicts[:3]) + ("; …" if len(self.conflicts) > 3 else ""))
        for warning in self.warnings:
            say("WARNING", warning)
        return out


def _balance(counts: dict[str, int], rows: int, no_label: int | None) -> str:
    """Rows per label, in index order where they are few, and what the simplest answer would score."""
    by_size = sorted(counts.items(), key=lambda item: -item[1])
    shown = [f"{n} {c:,} ({c / rows:.1%})" for n, c in (counts.items() if len(counts) <= 12 else by_size[:5])]
    if len(counts) > 12:
        shown.append(f"… {len(counts)} in all, the smallest {by_size[-1][0]} {by_size[-1][1]:,}")
    if no_label is not None:
        return f"{', '.join(shown)}; {sum(counts.values()) / rows:.2f} labels a row, {no_label:,} rows without any"
    return f"{', '.join(shown)}; majority baseline {by_size[0][1] / rows:.1%}"


def sample_rows(split: Split, n: int = 20, seed: int = 42) -> list[str]:
    """`n` random rows as printable lines, to be read by a person: wrong labels are found by reading."""
    chosen = split.take(np.random.default_rng(seed).permutation(len(split))[:n])
    shown = [_one_line(chosen.label_text(i) or "(none)", 40) for i in range(len(chosen))]
    width = max(map(len, shown), default=0)
    return [f"  {label:<{width}}  {_one_line(text)}" for label, text in zip(shown, joined_texts(chosen))]


def _one_line(text: str, most: int = 160) -> str:
    text = "".join(c if c.isprintable() else " " for c in text[:4 * most])  # no escape sequence reaches the terminal
    text = " ".join(text.split())
    return text if len(text) <= most else text[:most // 2] + " … " + text[-most // 2:]


def token_length_report(lengths: np.ndarray, max_len: int) -> list[str]:
    """What `max_len` costs. lengths (n,): tokens per text, special tokens included, before truncation."""
    lengths = np.asarray(lengths, dtype=np.int64)
    p50, p90, p95, p99 = np.percentile(lengths, [50, 90, 95, 99])
    full = float((np.minimum(lengths, 512).astype(np.float64) ** 2).sum())
    out = [f"lengths     tokens with special tokens: median {p50:.0f}, 90 % {p90:.0f}, 95 % {p95:.0f}, 99 % {p99:.0f}, "
           f"longest {lengths.max():,}"]
    for size in sorted({128, 256, 512, max_len}):
        cut = np.minimum(lengths, size)
        cost = float((cut.astype(np.float64) ** 2).sum()) / full  # attention compares every token with every token
        out.append(f"  {size:>5} keeps {np.mean(lengths <= size):6.1%} whole and {cut.sum() / lengths.sum():6.1%} of the "
                   f"tokens; attention costs {cost:.0%} of what 512 costs{'   <- --max-len' if size == max_len else ''}")
    lost = np.maximum(lengths - max_len, 0)
    shortest = int(np.sort(lengths)[int(np.ceil(0.95 * len(lengths))) - 1])
    out.append(f"  --max-len {max_len} discards {lost.sum() / lengths.sum():.1%} of the tokens, of {np.mean(lost > 0):.1%} of "
               f"the texts; the shortest that keeps 95 % whole is {shortest:,}")
    return out


def length_histogram(lengths: np.ndarray, bins: int = 40) -> dict[str, list]:
    """{"edges": bins + 1 token counts, "counts": bins} up to the 99.5th percentile; the last bin takes the rest."""
    top = max(int(np.ceil(np.percentile(lengths, 99.5))), 1)
    counts, edges = np.histogram(np.minimum(lengths, top), bins=bins, range=(0, top))
    return {"edges": [round(float(e), 2) for e in edges], "counts": [int(c) for c in counts]}


# ---------------------------------------------------------------------------------------------- tokens

CACHED_FROM = 1_000_000  # characters; below, tokenising again is quicker than looking for the file
CACHE_BYTES = 4 << 30    # of all token files together; beyond that, those unused for longest are removed


@dataclass
class TokenStore:
    """All content ids of a split in one flat array: 2 bytes a token (4 from 65,537 words on), no Python objects.

    Row i is `ids[offsets[i]:offsets[i + 1]]`; `ids` may be a file mapped into memory, shared between processes.
    """

    ids: np.ndarray      # (tokens,) uint16 or uint32
    offsets: np.ndarray  # (n + 1,) int64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """(n,) content tokens of each row, before truncation and special tokens."""
        return np.diff(self.offsets)

    def row(self, i: int) -> np.ndarray:
        """The content ids of row i."""
        return self.ids[self.offsets[i]:self.offsets[i + 1]]


def tokenize_store(tokenizer: Tokenizer, texts: Sequence[str], cache_dir: str | Path | None = None,
                   quiet: bool = False) -> TokenStore:
    """Tokenise every text once; large sets are kept in `cache_dir` (default: $MINIBERT_CACHE/tokens) for the next run,
    in at most CACHE_BYTES for all sets together."""
    if sum(map(len, texts)) < CACHED_FROM:
        return _tokenize(tokenizer, texts, quiet)
    folder = Path(cache_dir) if cache_dir else sources.cache_folder() / "tokens"
    key = files.sha256(_tokenizer_bytes(tokenizer), *texts)
    store = _load_store(folder, key, len(texts), tokenizer.vocab_size)
    if store is None:
        store = _tokenize(tokenizer, texts, quiet)
        try:
            for part in ("ids", "offsets"):
                files.write_atomic(folder / f"{key}.{part}.npy", lambda temp: _save_array(temp, getattr(store, part)))
        except UserError as e:  # a cache that cannot be written only costs time
            if not quiet:
                print(f"note        tokens are not cached: {e}")
            return store
        _bound_cache(folder, key)
        store = _load_store(folder, key, len(texts), tokenizer.vocab_size) or store
    return store


def _tokenize(tokenizer: Tokenizer, texts: Sequence[str], quiet: bool, chunk: int = 2048) -> TokenStore:
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32
    parts, lengths = [np.zeros(0, dtype)], [np.zeros(0, np.int64)]
    with cli.progress(total=len(texts), desc="tokenising", unit="text", quiet=quiet) as bar:
        for start in range(0, len(texts), chunk):
            ids = tokenizer.ids(texts[start:start + chunk])
            parts.append(np.concatenate(ids).astype(dtype))
            lengths.append(np.array([len(row) for row in ids], dtype=np.int64))
            bar.update(len(ids))
    return TokenStore(np.concatenate(parts), np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64))


def _tokenizer_bytes(tokenizer: Tokenizer) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        return b"".join(p.read_bytes() for p in sorted(Path(folder).iterdir()))


def _save_array(path: str, array: np.ndarray) -> None:
    with open(path, "wb") as f:
        np.save(f, array)


def _load_store(folder: Path, key: str, n: int, vocab_size: int) -> TokenStore | None:
    """The cached store, or None if it is not there or damaged (it is then made again)."""
    try:
        ids = np.load(folder / f"{key}.ids.npy", mmap_mode="r")
        offsets = np.load(folder / f"{key}.offsets.npy")
    except (OSError, ValueError, EOFError):
        return None
    whole = (ids.ndim == 1 and ids.dtype in (np.uint16, np.uint32) and offsets.shape == (n + 1,)
             and offsets.dtype == np.int64 and offsets[0] == 0 and offsets[-1] == len(ids)
             and bool((np.diff(offsets) >= 0).all()) and int(ids.max(initial=0)) < vocab_size)
    if not whole:
        return None
    with contextlib.suppress(OSError):  # a cache that others may only read
        for part in ("ids", "offsets"):
            os.utime(folder / f"{key}.{part}.npy")  # the date says when it was last used
    return TokenStore(ids, offsets)


def _bound_cache(folder: Path, key: str) -> None:
    """Remove the token files unused for longest while all together exceed CACHE_BYTES; never the set `key`.

    Nor is a set taken from a run that uses it: what is mapped into memory stays readable until that run ends.
    """
    with contextlib.suppress(OSError):  # another run may be removing the same ones
        sets: dict[str, list[Path]] = {}
        for path in sorted(folder.glob("*.npy"), key=lambda p: p.stat().st_mtime_ns):
            sets.setdefault(path.name.partition(".")[0], []).append(path)
        sizes = {name: sum(p.stat().st_size for p in paths) for name, paths in sets.items()}
        excess = sum(sizes.values()) - CACHE_BYTES
        for name, paths in sets.items():
            if excess > 0 and name != key:
                for path in paths:  # both: half a set is of no use
                    path.unlink()
                excess -= sizes[name]


def unknown_share(tokenizer: Tokenizer, store: TokenStore) -> float:
    """Share of a split's tokens that the vocabulary does not know."""
    return float(np.mean(store.ids == tokenizer.unk_id)) if len(store.ids) else 0.0


# ---------------------------------------------------------------------------------------------- batches

def length_buckets(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Row indices of each batch of an epoch: every row once, those of a batch of similar length, so that little is padding.

    A function of (seed, epoch) alone. The rows are shuffled, cut into stretches of 50 batches, sorted by length within
    each stretch, and the batches shuffled again: random enough to train on, sorted enough to pad little. The rows that
    fill no batch, a random handful, come last.
    """
    rng = np.random.default_rng([seed, epoch])
    rows = rng.permutation(len(lengths))
    whole = len(rows) - len(rows) % batch_size
    batches = []
    for start in range(0, whole, 50 * batch_size):
        stretch = rows[start:min(start + 50 * batch_size, whole)]
        stretch = stretch[np.argsort(np.asarray(lengths)[stretch], kind="stable")]
        batches += np.split(stretch, len(stretch) // batch_size)
    batches = [batches[i] for i in rng.permutation(len(batches))]
    return batches + ([rows[whole:]] if whole < len(rows) else [])


def balanced_rows(labels: np.ndarray, seed: int, epoch: int) -> np.ndarray:
    """(n,) row indices drawn with replacement so that every class is equally likely: a function of (seed, epoch)."""
    if labels.ndim != 1:
        raise UserError("--sampler balanced draws by class, and rows with several labels have none; use --class-weights "
                        "balanced.")
    counts = np.bincount(labels)
    chance = 1.0 / (counts[labels] * np.count_nonzero(counts))
    return np.random.default_rng([seed, epoch, 1]).choice(len(labels), size=len(labels), p=chance / chance.sum())


def collate(tokenizer: Tokenizer, store: TokenStore, rows: Sequence[int], max_len: int, truncate: str = "right",
            pair_store: TokenStore | None = None) -> dict[str, torch.Tensor]:
    """{"input_ids", "attention_mask", "token_type_ids"}: (B, S) int64 on the CPU, padded to the longest of these rows."""
    seconds = [None] * len(rows) if pair_store is None else [pair_store.row(i) for i in rows]
    return tokenizer.pad([tokenizer.build(store.row(i), b, max_len, truncate) for i, b in zip(rows, seconds)])


def collate_windows(tokenizer: Tokenizer, store: TokenStore, rows: Sequence[int], max_len: int, stride: int,
                    pair_store: TokenStore | None = None) -> dict[str, torch.Tensor]:
    """`collate` with all windows of each document, and "document" (B,) int64: the position in `rows` it belongs to."""
    windows, document = [], []
    for position, i in enumerate(rows):
        found = tokenizer.windows(store.row(i), None if pair_store is None else pair_store.row(i), max_len, stride)
        windows += found
        document += [position] * len(found)
    return {**tokenizer.pad(windows), "document": torch.tensor(document, dtype=torch.int64)}
