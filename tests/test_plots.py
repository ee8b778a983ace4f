"""The pictures: written whole, nothing overlaps at 2, 20 or 50 classes with long names, readable without colour."""

import subprocess
import sys

import numpy as np
import pytest

from minibert import metrics, plots

LONG = "a quite long name of a support category, number {} (billing and refunds)"


@pytest.fixture
def drawn(monkeypatch):
    """The tick labels, legends and titles of the figure that was just saved, measured in pixels."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    found = {}

    def measure(path, write):
        write(str(path))
        figure = plt.gcf()
        renderer = figure.canvas.get_renderer()
        boxes = lambda texts: [t.get_window_extent(renderer) for t in texts if t.get_text() and t.get_visible()]
        found["x"] = [boxes(a.get_xticklabels()) for a in figure.axes]
        found["y"] = [boxes(a.get_yticklabels()) for a in figure.axes]
        found["inside"] = [boxes(a.texts) for a in figure.axes]
        found["bars"] = [[p.get_window_extent(renderer) for p in a.patches] for a in figure.axes]
        found["legends"] = [a.get_legend().get_window_extent(renderer) for a in figure.axes if a.get_legend()]
        found["titles"] = [(a.get_xlabel(), a.get_ylabel()) for a in figure.axes]
        found["names"] = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    monkeypatch.setattr(plots, "write_atomic", measure)
    return found


def none_overlap(boxes):
    return all(not a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 2000


@pytest.mark.parametrize("names", [["negative", "positive"], ["neg", "neutral", "pos"], [LONG.format(i) for i in range(3)],
                                   [LONG.format(i) for i in range(20)], [LONG.format(i) for i in range(50)]], ids=len)
def test_confusion_matrix_labels_do_not_overlap(tmp_path, drawn, names):
    k = len(names)
    plots.confusion_matrix(tmp_path / "cm.png", np.full((k, k), 12345), names)
    assert is_png(tmp_path / "cm.png")
    for which in ("x", "y", "inside"):
        assert len(drawn[which][0]) == (k if which != "inside" else k * k * (k <= plots.NUMBERS_UP_TO))
        assert none_overlap(drawn[which][0]), which
    assert drawn["titles"][0] == ("prediction (columns)", "truth (rows)")  # case E3: both axes say what they are
    assert len(set(drawn["names"])) == k  # shortened names stay apart


def test_names_that_matplotlib_would_misread(tmp_path, drawn):
    names = ["costs $5 and $6", "a_b^{c", "line\nbreak", "电影", "\\frac{1}{2}$"]
    plots.confusion_matrix(tmp_path / "cm.png", np.eye(5, dtype=int), names)
    plots.precision_recall(tmp_path / "pr.png", metrics.precision_recall_curve([0, 1, 1], [0.2, 0.6, 0.9]), names[0],
                           {"at 0.5": (1.0, 1.0)})
    assert is_png(tmp_path / "cm.png") and is_png(tmp_path / "pr.png")
    assert plots.shortened("line\nbreak") == "line break"


@pytest.mark.parametrize("labels", [2, 40])
def test_label_matrices(tmp_path, drawn, labels):
    plots.label_matrices(tmp_path / "m.png", [[[50, 10], [20, 100]]] * labels, [LONG.format(i) for i in range(labels)])
    assert is_png(tmp_path / "m.png") and none_overlap(drawn["y"][0])
    assert not any(drawn["legends"][0].overlaps(bar) for bar in drawn["bars"][0])


def test_the_other_pictures(tmp_path, drawn):
    probs = metrics.softmax(np.random.default_rng(0).normal(size=(500, 2)) * 2)
    truth = np.random.default_rng(1).integers(0, 2, 500)
    right = probs.argmax(1) == truth
    history = [dict(epoch=i + 1.0, train_loss=1 / (i + 1), val_loss=0.5, val_accuracy=0.8, val_macro_f1=0.79) for i in range(12)]
    edges = np.linspace(0, 800, 41).tolist()
    bins = [dict(low=b, high=2 * b or 32, n=1234, accuracy=0.9, accuracy_ci95=[0.85, 0.93]) for b in (0, 32, 64, 128, 256, 512)]
    bins += [dict(low=1024, high=None, n=3, accuracy=0.0, accuracy_ci95=[0.0, 0.56]), dict(low=2048, high=None, n=0, accuracy=0.0, accuracy_ci95=[0, 1])]
    jobs = {
        "learning": lambda f: plots.learning_curves(f, history, 3),
        "lengths": lambda f: plots.length_histogram(f, {"edges": edges, "counts": [100] * 40}, 256),
        "lengths of short texts": lambda f: plots.length_histogram(f, {"edges": edges, "counts": [100] * 40}, 4096),
        "reliability": lambda f: plots.reliability(f, metrics.reliability(probs.max(1), right), 0.1),
        "confidence": lambda f: plots.confidence(f, probs.max(1), right),
        "confidence, never wrong": lambda f: plots.confidence(f, probs.max(1), np.ones(500, bool)),
        "errors by length": lambda f: plots.length_errors(f, bins),
        "coverage": lambda f: plots.coverage(f, metrics.coverage_curve(probs.max(1), right)),
        "size": lambda f: plots.learning_by_size(f, {"nb": [(20, 0.5), (40, 0.6), (80, 0.7)], "runs/one": [(80, 0.9)]}),
    }
    for name, draw in jobs.items():
        draw(tmp_path / f"{name}.png")
        assert is_png(tmp_path / f"{name}.png"), name
        for boxes in drawn["x"] + drawn["y"]:
            assert none_overlap(boxes), name
        if name in ("lengths", "reliability", "confidence"):  # the legend hides no bar
            assert not any(drawn["legends"][0].overlaps(bar) for bar in drawn["bars"][0] if bar.height > 0), name


def test_one_epoch_and_one_bin_are_pictures_too(tmp_path):
    plots.learning_curves(tmp_path / "a.png", [dict(epoch=1.0, train_loss=1.0, val_loss=0.5, val_accuracy=0.8, val_macro_f1=0.79)], 1)
    plots.reliability(tmp_path / "b.png", metrics.reliability([0.9], [1]), 0.1)
    assert is_png(tmp_path / "a.png") and is_png(tmp_path / "b.png")


def test_colours_differ_in_lightness():
    """Told apart in greyscale, so by any eye: the two colours of every pair differ in luminance."""
    luminance = lambda c: float(np.dot([int(c[i:i + 2], 16) / 255 for i in (1, 3, 5)], [0.2126, 0.7152, 0.0722]))
    assert abs(luminance(plots.BLUE) - luminance(plots.ORANGE)) > 0.05


def test_matplotlib_is_imported_only_when_something_is_drawn():
    code = "import sys, minibert.plots, minibert.report; assert 'matplotlib' not in sys.modules and 'sklearn' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
