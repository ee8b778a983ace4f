"""The test set, once: a run folder → figures with their doubt, floors beside them, and the reasons for the errors.

    python evaluate.py runs/reviews-tiny                       # report.md, metrics.json, errors.csv, pictures
    python evaluate.py runs/reviews-tiny --split val           # the same on validation, as often as you like
    python evaluate.py runs/reviews-tiny --inspect "The plot was dull but the acting saved it."
    python evaluate.py --table runs/a runs/b                   # saved figures side by side, as Markdown

Read it from `main`: which of these is asked for; then `evaluate`: predict, count the look, measure, write.
"""

from __future__ import annotations

from minibert import cli

if __name__ == "__main__":
    cli.leave_at_a_signal()

import contextlib
import csv
import dataclasses
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from minibert import attention, baselines, behaviour, checkpoint, data, errors, ledger, metrics, plots, report, sources
from minibert.checkpoint import Run
from minibert.cli import UserError, flag
from minibert.data import Dataset, Split
from minibert.files import folder_lock, read_json, write_atomic, write_csv, write_json
from minibert.predictor import Predictor, best_seed, say_on_stderr

ERROR_COLUMNS = ["split", "row", "text", "truth", "predicted", "confidence", "p_truth", "suspicion", "correction"]
MOST_SLICES = 50
REPORT_BYTES = 2 << 20  # more than a report takes with its figures and pictures


@dataclass
class Flags:
    """Every flag of evaluate.py."""

    split: str = flag("test", "test (every look is counted) or val", choices=["test", "val"])
    again: bool = flag(False, "look at a test set that was looked at before; the report says how often")
    inspect: str = flag(None, "show what [CLS] attended to in this text and what the prediction rested on; no test row is read",
                        metavar="TEXT")
    inspect_pair: str = flag(None, "the second text, for a model of pairs", metavar="TEXT")
    layer: int = flag(None, "the layer that --inspect shows [default: the last]", type=int, metavar="N")
    data: str = flag(None, "score this labelled .csv, .tsv or .jsonl instead, and measure its drift from the training data",
                     metavar="FILE")
    slice_col: str = flag(None, "every figure also by the values of this column of the data", metavar="COL")
    label_errors: bool = flag(False, "also look for wrong labels among the training rows: 5 refits of a bag of words (TF-IDF + logistic "
                              "regression), because 5 of the run's own model would cost 5 trainings; it cannot read word order")
    learning_curve: bool = flag(False, "would more labels help? the floors by number of training rows, on validation")
    read_by: str = flag(None, "who read the 25 mistakes of the report (of the test set; with --split val or --data, of that one); "
                        "signs it without another look", metavar="NAME")
    table: bool = flag(False, "print the runs' saved figures as a Markdown table; no test row is read")
    compare: str = flag(None, "another run, predicted on the same rows: is the difference more than chance?", metavar="RUN2")
    device: str = flag("auto", "auto, cuda, mps or cpu", choices=["auto", "cuda", "mps", "cpu"])
    quiet: bool = flag(False, "no progress bars")


def main(argv: Sequence[str]) -> int:
    p = cli.parser(Flags, "evaluate.py", __doc__.split("\n")[0])
    p.add_argument("runs", nargs="+", metavar="RUN", help="a run folder, or one that holds several seeds (one family, one look)")
    given = cli.parse(p, argv)
    folders = [Path(r) for r in given.pop("runs")]
    flags = Flags(**given)
    if flags.inspect is None and (flags.inspect_pair is not None or flags.layer is not None):
        raise UserError("--inspect-pair and --layer go with --inspect \"a text\".")
    refuse_mixtures(given)
    # named twice, or once through a link, a run is one
    families = [Family.load(f) for f in {os.path.realpath(f): f for f in folders}.values()]
    if flags.read_by and (flags.again or not all(f.reported(flags) for f in families)):
        raise UserError("--read-by signs a report that was read: run evaluate.py without it, read the mistakes in report.md, then sign.")
    if flags.table:
        print_table(families)
        return 0
    with contextlib.ExitStack() as held:  # or the report of the old weights would go beside those of a run that overwrites them
        for family in families:
            held.enter_context(folder_lock(family.folder, "training, or evaluating"))
        if flags.inspect is not None:
            inspect(families, flags)
        elif flags.learning_curve:
            learning_curve(families, flags)
        elif flags.read_by:
            sign(families, flags)
        else:
            evaluate(families, flags)
    return 0


def refuse_mixtures(given: dict[str, Any]) -> None:
    """Raises UserError where one of the flags typed would be passed over without a word."""
    shown = lambda name: "--" + name.replace("_", "-")
    others = {"table": set(), "inspect": {"inspect_pair", "layer"}, "learning_curve": set(), "read_by": {"split", "data"}}
    for mode in others.keys() & given.keys():
        if extra := sorted(given.keys() - others[mode] - {mode, "device", "quiet"}):
            raise UserError(f"{shown(mode)} does not go with {shown(extra[0])}; ask for them one after the other.")
    if "data" in given and "split" in given:
        raise UserError("--split chooses among the rows of the run's own data; leave it out with --data.")


