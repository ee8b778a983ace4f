"""The little grammar behind the embedded data sets: frames with slots, vocabulary to fill them, pools dealt to splits.

A *frame* is a piece of text with slots ("the {asp} {was|were} {adj+}"). Frames belong to exactly one split, so a
test row never repeats the wording of a training row. *Vocabulary* is what fills slots (words, short phrases, names)
and is shared by all splits: a model cannot know a word that it has never seen.

Slots
    {asp}        a random entry of vocabulary list "asp"; entries are not repeated within a row
    {adj+}       an entry of the list that *agrees* with the row's label; {adj-} one of the opposite list
    {was|were}   singular or plural, agreeing with the {asp} (or {asp2}) filled last
    {c+} {n-}    an entry of another frame pool of the same split, expanded with that polarity
"""

from __future__ import annotations

import csv
import io
import random
import re
import sys
from pathlib import Path
from typing import Callable

SPLITS = ("train", "val", "test")
SLOT = re.compile(r"\{([^{}]+)\}")


def deal(frames: list[str], train: list[str] = ()) -> dict[str, list[str]]:
    """Deal a pool of frames to the splits by position, 7 : 1 : 2; the frames of `train` go to that split as they are.

    Pools are written in families of ten alike in kind, so that each split gets a share of every kind. The frames of
    `train` see to it that words on which the meaning hangs ("nobody", "hardly") are not met for the first time in test.
    """
    every = [*frames, *train]
    if len(set(every)) != len(every):
        raise ValueError(f"a frame is listed twice: {sorted(f for f in every if every.count(f) > 1)[0]!r}")
    side = {3: "test", 5: "val", 8: "test"}
    dealt: dict[str, list[str]] = {s: [] for s in SPLITS}
    for i, frame in enumerate(frames):
        dealt[side.get(i % 10, "train")].append(frame)
    dealt["train"] += train
    return dealt


KEPT = ("genre", "title")  # a row speaks of one film


class Writer:
    """Writes one row: remembers the words used, the frames used and the number of the last subject."""

    def __init__(self, rng: random.Random, split: str, pools: dict[str, dict[str, list[str]]],
                 words: dict[str, list], label: int):
        if both := set(pools) & set(words):
            raise ValueError(f"named twice, as frames and as vocabulary: {', '.join(sorted(both))}")
        self.rng, self.split, self.pools, self.words, self.label = rng, split, pools, words, label
        self.used: set[str] = set()
        self.frames: set[str] = set()
        self.plural = False
        self.kept: dict[str, str] = {}

    def frame(self, pool: str, label: int | None = None) -> str:
        """One frame of `pool`, expanded so that "+" means `label` (default: the row's own)."""
        choice = self.rng.choice(self.pools[pool][self.split])
        self.frames.add(choice)
        before, self.label = self.label, self.label if label is None else label
        text = SLOT.sub(lambda m: self._fill(m.group(1)), choice)
        self.label = before
        return text

    def _fill(self, slot: str) -> str:
        if "|" in slot:
            return slot.split("|")[self.plural]
        sign = 0
        if slot[-1] in "+-":
            slot, sign = slot[:-1], 1 if slot[-1] == "+" else -1
        polarity = self.label if sign >= 0 else 1 - self.label
        if slot in self.pools:
            return self.frame(slot, polarity)
        if slot in self.kept:
            return self.kept[slot]
        entries = self.words[slot]
        if sign:
            entries = entries[polarity]
        word = self._word(entries)
        if slot in KEPT:
            self.kept[slot] = word
        return word

    def _word(self, entries: list) -> str:
        for _ in range(20):
            word = self.rng.choice(entries)
            if word not in self.used or not word:
                break
        self.used.add(word)
        if isinstance(word, tuple):
            word, self.plural = word[0], word[1] == "plural"
        return SLOT.sub(lambda m: self._fill(m.group(1)), word)


VOWEL_SOUND = re.compile(r"\b([Aa]) (?=(?:[aeio]|u(?!ni[cfoqtv]|s[eu]|til)|hono?u?r|honest|hour|heir|8|11\b|18\b|8\d\b))", re.I)


def tidy(text: str) -> str:
    """Articles before vowels, capitals after full stops, single spaces."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"\s+([,.;:!?])", r"\1", text)
    text = VOWEL_SOUND.sub(lambda m: m.group(1) + "n ", text)
    text = re.sub(r"\b([Aa])n (?=one\b)", r"\1 ", text)
    return re.sub(r"(^|[.!?] |[.!?]\" )([\"(]?)([a-z])", lambda m: m.group(1) + m.group(2) + m.group(3).upper(), text)


class Corpus:
    """The rows of a data set while it is written: every text once, and the frames that each split used."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.frames: dict[str, set[str]] = {split: set() for split in SPLITS}
        self._texts: set[str] = set()

    def add(self, split: str, write: Callable[[], tuple[str, set[str], list[str]]]) -> None:
        """One row of `write()`, which gives (text, frames, the other cells), again until its text is new."""
        while True:
            text, used, cells = write()
            key = re.sub(r"\W+", " ", text.lower())  # whatever the casing and the marks
            if key not in self._texts:
                break
        self._texts.add(key)
        self.frames[split] |= used
        self.rows.append([text, *cells])


def main(name: str, header: list[str], rows: list[list[str]]) -> None:
    """Write `rows` to data/NAME.csv, or to the path on the command line. UTF-8, "\n" line ends on every system: the
    bytes are part of the contract."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent / f"{name}.csv")
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    path.write_bytes(buffer.getvalue().encode("utf-8"))
    print(f"{path.name}: {len(rows):,} rows, {path.stat().st_size:,} bytes")
