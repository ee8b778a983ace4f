"""How good, how sure, how honest about it: every figure of the report, from numpy arrays to plain Python.

Legend: `n` rows, `k` classes (or labels, when a row may have several). `truth` and `predicted` are class indices
(n,) int, `probs` is (n,k) float. In every confusion matrix **row = truth, column = prediction**, always k×k in label
order, so a class that is absent from the split keeps its row (of zeros) and nothing shifts. Above MOST_CLASSES the
cells that occur are listed instead: [truth, prediction, rows].
"""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np
from scipy import sparse  # comes with scikit-learn

BINS = 15  # equal-width confidence bins, as in Guo et al. 2017
RESAMPLES = 1000
MOST_CLASSES = 1000  # of a k×k matrix: 100,000 classes would be 80 GB of zeros


# ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────────

def confusion_cells(truth: np.ndarray, predicted: np.ndarray, k: int) -> np.ndarray:
    """(3,m) int64: truth, prediction and number of rows of every pair that occurs, in order.

    Raises ValueError for no rows, lengths that differ, or an index outside 0…k-1 (-100 is an index outside, too).
    """
    truth, predicted = np.asarray(truth, dtype=np.int64), np.asarray(predicted, dtype=np.int64)
    if truth.shape != predicted.shape or truth.ndim != 1:
        raise ValueError(f"truth {truth.shape} and predictions {predicted.shape} must be two equally long lists.")
    if len(truth) == 0:
        raise ValueError("there are no rows to score.")
    for name, values in (("truth", truth), ("predictions", predicted)):
        if values.min() < 0 or values.max() >= k:
            raise ValueError(f"the {name} hold a class index outside 0…{k - 1}.")
    pairs, rows = np.unique(truth * k + predicted, return_counts=True)
    return np.stack([pairs // k, pairs % k, rows])


def confusion_matrix(truth: np.ndarray, predicted: np.ndarray, k: int) -> np.ndarray:
    """(k,k) int64 counts: entry [t,p] is the number of rows of class t that were called p. Raises as `confusion_cells`."""
    t, p, rows = confusion_cells(truth, predicted, k)
    cm = np.zeros((k, k), dtype=np.int64)
    cm[t, p] = rows
    return cm


def class_counts(figures: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(hits, support, called), each (k,), of a block that `summary` or `multilabel_summary` made."""
    if figures.get("multi_label"):
        cm = np.array(figures["confusion_matrix"])
        return cm[:, 1, 1], cm[:, 1].sum(1), cm[:, :, 1].sum(1)
    if "confusion_matrix" in figures:
        cm = np.array(figures["confusion_matrix"])
        return np.diag(cm), cm.sum(1), cm.sum(0)
    return _class_counts(np.array(figures["confusion_cells"]).T, len(figures["labels"]))


def _class_counts(cells: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    t, p, rows = cells
    hits, support, called = np.zeros((3, k), dtype=np.int64)
    np.add.at(hits, t[t == p], rows[t == p])
    np.add.at(support, t, rows)
    np.add.at(called, p, rows)
    return hits, support, called


def _ratio(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, and 0 where b is 0: a class never predicted has precision 0, as scikit-learn reports it."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=np.asarray(b) > 0)


def _f1_parts(hits: np.ndarray, support: np.ndarray, called: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """precision, recall and F1 from counts: F1 = 2·hits / (support + called), the harmonic mean of the other two."""
    return _ratio(hits, called), _ratio(hits, support), _ratio(2 * hits, support + called)


def _macro(f1: np.ndarray, support: np.ndarray, called: np.ndarray) -> np.ndarray:
    """Mean F1 over the classes that occur in the truth or in the predictions (scikit-learn's default).

    A class that occurs in neither has no F1 (0/0). Works along the last axis, so on a stack of resamples too.
    """
    seen = (support + called) > 0
    return _ratio((f1 * seen).sum(-1), seen.sum(-1))


def per_class(cm: np.ndarray, labels: Sequence[str]) -> dict[str, dict[str, float]]:
    """{label: {precision, recall, f1, support}} for every label, support 0 where the class is absent."""
    cm = np.asarray(cm)
    return _per_class(np.diag(cm), cm.sum(1), cm.sum(0), labels)


def _per_class(hits: np.ndarray, support: np.ndarray, called: np.ndarray, labels: Sequence[str]) -> dict[str, dict[str, float]]:
    precision, recall, f1 = _f1_parts(hits, support, called)
    return {name: {"precision": float(precision[i]), "recall": float(recall[i]), "f1": float(f1[i]),
                   "support": int(support[i])} for i, name in enumerate(labels)}


def accuracy(cm: np.ndarray) -> float:
    """The diagonal's share of all rows."""
    cm = np.asarray(cm)
    return float(np.trace(cm) / cm.sum())


def macro_f1(cm: np.ndarray) -> float:
    """Unweighted mean of the classes' F1: the figure that a never-predicted class pulls down.

    Over the classes that occur in the truth or in the predictions, as scikit-learn does by default.
    """
    cm = np.asarray(cm)
    return _macro_f1(np.diag(cm), cm.sum(1), cm.sum(0))


def _macro_f1(hits: np.ndarray, support: np.ndarray, called: np.ndarray) -> float:
    return float(_macro(_f1_parts(hits, support, called)[2], support, called))


def scores(truth: np.ndarray, predicted: np.ndarray, k: int) -> tuple[float, float]:
    """(accuracy, macro-F1) without a k×k matrix; of label sets (n,k) the accuracy of the whole set."""
    if np.ndim(truth) == 2:
        truth, predicted = np.asarray(truth) > 0.5, np.asarray(predicted) > 0.5
        return float((truth == predicted).all(1).mean()), _macro_f1_of_sets(truth, predicted)
    hits, support, called = _class_counts(confusion_cells(truth, predicted, k), k)
    return float(hits.sum() / len(truth)), _macro_f1(hits, support, called)


def summary(truth: np.ndarray, probs: np.ndarray, labels: Sequence[str], *, predicted: np.ndarray | None = None,
            seed: int = 0) -> dict[str, Any]:
    """The block of metrics.json for one split, one class per row.

    `predicted` (n,) replaces the arg-max where a decision threshold other than 0.5 is in use. Intervals are 95 %
    bootstrap intervals of the test sample alone: they say nothing about another training seed.
    """
    truth, probs = np.asarray(truth, dtype=np.int64), np.asarray(probs, dtype=np.float64)
    k = len(labels)
    if probs.shape != (len(truth), k):
        raise ValueError(f"probabilities of shape {probs.shape} do not fit {len(truth)} rows and {k} classes.")
    if not np.isfinite(probs).all():
        raise ValueError("the probabilities hold a value that is not finite.")
    predicted = probs.argmax(1) if predicted is None else np.asarray(predicted)
    cells = confusion_cells(truth, predicted, k)
    hits, support, called = _class_counts(cells, k)
    ci = _intervals(cells, k, RESAMPLES, seed)
    classes = _per_class(hits, support, called, labels)
    for i, name in enumerate(labels):
        classes[name]["recall_ci95"] = ci["recall"][i]
    confusion = ({"confusion_matrix": confusion_matrix(truth, predicted, k).tolist()} if k <= MOST_CLASSES else
                 {"confusion_cells": cells.T.tolist()})
    return {"n": len(truth), "accuracy": float(hits.sum() / len(truth)), "accuracy_ci95": ci["accuracy"],
            "macro_f1": _macro_f1(hits, support, called), "macro_f1_ci95": ci["macro_f1"], "per_class": classes,
            **confusion, "labels": list(labels), "ece": ece(probs, truth),
            "log_loss": float(-np.log(np.maximum(probs[np.arange(len(truth)), truth], 1e-12)).mean())}


# ── several labels at once ───────────────────────────────────────────────────────────────────────────────────────

def multilabel_summary(truth: np.ndarray, probs: np.ndarray, labels: Sequence[str],
                       thresholds: Sequence[float] | dict[str, float] | None = None, *, seed: int = 0) -> dict[str, Any]:
    """The block of metrics.json where a row may have any number of labels, none included.

    truth (n,k) 0/1, probs (n,k), one threshold per label (0.5 if not given). `accuracy` is the *subset* accuracy (the
    whole set right), as scikit-learn's is. `confusion_matrix` holds a 2×2 matrix per label, row = truth (no, yes).
    """
    truth, probs = np.asarray(truth) > 0.5, np.asarray(probs, dtype=np.float64)
    if truth.shape != probs.shape or truth.shape[1:] != (len(labels),):
        raise ValueError(f"truth {truth.shape} and probabilities {probs.shape} must both be (rows, {len(labels)}).")
    if len(truth) == 0:
        raise ValueError("there are no rows to score.")
    if not np.isfinite(probs).all():
        raise ValueError("the probabilities hold a value that is not finite.")
    cut = threshold_array(thresholds, labels)
    called = probs >= cut
    hits, support, calls = (truth & called).sum(0), truth.sum(0), called.sum(0)
    precision, recall, f1 = _f1_parts(hits, support, calls)
    subset = (truth == called).all(1)
    ci = _multilabel_ci(truth, called, seed)
    classes = {name: {"precision": float(precision[j]), "recall": float(recall[j]), "f1": float(f1[j]),
                      "support": int(support[j]), "recall_ci95": ci["recall"][j]} for j, name in enumerate(labels)}
    label_wise = [confusion_matrix(truth[:, j], called[:, j], 2).tolist() for j in range(len(labels))]
    return {"n": len(truth), "multi_label": True, "accuracy": float(subset.mean()), "accuracy_ci95": ci["accuracy"],
            "subset_accuracy": float(subset.mean()), "macro_f1": _macro_f1_of_sets(truth, called),
            "macro_f1_ci95": ci["macro_f1"], "micro_f1": float(_ratio(2 * hits.sum(), support.sum() + calls.sum())),
            "hamming_loss": float((truth != called).mean()), "per_class": classes, "confusion_matrix": label_wise,
            "labels": list(labels), "thresholds": dict(zip(labels, map(float, cut))), "ece": ece_binary(probs, truth)}


def threshold_array(thresholds: Sequence[float] | dict[str, float] | None, labels: Sequence[str]) -> np.ndarray:
    """(k,) thresholds in label order, from a list, run.json's {label: t}, or None (0.5 for all)."""
    if thresholds is None:
        return np.full(len(labels), 0.5)
    if isinstance(thresholds, dict):
        return np.array([thresholds[name] for name in labels], dtype=np.float64)
    return np.asarray(thresholds, dtype=np.float64)


# ── calibration ──────────────────────────────────────────────────────────────────────────────────────────────────

def reliability(confidence: np.ndarray, correct: np.ndarray, bins: int = BINS) -> list[dict[str, float]]:
    """Per non-empty equal-width bin of (0,1]: {low, high, n, confidence, accuracy}."""
    confidence, correct = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    which = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    n = np.bincount(which, minlength=bins)
    mean_confidence = _ratio(np.bincount(which, confidence, bins), n)
    mean_correct = _ratio(np.bincount(which, correct, bins), n)
    return [{"low": b / bins, "high": (b + 1) / bins, "n": int(n[b]), "confidence": float(mean_confidence[b]),
             "accuracy": float(mean_correct[b])} for b in range(bins) if n[b]]


def _gap(table: list[dict[str, float]]) -> float:
    total = sum(row["n"] for row in table)
    return float(sum(row["n"] / total * abs(row["accuracy"] - row["confidence"]) for row in table))


def ece(probs: np.ndarray, truth: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error (Guo et al. 2017): Σ_bins n_b/n · |accuracy_b − confidence_b|, of the arg-max class."""
    probs = np.asarray(probs)
    return _gap(reliability(probs.max(1), probs.argmax(1) == np.asarray(truth), bins))


def ece_binary(probs: np.ndarray, truth: np.ndarray, bins: int = BINS) -> float:
    """The same over independent yes/no decisions: bins of p(yes) against the share of yes, all labels pooled."""
    return _gap(reliability(np.ravel(probs), np.ravel(truth), bins))


def softmax(logits: np.ndarray) -> np.ndarray:
    """(n,k) → (n,k), rows summing to 1; float64, overflow-safe."""
    z = np.asarray(logits, dtype=np.float64)
    e = np.exp(z - z.max(-1, keepdims=True)) if z.size else z
    return e / e.sum(-1, keepdims=True)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Element by element, float64, overflow-safe: σ(z) = (1 + tanh(z/2)) / 2."""
    return 0.5 * (1 + np.tanh(0.5 * np.asarray(logits, dtype=np.float64)))


def fit_temperature(logits: np.ndarray, truth: np.ndarray) -> float:
    """The T > 0 that minimises the log loss of softmax(logits / T) on these (validation) rows (Guo et al. 2017).

    With β = 1/T the loss is convex in β, with slope mean(E_p[z] − z_true): bisection finds its zero. Dividing by T
    never changes the arg-max. 1.0 where the rows do not determine T (none are wrong, so β could grow for ever).
    """
    z, truth = np.asarray(logits, dtype=np.float64), np.asarray(truth, dtype=np.int64)
    target = z[np.arange(len(z)), truth]
    return _solve_temperature(lambda beta: float(((softmax(beta * z) * z).sum(1) - target).mean()), len(z))


def fit_temperature_multilabel(logits: np.ndarray, truth: np.ndarray) -> float:
    """The same for independent labels: the T that minimises the binary log loss of sigmoid(logits / T)."""
    z, y = np.asarray(logits, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    return _solve_temperature(lambda beta: float(((sigmoid(beta * z) - y) * z).mean()), z.size)


def _solve_temperature(slope, n: int, low: float = 1 / 20, high: float = 20.0) -> float:
    if n == 0 or slope(high) <= 0 or slope(low) >= 0:  # no minimum between T = 0.05 and T = 20
        return 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return 1 / math.sqrt(low * high)


# ── thresholds ───────────────────────────────────────────────────────────────────────────────────────────────────

def tune_threshold(truth: np.ndarray, scores: np.ndarray, objective: str = "macro_f1") -> float:
    """The cut t that makes "yes where score ≥ t" best on these (validation) rows.

    truth (n,) 0/1, scores (n,) in [0,1]. `objective`: "macro_f1" (mean F1 of yes and no: binary tasks) or "f1" (F1 of
    yes: one label of several). Cuts are tried midway between neighbouring scores, so that t is not glued to one row;
    the one nearest 0.5 wins a tie. 0.5 where only one class is present: nothing can be tuned there.
    """
    truth, scores = np.asarray(truth) > 0.5, np.asarray(scores, dtype=np.float64)
    if len(truth) == 0 or truth.all() or not truth.any():
        return 0.5
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(truth[order])
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # equal scores fall on one side together
    hit, called, positives, n = hits[last], last + 1, truth.sum(), len(truth)
    value = 2 * hit / (positives + called)
    if objective == "macro_f1":
        right_no = (n - called) - (positives - hit)
        value = (value + _ratio(2 * right_no, (n - positives) + (n - called))) / 2
    elif objective != "f1":
        raise ValueError(f"objective must be 'macro_f1' or 'f1', not '{objective}'.")
    below = np.append(ranked[1:], 0.0)[last]
    cuts = (ranked[last] + below) / 2
    best = np.flatnonzero(value >= value.max() - 1e-12)
    return float(cuts[best[np.abs(cuts[best] - 0.5).argmin()]])


def tune_thresholds(truth: np.ndarray, probs: np.ndarray) -> list[float]:
    """One threshold per label, (n,k) → k: each maximises its own label's F1 on validation."""
    truth, probs = np.asarray(truth), np.asarray(probs)
    return [tune_threshold(truth[:, j], probs[:, j], "f1") for j in range(truth.shape[1])]


def precision_recall_curve(truth: np.ndarray, scores: np.ndarray) -> dict[str, Any]:
    """{precision, recall, thresholds (lists, falling threshold), average_precision} of "yes where score ≥ t".

    Average precision = Σ (recall_i − recall_{i−1}) · precision_i. Empty lists and 0.0 without a positive row.
    """
    truth, scores = np.asarray(truth) > 0.5, np.asarray(scores, dtype=np.float64)
    if not truth.any():
        return {"precision": [], "recall": [], "thresholds": [], "average_precision": 0.0}
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(truth[order])
    last = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    precision, recall = hits[last] / (last + 1), hits[last] / truth.sum()
    area = float((np.diff(recall, prepend=0.0) * precision).sum())
    return {"precision": precision.tolist(), "recall": recall.tolist(), "thresholds": ranked[last].tolist(),
            "average_precision": area}


def coverage_curve(confidence: np.ndarray, correct: np.ndarray,
                   coverages: Sequence[float] = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3)) -> list[dict[str, float]]:
    """Accuracy on the most confident share when the rest is left to a person: [{coverage, n, accuracy, threshold}]."""
    confidence, correct = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    order = np.argsort(-confidence, kind="stable")
    rows = []
    for share in coverages:
        n = max(1, round(share * len(order)))
        rows.append({"coverage": float(share), "n": n, "accuracy": float(correct[order[:n]].mean()),
                     "threshold": float(confidence[order[n - 1]])})
    return rows


# ── how sure ─────────────────────────────────────────────────────────────────────────────────────────────────────

def wilson(k: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % interval of a share k/n (Wilson 1927): right even for 0 of 5, where k/n ± 2 standard errors is [0, 0]."""
    if n == 0:
        return 0.0, 1.0
    p, denominator = k / n, 1 + z * z / n
    middle = (p + z * z / (2 * n)) / denominator
    half = z / denominator * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))


def _share_interval(drawn: np.ndarray, k: int, n: int) -> list[float]:
    """95 % interval of k/n from its resamples; Wilson's where all n or none are right, so that no resample can differ."""
    return list(wilson(k, n)) if k in (0, n) else _interval(drawn)


def _interval(values: np.ndarray) -> list[float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return [float(low), float(high)]


def _resampled_counts(truth: np.ndarray, predicted: np.ndarray, k: int, draws: np.ndarray
                      ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(hits, support, called), each (resamples, k), from resampled cell counts `draws` (resamples, cells)."""
    def per_class(which: np.ndarray, classes: np.ndarray) -> np.ndarray:
        cells = np.flatnonzero(which)
        return draws @ sparse.csr_array((np.ones(len(cells)), (cells, classes[cells])), shape=(len(classes), k))
    everywhere = np.ones(len(truth), dtype=bool)
    return per_class(truth == predicted, truth), per_class(everywhere, truth), per_class(everywhere, predicted)


def bootstrap_ci(cm: np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """95 % percentile-bootstrap intervals (Efron 1979): {accuracy: [lo,hi], macro_f1: [lo,hi], recall: [[lo,hi], …]}.

    Drawing n rows with replacement is the same as one multinomial draw over the cells of the confusion matrix, so
    25,000 rows cost no more than 25. A class without rows has the interval [0, 0]. Where every row is right (or, of a
    share, none), the resamples are all alike and would give an interval of no width: there it is Wilson's.
    """
    cm = np.asarray(cm)
    cells = np.nonzero(cm)
    return _intervals(np.stack([*cells, cm[cells]]), len(cm), resamples, seed)


def _intervals(cells: np.ndarray, k: int, resamples: int, seed: int) -> dict[str, Any]:
    truth, predicted, counts = cells
    n = int(counts.sum())
    draws = np.random.default_rng(seed).multinomial(n, counts / n, size=resamples).astype(np.float64)
    # Only classes that occur: of 100,000 that is a handful, and the others have no figures.
    seen, place = np.unique(np.concatenate([truth, predicted]), return_inverse=True)
    hits, support, called = _resampled_counts(*np.split(place, 2), len(seen), draws)
    _, recall, f1 = _f1_parts(hits, support, called)
    intervals = [[0.0, 0.0] for _ in range(k)]
    right = counts * (truth == predicted)
    for i in np.flatnonzero(np.isin(seen, truth)):
        own = truth == seen[i]
        intervals[seen[i]] = _recall_interval(recall[:, i], support[:, i], int(right[own].sum()), int(counts[own].sum()))
    accuracy = _share_interval(hits.sum(1) / n, int(right.sum()), n)
    return {"accuracy": accuracy, "macro_f1": accuracy if right.sum() == n else _interval(_macro(f1, support, called)),
            "recall": intervals}


def _recall_interval(recall: np.ndarray, support: np.ndarray, k: int, n: int) -> list[float]:
    """Of k of n rows, over the resamples that hold the class at all: in the others its recall is not defined."""
    held = support > 0
    return _share_interval(recall[held], k, n) if held.any() else [0.0, 1.0]


def _multilabel_resamples(truth: np.ndarray, calls: Sequence[np.ndarray], seed: int, resamples: int = RESAMPLES
                          ) -> list[dict[str, np.ndarray]]:
    """The same where a row carries k yes/no decisions: rows are drawn, in blocks that keep memory flat.

    truth (n,k) bool; `calls`: one (n,k) bool per model, all scored on the same drawn rows. Per model: accuracy and
    macro_f1 (resamples,), recall and support (resamples,k).
    """
    n, k = truth.shape
    rng = np.random.default_rng(seed)
    per_row = [np.concatenate([truth & c, truth, c, (truth == c).all(1)[:, None]], axis=1) for c in calls]
    columns = np.concatenate(per_row, axis=1).astype(np.float32)
    block = max(1, 4_000_000 // n)
    sums = [rng.multinomial(n, np.full(n, 1 / n), size=min(block, resamples - start)).astype(np.float32) @ columns
            for start in range(0, resamples, block)]
    drawn = []
    for table in np.split(np.concatenate(sums).astype(np.float64), len(calls), axis=1):
        hits, support, called = table[:, :k], table[:, k:2 * k], table[:, 2 * k:3 * k]
        _, recall, f1 = _f1_parts(hits, support, called)
        drawn.append({"accuracy": table[:, -1] / n, "macro_f1": _macro(f1, support, called), "recall": recall,
                      "support": support})
    return drawn


def _multilabel_ci(truth: np.ndarray, called: np.ndarray, seed: int) -> dict[str, Any]:
    drawn, = _multilabel_resamples(truth, [called], seed)
    right = int((truth == called).all(1).sum())
    accuracy = _share_interval(drawn["accuracy"], right, len(truth))
    hits, rows = (truth & called).sum(0), truth.sum(0)
    return {"accuracy": accuracy, "macro_f1": accuracy if right == len(truth) else _interval(drawn["macro_f1"]),
            "recall": [_recall_interval(drawn["recall"][:, j], drawn["support"][:, j], int(hits[j]), int(rows[j])) if rows[j] else [0.0, 0.0]
                       for j in range(truth.shape[1])]}


def paired_bootstrap(truth: np.ndarray, a: np.ndarray, b: np.ndarray, k: int, *, resamples: int = RESAMPLES,
                     seed: int = 0) -> dict[str, dict[str, Any]]:
    """The difference a − b on the same rows: {accuracy|macro_f1: {difference, ci95, p}}.

    Both predictions of a row are drawn together, so what the two share cancels out. `p` is the two-sided bootstrap
    p-value: twice the smaller share of resamples on either side of zero, never below 1/resamples.
    """
    truth, a, b = (np.asarray(x, dtype=np.int64) for x in (truth, a, b))
    triples, counts = np.unique(np.stack([truth, a, b]), axis=1, return_counts=True)
    draws = np.random.default_rng(seed).multinomial(len(truth), counts / counts.sum(), size=resamples).astype(np.float64)
    figures = []
    for side in (1, 2):
        hits, support, called = _resampled_counts(triples[0], triples[side], k, draws)
        f1 = _f1_parts(hits, support, called)[2]
        figures.append({"accuracy": hits.sum(1) / len(truth), "macro_f1": _macro(f1, support, called)})
    of_a, of_b = scores(truth, a, k), scores(truth, b, k)
    real = {"accuracy": of_a[0] - of_b[0], "macro_f1": of_a[1] - of_b[1]}
    return {name: _difference(real[name], figures[0][name] - figures[1][name]) for name in real}


def paired_bootstrap_multilabel(truth: np.ndarray, a: np.ndarray, b: np.ndarray, *, seed: int = 0
                                ) -> dict[str, dict[str, Any]]:
    """`paired_bootstrap` of two label sets per row, each (n,k) bool: subset accuracy and macro-F1."""
    truth, a, b = (np.asarray(x) > 0.5 for x in (truth, a, b))
    drawn = _multilabel_resamples(truth, [a, b], seed)
    real = [dict(zip(("accuracy", "macro_f1"), scores(truth, x, truth.shape[1]))) for x in (a, b)]
    return {name: _difference(real[0][name] - real[1][name], drawn[0][name] - drawn[1][name]) for name in real[0]}


def _macro_f1_of_sets(truth: np.ndarray, called: np.ndarray) -> float:
    return _macro_f1((truth & called).sum(0), truth.sum(0), called.sum(0))


def _difference(real: float, drawn: np.ndarray) -> dict[str, Any]:
    p = 2 * min((drawn <= 0).mean(), (drawn >= 0).mean())
    return {"difference": float(real), "ci95": _interval(drawn), "p": float(min(1.0, max(p, 1 / len(drawn))))}


def mcnemar(right_a: np.ndarray, right_b: np.ndarray) -> dict[str, Any]:
    """McNemar's exact test on the rows where exactly one of two models is right: {only_a, only_b, p}.

    right_a, right_b: (n,) bool, the same rows. If neither is better, `only_a` is binomial(only_a + only_b, ½).
    """
    right_a, right_b = np.asarray(right_a, dtype=bool), np.asarray(right_b, dtype=bool)
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    n = only_a + only_b
    log_terms = [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) - n * math.log(2)
                 for i in range(min(only_a, only_b) + 1)]
    tail = math.fsum(math.exp(t) for t in log_terms)
    return {"only_a": only_a, "only_b": only_b, "p": float(min(1.0, 2 * tail))}
