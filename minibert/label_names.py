"""Labels: cells of a table → names → class indices, with the spellings that silently make two classes of one caught.

A label is its exact text, stripped: never a number that turns 01 into 1, never a missing value.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Sequence

import numpy as np

from .cli import UserError
from .sources import Table

Label = Any  # a string, or with several labels at once a frozenset of strings

MAX_MATRIX = 1 << 30  # cells of the (rows, labels) table: 4 GB
MAX_LABEL = 200  # characters; a longer one is a text in the wrong column

_ON, _OFF = {"1", "1.0", "true"}, {"0", "0.0", "false"}


def parse(table: Table, columns: Sequence[str], multi_label: bool, warnings: list[str]) -> list[Label]:
    """The labels of each row as words. Raises UserError with the line of an empty or malformed cell."""
    if len(columns) > 1:
        return _from_columns(table, columns)
    labels = _sets(table, columns[0]) if multi_label else _singles(table, columns[0], warnings)
    for line, label in zip(table.lines, labels):
        longest = max(label, key=len, default="") if multi_label else label
        if len(longest) > MAX_LABEL:
            raise UserError(f"{table.where}, line {line}: a label has {len(longest):,} characters ({longest[:40]!r}…); is "
                            f"--label-col {columns[0]} the right column?")
    return labels


def _singles(table: Table, column: str, warnings: list[str]) -> list[str]:
    labels = [cell.strip() for cell in table.columns[column]]
    empty = [line for line, label in zip(table.lines, labels) if not label]
    if empty:
        raise UserError(f"{table.where}: the label is empty in {line_numbers(empty)}; fill it in or delete the row.")
    if sum("|" in label for label in labels) > len(labels) / 4:
        warnings.append("many labels contain '|': several labels a text need --multi-label")
    return labels


def _sets(table: Table, column: str) -> list[frozenset[str]]:
    """`a|b` → {a, b}: order and repeats mean nothing, and an empty cell is the legal empty set."""
    cells = table.columns[column]
    if not any("|" in cell for cell in cells):
        for separator in ";,":
            pieces = {piece.strip() for cell in cells for piece in cell.split(separator)}
            # Fewer pieces than cells: the same names come back in other combinations, so this is the separator.
            if len(pieces) < len({cell.strip() for cell in cells}):
                line, cell = next((line, cell) for line, cell in zip(table.lines, cells) if separator in cell)
                raise UserError(f"{table.where}, line {line}: {cell[:60]!r} seems to separate labels by {separator!r}; "
                                f"write them with '|' between, as a|b.")
    return [frozenset(name for piece in cell.split("|") if (name := piece.strip())) for cell in cells]


def _from_columns(table: Table, columns: Sequence[str]) -> list[frozenset[str]]:
    """One 0/1 column per label → the set of the columns that hold 1."""
    for column in columns:
        for line, cell in zip(table.lines, table.columns[column]):
            if cell.strip().casefold() not in _ON | _OFF:
                raise UserError(f"{table.where}, line {line}: the label column {column!r} holds {cell[:40]!r}; it must "
                                f"hold 0 or 1.")
    rows = zip(*(table.columns[c] for c in columns))
    return [frozenset(c for c, cell in zip(columns, row) if cell.strip().casefold() in _ON) for row in rows]


def in_order(names: Iterable[str]) -> list[str]:
    """Sorted, and as numbers where every name is a whole number, so that class 10 comes after class 9."""
    names = set(names)
    if all(re.fullmatch(r"-?[0-9]{1,18}", name) for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def names_in(labels: Sequence[Label], lines: Iterable[int], multi_label: bool) -> dict[str, int]:
    """The different names of a split, each with the line where it stands first."""
    first: dict[str, int] = {}
    for label, line in zip(labels, lines):
        for name in label if multi_label else (label,):
            first.setdefault(name, int(line))
    return first


def check_spellings(found: dict[str, dict[str, int | None]], warnings: list[str]) -> None:
    """1 beside 1.0 is an error (a spreadsheet's work); Pos beside pos, or 01 beside 1, only a warning.

    `found`: where the names stand, and the line where each does first, for the message.
    """
    by_number: dict[str, set[str]] = {}
    by_look: dict[str, set[str]] = {}
    every = sorted(set().union(*found.values()))  # sorted: the same message every time
    for name in every:
        if re.fullmatch(r"-?[0-9]+(\.0*)?", name):
            by_number.setdefault(name.split(".")[0], set()).add(name)
        look = " ".join(name.split()).casefold()
        by_look.setdefault(look.lstrip("0") or "0" if look.isdecimal() else look, set()).add(name)
    for same in by_number.values():
        if len(same) > 1:
            a, b = sorted(same, key=lambda name: (len(name), name))[:2]
            place = lambda name: next(key + (f", line {names[name]}" if names[name] else "") for key, names in found.items() if name in names)
            raise UserError(f"the labels {a!r} ({place(a)}) and {b!r} ({place(b)}) are two spellings of one number; write "
                            f"it the same way everywhere.")
    for same in by_look.values():
        if len(same) > 1:
            warnings.append(f"the labels {', '.join(map(repr, sorted(same)))} differ only in spelling and are kept as "
                            f"different classes")
    for name in every:
        if name.casefold() in ("nan", "null", "none", "n/a", "na"):
            warnings.append(f"the label {name!r} is taken as the name of a class; does it stand for a missing value?")


def encode(labels: Sequence[Label], names: Sequence[str], multi_label: bool) -> np.ndarray:
    """Indices 0..k-1 of our own making, (n,) int64 (so never -100 or 4 of 3 classes), or (n, k) float32 of 0 and 1."""
    index = {name: i for i, name in enumerate(names)}
    if not multi_label:
        return np.array([index[name] for name in labels], dtype=np.int64)
    if len(labels) * len(names) > MAX_MATRIX:
        raise UserError(f"{len(labels):,} rows with {len(names):,} different labels need a table of "
                        f"{len(labels) * len(names) * 4 >> 30} GB; is --label-col the right column?")
    matrix = np.zeros((len(labels), len(names)), dtype=np.float32)
    for i, present in enumerate(labels):
        matrix[i, [index[name] for name in present]] = 1.0
    return matrix


def line_numbers(lines: Sequence[int], most: int = 5) -> str:
    """"line 3", "lines 3, 5", "lines 3, 5, 7, 9, 11 and 20 more"."""
    more = f" and {len(lines) - most:,} more" if len(lines) > most else ""
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:most]))}{more}"