# ── runs and their rows ──────────────────────────────────────────────────────────────────────────────────────────

@dataclass
class Family:
    """One RUN of the command line: a single run, or the seeds of one recipe (`best`: the best on validation)."""

    folder: Path
    runs: list[Run]
    best: Run

    @classmethod
    def load(cls, folder: Path) -> Family:
        """Raises UserError where there is no finished run, or its files are not what training wrote."""
        seeds = [] if checkpoint.finished(folder) else checkpoint.seed_folders(folder)
        runs = [checkpoint.load_run(f) for f in seeds or [folder]]
        for run in runs:
            check_record(run)
            run.info["wiring"] = run.info.get("wiring") or checkpoint.read_wiring(run.folder, run.info["flags"])
        read_figures(folder)  # a damaged one is named now, before the test set is looked at
        best = best_seed(folder, say_on_stderr) if seeds else folder
        return cls(folder, runs, next(run for run in runs if run.folder == best))

    def saved(self, key: str) -> dict[str, Any] | None:
        """A block of the folder's metrics.json, None where there is none yet."""
        return read_figures(self.folder).get(key)

    def reported(self, flags: Flags) -> bool:
        """Whether the report that these flags ask for was written, to its end."""
        out, source = place(self.folder, flags)
        return "unfinished" not in read_figures(out).get(source, {"unfinished": "not begun"}) and (out / "report.md").is_file()


def read_figures(folder: Path) -> dict[str, dict]:
    """A folder's metrics.json, {} where there is none yet. Raises UserError if it holds something else."""
    path = folder / "metrics.json"
    figures = read_json(path, "figures of the run") if path.is_file() else {}
    if not isinstance(figures, dict) or not all(isinstance(block, dict) for block in figures.values()):
        raise UserError(f"{path} does not hold the figures of a run; restore it, or train again.")
    return figures


RECORD = {"labels": list, "multi_label": bool, "flags": dict, "data": dict, "max_len": int, "truncate": str, "seconds": (int, float),
          "parameters": dict, "text_col": list, "label_col": list, "best_epoch": int, "seed": int}


def check_record(run: Run) -> None:
    """Raises UserError where run.json lacks what an evaluation needs: it is another program's, or was edited."""
    for name, kind in RECORD.items():
        if not isinstance(run.info.get(name), kind):
            raise UserError(f"{run.folder / 'run.json'} has no usable '{name}': it is damaged, or not of this version; train again.")
    for name in ("fingerprint", "n", "label_counts", "lengths"):
        if not isinstance(run.info["data"].get(name), dict):
            raise UserError(f"{run.folder / 'run.json'} has no usable 'data.{name}': it is damaged, or not of this version; train again.")


@dataclass
class Bench:
    """What several runs of one call share, read or fitted once: data sets and floors."""

    flags: Flags
    datasets: dict[str, Dataset] = field(default_factory=dict)
    floors: dict[str, tuple] = field(default_factory=dict)

    def dataset(self, run: Run) -> Dataset:
        """The run's data with the splits it was trained on. Raises UserError if they changed since, or are gone."""
        mistakes = []
        for path in places_of(run, "data"):
            try:
                return self._dataset_at(path, run)
            except UserError as e:
                mistakes.append(e)
        raise mistakes[0]

    def _dataset_at(self, path: str, run: Run) -> Dataset:
        corrections = places_of(run, "corrections")[0] if run.info["flags"]["corrections"] else None
        flags = {**run.info["flags"], "data": path, "corrections": corrections}
        keys = ("data", "text_col", "label_col", "multi_label", "split_seed", "corrections", "limit")
        key = repr([flags[k] for k in keys])
        if key not in self.datasets:
            self.datasets[key] = data_of_training(flags, self.flags.quiet)
        dataset = self.datasets[key]
        for name in ("train", "val", "test"):
            split = getattr(dataset, name)
            now = None if split is None else split.fingerprint()
            if now != run.info["data"]["fingerprint"][name]:
                raise UserError(f"the {name} rows of {path} are not the ones {run.folder} was trained with: the data changed "
                                "since. Put the old file back, or score the new one with --data FILE.")
        return dataset

    def floors_on(self, train: Split, split: Split, labels: list[str], multi_label: bool) -> tuple[dict, dict]:
        """(figures, probabilities) of the three floors, refitted on the run's own training rows."""
        key = train.fingerprint() + split.fingerprint() + repr(labels)
        if key not in self.floors:
            self.floors[key] = baselines.floors(data.joined_texts(train), train.labels, data.joined_texts(split), split.labels,
                                                labels, multi_label, quiet=self.flags.quiet)
        return self.floors[key]


def places_of(run: Run, name: str) -> list[str]:
    """Where the file behind a flag of training may be: as it was typed, seen from here, and where that led to then.

    Raises UserError where it is neither here nor there.
    """
    typed = run.info["flags"][name]
    if name == "data" and typed in sources.NAMES:
        return [typed]
    then = (run.info["data"].get("paths") or {}).get(name)
    found = [path for path in dict.fromkeys((typed, then)) if path and os.path.exists(path)]
    if not found:
        raise UserError(f"{run.folder} was trained with --{name} {typed}, which is not there any more"
                        + (f" (it was {then})" if then and then != typed else "")
                        + ": put it back, or start evaluate.py in the folder where train.py was started"
                        + ("; a labelled file of its own can be scored with --data FILE." if name == "data" else "."))
    return found


