"""Several processes are one: same losses, same weights, same decisions; and when one dies, all end.

Most tests fork their processes with the variables that torchrun sets, which costs no import; the rest use torchrun.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch._dynamo  # noqa: F401  (DistributedDataParallel imports it when it is made: once here, not in every fork)
from test_resume import argv, end, quick_floors, same_outcome, start, warm  # noqa: F401  (warm is a fixture)
from test_train import ROOT, csv_file, history, model_folder, same_weights, sentences, write_rows  # noqa: F401

import train
from minibert import checkpoint, devices
from minibert.config import EncoderConfig
from minibert.convert import save_classifier
from minibert.model import Classifier
from minibert.tokenization import train_wordpiece

NO_DROPOUT = ("--dropout", 0, "--attention-dropout", 0)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def launch(arguments, logs, setup=lambda rank: None, world=2):
    """train.py in `world` forked processes; their pids by rank. Each writes to logs-RANK."""
    port = free_port()

    def begin(rank):
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        quick_floors()
        setup(rank)
    return [start(arguments, Path(f"{logs}-{rank}"), lambda: begin(rank)) for rank in range(world)]


def together(arguments, logs, setup=lambda rank: None, world=2):
    """Exit statuses of `launch`, by rank."""
    return [end(pid) for pid in launch(arguments, logs, setup, world)]


def said(logs, rank):
    return Path(f"{logs}-{rank}").read_text()


def alone(arguments, log):
    assert end(start(arguments, log, quick_floors)) == 0, log.read_text()


# ------------------------------------------------------------------------------------------- the same run

@pytest.mark.parametrize("rows, two, common", [
    (72, ("--batch-size", 4), ()),                                            # whole windows
    (65, ("--batch-size", 4), ("--class-weights", "balanced")),               # the last window has one row, for two processes
    (71, ("--batch-size", 2, "--accum", 2), ("--class-weights", "balanced", "--label-smoothing", 0.1)),
    (45, ("--batch-size", 1, "--accum", 4), ("--truncate", "chunk", "--max-len", 16, "--stride", 4, "--head", "native")),
], ids=["whole windows", "a row for two", "accumulation", "windows of texts"])
def test_two_processes_are_one(csv_file, model_folder, tmp_path, rows, two, common):  # noqa: F811
    common = (*NO_DROPOUT, "--limit", rows, "--epochs", 2, *common)
    alone(argv(csv_file, model_folder, tmp_path / "one", *common), tmp_path / "log")
    assert together(argv(csv_file, model_folder, tmp_path / "two", *common, *two), tmp_path / "log") == [0, 0], said(tmp_path / "log", 1)
    a, b = history(tmp_path / "one"), history(tmp_path / "two")
    assert len(a) == len(b) == 2
    for mine, theirs in zip(a, b):
        for figure in ("train_loss", "val_loss", "lr"):
            assert mine[figure] == pytest.approx(theirs[figure], abs=1e-5)
        assert (mine["val_accuracy"], mine["val_macro_f1"]) == (theirs["val_accuracy"], theirs["val_macro_f1"])
    same_weights(tmp_path / "one", tmp_path / "two", 1e-4)
    one, both = (json.loads((tmp_path / n / "run.json").read_text()) for n in ("one", "two"))
    assert one["effective_batch"] == both["effective_batch"] == 8
    assert one["best_epoch"] == both["best_epoch"]


def test_several_labels_in_two_processes(model_folder, tmp_path):  # noqa: F811
    rows = [(t, "|".join(n for n in ("film", "plot", "cast") if n in t)) for t, _ in sentences(60)]
    path = write_rows(tmp_path / "several.csv", rows)
    common = (*NO_DROPOUT, "--multi-label", "--limit", 43, "--epochs", 1)
    alone(argv(path, model_folder, tmp_path / "one", *common), tmp_path / "log")
    assert together(argv(path, model_folder, tmp_path / "two", *common, "--batch-size", 4), tmp_path / "log") == [0, 0]
    assert history(tmp_path / "one")[0]["train_loss"] == pytest.approx(history(tmp_path / "two")[0]["train_loss"], abs=1e-5)
    same_weights(tmp_path / "one", tmp_path / "two", 1e-4)


def watch(folder, overflow=False):
    """Each process notes, before every window, a digest of its parameters, and counts gradient exchanges."""
    def setup(rank):
        notes, exchanges = [], [0]
        real = train.set_lr

        def set_lr(optimizer, factor):
            notes.append([exchanges[0], *(float(p.double().sum()) for g in optimizer.param_groups for p in g["params"])])
            (folder / f"notes-{rank}.json").write_text(json.dumps(notes))
            real(optimizer, factor)
        train.set_lr = set_lr

        class Watched(torch.nn.parallel.DistributedDataParallel):
            def __init__(self, model, **kw):
                super().__init__(model, **kw)
                from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

                def counted(state, bucket):
                    exchanges[0] += bucket.is_last()
                    return allreduce_hook(state, bucket)
                self.register_comm_hook(None, counted)
                if overflow and rank == 1:
                    spoiled = []
                    first = next(p for p in model.parameters() if p.requires_grad)
                    first.register_hook(lambda g: g if spoiled else spoiled.append(1) or g * float("inf"))
        train.DistributedDataParallel = Watched
        if overflow:
            devices.make_scaler = lambda device, precision: torch.amp.GradScaler("cpu", init_scale=1024.0)
    return setup


@pytest.mark.parametrize("overflow", [False, True], ids=["fp32", "a skipped step with loss scaling"])
def test_parameters_are_the_same_everywhere_and_exchanged_once_a_step(csv_file, model_folder, tmp_path, overflow):  # noqa: F811
    """Case P3, with dropout on, accumulation and a last window of one row; overflow: on rank 1 alone, in the first step."""
    flags = ("--limit", 57, "--batch-size", 2, "--accum", 2, "--epochs", 2)
    assert together(argv(csv_file, model_folder, tmp_path / "run", *flags), tmp_path / "log", watch(tmp_path, overflow)) == [0, 0]
    one, two = (json.loads((tmp_path / f"notes-{rank}.json").read_text()) for rank in (0, 1))
    assert one == two
    steps = 2 * 8
    assert [n[0] for n in one] == list(range(steps))
    moved = [a[1:] != b[1:] for a, b in zip(one, one[1:])]
    assert moved == [False, not overflow] + [True] * (steps - 3)  # the first step has rate 0; a skipped one is made up for later


@pytest.mark.parametrize("family, head", [("bert", "linear"), ("roberta", "native"), ("distilbert", "native")])
def test_parameters_without_a_gradient_are_not_waited_for(csv_file, tmp_path, family, head):  # noqa: F811
    """Case P4: BERT's pooler under a linear head, and families without one, without find_unused_parameters."""
    tokenizer = train_wordpiece([t for t, _ in sentences(100, 1)], vocab_size=100)
    config = EncoderConfig(model_type=family, vocab_size=tokenizer.vocab_size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                           intermediate_size=32, max_position_embeddings=64, pad_token_id=tokenizer.pad_id,
                           type_vocab_size={"bert": 2, "roberta": 1, "distilbert": 0}[family])
    model = Classifier(config, 2, "native")
    model.labels, model.problem_type = ["bad", "good"], "single_label_classification"
    save_classifier(model, tmp_path / "model")
    tokenizer.save(tmp_path / "model")
    flags = ("--limit", 32, "--epochs", 1, "--head", head, "--batch-size", 4)
    assert together(argv(csv_file, tmp_path / "model", tmp_path / "run", *flags), tmp_path / "log") == [0, 0], said(tmp_path / "log", 0)
    from safetensors import safe_open
    with safe_open(tmp_path / "run" / "model.safetensors", "pt") as f:
        assert not any("module." in k for k in f.keys())


