"""Nothing lost: runs that are really killed, again and again, end with the same bits as a run left in peace."""

import csv
import itertools
import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import torch
from test_train import csv_file, model_folder, sentences, write_rows  # noqa: F401  (two of them are fixtures)

import train
from minibert import baselines, checkpoint, cli, data, devices
from minibert.cli import UserError

EPOCHS = 3


# ------------------------------------------------------------------------------------------- processes to kill

@pytest.fixture(scope="module", autouse=True)
def warm(csv_file, model_folder, tmp_path_factory):  # noqa: F811
    """One run in this process, so that what torch imports late is there before the forks."""
    train.main(argv(csv_file, model_folder, tmp_path_factory.mktemp("warm") / "run", "--limit", 8, "--epochs", 1, "--quiet"))


def argv(data_file, model, out, *flags):
    """A run of some thirty optimizer steps with a state after each."""
    return ["--data", str(data_file), "--model", str(model), "--out", str(out), "--lr", "1e-3", "--epochs", str(EPOCHS), "--batch-size", "8",
            "--dropout", "0.2", "--attention-dropout", "0.2", "--save-every", "1", *map(str, flags)]


def start(arguments, log, setup=lambda: None):
    """train.py in a fork of this process, which has imported everything: a child costs no seconds. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(out, 1), os.dup2(out, 2)
        import sys
        sys.stdout, sys.stderr = os.fdopen(1, "w", 1, closefd=False), os.fdopen(2, "w", 1, closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        setup()
        cli.run(train.main, arguments)
    except SystemExit as e:
        status = e.code
    finally:
        os._exit(status if isinstance(status, int) else 71)


def end(pid):
    """Exit status, or minus the signal that killed it: 9 after five minutes, so that a hang is a failure and not a hang."""
    for _ in range(30000):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run(arguments, log, setup=lambda: None):
    status = end(start(arguments, log, setup))
    assert status == 0, log.read_text()


def quick_floors():
    """In a child that is to be killed while training: the floors, which every start would fit anew, cost nothing."""
    baselines.floors = lambda *a, **k: ({}, {})


def bf16_anywhere():
    """This machine may only emulate bf16: the arithmetic is the same, only slow."""
    quick_floors()
    devices.cpu_has_bf16 = lambda: True


# ------------------------------------------------------------------------------------------- what a run leaves

def what_is_left(out):
    """Everything a run folder holds by file, timing and memory apart."""
    found = {}
    for path in sorted(p for p in out.rglob("*") if p.is_file() and p.name != ".lock"):
        name = str(path.relative_to(out))
        if path.name == "history.csv":
            with open(path, newline="") as f:
                found[name] = [{k: v for k, v in row.items() if k not in ("seconds", "examples_per_s")} for row in csv.DictReader(f)]
        elif path.name == "run.json":
            info = json.loads(path.read_text())
            for k in ("seconds", "peak_memory_bytes", "git_commit"):
                info.pop(k)
            for k in ("out", "resume", "overwrite"):
                info["flags"].pop(k)
            found[name] = info
        else:
            found[name] = path.read_bytes()
    return found


def same_outcome(out, whole):
    a, b = what_is_left(out), what_is_left(whole)
    assert a.keys() == b.keys()
    for name in a:
        assert a[name] == b[name], f"{name} differs from the run that was never interrupted"


# ------------------------------------------------------------------------------------------- SIGKILL at random moments

KILLED = [
    ("dropout and buckets", 1, ()),
    ("accumulation", 2, ("--batch-size", 4, "--accum", 2, "--class-weights", "balanced")),
    ("two seeds", 3, ("--seeds", 1, 2, "--epochs", 2)),
    ("patience", 4, ("--patience", 1, "--epochs", 5, "--sampler", "balanced", "--label-smoothing", 0.1)),
    ("windows of long texts", 5, ("--truncate", "chunk", "--max-len", 16, "--stride", 4, "--limit", 40, "--head", "native")),
    ("bf16", 6, ("--amp", "bf16", "--limit", 40)),
    ("workers", 7, ("--workers", 1, "--layer-decay", 0.9)),
]
KILLS_EACH = 5  # 35 in all


@pytest.mark.parametrize("name, seed, flags", KILLED, ids=[k[0] for k in KILLED])
def test_killed_at_random_moments(csv_file, model_folder, tmp_path, name, seed, flags):  # noqa: F811
    setup = bf16_anywhere if name == "bf16" else quick_floors
    whole, log = tmp_path / "whole", tmp_path / "log"
    began = time.monotonic()
    run(argv(csv_file, model_folder, whole, *flags), log, setup)
    usual = time.monotonic() - began
    rng = np.random.default_rng(seed)
    kills, rounds = 0, 0
    while kills < KILLS_EACH:
        rounds += 1
        assert rounds <= 10, f"only {kills} kills hit a running process"
        out = tmp_path / f"killed-{rounds}"
        while True:
            pid = start(argv(csv_file, model_folder, out, *flags, *(["--resume"] if out.exists() else [])), log, setup)
            if kills < KILLS_EACH:
                time.sleep(rng.uniform(0, 0.6 * usual))  # later moments come when the run goes on
                os.kill(pid, signal.SIGKILL)  # it is no zombie's pid: we have not waited for it yet
            status = end(pid)
            if status != -signal.SIGKILL:
                assert status == 0, log.read_text()
                break
            kills += 1
        same_outcome(out, whole)


# ------------------------------------------------------------------------------------------- a crash in every write

class Crash:
    """Kill this process just before its n-th call (from 1) of what writes, counted while one of `inside` runs."""

    def __init__(self, n, inside):
        self.n, self.inside, self.active = n, inside, False

    def __call__(self):
        quick_floors()
        for place, name in ((os, "replace"), (os, "fsync"), (os, "unlink"), (torch, "save")):
            setattr(place, name, self.watched(getattr(place, name)))
        for owner, name in self.inside:
            setattr(owner, name, self.during(getattr(owner, name)))

    def during(self, real):
        def call(*args, **kw):
            self.active = True
            try:
                return real(*args, **kw)
            finally:
                self.active = False
        return call

    def watched(self, real):
        def call(*args, **kw):
            self.n -= self.active
            if self.active and self.n == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kw)
        return call


@pytest.mark.parametrize("inside, expected", [
    ([(checkpoint, "save_state"), (checkpoint, "save_best")], 24),
    ([(train, "finish")], 20),
], ids=["while saving a state", "while writing the results"])
def test_killed_before_every_write(csv_file, model_folder, tmp_path, inside, expected):  # noqa: F811
    """Two epochs of one step, the second with a state before and one after validation: every rename, fsync and removal
    is hit once, and --resume ends at the same bits."""
    arguments = lambda out, *more: argv(csv_file, model_folder, out, "--limit", 8, "--epochs", 2, "--save-every", 2, *more)
    log = tmp_path / "log"
    run(arguments(tmp_path / "whole"), log, quick_floors)
    for n in itertools.count(1):
        out = tmp_path / f"killed-{n}"
        status = end(start(arguments(out), log, Crash(n, inside)))
        if status == 0:
            break  # the run has no n-th write
        assert status == -signal.SIGKILL, log.read_text()
        again = end(start(arguments(out, "--resume"), log, quick_floors))
        if again == 2:  # run.json, the last file, was whole, and the state as good as gone
            assert "holds a run that has ended" in log.read_text().splitlines()[-1]
            shutil.rmtree(out / "state", ignore_errors=True)
        else:
            assert again == 0, log.read_text()
        same_outcome(out, tmp_path / "whole")
        shutil.rmtree(out)
    assert n > expected


def test_an_overwriting_run_that_is_killed_keeps_the_old_run_and_goes_on(csv_file, model_folder, tmp_path):  # noqa: F811
    """The old results stay whole and readable until the new run has ended; --resume goes on with the new one."""
    out, log = tmp_path / "run", tmp_path / "log"
    run(argv(csv_file, model_folder, out, "--limit", 16, "--seeds", 1), log, quick_floors)
    before = what_is_left(out)
    run(argv(csv_file, model_folder, tmp_path / "whole", "--limit", 16, "--seeds", 2), log, quick_floors)
    status = end(start(argv(csv_file, model_folder, out, "--limit", 16, "--seeds", 2, "--overwrite"), log,
                       Crash(9, [(checkpoint, "save_state")])))
    assert status == -signal.SIGKILL
    assert {k: v for k, v in what_is_left(out).items() if not k.startswith("state/")} == before
    assert checkpoint.load_run(out).info["seed"] == 1
    run(argv(csv_file, model_folder, out, "--limit", 16, "--seeds", 2, "--resume"), log, quick_floors)
    same_outcome(out, tmp_path / "whole")


# ------------------------------------------------------------------------------------------- asked to stop

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_finishes_the_step_saves_and_says_how_to_go_on(csv_file, model_folder, tmp_path, number):  # noqa: F811
    out, whole = tmp_path / "run", tmp_path / "whole"
    run(argv(csv_file, model_folder, whole), tmp_path / "log", quick_floors)

    def ask_in_step(n):
        """The signal arrives in the n-th forward pass of a training step; a state is not due."""
        def setup():
            quick_floors()
            real, calls = train.loss_sum, [0]

            def loss_sum(*args):
                calls[0] += 1
                if calls[0] == n:
                    os.kill(os.getpid(), number)
                    os.kill(os.getpid(), number)  # torchrun passes on what the terminal has sent already
                return real(*args)
            train.loss_sum = loss_sum
        return setup

    common = argv(csv_file, model_folder, out, "--save-every", 1000)
    for more, n, step in (([], 4, 4), (["--resume"], 5 + 1, None), (["--resume"], 2, None)):
        log = tmp_path / f"log-{n}"
        assert end(start(common + more, log, ask_in_step(n))) == 130, log.read_text()
        last = log.read_text().splitlines()[-1]
        assert last.startswith("interrupted: the state after optimizer step") and "--resume" in last and str(out) in last
        assert step is None or f"step {step} " in last
        assert "Traceback" not in log.read_text()
    run(common + ["--resume"], tmp_path / "log", quick_floors)
    a, b = what_is_left(out), what_is_left(whole)
    a["run.json"]["flags"].pop("save_every"), b["run.json"]["flags"].pop("save_every")
    assert a == b


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["in a step", "as the workers start"])
def test_a_signal_to_the_whole_group_spares_the_workers_until_the_step_is_done(csv_file, model_folder, tmp_path, number, when):  # noqa: F811
    """Ctrl-C in a terminal, and `kill` of a process group: the data loader's workers get the signal too."""
    out, whole = tmp_path / "run", tmp_path / "whole"

    def setup():
        quick_floors()
        os.setsid()  # a group of its own
        real, calls = train.loss_sum, [0]

        def loss_sum(*args):
            calls[0] += 1
            if calls[0] == 4:
                # By another process: its parent's SIGTERM a worker takes for a friendly end.
                subprocess.run(["kill", f"-{int(number)}", "--", f"-{os.getpid()}"], start_new_session=True, check=True)
                time.sleep(0.5)  # a worker that dies is noticed within this step
            return real(*args)

        if when == "in a step":
            train.loss_sum = loss_sum
            return
        import multiprocessing.process
        born = multiprocessing.process.BaseProcess._bootstrap
        multiprocessing.process.BaseProcess._bootstrap = lambda self, *a, **k: os.killpg(0, number) or born(self, *a, **k)  # a worker's first act

    common = argv(csv_file, model_folder, out, "--workers", 2)
    log = tmp_path / "log"
    assert end(start(common, log, setup)) == 130, log.read_text()
    last = log.read_text().splitlines()[-1]
    assert last.startswith("interrupted: the state after optimizer step") and "Traceback" not in log.read_text()
    run(common + ["--resume"], log, quick_floors)
    run(argv(csv_file, model_folder, whole, "--workers", 2), log, quick_floors)
    same_outcome(out, whole)