def data_of_training(flags: dict[str, Any], quiet: bool) -> Dataset:
    """The data set as train.py prepared it from these flags: read, split, corrected, limited."""
    dataset = data.load_data(flags["data"], flags["text_col"], flags["label_col"], multi_label=flags["multi_label"],
                             seed=flags["split_seed"], quiet=quiet)
    if flags["corrections"]:
        data.apply_corrections(dataset, flags["corrections"])
    if flags["limit"]:
        dataset = dataclasses.replace(dataset, train=data.limited(dataset.train, flags["limit"], flags["split_seed"]))
    return dataset


# ── the look ─────────────────────────────────────────────────────────────────────────────────────────────────────

def evaluate(families: list[Family], flags: Flags) -> None:
    """Predict, count the look, measure, write: the whole report of each run."""
    bench = Bench(flags)
    jobs = [(family, *rows_to_score(family, bench)) for family in families]
    fingerprints = {split.fingerprint(): None for _, split, _ in jobs}
    if flags.split == "test" or flags.data:
        refuse_second_look(fingerprints, flags.again, [str(f.folder) for f in families])
    for family in families:  # found out now, not after the test set was looked at
        check_room(family, flags)
    for family, split, _ in jobs:  # likewise: a mistake in a flag must not cost the look
        if flags.slice_col:
            check_slice_column(split, flags.slice_col)
        if flags.compare:
            check_comparable(Family.load(Path(flags.compare)), family, flags)
    scored = [(family, split, dataset, [predict(run, split, flags, keep=run is family.best) for run in family.runs])
              for family, split, dataset in jobs]
    plain = [plain_figures(family, split, predictions, flags) for family, split, _, predictions in scored]
    said: list[str] = []
    with look_accounted_for(families, flags) as kept:
        if flags.split == "test" or flags.data:
            for fingerprint in fingerprints:
                fingerprints[fingerprint] = ledger.record(fingerprint, [*(str(f.folder) for f in families), *([flags.compare] if flags.compare else [])])
        for (family, split, _, _), figures in zip(scored, plain):
            figures["looks"] = fingerprints[split.fingerprint()]
            out, source = place(family.folder, flags)
            save_figures(out, source, {**figures, "unfinished": "the analysis did not end; report.md is not of these figures"})
            kept.append(out / "metrics.json")
        for (family, split, dataset, predictions), figures in zip(scored, plain):
            said += [f"run         {family.folder}"] * (len(families) > 1) + write_report(family, split, dataset, predictions, figures, bench)
    print(*said, sep="\n")
    if len(families) > 1 and flags.split == "test" and not flags.data:
        print_table(families)


def plain_figures(family: Family, split: Split, predictions: list[Prediction], flags: Flags) -> dict[str, Any]:
    """What is known from the predictions alone: kept as soon as the look is counted, whatever happens to the analysis."""
    best = next(p for p in predictions if p.run is family.best)
    out, source = place(family.folder, flags)
    figures = {**best.summary(split), "baselines": {}, "source": source, "data": flags.data or best.run.info["data"]["name"],
               "run_json": str(best.run.folder / "run.json"), "read_by": read_figures(out).get(source, {}).get("read_by")}
    return figures | ({"seeds": over_seeds(predictions, split, best)} if len(predictions) > 1 else {})


@contextlib.contextmanager
def look_accounted_for(families: list[Family], flags: Flags) -> Iterator[list[Path]]:
    """Between counting a look and the end of its report: whatever ends the program says so, and where the figures are.

    The block is given a list, for the files in which figures were kept.
    """
    kept: list[Path] = []
    try:
        yield kept
    except BaseException as e:
        if flags.split == "val" and not flags.data:
            raise
        where = f"the figures without floors and errors are in {', '.join(map(str, kept))}" if kept else ""
        if len(kept) < len(families):
            where += (", " if kept else "") + f"the figures of {', '.join(str(f.folder) for f in families[len(kept):])} were not written"
        words = f"the look at the test set was counted; {where}, and the report was not finished (--again makes it, as a further look)"
        if isinstance(e, KeyboardInterrupt):
            raise cli.Interrupted(words + ".") from None
        if isinstance(e, UserError):
            raise UserError(f"{str(e).rstrip('.')}; {words}.") from e
        e.add_note(words + ".")  # printed below the traceback
        raise


def check_room(family: Family, flags: Flags) -> None:
    """Raises UserError where the report could not be made or would find no place."""
    for run in family.runs:
        history(run)
    if not os.access(family.folder, os.W_OK):
        raise UserError(f"{family.folder} cannot be written to, so the report would have no place; make it writable.")
    if shutil.disk_usage(family.folder).free < REPORT_BYTES:
        raise UserError(f"the disk of {family.folder} has less than {REPORT_BYTES >> 20} MiB left, too little for the report; free some space.")
    out, _ = place(family.folder, flags)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file, and the report would go into a folder of that name; move it away.")
    for path in [*(out / name for name in ("metrics.json", "report.md", "errors.csv")), *out.glob("*.png")]:
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is no file, so the report's would have no place; move it away.")


