"""The floors a transformer has to beat: majority class, TF-IDF + logistic regression, naive-Bayes-weighted regression.

Every figure of a report stands beside these three. They are built strong on purpose: a weak floor flatters the model.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, Callable, Sequence

import numpy as np
from scipy import sparse  # comes with scikit-learn
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

from . import cli, metrics

_UNSPACED = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # Thai, Japanese, Chinese: written without spaces
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")  # single marks too: "!" and "?" are evidence
SMALL = 1000  # training rows below which an n-gram seen once is kept: there it may be all that a class has


def words(text: str) -> list[str]:
    """The lower-cased words and marks of a text; single characters where words are not spaced."""
    return _WORD.findall(text.lower())


Probabilities = Callable[[Sequence[str]], np.ndarray]  # texts → (n,k)


# ── features ─────────────────────────────────────────────────────────────────────────────────────────────────────

class Ngrams:
    """Counts of word n-grams, as sparse matrices: what scikit-learn's CountVectorizer does, from integer ids.

    Keeps the n-grams found in at least `min_df` training texts. An n-gram is its first n−1 words' id and its last
    word's id in one integer, and one whose parts were dropped is rarer still, so each order prunes the next: whole
    IMDB takes seconds and little memory. Where nothing is left, `empty` is True.
    """

    def __init__(self, order: int, min_df: int):
        self.order, self.min_df = order, min_df

    def fit(self, texts: Sequence[str]) -> list[sparse.csr_matrix]:
        """Learn the n-grams of `texts`; one (n, n-grams) count matrix per order, float32."""
        self.words = {}
        ids, doc = self._read(texts, grow=True)
        self.known, matrices, grams = [], [], None
        for order in range(self.order):
            key = self._keys(grams, ids, doc, order)
            there = key >= 0
            every, number = np.unique(key[there], return_inverse=True)
            counts = _count(number, doc[there], len(texts), len(every))
            kept = counts.getnnz(axis=0) >= self.min_df
            self.known.append(every[kept])
            matrices.append(counts[:, kept])
            grams = np.full(len(key), -1, dtype=np.int64)
            grams[there] = np.where(kept, np.cumsum(kept) - 1, -1)[number]
        self.empty = len(self.known[0]) == 0
        return matrices

    def transform(self, texts: Sequence[str]) -> list[sparse.csr_matrix]:
        """The same matrices for other texts; unknown n-grams count nothing."""
        ids, doc = self._read(texts, grow=False)
        grams, matrices = None, []
        for order, known in enumerate(self.known):
            key = self._keys(grams, ids, doc, order)
            grams = _lookup(known, key)
            there = grams >= 0
            matrices.append(_count(grams[there], doc[there], len(texts), len(known)))
        return matrices

    def _read(self, texts: Sequence[str], grow: bool) -> tuple[np.ndarray, np.ndarray]:
        """Word ids and text numbers of all texts in one flat row each; -1 is a word not seen in training."""
        flat, lengths = [], []
        for text in texts:
            found = words(text)
            lengths.append(len(found))
            if grow:
                flat.extend(self.words.setdefault(w, len(self.words)) for w in found)
            else:
                flat.extend(self.words.get(w, -1) for w in found)
        return np.array(flat, dtype=np.int64), np.repeat(np.arange(len(texts)), lengths)

    def _keys(self, grams: np.ndarray | None, ids: np.ndarray, doc: np.ndarray, order: int) -> np.ndarray:
        """For every position the integer of the (order+1)-gram that starts there; -1 where it has none."""
        if order == 0:
            return ids
        key = np.full(len(ids), -1, dtype=np.int64)
        if len(ids) > order:
            last, inside = ids[order:], doc[order:] == doc[:-order]
            last = np.where(_lookup(self.known[0], last) >= 0, last, -1)
            whole = inside & (last >= 0) & (grams[:-order] >= 0)
            key[:-order][whole] = grams[:-order][whole] * len(self.words) + last[whole]
        return key


def _lookup(known: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Position of each key in the sorted array `known`, -1 where it is not there."""
    if len(known) == 0:
        return np.full(len(key), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(known, key), len(known) - 1)
    return np.where(known[at] == key, at, -1)


def _count(columns: np.ndarray, doc: np.ndarray, n: int, width: int) -> sparse.csr_matrix:
    cells = (np.ones(len(doc), dtype=np.float32), (doc, columns))
    return sparse.csr_matrix(cells, shape=(n, width))  # equal cells are added up


# ── the three floors ─────────────────────────────────────────────────────────────────────────────────────────────

def fit_majority(labels: np.ndarray, k: int) -> Probabilities:
    """Always the training shares of the classes: the arg-max is the most frequent class."""
    shares = labels.mean(0) if labels.ndim == 2 else np.bincount(labels, minlength=k) / len(labels)
    return lambda texts: np.tile(shares, (len(texts), 1))