def test_asked_to_stop_during_validation(csv_file, model_folder, tmp_path):  # noqa: F811
    """The epoch's state is saved anyway, so no further step is needed; also after the last epoch."""
    out, whole, log = tmp_path / "run", tmp_path / "whole", tmp_path / "log"
    run(argv(csv_file, model_folder, whole, "--epochs", 1), log, quick_floors)

    def setup():
        quick_floors()
        real = train.val_figures

        def val_figures(*args):
            os.kill(os.getpid(), signal.SIGTERM)
            return real(*args)
        train.val_figures = val_figures

    assert end(start(argv(csv_file, model_folder, out, "--epochs", 1), log, setup)) == 130
    assert checkpoint.load_state(out)["epoch"] == 2 and not checkpoint.finished(out)
    run(argv(csv_file, model_folder, out, "--epochs", 1, "--resume"), log, quick_floors)
    same_outcome(out, whole)


def test_asked_to_stop_before_training(csv_file, model_folder, tmp_path):  # noqa: F811
    def setup():
        train.prepare = lambda *a: os.kill(os.getpid(), signal.SIGTERM) or time.sleep(10)
    log = tmp_path / "log"
    assert end(start(argv(csv_file, model_folder, tmp_path / "run"), log, setup)) == 130
    assert "\ninterrupted: " in "\n" + log.read_text() and "Traceback" not in log.read_text()