def rows_to_score(family: Family, bench: Bench) -> tuple[Split, Dataset | None]:
    """The rows a run is judged on, and the data it was trained with (None for a new file where they are gone)."""
    info, flags = family.best.info, bench.flags
    if flags.data:
        split = data.load_rows(flags.data, info["labels"], ",".join(info["text_col"]), ",".join(info["label_col"]), info["multi_label"])
        try:
            return split, bench.dataset(family.best)
        except UserError as e:  # a new file can be scored where the training data are gone; the report says so
            print(f"note        no floors: {e}")
            return split, None
    dataset = bench.dataset(family.best)
    split = getattr(dataset, flags.split)
    if split is None:
        raise UserError(f"{family.folder}: its data have no test rows; use --split val, or score a labelled file with --data FILE.")
    return split, dataset


def refuse_second_look(fingerprints: dict[str, Any], again: bool, folders: list[str]) -> None:
    """Raises UserError where one of these test sets was looked at before and --again was not given."""
    for fingerprint in fingerprints:
        before = ledger.looks(fingerprint)
        if before and not again:
            first = before[0]
            raise UserError(f"this test set was looked at {len(before)} time{'s' if len(before) > 1 else ''} before, first on "
                            f"{first['date']} with {', '.join(first['runs']) or 'an unknown run'}; a further look makes its figures "
                            "optimistic. Add --again to look all the same, or use --split val.")


@dataclass
class Prediction:
    """One run's answers on a split: logits and probabilities (n,C), `predicted` (n,) indices or (n,C) bool."""

    run: Run
    predictor: Predictor | None  # None once it is not needed: several seeds of a large model would fill the memory
    logits: np.ndarray
    probs: np.ndarray
    predicted: np.ndarray

    def right(self, split: Split) -> np.ndarray:
        """(n,) bool; several labels: the whole set."""
        return is_right(split.labels, self.predicted)

    def confidence(self) -> np.ndarray:
        """(n,) probability of what was predicted; several labels: of the least sure decision."""
        if self.predicted.ndim == 2:
            return np.where(self.predicted, self.probs, 1 - self.probs).min(1)
        return self.probs[np.arange(len(self.probs)), self.predicted]

    def summary(self, split: Split, rows: np.ndarray | slice = slice(None)) -> dict[str, Any]:
        """The block of figures for these rows."""
        return summary(split.labels[rows], self.probs[rows], self.predicted[rows], self.run.info)


def predict(run: Run, split: Split, flags: Flags, keep: bool) -> Prediction:
    """Run the model over a split; `keep` it for the questions that a report asks afterwards."""
    predictor = Predictor(run.folder, device=flags.device)
    try:
        logits = predictor.logits(split.texts, split.pairs, quiet=flags.quiet)
    except FloatingPointError as e:
        raise UserError(f"{run.folder}: {e}") from None
    probs = predictor.to_probabilities(logits)
    return Prediction(run, predictor if keep else None, logits, probs, predictor.decide(probs))


