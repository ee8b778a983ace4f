"""Which labels look wrong? Confident learning (Northcutt, Jiang & Chuang 2021) from held-out probabilities.

A model that has not seen a row, is sure, and contradicts its label is either wrong or right where the label is not.
Rows are ranked by how loudly it contradicts; only a person who reads them can tell which of the two it is.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np

from .cli import progress


def suspicion(probs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """(n,) in [0,1]: how much the model's held-out probabilities speak against the given label.

    ½ (1 + max_{j≠given} p_j − p_given): the normalised margin of confident learning (Northcutt et al. 2021, §3.2).
    Multi-label (truth (n,C) bool): the largest |given − p| over the labels.
    """
    if truth.ndim == 2:
        return np.abs(truth - probs).max(1, initial=0.0)
    rows = np.arange(len(truth))
    others = probs.copy()
    others[rows, truth] = -np.inf
    if probs.shape[1] == 1:
        return np.zeros(len(truth))
    return (1 + others.max(1, initial=-np.inf) - probs[rows, truth]) / 2


def confident_joint(probs: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rows look mislabelled, (n,) bool, and the joint (C,C): row = given label, column = likely true label.

    Northcutt et al. 2021, §3.1. A row counts for class j if p_j reaches t_j, the model's mean confidence in j on rows
    given as j (so an unsure class is not measured by a sure one's standard); of several, the likeliest. Rows that
    reach no threshold count nowhere. What is off the diagonal is suspect.
    """
    n, k = probs.shape
    thresholds = np.array([probs[truth == j, j].mean() if (truth == j).any() else np.inf for j in range(k)])
    reaches = probs >= thresholds
    likely = np.where(reaches, probs, -1.0).argmax(1)
    counted = reaches.any(1)
    joint = np.zeros((k, k), dtype=np.int64)
    np.add.at(joint, (truth[counted], likely[counted]), 1)
    return counted & (likely != truth), joint


def suspects(rows_truth: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """(n,) bool by the confident joint; multi-label: a row is suspect if any of its labels is, each a yes/no task."""
    if rows_truth.ndim == 1:
        return confident_joint(probs, rows_truth)[0]
    found = np.zeros(len(rows_truth), bool)
    for j in range(rows_truth.shape[1]):
        found |= confident_joint(np.stack([1 - probs[:, j], probs[:, j]], 1), rows_truth[:, j].astype(np.int64))[0]
    return found


@dataclass
class LabelErrors:
    """Training rows ranked by how suspect their label is. `order` (n,) row indices, most suspect first."""
    score: np.ndarray           # (n,)
    suspect: np.ndarray         # (n,) bool, by the confident joint
    probs: np.ndarray           # (n,C) out of fold
    order: np.ndarray
    how: str
    agreement: float            # share of the given labels that the refits predict
    caution: str                # what the reader must know about the model that was refitted, or ""


def label_errors_train(texts: Sequence[str], labels: np.ndarray, num_labels: int, *, pairs: Sequence[str] | None = None,
                       fit_predict: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None, folds: int = 5,
                       seed: int = 0, quiet: bool = True) -> LabelErrors:
    """Find wrong labels among training rows: every row is judged by a model that never saw it (K refits).

    labels (n,) int or (n,C) multi-hot. `fit_predict(train_rows, held_rows) -> (len(held_rows), C)` probabilities
    trains the real model; without it a TF-IDF logistic regression stands in, which is quick but blind to word order.
    Raises ValueError for fewer than two rows.
    """
    if len(texts) < 2:
        raise ValueError("label errors need at least two training rows.")
    labels = np.asarray(labels)
    truth = labels > 0.5 if labels.ndim == 2 else labels.astype(np.int64)
    folds = min(folds, len(texts))
    both = list(texts) if pairs is None else [f"{a} {b}" for a, b in zip(texts, pairs)]
    how, caution = "the model itself", ""
    if fit_predict is None:
        how = "TF-IDF + logistic regression"
        caution = (f"A bag of words was refitted because {folds} refits of the run's own model would cost {folds} trainings. It cannot "
                   "read word order, so where order decides (negations, turns) it suspects labels that are right. ")
    fit_predict = fit_predict or (lambda train, held: _cheap_fit_predict(both, truth, num_labels, train, held))
    probs = np.zeros((len(texts), num_labels))
    fold_of = _folds([normalised(t) for t in both], truth, folds, seed)
    for f in progress(range(folds), desc="label errors", unit="fold", quiet=quiet):
        held = np.flatnonzero(fold_of == f)
        if len(held):
            probs[held] = fit_predict(np.flatnonzero(fold_of != f), held)
    score = suspicion(probs, truth)
    agree = ((probs >= 0.5) == truth).all(1) if truth.ndim == 2 else probs.argmax(1) == truth
    return LabelErrors(score, suspects(truth, probs), probs, np.argsort(-score, kind="stable"),
                       f"{folds} refits of {how}, each row judged by the one that had not seen it", float(agree.mean()), caution)


def _folds(keys: list[str], truth: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """(n,) fold of each row: equal texts share a fold (or a copy would give the label away), classes spread evenly."""
    first: dict[str, int] = {}
    group = np.array([first.setdefault(key, i) for i, key in enumerate(keys)])
    leaders = np.unique(group)
    rng = np.random.default_rng(seed)
    leaders = leaders[rng.permutation(len(leaders))]
    if truth.ndim == 1:
        leaders = leaders[np.argsort(truth[leaders], kind="stable")]
    fold = np.zeros(len(keys), np.int64)
    fold[leaders] = np.arange(len(leaders)) % folds
    return fold[group]


def _cheap_fit_predict(texts: list[str], truth: np.ndarray, num_labels: int, train: np.ndarray, held: np.ndarray
                       ) -> np.ndarray:
    """(len(held), C) probabilities of a TF-IDF logistic regression; classes absent from `train` get 0."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=1 if len(train) < 1000 else 2, sublinear_tf=True,
                                 token_pattern=r"(?u)\b\w+\b", dtype=np.float32)
    try:
        x, x_held = vectorizer.fit_transform([texts[i] for i in train]), vectorizer.transform([texts[i] for i in held])
    except ValueError:  # no word at all: every class as likely as it is common
        x, x_held = np.zeros((len(train), 1)), np.zeros((len(held), 1))

    def one(y: np.ndarray, k: int) -> np.ndarray:
        out = np.zeros((len(held), k))
        present = np.unique(y)
        if len(present) == 1:
            out[:, present[0]] = 1.0
        else:
            out[:, present] = LogisticRegression(C=10, max_iter=300).fit(x, y).predict_proba(x_held)
        return out

    if truth.ndim == 1:
        return one(truth[train], num_labels)
    return np.stack([one(truth[train, j].astype(np.int64), 2)[:, 1] for j in range(num_labels)], 1)


def normalised(text: str) -> str:
    """Lower case, without accents, tags, punctuation and repeated spaces: what makes two texts "the same"."""
    text = re.sub(r"<[^>]{1,40}>", " ", text).casefold()
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return " ".join(re.findall(r"\w+", text))
