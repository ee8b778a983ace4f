"""Why was it wrong? The most confident mistakes in full, and the failure modes behind all of them (failure_modes.py).

Sees texts, labels, probabilities and the predictor; never another column of the data.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

from .failure_modes import (LEAST_DIFFERENCE, RISK, Hypothesis, Rows, choose_examples, hypotheses_of, label_noise,
                            length_table, look_at, tfidf)
from .label_noise import label_errors_train
from .report import escape, table

if TYPE_CHECKING:
    from .data import Split
    from .predictor import Predictor

SHOWN = 25  # most confident mistakes printed in full


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────

@dataclass
class ErrorReport:
    """What the error analysis found. `rows` are the errors as errors.csv takes them, most suspect label first."""
    lines: list[str]                  # short, for the terminal
    markdown: str                     # a section of report.md
    rows: list[dict[str, Any]]        # split, row, text, truth, predicted, confidence, p_truth, suspicion, correction
    figures: dict[str, Any]           # metrics.json "errors"
    hypotheses: list[Hypothesis]      # all that were tested
    train_rows: list[dict[str, Any]]  # the same columns, suspect training rows (label_errors), else empty

    @property
    def modes(self) -> list[Hypothesis]:
        """The named failure modes, most telling first."""
        return [h for h in self.hypotheses if h.named]


def analyse(predictor: Predictor, split: Split, probs: np.ndarray, *, train: Split | None = None,
            train_length_info: dict | None = None, label_errors: bool | Callable = False, split_name: str = "test",
            seed: int = 0, quiet: bool = True) -> ErrorReport:
    """Analyse a model's errors on a split.

    probs (n,C): the model's probabilities on `split`, after temperature. `train` lets texts that stand in training
    with another label be found, and is what `label_errors` examines: True for quick refits, or a `fit_predict` (see
    `label_errors_train`) for refits of the real model. `train_length_info`: "lengths" of run.json. `split_name` stands in the rows of errors.csv. Costs at most half
    of what predicting the split did, plus some counting. Raises ValueError if sizes do not match.
    """
    rows = look_at(predictor, split, probs)
    vectorizer, matrix = tfidf(rows)
    hypotheses, figures = hypotheses_of(rows, vectorizer, matrix, predictor, train, train_length_info, seed, quiet)
    noise, score = label_noise(rows, matrix, seed)
    hypotheses = sorted(hypotheses, key=lambda h: (not h.named, -h.difference if h.named else h.p_adjusted, -h.difference))
    hypotheses.insert(sum(h.named for h in hypotheses), noise)  # its rates are not of the others' kind
    choose_examples(rows, [h for h in hypotheses if h.named])
    figures |= {"n": len(rows), "errors": int(rows.wrong.sum()), "label_noise": noise.figures(),
                "hypotheses": [h.figures() for h in hypotheses], "modes": [h.name for h in hypotheses if h.named],
                "length_bins": length_table(rows), "confusions": confusions(rows)}
    train_rows, train_note = [], ""
    if label_errors and train is not None:
        found = label_errors_train(train.texts, train.labels, len(rows.labels), pairs=train.pairs,
                                   fit_predict=label_errors if callable(label_errors) else None, seed=seed, quiet=quiet)
        train_rows = _train_rows(train, found, rows)
        train_note = (f"{int(found.suspect.sum()):,} of {len(train):,} training rows have a suspect label ({found.how}; they agree "
                      f"with {found.agreement:.1%} of the given labels). {found.caution}They are the `train` rows of errors.csv, "
                      "most suspect first: read before you correct.")
        figures["train_label_errors"] = {"n": len(train), "suspect": int(found.suspect.sum()), "how": found.how,
                                         "agreement": found.agreement}
    report = ErrorReport(_lines(rows, hypotheses, figures, train_note), "", _error_rows(rows, score, split_name), figures, hypotheses,
                         train_rows)
    report.markdown = _markdown(rows, report, train_note)
    return report


def confusions(rows: Rows, most: int = 10) -> list[dict[str, Any]]:
    """The commonest mistakes: [{truth, predicted, n, share of all errors}]. Multi-label: label by label."""
    count: Counter = Counter()
    if rows.multi_label:
        for i, j in zip(*np.nonzero(rows.truth != rows.predicted)):
            count[(rows.labels[j], "missed") if rows.truth[i, j] else ("not " + rows.labels[j], rows.labels[j])] += 1
    else:
        for i in np.flatnonzero(rows.wrong):
            count[(rows.name(rows.truth, i), rows.name(rows.predicted, i))] += 1
    total = max(1, sum(count.values()))
    return [{"truth": t, "predicted": p, "n": n, "share": n / total} for (t, p), n in count.most_common(most)]


def _error_rows(rows: Rows, score: np.ndarray, split_name: str) -> list[dict[str, Any]]:
    """The errors, most suspect label first."""
    errors = np.flatnonzero(rows.wrong)
    confidence = rows.confidence()
    return [{"split": split_name, "row": int(rows.ids[i]), "text": rows.text(i), "truth": rows.name(rows.truth, i),
             "predicted": rows.name(rows.predicted, i), "confidence": round(float(confidence[i]), 4),
             "p_truth": round(_p_truth(rows, i), 4), "suspicion": round(float(score[i]), 4), "correction": ""}
            for i in errors[np.argsort(-score[errors], kind="stable")]]


def _p_truth(rows: Rows, i: int) -> float:
    """Probability of the given label; multi-label: of the whole given set, labels taken as independent."""
    if rows.multi_label:
        return float(np.where(rows.truth[i], rows.probs[i], 1 - rows.probs[i]).prod())
    return float(rows.probs[i, rows.truth[i]])


def _train_rows(train: Split, found: Any, rows: Rows) -> list[dict[str, Any]]:
    """The suspect training rows, most suspect first, as errors.csv takes them."""
    multi = rows.multi_label
    truth = np.asarray(train.labels) > 0.5 if multi else np.asarray(train.labels, dtype=np.int64)
    predicted = found.probs >= 0.5 if multi else found.probs.argmax(1)
    seen = Rows(train.texts, train.pairs, train.rows, rows.labels, multi, truth, predicted, found.probs, found.suspect,
                np.zeros(0), np.zeros(0))
    return _error_rows(seen, found.score, "train")


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────

def _rates(h: Hypothesis) -> str:
    if h.p_value is None:  # label noise: a suspect row is an error almost by definition, so there is nothing to compare
        return f"{h.counts[0]:,} of {h.counts[1]:,} errors ({h.rate_errors:.1%})"
    low, high = h.interval
    return (f"{h.rate_errors:.1%} of errors against {h.rate_correct:.1%} of correct rows "
            f"(difference {h.difference:+.1%}, 95 % interval {low:+.1%} to {high:+.1%})")


def _lines(rows: Rows, hypotheses: list[Hypothesis], figures: dict[str, Any], train_note: str) -> list[str]:
    errors = int(rows.wrong.sum())
    lines = [f"{errors:,} errors in {len(rows):,} rows ({errors / max(1, len(rows)):.1%})."]
    named = [h for h in hypotheses if h.named]
    tested = sum(h.p_value is not None for h in hypotheses)
    lines.append(f"Failure modes named: {len(named)} of {tested + 1} examined" + (":" if named else "."))
    for h, before in zip(named, [None, *named]):
        lines.append(f"  {h.name}: {_rates(h)}")
        if before is None or before.next != h.next:  # words in a row have the same advice
            lines.append(f"    next: {h.next}")
    lines += [f"  skipped {reason}" for reason in figures["skipped"]]
    if train_note:
        lines.append(train_note)
    return lines


def _markdown(rows: Rows, report: ErrorReport, train_note: str) -> str:
    parts = ["## Errors", report.lines[0], _modes_markdown(report), _tests_markdown(report.hypotheses)]
    parts += [f"Skipped: {reason}." for reason in report.figures["skipped"]]
    parts += [_would_keep_markdown(report.figures), _length_markdown(report.figures), _confusions_markdown(report.figures)]
    if train_note:
        parts.append(f"### Training labels\n\n{train_note}")
    parts.append(_mistakes_markdown(rows))
    return "\n\n".join(p for p in parts if p) + "\n"


def _modes_markdown(report: ErrorReport) -> str:
    if not report.modes:
        return ("### Failure modes\n\nNone could be named: no property that was tested is more common among errors than "
                "chance allows. With few errors that says little; read the mistakes below.")
    parts = ["### Failure modes"]
    for h in report.modes:
        examples = "\n".join(f"- {escape(e)}" for e in h.examples)
        parts.append(f"**{escape(h.name)}**: {escape(h.meaning)}. {_rates(h)}; {h.decision}.\n\n{examples}\n\n"
                     f"*Next:* {h.next}.")
    return "\n\n".join(parts)


def _tests_markdown(hypotheses: list[Hypothesis]) -> str:
    rows = [[escape(h.name), f"{h.counts[0]:,}/{h.counts[1]:,} = {h.rate_errors:.1%}",
             f"{h.counts[2]:,}/{h.counts[3]:,} = {h.rate_correct:.1%}",
             *(["–"] * 3 if h.p_value is None else [f"{h.difference:+.1%}", "{:+.1%} … {:+.1%}".format(*h.interval), f"{h.p_adjusted:.2g}"]),
             "yes" if h.named else "no"] for h in hypotheses]
    return ("### Everything that was tested\n\n"
            "Rates among errors and among correct rows, with Newcombe's 95 % interval of the difference. p: exact one-sided "
            "test within true label and length, after Holm's correction inside the family. Named below p = "
            + ", ".join(f"{risk:g} ({family}s)" for family, risk in RISK.items())
            + f": together at most 5 % risk of naming anything that is not there; and from {LEAST_DIFFERENCE:.0%} of "
            "difference on. Of words and clusters (“topic”) the strongest are shown; the correction counts all.\n\n"
            + table(["property", "errors", "correct", "difference", "95 % interval", "p, corrected", "named"], rows))


def _would_keep_markdown(figures: dict[str, Any]) -> str:
    t = figures.get("truncation")
    if not t:
        return ""
    if not t["cut"]:
        return f"### Truncation\n\nNo text lost a token: --max-len {t['max_len']}, --truncate {t['truncate']}."
    text = (f"### Truncation\n\n{t['cut']:,} of {figures['n']:,} texts are longer than --max-len {t['max_len']} and were cut "
            f"(--truncate {t['truncate']}); {t['cut_errors']:,} of them are errors.")
    for other, w in t["would_keep"].items():
        low, high = w["accuracy_gain_ci95"]
        text += (f"\n- Cut with `{other}` instead: {w['mended']:.1%} of {w['errors_tried']} errors become right, "
                 f"{w['broken']:.1%} of {w['correct_tried']} correct rows become wrong; on the whole split accuracy "
                 f"{w['accuracy_gain']:+.2%} ({low:+.2%} to {high:+.2%}), without retraining.")
    return text


def _length_markdown(figures: dict[str, Any]) -> str:
    rows = [[f"{b['low']}–{b['high']}" if b["high"] else f"{b['low']} and more", f"{b['n']:,}", f"{b['errors']:,}", f"{b['accuracy']:.3f}",
             "{:.3f}–{:.3f}".format(*b["accuracy_ci95"])] for b in figures["length_bins"]]
    picture = "\n\n![error rate by length](length_errors.png)" if rows else ""  # drawn by whoever writes the report
    return "### Accuracy by length\n\n" + table(["tokens", "rows", "errors", "accuracy", "95 % interval"], rows) + picture


def _confusions_markdown(figures: dict[str, Any]) -> str:
    if not figures["confusions"]:
        return ""
    rows = [[escape(c["truth"]), escape(c["predicted"]), c["n"], f"{c['share']:.1%}"] for c in figures["confusions"]]
    return "### What was read as what\n\n" + table(["truth", "read as", "errors", "share"], rows)


def _mistakes_markdown(rows: Rows) -> str:
    errors, confidence = np.flatnonzero(rows.wrong), rows.confidence()
    chosen = errors[np.argsort(-confidence[errors], kind="stable")][:SHOWN]
    if len(chosen) == 0:
        return ""
    parts = [f"### The {len(chosen)} most confident mistakes, in full" if len(chosen) > 1 else "### The one mistake"]
    for n, i in enumerate(chosen, 1):
        head = (f"**{n}.** row {rows.ids[i]}: labelled **{escape(rows.name(rows.truth, i) or '∅')}** "
                f"(p = {_p_truth(rows, i):.3f}), read as **{escape(rows.name(rows.predicted, i) or '∅')}** "
                f"(confidence {confidence[i]:.3f}), {rows.lengths[i]} tokens")
        body = "\n".join("> " + escape(line) for line in rows.text(i).splitlines() or [""])
        parts.append(f"{head}\n\n{body}")
    return "\n\n".join(parts)