def is_right(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    return ((truth > 0.5) == predicted).all(1) if truth.ndim == 2 else truth == predicted


def summary(truth: np.ndarray, probs: np.ndarray, predicted: np.ndarray, info: dict[str, Any]) -> dict[str, Any]:
    if info["multi_label"]:
        return metrics.multilabel_summary(truth, probs, info["labels"], info["thresholds"])
    return metrics.summary(truth, probs, info["labels"], predicted=predicted)


# ── what is measured ─────────────────────────────────────────────────────────────────────────────────────────────

def write_report(family: Family, split: Split, dataset: Dataset | None, predictions: list[Prediction], plain: dict[str, Any],
                 bench: Bench) -> list[str]:
    """Measure one family on its rows, write everything (metrics.json, report.md, errors.csv, pictures), return the short of it."""
    flags = bench.flags
    best = next(p for p in predictions if p.run is family.best)
    out, source = place(family.folder, flags)
    figures = plain | measure(best, split, plain, dataset, bench)
    if flags.compare:
        figures["compare"] = compare(best, split, flags)
    found = errors.analyse(best.predictor, split, best.probs, train=dataset.train if dataset else None,
                           train_length_info=best.run.info["data"]["lengths"], label_errors=flags.label_errors,
                           split_name=source, quiet=flags.quiet)
    behaved = behaviour.run(best.predictor, split, quiet=flags.quiet)
    figures |= {"errors": found.figures, "behaviour": behaved.figures}
    pictures = draw(out, best, split, figures)
    text = report.markdown(family.folder, best.run.info, figures, pictures, [found.markdown, behaved.markdown])
    write_csv(out / "errors.csv", ERROR_COLUMNS, ([r[c] for c in ERROR_COLUMNS] for r in [*found.rows, *found.train_rows]))
    write_atomic(out / "report.md", report.keep_sections(out / "report.md", text))
    save_figures(out, source, figures)
    for prediction in predictions if len(predictions) > 1 and source == "test" else []:
        save_figures(prediction.run.folder, source, {**prediction.summary(split), "baselines": figures["baselines"],
                                                          "looks": figures["looks"]})
    return [*report.lines(family.folder, figures), *found.lines, *behaved.lines, f"report      {out / 'report.md'}"]


def place(folder: Path, flags: Flags) -> tuple[Path, str]:
    """(where the report goes, what the rows are called): the run folder for the test set, a sub-folder otherwise."""
    if flags.data:
        return folder / f"on-{re.sub(r'[^A-Za-z0-9_.-]+', '-', Path(flags.data).stem)}", "file"
    return (folder, "test") if flags.split == "test" else (folder / "val", "val")


def save_figures(folder: Path, key: str, figures: dict[str, Any]) -> None:
    """Put one block into a folder's metrics.json and leave the others as they are."""
    write_json(folder / "metrics.json", {**read_figures(folder), key: figures})


def measure(best: Prediction, split: Split, plain: dict[str, Any], dataset: Dataset | None, bench: Bench) -> dict[str, Any]:
    """What comes to the `plain` figures of one model on one split, but for what needs another model or the errors' texts."""
    info, labels = best.run.info, best.run.info["labels"]
    right, confidence = best.right(split), best.confidence()
    figures = {"baselines": {}, "against": {}, "coverage": metrics.coverage_curve(confidence, right),
                "calibration": calibration(best, split, plain), **unusual_classes(plain), **stuck(best.run)}
    figures["batch_difference"], figures["batch_tried"] = alone_against_batch(best.predictor, split)
    floor_probs: dict[str, np.ndarray] = {}
    if dataset is None:
        figures["no_floors"] = "the training data are not where they were, so the floors cannot be refitted"
    else:
        figures["baselines"], floor_probs = bench.floors_on(dataset.train, split, labels, info["multi_label"])
        figures["against"] = {name: difference(split.labels, best.predicted, decide(p, info), len(labels))
                              for name, p in floor_probs.items()}
        figures["without_shared"] = without_shared(best, split, dataset, bench.flags.split if not bench.flags.data else "file")
    if len(labels) == 2 and not info["multi_label"]:
        figures["decision"] = decision(best, split)
    if bench.flags.slice_col:
        figures["slices"] = slices(best, split, floor_probs, bench.flags.slice_col)
    if bench.flags.data:
        figures["drift"] = drift(best, split, dataset)
    return figures


def decide(probs: np.ndarray, info: dict[str, Any]) -> np.ndarray:
    """A floor's answers, at 0.5."""
    return probs >= 0.5 if info["multi_label"] else probs.argmax(1)


def difference(truth: np.ndarray, a: np.ndarray, b: np.ndarray, k: int) -> dict[str, Any]:
    """Answers a minus answers b on the same rows: paired bootstrap and McNemar."""
    paired = metrics.paired_bootstrap_multilabel(truth, a, b) if truth.ndim == 2 else metrics.paired_bootstrap(truth, a, b, k)
    return {**paired, "mcnemar": metrics.mcnemar(is_right(truth, a), is_right(truth, b))}


def unusual_classes(figures: dict[str, Any]) -> dict[str, list[str]]:
    """Classes that are there and never called, and classes that are not there at all."""
    _, support, called = metrics.class_counts(figures)
    return {"never_predicted": [n for n, s, c in zip(figures["labels"], support, called) if s and not c],
            "absent": [n for n, s in zip(figures["labels"], support) if not s]}


def stuck(run: Run) -> dict[str, str]:
    """The sign of a run that learned nothing: a training loss that ended where guessing the classes' shares has it."""
    counts, n = np.array(list(run.info["data"]["label_counts"].values()), dtype=float), run.info["data"]["n"]["train"]
    balanced = run.info["flags"]["class_weights"] == "balanced"
    if run.info["multi_label"]:
        share = np.clip(counts / n, 1e-9, 1 - 1e-9)
        chance = float(-(share * np.log(share) + (1 - share) * np.log(1 - share)).mean())
        if balanced:  # weighted positives put the loss on another scale
            return {}
    else:
        share = np.full(len(counts), 1 / len(counts)) if balanced else counts[counts > 0] / n
        chance = float(-(share * np.log(share)).sum())
    loss = history(run)[-1]["train_loss"]
    if loss < 0.95 * chance:
        return {}
    return {"stuck": f"the training loss of seed {run.info['seed']} ended at {loss:.3f}, where guessing by the classes' shares stands "
                     f"({chance:.3f}): this run learned next to nothing; try another --lr, more --epochs, or another seed"}


def history(run: Run) -> list[dict[str, float]]:
    """The rows of history.csv. Raises UserError where it is missing or not what training wrote."""
    path = run.folder / "history.csv"
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, csv.Error):
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(lines)]
        if rows and all(row.keys() >= {"epoch", "train_loss", "val_loss", "val_macro_f1"} for row in rows):
            return rows
    raise UserError(f"{path} is missing, or not the history that training wrote; restore it or retrain.")


