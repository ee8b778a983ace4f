"""Does the model do what anybody would expect? Small tests with a known answer, beside the test set.

After Ribeiro et al. 2020 (CheckList), with sentences of our own, for models that tell positive from negative English:

  minimum functionality  plain sentences whose label nobody would dispute
  invariance             a change that cannot matter (a name, a number, a typo, an irrelevant sentence): same label
  direction              a change that must matter one way (a negation, praise added): p(positive) moves that way

Invariance and direction need no labels, so they also run on texts of the split. A high accuracy and a failed check
are no contradiction: the split may hardly hold such sentences.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Sequence

import numpy as np

from .english import looks_english
from .failure_modes import short
from .metrics import wilson
from .report import escape, table

if TYPE_CHECKING:
    from .data import Split
    from .predictor import Predictor

PER_CHECK = 100      # cases of each check at most
TOLERANCE = 0.1      # a probability may move this much the wrong way; a negation must move it at least this much
WORRYING = 0.05      # a check is named if its failure rate is surely (95 % interval) above this

POSITIVE = {"pos", "positive", "good", "favourable", "favorable", "fresh", "recommended", "like", "liked", "happy"}
NEGATIVE = {"neg", "negative", "bad", "unfavourable", "unfavorable", "rotten", "notrecommended", "dislike", "disliked",
            "unhappy"}

NAMES = ("Alice", "Ahmed", "Bella", "Carlos", "Dmitri", "Emma", "Fatima", "George", "Hiro", "Ingrid", "Jamal", "John", "Kim",
         "Lakshmi", "Maria", "Mary", "Michael", "Mohammed", "Olga", "Peter", "Robert", "Sarah", "Tom", "Wei", "Yuki", "Zoe",
         "James", "David", "Anna", "Paul", "Susan", "Jack", "Julia", "Mark", "Laura", "Richard", "Helen", "Kate", "Steve")
THINGS = ("film", "story", "acting", "script", "music", "cast", "dialogue", "ending", "plot", "direction")
PRAISE = ("wonderful", "excellent", "great", "brilliant", "delightful", "superb", "charming", "beautiful")
BLAME = ("terrible", "awful", "bad", "dreadful", "boring", "dull", "annoying", "stupid")
ASIDES = ("We saw it on a Tuesday.", "It lasts about two hours.", "My cousin drove us there.", "The seats were blue.",
          "It was raining outside.", "A poster of it hangs in the hall.", "We took the bus home afterwards.",
          "The leaflet has twelve pages.")
FILLER = ("It begins in a small town by the sea.", "A man arrives by train.", "He meets the owner of a shop.",
          "They talk about the weather.", "Then the scene moves to the city.", "There is a dinner with the family.",
          "A letter is read aloud.", "In the second part it is winter.", "The man takes the train again.")


# ── what a check is ──────────────────────────────────────────────────────────────────────────────────────────────

@dataclass
class Case:
    """One test. `expect`: "positive" or "negative" (the label of `text`), "same" (label as `before`), or how p(positive)
    has to move from `before` to `text`: "falls", "rises" (by TOLERANCE at least), "not lower", "not higher"."""
    text: str
    expect: str
    before: str = ""


@dataclass
class Check:
    """A family of cases and, after `run`, how many failed."""
    kind: str                  # "minimum functionality", "invariance" or "direction"
    name: str
    next: str                  # what to do if it fails
    cases: list[Case]
    failures: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.failures / max(1, len(self.cases))

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.failures, len(self.cases))

    @property
    def named(self) -> bool:
        return self.interval[0] > WORRYING

    def figures(self) -> dict[str, Any]:
        """Plain values for metrics.json."""
        return {"kind": self.kind, "name": self.name, "cases": len(self.cases), "failures": self.failures, "rate": self.rate,
                "rate_ci95": list(self.interval), "named": self.named}


@dataclass
class BehaviourReport:
    """The outcome: `skipped` holds the reason where the checks do not apply (then everything else is empty)."""
    lines: list[str]
    markdown: str
    rows: list[dict[str, Any]]   # the failed cases: check, before, text, expected, got
    figures: dict[str, Any]
    checks: list[Check]
    skipped: str | None = None

    @property
    def modes(self) -> list[Check]:
        """The checks that fail too often, worst first."""
        return sorted((c for c in self.checks if c.named), key=lambda c: -c.rate)


# ── the sentences ────────────────────────────────────────────────────────────────────────────────────────────────

def minimum_functionality(rng: random.Random) -> list[Check]:
    """Sentences with a label nobody would dispute."""
    plain, negated, double, contrast, late = [], [], [], [], []
    for thing in THINGS:
        for good, bad in zip(PRAISE, BLAME):
            for word, label, other in ((good, "positive", bad), (bad, "negative", good)):
                second = rng.choice([t for t in THINGS if t != thing])
                plain.append(Case(rng.choice((
                    f"The {thing} is {word}.", f"What {_a(word)} {thing}!", f"I found the {thing} {word}.",
                    f"The {thing} was really {word}.")), label))
                contrast.append(Case(rng.choice((
                    f"The {thing} is {other}, but the {second} is {word}, and that is what counts.",
                    f"Although the {thing} was {other}, it is {_a(word)} piece of work on the whole.",
                    f"I expected something {other}, but it turned out {word}.")), label))
                late.append(Case(f"{' '.join(rng.sample(FILLER, 6))} The {thing} is {word}.", label))
            negated.append(Case(rng.choice((
                f"The {thing} is not {good}.", f"I can't say the {thing} was {good}.",
                f"The {thing} is anything but {good}.", f"Nobody would call the {thing} {good}.")), "negative"))
            double.append(Case(rng.choice((
                f"The {thing} is never {bad}.", f"There is nothing {bad} about the {thing}.",
                f"The {thing} is far from {bad}.", f"The {thing} isn't {bad} at all.")), "positive"))
    kind = "minimum functionality"
    order = ("add such sentences to the training rows, or take a larger pretrained encoder: the words alone give the "
             "wrong label")
    end = "is the end cut off (--max-len, --truncate)? Else add longer rows"
    return [Check(kind, "plain praise and blame", "look for wrong labels and for a broken vocabulary first", plain),
            Check(kind, "praise negated", order, negated), Check(kind, "blame negated", order, double),
            Check(kind, "contrast, the verdict is clear", order, contrast),
            Check(kind, "the verdict after six neutral sentences", end, late)]


def invariance(texts: Sequence[str], rng: random.Random) -> list[Check]:
    """Changes that cannot matter, on sentences of ours and on texts of the split."""
    named, numbered = [], []
    for word in (PRAISE + BLAME) * 3:
        verdict = f"The {rng.choice(THINGS)} is {word}."
        named.append(f"{rng.choice(NAMES)} plays the lead, and {rng.choice(NAMES)} wrote the script. {verdict}")
        numbered.append(f"It is {rng.randint(70, 180)} minutes long and was shot in {rng.randint(1960, 2020)}. {verdict}")
    kind, copies = "invariance", "add copies of training rows changed in this way"
    return [Check(kind, "names swapped", copies + "; the model has learned people for opinions",
                  _changed([*named, *texts], swap_names, rng)),
            Check(kind, "numbers swapped", copies, _changed([*numbered, *texts], swap_numbers, rng)),
            Check(kind, "irrelevant sentence appended", copies, _changed(texts, append_aside, rng)),
            Check(kind, "a typo", copies + "; a byte-level model (RoBERTa) minds typos less", _changed(texts, typo, rng))]


def direction(texts: Sequence[str], rng: random.Random) -> list[Check]:
    """Changes that must move p(positive) one way."""
    negation, intensity = [], []
    for thing in THINGS:
        for good, bad in zip(PRAISE, BLAME):
            negation += [Case(f"The {thing} is not {good}.", "falls", f"The {thing} is {good}."),
                         Case(f"The {thing} is not {bad}.", "rises", f"The {thing} is {bad}.")]
            very = rng.choice(("extremely", "absolutely", "really", "so very"))
            intensity += [Case(f"The {thing} is {very} {good}.", "not lower", f"The {thing} is {good}."),
                          Case(f"The {thing} is {very} {bad}.", "not higher", f"The {thing} is {bad}.")]
    warm = ("I loved it.", "It is a great film.", "I recommend it warmly.")
    cold = ("I hated it.", "It is a terrible film.", "I regret having seen it.")
    praise = [Case(f"{text} {rng.choice(warm)}", "not lower", text) for text in texts]
    blame = [Case(f"{text} {rng.choice(cold)}", "not higher", text) for text in texts]
    kind, last = "direction", "add rows whose last sentence sums up"
    return [Check(kind, "negation added", "add minimal pairs with and without it, or take a larger pretrained encoder", negation),
            Check(kind, "intensity raised", "add rows with such adverbs", intensity),
            Check(kind, "praise appended", last, praise), Check(kind, "blame appended", last, blame)]


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


# ── the changes ──────────────────────────────────────────────────────────────────────────────────────────────────

def _changed(texts: Sequence[str], change: Callable[[str, random.Random], str], rng: random.Random) -> list[Case]:
    """The texts that the change applies to, before and after."""
    pairs = [(text, change(text, rng)) for text in texts]
    return [Case(after, "same", before) for before, after in pairs if after != before]


def swap_names(text: str, rng: random.Random) -> str:
    """Every known first name becomes another; the same name becomes the same other."""
    other: dict[str, str] = {}

    def swap(match: re.Match) -> str:
        name = match.group()
        return other.setdefault(name, rng.choice([n for n in NAMES if n != name]))
    return re.sub(r"\b(?:" + "|".join(NAMES) + r")\b", swap, text)


def swap_numbers(text: str, rng: random.Random) -> str:
    """Whole numbers become others of the same length; ratings (8/10, 4 stars, 90 %, out of 5) are left alone."""
    rating = r"(?!\d|[.,]\d|\s*(?:/|%|out of|of \d|stars?|points?|percent))"
    before = r"(?<![\d/.,$£€])(?<!of )(?<!rate )(?<!give it )(?<!score of )"
    other = lambda m: m.group()[0] + "".join(rng.choice("0123456789") for _ in m.group()[1:])  # noqa: E731
    return re.sub(before + r"[1-9]\d{1,3}" + rating, other, text)


def append_aside(text: str, rng: random.Random) -> str:
    """A sentence that says nothing about the film, at the end."""
    return f"{text} {rng.choice(ASIDES)}"


def typo(text: str, rng: random.Random) -> str:
    """Two neighbouring letters inside one longer word change places; a text without such a word stays as it is."""
    words = [m for m in re.finditer(r"[A-Za-z]{5,}", text)]
    rng.shuffle(words)
    for m in words:
        at = m.start() + rng.randint(1, len(m.group()) - 3)
        if text[at] != text[at + 1]:
            return text[:at] + text[at + 1] + text[at] + text[at + 2:]
    return text


# ── running them ─────────────────────────────────────────────────────────────────────────────────────────────────

def positive_label(predictor: Predictor, texts: Sequence[str]) -> tuple[int, str | None]:
    """(index of the positive label, None), or (0, why the checks do not apply)."""
    if predictor.multi_label or len(predictor.labels) != 2:
        return 0, "they are for models with two labels, positive and negative"
    if predictor.takes_pairs:
        return 0, "they are for single texts, and this model takes pairs"
    plain = [re.sub(r"[^a-z]", "", label.lower()) for label in predictor.labels]
    for index in (0, 1):
        if plain[index] in POSITIVE and plain[1 - index] in NEGATIVE:
            return (index, None) if looks_english(texts) else (0, "they are in English, and the texts do not look English")
    return 0, f"the labels {', '.join(predictor.labels)} do not say which is positive and which negative"


def run(predictor: Predictor, split: Split, seed: int = 0, quiet: bool = True) -> BehaviourReport:
    """Run all checks with sentences of ours and up to 100 texts of the split; skipped, with a reason, where none apply."""
    positive, reason = positive_label(predictor, split.texts)
    if reason:
        note = f"Behavioural checks: skipped; {reason}."
        return BehaviourReport([note], f"## Behaviour\n\n{note}\n", [], {"skipped": reason, "checks": []}, [], reason)
    rng = random.Random(seed)
    texts = rng.sample(list(split.texts), min(PER_CHECK, len(split.texts)))
    checks = [*minimum_functionality(rng), *invariance(texts, rng), *direction(texts, rng)]
    for check in checks:
        check.cases = rng.sample(check.cases, min(PER_CHECK, len(check.cases)))
    checks = [c for c in checks if c.cases]
    asked = list(dict.fromkeys(t for c in checks for case in c.cases for t in (case.text, case.before) if t))
    probabilities = predictor.probabilities(asked, quiet=quiet)
    is_positive = predictor.decide(probabilities) == positive
    answers = {t: (float(p), bool(y)) for t, p, y in zip(asked, probabilities[:, positive], is_positive)}
    rows = [row for check in checks for row in _judge(check, answers)]
    figures = {"skipped": None, "checks": [c.figures() for c in checks]}
    report = BehaviourReport([], "", rows, figures, checks)
    report.lines, report.markdown = _lines(report), _markdown(report)
    return report


def _judge(check: Check, answers: dict[str, tuple[float, bool]]) -> list[dict[str, Any]]:
    """Count the failed cases of a check and return them."""
    failed = []
    for case in check.cases:
        p, positive = answers[case.text]
        p_before, positive_before = answers.get(case.before, (0.0, False))
        passed = {"positive": positive, "negative": not positive, "same": positive == positive_before,
                  "falls": p <= p_before - TOLERANCE, "rises": p >= p_before + TOLERANCE,
                  "not lower": p >= p_before - TOLERANCE, "not higher": p <= p_before + TOLERANCE}[case.expect]
        if not passed:
            got = f"p(positive) {p_before:.2f} → {p:.2f}" if case.before else f"p(positive) {p:.2f}"
            failed.append({"check": check.name, "before": case.before, "text": case.text, "expected": case.expect,
                           "got": got})
    check.failures = len(failed)
    by = f" by {TOLERANCE:g} or more" if {case.expect for case in check.cases} & {"falls", "rises"} else ""
    check.examples = [(f"{_ends(row['before'])} ⟶ {_ends(row['text'])}" if row["before"] else _ends(row["text"]))
                      + f" (expected: {row['expected']}{by}; {row['got']})" for row in failed[:3]]
    return failed


def _ends(text: str) -> str:
    return f"“{short(text, 160)}”"


def _lines(report: BehaviourReport) -> list[str]:
    lines = ["Behavioural checks (failed/cases):"]
    lines += [f"  {c.kind:<21} {c.name:<40} {c.failures:>3}/{len(c.cases):<3} {c.rate:6.1%}{'  ←' if c.named else ''}"
              for c in report.checks]
    return lines + [f"    next, {c.name}: {c.next}" for c in report.modes]


def _markdown(report: BehaviourReport) -> str:
    rows = [[c.kind, c.name, f"{c.failures}/{len(c.cases)}", f"{c.rate:.1%}", "{:.1%} … {:.1%}".format(*c.interval),
             "yes" if c.named else "no"] for c in report.checks]
    lines = ["## Behaviour", "", "Small tests with a known answer, from sentences of our own and texts of the split. Named: "
             f"failure rate surely above {WORRYING:.0%} (95 % Wilson interval; the cases of one check resemble each other, "
             "so it is a rough one).", "",
             table(["kind", "check", "failed", "rate", "95 % interval", "named"], rows)]
    for c in report.modes:
        lines += ["", f"**{c.name}** fails on {c.rate:.0%}.", "", *(f"- {escape(e)}" for e in c.examples), "",
                  f"*Next:* {c.next}."]
    return "\n".join(lines) + "\n"
