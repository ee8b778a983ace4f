"""The report in words: figures (the `test` block of metrics.json) → report.md and the short of it for the terminal.

Nothing is computed here and no data is read: every number comes from the figures, so a report can be written again.
"""

from __future__ import annotations

import html
import math
import re
import shlex
from pathlib import Path
from typing import Any, Sequence

from . import metrics, plots
from .plots import shortened

FLOORS = {"majority": "majority class", "tfidf": "TF-IDF + logistic regression", "nb": "naive-Bayes-weighted logistic regression"}
FULL_TABLE = 12  # classes up to which a confusion matrix is also written as a table of numbers
BEGIN, END = "<!-- done: begin -->", "<!-- done: end -->"


def escape(text: str) -> str:
    """A user's text inside Markdown: neither HTML nor emphasis nor a new table cell begins in it."""
    return re.sub(r"([\\`*_\[\]#|~])", r"\\\1", html.escape(" ".join(str(text).split()), quote=False))


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; the cells are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def interval(low_high: Sequence[float]) -> str:
    return f"{low_high[0]:.4f} to {low_high[1]:.4f}"


def p_value(p: float) -> str:
    return "p ≤ 0.001" if p <= 0.001 else f"p = {p:.3f}"  # 0.001 is the least that 1,000 resamples can show


# ── statements ───────────────────────────────────────────────────────────────────────────────────────────────────

def looks_sentence(figures: dict[str, Any]) -> str:
    """What the ledger says about these rows."""
    looks = figures["looks"]
    if figures["source"] == "val":
        return ("validation: the best epoch, the temperature and any threshold were chosen on these rows, so the figures "
                "are optimistic")
    if looks is None:
        return "looks unknown: the ledger cannot be written, so nobody can say how often this test set was looked at"
    if looks == 1:
        return "look 1 of this test set"
    return f"look {looks} of this test set: the figure is optimistic by an unknown amount"


def warnings_of(figures: dict[str, Any]) -> list[str]:
    """What a reader must not overlook, one sentence each."""
    out = []
    if figures["never_predicted"]:
        out.append(f"never predicted: {_some(figures['never_predicted'])}; accuracy hides that, recall is 0. Try --class-weights "
                   "balanced, more epochs, or more rows of it")
    if figures["absent"]:
        out.append(f"{len(figures['absent'])} of {len(figures['labels'])} classes have no row here "
                   f"({', '.join(map(shortened, figures['absent'][:5]))}{', …' if len(figures['absent']) > 5 else ''}): nothing is "
                   "known about them")
    if figures.get("stuck"):
        out.append(figures["stuck"])
    seeds = figures.get("seeds", {"runs": {}})
    for name, run in seeds["runs"].items():  # a seed that failed is seldom the best, which is the one reported here
        if name != seeds["best"] and run.get("never_predicted"):
            out.append(f"{name} never predicts {_some(run['never_predicted'])}: with some random numbers this recipe fails; try a lower "
                       "--lr or more --epochs")
        if name != seeds["best"] and run.get("stuck"):
            out.append(run["stuck"])
    if figures["n"] < 200:
        out.append(f"only {figures['n']} rows: read the intervals, not the figures")
    best = max(("tfidf", "nb"), key=lambda name: figures["baselines"].get(name, {}).get("macro_f1", -1.0))
    floor = figures["baselines"].get(best)
    if floor and floor["macro_f1"] >= figures["macro_f1"]:
        out.append(f"the floor is not beaten: {FLOORS[best]} reaches macro-F1 {floor['macro_f1']:.4f}")
    return out


