"""evaluate.py end to end on small trained runs: the look that is counted, the figures, the report, and every refusal."""

import csv
import inspect
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import evaluate
import train
from minibert import behaviour, checkpoint, cli, convert, files, ledger, metrics, plots, report
from minibert.cli import UserError
from minibert.predictor import Predictor

GOOD, BAD = "great superb lovely moving witty".split(), "dull awful boring clumsy stale".split()
REST = "the film plot cast music scene story ending script actors were was and a quite very".split()


def write_rows(path, rows, header=("text", "label", "split", "source")):
    with open(path, "w", newline="", encoding="utf-8") as f:
        csv.writer(f).writerows([header, *rows])
    return path


def reviews(n, split, rng, noise=0.1):
    """Rows (text, label, split, source): one word decides, a tenth of the labels are wrong."""
    for i in range(n):
        good = i % 2 == 0
        words = list(rng.choice(REST, rng.integers(4, 10)))
        words.insert(rng.integers(len(words)), rng.choice(GOOD if good else BAD))
        wrong = rng.random() < noise
        yield " ".join(words), "positive" if good != wrong else "negative", split, "web" if i % 3 else "paper"


@pytest.fixture(autouse=True)
def quick(request, monkeypatch):
    """Pictures and behavioural checks have tests of their own; drawn and run in full they would take most of the time."""
    monkeypatch.setattr(behaviour, "PER_CHECK", 2)
    if request.node.name != "test_a_run_becomes_a_report":
        for name in ("confusion_matrix", "label_matrices", "learning_curves", "length_histogram", "reliability", "confidence",
                     "coverage", "length_errors", "precision_recall"):
            monkeypatch.setattr(plots, name, lambda path, *figures, real=getattr(plots, name): inspect.signature(real).bind(path, *figures))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("evaluate")


@pytest.fixture(scope="module")
def family(folder):
    """Two seeds on 320 small reviews; three test texts stand in training, too."""
    rng = np.random.default_rng(0)
    rows = [*reviews(320, "train", rng), *reviews(80, "val", rng), *reviews(97, "test", rng)]
    rows += [(text, label, "test", "web") for text, label, *_ in rows[:3]]
    path = write_rows(folder / "small.csv", rows)
    out = folder / "family"
    assert train.main(["--data", str(path), "--seeds", "1", "2", "--epochs", "4", "--lr", "2e-3", "--batch-size", "16",
                       "--max-len", "32", "--quiet", "--out", str(out)]) == 0
    return out


@pytest.fixture
def run(family, tmp_path):
    """A fresh copy of one seed: a single run that nobody has evaluated."""
    return Path(shutil.copytree(family / "seed-1", tmp_path / "run"))


def go(*args):
    return evaluate.main([*map(str, args), "--quiet", "--device", "cpu"])


def figures_of(run, key="test"):
    return json.loads((run / "metrics.json").read_text())[key]


# ── the main way ─────────────────────────────────────────────────────────────────────────────────────────────────

def test_a_run_becomes_a_report(run, capsys):
    val = figures_of(run, "val")
    assert go(run, "--slice-col", "source") == 0
    said = capsys.readouterr().out
    got = figures_of(run)
    assert figures_of(run, "val") == val  # what training wrote stays

    # the figures are those of the predictor on the test rows, in order
    with open(json.loads((run / "run.json").read_text())["flags"]["data"], newline="") as f:
        rows = [r for r in csv.DictReader(f) if r["split"] == "test"]
    predicted = [p["label"] for p in Predictor(run, device="cpu").predict([r["text"] for r in rows])]
    right = [p == r["label"] for p, r in zip(predicted, rows)]
    assert got["n"] == 100 and got["accuracy"] == pytest.approx(np.mean(right))
    cm = np.array(got["confusion_matrix"])
    assert got["labels"] == ["negative", "positive"] and cm.sum() == 100
    assert cm[0, 1] == sum(r["label"] == "negative" and p == "positive" for r, p in zip(rows, predicted))
    assert got["accuracy"] > 0.75  # it did learn
    assert got["looks"] == 1 and "look 1 of this test set" in said

    # floors, doubt, the rows shared with training
    assert set(got["baselines"]) == {"majority", "tfidf", "nb"}
    assert got["macro_f1_ci95"][0] <= got["macro_f1"] <= got["macro_f1_ci95"][1]
    assert all(len(c["recall_ci95"]) == 2 for c in got["per_class"].values())
    assert got["against"]["nb"]["mcnemar"]["only_a"] >= 0 and "p" in got["against"]["tfidf"]["macro_f1"]
    assert got["without_shared"]["shared"] >= 3 and got["without_shared"]["n"] == 100 - got["without_shared"]["shared"]
    by_source = got["slices"]["values"]
    assert by_source["web"]["n"] + by_source["paper"]["n"] == 100
    assert sum(by_source[v]["accuracy"] * by_source[v]["n"] for v in by_source) == pytest.approx(100 * got["accuracy"])

    # the report and its pictures; errors.csv holds exactly the errors
    text = (run / "report.md").read_text()
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert {"confusion_matrix.png", "learning_curves.png", "length_histogram.png", "reliability.png", "confidence.png",
            "length_errors.png", "precision_recall.png"} <= set(pictures)
    for name in pictures:
        assert (run / name).read_bytes().startswith(b"\x89PNG"), name
    with open(run / "errors.csv", newline="") as f:
        errors = list(csv.DictReader(f))
    assert list(errors[0]) == evaluate.ERROR_COLUMNS
    assert sorted(e["text"] for e in errors) == sorted(r["text"] for r, ok in zip(rows, right) if not ok)
    assert all(e["correction"] == "" for e in errors)


