"""Failure modes: properties of texts that are more common among errors than among correct rows.

A failure mode is a property of the text ("holds a negation", "was cut") that stands more often in errors than in
correct rows. Every property is a hypothesis; each is measured the same way and named only when chance is ruled out:

  rates       k/n among errors against k/n among correct rows; their difference with Newcombe's 95 % interval
  test        one-sided and exact: errors are dealt out at random among rows of the same true label and of similar
              length. So a word is not blamed for standing in long texts, nor for the class that is harder anyway.
  many tests  Holm's correction inside each family (detectors, words, clusters); the families share a risk of 5 % of
              naming anything at all where nothing is there. And a difference under two points is not a mode.

The keyword detectors read English; on other texts they are left out, and the report says so. Sees texts, labels,
probabilities and the predictor; never another column of the data.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from .english import DETECTORS, looks_english
from .label_noise import normalised, suspects, suspicion
from .metrics import wilson

if TYPE_CHECKING:
    from .data import Split
    from .predictor import Predictor

LEAST_DIFFERENCE = 0.02   # a mode must be at least two points more common among errors
RISK = {"detector": 0.03, "word": 0.01, "cluster": 0.01}  # shares of the 5 % risk of a false alarm
LENGTH_BINS = (32, 64, 128, 256, 512, 1024)


# ── the statistics ───────────────────────────────────────────────────────────────────────────────────────────────

def newcombe(k1: int, n1: int, k2: int, n2: int) -> tuple[float, float]:
    """95 % interval of k1/n1 − k2/n2 (Newcombe 1998, method 10: the two Wilson intervals combined)."""
    p1 = k1 / n1 if n1 else 0.5
    p2 = k2 / n2 if n2 else 0.5
    (low1, high1), (low2, high2) = wilson(k1, n1), wilson(k2, n2)
    difference = p1 - p2
    return (difference - math.hypot(p1 - low1, high2 - p2), difference + math.hypot(high1 - p1, p2 - low2))


def exact_p(has: np.ndarray, wrong: np.ndarray, strata: np.ndarray) -> float:
    """P(at least this many errors have the property) if errors fall at random inside each stratum.

    has, wrong: (n,) bool; strata: (n,) int. In one stratum the count is hypergeometric (Fisher's exact test); over
    strata the counts add up, so their distributions are convolved. One-sided: only over-representation is a mode.
    """
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, len(has) + 1)))])
    total, least = np.ones(1), 0
    for s in np.unique(strata):
        inside = strata == s
        n, with_it, errors = int(inside.sum()), int(has[inside].sum()), int(wrong[inside].sum())
        low, high = max(0, with_it + errors - n), min(with_it, errors)
        k = np.arange(low, high + 1)
        log_choose = lambda a, b: log_factorial[a] - log_factorial[b] - log_factorial[a - b]  # noqa: E731
        pmf = np.exp(log_choose(with_it, k) + log_choose(n - with_it, errors - k) - log_choose(n, errors))
        total, least = np.convolve(total, pmf), least + low
    observed = int((has & wrong).sum())
    return float(min(1.0, total[max(0, observed - least):].sum()))


def holm(p_values: Sequence[float], tests: int | None = None) -> list[float]:
    """Holm's adjusted p-values (1979), in the order given. `tests`: how many there were, if only the smallest are given."""
    p = np.asarray(p_values, dtype=float)
    tests = tests or len(p)
    adjusted, worst = np.ones(len(p)), 0.0
    for rank, i in enumerate(np.argsort(p, kind="stable")):
        worst = max(worst, min(1.0, (tests - rank) * p[i]))
        adjusted[i] = worst
    return adjusted.tolist()


# ── a hypothesis and its verdict ─────────────────────────────────────────────────────────────────────────────────

@dataclass
class Hypothesis:
    """One property of texts, counted among errors and among correct rows, and whether it is a failure mode."""
    name: str
    meaning: str
    next: str
    family: str                                    # "detector", "word" or "cluster"; "label noise" has no test
    has: np.ndarray                                # (n,) bool: which rows have it
    counts: tuple[int, int, int, int]              # errors with it, errors, correct rows with it, correct rows
    p_value: float | None = None                   # exact, before correction
    p_adjusted: float | None = None                # after Holm inside the family
    named: bool = False
    decision: str = ""                             # the sentence that says why it is, or is not, named
    examples: list[str] = field(default_factory=list)

    @property
    def rate_errors(self) -> float:
        return self.counts[0] / max(1, self.counts[1])

    @property
    def rate_correct(self) -> float:
        return self.counts[2] / max(1, self.counts[3])

    @property
    def difference(self) -> float:
        return self.rate_errors - self.rate_correct

    @property
    def interval(self) -> tuple[float, float]:
        return newcombe(*self.counts)

    def figures(self) -> dict[str, Any]:
        """Plain values for metrics.json."""
        return {"name": self.name, "family": self.family, "errors_with": self.counts[0], "errors": self.counts[1],
                "correct_with": self.counts[2], "correct": self.counts[3], "rate_errors": self.rate_errors,
                "rate_correct": self.rate_correct, "difference": self.difference,
                "difference_ci95": list(self.interval), "p": self.p_value, "p_adjusted": self.p_adjusted,
                "named": self.named, "decision": self.decision}


def _hypothesis(name: str, meaning: str, next: str, family: str, has: np.ndarray, wrong: np.ndarray,
                strata: np.ndarray) -> Hypothesis:
    return Hypothesis(name, meaning, next, family, has, _counts(has, wrong), exact_p(has, wrong, strata))


def _counts(has: np.ndarray, wrong: np.ndarray) -> tuple[int, int, int, int]:
    return tuple(int(x) for x in ((has & wrong).sum(), wrong.sum(), (has & ~wrong).sum(), (~wrong).sum()))


def judge(hypotheses: list[Hypothesis], family: str, tests: int | None = None) -> None:
    """Correct the p-values of one family and decide which are named. Changes the hypotheses in place."""
    risk = RISK[family]
    for h, p in zip(hypotheses, holm([h.p_value for h in hypotheses], tests)):
        h.p_adjusted = p
        if p >= risk:
            h.decision = f"not named: chance is not ruled out (adjusted p = {p:.2g}, needed < {risk:g})"
        elif h.difference < LEAST_DIFFERENCE:
            h.decision = f"not named: real (adjusted p = {p:.2g}) but under {LEAST_DIFFERENCE:.0%} of difference"
        else:
            h.named, h.decision = True, f"named: adjusted p = {p:.2g} < {risk:g}"


# ── what is analysed ─────────────────────────────────────────────────────────────────────────────────────────────

@dataclass
class Rows:
    """One split seen through one model: everything the hypotheses may look at."""
    texts: list[str]
    pairs: list[str] | None
    ids: np.ndarray             # (n,) row numbers of the source
    labels: list[str]
    multi_label: bool
    truth: np.ndarray           # (n,) class index, or (n,C) bool
    predicted: np.ndarray       # the same
    probs: np.ndarray           # (n,C)
    wrong: np.ndarray           # (n,) bool; multi-label: any label wrong
    lengths: np.ndarray         # (n,) content tokens
    unknown: np.ndarray         # (n,) share of unknown tokens

    def __len__(self) -> int:
        return len(self.texts)

    def text(self, i: int) -> str:
        return self.texts[i] if self.pairs is None else f"{self.texts[i]} ‖ {self.pairs[i]}"

    def name(self, of: np.ndarray, i: int) -> str:
        """The label (or labels, joined by |) of row i in `of` (truth or predicted)."""
        if self.multi_label:
            return "|".join(label for label, yes in zip(self.labels, of[i]) if yes)
        return self.labels[int(of[i])]

    def confidence(self) -> np.ndarray:
        """(n,) probability of the label predicted; multi-label: of its most confident wrong (else right) decision."""
        if not self.multi_label:
            return self.probs[np.arange(len(self)), self.predicted]
        sure = np.where(self.predicted, self.probs, 1 - self.probs)
        mistakes = self.predicted != self.truth
        return np.where(self.wrong, np.where(mistakes, sure, 0).max(1, initial=0), sure.max(1, initial=0))

    def strata(self) -> np.ndarray:
        """(n,) one number per (true label, quarter of length, the longest in two): rows that may exchange errors."""
        label = np.zeros(len(self), np.int64) if self.multi_label else self.truth
        if len(self) < 100:  # quarters of a small split hold a handful of rows each: then the label alone
            return label
        return label * 5 + np.searchsorted(np.quantile(self.lengths, [0.25, 0.5, 0.75, 0.9]), self.lengths, side="left")


def look_at(predictor: Predictor, split: Split, probs: np.ndarray) -> Rows:
    """Gather a split and a model's probabilities (n,C) on it. Raises ValueError if their sizes differ."""
    probs = np.asarray(probs, dtype=np.float64)
    if probs.shape != (len(split.texts), len(predictor.labels)):
        raise ValueError(f"the probabilities are {probs.shape}, but there are {len(split.texts)} rows and "
                         f"{len(predictor.labels)} labels.")
    multi = bool(predictor.multi_label)
    truth = np.asarray(split.labels) > 0.5 if multi else np.asarray(split.labels, dtype=np.int64)
    predicted = np.asarray(predictor.decide(probs))
    wrong = (truth != predicted).any(1) if multi else truth != predicted
    lengths, unknown = token_counts(predictor.tokenizer, split.texts, split.pairs)
    return Rows(split.texts, split.pairs, split.rows, list(predictor.labels), multi, truth, predicted, probs, wrong, lengths,
                unknown)


def token_counts(tokenizer: Any, texts: Sequence[str], pairs: Sequence[str] | None = None
                 ) -> tuple[np.ndarray, np.ndarray]:
    """Content tokens (n,) and the share of them that are unknown (n,), before truncation; a pair counts both texts."""
    lengths, unknown = np.zeros(len(texts), np.int64), np.zeros(len(texts))
    for side in (texts, pairs):
        for start in range(0, len(side or ()), 2048):  # in blocks: ids of the whole split at once would be large
            for i, ids in enumerate(tokenizer.ids(list(side[start:start + 2048])), start):
                lengths[i] += len(ids)
                if tokenizer.unk_id is not None:
                    unknown[i] += int((np.asarray(ids) == tokenizer.unk_id).sum())
    return lengths, unknown / np.maximum(lengths, 1)


# ── hypothesis: truncation ───────────────────────────────────────────────────────────────────────────────────────

def with_truncation(predictor: Predictor, truncate: str) -> Predictor:
    """The same model, reading long texts another way."""
    other = copy.copy(predictor)
    other.truncate = truncate
    return other


def cut_rows(rows: Rows, predictor: Predictor) -> np.ndarray:
    """(n,) bool: texts that do not fit into --max-len. Windows (--truncate chunk) lose nothing."""
    if predictor.truncate == "chunk":
        return np.zeros(len(rows), bool)
    return rows.lengths > predictor.tokenizer.room(predictor.max_len, predictor.takes_pairs)


def truncation(rows: Rows, cut: np.ndarray, predictor: Predictor, seed: int, quiet: bool, advice: str
               ) -> tuple[list[Hypothesis], dict]:
    """Did cutting cause errors? By association (cut rows among errors), and by experiment (cut them another way)."""
    lost = {"right": "tail", "left": "head", "head+tail": "middle"}.get(predictor.truncate, "")
    figures: dict[str, Any] = {"truncate": predictor.truncate, "max_len": predictor.max_len, "cut": int(cut.sum()),
                               "cut_errors": int((cut & rows.wrong).sum()), "would_keep": {}}
    if not cut.any():
        return [], figures
    label = np.zeros(len(rows), np.int64) if rows.multi_label else rows.truth  # not length: being cut *is* length
    found = [_hypothesis("truncation", f"the text is longer than --max-len {predictor.max_len} and lost its {lost}",
                         advice, "detector", cut, rows.wrong, label)]
    rng = np.random.default_rng(seed)
    most = max(100, len(rows) // 8)  # bounds the extra prediction to half of what predicting the split took
    errors, correct = (rng.permutation(np.flatnonzero(cut & side))[:most] for side in (rows.wrong, ~rows.wrong))
    correct = correct[:max(len(errors), 20)]
    if len(errors) == 0:
        return found, figures
    sample = np.concatenate([errors, correct])
    for other in [t for t in ("left", "head+tail", "right") if t != predictor.truncate][:2]:
        wrong_now = _wrong_under(with_truncation(predictor, other), rows, sample, quiet)
        found.append(_would_keep(other, rows, cut, errors, ~wrong_now[:len(errors)], wrong_now[len(errors):], figures))
    return found, figures


def _wrong_under(predictor: Predictor, rows: Rows, sample: np.ndarray, quiet: bool) -> np.ndarray:
    pairs = None if rows.pairs is None else [rows.pairs[i] for i in sample]
    probs = predictor.probabilities([rows.texts[i] for i in sample], pairs, quiet=quiet)
    different = predictor.decide(probs) != rows.truth[sample]
    return different.any(1) if rows.multi_label else different


def _would_keep(other: str, rows: Rows, cut: np.ndarray, tried: np.ndarray, mended: np.ndarray, broken: np.ndarray,
                figures: dict) -> Hypothesis:
    """Of the cut rows, do more errors become right than right rows become wrong under another truncation?

    mended: (m,) bool over the errors `tried` (row indices); broken: bool over correct rows; samples of all cut ones.
    """
    errors, correct = int((cut & rows.wrong).sum()), int((cut & ~rows.wrong).sum())
    mend, brk = mended.mean(), broken.mean() if len(broken) else 0.0
    gain = (mend * errors - brk * correct) / len(rows)
    spread = math.sqrt(errors**2 * (mend * (1 - mend) + 0.25 / len(mended)) / len(mended)
                       + correct**2 * (brk * (1 - brk) + 0.25 / max(1, len(broken))) / max(1, len(broken))) / len(rows)
    figures["would_keep"][other] = {"errors_tried": len(mended), "mended": float(mend), "correct_tried": len(broken),
                                    "broken": float(brk), "accuracy_gain": float(gain),
                                    "accuracy_gain_ci95": [gain - 1.96 * spread, gain + 1.96 * spread]}
    has = np.zeros(len(rows), bool)
    has[tried[mended]] = True
    return Hypothesis(f"truncation: {other} would have kept it",
                      f"with --truncate {other} the same model, untrained for it, changes the accuracy of the split by "
                      f"{gain:+.1%} (rates: cut errors that become right, cut correct rows that become wrong)",
                      f"retrain with --truncate {other}", "detector", has,
                      (int(mended.sum()), len(mended), int(broken.sum()), len(broken)),
                      0.5 * math.erfc(gain / spread / math.sqrt(2)))


def length_table(rows: Rows) -> list[dict[str, Any]]:
    """Accuracy by length in content tokens: [{low, high (None = no limit), n, errors, accuracy, accuracy_ci95}]."""
    edges, table = (0, *LENGTH_BINS, None), []
    for low, high in zip(edges, edges[1:]):
        inside = (rows.lengths > low if low else rows.lengths >= 0) & (rows.lengths <= high if high else True)
        n, errors = int(inside.sum()), int((inside & rows.wrong).sum())
        if n:
            interval = wilson(n - errors, n)
            table.append({"low": low + 1 if low else 0, "high": high, "n": n, "errors": errors,
                          "accuracy": (n - errors) / n, "accuracy_ci95": list(interval)})
    return table


# ── hypothesis: near-duplicates with another label ───────────────────────────────────────────────────────────────

def conflicts(rows: Rows, train: Split | None, matrix: Any, vectorizer: Any, seed: int) -> dict[int, str]:
    """Rows whose text stands elsewhere (same split or training) with another label: {row index: where}.

    All rows are compared when they are equal after `normalised`. Near-equal ones (cosine ≥ 0.9 of TF-IDF, then 95 %
    of the words in the same order, 20 words at least) are looked for around the errors and as many correct rows.
    """
    texts = [rows.text(i) for i in range(len(rows))]
    labels = [rows.name(rows.truth, i) for i in range(len(rows))]
    places = [f"row {n}" for n in rows.ids]
    if train is not None:
        texts += train.texts if train.pairs is None else [f"{a} ‖ {b}" for a, b in zip(train.texts, train.pairs)]
        labels += [train.label_text(i) for i in range(len(train))]
        places += [f"training row {n}" for n in train.rows]
    groups: dict[str, list[int]] = defaultdict(list)
    for i, text in enumerate(texts):
        groups[normalised(text)].append(i)
    found: dict[int, str] = {}
    for members in groups.values():
        if len({labels[i] for i in members}) > 1:
            for i in members:
                other = next(j for j in members if labels[j] != labels[i])
                if i < len(rows):
                    found[i] = f"the same text is “{labels[other]}” in {places[other]}"
    if matrix is not None:
        everything = matrix if train is None else _stack(matrix, vectorizer.transform(texts[len(rows):]))
        for i, j in _near(rows, matrix, everything, seed):
            if i not in found and labels[i] != labels[j] and _nearly_equal(texts[i], texts[j]):
                found[i] = f"nearly the same text is “{labels[j]}” in {places[j]}"
    return found


def _stack(a: Any, b: Any) -> Any:
    from scipy.sparse import vstack
    return vstack([a, b]).tocsr()


def _near(rows: Rows, matrix: Any, everything: Any, seed: int) -> list[tuple[int, int]]:
    """(row, other) with cosine ≥ 0.9, for at most 2,000 errors and as many correct rows."""
    rng = np.random.default_rng(seed)
    errors, correct = (rng.permutation(np.flatnonzero(side)) for side in (rows.wrong, ~rows.wrong))
    errors = errors[:2000]
    asked = np.concatenate([errors, correct[:max(20, len(errors))]])
    transposed, found = everything.T.tocsr(), []
    for start in range(0, len(asked), 128):
        block = asked[start:start + 128]
        similar = (matrix[block] @ transposed).tocoo()
        close = similar.data >= 0.9
        found += [(int(block[r]), int(c)) for r, c in zip(similar.row[close], similar.col[close]) if block[r] != c]
    return found


def _nearly_equal(a: str, b: str) -> bool:
    a_words, b_words = normalised(a).split(), normalised(b).split()
    return min(len(a_words), len(b_words)) >= 20 and SequenceMatcher(None, a_words, b_words, autojunk=False).ratio() >= 0.95


# ── hypotheses: words and clusters ───────────────────────────────────────────────────────────────────────────────

def tfidf(rows: Rows) -> tuple[Any, Any]:
    """(vectorizer, TF-IDF matrix (n, words)) of the split; (None, None) where no word stands in two texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    vectorizer = TfidfVectorizer(min_df=2, max_df=0.5 if len(rows) >= 50 else 1.0, max_features=20_000,
                                 sublinear_tf=True, dtype=np.float32)
    try:
        return vectorizer, vectorizer.fit_transform(rows.text(i) for i in range(len(rows)))
    except ValueError:  # an empty vocabulary
        return None, None


def word_hypotheses(rows: Rows, vectorizer: Any, matrix: Any, strata: np.ndarray, most: int = 10) -> list[Hypothesis]:
    """The words most over-represented in errors, judged against all words that were tested."""
    present = (matrix > 0).astype(np.float32).tocsr()
    often = np.flatnonzero(np.asarray(present.sum(0)).ravel() >= max(5, len(rows) // 1000))
    if len(often) == 0:
        return []
    present, vocabulary = present[:, often].tocsr(), vectorizer.get_feature_names_out()[often]
    # Exact tests of thousands of words would be slow: rank them by the same test's normal approximation first
    # (Cochran–Mantel–Haenszel), and test the best exactly. The correction still counts every word.
    excess, variance = np.zeros(len(often)), np.zeros(len(often))
    for s in np.unique(strata):
        inside = np.flatnonzero(strata == s)
        n, errors = len(inside), int(rows.wrong[inside].sum())
        if 0 < errors < n:
            with_it = np.asarray(present[inside].sum(0)).ravel()
            excess += np.asarray(present[inside[rows.wrong[inside]]].sum(0)).ravel() - with_it * errors / n
            variance += errors * (n - errors) * with_it * (n - with_it) / (n * n * (n - 1))
    z = excess / np.sqrt(np.maximum(variance, 1e-9))
    found = []
    for j in [j for j in np.argsort(-z, kind="stable")[:most] if z[j] > 0]:
        has = np.asarray(present[:, j].todense()).ravel() > 0
        found.append(_hypothesis(f"word “{vocabulary[j]}”", f"the word “{vocabulary[j]}” stands in the text",
                                 "read the examples: is it a subject the training rows lack, or a word that means "
                                 "another thing here? Then label more such rows", "word", has, rows.wrong, strata))
    judge(found, "word", tests=len(often))
    return found


def cluster_hypotheses(rows: Rows, vectorizer: Any, matrix: Any, strata: np.ndarray, seed: int) -> list[Hypothesis]:
    """Topics: TF-IDF → SVD → k-means over *all* rows, blind to which are wrong; then errors are counted in each.

    Clustering the errors alone would find groups of errors in pure noise. Words without a subject (“it”, “with”, and
    any that stand in over a fifth of the texts) take no part: they would make clusters of styles, not of topics.
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
    from sklearn.preprocessing import normalize
    vocabulary = vectorizer.get_feature_names_out()
    share = np.asarray((matrix > 0).mean(0)).ravel()
    subject = np.flatnonzero((share <= 0.2) & ~np.isin(vocabulary, list(ENGLISH_STOP_WORDS)))
    matrix, vocabulary = matrix[:, subject], vocabulary[subject]
    k = min(8, int(rows.wrong.sum()) // 8, len(rows) // 25)
    dimensions = min(20, matrix.shape[1] - 1, len(rows) - 1)
    if k < 2 or dimensions < 2:
        return []
    sample = np.random.default_rng(seed).permutation(len(rows))[:5000]
    svd = TruncatedSVD(dimensions, random_state=seed).fit(matrix[sample])
    points = normalize(svd.transform(matrix))
    k = min(k, len(np.unique(points[sample].round(4), axis=0)))  # k-means warns when it cannot find k different points
    cluster = KMeans(k, n_init=3, random_state=seed).fit(points[sample]).predict(points)
    overall = np.asarray(matrix.mean(0)).ravel()
    found = []
    for c in np.unique(cluster):
        has = cluster == c
        typical = np.argsort(overall - np.asarray(matrix[has].mean(0)).ravel(), kind="stable")[:4]
        words = ", ".join(vocabulary[typical])
        found.append(_hypothesis(f"topic “{words}”", f"the text belongs to the cluster around: {words}",
                                 "read its examples and label more rows of this topic", "cluster", has, rows.wrong,
                                 strata))
    judge(found, "cluster")
    return found


# ── hypothesis: wrong labels ─────────────────────────────────────────────────────────────────────────────────────

def usual_errors(rows: Rows, matrix: Any, seed: int, folds: int = 5) -> np.ndarray:
    """(n,) how often the model is wrong about texts with such words: a logistic regression of `wrong` on TF-IDF, each
    row judged by the folds it was not in. Zeros where there are too few errors to learn from."""
    from sklearn.linear_model import LogisticRegression
    usual = np.zeros(len(rows))
    if matrix is None or min(rows.wrong.sum(), (~rows.wrong).sum()) < 2 * folds:
        return usual
    fold = np.random.default_rng(seed).permutation(len(rows))
    for side in (rows.wrong, ~rows.wrong):  # errors and correct rows spread evenly over the folds
        fold[side] = np.argsort(np.argsort(fold[side])) % folds
    for f in range(folds):
        held = fold == f
        model = LogisticRegression(max_iter=300).fit(matrix[~held], rows.wrong[~held])
        usual[held] = model.predict_proba(matrix[held])[:, 1]
    return usual


def label_noise(rows: Rows, matrix: Any, seed: int) -> tuple[Hypothesis, np.ndarray]:
    """How many errors may be the label's fault, and how suspect each row is, (n,) in [0,1].

    Where the model is wrong as usual (negations, say) an error accuses the model; where it is nearly always right, the
    label. So the margin of confident learning is multiplied by 1 − `usual_errors`.
    """
    score = suspicion(rows.probs, rows.truth) * (1 - usual_errors(rows, matrix, seed))
    suspect = suspects(rows.truth, rows.probs)
    counts = _counts(suspect, rows.wrong)
    h = Hypothesis("label noise", "the model contradicts the given label more confidently than it usually is",
                   "read the most suspect rows of errors.csv; if labels are wrong here, they are in training too: "
                   "`evaluate.py RUN --label-errors` ranks its rows, write the right label into the column `correction` "
                   "and retrain with `train.py --corrections errors.csv`", "label noise", suspect, counts)
    right = 1 - rows.wrong.mean()
    h.named = bool(counts[0] >= 5 and h.rate_errors >= 0.2 and right >= 0.8)
    h.decision = (f"{'named' if h.named else 'not named'}: {counts[0]} of {counts[1]} errors are suspect, and the model is "
                  f"right on {right:.0%} of the rows (named from 5, 20 % and 80 % on: a poor model cannot accuse a "
                  "label); a wrong label and a confidently wrong model look alike, only reading tells")
    return h, score


def hypotheses_of(rows: Rows, vectorizer: Any, matrix: Any, predictor: Predictor, train: Split | None,
                  length_info: dict | None, seed: int, quiet: bool) -> tuple[list[Hypothesis], dict[str, Any]]:
    """Everything but label noise, tested and judged, and the figures beside it. `vectorizer`, `matrix`: of `tfidf`."""
    english = looks_english(rows.texts)
    figures: dict[str, Any] = {"english": english, "skipped": []}
    advice = _length_advice(rows, predictor, length_info)
    cut = cut_rows(rows, predictor)
    detectors, figures["truncation"] = truncation(rows, cut, predictor, seed, quiet, advice)
    if not rows.wrong.any() or rows.wrong.all():
        figures["skipped"].append("there is nothing to compare: every row is " + ("wrong" if rows.wrong.any() else "right"))
        return [], figures
    strata = rows.strata() * 2 + cut  # nor is a word blamed for standing in texts that were cut
    properties = _properties(rows, english, conflicts(rows, train, matrix, vectorizer, seed))
    detectors += [_hypothesis(name, meaning, next, "detector", has, rows.wrong, strata)
                  for name, has, meaning, next in properties]
    judge(detectors, "detector")
    if any(h.named for h in detectors if h.name == "truncation") and not any(
            h.named for h in detectors if h.name.startswith("truncation:")):
        detectors[0].decision += ("; cutting them another way mends too little to show, so long texts may be hard for "
                                  "another reason")
    if not english:
        figures["skipped"].append("the keyword detectors (negation, contrast, mixed sentiment, sarcasm): they read "
                                  "English, and these texts do not look English")
    words, clusters = [], []
    if matrix is None or rows.wrong.sum() < 5:
        figures["skipped"].append("words and topics: fewer than five errors, or no word in two texts")
    else:
        words = word_hypotheses(rows, vectorizer, matrix, strata)
        clusters = cluster_hypotheses(rows, vectorizer, matrix, strata, seed)
    return [*detectors, *words, *clusters], figures


def _properties(rows: Rows, english: bool, conflict: dict[int, str]) -> list[tuple[str, np.ndarray, str, str]]:
    """(name, has it (n,) bool, meaning, next step) of every detector but truncation; those nobody has are left out."""
    n = len(rows)
    found = [("unknown tokens", rows.unknown >= 0.02, "at least 2 % of the tokens are unknown to the vocabulary",
              "look at the characters (emoji, another script, spelling); use a model whose vocabulary covers them"),
             ("conflicting duplicates", np.array([i in conflict for i in range(n)], bool),
              "the same or nearly the same text stands elsewhere with another label",
              "decide which label is right and correct the others: no model can satisfy both"),
             ("very short text", rows.lengths <= 5, "the text has five tokens or fewer",
              "check that such texts can be judged at all; if not, leave them to a person")]
    if english:
        text = [rows.text(i) for i in range(n)]
        found += [(name, np.array([finds(t) for t in text], bool), meaning, next)
                  for name, (finds, meaning, next) in DETECTORS.items()]
    return [(name, has, meaning, next) for name, has, meaning, next in found if has.any()]


def _length_advice(rows: Rows, predictor: Predictor, length_info: dict | None) -> str:
    special = predictor.tokenizer.num_special(predictor.takes_pairs)
    p95 = int((length_info or {}).get("p95") or np.quantile(rows.lengths, 0.95) + special)
    most = int(predictor.tokenizer.max_tokens or p95)
    longer = f"--max-len {min(p95, most)}, " + ("which keeps 95 % of the texts whole" if p95 <= most else "all it can read")
    others = [t for t in ("head+tail", "left", "right") if t != predictor.truncate]
    return f"retrain with {longer}; or with --truncate {others[0]} or {others[1]}, which cost nothing; or --truncate chunk"


def choose_examples(rows: Rows, hypotheses: Sequence[Hypothesis], most: int = 3) -> None:
    """Give each hypothesis its most confident errors as examples, the same row twice only where there is no other."""
    confidence, used = rows.confidence(), np.zeros(len(rows), bool)
    for h in hypotheses:
        having = np.flatnonzero(h.has & rows.wrong)
        chosen = having[np.lexsort((having, -confidence[having], used[having]))][:most]
        used[chosen] = True
        h.examples = [f"row {rows.ids[i]} ({rows.name(rows.truth, i) or '∅'} read as "
                      f"{rows.name(rows.predicted, i) or '∅'}): {short(rows.text(i))}" for i in chosen]


def short(text: str, most: int = 220) -> str:
    """One line of at most about `most` characters; the middle goes."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most // 2]} … {text[-most // 2:]}"