def alone_against_batch(predictor: Predictor, split: Split, texts: int = 8) -> tuple[float, int]:
    """Largest difference between probabilities of texts predicted alone and in one batch, and how many were tried."""
    some = split.take(np.arange(min(texts, len(split))))
    together = predictor.probabilities(some.texts, some.pairs)
    alone = [predictor.probabilities([t], None if some.pairs is None else [some.pairs[i]])[0] for i, t in enumerate(some.texts)]
    return float(np.abs(together - np.array(alone)).max()), len(some)


def calibration(best: Prediction, split: Split, figures: dict[str, Any]) -> dict[str, Any]:
    """Reliability after temperature, and what the errors would be without it."""
    truth, out = split.labels, {"temperature": best.predictor.temperature}
    if truth.ndim == 2:
        raw = metrics.sigmoid(best.logits)
        return out | {"ece_raw": metrics.ece_binary(raw, truth), "reliability": metrics.reliability(best.probs.ravel(), truth.ravel())}
    raw = metrics.softmax(best.logits)
    log_loss = lambda p: float(-np.log(np.maximum(p[np.arange(len(truth)), truth], 1e-12)).mean())
    return out | {"ece_raw": metrics.ece(raw, truth), "log_loss": figures["log_loss"], "log_loss_raw": log_loss(raw),
                  "reliability": metrics.reliability(best.probs.max(1), best.probs.argmax(1) == truth)}


def without_shared(best: Prediction, split: Split, dataset: Dataset, name: str) -> dict[str, Any] | None:
    """The figures without the rows whose text the model may have seen with its label."""
    others = [dataset.train] if name == "val" else [dataset.train, dataset.val]
    shared = split.shared_with(*others)
    if shared.all():
        return None
    figures = best.summary(split, ~shared)
    return {"shared": int(shared.sum()), **{k: figures[k] for k in ("n", "accuracy", "macro_f1", "macro_f1_ci95")}}


def decision(best: Prediction, split: Split) -> dict[str, Any]:
    """Two classes: precision, recall and the cut of the second, at 0.5 and at the run's own threshold."""
    truth, p = split.labels == 1, best.probs[:, 1]
    tuned = best.predictor.decision_threshold
    cuts = {"at 0.5": 0.5} | ({"tuned on validation": tuned[1]} if tuned else {})
    at = {}
    for name, cut in cuts.items():
        cm = metrics.confusion_matrix(truth, p >= cut, 2)
        of = metrics.per_class(cm, ["no", "yes"])["yes"]
        at[name] = {"threshold": cut, "precision": of["precision"], "recall": of["recall"], "macro_f1": metrics.macro_f1(cm),
                    "accuracy": metrics.accuracy(cm)}
    return {"label": best.run.info["labels"][1], "tuned": tuned is not None, "threshold": tuned[1] if tuned else 0.5,
            "share": float(truth.mean()), "average_precision": metrics.precision_recall_curve(truth, p)["average_precision"], "at": at}


def check_slice_column(split: Split, column: str) -> None:
    if column not in split.extra:
        raise UserError(f"--slice-col {column}: the data have no such column beside text and label{cli.nearest(column, split.extra)}; "
                        f"there are: {', '.join(split.extra) or 'none'}.")


def check_comparable(other: Family, family: Family, flags: Flags) -> None:
    theirs, labels = other.best.info["labels"], family.best.info["labels"]
    if sorted(theirs) != sorted(labels) or other.best.info["multi_label"] != family.best.info["multi_label"]:
        raise UserError(f"--compare {flags.compare}: it answers with {', '.join(theirs[:6])}, this run with {', '.join(labels[:6])}; "
                        "only runs of the same labels can be compared.")


def slices(best: Prediction, split: Split, floor_probs: dict[str, np.ndarray], column: str) -> dict[str, Any]:
    """Every figure by the values of a column of the data, commonest first."""
    cells = np.array(split.extra[column], dtype=object)
    values, counts = np.unique(cells.astype(str), return_counts=True)
    chosen = [str(v) for v in values[np.argsort(-counts, kind="stable")][:MOST_SLICES]]
    out = {}
    for value in chosen:
        rows = cells == value
        out[value] = best.summary(split, rows) | {"baselines": {
            name: {k: summary(split.labels[rows], p[rows], decide(p[rows], best.run.info), {**best.run.info, "thresholds": None})[k]
                   for k in ("accuracy", "macro_f1")} for name, p in floor_probs.items()}}
    return {"column": column, "values": out, "left_out": len(values) - len(chosen)}


def over_seeds(predictions: list[Prediction], split: Split, best: Prediction) -> dict[str, Any]:
    """Mean, spread (standard deviation) and the worst of several seeds of one recipe."""
    each = {p.run.folder.name: p.summary(split) for p in predictions}
    signs = {p.run.folder.name: unusual_classes(each[p.run.folder.name]) | stuck(p.run) for p in predictions}
    out: dict[str, Any] = {"best": best.run.folder.name,
                           "runs": {n: {k: f[k] for k in ("accuracy", "macro_f1")} | signs[n] for n, f in each.items()}}
    for key in ("accuracy", "macro_f1"):
        values = {name: f[key] for name, f in each.items()}
        worst = min(values, key=values.__getitem__)
        out[key] = {"mean": float(np.mean(list(values.values()))), "spread": float(np.std(list(values.values()), ddof=1)),
                    "worst": values[worst], "worst_run": worst}
    return out