def fit_tfidf(counts: list[sparse.csr_matrix], labels: np.ndarray, k: int, seed: int = 42) -> Callable:
    """Logistic regression (C=10) on sublinear TF-IDF of 1- and 2-grams; counts → (n,k) probabilities."""
    weighting = TfidfTransformer(sublinear_tf=True)
    features = weighting.fit_transform(sparse.hstack(counts[:2], format="csr"))
    models = [_regression(features, y, C=10.0, seed=seed) for y in _columns(labels, k)]

    def probabilities(counts: list[sparse.csr_matrix]) -> np.ndarray:
        x = weighting.transform(sparse.hstack(counts[:2], format="csr"))
        return _assemble([model(x) for model in models], labels.ndim == 2)
    return probabilities


def fit_nb(counts: list[sparse.csr_matrix], labels: np.ndarray, k: int, seed: int = 42) -> Callable:
    """Wang & Manning 2012: each present 1- to 3-gram weighs its log-count ratio, then logistic regression.

    r = log( (p/‖p‖₁) / (q/‖q‖₁) ), p = α + Σ binarised counts of the class, q = the same of the rest, α = 1.
    """
    x = _binary(counts)
    models = []
    for y in _columns(labels, k):
        p, q = 1 + x.T @ y.astype(np.float32), 1 + x.T @ (~y).astype(np.float32)
        ratio = sparse.diags(np.log((p / p.sum()) / (q / q.sum())))
        models.append((ratio, _regression(x @ ratio, y, C=1.0, seed=seed)))

    def probabilities(counts: list[sparse.csr_matrix]) -> np.ndarray:
        x = _binary(counts)
        return _assemble([model(x @ ratio) for ratio, model in models], labels.ndim == 2)
    return probabilities


def _binary(counts: list[sparse.csr_matrix]) -> sparse.csr_matrix:
    x = sparse.hstack(counts, format="csr")
    x.data[:] = 1
    return x


def _columns(labels: np.ndarray, k: int) -> list[np.ndarray]:
    """The yes/no questions to fit: one for two classes, one per class (one against the rest) or per label otherwise."""
    if labels.ndim == 2:
        return [labels[:, j] > 0.5 for j in range(k)]
    return [labels == 1] if k == 2 else [labels == c for c in range(k)]


def _regression(x: sparse.csr_matrix, y: np.ndarray, C: float, seed: int) -> Callable[[sparse.csr_matrix], np.ndarray]:
    """Fit p(yes); a question with one answer only (a class without rows) gets that answer's smoothed share."""
    if y.all() or not y.any():
        share = (y.sum() + 0.5) / (len(y) + 1)
        return lambda x: np.full(x.shape[0], share)
    model = LogisticRegression(C=C, solver="liblinear", dual=True, random_state=seed)  # dual: far more columns than rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, y)
    return lambda x: model.predict_proba(x)[:, 1]


def _assemble(yes: list[np.ndarray], multi_label: bool) -> np.ndarray:
    if len(yes) == 1 and not multi_label:
        return np.stack([1 - yes[0], yes[0]], axis=1)
    p = np.stack(yes, axis=1)
    return p if multi_label else p / np.maximum(p.sum(1, keepdims=True), 1e-12)


def floors(train_texts: Sequence[str], train_labels: np.ndarray, texts: Sequence[str], labels_true: np.ndarray,
           label_names: Sequence[str], multi_label: bool = False, seed: int = 42, *, quiet: bool = True
           ) -> tuple[dict[str, dict[str, Any]], dict[str, np.ndarray]]:
    """Fit the three floors on the training rows and score them on others.

    Labels are class indices (n,), or 0/1 (n,k) with `multi_label`. Returns (figures, probabilities), both by the
    names "majority", "tfidf", "nb": the block of `metrics.summary` (a `note` says so if a floor had to fall back), and
    its (n,k) probabilities on `texts`. Pairs: join the two texts before.
    """
    k = len(label_names)
    train_labels, labels_true = np.asarray(train_labels), np.asarray(labels_true)
    majority = fit_majority(train_labels, k)(texts)
    probs = {"majority": majority, "tfidf": majority, "nb": majority}
    note = None
    if k > metrics.MOST_CLASSES:
        note = f"with more than {metrics.MOST_CLASSES:,} classes a regression for each takes too long: this is the majority class"
    else:
        with cli.progress(total=4, desc="floors", unit="step", quiet=quiet) as bar:
            ngrams = Ngrams(order=3, min_df=2 if len(train_texts) >= SMALL else 1)
            counts = ngrams.fit(train_texts)
            bar.update()
            if ngrams.empty:
                note = "the training texts hold no words that repeat: this is the majority class"
            else:
                other = ngrams.transform(texts)
                bar.update()
                for name, fit in (("tfidf", fit_tfidf), ("nb", fit_nb)):
                    probs[name] = fit(counts, train_labels, k, seed)(other)
                    bar.update()
    score = metrics.multilabel_summary if multi_label else metrics.summary
    figures = {name: score(labels_true, p, label_names, seed=seed) for name, p in probs.items()}
    if note:
        figures["tfidf"]["note"] = figures["nb"]["note"] = note
    return figures, probs