# ------------------------------------------------------------------------------------------- the same decisions

def test_rank_0_decides_for_all(csv_file, model_folder, tmp_path):  # noqa: F811
    """Case P5: figures that differ between the processes (as rounding on unlike nodes might) end in no hang: both stop
    after the epoch, and keep the epoch, that rank 0's figures say."""
    def setup(rank):
        figures = iter([0.9, 0.5, 0.4, 0.3] if rank == 0 else [0.1, 0.2, 0.3, 0.4])
        train.val_figures = lambda *a: (0.0, next(figures))
    flags = ("--limit", 16, "--epochs", 4, "--patience", 2, "--batch-size", 4)
    assert together(argv(csv_file, model_folder, tmp_path / "run", *flags), tmp_path / "log", setup) == [0, 0]
    assert len(history(tmp_path / "run")) == 3
    assert json.loads((tmp_path / "run" / "run.json").read_text())["best_epoch"] == 1


def test_only_rank_0_writes_and_prints(csv_file, model_folder, tmp_path):  # noqa: F811
    def setup(rank):
        if rank:
            def refuse(*args, **kw):
                raise AssertionError("rank 1 writes")
            os.replace = os.mkdir = os.unlink = refuse
    flags = ("--limit", 16, "--epochs", 1, "--batch-size", 4)
    assert together(argv(csv_file, model_folder, tmp_path / "run", *flags), tmp_path / "log", setup) == [0, 0], said(tmp_path / "log", 1)
    assert "epoch 1" in said(tmp_path / "log", 0)
    assert "epoch" not in said(tmp_path / "log", 1) and "floor" not in said(tmp_path / "log", 1)


def test_a_failure_while_rank_0_saves_ends_both(csv_file, model_folder, tmp_path):  # noqa: F811
    def setup(rank):
        def full(*args):
            raise train.UserError("cannot write: the disk is full.")
        checkpoint.save_best = full
    flags = ("--limit", 16, "--epochs", 1, "--batch-size", 4)
    assert together(argv(csv_file, model_folder, tmp_path / "run", *flags), tmp_path / "log", setup) == [2, 2]
    assert "the disk is full" in said(tmp_path / "log", 0) and "Traceback" not in said(tmp_path / "log", 1)