def test_the_arithmetic_in_the_report_can_be_redone(run):
    go(run)
    text = (run / "report.md").read_text()
    got = figures_of(run)
    (a, b), (c, d) = got["confusion_matrix"]
    assert f"({a} + {d}) / 100 = {got['accuracy']:.4f}" in text
    formulas = re.findall(r"= (\d+) / (\d+) = (\d\.\d{4})", text)
    assert len(formulas) == 4
    for up, down, result in formulas:
        assert float(result) == pytest.approx(int(up) / int(down), abs=6e-5)
    for hits, support, called, result in re.findall(r"2 · (\d+) / \((\d+) \+ (\d+)\) = (\d\.\d{4})", text):
        assert float(result) == pytest.approx(2 * int(hits) / (int(support) + int(called)), abs=6e-5)


def test_the_known_example_in_the_arithmetic():
    cm = [[440, 60], [45, 455]]
    figures = {"labels": ["neg", "pos"], "confusion_matrix": cm, "per_class": metrics.per_class(cm, ["neg", "pos"]), "n": 1000,
               "accuracy": metrics.accuracy(cm), "macro_f1": metrics.macro_f1(cm)}
    text = report._arithmetic_section(figures)
    assert "(440 + 455) / 1000 = 0.8950" in text and "(0.8934 + 0.8966) / 2 = 0.8950" in text
    assert "found among those that are so = 440 / 500 = 0.8800" in text


# ── the ledger ───────────────────────────────────────────────────────────────────────────────────────────────────

def test_a_second_look_is_refused_and_counted(run, family, tmp_path, capsys):
    go(run)
    before = (run / "metrics.json").read_bytes()
    with pytest.raises(UserError, match=r"looked at 1 time before, first on 20\d\d-.*--again"):
        go(run)
    other = shutil.copytree(family / "seed-2", tmp_path / "other")  # another run, the same test set
    with pytest.raises(UserError, match="looked at"):
        go(other)
    assert (run / "metrics.json").read_bytes() == before
    assert go(other, "--again") == 0
    assert figures_of(Path(other))["looks"] == 2
    assert "look 2 of this test set: the figure is optimistic" in capsys.readouterr().out
    assert "| test used once | **not yet** |" in (Path(other) / "report.md").read_text()


def test_validation_is_not_a_look(run, capsys):
    for _ in range(2):
        assert go(run, "--split", "val") == 0
    assert "chosen on these rows" in capsys.readouterr().out
    assert "test" not in json.loads((run / "metrics.json").read_text())
    assert not (run / "report.md").exists() and (run / "val" / "report.md").is_file()
    got, trained = figures_of(run / "val", "val"), figures_of(run, "val")
    assert got["macro_f1"] == pytest.approx(trained["macro_f1"]) and got["ece"] == pytest.approx(trained["ece"], abs=1e-6)


def test_several_runs_in_one_call_are_one_look(run, family, tmp_path, capsys):
    other = Path(shutil.copytree(family / "seed-2", tmp_path / "other"))
    go(run, other)
    said = capsys.readouterr().out
    assert said.index(f"run         {run}\ntest ") < said.index(f"run         {other}\ntest ") < said.index("| model | test accuracy |")
    assert figures_of(run)["looks"] == figures_of(other)["looks"] == 1