def _some(names: list[str], most: int = 5) -> str:
    return ", ".join(f"'{shortened(n)}'" for n in names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def against_sentence(figures: dict[str, Any], floor: str) -> str:
    """The model minus one floor, on the same rows."""
    return difference_sentence(figures["against"][floor])


def difference_sentence(d: dict[str, Any]) -> str:
    a, f, m = d["accuracy"], d["macro_f1"], d["mcnemar"]
    return (f"accuracy {a['difference']:+.4f} (95 % {a['ci95'][0]:+.4f} to {a['ci95'][1]:+.4f}), macro-F1 "
            f"{f['difference']:+.4f} ({f['ci95'][0]:+.4f} to {f['ci95'][1]:+.4f}, {p_value(f['p'])}); right alone on "
            f"{m['only_a']:,} rows against {m['only_b']:,} (McNemar {p_value(m['p'])})")


# ── the terminal ─────────────────────────────────────────────────────────────────────────────────────────────────

def lines(folder: Path, figures: dict[str, Any]) -> list[str]:
    """The short of it."""
    labels = figures["labels"]
    out = [f"{figures['source']:<11} {figures['n']:,} rows of {figures['data']}; {looks_sentence(figures)}",
           f"{'accuracy':<11} {figures['accuracy']:.4f}  (95 % {interval(figures['accuracy_ci95'])})"
           + ("  of the whole label set" if figures.get("multi_label") else ""),
           f"{'macro-F1':<11} {figures['macro_f1']:.4f}  (95 % {interval(figures['macro_f1_ci95'])})"]
    if figures.get("multi_label"):
        out.append(f"{'micro-F1':<11} {figures['micro_f1']:.4f}")
    out += [f"floor       {name:<9} accuracy {f['accuracy']:.4f}  macro-F1 {f['macro_f1']:.4f}"
            for name, f in figures["baselines"].items()]
    if figures["against"]:
        out.append(f"against nb  {against_sentence(figures, 'nb')}")
    if figures.get("no_floors"):
        out.append(f"no floors   {figures['no_floors']}")
    shared = figures.get("without_shared")
    if shared and shared["shared"]:
        out.append(f"unshared    without the {shared['shared']:,} rows whose text stands in training, too: "
                   f"accuracy {shared['accuracy']:.4f}  macro-F1 {shared['macro_f1']:.4f}")
    out += _class_lines(figures)
    if not figures.get("multi_label") and len(labels) <= 6:
        out += _confusion_lines(figures)
    out.append(f"calibration ECE {figures['ece']:.4f} at temperature {figures['calibration']['temperature']:.3f} "
               f"(at temperature 1: {figures['calibration']['ece_raw']:.4f})")
    if "seeds" in figures:
        out += seed_lines(figures["seeds"])
    if "compare" in figures:
        out.append(f"compare     minus {figures['compare']['with']}: {difference_sentence(figures['compare'])}")
    if "slices" in figures:
        out += _slice_lines(figures["slices"])
    if "drift" in figures:
        out += [f"drift       {line}" for line in figures["drift"]["findings"]]
    out += [f"WARNING     {w}" for w in warnings_of(figures)]
    return out


def _class_lines(figures: dict[str, Any]) -> list[str]:
    classes = figures["per_class"]
    present = sorted((n for n in classes if classes[n]["support"]), key=lambda name: classes[name]["recall"])
    shown = present[:10] if len(classes) > 20 else list(classes)
    width = min(28, max(map(len, shown)))
    rows = [f"  {shortened(name):<{width}}  {c['precision']:9.4f} {_recall(c):>9} {c['f1']:9.4f} {c['support']:9,}"
            for name, c in ((n, classes[n]) for n in shown)]
    head = f"  {'':<{width}}  precision    recall        f1   support"
    return ([f"  the 10 of {len(classes)} classes with the lowest recall"] if len(classes) > 20 else []) + [head] + rows


def _recall(of_class: dict[str, Any]) -> str:
    """The recall in digits, or a dash: where no row is of the class there was nothing to find (metrics.json has 0)."""
    return f"{of_class['recall']:.4f}" if of_class["support"] else "–"


def _confusion_lines(figures: dict[str, Any]) -> list[str]:
    names = [shortened(n, 12) for n in figures["labels"]]
    return ["  row = truth, column = prediction", "  " + " " * 13 + " ".join(f"{n:>12}" for n in names)] + [
        f"  {n:<12} " + " ".join(f"{v:>12,}" for v in row) for n, row in zip(names, figures["confusion_matrix"])]


def seed_lines(seeds: dict[str, Any]) -> list[str]:
    return [f"{len(seeds['runs'])} seeds     {words} mean {s['mean']:.4f}, spread (standard deviation) {s['spread']:.4f}, "
            f"worst {s['worst']:.4f} ({s['worst_run']})"
            for words, s in (("accuracy", seeds["accuracy"]), ("macro-F1", seeds["macro_f1"]))]


def _slice_lines(slices: dict[str, Any]) -> list[str]:
    out = [f"slices      by {slices['column']}"]
    for value, s in slices["values"].items():
        floor = "".join(f"  {name} {f['macro_f1']:.4f}" for name, f in s["baselines"].items() if name != "majority")
        out.append(f"  {shortened(value or '(empty)', 24):<24} {s['n']:7,}  accuracy {s['accuracy']:.4f}  macro-F1 {s['macro_f1']:.4f}{floor}")
    return out


# ── report.md ────────────────────────────────────────────────────────────────────────────────────────────────────

def markdown(folder: Path, info: dict[str, Any], figures: dict[str, Any], pictures: dict[str, str],
             appendix: Sequence[str]) -> str:
    """The whole report. `pictures`: name → file beside it; `appendix`: sections of other rooms (errors, behaviour)."""
    picture = lambda name, words: f"![{words}]({pictures[name]})" if name in pictures else ""
    sections = [
        f"# {escape(info['model'])} on {escape(figures['data'])}: " + {"test": "the test rows", "val": "the validation rows"}.get(
            figures["source"], f"a file scored after training on {escape(info['data']['name'])}"),
        done_section(folder, info, figures),
        _number_section(figures),
        _arithmetic_section(figures),
        _class_section(figures),
        picture("confusion_matrix", "confusion matrix, row = truth, column = prediction"),
        _seeds_section(figures),
        _sure_section(figures),
        _compare_section(figures),
        _calibration_section(figures), picture("reliability", "reliability diagram"),
        picture("confidence", "confidence of right and wrong predictions"),
        _threshold_section(figures), picture("precision_recall", "precision-recall curve"),
        _coverage_section(figures), picture("coverage", "accuracy by coverage"),
        _slices_section(figures),
        _drift_section(figures),
        _training_section(info, figures), picture("learning_curves", "learning curves"),
        picture("length_histogram", "token lengths of the training texts"),
        *appendix,
    ]
    return "\n\n".join(s.rstrip() for s in sections if s) + "\n"


def _number_section(figures: dict[str, Any]) -> str:
    m = lambda f: f"{f['accuracy']:.4f} ({interval(f['accuracy_ci95'])}) | {f['macro_f1']:.4f} ({interval(f['macro_f1_ci95'])})"
    rows = [["**this model**", m(figures)]]
    rows += [[FLOORS[name] + (f" ({f['note']})" if "note" in f else ""), m(f)] for name, f in figures["baselines"].items()]
    text = [f"## The number\n\n{figures['n']:,} rows; **{looks_sentence(figures)}**.",
            table(["", "accuracy (95 % interval)", "macro-F1 (95 % interval)"], rows)]
    if figures.get("no_floors"):
        text.append(f"No floors: {escape(figures['no_floors'])}")
    if figures.get("multi_label"):
        text.append(f"Accuracy counts a row as right only if its whole label set is (subset accuracy). Micro-F1 "
                    f"{figures['micro_f1']:.4f}; wrong decisions per label and row (Hamming loss) {figures['hamming_loss']:.4f}. "
                    "The floors decide at 0.5, the model at its tuned thresholds.")
    shared = figures.get("without_shared")
    if shared:
        text.append(f"{shared['shared']:,} of these rows have a text that stands in training or validation, too. They stay, "
                    f"so that the figure can be compared with others'; without them: accuracy {shared['accuracy']:.4f}, "
                    f"macro-F1 {shared['macro_f1']:.4f} on {shared['n']:,} rows." if shared["shared"] else
                    "No text of these rows stands in training or validation.")
    text += [f"> **Warning:** {escape(w)}." for w in warnings_of(figures)]
    return "\n\n".join(text)


def _arithmetic_section(figures: dict[str, Any]) -> str:
    """Every formula once, on this run's own counts."""
    labels, classes, n = figures["labels"], figures["per_class"], figures["n"]
    multi = figures.get("multi_label")
    hits, _, called = metrics.class_counts(figures)
    chosen = sorted(range(len(labels)), key=lambda i: -classes[labels[i]]["support"])[:3 if len(labels) > 4 else 4]
    out = []
    if not multi:
        diagonal = hits.tolist()
        terms = " + ".join(map(str, diagonal)) if len(labels) <= 8 else f"{diagonal[0]} + {diagonal[1]} + … + {diagonal[-1]}"
        out += ["accuracy   = right / all rows", f"           = ({terms}) / {n} = {figures['accuracy']:.4f}", ""]
    for i in sorted(chosen):
        name, c = labels[i], classes[labels[i]]
        out += [f"{name}",
                f"  precision = right among those called so = {hits[i]} / {called[i]} = {c['precision']:.4f}" if called[i] else
                "  precision = 0 by convention: it is never called",
                f"  recall    = found among those that are so = {hits[i]} / {c['support']} = {c['recall']:.4f}" if c["support"] else
                "  recall    = 0 by convention: no row here is so",
                f"  F1        = 2 · {hits[i]} / ({c['support']} + {called[i]}) = {c['f1']:.4f}" if c["support"] + called[i] else
                "  F1        = not defined, and left out of the mean"]
    if len(labels) > len(chosen):
        out.append(f"… and so on for the other {len(labels) - len(chosen)}")
    counted = [name for i, name in enumerate(labels) if classes[name]["support"] + called[i]]
    f1s = [f"{classes[name]['f1']:.4f}" for name in counted]
    terms = " + ".join(f1s if len(f1s) <= 6 else [*f1s[:3], "…", f1s[-1]])
    out += ["", "macro-F1   = mean of the F1s, every class alike", f"           = ({terms}) / {len(counted)} = {figures['macro_f1']:.4f}"]
    return ("## The arithmetic, on this run's own counts\n\nRow = truth, column = prediction; a class's recall is read along its "
            "row, its precision down its column.\n\n```text\n" + "\n".join(out).replace("```", "'''") + "\n```")


def _class_section(figures: dict[str, Any]) -> str:
    classes, labels = figures["per_class"], figures["labels"]
    rows = [[escape(n), f"{c['precision']:.4f}", _recall(c) + (f" ({interval(c['recall_ci95'])})" if c["support"] else ""), f"{c['f1']:.4f}",
             f"{c['support']:,}"] + ([f"{figures['thresholds'][n]:.3f}"] if figures.get("multi_label") else [])
            for n, c in classes.items()]
    header = ["class", "precision", "recall (95 % interval)", "F1", "rows"] + (["threshold"] if figures.get("multi_label") else [])
    text = ["## Class by class", table(header, rows)]
    if figures.get("multi_label"):
        rows = [[escape(n), *map(str, (m[1][1], m[1][0], m[0][1], m[0][0]))] for n, m in zip(labels, figures["confusion_matrix"])]
        text.append(table(["label", "there and found", "there, missed", "called, not there", "neither"], rows))
    elif len(labels) <= FULL_TABLE:
        rows = [[f"**{escape(n)}**", *(f"{v:,}" for v in row)] for n, row in zip(labels, figures["confusion_matrix"])]
        text.append(table(["truth ↓ prediction →", *map(escape, labels)], rows))
    if len(labels) > plots.MOST_LABELS:
        text.append("A matrix of so many classes cannot be read as a picture; its numbers are in metrics.json, "
                    + ("as `confusion_matrix`." if "confusion_matrix" in figures else
                       "as `confusion_cells`: [truth, prediction, rows] of every pair that occurs, by place in `labels`."))
    return "\n\n".join(text)


def _seeds_section(figures: dict[str, Any]) -> str:
    seeds = figures.get("seeds")
    if not seeds:
        return ""
    rows = [[escape(name), f"{r['accuracy']:.4f}", f"{r['macro_f1']:.4f}", "**reported here**: best on validation" if
             name == seeds["best"] else ""] for name, r in seeds["runs"].items()]
    rows += [[what, f"{seeds['accuracy'][key]:.4f}", f"{seeds['macro_f1'][key]:.4f}", ""]
             for what, key in (("mean", "mean"), ("standard deviation", "spread"), ("worst", "worst"))]
    return ("## Over the seeds\n\nThe same recipe from other random numbers: the spread is what a single run cannot show.\n\n"
            + table(["run", "accuracy", "macro-F1", ""], rows))


def _sure_section(figures: dict[str, Any]) -> str:
    if not figures["against"]:
        return ""
    items = [f"- minus {FLOORS[name]}: {against_sentence(figures, name)}" for name in figures["against"]]
    return ("## How sure\n\nIntervals are 95 % bootstrap intervals of these rows (1,000 resamples): another sample of as many rows "
            "would move the figures so far. They do not hold the luck of the training seed.\n\nThis model minus a floor, on the "
            "same rows (paired bootstrap; McNemar's exact test on the rows where exactly one is right):\n\n" + "\n".join(items))


def _compare_section(figures: dict[str, Any]) -> str:
    c = figures.get("compare")
    if not c:
        return ""
    note = f"\n\n> **Warning:** {escape(c['note'])}." if c.get("note") else ""
    return (f"## Compared with {escape(c['with'])}\n\nThe other run on the same rows: accuracy {c['figures']['accuracy']:.4f}, "
            f"macro-F1 {c['figures']['macro_f1']:.4f}. This model minus it: {difference_sentence(c)}.{note}")


def _calibration_section(figures: dict[str, Any]) -> str:
    c = figures["calibration"]
    return (f"## Calibration\n\nIs a confidence of 0.9 right nine times in ten? Expected calibration error: **{figures['ece']:.4f}** "
            f"(0 is perfect; Σ over 15 bins of n_bin/n · |accuracy − confidence|). Temperature {c['temperature']:.3f}, fitted on "
            f"validation, divides the logits; without it the error would be {c['ece_raw']:.4f} here"
            + (f" and the log loss {c['log_loss_raw']:.4f} instead of {c['log_loss']:.4f}" if "log_loss" in c else "")
            + ". A temperature moves confidences only, never which class comes first.")


def _threshold_section(figures: dict[str, Any]) -> str:
    t = figures.get("decision")
    if not t:
        return ""
    tuned = (f"This run calls a row **{escape(t['label'])}** from p ≥ {t['threshold']:.3f}, chosen on validation for macro-F1. "
             if t["tuned"] else "This run decides at 0.5; `train.py --tune-threshold` chooses the cut on validation instead. ")
    rows = [[name, f"{r['threshold']:.3f}", f"{r['precision']:.4f}", f"{r['recall']:.4f}", f"{r['macro_f1']:.4f}", f"{r['accuracy']:.4f}"]
            for name, r in t["at"].items()]
    return (f"## Decision threshold\n\n{tuned}Average precision of {escape(t['label'])}: {t['average_precision']:.4f} (its share of "
            f"the rows, which is what chance would reach, is {t['share']:.4f}).\n\n"
            + table(["cut", "p from", "precision", "recall", "macro-F1", "accuracy"], rows))


def _coverage_section(figures: dict[str, Any]) -> str:
    rows = [[f"{r['coverage']:.0%}", f"{r['n']:,}", f"{r['accuracy']:.4f}", f"{r['threshold']:.4f}"] for r in figures["coverage"]]
    return ("## Leaving the doubtful rows to a person\n\nAccuracy on the most confident share, when the rest is read by someone.\n\n"
            + table(["decided by the model", "rows", "accuracy", "confidence from"], rows))


def _slices_section(figures: dict[str, Any]) -> str:
    s = figures.get("slices")
    if not s:
        return ""
    floors = [name for name in figures["baselines"] if name != "majority"]
    rows = [[escape(value or "(empty)"), f"{v['n']:,}", f"{v['accuracy']:.4f} ({interval(v['accuracy_ci95'])})", f"{v['macro_f1']:.4f}",
             f"{v['ece']:.4f}", *(f"{v['baselines'][name]['macro_f1']:.4f}" for name in floors)] for value, v in s["values"].items()]
    left = f"\n\n{s['left_out']:,} rarer values are left out." if s["left_out"] else ""
    return (f"## By {escape(s['column'])}\n\n" + table(["value", "rows", "accuracy (95 % interval)", "macro-F1", "ECE",
                                                   *(f"macro-F1 of {name}" for name in floors)], rows) + left)


def _drift_section(figures: dict[str, Any]) -> str:
    d = figures.get("drift")
    if not d:
        return ""
    rows = [[escape(name), a, b] for name, a, b in d["rows"]]
    return ("## Drift: these rows beside the training rows\n\n" + table(["", "training", "these rows"], rows) + "\n\n"
            + "\n".join(f"- {escape(line)}" for line in d["findings"]))


def _training_section(info: dict[str, Any], figures: dict[str, Any]) -> str:
    flags = info["flags"]
    corrected = ""
    if flags.get("corrections"):
        corrected = (f" Labels of training and validation were corrected from `{flags['corrections']}`; `--compare` with the run "
                     "before shows what that changed.")
    return (f"## Training\n\n{info['data']['n']['train']:,} rows, {flags['epochs']} epochs, effective batch {info['effective_batch']}, rate "
            f"{flags['lr']:g}, {info['seconds']:.0f} s on {escape(info['device'])} ({escape(info['precision'])}); kept epoch "
            f"{info['best_epoch']}.{corrected}")


# ── the definition of done ───────────────────────────────────────────────────────────────────────────────────────

def done_section(folder: Path, info: dict[str, Any], figures: dict[str, Any]) -> str:
    """The living table: done or not yet, with the evidence, or the command that would do it."""
    rows = [[step, "done" if state else "**not yet**", evidence] for step, state, evidence in done_rows(folder, info, figures)]
    return f"{BEGIN}\n## Done?\n\n{table(['step', '', 'evidence, or what would do it'], rows)}\n\n{END}"


def replace_done_section(report: str, section: str) -> str:
    """A report with its living table brought up to date."""
    head, rest = report.split(BEGIN, 1)
    return head + section + rest.split(END, 1)[1]


def done_rows(folder: Path, info: dict[str, Any], figures: dict[str, Any]) -> list[tuple[str, bool, str]]:
    """(step, done?, evidence or command) of the whole definition of done."""
    flags, lengths, wiring = info["flags"], info["data"]["lengths"], info.get("wiring")
    replay = f"python train.py --config {figures['run_json']}"
    seeds = len(figures.get("seeds", {}).get("runs", {})) or 1
    looks, read_by = figures["looks"], figures.get("read_by")
    recipe = flags["warmup_ratio"] > 0 and flags["max_grad_norm"] > 0
    alone = figures["batch_difference"]
    which = {"val": " --split val", "file": f" --data {shlex.quote(figures['data'])}"}.get(figures["source"], "")
    return [
        ("data looked at", bool(info.get("looked_at_by")),
         f"twenty examples read by {escape(info['looked_at_by'])}" if info.get("looked_at_by") else
         f"train.py prints twenty examples: read them, then `{replay} --out {folder} --overwrite --looked-at-by NAME`"),
        ("length measured", bool(lengths),
         f"tokens: median {lengths['p50']:,}, 95 % {lengths['p95']:,}, 99 % {lengths['p99']:,}; max_len {info['max_len']} "
         f"({escape(info['truncate'])})" if lengths else f"`{replay}`"),
        ("wiring checked", bool(wiring and wiring.get("ok", True)),
         f"{wiring['n']} texts driven to a loss of {wiring['loss']:.4f}" if wiring else
         f"`{replay} --out {folder} --overfit 100`"),
        ("warmup, clipping, best checkpoint", recipe,
         f"warmup {flags['warmup_ratio']:g} of the steps, gradient norm at most {flags['max_grad_norm']:g}, epoch "
         f"{info['best_epoch']} of {flags['epochs']} kept" if recipe else f"`{replay} --warmup-ratio 0.1 --max-grad-norm 1`"),
        ("macro-F1 and recall reported", True, f"macro-F1 {figures['macro_f1']:.4f}, lowest recall "
         f"{min((c['recall'] for c in figures['per_class'].values() if c['support']), default=math.nan):.4f}"),
        ("test used once", figures["source"] != "val" and looks == 1,
         f"`python evaluate.py {folder}`" if figures["source"] == "val" else looks_sentence(figures)),
        ("three seeds", seeds >= 3, f"{seeds} seeds: macro-F1 {figures['seeds']['macro_f1']['mean']:.4f} ± "
         f"{figures['seeds']['macro_f1']['spread']:.4f}" if seeds > 1 else
         f"`{replay} --seeds 42 43 44 --out {folder}-seeds`"),
        ("errors read", bool(read_by), f"the most confident mistakes were read by {escape(read_by)}" if read_by else
         f"read the mistakes below, then `python evaluate.py {folder}{which} --read-by NAME`"),
        ("batched, capped serving", alone is not None and alone < 1e-4,
         (f"alone and in a batch the probabilities of {figures['batch_tried']} texts differ by at most {alone:.1e}; " if alone is not None else "")
         + f"`python serve.py {folder}` batches under caps"),
    ]


# ── --table ──────────────────────────────────────────────────────────────────────────────────────────────────────

# The reference figures on IMDB that this project is measured by: system, accuracy, parameters, time beside BERT-base.
REFERENCE = [("TF-IDF + logistic regression", "~0.88", "–", "–"), ("DistilBERT-base, 2 epochs", "~0.92", "66 M", "half BERT's"),
             ("BERT-base, 3 epochs", "~0.93", "110 M", "–"), ("RoBERTa-base, 3 epochs", "~0.95", "125 M", "–")]


def comparison_table(runs: list[tuple[str, dict[str, Any], dict[str, Any] | None]]) -> str:
    """Markdown: a row per run (folder, run.json, the `test` block or None), its floors, the reference figures."""
    slowest = max(info["seconds"] for _, info, _ in runs) or 1.0
    rows, floors = [], []
    for folder, info, test in runs:
        name = f"{escape(info['model'])} ({escape(folder)})"
        size = f"{(info['parameters']['encoder'] + info['parameters']['head']) / 1e6:,.1f} M"
        time = f"{info['seconds'] / slowest:.2f}"
        if test is None:
            rows.append([name, f"not yet: `python evaluate.py {folder}`", "", size, time])
            continue
        rows.append([name, _mean_or_value(test, "accuracy"), _mean_or_value(test, "macro_f1"), size, time])
        for floor in ("tfidf", "nb"):
            if floor in test["baselines"]:
                f = test["baselines"][floor]
                row = [f"{FLOORS[floor]}, {info['data']['n']['train']:,} rows of {escape(info['data']['name'])}",
                       f"{f['accuracy']:.4f}", f"{f['macro_f1']:.4f}", "–", "–"]
                floors += [row] if row not in floors else []
    reference = [[f"*reference (IMDB): {name}*", accuracy, "–", size, time] for name, accuracy, size, time in REFERENCE]
    notes = ["A run's time is relative to the slowest run here" + (
        "; the runs used different devices, so it says little." if len({info["device"] for _, info, _ in runs}) > 1 else ".")]
    if any(info["data"]["name"] != "imdb" for _, info, _ in runs):
        notes.append("The reference figures are of IMDB; a run on other data cannot be compared with them.")
    if len({info["data"]["fingerprint"]["test"] for _, info, _ in runs}) > 1:
        notes.append("The runs were tested on different rows: their figures cannot be compared.")
    return table(["model", "test accuracy", "macro-F1", "parameters", "training time"], rows + floors + reference) + "\n\n" + " ".join(notes)


def _mean_or_value(test: dict[str, Any], name: str) -> str:
    if "seeds" in test:
        s = test["seeds"][name]
        return f"{s['mean']:.4f} ± {s['spread']:.4f} ({len(test['seeds']['runs'])} seeds)"
    return f"{test[name]:.4f}"


# ── what --inspect and --learning-curve add to the same report ───────────────────────────────────────────────────

def with_section(text: str, title: str, body: str) -> str:
    """A report (or an empty one) with this section in place of the one of the same title."""
    begin, end = _marks(title)
    head, found, rest = text.partition(begin)
    tail = rest.partition(end)[2] if found else ""
    return f"{head.rstrip()}\n\n{begin}\n## {title}\n\n{body.strip()}\n{end}\n{tail.lstrip()}".lstrip()


def keep_sections(path: Path, text: str) -> str:
    """A new report with the sections that were added to the one at `path`."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    for begin in re.findall(r"<!-- added: .* -->", before):
        end = begin.replace("added:", "end of:")
        text += f"\n{begin}{before.partition(begin)[2].partition(end)[0]}{end}\n"
    return text


def _marks(title: str) -> tuple[str, str]:
    return f"<!-- added: {title} -->", f"<!-- end of: {title} -->"
