"""The figures: known examples by hand, everything else against scikit-learn or against a slower, plainer computation."""

import math

import numpy as np
import pytest
import scipy.stats
from sklearn import metrics as sk

from minibert import metrics

RNG = np.random.default_rng(0)


def random_task(n, k, skill=0.6, seed=0):
    rng = np.random.default_rng(seed)
    probs = metrics.softmax(rng.normal(size=(n, k)) * 2)
    return np.where(rng.random(n) < skill, probs.argmax(1), rng.integers(0, k, n)), probs


def test_a_hundred_thousand_classes_need_no_matrix():
    """100,000² numbers would be 80 GB; what is measured is the same with the cells alone."""
    k = 100_000
    rng = np.random.default_rng(5)
    truth = rng.integers(0, k, 300)
    predicted = np.where(rng.random(300) < 0.5, truth, rng.integers(0, k, 300))
    seen, small = np.unique(np.concatenate([truth, predicted]), return_inverse=True)
    cm = metrics.confusion_matrix(*np.split(small, 2), len(seen))
    assert metrics.scores(truth, predicted, k) == pytest.approx((metrics.accuracy(cm), metrics.macro_f1(cm)))
    assert metrics.scores(truth, predicted, k)[1] == pytest.approx(sk.f1_score(truth, predicted, average="macro"))


def test_above_the_bound_the_block_lists_the_cells_and_nothing_else_changes(monkeypatch):
    truth, probs = random_task(200, 6)
    small = metrics.summary(truth, probs, list("abcdef"))
    monkeypatch.setattr(metrics, "MOST_CLASSES", 5)
    large = metrics.summary(truth, probs, list("abcdef"))
    cells = np.array(large.pop("confusion_cells"))
    matrix = np.zeros((6, 6), dtype=int)
    matrix[cells[:, 0], cells[:, 1]] = cells[:, 2]
    assert matrix.tolist() == small["confusion_matrix"] and (cells[:, 2] > 0).all()
    assert {**large, "confusion_matrix": matrix.tolist()} == small
    for a, b in zip(metrics.class_counts({**large, "confusion_cells": cells.tolist()}), metrics.class_counts(small)):
        assert a.tolist() == b.tolist()


