"""The behavioural checks pass a model that understands, fail the ones that do not, and are skipped where they do not apply."""

import json
import random
import re

import numpy as np
import pytest

from minibert import behaviour
from minibert.data import Split

LABELS = ["negative", "positive"]
TEXTS = [f"{name} plays the lead for {n} minutes and the {thing} is {word}." for i, (name, n, thing, word) in enumerate(
    zip(["Mary", "Tom", "Nobody", "Sarah"] * 10, range(60, 100), ["film", "story"] * 20, ["great", "awful", "superb", "dull"] * 10))]


class Reader:
    """Stands in for a predictor. `understands` negation and contrast, or only counts words."""
    multi_label, takes_pairs = False, False

    def __init__(self, understands=True, labels=LABELS, spoil=lambda text, score: score):
        self.labels, self.understands, self.spoil = list(labels), understands, spoil

    def score(self, text):
        if self.understands:
            parts = re.split(r"(?<!anything )\bbut\b|\balthough the \w+ was \w+,|it turned out|\. ", text, flags=re.IGNORECASE)
            opinions = behaviour.PRAISE + behaviour.BLAME + ("love", "hate", "recommend", "regret")
            text = next((p for p in reversed(parts) if any(w in p for w in opinions)), text)  # the last opinion counts
        words = behaviour.PRAISE + ("loved", "recommend"), behaviour.BLAME + ("hated", "regret")
        score = sum(w in text for w in words[0]) - sum(w in text for w in words[1])
        negated = re.search(r"\b(not|can't|isn't|never|nothing|nobody|anything but|far from)\b", text, re.IGNORECASE)
        return -score if self.understands and negated else score

    def probabilities(self, texts, pairs=None, quiet=True):
        p = 1 / (1 + np.exp([-2.0 * self.spoil(t, self.score(t)) for t in texts]))
        return np.stack([1 - p, p] if self.labels[1] in ("positive", "pos", "POSITIVE") else [p, 1 - p], 1)

    def decide(self, probabilities):
        return probabilities.argmax(1)


def split_of(texts=TEXTS):
    return Split(list(texts), np.zeros(len(texts), np.int64), np.arange(len(texts)), LABELS)


def run(reader, texts=TEXTS, seed=0):
    report = behaviour.run(reader, split_of(texts), seed)
    return report, {c.name: c for c in report.checks}


def test_a_reader_that_understands_passes_everything():
    report, checks = run(Reader())
    assert len(checks) == 13 and {c.kind for c in report.checks} == {"minimum functionality", "invariance", "direction"}
    for name in set(checks) - {"a typo"}:  # it knows no misspelt word
        assert checks[name].failures == 0, (name, checks[name].examples)
    assert not [m for m in report.modes if m.name != "a typo"]


def test_a_word_counter_fails_where_order_decides_and_nowhere_else():
    report, checks = run(Reader(understands=False))
    assert checks["plain praise and blame"].failures == 0 and checks["names swapped"].failures == 0
    for name in ("praise negated", "blame negated", "negation added"):
        assert checks[name].rate == 1.0 and checks[name].named
    assert report.modes[0].rate == 1.0 and {"praise negated", "blame negated"} <= {m.name for m in report.modes}
    assert all(m.next and m.examples for m in report.modes)


@pytest.mark.parametrize("check, spoil", [
    ("names swapped", lambda text, score: 5 if re.search(r"\b[A-K]\w+ plays", text) else -5),
    ("numbers swapped", lambda text, score: 3 if re.search(r"[02468] minutes", text) else -3),
    ("irrelevant sentence appended", lambda text, score: -score if text.endswith(tuple(behaviour.ASIDES)) else score),
    ("intensity raised", lambda text, score: -score if re.search("extremely|absolutely|really|so very", text) else score),
    ("praise appended", lambda text, score: score - 4 if re.search("loved it|great film|warmly", text) else score),
    ("blame appended", lambda text, score: score + 4 if re.search("hated it|terrible film|regret", text) else score)])
def test_each_check_catches_its_own_fault(check, spoil):
    report, checks = run(Reader(spoil=spoil))
    assert checks[check].named, checks[check]
    assert [r for r in report.rows if r["check"] == check and r["before"] and r["text"] != r["before"]]


def test_the_positive_label_is_found_wherever_it_stands():
    assert behaviour.positive_label(Reader(labels=["POSITIVE", "NEGATIVE"]), TEXTS)[0] == 0
    for labels in (["neg", "pos"], ["Negative", "Positive"], ["bad", "good"]):
        assert behaviour.positive_label(Reader(labels=labels), TEXTS) == (1, None)
    report, checks = run(Reader(labels=["pos", "neg"]))
    assert checks["plain praise and blame"].failures == 0


def test_skipped_with_a_reason_elsewhere():
    several = Reader()
    several.multi_label = True
    pairs = Reader()
    pairs.takes_pairs = True
    cases = [(Reader(labels=["0", "1"]), TEXTS, "which is positive"), (Reader(labels=["a", "b", "c"]), TEXTS, "two labels"),
             (Reader(labels=["routine", "urgent"]), TEXTS, "which is positive"), (Reader(), ["фильм не понравился"] * 5, "English"),
             (several, TEXTS, "two labels"), (pairs, TEXTS, "pairs"), (Reader(), [], "English")]
    for reader, texts, why in cases:
        report = behaviour.run(reader, split_of(texts))
        assert report.skipped and why in report.skipped and why in report.lines[0] and not report.checks and report.modes == []


def test_report_is_json_and_counts_add_up():
    report, checks = run(Reader(understands=False))
    json.dumps([report.figures, report.rows], allow_nan=False)
    assert len(report.rows) == sum(c.failures for c in report.checks)
    assert all(len(c.cases) <= 100 and c.interval[0] <= c.rate <= c.interval[1] for c in report.checks)
    assert "praise negated" in report.markdown and "| 80/80 | 100.0% |" in report.markdown
    again, _ = run(Reader(understands=False))
    assert again.figures == report.figures and again.rows == report.rows


def test_changes_change_what_they_say():
    rng = random.Random(0)
    assert behaviour.swap_names("Mary met Tom, and Mary left. Maryland.", rng).count("Mary") == 1  # Maryland is no name
    swapped = behaviour.swap_names("Mary and Mary", rng).split()
    assert swapped[0] == swapped[2] != "Mary"
    for rating in ("I give it 10/10.", "8.5 of 10", "90 percent", "rate 40 out of 50", "25 stars", "100%"):
        assert all(behaviour.swap_numbers(rating, random.Random(s)) == rating for s in range(5)), rating
    assert re.fullmatch(r"shot in 1\d{3}", behaviour.swap_numbers("shot in 1987", rng))
    for seed in range(20):
        text = "a wonderful film about letters"
        changed = behaviour.typo(text, random.Random(seed))
        assert changed != text and sorted(changed) == sorted(text) and changed[0] == "a"
        assert [w[0] + w[-1] for w in changed.split()] == [w[0] + w[-1] for w in text.split()]
    assert behaviour.typo("a bad one", rng) == "a bad one"


def test_templates_are_grammatical_and_labelled_as_their_words_are():
    checks = behaviour.minimum_functionality(random.Random(0))
    for check in checks:
        assert len(check.cases) >= 80 and {c.expect for c in check.cases} <= {"positive", "negative"}
        assert not [c.text for c in check.cases if re.search(r"\ba [aeiou]|\ban [^aeiou]", c.text, re.IGNORECASE)]
    plain = checks[0].cases
    assert all((c.expect == "positive") == any(w in c.text for w in behaviour.PRAISE) for c in plain)