def compare(best: Prediction, split: Split, flags: Flags) -> dict[str, Any]:
    """Another run on the same rows."""
    family = Family.load(Path(flags.compare))
    other, labels = predict(family.best, split, flags, keep=False), best.run.info["labels"]
    theirs = other.run.info["labels"]
    order = [theirs.index(name) for name in labels]  # the same names may stand in another order there
    predicted = other.predicted[:, order] if split.labels.ndim == 2 else np.argsort(order)[other.predicted]
    figures = summary(split.labels, other.probs[:, order], predicted, {**other.run.info, "labels": labels})
    note = ""
    if other.run.info["data"]["fingerprint"]["test"] != best.run.info["data"]["fingerprint"]["test"]:
        note = "the other run was trained on other data: make sure that it never saw these rows"
    return {"with": flags.compare, "note": note, "figures": {k: figures[k] for k in ("accuracy", "macro_f1", "macro_f1_ci95", "ece")},
            **difference(split.labels, best.predicted, predicted, len(labels))}


# ── drift of a new file ──────────────────────────────────────────────────────────────────────────────────────────

def drift(best: Prediction, split: Split, dataset: Dataset | None) -> dict[str, Any]:
    """A new labelled file beside the training data: lengths, unknown tokens and words, class shares."""
    info, tokenizer = best.run.info, best.predictor.tokenizer
    store = data.tokenize_store(tokenizer, data.joined_texts(split), quiet=True)
    lengths = store.lengths + tokenizer.num_special(split.pairs is not None)
    was = info["data"]["lengths"]
    unknown = data.unknown_share(tokenizer, store)
    rows = [[f"tokens, {name}", f"{was[f'p{q}']:,}", f"{np.percentile(lengths, q):,.0f}"]
            for name, q in (("median", 50), ("95 %", 95), ("99 %", 99))]
    rows.append(["tokens unknown to the vocabulary", f"{was['unknown_share']:.3%}", f"{unknown:.3%}"])
    longer = float((lengths > was["p95"]).mean())
    findings = [f"{longer:.1%} of the texts are longer than the training texts' 95th percentile of {was['p95']:,} tokens (5 % would be no drift)"]
    counts, here = info["data"]["label_counts"], split.labels.sum(0) if split.labels.ndim == 2 else np.bincount(
        split.labels, minlength=len(info["labels"]))
    before = np.array([counts[name] for name in info["labels"]]) / info["data"]["n"]["train"]
    now = here / len(split)
    order = np.argsort(-np.abs(before - now), kind="stable")[:10]
    rows += [[f"share of {info['labels'][i]}", f"{before[i]:.2%}", f"{now[i]:.2%}"] for i in order]
    findings.append(f"the class whose share moved most is {info['labels'][order[0]]}: {before[order[0]]:.1%} in training, {now[order[0]]:.1%} here")
    figures = {"longer_than_p95": longer, "unknown_share": unknown, "largest_share_change": float(np.abs(before - now).max())}
    if dataset is not None:
        known = words_of(dataset.train)
        new, usual = unseen_words(split, known), unseen_words(dataset.val, known)
        rows.append(["words never seen in training", f"{usual:.2%} (of validation)", f"{new:.2%}"])
        findings.append(f"{new:.1%} of the words never stand in the training texts; of the validation texts, {usual:.1%}")
        figures |= {"unseen_words": new, "unseen_words_validation": usual}
    return {"rows": rows, "findings": findings, **figures}


def words_of(split: Split) -> set[str]:
    return {word for text in data.joined_texts(split) for word in baselines.words(text)}


def unseen_words(split: Split, known: set[str]) -> float:
    """Share of a split's words that are not among the known ones."""
    words = [word for text in data.joined_texts(split) for word in baselines.words(text)]
    return sum(word not in known for word in words) / max(1, len(words))


# ── pictures ─────────────────────────────────────────────────────────────────────────────────────────────────────