def test_a_second_wish_to_stop_ends_it_at_once(csv_file, model_folder, tmp_path):  # noqa: F811
    def setup():
        quick_floors()

        def loss_sum(*args):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(2.1)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(20)
        train.loss_sum = loss_sum
    log = tmp_path / "log"
    assert end(start(argv(csv_file, model_folder, tmp_path / "run"), log, setup)) == 130
    assert not checkpoint.has_state(tmp_path / "run") and "Traceback" not in log.read_text()


# ------------------------------------------------------------------------------------------- what is not resumed

@pytest.fixture(scope="module")
def stopped(csv_file, model_folder, tmp_path_factory):  # noqa: F811
    """A run folder with a state after the first of two epochs."""
    folder = tmp_path_factory.mktemp("stopped")

    def setup():
        quick_floors()
        real = checkpoint.save_state
        checkpoint.save_state = lambda out, state: real(out, state) or os.kill(os.getpid(), signal.SIGTERM)

    common = argv(csv_file, model_folder, folder / "run", "--limit", 16, "--epochs", 2, "--save-every", 1000)
    assert end(start(common, folder / "log", setup)) == 130, (folder / "log").read_text()
    return folder / "run"


@pytest.fixture
def resume(stopped, csv_file, model_folder, tmp_path, monkeypatch):  # noqa: F811
    """resume(*flags) goes on with a copy of the stopped run in this process; resume.out is its folder."""
    monkeypatch.setattr(baselines, "floors", lambda *a, **k: ({}, {}))
    shutil.copytree(stopped, tmp_path / "copy")

    def go(*flags, data_file=csv_file):
        return train.main(argv(data_file, model_folder, tmp_path / "copy", "--limit", 16, "--epochs", 2, "--save-every", 1000, "--resume",
                               *flags))
    go.out = tmp_path / "copy"
    return go