def test_scores_of_label_sets():
    truth, called = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]]), np.array([[1, 0, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    got = metrics.multilabel_summary(truth, called.astype(float), list("abc"))
    assert metrics.scores(truth, called, 3) == (got["accuracy"], got["macro_f1"]) == (2 / 3, 0.5)


# ── the known examples ───────────────────────────────────────────────────────────────────────────────────────────

def test_the_balanced_example():
    cm = [[440, 60], [45, 455]]
    assert metrics.accuracy(cm) == 0.895
    assert round(metrics.macro_f1(cm), 3) == 0.895
    of = metrics.per_class(cm, ["negative", "positive"])
    assert of["negative"]["recall"] == 440 / 500 and of["negative"]["precision"] == 440 / 485
    assert of["positive"]["support"] == 500


def test_the_trap_of_accuracy():
    """950/50, all called negative: accuracy looks fine, macro-F1 does not."""
    truth, predicted = np.repeat([0, 1], [950, 50]), np.zeros(1000, int)
    cm = metrics.confusion_matrix(truth, predicted, 2)
    assert metrics.accuracy(cm) == 0.95
    assert round(metrics.macro_f1(cm), 4) == 0.4872
    assert metrics.per_class(cm, ["no", "yes"])["yes"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 50}


def test_case_E1_an_absent_class_keeps_its_row():
    cm = metrics.confusion_matrix([0, 2], [0, 2], 3)
    assert cm.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    of = metrics.per_class(cm, ["a", "b", "c"])
    assert list(of) == ["a", "b", "c"] and of["b"]["support"] == 0 and of["c"]["recall"] == 1.0
    assert metrics.macro_f1(cm) == 1.0  # the mean is over the classes that occur at all


def test_case_E3_row_is_truth_and_column_is_prediction():
    cm = metrics.confusion_matrix([0, 0, 1], [1, 1, 1], 2)
    assert cm.tolist() == [[0, 2], [0, 1]]
    of = metrics.per_class(cm, ["a", "b"])
    assert (of["a"]["support"], of["a"]["recall"]) == (2, 0.0)
    assert (of["b"]["recall"], of["b"]["precision"]) == (1.0, pytest.approx(1 / 3))


@pytest.mark.parametrize("truth, predicted, what", [
    ([], [], "no rows"), ([0, 1], [0], "equally long"), ([0, -100], [0, 0], "truth"), ([0, 1], [0, 2], "predictions")])
def test_counts_that_mean_nothing_are_refused(truth, predicted, what):
    with pytest.raises(ValueError, match=what):
        metrics.confusion_matrix(truth, predicted, 2)


# ── against scikit-learn ─────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("k", [2, 5, 150])
def test_summary_against_sklearn(k):
    truth, probs = random_task(1500, k)
    labels = [f"class {i}" for i in range(k)]
    got, predicted = metrics.summary(truth, probs, labels), probs.argmax(1)
    assert got["accuracy"] == pytest.approx(sk.accuracy_score(truth, predicted))
    assert got["macro_f1"] == pytest.approx(sk.f1_score(truth, predicted, average="macro"))
    assert got["log_loss"] == pytest.approx(sk.log_loss(truth, probs, labels=range(k)))
    assert got["confusion_matrix"] == sk.confusion_matrix(truth, predicted, labels=range(k)).tolist()
    p, r, f, s = sk.precision_recall_fscore_support(truth, predicted, labels=range(k), zero_division=0)
    for i, name in enumerate(labels):
        c = got["per_class"][name]
        assert (c["precision"], c["recall"], c["f1"], c["support"]) == pytest.approx((p[i], r[i], f[i], s[i]))


def test_macro_f1_with_classes_missing_on_either_side_is_sklearns():
    rng = np.random.default_rng(3)
    for _ in range(50):
        truth, predicted = rng.integers(0, 3, 12), rng.integers(1, 5, 12)
        want = sk.f1_score(truth, predicted, average="macro", zero_division=0)
        assert metrics.macro_f1(metrics.confusion_matrix(truth, predicted, 6)) == pytest.approx(want)


def test_summary_is_plain_python_and_takes_a_decision():
    import json
    truth, probs = random_task(200, 2)
    got = metrics.summary(truth, probs, ["a", "b"], predicted=np.ones(200, int))
    json.dumps(got, allow_nan=False)
    assert got["per_class"]["b"]["recall"] == 1.0 and got["per_class"]["a"]["recall"] == 0.0


@pytest.mark.parametrize("probs", [np.full((3, 2), np.nan), np.ones((3, 3)), np.ones((2, 2))])
def test_summary_refuses_what_are_no_probabilities(probs):
    with pytest.raises(ValueError):
        metrics.summary(np.array([0, 1, 1]), probs, ["a", "b"])


def test_multilabel_against_sklearn():
    rng = np.random.default_rng(1)
    truth = rng.random((400, 6)) < 0.3
    truth[:, 5] = False  # a label that never occurs
    probs = np.clip(0.5 * truth + 0.6 * rng.random((400, 6)), 0, 1)
    probs[:, 5] *= 0.5  # … and is never called
    labels, cuts = list("abcdef"), [0.5, 0.6, 0.4, 0.5, 0.7, 0.8]
    got, called = metrics.multilabel_summary(truth, probs, labels, cuts), probs >= cuts
    assert got["accuracy"] == got["subset_accuracy"] == pytest.approx(sk.accuracy_score(truth, called))
    assert got["micro_f1"] == pytest.approx(sk.f1_score(truth, called, average="micro"))
    assert got["macro_f1"] == pytest.approx(sk.f1_score(truth[:, :5], called[:, :5], average="macro"))
    assert got["hamming_loss"] == pytest.approx(sk.hamming_loss(truth, called))
    assert got["confusion_matrix"] == sk.multilabel_confusion_matrix(truth, called).tolist()
    assert got["per_class"]["f"]["support"] == 0 and got["thresholds"]["b"] == 0.6
    assert metrics.multilabel_summary(truth, probs, labels, dict(zip(labels, cuts)))["macro_f1"] == got["macro_f1"]


def test_multilabel_empty_sets_are_legal_answers():
    got = metrics.multilabel_summary(np.zeros((3, 2)), np.full((3, 2), 0.4), ["a", "b"])
    assert got["subset_accuracy"] == 1.0 and got["macro_f1"] == 0.0 and got["micro_f1"] == 0.0


def test_precision_recall_against_sklearn():
    scores = np.round(RNG.random(300), 2)  # with ties
    truth = RNG.random(300) < scores
    curve = metrics.precision_recall_curve(truth, scores)
    assert curve["average_precision"] == pytest.approx(sk.average_precision_score(truth, scores))
    p, r, t = sk.precision_recall_curve(truth, scores)
    keep = [np.flatnonzero(t == cut)[0] for cut in curve["thresholds"]]
    assert curve["precision"] == pytest.approx(p[keep]) and curve["recall"] == pytest.approx(r[keep])
    assert metrics.precision_recall_curve(np.zeros(3), [0.1, 0.2, 0.3])["average_precision"] == 0.0


# ── calibration ──────────────────────────────────────────────────────────────────────────────────────────────────

def test_ece_by_hand():
    probs = np.array([[0.9, 0.1]] * 10 + [[0.4, 0.6]] * 10)
    truth = np.array([0] * 7 + [1] * 3 + [1] * 8 + [0] * 2)  # 0.7 right where 0.9 sure; 0.8 right where 0.6 sure
    assert metrics.ece(probs, truth) == pytest.approx(0.5 * 0.2 + 0.5 * 0.2)
    assert metrics.ece(np.eye(2)[truth], truth) == 0.0
    table = metrics.reliability(probs.max(1), probs.argmax(1) == truth)
    assert [row["n"] for row in table] == [10, 10]
    assert all(row["low"] < row["confidence"] <= row["high"] for row in table)


def test_temperature_finds_the_scale_that_was_planted():
    rng = np.random.default_rng(5)
    z = rng.normal(size=(4000, 3)) * 2
    truth = np.array([rng.choice(3, p=p) for p in metrics.softmax(z)])
    assert metrics.fit_temperature(z, truth) == pytest.approx(1.0, abs=0.08)
    assert metrics.fit_temperature(z * 4, truth) == pytest.approx(4 * metrics.fit_temperature(z, truth), rel=1e-6)
    y = rng.random(z.shape) < metrics.sigmoid(z)
    assert metrics.fit_temperature_multilabel(z * 3, y) == pytest.approx(3.0, rel=0.08)


def test_temperature_is_the_minimum_of_the_log_loss():
    truth, probs = random_task(500, 4, skill=0.5)
    z = np.log(probs) * 3
    t = metrics.fit_temperature(z, truth)
    loss = lambda t: sk.log_loss(truth, metrics.softmax(z / t))
    assert loss(t) <= min(loss(t * 1.01), loss(t / 1.01))


def test_temperature_is_one_where_the_rows_say_nothing():
    z = np.array([[3.0, 0.0], [0.0, 2.0]])
    assert metrics.fit_temperature(z, [0, 1]) == 1.0  # no mistake: the loss falls for ever as T → 0
    assert metrics.fit_temperature(z, [1, 0]) == 1.0  # all wrong: it falls as T → ∞
    assert metrics.fit_temperature(np.zeros((3, 2)), [0, 1, 0]) == 1.0
    assert metrics.fit_temperature(np.zeros((0, 2)), []) == 1.0


def test_softmax_and_sigmoid_do_not_overflow():
    assert metrics.softmax([[1e4, 0.0]]).tolist() == [[1.0, 0.0]]
    assert metrics.sigmoid([-1e4, 0.0, 1e4]).tolist() == [0.0, 0.5, 1.0]
    assert metrics.sigmoid([1.7]) == pytest.approx(1 / (1 + math.exp(-1.7)))


# ── thresholds ───────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("objective", ["f1", "macro_f1"])
def test_threshold_is_the_best_of_all_cuts(objective):
    rng = np.random.default_rng(7)
    for _ in range(6):
        truth = rng.random(40) < 0.2
        scores = np.round(np.clip(0.3 * truth + 0.7 * rng.random(40), 0, 1), 2)
        if not truth.any():
            continue
        value = lambda cut: sk.f1_score(truth, scores >= cut, average="macro" if objective == "macro_f1" else "binary")
        got = metrics.tune_threshold(truth, scores, objective)
        assert value(got) >= max(value(cut) for cut in np.unique(scores)) - 1e-12


def test_threshold_lies_between_the_rows_and_prefers_the_middle():
    assert metrics.tune_threshold([0, 0, 1, 1], [0.1, 0.2, 0.4, 0.9]) == pytest.approx(0.3)
    assert metrics.tune_threshold([0, 0, 0], [0.1, 0.2, 0.9]) == 0.5  # nothing to tune on
    with pytest.raises(ValueError, match="objective"):
        metrics.tune_threshold([0, 1], [0.1, 0.2], "accuracy")
    cuts = metrics.tune_thresholds(np.array([[0, 0], [1, 0]]), np.array([[0.1, 0.9], [0.3, 0.9]]))
    assert cuts == pytest.approx([0.2, 0.5])


# ── how sure ─────────────────────────────────────────────────────────────────────────────────────────────────────

def test_bootstrap_agrees_with_drawing_the_rows():
    truth, probs = random_task(300, 3)
    predicted, rng = probs.argmax(1), np.random.default_rng(1)
    got = metrics.bootstrap_ci(metrics.confusion_matrix(truth, predicted, 3))
    drawn = []
    for _ in range(1000):
        rows = rng.integers(0, 300, 300)
        cm = metrics.confusion_matrix(truth[rows], predicted[rows], 3)
        drawn.append([metrics.accuracy(cm), metrics.macro_f1(cm), cm[0, 0] / cm[0].sum()])
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    ours = [got["accuracy"], got["macro_f1"], got["recall"][0]]
    assert np.array(ours)[:, 0] == pytest.approx(low, abs=0.02) and np.array(ours)[:, 1] == pytest.approx(high, abs=0.02)


def test_an_interval_has_a_width_also_where_every_row_is_right():
    """No resample of 45 right rows holds a wrong one; 45 of 45 is still compatible with an accuracy of 0.93."""
    got = metrics.bootstrap_ci([[40, 0, 0], [0, 5, 0], [0, 0, 0]])
    assert got["accuracy"] == pytest.approx(metrics.wilson(45, 45)) and got["accuracy"][0] < 0.93 and got["macro_f1"] == got["accuracy"]
    assert got["recall"][1] == pytest.approx(metrics.wilson(5, 5)) and got["recall"][2] == [0.0, 0.0]
    none = metrics.bootstrap_ci([[9, 1], [4, 0]])
    assert none["recall"][1] == pytest.approx(metrics.wilson(0, 4)) and none["accuracy"] != none["macro_f1"]
    sets = metrics.multilabel_summary(np.tile([[1, 0], [1, 1]], (10, 1)), np.tile([[.9, .1], [.9, .9]], (10, 1)), ["a", "b"], {"a": .5, "b": .5})
    assert sets["accuracy_ci95"] == pytest.approx(metrics.wilson(20, 20)) and sets["per_class"]["b"]["recall_ci95"] == pytest.approx(metrics.wilson(10, 10))


def test_bootstrap_interval_covers_the_truth_about_95_times_in_100():
    rng = np.random.default_rng(2)
    hits = 0
    for i in range(300):
        right = rng.random(200) < 0.8
        cm = [[int(right[:100].sum()), int((~right[:100]).sum())], [int((~right[100:]).sum()), int(right[100:].sum())]]
        low, high = metrics.bootstrap_ci(cm, resamples=300, seed=i)["accuracy"]
        hits += low <= 0.8 <= high
    assert 0.90 <= hits / 300 <= 0.98


def test_multilabel_interval_of_one_label_is_the_binary_one():
    rng = np.random.default_rng(4)
    truth = rng.random((500, 1)) < 0.4
    called = np.where(rng.random((500, 1)) < 0.85, truth, ~truth)
    got = metrics.multilabel_summary(truth, called * 1.0, ["a"])
    binary = metrics.bootstrap_ci(metrics.confusion_matrix(truth[:, 0], called[:, 0], 2))
    assert got["accuracy_ci95"] == pytest.approx(binary["accuracy"], abs=0.01)
    assert got["per_class"]["a"]["recall_ci95"] == pytest.approx(binary["recall"][1], abs=0.015)


def test_paired_bootstrap_and_mcnemar():
    rng = np.random.default_rng(6)
    truth = rng.integers(0, 2, 1000)
    a = np.where(rng.random(1000) < 0.9, truth, 1 - truth)
    b = np.where(rng.random(1000) < 0.8, truth, 1 - truth)
    got = metrics.paired_bootstrap(truth, a, b, 2)
    assert got["accuracy"]["difference"] == pytest.approx((a == truth).mean() - (b == truth).mean())
    assert got["macro_f1"]["difference"] == pytest.approx(sk.f1_score(truth, a, average="macro") - sk.f1_score(truth, b, average="macro"))
    assert 0 < got["accuracy"]["ci95"][0] < got["accuracy"]["difference"] < got["accuracy"]["ci95"][1]
    assert got["accuracy"]["p"] == 0.001
    same = metrics.paired_bootstrap(truth, a, a, 2)["macro_f1"]
    assert same == {"difference": 0.0, "ci95": [0.0, 0.0], "p": 1.0}
    m = metrics.mcnemar(a == truth, b == truth)
    assert m["p"] == pytest.approx(scipy.stats.binomtest(m["only_a"], m["only_a"] + m["only_b"]).pvalue)
    assert metrics.mcnemar([1, 0], [1, 0]) == {"only_a": 0, "only_b": 0, "p": 1.0}
    many = metrics.mcnemar(np.repeat([1, 0], [6000, 5000]), np.repeat([0, 1], [6000, 5000]))
    assert many["p"] == pytest.approx(scipy.stats.binomtest(6000, 11000).pvalue, rel=1e-6)


def test_paired_bootstrap_of_label_sets():
    rng = np.random.default_rng(8)
    truth = rng.random((400, 3)) < 0.4
    a, b = (np.where(rng.random(truth.shape) < skill, truth, ~truth) for skill in (0.95, 0.8))
    got = metrics.paired_bootstrap_multilabel(truth, a, b)
    assert got["accuracy"]["difference"] == pytest.approx(sk.accuracy_score(truth, a) - sk.accuracy_score(truth, b))
    assert got["macro_f1"]["ci95"][0] > 0


def test_coverage_counts_the_most_confident_rows():
    curve = metrics.coverage_curve([0.9, 0.6, 0.8, 0.7], [1, 0, 1, 0], (1.0, 0.5, 0.01))
    assert [(r["n"], r["accuracy"], r["threshold"]) for r in curve] == [(4, 0.5, 0.6), (2, 1.0, 0.8), (1, 1.0, 0.9)]