def draw(out: Path, best: Prediction, split: Split, figures: dict[str, Any]) -> dict[str, str]:
    """Draw every picture that these figures have; name → file name."""
    info, lengths, labels = best.run.info, best.run.info["data"]["lengths"], figures["labels"]
    right, confidence = best.right(split), best.confidence()
    jobs: dict[str, Callable[[Path], None]] = {
        "learning_curves": lambda f: plots.learning_curves(f, history(best.run), info["best_epoch"]),
        "reliability": lambda f: plots.reliability(f, figures["calibration"]["reliability"], figures["ece"]),
        "confidence": lambda f: plots.confidence(f, confidence, right),
        "coverage": lambda f: plots.coverage(f, figures["coverage"])}
    if len(labels) <= plots.MOST_LABELS:
        draw_matrix = plots.label_matrices if figures.get("multi_label") else plots.confusion_matrix
        jobs["confusion_matrix"] = lambda f: draw_matrix(f, figures["confusion_matrix"], labels)
    if lengths.get("histogram"):
        jobs["length_histogram"] = lambda f: plots.length_histogram(f, lengths["histogram"], info["max_len"])
    if figures["errors"]["length_bins"]:
        jobs["length_errors"] = lambda f: plots.length_errors(f, figures["errors"]["length_bins"])
    if figures.get("decision") and (split.labels == 1).any():
        curve = metrics.precision_recall_curve(split.labels == 1, best.probs[:, 1])
        points = {name: (at["recall"], at["precision"]) for name, at in figures["decision"]["at"].items()}
        jobs["precision_recall"] = lambda f: plots.precision_recall(f, curve, labels[1], points)
    for name, draw_it in cli.progress(jobs.items(), desc="pictures", unit="picture", quiet=True):
        draw_it(out / f"{name}.png")
    return {name: f"{name}.png" for name in jobs}


# ── what looks at no test row ────────────────────────────────────────────────────────────────────────────────────

def print_table(families: list[Family]) -> None:
    """The saved figures of several runs side by side, as Markdown."""
    print(report.comparison_table([(str(f.folder), f.best.info, f.saved("test")) for f in families]))


def sign(families: list[Family], flags: Flags) -> None:
    """Put down who read the mistakes, in metrics.json and in the report's living table."""
    for family in families:
        out, source = place(family.folder, flags)
        save_figures(out, source, {**read_figures(out)[source], "read_by": flags.read_by})
        amend_report(family, out, source)
        print(f"read by     {flags.read_by}: {out / 'report.md'}")


def amend_report(family: Family, out: Path, source: str, title: str = "", text: str = "") -> Path:
    """Bring the living table of the report in `out` up to date and put in the section `title`, if one is given."""
    path = out / "report.md"
    whole = path.read_text(encoding="utf-8") if path.is_file() else ""
    figures = read_figures(out).get(source, {})
    if report.BEGIN in whole and "batch_difference" in figures:
        whole = report.replace_done_section(whole, report.done_section(family.folder, family.best.info, figures))
    write_atomic(path, report.with_section(whole, title, text) if title else whole)
    return path


def inspect(families: list[Family], flags: Flags) -> None:
    """What [CLS] looked at in one text, what the answer rested on, and which map to believe on a validation sample."""
    for family in families:
        predictor = Predictor(family.best.folder, device=flags.device)
        seen = attention.inspect(predictor, flags.inspect, family.folder, flags.layer, flags.inspect_pair)
        val = Bench(flags).dataset(family.best).val
        believed = attention.faithfulness(predictor, val.texts, val.pairs, quiet=flags.quiet)
        for line in [*seen.lines, "", *believed.lines]:
            print(line)
        path = amend_report(family, family.folder, "test", "Attention", f"{seen.markdown.strip()}\n\n### Which map to believe, on "
                            f"validation\n\n{believed.markdown.strip()}")
        print(f"picture     {seen.png}\nreport      {path}")


def learning_curve(families: list[Family], flags: Flags) -> None:
    """The floors on growing shares of the training rows, scored on validation, beside the runs themselves."""
    bench = Bench(flags)
    for family in families:
        dataset, info = bench.dataset(family.best), family.best.info
        curves = {name: [] for name in ("tfidf", "nb")}
        order = np.random.default_rng(0).permutation(len(dataset.train))
        for size in sorted({max(2, len(order) // share) for share in (16, 8, 4, 2, 1)}):
            part = dataset.train.take(order[:size])
            for name, points in curves.items():
                points.append((size, bench.floors_on(part, dataset.val, info["labels"], info["multi_label"])[0][name]["macro_f1"]))
        for other in families:
            if other.best.info["data"]["fingerprint"]["val"] == info["data"]["fingerprint"]["val"]:
                curves[str(other.folder)] = [(other.best.info["data"]["n"]["train"],
                                              read_json(other.best.folder / "metrics.json", "figures of the run")["val"]["macro_f1"])]
        gain = curves["nb"][-1][1] - curves["nb"][-2][1]
        finding = (f"From half of the training rows to all {len(order):,}, the naive-Bayes floor's macro-F1 on validation moved by "
                   f"{gain:+.4f}: {'more labels would still help it' if gain > 0.005 else 'its curve is flat, more labels of the same kind would do little for it'}. "
                   f"That is the floor's curve, not this model's; for this model's own, train with --limit {len(order) // 2} and give both runs here.")
        plots.learning_by_size(family.folder / "learning_by_size.png", curves)
        save_figures(family.folder, "learning_curve", {"curves": curves, "finding": finding})
        for name, points in curves.items():
            print(f"{name:<11} " + "  ".join(f"{n:,}: {f1:.4f}" for n, f1 in points))
        path = amend_report(family, family.folder, "test", "Would more labels help?", report.escape(finding) + "\n\n![macro-F1 by number of "
                            "training rows](learning_by_size.png)")
        print(f"{finding}\npicture     {family.folder / 'learning_by_size.png'}\nreport      {path}")


if __name__ == "__main__":
    cli.run(main)
