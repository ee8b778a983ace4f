"""Disks that are full or read-only, files that were cut or altered: one sentence, and what was there stays."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from test_train import csv_file, model_folder, run, sentences, write_rows  # noqa: F401  (two of them are fixtures)

import evaluate
import serve
import train
from minibert import baselines, checkpoint, cli, convert, files, predictor
from minibert.cli import UserError

EVERY_FILE = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]


class Served(Exception):
    """The server would have started."""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No floors, and a server that would start ends here instead."""
    def warm_up(predictor):
        raise Served
    monkeypatch.setattr(serve, "warm_up", warm_up)
    monkeypatch.setattr(baselines, "floors", lambda *a, **k: ({}, {}))


@pytest.fixture(scope="module")
def whole(csv_file, model_folder, tmp_path_factory):  # noqa: F811
    """A finished run, which tests copy before they harm it."""
    out = tmp_path_factory.mktemp("whole") / "run"
    run(csv_file, model_folder, out, "--limit", 16, "--epochs", 1, "--head", "native")
    return out


def content(folder):
    """Every file by relative path, the lock apart."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and p.name != ".lock"}


def one_sentence(error):
    text = str(error.value)
    assert text.endswith(".") and "\n" not in text and "Errno" not in text
    return text


# ------------------------------------------------------------------------------------------- disks

@pytest.fixture
def small_disk(tmp_path):
    """small_disk(bytes) mounts a real disk of that size; skipped where only an administrator may."""
    mounted = []

    def mount(size, *options):
        where = tmp_path / f"disk-{len(mounted)}"
        where.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", where], capture_output=True)
        if made.returncode:
            pytest.skip("mounting a small disk needs an administrator: " + made.stderr.decode().strip())
        mounted.append(where)
        return where
    yield mount
    for where in mounted:
        subprocess.run(["umount", where], check=True)


@pytest.mark.parametrize("spared", [0, 16 << 10, 64 << 10, 144 << 10, 224 << 10])
def test_a_full_disk_ends_in_a_sentence_and_leaves_whole_files(csv_file, model_folder, small_disk, spared):  # noqa: F811
    """Wherever in the run the space ends, nothing half-written stays, and with space again --resume ends the run."""
    disk = small_disk("1m")
    (disk / "run").mkdir()
    ballast = disk / "ballast"
    ballast.write_bytes(bytes((1 << 20) - spared - (16 << 10)))
    flags = ("--limit", 16, "--epochs", 2, "--save-every", 1)
    with pytest.raises(UserError, match="the disk is full; free some space") as e:
        run(csv_file, model_folder, disk / "run", *flags)
    one_sentence(e)
    assert not [p for p in (disk / "run").rglob("*.tmp")]
    if checkpoint.has_state(disk / "run"):
        checkpoint.load_state(disk / "run")
    ballast.unlink()
    run(csv_file, model_folder, disk / "run", *flags, "--resume")
    checkpoint.load_run(disk / "run")


def test_a_full_disk_leaves_the_run_that_was_to_be_replaced(csv_file, model_folder, whole, small_disk):  # noqa: F811
    disk = small_disk("1m")
    shutil.copytree(whole, disk / "run")
    before = content(disk / "run")
    free = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_bsize - (40 << 10)))
    with pytest.raises(UserError, match="the disk is full"):
        run(csv_file, model_folder, disk / "run", "--limit", 16, "--epochs", 1, "--overwrite")
    assert {k: v for k, v in content(disk / "run").items() if not k.startswith("state/")} == before
    checkpoint.load_run(disk / "run")


def test_a_read_only_disk(csv_file, model_folder, whole, small_disk):  # noqa: F811
    disk = small_disk("2m")
    shutil.copytree(whole, disk / "run")
    before = content(disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    for out in ("run", "new", "new/deep"):
        with pytest.raises(UserError, match="read-only; choose another folder") as e:
            run(csv_file, model_folder, disk / out, "--limit", 16, "--epochs", 1, "--overwrite")
        one_sentence(e)
    assert content(disk / "run") == before
    assert predictor.Predictor(disk / "run").predict(["the film was warm"])  # reading needs no lock and no write


@pytest.mark.parametrize("number, words", [
    (errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "quota"), (errno.EROFS, "read-only"), (errno.EACCES, "permission denied"),
    (errno.EPERM, "permission denied"), (errno.ENAMETOOLONG, "too long")])
@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_storage_faults_in_words(tmp_path, monkeypatch, number, words, step):
    (tmp_path / "file").write_text("before")

    def fails(*args, **kw):
        raise OSError(number, os.strerror(number))
    monkeypatch.setattr("builtins.open" if step == "open" else f"os.{step}", fails)
    with pytest.raises(UserError, match=words):
        files.write_atomic(tmp_path / "file", "after")
    monkeypatch.undo()
    assert (tmp_path / "file").read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_fault_that_is_not_the_disks_is_no_storage_fault(tmp_path):
    def broken(temp):
        raise KeyError("a bug")
    with pytest.raises(KeyError):
        files.write_atomic(tmp_path / "file", broken)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", ["file", "file/below", "x" * 300])
def test_no_folder_can_be_there(csv_file, model_folder, tmp_path, out):  # noqa: F811
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose") as e:
        run(csv_file, model_folder, tmp_path / out)
    assert str(tmp_path) in one_sentence(e)


# ------------------------------------------------------------------------------------------- damaged run folders

def use_predictor(folder, tmp_path):
    return predictor.main([str(folder), str(write_rows(tmp_path / "rows.csv", sentences(3)))])


def use_evaluate(folder, tmp_path):
    return evaluate.main([str(folder), "--quiet"])


def use_serve(folder, tmp_path):
    return serve.main([str(folder), "--port", "0"])


def use_convert(folder, tmp_path):
    return convert.main([str(folder), str(tmp_path / "exported")]) or 0


USERS = [use_predictor, use_evaluate, use_serve, use_convert]


def cut(path):
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])


def alter(path):
    """One bit in the middle: still of the right length and often still well-formed."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def empty(path):
    path.write_bytes(b"")