def test_an_unwritable_ledger_says_so(run, monkeypatch, tmp_path, capsys):
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("MINIBERT_STATE", str(tmp_path / "a-file"))
    go(run)
    assert figures_of(run)["looks"] is None and "looks unknown" in capsys.readouterr().out
    assert "looks unknown" in (run / "report.md").read_text()


def test_the_ledger_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIBERT_STATE", str(tmp_path))
    assert ledger.looks("abc") == []
    assert [ledger.record("abc", ["r1"]), ledger.record("abc", ["r2"]), ledger.record("xyz", ["r1"])] == [1, 2, 1]
    assert ledger.looks("abc")[0]["runs"] == ["r1"]
    with open(tmp_path / "looks" / "abc.jsonl", "a") as f:
        f.write("damaged\n")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.delenv("MINIBERT_STATE")
    assert ledger.looks("abc") is None and ledger.record("abc", ["r3"]) is None
    monkeypatch.setenv("MINIBERT_STATE", str(tmp_path))
    assert ledger.record("abc", ["r3"]) == 4  # a damaged line is a look of unknown date, not a look forgotten


# ── what ends the program after the look ─────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("fault, raised, words", [
    (KeyboardInterrupt(), cli.Interrupted, "^the look at the test set was counted"),
    (UserError("cannot write x: the disk is full."), UserError, "disk is full; the look at the test set was counted"),
    (MemoryError("too much"), MemoryError, None)])
def test_what_was_looked_at_is_kept_and_said(run, monkeypatch, fault, raised, words):
    def fails(*_, **__):
        raise fault
    with monkeypatch.context() as patched, pytest.raises(raised, match=words) as e:
        patched.setattr(evaluate.errors, "analyse", fails)
        go(run)
    closing = str(e.value) if words else e.value.__notes__[-1]
    assert str(run / "metrics.json") in closing and "--again" in closing
    kept = figures_of(run)
    assert kept["looks"] == 1 and kept["n"] == 100 and "unfinished" in kept and not (run / "report.md").exists()
    go("--table", run)  # they can be read
    with pytest.raises(UserError, match="--read-by signs a report that was read"):  # but nobody can have read a report
        go(run, "--read-by", "Ann")

    with pytest.raises(UserError, match="looked at 1 time before"):
        go(run)
    go(run, "--again")
    whole = figures_of(run)
    assert whole["looks"] == 2 and "unfinished" not in whole
    assert {k: whole[k] for k in ("accuracy", "macro_f1_ci95", "ece")} == {k: kept[k] for k in ("accuracy", "macro_f1_ci95", "ece")}


def test_figures_that_could_not_be_kept_are_said_to_be_lost(run, family, tmp_path, monkeypatch):
    other = Path(shutil.copytree(family / "seed-2", tmp_path / "other"))

    def full(folder, *args, real=evaluate.save_figures):
        if folder == other:
            raise UserError("cannot write it: the disk is full.")
        real(folder, *args)
    monkeypatch.setattr(evaluate, "save_figures", full)
    with pytest.raises(UserError, match="disk is full; the look at the test set was counted") as e:
        go(run, other)
    assert f"are in {run / 'metrics.json'}, the figures of {other} were not written" in str(e.value)
    assert figures_of(run)["looks"] == 1 and "test" not in json.loads((other / "metrics.json").read_text())