def test_fewer_rows_than_processes(csv_file, model_folder, tmp_path):  # noqa: F811
    flags = ("--overfit", 2, "--batch-size", 4)
    assert together(argv(csv_file, model_folder, tmp_path / "run", *flags), tmp_path / "log", world=3) == [2, 2, 2]
    assert "2 training texts cannot be shared by 3 processes" in said(tmp_path / "log", 0)


def test_asked_to_stop_on_one_process_both_save_and_go_on(csv_file, model_folder, tmp_path):  # noqa: F811
    def ask(rank):
        real, calls = train.loss_sum, [0]

        def loss_sum(*args):
            calls[0] += 1
            if rank == 1 and calls[0] == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            return real(*args)
        train.loss_sum = loss_sum
    flags = ("--limit", 33, "--epochs", 2, "--batch-size", 4)  # dropout on: the same processes, the same bits
    whole, out = tmp_path / "whole", tmp_path / "run"
    assert together(argv(csv_file, model_folder, whole, *flags), tmp_path / "log") == [0, 0]
    assert together(argv(csv_file, model_folder, out, *flags), tmp_path / "log", ask) == [130, 130]
    assert "optimizer step 3 is saved" in said(tmp_path / "log", 0) and "interrupted" not in said(tmp_path / "log", 1)
    assert together(argv(csv_file, model_folder, out, *flags, "--resume"), tmp_path / "log") == [0, 0]
    same_outcome(out, whole)


def test_processes_that_find_different_states_are_told(csv_file, model_folder, tmp_path):  # noqa: F811
    """As when two nodes do not share the folder of --out."""
    flags = ("--limit", 16, "--epochs", 2, "--batch-size", 4)

    def stop(rank):
        real = checkpoint.save_state
        checkpoint.save_state = lambda out, state: real(out, state) or os.kill(os.getpid(), signal.SIGTERM)

    def blind(rank):
        if rank == 1:
            checkpoint.has_state = lambda folder: False
    assert together(argv(csv_file, model_folder, tmp_path / "run", *flags), tmp_path / "log", stop) == [130, 130]
    assert together(argv(csv_file, model_folder, tmp_path / "run", *flags, "--resume"), tmp_path / "log", blind) == [2, 2]
    assert "every node must see the same --out" in said(tmp_path / "log", 0)


# ------------------------------------------------------------------------------------------- torchrun

def torchrun(arguments, log):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    with open(log, "w") as out:
        return subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(ROOT / "train.py"),
                                 *arguments], stdout=out, stderr=subprocess.STDOUT, env=env, cwd=log.parent)


def rank_of(pid):
    """RANK in a process's environment; None if it has none or is gone."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((int(v[5:]) for v in variables if v.startswith(b"RANK=")), None)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the process to kill in Linux's /proc")
def test_torchrun_with_a_process_killed_ends_soon_and_goes_on_with_one_or_two(csv_file, model_folder, tmp_path):  # noqa: F811
    out, log = tmp_path / "run", tmp_path / "log"
    flags = (*NO_DROPOUT, "--limit", 64, "--epochs", 6)
    two = argv(csv_file, model_folder, out, *flags, "--batch-size", 4)
    job = torchrun(two, log)
    try:
        while not checkpoint.has_state(out):
            assert job.poll() is None, log.read_text()
            time.sleep(0.05)
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        victim, = [int(pid) for pid in children if rank_of(pid) == 1]
        os.kill(victim, signal.SIGKILL)
        assert job.wait(timeout=60) != 0
    finally:
        job.kill()
    text = log.read_text()
    assert "error: another of the 2 processes has ended" in text and "SIGKILL" in text
    assert str(ROOT / "train.py") not in text.replace(f"{ROOT / 'train.py'} FAILED", "")  # none of our lines in a traceback
    assert not checkpoint.finished(out)
    at = checkpoint.load_state(out)
    assert at["step"] >= 1

    import shutil
    shutil.copytree(out, tmp_path / "by one")
    assert together([*two, "--resume"], tmp_path / "again") == [0, 0], said(tmp_path / "again", 0)
    alone([*argv(csv_file, model_folder, tmp_path / "by one", *flags), "--resume"], tmp_path / "again")  # 1 x 8 rows instead of 2 x 4
    alone(argv(csv_file, model_folder, tmp_path / "whole", *flags), tmp_path / "again")
    for name in ("run", "by one"):
        same_weights(tmp_path / name, tmp_path / "whole", 1e-4)
        for mine, theirs in zip(history(tmp_path / name), history(tmp_path / "whole"), strict=True):
            assert mine["train_loss"] == pytest.approx(theirs["train_loss"], abs=1e-5)


def test_torchrun_says_a_users_mistake_without_a_traceback_of_ours(model_folder, tmp_path):  # noqa: F811
    log = tmp_path / "log"
    job = torchrun(argv(tmp_path / "nothing.csv", model_folder, tmp_path / "run"), log)
    assert job.wait(timeout=300) != 0
    text = log.read_text()
    assert "error: " in text and "nothing.csv" in text  # once, unless a busy machine delays torchrun's end of the others
    assert 'train.py", line' not in text  # the only traceback is torchrun's own