@pytest.mark.parametrize("flags, words", [
    (["--lr", "2e-3"], "--lr was '0.001', is '0.002'"),
    (["--epochs", "3"], "--epochs was '2', is '3'"),
    (["--seeds", "7"], "--seeds was '[42]', is '[7]'"),
    (["--batch-size", "16"], "batch size x accum x processes was 8, is 16"),
    (["--dropout", "0"], "--dropout"),
    (["--max-len", "20"], "--max-len"),
    (["--head", "native"], "--head was 'linear', is 'native'"),
    (["--limit", "24"], "--limit was '16', is '24'"),
])
def test_a_state_of_other_flags_is_refused_with_the_difference(resume, flags, words):
    before = {p: p.read_bytes() for p in resume.out.rglob("*") if p.is_file()}
    with pytest.raises(UserError) as e:
        resume(*flags)
    assert words in str(e.value) and "\n" not in str(e.value)
    assert before == {p: p.read_bytes() for p in resume.out.rglob("*") if p.is_file()}


def test_a_state_of_other_data_is_refused(resume, tmp_path, csv_file):  # noqa: F811
    """The same path with one word changed, in the training rows."""
    kept = csv_file.read_text()
    try:
        write_rows(csv_file, [(t.replace("lovely", "charming"), label) for t, label in sentences(90)])
        with pytest.raises(UserError, match="train data was '[0-9a-f]+', is '[0-9a-f]+'"):
            resume()
    finally:
        csv_file.write_text(kept)


def test_a_state_of_another_version_is_refused(resume, monkeypatch):
    monkeypatch.setattr(train, "versions", lambda: {"minibert": "99.0", "torch": str(torch.__version__)})
    with pytest.raises(UserError, match=f"minibert version was '{train.minibert.__version__}', is '99.0'"):
        resume()