def remove(path):
    path.unlink()


@pytest.mark.parametrize("use", USERS, ids=lambda f: f.__name__[4:])
@pytest.mark.parametrize("file", [*EVERY_FILE, "run.json"])
def test_a_damaged_file_is_named_by_every_reader(whole, tmp_path, use, file):
    for harm in (cut, alter, empty, remove):
        if file == "run.json" and harm is alter:
            continue  # it holds the checksums of the others and has none itself
        folder = tmp_path / harm.__name__
        shutil.copytree(whole, folder)
        harm(folder / file)
        before = content(folder)
        with pytest.raises(UserError) as e:
            use(folder, tmp_path)
        text = one_sentence(e)
        assert file in text and str(folder) in text
        assert content(folder) == before and not (tmp_path / "exported").exists()


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"files": []}', '{"files": {"../../etc/passwd": "0"}}', '{"files": {}}'])
@pytest.mark.parametrize("use", USERS, ids=lambda f: f.__name__[4:])
def test_a_run_json_of_something_else(whole, tmp_path, use, text):
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text(text)
    with pytest.raises(UserError) as e:
        use(tmp_path / "run", tmp_path)
    one_sentence(e)


@pytest.mark.parametrize("text", ['{"val": ', "[]", '{"val": 3}', "\\xff"])
def test_damaged_figures_are_named_by_who_needs_them(whole, tmp_path, text):
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "metrics.json").write_text(text)
    with pytest.raises(UserError) as e:
        use_evaluate(tmp_path / "run", tmp_path)
    assert "metrics.json" in one_sentence(e)
    assert use_predictor(tmp_path / "run", tmp_path) == 0  # it needs none of them


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_model_folder_is_named_before_training(csv_file, model_folder, tmp_path, file):  # noqa: F811
    shutil.copytree(model_folder, tmp_path / "model")
    cut(tmp_path / "model" / file)
    with pytest.raises(UserError) as e:
        run(csv_file, tmp_path / "model", tmp_path / "run")
    assert file in one_sentence(e)
    assert not checkpoint.has_state(tmp_path / "run") and not checkpoint.finished(tmp_path / "run")