def test_an_interrupted_validation_says_nothing_of_a_look(run, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt
    monkeypatch.setattr(evaluate.errors, "analyse", stop)
    with pytest.raises(KeyboardInterrupt):
        go(run, "--split", "val")


# ── wrong labels: found, corrected, trained again, compared ──────────────────────────────────────────────────────

def test_corrections_go_round(run, tmp_path, capsys):
    go(run, "--label-errors")
    with open(run / "errors.csv", newline="") as f:
        errors = list(csv.DictReader(f))
    figures = figures_of(run)
    on_test = round(100 * (1 - figures["accuracy"]))
    assert all(e["split"] == "test" for e in errors[:on_test]) and all(e["split"] == "train" for e in errors[on_test:])
    suspects = errors[on_test:]  # after the test errors come the suspect training rows
    assert len(suspects) == figures["errors"]["train_label_errors"]["suspect"] > 0
    wrong = [e for e in suspects if (e["truth"] == "positive") != bool(set(GOOD) & set(e["text"].split()))]
    assert len(wrong) / len(suspects) > 0.5  # planted in a tenth of the rows
    for e in wrong:
        e["correction"] = e["predicted"]
    write_rows(tmp_path / "mine.csv", [[e[c] for c in evaluate.ERROR_COLUMNS] for e in errors], evaluate.ERROR_COLUMNS)
    corrected = tmp_path / "corrected"
    train.main(["--config", str(run / "run.json"), "--corrections", str(tmp_path / "mine.csv"), "--out", str(corrected), "--quiet"])
    go(corrected, "--again", "--compare", run)
    assert "mine.csv" in (corrected / "report.md").read_text() and figures_of(corrected)["looks"] == 2
    assert "other data" not in (corrected / "report.md").read_text()  # the test rows are the same


# ── seeds, comparison, table, signature ──────────────────────────────────────────────────────────────────────────

def test_a_family_is_one_look_with_mean_spread_and_worst(family, tmp_path, capsys):
    home = Path(shutil.copytree(family, tmp_path / "family"))
    go(home)
    got = figures_of(home)
    each = {name: figures_of(home / name)["macro_f1"] for name in ("seed-1", "seed-2")}
    assert got["looks"] == 1 and set(got["seeds"]["runs"]) == set(each)
    assert got["seeds"]["macro_f1"]["mean"] == pytest.approx(np.mean(list(each.values())))
    assert got["seeds"]["macro_f1"]["spread"] == pytest.approx(np.std(list(each.values()), ddof=1))
    assert got["seeds"]["macro_f1"]["worst"] == min(each.values())
    best = max(each, key=lambda name: figures_of(home / name, "val")["macro_f1"])
    assert got["seeds"]["best"] == best and got["macro_f1"] == each[best]
    assert "## Over the seeds" in (home / "report.md").read_text()

    capsys.readouterr()
    assert go("--table", home, home / "seed-1") == 0  # saved figures; no look is taken
    table = capsys.readouterr().out
    assert "2 seeds" in table and f"{each['seed-1']:.4f}" in table and "TF-IDF" in table and "RoBERTa-base" in table
    assert len({line.count("|") for line in table.splitlines() if line.startswith("|")}) == 1


def test_compare_with_another_run(run, family, capsys):
    go(run, "--compare", family / "seed-2")
    assert ledger.looks(json.loads((run / "run.json").read_text())["data"]["fingerprint"]["test"])[0]["runs"] == [str(run), str(family / "seed-2")]
    c, got = figures_of(run)["compare"], figures_of(run)
    assert c["accuracy"]["difference"] == pytest.approx(got["accuracy"] - c["figures"]["accuracy"])
    assert "compare     minus" in capsys.readouterr().out and "## Compared with" in (run / "report.md").read_text()


def test_a_run_that_was_never_evaluated_in_the_table(run, capsys):
    go("--table", run)
    assert "not yet: `python evaluate.py" in capsys.readouterr().out


def test_the_living_table_and_its_signature(run, capsys):
    go(run)
    rows = dict(re.findall(r"^\| ([a-z][^|]*) \| ([^|]*) \|", (run / "report.md").read_text().split(report.END)[0], re.M))
    assert list(rows) == ["step", "data looked at", "length measured", "wiring checked", "warmup, clipping, best checkpoint",
                          "macro-F1 and recall reported", "test used once", "three seeds", "errors read", "batched, capped serving"]
    assert rows["data looked at"] == rows["three seeds"] == rows["errors read"] == "**not yet**"
    assert rows["length measured"] == rows["test used once"] == rows["batched, capped serving"] == "done"
    before = figures_of(run)
    assert go(run, "--read-by", "Ann <b>") == 0  # no further look, nothing else changes
    assert figures_of(run) == {**before, "read_by": "Ann <b>"}
    text = (run / "report.md").read_text()
    assert "| errors read | done | the most confident mistakes were read by Ann &lt;b&gt; |" in text and text.count(report.BEGIN) == 1
    assert len(ledger.looks(json.loads((run / "run.json").read_text())["data"]["fingerprint"]["test"])) == 1
    with pytest.raises(UserError, match="--read-by signs a report that was read"):  # nobody has read the one of validation
        go(run, "--split", "val", "--read-by", "Ann")
    go(run, "--split", "val")
    text = (run / "val" / "report.md").read_text()
    assert f"`python evaluate.py {run} --split val --read-by NAME`" in text
    go(run, "--split", "val", "--read-by", "Bob")
    assert "| errors read | done |" in (run / "val" / "report.md").read_text() and figures_of(run)["read_by"] == "Ann <b>"


def test_a_wiring_check_made_after_training_counts(run):
    go(run)
    assert "| wiring checked | **not yet** |" in (run / "report.md").read_text()
    flags = json.loads((run / "run.json").read_text())["flags"]
    wiring = {"n": 50, "loss": 0.004, "ok": True, **{k: flags[k] for k in ("data", "model", "head")}}
    (run / "wiring.json").write_text(json.dumps({**wiring, "data": "other.csv"}))
    go(run, "--read-by", "Ann")
    assert "| wiring checked | **not yet** |" in (run / "report.md").read_text()
    (run / "wiring.json").write_text(json.dumps(wiring))
    go(run, "--read-by", "Ann")
    assert "| wiring checked | done | 50 texts driven to a loss of 0.0040 |" in (run / "report.md").read_text()


# ── looking without looking ──────────────────────────────────────────────────────────────────────────────────────

def test_inspect_reads_no_test_row(run, capsys):
    assert go(run, "--inspect", "the plot was dull but the acting was great") == 0
    assert "[CLS]" in capsys.readouterr().out
    text = (run / "report.md").read_text()
    assert "## Attention" in text and list(run.glob("attention-*.png"))
    go(run, "--inspect", "another text", "--layer", "1")
    assert (run / "report.md").read_text().count("## Attention") == 1
    assert "test" not in json.loads((run / "metrics.json").read_text())
    go(run)  # the first look; the section on attention stays
    text = (run / "report.md").read_text()
    assert "## Attention" in text and "another text" in text and "## The number" in text


def test_learning_curve_uses_validation(run, capsys):
    assert go(run, "--learning-curve") == 0
    curve = figures_of(run, "learning_curve")["curves"]
    assert [n for n, _ in curve["nb"]] == [20, 40, 80, 160, 320] and curve[str(run)] == [[320, figures_of(run, "val")["macro_f1"]]]
    assert "From half" in capsys.readouterr().out and (run / "learning_by_size.png").is_file()
    assert "test" not in json.loads((run / "metrics.json").read_text())
    go(run, "--inspect", "the plot was dull")
    go(run)  # both sections are kept in the report of the first look
    go(run, "--learning-curve")  # and one is not added twice
    text = (run / "report.md").read_text()
    assert text.count("## Would more labels help?") == text.count("(learning_by_size.png)") == text.count("## Attention") == 1
    assert text.index("## The number") < text.index("## Attention")


# ── a new file ───────────────────────────────────────────────────────────────────────────────────────────────────

def test_a_new_labelled_file_and_its_drift(run, tmp_path, capsys):
    rng = np.random.default_rng(9)
    rows = [(text + " xylophone zeppelin quark" * 3, "negative") for text, *_ in reviews(30, "", rng)]
    path = write_rows(tmp_path / "new reviews.csv", rows, ("text", "label"))
    assert go(run, "--data", path) == 0
    got = figures_of(run / "on-new-reviews", "file")
    assert got["n"] == 30 and got["absent"] == ["positive"] and got["looks"] == 1
    assert got["drift"]["unseen_words"] > 0.3 > got["drift"]["unseen_words_validation"]
    assert got["drift"]["largest_share_change"] > 0.4
    report = (run / "on-new-reviews" / "report.md").read_text()
    assert "## Drift" in report
    # Nothing was there to be found: a dash, not "0 of its rows were found".
    assert re.search(r"^\| positive +\| [\d.]+ +\| – +\|", report, re.M) and re.search(r"^\| negative +\| [\d.]+ +\| 0\.\d+ \(", report, re.M), report
    assert re.search(r"^  positive +[\d.]+ +– ", capsys.readouterr().out, re.M)
    assert "test" not in json.loads((run / "metrics.json").read_text())
    with pytest.raises(UserError, match="looked at"):  # it is a test set like any other
        go(run, "--data", path)


def test_a_new_file_where_the_training_data_are_gone(run, tmp_path, capsys):
    info = json.loads((run / "run.json").read_text())
    info["flags"]["data"] = info["data"]["paths"]["data"] = str(tmp_path / "gone.csv")
    (run / "run.json").write_text(json.dumps(info))
    path = write_rows(tmp_path / "new.csv", [("great film", "positive"), ("dull film", "negative")], ("text", "label"))
    assert go(run, "--data", path) == 0
    assert "no floors" in capsys.readouterr().out
    with pytest.raises(UserError, match="was trained with --data .*gone.csv, which is not there any more: put it back"):
        go(run)


def test_data_given_by_a_relative_path_are_found_from_another_folder(family, tmp_path, monkeypatch):
    """run.json keeps the path as typed, for replay, and beside it where it led."""
    rows = [(f"text {i} is {'good' if i % 2 else 'bad'}", "ab"[i % 2], split) for split, n in (("train", 40), ("val", 10), ("test", 10))
            for i in range(n)]
    for name in ("home/work", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    path = write_rows(tmp_path / "home" / "mine.csv", rows, ("text", "label", "split"))
    write_rows(tmp_path / "home" / "fix.csv", [("text 0 is bad", "a", "b")], ("text", "truth", "correction"))
    monkeypatch.chdir(tmp_path / "home" / "work")
    assert train.main(["--data", "../mine.csv", "--corrections", "../fix.csv", "--epochs", "1", "--max-len", "16", "--quiet", "--out", "run"]) == 0
    run = tmp_path / "home" / "work" / "run"
    info = json.loads((run / "run.json").read_text())
    assert info["flags"]["data"] == "../mine.csv" and info["data"]["paths"]["data"] == str(path)

    monkeypatch.chdir(tmp_path / "elsewhere")
    assert go(run, "--split", "val") == 0
    again = ["--config", str(run / "run.json"), "--quiet", "--out", "again"]
    assert train.read_flags(again).data == str(path)  # a replay finds them, too
    write_rows(tmp_path / "mine.csv", rows[:-1], ("text", "label", "split"))  # ../mine.csv from here: another file
    assert go(run, "--split", "val") == 0
    assert train.read_flags(again).data == "../mine.csv"  # but what a replay is told is what it reads
    path.unlink()
    (tmp_path / "mine.csv").unlink()
    with pytest.raises(UserError, match=r"run was trained with --data \.\./mine\.csv, which is not there any more \(it was .*mine\.csv\)"):
        go(run, "--split", "val")

@pytest.mark.parametrize("record", [{}, {"data": []}, {"data": {"paths": 3}}, {"data": {"paths": {}}}])
def test_a_record_without_usable_paths_is_replayed_as_typed(tmp_path, record):
    (tmp_path / "run.json").write_text(json.dumps({"flags": {"data": "../x"}, **record}))
    assert train.read_flags(["--config", str(tmp_path / "run.json")]).data == "../x"


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────

def test_data_that_changed_since_training(run, tmp_path):
    info = json.loads((run / "run.json").read_text())
    text = Path(info["flags"]["data"]).read_text()
    for old, new, split in ((",positive,test,", ",negative,test,", "test"), (",positive,train,", ",negative,train,", "train")):
        path = tmp_path / "changed.csv"
        path.write_text(text.replace(old, new, 1))
        info["flags"]["data"] = info["data"]["paths"]["data"] = str(path)
        (run / "run.json").write_text(json.dumps(info))
        with pytest.raises(UserError, match=f"the {split} rows of .*changed.csv are not the ones .* the data changed since"):
            go(run)
    assert not ledger.looks(info["data"]["fingerprint"]["test"])


@pytest.mark.parametrize("args, words", [
    (["--slice-col", "sauce"], "did you mean 'source'"), (["--compare", "nowhere"], "nowhere is no folder"),
    (["--splt", "val"], "did you mean '--split'"), (["--split", "train"], "not one of"), (["--layer", "99", "--inspect", "x"], "layer 99"),
    (["--data", "nothing.csv"], "nothing.csv"), (["--data", ""], "--data is empty"), (["--compare", ""], "--compare is empty"),
    (["--inspect", "caf\udce9"], "no UTF-8"), (["--inspect", "x", "--inspect-pair", "y"], "leave the second text out"),
    (["--table", "--data", "x.csv"], "--table does not go with --data"), (["--learning-curve", "--inspect", "x"], "does not go with"),
    (["--data", "x.csv", "--split", "val"], "leave it out with --data")])
def test_mistakes_are_one_sentence_and_no_look(run, args, words):
    with pytest.raises(UserError) as e:
        go(run, *args)
    assert words in str(e.value) and "\n" not in str(e.value)
    assert "test" not in json.loads((run / "metrics.json").read_text())


@pytest.mark.parametrize("args", [[], ["--split", "val"], ["--inspect", "x"], ["--learning-curve"]])
def test_a_run_that_is_being_written_is_not_evaluated(run, args):
    """Else the figures of the old weights would be put beside the new ones."""
    with files.folder_lock(run, "training"), pytest.raises(UserError, match="in use by another process"):
        go(run, *args)
    assert "test" not in json.loads((run / "metrics.json").read_text())
    assert go("--table", run) == 0  # reads only


def test_a_run_named_twice_is_one(run, capsys):
    (run.parent / "link").symlink_to(run)
    assert go("--table", run, f"{run}/", run.parent / "link") == 0
    assert sum("link" in line or str(run) in line for line in capsys.readouterr().out.splitlines()) == 1


def test_no_run_and_a_damaged_run(run, tmp_path):
    with pytest.raises(UserError, match="is no folder"):
        go(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="run.json"):
        go(tmp_path / "empty")
    info = json.loads((run / "run.json").read_text())
    del info["data"]["lengths"]
    (run / "run.json").write_text(json.dumps(info))
    with pytest.raises(UserError, match="data.lengths"):
        go(run)
    with open(run / "model.safetensors", "r+b") as f:
        f.truncate(1000)
    with pytest.raises(UserError, match="model.safetensors"):
        go(run)


def test_exit_status_and_help(run, capsys):
    for args, status in (([str(run), "--nonsense"], 2), (["--help"], 0), ([], 2)):
        with pytest.raises(SystemExit) as e:
            cli.run(evaluate.main, args)
        assert e.value.code == status
    out = capsys.readouterr()
    assert "--slice-col" in out.out and "Traceback" not in out.err


# ── other shapes of the task ─────────────────────────────────────────────────────────────────────────────────────

def quick_run(folder, rows, header, *flags):
    path = write_rows(folder / "data.csv", rows, header)
    out = folder / "run"
    assert train.main(["--data", str(path), "--epochs", "1", "--max-len", "16", "--quiet", "--out", str(out), *flags]) == 0
    return out


def test_too_many_classes_for_a_matrix(tmp_path, monkeypatch):
    """The cells that occur stand in its place, the floors are the majority class, and both are said."""
    rows = [(f"about topic{i} number {j}", f"class {i}", split) for i in range(13) for j, split in enumerate(["train"] * 3 + ["val", "test"])]
    monkeypatch.setattr(metrics, "MOST_CLASSES", 12)
    monkeypatch.setattr(plots, "MOST_LABELS", 12)
    run = quick_run(tmp_path, rows, ("text", "label", "split"))
    go(run)
    for split in ("val", "test"):
        got = json.loads((run / "metrics.json").read_text())[split]
        assert "confusion_matrix" not in got and sum(n for _, _, n in got["confusion_cells"]) == 13 == got["n"]
        assert "majority class" in got["baselines"]["nb"]["note"] and len(got["per_class"]) == 13
        hits, support, called = metrics.class_counts(got)
        assert support.tolist() == [1] * 13 and called.sum() == 13 and hits.sum() == round(13 * got["accuracy"])
    text = (run / "report.md").read_text()
    assert "`confusion_cells`" in text and "confusion_matrix.png" not in text and not (run / "confusion_matrix.png").exists()


def test_150_classes_three_rows_each(tmp_path):
    names = [f"a rather long intent name, number {i} of{' many' * (i % 7)}" for i in range(150)]
    rows = [(f"about topic{i} number {j}", name, split) for i, name in enumerate(names)
            for j, split in enumerate(["train"] * 3 + (["val"] if i % 2 else []) + (["test"] if i % 3 else []))]
    run = quick_run(tmp_path, rows, ("text", "label", "split"))
    go(run)
    got = figures_of(run)
    assert np.shape(got["confusion_matrix"]) == (150, 150) and len(got["per_class"]) == 150
    assert len(got["absent"]) == 50 and got["per_class"][sorted(names)[0]]["support"] in (0, 1)
    assert "50 of 150 classes have no row here" in (run / "report.md").read_text()


def test_25_rows_and_a_class_never_predicted(tmp_path, capsys):
    rows = [(f"text number {i} of the set", "rare" if i % 5 == 0 else "common", split)
            for split, n in (("train", 25), ("val", 5), ("test", 5)) for i in range(n)]
    run = quick_run(tmp_path, rows, ("text", "label", "split"))
    go(run)
    said = capsys.readouterr().out
    assert "only 5 rows" in said
    assert figures_of(run)["n"] == 5
    if figures_of(run)["never_predicted"]:
        assert "never predicted" in said and "never predicted" in (run / "report.md").read_text()


def test_never_predicted_is_a_warning():
    cm = [[950, 0], [50, 0]]
    figures = {"labels": ["no", "yes"], "confusion_matrix": cm, "per_class": metrics.per_class(cm, ["no", "yes"]), "n": 1000}
    found = evaluate.unusual_classes(figures)
    assert found == {"never_predicted": ["yes"], "absent": []}
    warned = report.warnings_of({**figures, **found, "baselines": {}, "macro_f1": 0.4872})
    assert any("never predicted: 'yes'" in w for w in warned)


def test_a_seed_that_learned_nothing_is_named_though_another_is_reported(family, tmp_path, capsys):
    """Case R11: the best seed on validation is seldom the one that failed."""
    home = Path(shutil.copytree(family, tmp_path / "family"))
    best, other = sorted(("seed-1", "seed-2"), key=lambda name: -figures_of(home / name, "val")["macro_f1"])
    model = convert.load_classifier(home / other, say=lambda line: None)
    with torch.no_grad():
        model.head.classifier.bias[0] += 100.0
    convert.save_classifier(model, home / other)
    rows = (home / other / "history.csv").read_text().splitlines()
    (home / other / "history.csv").write_text("\n".join([*rows[:-1], "4,0.75," + rows[-1].split(",", 2)[2]]) + "\n")
    info = checkpoint.load_run(home / other, verify=False).info
    checkpoint.seal_run(home / other, info, list(info["files"]))
    go(home)
    said, written = capsys.readouterr().out, (home / "report.md").read_text()
    assert figures_of(home)["seeds"]["best"] == best and not figures_of(home)["never_predicted"]
    for text in (said, written):
        assert f"{other} never predicts '{model.labels[1]}'" in text and f"the training loss of {other.replace('-', ' ')} ended at 0.750" in text
        assert f"{best} never predicts" not in text


def test_several_labels(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = []
    for split, n in (("train", 120), ("val", 40), ("test", 40)):
        for _ in range(n):
            on = [name for name in ("music", "acting", "price") if rng.random() < 0.4]
            rows.append((f"the {' and '.join(on) or 'rest'} {rng.choice(REST)}", "|".join(on), split))
    run = quick_run(tmp_path, rows, ("text", "label", "split"), "--multi-label")
    go(run)
    got = figures_of(run)
    assert got["multi_label"] and set(got["per_class"]) == {"music", "acting", "price"}
    assert np.shape(got["confusion_matrix"]) == (3, 2, 2) and 0 <= got["micro_f1"] <= 1
    assert got["thresholds"] == json.loads((run / "run.json").read_text())["thresholds"]
    assert got["baselines"]["nb"]["subset_accuracy"] > 0.8
    text = (run / "report.md").read_text()
    assert "subset accuracy" in text and "there, missed" in text and "confusion_matrix.png" in text
    assert "micro-F1" in capsys.readouterr().out


def test_a_tuned_decision_threshold_is_used_and_shown(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(text, "urgent" if label == "positive" and i % 4 == 0 else "routine", split)
            for split, n in (("train", 200), ("val", 80), ("test", 80)) for i, (text, label, *_) in enumerate(reviews(n, split, rng))]
    run = quick_run(tmp_path, rows, ("text", "label", "split"), "--tune-threshold")
    go(run)
    got, tuned = figures_of(run), json.loads((run / "run.json").read_text())["decision_threshold"]
    assert got["decision"]["label"] == tuned["label"] == "urgent" and got["decision"]["threshold"] == tuned["value"]
    at = got["decision"]["at"]["tuned on validation"]
    assert at["macro_f1"] == pytest.approx(got["macro_f1"]) and at["accuracy"] == pytest.approx(got["accuracy"])
    assert "chosen on validation" in (run / "report.md").read_text()


def test_pairs_of_texts(tmp_path):
    rows = [(f"question {i}", f"answer {i % 4}", "yes" if i % 2 else "no", split)
            for split, n in (("train", 40), ("val", 10), ("test", 10)) for i in range(n)]
    run = quick_run(tmp_path, rows, ("a", "b", "label", "split"), "--text-col", "a,b")
    go(run)
    assert figures_of(run)["n"] == 10
    assert figures_of(run)["without_shared"] is None  # every test pair stands in training: no figure without them


def test_no_test_rows(tmp_path):
    rows = [(f"text {i}", "a" if i % 2 else "b", split) for split, n in (("train", 20), ("val", 6)) for i in range(n)]
    run = quick_run(tmp_path, rows, ("text", "label", "split"))
    with pytest.raises(UserError, match="no test rows"):
        go(run)
    assert go(run, "--split", "val") == 0