@pytest.mark.parametrize("file, harm, words", [
    ("state-*.pt", "cut", "missing, cut or altered"),
    ("state-*.pt", "alter", "missing, cut or altered"),
    ("state-*.pt", "remove", "missing, cut or altered"),
    ("best-*.safetensors", "cut", "the best epoch is lost"),
    ("best-*.safetensors", "alter", "the best epoch is lost"),
    ("best-*.safetensors", "remove", "the best epoch is lost"),
    ("state.json", "cut", "not valid JSON"),
    ("state.json", "empty", "not valid JSON"),
    ("state.json", "{}", "another format"),
    ("state.json", "[]", "another format"),
    ("state.json", '{"format": 99}', "another format"),
])
def test_a_damaged_state_is_refused(resume, file, harm, words):
    path, = (resume.out / "state").glob(file)
    content = bytearray(path.read_bytes())
    if harm == "remove":
        path.unlink()
    elif harm == "alter":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    else:
        path.write_bytes({"cut": content[:len(content) // 2], "empty": b""}.get(harm, harm.encode()))
    with pytest.raises(UserError, match=words) as e:
        resume()
    assert str(path) in str(e.value) and "--overwrite" in str(e.value) or "damaged" in str(e.value)
    assert not checkpoint.finished(resume.out)


def test_a_state_moved_elsewhere_goes_on(stopped, resume, csv_file, model_folder, tmp_path):  # noqa: F811
    moved = tmp_path / "a" / "new place"
    moved.parent.mkdir()
    shutil.copytree(stopped, moved)
    train.main(argv(csv_file, model_folder, moved, "--limit", 16, "--epochs", 2, "--save-every", 3, "--workers", 1, "--quiet", "--resume"))
    resume()
    a, b = what_is_left(moved), what_is_left(resume.out)
    for flag in ("save_every", "workers", "quiet"):
        a["run.json"]["flags"].pop(flag), b["run.json"]["flags"].pop(flag)
    assert a == b


def test_a_run_that_has_ended_says_so(resume):
    assert resume() == 0
    kept = what_is_left(resume.out)
    with pytest.raises(UserError, match="holds a run that has ended"):  # exit status 2
        resume()
    assert what_is_left(resume.out) == kept


def test_other_batches_of_the_same_product_go_on_to_rounding(stopped, resume):
    assert resume("--batch-size", 4, "--accum", 2) == 0
    info = json.loads((resume.out / "run.json").read_text())
    assert info["effective_batch"] == 8 and info["flags"]["accum"] == 2


def test_a_seed_that_ended_with_other_flags_is_not_taken_for_this_familys(csv_file, model_folder, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(baselines, "floors", lambda *a, **k: ({}, {}))
    family = lambda *more: train.main(argv(csv_file, model_folder, tmp_path / "run", "--limit", 8, "--epochs", 1, *more))
    assert family("--seeds", 1, 2) == 0
    before = what_is_left(tmp_path / "run")
    assert family("--seeds", 1, 2, 3, "--resume") == 0  # one more seed for the family
    assert {k: v for k, v in what_is_left(tmp_path / "run").items() if "seed-3" not in k} == before
    with pytest.raises(UserError, match="--lr was '0.001', is '0.002'"):
        family("--seeds", 1, 2, 3, 4, "--resume", "--lr", "2e-3")


def test_the_wiring_check_leaves_a_state_alone(stopped, resume, csv_file, model_folder, monkeypatch):  # noqa: F811
    before = {p.name: p.read_bytes() for p in (resume.out / "state").iterdir()}
    monkeypatch.setattr(train, "OVERFIT_EPOCHS", 1)
    train.main(argv(csv_file, model_folder, resume.out, "--overfit", 8))
    assert before == {p.name: p.read_bytes() for p in (resume.out / "state").iterdir()}


# ------------------------------------------------------------------------------------------- what a state may hold

def test_a_state_holds_plain_values_and_comes_back_as_it_was(tmp_path):
    """Case R13: what the safe loader would refuse is refused when it is written."""
    parameter = torch.nn.Parameter(torch.randn(3))
    optimizer = torch.optim.AdamW([parameter])
    parameter.sum().backward()
    optimizer.step()
    state = {"epoch": 2, "window": 5, "step": 9, "best_file": None, "best_macro_f1": 0.1 + 0.2, "history": [[1, 0.5]], "scaler": {},
             "optimizer": optimizer.state_dict(), "model": {"p": parameter.detach()}}
    checkpoint.save_state(tmp_path, state)
    back = checkpoint.load_state(tmp_path)
    assert back["best_macro_f1"] == 0.1 + 0.2 and torch.equal(back["model"]["p"], parameter)
    assert torch.equal(back["optimizer"]["state"][0]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"])
    for wrong in (np.float64(0.5), tmp_path, {1, 2}):
        with pytest.raises(TypeError):
            checkpoint.save_state(tmp_path, {**state, "metric": wrong})
    assert checkpoint.load_state(tmp_path)["epoch"] == 2


def test_the_state_before_stays_until_the_next_is_whole(tmp_path, monkeypatch):
    first = {"epoch": 1, "window": 1, "step": 1, "best_file": None}
    checkpoint.save_state(tmp_path, first)

    def fails(*args, **kw):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(torch, "save", fails)
    with pytest.raises(UserError, match="the disk is full"):
        checkpoint.save_state(tmp_path, {**first, "window": 2})
    assert checkpoint.load_state(tmp_path)["window"] == 1
    assert {p.suffix for p in (tmp_path / "state").iterdir()} == {".pt", ".json"}
    monkeypatch.undo()
    checkpoint.save_state(tmp_path, {**first, "window": 2})
    assert len(list((tmp_path / "state").iterdir())) == 2
    checkpoint.clear_state(tmp_path)
    assert not (tmp_path / "state").exists()