def test_an_unfinished_run_is_no_run(csv_file, model_folder, tmp_path, monkeypatch):  # noqa: F811
    def stop(*args):
        raise UserError("stop")
    monkeypatch.setattr(train, "finish", stop)
    with contextlib.suppress(UserError):
        run(csv_file, model_folder, tmp_path / "run", "--limit", 16, "--epochs", 1)
    for use in USERS:
        with pytest.raises(UserError, match="has not ended.*--resume"):
            use(tmp_path / "run", tmp_path)


# ------------------------------------------------------------------------------------------- places

def test_a_run_folder_moved_elsewhere_is_the_same_run(whole, tmp_path):
    moved = tmp_path / "a new" / "place"
    shutil.copytree(whole, moved)
    texts = [t for t, _ in sentences(4)]
    here, there = predictor.Predictor(whole), predictor.Predictor(moved)
    assert torch.equal(torch.as_tensor(here.logits(texts)), torch.as_tensor(there.logits(texts)))
    assert evaluate.main([str(moved), "--quiet"]) == 0
    assert use_convert(moved, tmp_path) == 0
    assert json.loads((moved / "metrics.json").read_text())["test"]["n"] == 9


def test_the_lock_ends_with_its_holder_and_is_not_inherited(tmp_path):
    """A data loader's worker that outlives its killed parent must not keep the folder locked."""
    read, write = os.pipe()
    runs, started = os.pipe()
    with files.folder_lock(tmp_path, "a training run"):
        pid = os.fork()
        if pid == 0:
            os.write(started, b"x")
            os.read(read, 1)  # a worker that lives on
            os._exit(0)
        os.read(runs, 1)
        with pytest.raises(UserError, match="in use by another process"):
            with files.folder_lock(tmp_path, "a training run"):
                pass
    with files.folder_lock(tmp_path, "a training run"):
        pass
    os.write(write, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_used_without_one_and_said_so(tmp_path, monkeypatch, capsys, number):
    def flock(*args):
        raise OSError(number, os.strerror(number))
    monkeypatch.setattr(files.fcntl, "flock", flock)
    ran = []
    with files.folder_lock(tmp_path / "run", "a training run"):
        ran.append(True)
    said = capsys.readouterr().err
    assert ran and said.startswith("warning: ") and "has no locks" in said and said.count("\n") == 1 and str(tmp_path / "run") in said


def test_a_full_token_cache_only_costs_time(csv_file, model_folder, tmp_path, monkeypatch):  # noqa: F811
    from minibert import data
    monkeypatch.setattr(data, "CACHED_FROM", 0)
    monkeypatch.setenv("MINIBERT_CACHE", str(tmp_path / "file"))
    Path(tmp_path / "file").write_text("a file where the cache's folder should be")
    run(csv_file, model_folder, tmp_path / "run", "--limit", 16, "--epochs", 1)
    assert checkpoint.finished(tmp_path / "run")


@pytest.mark.parametrize("path, words", [("/proc/none/x", "no folder can be made there"), ("/tmp/\0x/x", "holds a NUL")])
def test_a_path_where_nothing_can_be_made_is_one_sentence(path, words):
    with pytest.raises(UserError, match=words):
        files.write_atomic(path, "x")


def test_a_file_over_the_size_limit_and_a_full_standard_output_are_one_sentence(tmp_path):
    import subprocess, sys
    from pathlib import Path
    root = Path(__file__).resolve().parent.parent
    code = ("import resource, signal, sys; from minibert import cli, files; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
            f"cli.run(lambda argv: files.write_atomic({str(tmp_path / 'x')!r}, 'x' * 5000), [])")
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: cannot write") and done.stderr.count("\n") == 1, done.stderr
    assert not any(tmp_path.iterdir())
    if not Path("/dev/full").exists():
        return
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", "from minibert import cli; cli.run(lambda argv: print('x'), [])"], cwd=root,
                              stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and done.stderr == "error: what is printed cannot be written (No space left on device); free some space.\n"


def test_a_run_that_lost_its_record_is_no_published_model(whole, tmp_path):
    """It would answer without temperature, thresholds and --max-len; an exported folder has none of a run's other files."""
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(UserError, match="has no run.json"):
        predictor.Predictor(tmp_path / "run")


def test_a_folder_where_a_file_goes_ends_training_in_a_sentence(csv_file, model_folder, tmp_path):  # noqa: F811
    (tmp_path / "run" / "run.json").mkdir(parents=True)
    with pytest.raises(UserError, match="run: a folder stands where the file should go"):
        run(csv_file, model_folder, tmp_path / "run", "--limit", 16, "--epochs", 1, "--resume")


@pytest.mark.parametrize("harm", [remove, empty, cut, lambda path: (path.unlink(), path.mkdir()), lambda path: (path.unlink(), os.mkfifo(path))],
                         ids=["remove", "empty", "cut", "folder", "pipe"])
@pytest.mark.parametrize("file", ["history.csv", "metrics.json", "report.md", "reliability.png"])
def test_what_the_report_needs_is_looked_at_before_the_test_set(whole, tmp_path, monkeypatch, file, harm):
    shutil.copytree(whole, tmp_path / "run")
    for old in ("report.md", "reliability.png"):
        (tmp_path / "run" / old).write_text("an old report's")
    harm(tmp_path / "run" / file)
    if harm in (remove, empty, cut) and file in ("report.md", "reliability.png") or harm is remove and file == "metrics.json":
        return  # it is made anew
    monkeypatch.setattr(evaluate, "predict", lambda *a, **k: pytest.fail("the rows were looked at"))
    with pytest.raises(UserError, match=file):
        use_evaluate(tmp_path / "run", tmp_path)


def test_a_nearly_full_disk_does_not_cost_the_look(whole, small_disk, monkeypatch):
    disk = small_disk("3m")
    shutil.copytree(whole, disk / "run")
    (disk / "ballast").write_bytes(bytes(shutil.disk_usage(disk).free - (1 << 20)))
    monkeypatch.setattr(evaluate, "predict", lambda *a, **k: pytest.fail("the rows were looked at"))
    with pytest.raises(UserError, match="less than 2 MiB left"):
        use_evaluate(disk / "run", disk)


@pytest.mark.parametrize("script", ["evaluate", "serve", "predictor", "convert", "train"])
def test_a_path_that_the_system_refuses_is_a_sentence(tmp_path, capfd, script):
    """Whatever was to be done with it: permission denied and the like, which an administrator's tests cannot meet, too."""
    name = str(tmp_path / ("x" * 300))
    arguments = {"predictor": [name, name], "convert": [name, name], "train": ["--data", name, "--out", name]}.get(script, [name])
    with pytest.raises(SystemExit) as e:
        cli.run({"evaluate": evaluate, "serve": serve, "predictor": predictor, "convert": convert, "train": train}[script].main, arguments)
    said = capfd.readouterr().err
    assert e.value.code == 2 and said.startswith("error: ") and said.count("\n") == 1


def test_a_closed_file_is_named_with_what_became_of_the_look(tmp_path, capfd):
    def main(argv):
        e = PermissionError(13, "Permission denied", "run/config.json")
        e.add_note("the look at the test set was counted.")
        raise e
    with pytest.raises(SystemExit) as e:
        cli.run(main, [])
    assert e.value.code == 2 and capfd.readouterr().err == (
        "error: run/config.json cannot be opened (Permission denied); the look at the test set was counted; check the path and its permissions.\n")
