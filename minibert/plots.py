"""Every picture of a report, as PNG files. Colours are Okabe & Ito's (2008), told apart with any colour vision; what a
colour says is also said by a hatch, a line style or a marker."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any, Iterator, Sequence

import numpy as np

from .files import write_atomic

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
NUMBERS_UP_TO = 20  # classes; beyond, numbers inside the cells of a confusion matrix could not be read
MOST_LABELS = 200  # in a picture of a matrix: beyond, neither names nor cells could be told apart


@contextlib.contextmanager
def _figure(path: str | os.PathLike, rows: int = 1, columns: int = 1, size: tuple[float, float] = (6.0, 4.0),
            **options: Any) -> Iterator[tuple[Any, Any]]:
    """(figure, axes) to draw on; saved to `path` when the block ends. Imports matplotlib only now: it takes a second."""
    import matplotlib
    matplotlib.use("Agg")  # draws into files, needs no screen
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", **options)
    try:
        yield figure, axes
        for axis in figure.axes:
            axis.spines[["top", "right"]].set_visible(False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # a script the font lacks shows as boxes
            write_atomic(path, lambda temp: figure.savefig(temp, format="png", dpi=120, bbox_inches="tight"))
    finally:
        plt.close(figure)


ABOVE = dict(loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False, fontsize=8)  # a legend that can cover no bar


def shortened(name: str, most: int = 28) -> str:
    """A label on one line, its middle left out if it is long: names of one kind differ at their ends."""
    name = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return name if len(name) <= most else name[:most - 9] + "…" + name[-8:]


def short_name(name: str, most: int = 28) -> str:
    """A label as it is drawn: shortened, and `$` not read as the start of a formula."""
    return shortened(name, most).replace("$", r"\$")


def short_names(labels: Sequence[str]) -> list[str]:
    """`short_name` of each; those that look alike once shortened are numbered by their place."""
    names = [short_name(label) for label in labels]
    return [f"{i}: {name}" if names.count(name) > 1 else name for i, name in enumerate(names, 1)]


def confusion_matrix(path: str | os.PathLike, cm: Sequence[Sequence[int]], labels: Sequence[str]) -> None:
    """Counts, row = truth, column = prediction; the colour is the share of the row, so small classes show too."""
    cm = np.asarray(cm)
    k = len(labels)
    share = cm / np.maximum(cm.sum(1, keepdims=True), 1)
    names = short_names(labels)
    font = 10 if k <= 6 else 8 if k <= NUMBERS_UP_TO else 6
    cell = max(0.19, 0.62 if k <= NUMBERS_UP_TO else 0, 1.1 if k <= 4 else 0)
    margin = 1.2 + 0.011 * font * max(map(len, names))
    with _figure(path, size=(k * cell + margin + 0.9, k * cell + margin)) as (figure, axis):
        image = axis.imshow(share, cmap="Blues", vmin=0, vmax=1)
        axis.set_xticks(range(k), names, rotation=0 if k <= 4 and max(map(len, names)) <= 9 else 90, fontsize=font)
        axis.set_yticks(range(k), names, fontsize=font)
        axis.set_xlabel("prediction (columns)")
        axis.set_ylabel("truth (rows)")
        if k <= NUMBERS_UP_TO:
            for t, p in np.ndindex(k, k):
                axis.text(p, t, f"{cm[t, p]:,}", ha="center", va="center", fontsize=font,
                          color="white" if share[t, p] > 0.55 else "black")
        figure.colorbar(image, label="share of the row (the diagonal is recall)", shrink=0.8, aspect=30)


def label_matrices(path: str | os.PathLike, matrices: Sequence[Sequence[Sequence[int]]], labels: Sequence[str]) -> None:
    """Several labels per row: for each label how many of its rows were found, missed, and called without being there."""
    m = np.asarray(matrices)
    names = short_names(labels)
    at = np.arange(len(names))
    with _figure(path, size=(7.5, 1.5 + 0.34 * len(names))) as (_, axis):
        axis.barh(at, m[:, 1, 1], color=BLUE, label="there and found")
        axis.barh(at, m[:, 1, 0], left=m[:, 1, 1], color="white", edgecolor=BLUE, hatch="//", label="there but missed")
        axis.barh(at, -m[:, 0, 1], color=ORANGE, label="called but not there")
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_yticks(at, names, fontsize=8)
        axis.invert_yaxis()
        axis.set_xlabel("rows")
        axis.xaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1 + 0.9 / (1.5 + 0.34 * len(names))), ncols=3, fontsize=8,
                    frameon=False)


def learning_curves(path: str | os.PathLike, history: list[dict[str, float]], best_epoch: int) -> None:
    """Losses on the left, validation figures on the right, by epoch; the kept epoch is marked."""
    epochs = [row["epoch"] for row in history]
    with _figure(path, 1, 2, size=(9, 3.6)) as (_, (left, right)):
        for axis, names, title in ((left, ("train_loss", "val_loss"), "loss"),
                                   (right, ("val_accuracy", "val_macro_f1"), "validation")):
            for name, colour, style in zip(names, (BLUE, ORANGE), ("o-", "s--")):
                axis.plot(epochs, [row[name] for row in history], style, color=colour, label=name)
            axis.axvline(best_epoch, color=GREY, linestyle=":", label=f"kept: epoch {best_epoch}")
            axis.set_xlabel("epoch")
            axis.set_title(title)
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.legend(fontsize=8)


def length_histogram(path: str | os.PathLike, histogram: dict[str, list], max_len: int) -> None:
    """Tokens per training text and where `max_len` cuts. The last bar holds everything longer."""
    edges, counts = np.asarray(histogram["edges"], dtype=float), np.asarray(histogram["counts"])
    with _figure(path) as (_, axis):
        axis.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=BLUE, edgecolor="white", linewidth=0.4)
        if max_len <= edges[-1]:
            axis.axvline(max_len, color=ORANGE, linestyle="--", label=f"max_len {max_len}")
        else:
            axis.plot([], [], color=ORANGE, linestyle="--", label=f"max_len {max_len} (beyond the right edge)")
        axis.set_xlabel("tokens per training text (last bar: and longer)")
        axis.set_ylabel("texts")
        axis.legend(**ABOVE)


def reliability(path: str | os.PathLike, bins: list[dict[str, float]], ece: float) -> None:
    """Accuracy against confidence per bin, the diagonal where they agree, and below how many rows each bin holds."""
    low = np.array([b["low"] for b in bins])
    width = np.array([b["high"] - b["low"] for b in bins])
    with _figure(path, 2, 1, size=(5, 5.2), sharex=True, height_ratios=[3, 1]) as (_, (top, bottom)):
        top.bar(low, [b["accuracy"] for b in bins], width=width, align="edge", color=BLUE, edgecolor="white",
                label="share right")
        top.plot([b["confidence"] for b in bins], [b["accuracy"] for b in bins], "o", color=ORANGE, markeredgecolor="white",
                 label="at the bin's mean confidence")
        top.plot([0, 1], [0, 1], "--", color=GREY, label="perfectly calibrated")
        top.set(ylim=(0, 1.02), xlim=(0, 1), ylabel="accuracy")
        top.legend(title=f"expected calibration error {ece:.3f}", **ABOVE)
        bottom.bar(low, [b["n"] for b in bins], width=width, align="edge", color=GREY, edgecolor="white")
        bottom.set(xlabel="confidence", ylabel="rows")


def confidence(path: str | os.PathLike, confidence: np.ndarray, correct: np.ndarray) -> None:
    """How sure the model was where it was right, and where it was wrong."""
    confidence, correct = np.asarray(confidence), np.asarray(correct, dtype=bool)
    edges = np.linspace(0, 1, 21)
    with _figure(path) as (_, axis):
        for rows, colour, hatch, name in ((correct, BLUE, "", "right"), (~correct, ORANGE, "//", "wrong")):
            if rows.any():
                axis.hist(confidence[rows], edges, weights=np.full(rows.sum(), 1 / rows.sum()), color=colour, alpha=0.55,
                          hatch=hatch, edgecolor=colour, label=f"{name} ({int(rows.sum()):,} rows)")
        axis.set(xlabel="confidence", ylabel="share of the group", xlim=(0, 1))
        axis.legend(ncols=2, **ABOVE)


def length_errors(path: str | os.PathLike, bins: list[dict[str, Any]]) -> None:
    """Error rate by length in tokens, with 95 % intervals and the number of rows."""
    bins = [b for b in bins if b["n"]]
    rate = np.array([1 - b["accuracy"] for b in bins])
    low, high = np.array([[1 - b["accuracy_ci95"][1], 1 - b["accuracy_ci95"][0]] for b in bins]).T
    names = [f"{b['low']}–{b['high']}" if b["high"] else f"{b['low']}+" for b in bins]
    with _figure(path) as (_, axis):
        axis.bar(range(len(bins)), rate, color=BLUE, width=0.7)
        axis.errorbar(range(len(bins)), rate, yerr=[np.maximum(rate - low, 0), np.maximum(high - rate, 0)], fmt="none",
                      color="black", capsize=4)
        axis.set_xticks(range(len(bins)), [f"{name}\nn={b['n']:,}" for name, b in zip(names, bins)], fontsize=8)
        axis.set(xlabel="tokens in the text", ylabel="error rate", ylim=(0, None))


def precision_recall(path: str | os.PathLike, curve: dict[str, Any], label: str, points: dict[str, tuple[float, float]]
                     ) -> None:
    """Precision against recall of one class; `points`: name → (recall, precision) of thresholds to mark."""
    with _figure(path, size=(5, 4.4)) as (_, axis):
        axis.step([0, *curve["recall"]], [curve["precision"][0], *curve["precision"]], where="pre", color=BLUE,
                  label=f"average precision {curve['average_precision']:.3f}")
        for (name, (recall, precision)), colour, marker in zip(points.items(), (ORANGE, GREEN), "os"):
            axis.plot([recall], [precision], marker, color=colour, markersize=9, markeredgecolor="white", label=name)
        axis.set(xlabel=f"recall of {short_name(label)}", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))
        axis.legend(fontsize=8, loc="lower left")


def coverage(path: str | os.PathLike, curve: list[dict[str, float]]) -> None:
    """Accuracy on the most confident share of the rows, the rest left to a person."""
    with _figure(path) as (_, axis):
        axis.plot([row["coverage"] for row in curve], [row["accuracy"] for row in curve], "o-", color=BLUE)
        axis.set(xlabel="share of the rows the model decides", ylabel="accuracy on them", xlim=(0, 1.02))
        axis.invert_xaxis()


def learning_by_size(path: str | os.PathLike, curves: dict[str, list[tuple[int, float]]]) -> None:
    """Validation macro-F1 by number of training rows, a line per system (a single point where there is one run)."""
    with _figure(path) as (_, axis):
        styles = zip((BLUE, ORANGE, GREEN, GREY, "black"), ("o-", "s--", "^:", "D-.", "v-"))
        for (name, points), (colour, style) in zip(curves.items(), styles):
            axis.plot(*zip(*sorted(points)), style, color=colour, label=short_name(name, 40))
        axis.set_xscale("log")
        sizes = sorted({n for points in curves.values() for n, _ in points})
        axis.set_xticks(sizes, [f"{n:,}" for n in sizes], rotation=45, fontsize=8)
        axis.minorticks_off()
        axis.set(xlabel="training rows (log scale)", ylabel="macro-F1 on validation")
        axis.legend(fontsize=8)
