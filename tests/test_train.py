"""The training loop: against the reference, against itself in other shapes, and against what breaks loops."""

import csv
import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import train
from minibert import checkpoint, cli, data, devices
from minibert.cli import UserError
from minibert.config import EncoderConfig
from minibert.convert import load_classifier, save_classifier
from minibert.distributed import Processes
from minibert.model import Classifier
from minibert.predictor import Predictor
from minibert.tokenization import train_wordpiece

ROOT = Path(__file__).resolve().parent.parent
GOOD = ["lovely", "bright", "warm", "clever", "fresh", "brave"]
BAD = ["dull", "cold", "flat", "weak", "stale", "clumsy"]
THINGS = ["film", "plot", "cast", "score", "scene", "ending", "script", "hero"]


def sentences(n, seed=0):
    """(text, label) rows in which the last adjective decides, of 4 to 30 words."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        label = int(rng.integers(2))
        words = [w for _ in range(int(rng.integers(1, 7))) for w in ("the", str(rng.choice(THINGS)), "was", str(rng.choice(GOOD + BAD)))]
        words[-1] = str(rng.choice(GOOD if label else BAD))
        rows.append((" ".join(words) + f" {rng.integers(1000)}", "good" if label else "bad"))
    return rows


def write_rows(path, rows, header=("text", "label")):
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(header)
        out.writerows(rows)
    return path


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("data") / "films.csv", sentences(90))


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    """A small BERT with random weights as a checkpoint folder, so that runs share their start."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_wordpiece([t for t, _ in sentences(200, 1)], vocab_size=120)
    torch.manual_seed(5)
    config = EncoderConfig(model_type="bert", vocab_size=tokenizer.vocab_size, hidden_size=16, num_hidden_layers=2,
                           num_attention_heads=2, intermediate_size=32, max_position_embeddings=64, initializer_range=0.2)
    model = Classifier(config, 2, "native")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "LayerNorm" in name:
                p.add_(0.3 * torch.randn_like(p))
    model.labels = ["bad", "good"]
    save_classifier(model, folder)
    tokenizer.save(folder)
    return folder


def run(csv_file, model_folder, out, *flags):
    """train.main on small input with quick defaults; later flags win."""
    return train.main(["--data", str(csv_file), "--model", str(model_folder), "--out", str(out), "--lr", "1e-3", "--epochs", "2",
                       "--batch-size", "8", "--quiet", *map(str, flags)])


def weights(out):
    return {n: p.detach() for n, p in load_classifier(out, say=lambda line: None).named_parameters()}


def history(out):
    with open(out / "history.csv") as f:
        return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(f)]


def same_weights(a, b, tolerance=0.0):
    """The largest difference, key biases aside (their true gradient is zero: what moves them is rounding)."""
    a, b = weights(a), weights(b)
    assert a.keys() == b.keys()
    worst = max(float((a[n] - b[n]).abs().max()) for n in a if not n.endswith("key.bias"))
    assert worst <= tolerance, f"weights differ by {worst:g}"


NO_DROPOUT = ("--dropout", 0, "--attention-dropout", 0)


# ------------------------------------------------------------------------------------------- the reference

@pytest.mark.parametrize("accum", [1, 3])
def test_thirty_steps_agree_with_a_plain_loop_over_the_reference_model(csv_file, model_folder, tmp_path, accum):
    from transformers import BertForSequenceClassification, get_linear_schedule_with_warmup

    epochs, batch = 10, 24  # 72 training rows: 3 steps an epoch
    run(csv_file, model_folder, tmp_path / "run", *NO_DROPOUT, "--head", "native", "--epochs", epochs, "--batch-size", batch // accum,
        "--accum", accum, "--warmup-ratio", 0.2, "--weight-decay", 0.05, "--seeds", 3)

    dataset = data.load_data(str(csv_file), quiet=True)
    tokenizer = train.load_tokenizer(str(model_folder))
    store = data.tokenize_store(tokenizer, dataset.train.texts, quiet=True)
    lengths = np.minimum(np.asarray(store.lengths) + 2, 64)
    start = load_classifier(model_folder, 2, "native", labels=["bad", "good"], seed=3, say=lambda line: None)
    reference = BertForSequenceClassification.from_pretrained(model_folder)
    reference.classifier.load_state_dict({"weight": start.head.classifier.weight, "bias": start.head.classifier.bias})
    for module in reference.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    reference.config.attention_probs_dropout_prob = 0.0
    reference.eval()  # only dropout differs between the modes
    decay = [p for n, p in reference.named_parameters() if n.endswith("weight") and "LayerNorm" not in n]
    others = [p for n, p in reference.named_parameters() if not (n.endswith("weight") and "LayerNorm" not in n)]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}], lr=1e-3)
    schedule = get_linear_schedule_with_warmup(optimizer, 6, 30)
    losses, snapshots = [], []
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in data.length_buckets(lengths, batch, 3, epoch):
            inputs = data.collate(tokenizer, store, rows, 64, "right")
            loss = reference(**inputs, labels=torch.from_numpy(dataset.train.labels[rows])).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(reference.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += float(loss) * len(rows)
        losses.append(total / len(store))
        snapshots.append({n: p.detach().clone() for n, p in reference.named_parameters()})

    got = history(tmp_path / "run")
    assert len(got) == epochs
    for mine, theirs in zip(got, losses):
        assert mine["train_loss"] == pytest.approx(theirs, abs=1e-4)
    assert losses[-1] < losses[0] - 0.01
    best = json.loads((tmp_path / "run" / "run.json").read_text())["best_epoch"]
    exported = BertForSequenceClassification.from_pretrained(tmp_path / "run")
    for name, p in exported.named_parameters():
        if name.endswith("key.bias"):
            assert torch.isfinite(p).all()
        else:
            assert (p - snapshots[best - 1][name]).abs().max() <= 1e-4, name


# ------------------------------------------------------------------------------------------- accumulation (R3, R4)

def plain_sgd(groups, device):
    return torch.optim.SGD(groups)


@pytest.mark.parametrize("weighted", [(), ("--class-weights", "balanced")])
def test_accumulation_is_the_larger_batch_uneven_tail_included(csv_file, model_folder, tmp_path, monkeypatch, weighted):
    monkeypatch.setattr(train, "make_optimizer", plain_sgd)
    common = (*NO_DROPOUT, *weighted, "--lr", 0.05, "--weight-decay", 0, "--limit", 71)
    run(csv_file, model_folder, tmp_path / "one", *common, "--batch-size", 20, "--accum", 1)
    run(csv_file, model_folder, tmp_path / "four", *common, "--batch-size", 5, "--accum", 4)
    run(csv_file, model_folder, tmp_path / "odd", *common, "--batch-size", 2, "--accum", 10)
    same_weights(tmp_path / "one", tmp_path / "four", 1e-6)
    same_weights(tmp_path / "one", tmp_path / "odd", 1e-6)
    for a, b in zip(history(tmp_path / "one"), history(tmp_path / "four")):
        assert a["train_loss"] == pytest.approx(b["train_loss"], abs=1e-6)


def test_the_loss_of_a_window_is_divided_by_its_whole_weight():
    """Case R4: 5 examples as 2+2+1 against one batch of 5, with class weights [1, 10]."""
    torch.manual_seed(0)
    x, y = torch.randn(5, 3), np.array([0, 1, 1, 0, 1])
    layer = torch.nn.Linear(3, 2)
    w = torch.tensor([1.0, 10.0])
    torch.nn.functional.cross_entropy(layer(x), torch.from_numpy(y), weight=w).backward()
    whole = layer.weight.grad.clone()
    layer.zero_grad()
    for part in ([0, 1], [2, 3], [4]):
        (train.loss_sum(layer(x[part]), torch.from_numpy(y[part]), w, 0.0) / train.loss_weight(y, w)).backward()
    assert torch.allclose(layer.weight.grad, whole, atol=1e-6)


def test_steps_follow_the_gradient_of_the_weighted_mean(model_folder, tmp_path, monkeypatch):
    """Plain SGD, no clipping, windows whose classes are mixed unevenly: the parameters end where three plain steps on
    PyTorch's own weighted mean loss end."""
    monkeypatch.setattr(train, "make_optimizer", plain_sgd)
    rows = [r for r in sentences(150, 4) if r[1] == "good"][:60] + [r for r in sentences(150, 5) if r[1] == "bad"][:20] + sentences(10, 6)
    path = write_rows(tmp_path / "uneven.csv", [(t, label, "train" if i < 80 else "val") for i, (t, label) in enumerate(rows)],
                      ("text", "label", "split"))
    run(path, model_folder, tmp_path / "run", *NO_DROPOUT, "--class-weights", "balanced", "--epochs", 1, "--batch-size", 8, "--accum", 4,
        "--warmup-ratio", 0, "--weight-decay", 0, "--lr", 0.5, "--max-grad-norm", 1e9)

    split = data.load_data(str(path), quiet=True).train
    tokenizer = train.load_tokenizer(str(model_folder))
    store = data.tokenize_store(tokenizer, split.texts, quiet=True)
    model = load_classifier(model_folder, 2, "linear", labels=["bad", "good"], seed=42, say=lambda line: None).eval()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    for step, window in enumerate(data.length_buckets(np.minimum(np.asarray(store.lengths) + 2, 64), 32, 42, 1)):
        optimizer.param_groups[0]["lr"] = 0.5 * train.lr_factor(step, 3, 0)
        optimizer.zero_grad()
        logits = model(**data.collate(tokenizer, store, window, 64))
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(split.labels[window]), torch.tensor([80 / 40, 80 / 120])).backward()
        optimizer.step()
    ended = weights(tmp_path / "run")
    assert all(torch.allclose(p, ended[n], atol=1e-5) for n, p in model.named_parameters())
    assert (model.head.classifier.weight - load_classifier(model_folder, 2, "linear", labels=["bad", "good"], seed=42,
                                                           say=lambda line: None).head.classifier.weight).abs().max() > 1e-3


def test_balanced_weights():
    assert train.balanced_weights(np.array([0, 0, 0, 1]), 2).tolist() == pytest.approx([4 / 6, 2.0])
    assert train.balanced_weights(np.array([[1, 0], [0, 0], [0, 0], [0, 1.0]], dtype=np.float32), 2).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("rows, effective, steps", [(3 * 4, 16, 1), (7 * 4, 16, 2), (8 * 4, 16, 2)])
def test_steps_counted_are_steps_taken(csv_file, model_folder, tmp_path, monkeypatch, rows, effective, steps):
    """Cases R3 and R8: 3, 7 and 8 batches of 4 with a window of 4 are 1, 2 and 2 optimizer steps an epoch."""
    factors = []
    monkeypatch.setattr(train, "lr_factor", lambda *a: factors.append(a) or 1.0)
    run(csv_file, model_folder, tmp_path / "run", "--limit", rows, "--batch-size", 4, "--accum", effective // 4, "--epochs", 3)
    assert [f[0] for f in factors] == list(range(3 * steps))
    assert {f[1] for f in factors} == {3 * steps}


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("most_tokens", [None, 1, 300, 10**6])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 17, 48])
def test_every_row_counts_once_whatever_the_number_of_processes(n, most_tokens, world):
    window, lengths = np.arange(100, 100 + n), np.arange(1, 201)[::-1].copy()
    passes, counted = set(), []
    for rank in range(world):
        parts = train.share_of(window, lengths, 8, most_tokens, Processes(rank, world, rank))
        passes.add(len(parts))
        assert all(1 <= len(p) <= 8 for p, _ in parts)
        assert most_tokens is None or all(len(p) == 1 or len(p) * lengths[p].max() <= most_tokens for p, _ in parts)
        counted += [r for p, counts in parts if counts for r in p]
    assert len(passes) == 1  # or the gradient exchange would wait for ever
    assert sorted(counted) == window.tolist()


@pytest.mark.parametrize("flags", [[], ["--truncate", "chunk", "--max-len", 20, "--stride", 4], ["--class-weights", "balanced"]],
                         ids=["plain", "chunk", "weights"])
def test_smaller_passes_are_the_same_step(csv_file, model_folder, tmp_path, monkeypatch, flags):
    """A CPU takes a long batch in several passes: with dropout off the weights are those of one pass, to rounding."""
    monkeypatch.setattr(train, "make_optimizer", plain_sgd)
    calls, real = [], train.loss_sum
    monkeypatch.setattr(train, "loss_sum", lambda logits, *more: (calls.append(len(logits)), real(logits, *more))[1])
    passes = {}
    for name, most in (("whole", None), ("parts", 45)):
        monkeypatch.setattr(train.devices, "pass_tokens", lambda device, hidden_size: most)
        calls.clear()
        run(csv_file, model_folder, tmp_path / name, *NO_DROPOUT, "--batch-size", 12, "--lr", 0.05, *flags)
        passes[name] = len(calls)
    assert passes["parts"] > 1.5 * passes["whole"]
    same_weights(tmp_path / "whole", tmp_path / "parts", 1e-6)


def test_passes_are_split_on_a_cpu_alone():
    assert devices.pass_tokens(torch.device("cpu"), 384) == 2048 and devices.pass_tokens(torch.device("cpu"), 768) == 1024
    assert devices.pass_tokens(torch.device("cuda"), 384) is None and devices.pass_tokens(torch.device("mps"), 384) is None


def test_ids_outside_the_table_are_found_before_they_move_to_the_device(csv_file, model_folder, tmp_path):
    """On a GPU they would end the process with a device-side assert."""
    flags = train.read_flags(["--data", str(csv_file), "--model", str(model_folder), "--out", str(tmp_path / "run"), "--quiet"])
    task = train.prepare(flags, Processes(), lambda line: None)
    config = load_classifier(model_folder, 2, say=lambda line: None).config
    fits = train.MicroBatches(flags, task, "train", [np.arange(4)], config)
    assert fits[0][0]["input_ids"].shape[0] == 4
    small = dataclasses.replace(config, vocab_size=int(fits[0][0]["input_ids"].max()))
    with pytest.raises(UserError, match=f"token id {small.vocab_size} is outside this model's table"):
        train.MicroBatches(flags, task, "train", [np.arange(4)], small)[0]


# ------------------------------------------------------------------------------------------- the best epoch (R1)

@pytest.mark.parametrize("patience", [0, 2])
def test_the_best_epoch_is_kept_not_the_last(csv_file, model_folder, tmp_path, monkeypatch, patience):
    seen, forced = [], iter([0.9, 0.5, 0.4, 0.3])

    def figures(logits, task):
        f1 = next(forced, 0.0)
        return f1, f1

    real = checkpoint.save_state
    monkeypatch.setattr(checkpoint, "save_state", lambda folder, state: seen.append(
        {k: v.clone() for k, v in state["model"].items()}) or real(folder, state))
    monkeypatch.setattr(train, "val_figures", figures)
    run(csv_file, model_folder, tmp_path / "run", "--epochs", 4, "--patience", patience)
    assert len(seen) == (3 if patience else 4)
    kept = load_classifier(tmp_path / "run", say=lambda line: None).state_dict()
    assert all(torch.equal(kept[k], seen[0][k]) for k in kept)
    assert not torch.equal(seen[0]["head.classifier.weight"], seen[-1]["head.classifier.weight"])
    assert json.loads((tmp_path / "run" / "run.json").read_text())["best_epoch"] == 1


def test_turning_point_sentence():
    falling = [[1, 0.6, 0, 0.8, 0.80], [2, 0.4, 0, 0.8, 0.85], [3, 0.2, 0, 0.8, 0.82]]
    assert "turned after epoch 2" in train.turning_point(falling, 2) and "not the last" in train.turning_point(falling, 2)
    assert "best at epoch 2 of 2" in train.turning_point(falling[:2], 2)
    level = [[1, 0.6, 0.5, 1, 1.0], [2, 0.4, 0.1, 1, 1.0], [3, 0.2, 0.2, 1, 1.0]]
    assert "turned" not in train.turning_point(level, 2) and "the model of epoch 2 was kept" in train.turning_point(level, 2)


def test_of_epochs_with_the_same_macro_f1_the_surer_one_is_kept(csv_file, model_folder, tmp_path, monkeypatch):
    losses = iter([0.5, 0.08, 0.2, 0.9])
    real = train.validate
    monkeypatch.setattr(train, "validate", lambda *given: (real(*given)[0], next(losses)))
    monkeypatch.setattr(train, "val_figures", lambda logits, task: (1.0, 1.0))
    run(csv_file, model_folder, tmp_path / "run", "--epochs", 4)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["best_epoch"] == 2


# ------------------------------------------------------------------------------------------- not finite (R6, R7)

def spoil_gradient_at(monkeypatch, step, value):
    """One entry of the head's gradient becomes `value` in optimizer step `step`, counted from 1."""
    calls = [0]
    real = torch.nn.utils.clip_grad_norm_

    def spoiled(parameters, max_norm):
        calls[0] += 1
        if calls[0] == step:
            parameters[-1].grad.view(-1)[0] = value
        return real(parameters, max_norm)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", spoiled)
    return calls


def test_a_gradient_that_is_not_finite_stops_before_the_optimizer_and_spoils_nothing(csv_file, model_folder, tmp_path, monkeypatch):
    run(csv_file, model_folder, tmp_path / "run", "--epochs", 1)
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()}
    spoil_gradient_at(monkeypatch, 3, float("nan"))
    with pytest.raises(UserError, match="stopped being finite at optimizer step 3.*lower --lr"):
        run(csv_file, model_folder, tmp_path / "run", "--overwrite")
    assert before == {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.is_file()}


def test_a_run_of_one_step_learns(csv_file, model_folder, tmp_path):
    """Case R8: the last executed step has a rate above zero, also where it is the only one."""
    start = load_classifier(model_folder, 2, "linear", labels=["bad", "good"], seed=42, say=lambda line: None)
    run(csv_file, model_folder, tmp_path / "run", "--limit", 8, "--epochs", 1, "--batch-size", 16)
    assert not torch.equal(weights(tmp_path / "run")["head.classifier.weight"], start.head.classifier.weight)


def test_a_run_that_answers_with_one_class_says_so(csv_file, model_folder, tmp_path, capsys):
    """Case R11."""
    run(csv_file, model_folder, tmp_path / "run", "--lr", 0.5, "--max-grad-norm", 100, "--warmup-ratio", 0, "--epochs", 1)
    assert "WARNING     seed 42: every validation text gets the label" in capsys.readouterr().out


def test_config_values_are_checked_like_typed_ones(csv_file, model_folder, tmp_path):
    for flags, words in (({"lr": "abc"}, "--lr"), ({"seeds": 5.5}, "--seeds"), ({"truncate": "middle"}, "--truncate"), ({"batch_size": 1.5}, "--batch-size"),
                         ({"seeds": ["a"]}, "--seeds"), ({"nonsense": 1}, "no readable `flags`")):
        (tmp_path / "c.json").write_text(json.dumps({"flags": flags}))
        with pytest.raises(UserError) as e:
            run(csv_file, model_folder, tmp_path / "run", "--config", tmp_path / "c.json")
        assert words in str(e.value) and "c.json" in str(e.value)
    (tmp_path / "c.json").write_text(json.dumps({"flags": {}}))
    assert run(csv_file, model_folder, tmp_path / "run", "--config", tmp_path / "c.json", "--epochs", 1) == 0


def test_overwriting_another_kind_of_run_is_refused(csv_file, model_folder, tmp_path):
    """What would be left of the old one would be read as part of the new one."""
    run(csv_file, model_folder, tmp_path / "one", "--epochs", 1)
    with pytest.raises(UserError, match="holds a single run"):
        run(csv_file, model_folder, tmp_path / "one", "--overwrite", "--seeds", 1, 2)
    run(csv_file, model_folder, tmp_path / "many", "--epochs", 1, "--seeds", 1, 2)
    with pytest.raises(UserError, match="also holds seed-2"):
        run(csv_file, model_folder, tmp_path / "many", "--overwrite", "--seeds", 1, 3)
    with pytest.raises(UserError, match="holds a family"):
        run(csv_file, model_folder, tmp_path / "many", "--overwrite")


def test_a_skipped_step_advances_nothing(csv_file, model_folder, tmp_path, monkeypatch):
    """Case R6, with a scaler that scales: an overflow in step 1 leaves the weights, halves the scale, and neither the
    step count nor the schedule moves."""
    factors, scales, states = [], [], []
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    real_update = scaler.update
    monkeypatch.setattr(scaler, "update", lambda: (real_update(), scales.append(scaler.get_scale())))
    monkeypatch.setattr(devices, "make_scaler", lambda device, precision: scaler)
    monkeypatch.setattr(train, "lr_factor", lambda step, total, warmup: factors.append(step) or 1.0)
    real_unscale = scaler.unscale_

    def overflow(optimizer):
        if not factors[1:]:
            for g in optimizer.param_groups:
                g["params"][0].grad[0] = float("inf")
        real_unscale(optimizer)

    monkeypatch.setattr(scaler, "unscale_", overflow)
    real_save = checkpoint.save_state
    monkeypatch.setattr(checkpoint, "save_state", lambda folder, state: states.append(
        (state["step"], {k: v.clone() for k, v in state["model"].items()})) or real_save(folder, state))
    run(csv_file, model_folder, tmp_path / "run", "--epochs", 1, "--limit", 40, "--batch-size", 4, "--accum", 2, "--save-every", 1)
    assert factors == [0, 0, 1, 2, 3]  # five windows, the first skipped
    assert scales == [512.0] * 5
    assert states[-1][0] == 4


def test_clipping_sees_unscaled_gradients(csv_file, model_folder, tmp_path, monkeypatch):
    """With a scale of 2^14, clipping before unscaling would shrink every gradient to nothing."""
    run(csv_file, model_folder, tmp_path / "plain", *NO_DROPOUT)
    monkeypatch.setattr(devices, "make_scaler", lambda device, precision: torch.amp.GradScaler("cpu", init_scale=2.0**14))
    run(csv_file, model_folder, tmp_path / "scaled", *NO_DROPOUT)
    same_weights(tmp_path / "plain", tmp_path / "scaled", 1e-5)


def test_a_frozen_model_is_refused(csv_file, model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "freeze", lambda model, what: [p.requires_grad_(False) for p in model.parameters()])
    with pytest.raises(UserError, match="no parameter is left to train"):
        run(csv_file, model_folder, tmp_path / "run", "--freeze", "encoder")


def test_an_absurd_learning_rate_ends_in_words(csv_file, model_folder, tmp_path):
    """A rate of 1e30 must not crash; it either stops with the sentence or is reported as degenerate."""
    with pytest.raises(UserError, match="lower --lr"):
        run(csv_file, model_folder, tmp_path / "run", "--lr", "1e30", "--max-grad-norm", "1e30", "--warmup-ratio", "0")
    assert not (tmp_path / "run" / "run.json").exists()


# ------------------------------------------------------------------------------------------- validation

def test_validation_restores_the_mode_and_records_no_gradient(csv_file, model_folder, tmp_path, monkeypatch):
    modes = []
    real = train.validate

    def watched(model, *args):
        model.train()
        logits, loss = real(model, *args)
        modes.append((model.training, all(m.training for m in model.modules())))
        again, _ = real(model, *args)
        assert np.array_equal(logits, again)  # dropout is off
        model.eval()
        real(model, *args)
        modes.append((not model.training,))
        model.train()
        return logits, loss

    monkeypatch.setattr(train, "validate", watched)
    run(csv_file, model_folder, tmp_path / "run", "--dropout", 0.5, "--attention-dropout", 0.5)
    assert modes and all(all(m) for m in modes)


def test_what_the_run_folder_says_is_what_the_predictor_gives(csv_file, model_folder, tmp_path):
    run(csv_file, model_folder, tmp_path / "run", "--epochs", 3)
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())["val"]
    dataset = data.load_data(str(csv_file), quiet=True)
    probs = Predictor(tmp_path / "run").probabilities(dataset.val.texts)
    assert np.mean(probs.argmax(1) == dataset.val.labels) == pytest.approx(kept["accuracy"])
    assert kept["baselines"].keys() == {"majority", "tfidf", "nb"}
    best = history(tmp_path / "run")[info["best_epoch"] - 1]
    assert best["val_macro_f1"] == pytest.approx(kept["macro_f1"], abs=1e-9)
    assert info["labels"] == ["bad", "good"] and 0.05 <= info["temperature"] <= 20
    assert {p.name for p in (tmp_path / "run").iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json",
                                                              "tokenizer_config.json", "run.json", "history.csv", "metrics.json"}
    assert not (tmp_path / "run" / "state").exists()


def test_training_never_uses_a_test_row(csv_file, model_folder, tmp_path):
    """Other test rows, same everything else: same weights, same choices."""
    dataset = data.load_data(str(csv_file), quiet=True)
    for name, label in (("a", "good"), ("b", "bad")):
        rows = [(t, s.label_text(i), split) for split, s in (("train", dataset.train), ("val", dataset.val))
                for i, t in enumerate(s.texts)]
        rows += [(f"{t} {name}", label, "test") for t in dataset.test.texts]
        write_rows(tmp_path / f"{name}.csv", rows, ("text", "label", "split"))
        run(tmp_path / f"{name}.csv", model_folder, tmp_path / name)
    same_weights(tmp_path / "a", tmp_path / "b")
    one, two = ((tmp_path / n / "metrics.json").read_text() for n in "ab")
    assert one == two


# ------------------------------------------------------------------------------------------- same seed, same run (R14)

def test_same_seed_same_bits_with_or_without_workers_and_other_seeds_differ(csv_file, model_folder, tmp_path):
    run(csv_file, model_folder, tmp_path / "a", "--dropout", 0.3)
    run(csv_file, model_folder, tmp_path / "b", "--dropout", 0.3, "--workers", 2)
    run(csv_file, model_folder, tmp_path / "c", "--dropout", 0.3, "--seeds", 43)
    same_weights(tmp_path / "a", tmp_path / "b")
    with pytest.raises(AssertionError, match="weights differ"):
        same_weights(tmp_path / "a", tmp_path / "c")


def test_a_replayed_run_json_is_the_same_run(csv_file, model_folder, tmp_path):
    run(csv_file, model_folder, tmp_path / "a", "--dropout", 0.2, "--label-smoothing", 0.1, "--layer-decay", 0.9)
    assert train.main(["--config", str(tmp_path / "a" / "run.json"), "--out", str(tmp_path / "b")]) == 0
    same_weights(tmp_path / "a", tmp_path / "b")
    assert train.main(["--config", str(tmp_path / "a" / "run.json"), "--out", str(tmp_path / "c"), "--epochs", "1"]) == 0
    assert len(history(tmp_path / "c")) == 1


def test_recipe_flags_change_what_they_name(csv_file, model_folder, tmp_path):
    start = load_classifier(model_folder, say=lambda line: None)
    run(csv_file, model_folder, tmp_path / "frozen", "--freeze", "encoder", "--epochs", 1)
    after = weights(tmp_path / "frozen")
    assert all(torch.equal(p, after[n]) for n, p in start.named_parameters() if n.startswith("encoder."))
    run(csv_file, model_folder, tmp_path / "low", "--freeze", "1", "--reinit-layers", "1", "--epochs", 1)
    after = weights(tmp_path / "low")
    moved = {n for n, p in start.named_parameters() if n in after and not torch.equal(p, after[n])}
    assert not any(n.startswith(("encoder.embeddings.", "encoder.layers.0.")) for n in moved)
    assert any(n.startswith("encoder.layers.1.") for n in moved)


# ------------------------------------------------------------------------------------------- other shapes of task

def test_several_labels_at_once(model_folder, tmp_path):
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(80):
        chosen = [w for w in ("film", "plot", "cast") if rng.random() < 0.4]
        rows.append((" ".join(f"the {w} was {rng.choice(GOOD)}" for w in chosen) + f" hero {rng.integers(999)}", "|".join(chosen)))
    path = write_rows(tmp_path / "several.csv", rows)
    run(path, model_folder, tmp_path / "run", "--multi-label", "--epochs", 4, "--lr", "5e-3", "--accum", 2, "--class-weights", "balanced")
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert info["labels"] == ["cast", "film", "plot"] and set(info["thresholds"]) == set(info["labels"])
    answer = Predictor(tmp_path / "run").predict(["the cast was warm", ""])
    assert set(answer[0]) == {"labels", "scores", "thresholds"}
    val = json.loads((tmp_path / "run" / "metrics.json").read_text())["val"]
    assert val["multi_label"] and "thresholds" in val["tuned_here"]


def test_long_documents_in_windows(model_folder, tmp_path):
    """A document weighs the same however many windows it has, and is predicted once."""
    rows = [(" ".join(t for t, _ in sentences(k, 100 + i)), label) for i, (k, (_, label)) in enumerate(zip([1, 2, 8] * 20, sentences(60)))]
    path = write_rows(tmp_path / "long.csv", rows)
    run(path, model_folder, tmp_path / "run", "--truncate", "chunk", "--max-len", 24, "--stride", 6, "--batch-size", 4, "--accum", 2)
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert info["pooling"] in train.POOLINGS
    val = json.loads((tmp_path / "run" / "metrics.json").read_text())["val"]
    assert val["n"] == info["data"]["n"]["val"] and "pooling" in val["tuned_here"]
    texts = [t for t, _ in rows[:5]]
    assert len(Predictor(tmp_path / "run").predict(texts)) == 5


def test_windows_of_a_document_are_averaged():
    logits = torch.tensor([[1.0, 0.0], [3.0, 2.0], [5.0, 5.0]], requires_grad=True)
    pooled = train.document_logits(logits, torch.tensor([0, 0, 1]), 2)
    assert pooled.tolist() == [[2.0, 1.0], [5.0, 5.0]]
    pooled[0, 0].backward()
    assert logits.grad[:, 0].tolist() == [0.5, 0.5, 0.0]


def test_sentence_pairs(model_folder, tmp_path):
    rows = [(a, b, "same" if x == y else "other") for (a, x), (b, y) in zip(sentences(70), sentences(70, 7))]
    path = write_rows(tmp_path / "pairs.csv", rows, ("first", "second", "label"))
    run(path, model_folder, tmp_path / "run", "--text-col", "first,second")
    predictor = Predictor(tmp_path / "run")
    one, two = predictor.logits(["the film was warm"], ["the cast was dull"]), predictor.logits(["the cast was dull"], ["the film was warm"])
    assert one.shape == (1, 2) and not np.allclose(one, two)


def test_150_classes_of_three_rows(model_folder, tmp_path):
    rows = [(f"the {THINGS[c % 8]} was {c} {i}", f"class {c:03d}") for c in range(150) for i in range(3)]
    path = write_rows(tmp_path / "many.csv", rows)
    run(path, model_folder, tmp_path / "run", "--epochs", 1, "--batch-size", 32)
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert info["labels"] == [f"class {c:03d}" for c in range(150)]
    assert json.loads((tmp_path / "run" / "config.json").read_text())["id2label"]["149"] == "class 149"


def test_tuned_threshold_and_balanced_sampler(model_folder, tmp_path, monkeypatch):
    rows = [(t, "rare" if i % 8 == 0 else "usual") for i, (t, _) in enumerate(sentences(160))]
    path = write_rows(tmp_path / "rare.csv", rows)
    run(path, model_folder, tmp_path / "run", "--sampler", "balanced", "--tune-threshold", "--epochs", 1)
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert info["decision_threshold"]["label"] == "usual" and 0 <= info["decision_threshold"]["value"] <= 1
    with pytest.raises(UserError, match="for two classes"):
        monkeypatch.setattr(train, "fit", None)  # refused before any training
        three = write_rows(tmp_path / "three.csv", [(t, "abc"[i % 3]) for i, (t, _) in enumerate(sentences(60))])
        run(three, model_folder, tmp_path / "three", "--tune-threshold", "--epochs", 1)


# ------------------------------------------------------------------------------------------- flags and folders

def test_the_wiring_check_passes_and_fails(csv_file, model_folder, tmp_path, capsys):
    assert run(csv_file, model_folder, tmp_path / "run", "--overfit", 16, "--lr", "3e-3") == 0
    assert "every part learns" in capsys.readouterr().out
    assert run(csv_file, model_folder, tmp_path / "run", "--epochs", 1) == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["wiring"]["ok"] is True


def test_a_wiring_check_that_cannot_succeed_exits_1(csv_file, model_folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(train, "OVERFIT_EPOCHS", 3)
    assert run(csv_file, model_folder, tmp_path / "run", "--overfit", 16, "--lr", "1e-9") == 1
    assert "NOT under" in capsys.readouterr().out


def test_a_killed_worker_is_a_sentence(csv_file, model_folder, tmp_path, monkeypatch):
    """As the system ends one that takes too much memory. The run goes on with --resume."""
    real = train.MicroBatches.__getitem__

    def killed(self, i):
        if torch.utils.data.get_worker_info():
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, i)
    monkeypatch.setattr(train.MicroBatches, "__getitem__", killed)
    with pytest.raises(UserError, match="--workers 1 was killed from outside.*--resume"):
        run(csv_file, model_folder, tmp_path / "run", "--workers", 1, "--limit", 16, "--epochs", 1)
    run(csv_file, model_folder, tmp_path / "run", "--limit", 16, "--epochs", 1, "--resume")


@pytest.mark.parametrize("flags, words", [
    (["--epoch", "3"], "did you mean '--epochs'"),
    (["--head", "natve"], "did you mean 'native'"),
    (["--lr", "-1"], "--lr -1.0: a number above 0"),
    (["--lr", "nan"], "--lr nan"),
    (["--lr", "fast"], "--lr"),
    (["--epochs", "0"], "--epochs 0: at least 1"),
    (["--batch-size", "0"], "--batch-size 0"),
    (["--dropout", "1"], "--dropout 1.0"),
    (["--seeds", "1", "1"], "each seed once"),
    (["--seeds", "-1"], "--seeds"),
    (["--workers", "100000"], "--workers 100000: 256 is the most"),
    (["--data", " "], "a name or a path is needed"), (["--data", ""], "--data is empty"), (["--out", "runs/\udcff"], "no UTF-8"),
    (["--split-seed", "-1"], "--split-seed -1: it cannot be negative"),
    (["--max-len", str(10**20)], "2147483647 is the most"),
    (["--epochs", str(10**15)], "2147483647 is the most"),
    (["--resume", "--overwrite"], "give one of them"),
    (["--label-smoothing", "1.5"], "--label-smoothing"),
    (["--freeze", "everything"], "--freeze everything"),
    (["--max-len", "2"], "2"),
    (["--amp", "fp16", "--data", "nowhere.csv"], "needs a GPU"),
    (["--device", "tpu"], "--device"),
    (["--config", "nothing.json"], "nothing.json"),
    (["--resume"], "nothing to go on from"),
    (["stray"], "unknown argument 'stray'"),
])
def test_wrong_flags_are_one_sentence(csv_file, model_folder, tmp_path, flags, words):
    with pytest.raises(UserError) as e:
        run(csv_file, model_folder, tmp_path / "run", *flags)
    assert words in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize("flags, words", [
    (["--max-len", "2"], "--max-len 2: at least 3"),
    (["--max-len", "3", "--text-col", "text,other"], "--max-len 3: at least 4"),
    (["--truncate", "chunk", "--max-len", "24"], "--stride 64: it has to be below 22"),
    (["--truncate", "chunk", "--stride", "22", "--max-len", "24"], "--stride 22"),
    (["--truncate", "chunk", "--max-len", "9000", "--stride", "510", "--model", "tiny"], "--stride 510: it has to be below 510"),
    (["--truncate", "chunk", "--max-len", "23", "--stride", "10", "--text-col", "text,other"], "--stride 10: it has to be below 10"),
])
def test_what_no_text_can_be_cut_by_is_refused_before_data_are_read(csv_file, model_folder, tmp_path, monkeypatch, flags, words):
    monkeypatch.setattr(train.data, "load_data", lambda *a, **k: pytest.fail("the data are read"))
    with pytest.raises(UserError, match=words):
        run(csv_file, model_folder, tmp_path / "run", *flags)


@pytest.mark.parametrize("flags, words", [
    (["--freeze", "99"], "--freeze 99: use 'embeddings', 'encoder' or a number of layers from 1 to 2"),
    (["--reinit-layers", "99"], "--reinit-layers 99: the model has 2 layers"),
    (["--freeze", "3", "--model", "tiny"], "--freeze 3: "),
    (["--model", "./no-such-folder"], "there is no folder ./no-such-folder"),
])
def test_what_the_model_cannot_do_is_refused_before_data_are_read(csv_file, model_folder, tmp_path, monkeypatch, flags, words):
    monkeypatch.setattr(train.data, "load_data", lambda *a, **k: pytest.fail("the data are read"))
    with pytest.raises(UserError, match=words):
        run(csv_file, model_folder, tmp_path / "run", *flags)


def test_the_limit_line_counts_the_rows_that_are_used(csv_file, model_folder, tmp_path, capsys):
    train.main(["--data", str(csv_file), "--model", str(model_folder), "--out", str(tmp_path / "run"), "--limit", "16", "--epochs", "1"])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("limit"))
    counts = [int(n) for n in re.findall(r" (\d+) \(", line)]
    used = json.loads((tmp_path / "run" / "run.json").read_text())["data"]["label_counts"]
    assert "16 training texts" in line and counts == list(used.values()) and f"majority baseline {max(counts) / 16:.1%}" in line


@pytest.mark.parametrize("script", [["train.py"], ["evaluate.py"], ["-m", "minibert.predictor"], ["-m", "minibert.convert"]], ids=" ".join)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_imports_is_no_traceback(script, number):
    """The heavy imports stand still at the first of them for as long as the signal needs."""
    slow = ("import builtins, os, sys, time\nreal = builtins.__import__\n"
            "def wait(name, *given, **more):\n    if name in ('tqdm', 'numpy', 'torch'): os.write(1, b'importing'); time.sleep(60)\n    return real(name, *given, **more)\n"
            "builtins.__import__ = wait\nimport runpy\nsys.path.insert(0, '.')\n"
            f"runpy.{'run_module' if script[0] == '-m' else 'run_path'}({script[-1]!r}, run_name='__main__')")
    process = subprocess.Popen([sys.executable, "-c", slow], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.read(9) == "importing"
    process.send_signal(number)
    assert process.wait(30) == 130 and process.stderr.read() == ""


def test_a_stride_too_wide_for_the_model_is_refused_before_the_floors(csv_file, model_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(train.baselines, "floors", lambda *a, **k: pytest.fail("the floors are fitted"))
    with pytest.raises(UserError, match="stride 1998"):  # the model's own positions are fewer than 2,000
        run(csv_file, model_folder, tmp_path / "run", "--truncate", "chunk", "--max-len", 2001, "--stride", 1998)


def test_finished_and_unfinished_runs_are_not_overwritten(csv_file, model_folder, tmp_path):
    run(csv_file, model_folder, tmp_path / "run", "--epochs", 1)
    kept = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match="has ended; choose another --out, or --overwrite"):
        run(csv_file, model_folder, tmp_path / "run", "--epochs", 1)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == kept
    run(csv_file, model_folder, tmp_path / "run", "--epochs", 1, "--overwrite", "--seeds", 9)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != kept


def test_two_runs_in_one_folder_at_once(csv_file, model_folder, tmp_path):
    from minibert.files import folder_lock
    with folder_lock(tmp_path / "run", "a training run"):
        with pytest.raises(UserError, match="in use by another process"):
            run(csv_file, model_folder, tmp_path / "run")
        checkpoint.save_state(tmp_path / "run", {"epoch": 1, "window": 1, "best_file": None})  # of the run that is alive: not one to go on with
        with pytest.raises(UserError, match="in use by another process"):
            run(csv_file, model_folder, tmp_path / "run")


def test_exit_status_and_no_traceback(tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / "train.py"), "--data", str(tmp_path / "none.csv")], capture_output=True, text=True,
                          cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_names_every_flag_with_a_default(capsys):
    with pytest.raises(SystemExit):
        train.read_flags(["--help"])
    text = capsys.readouterr().out
    for name in ("--data", "--amp", "--accum", "--seeds", "--resume", "--layer-decay", "--overfit"):
        assert name in text
    assert "[default: 256]" in text


def test_out_of_memory_gives_the_advice(csv_file, model_folder, tmp_path, monkeypatch):
    def fit(*args):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    monkeypatch.setattr(train, "fit", fit)
    with pytest.raises(UserError, match="--batch-size 4 --accum 6"):
        run(csv_file, model_folder, tmp_path / "run", "--accum", 3)


# ------------------------------------------------------------------------------------------- precision (R15)

@pytest.mark.parametrize("device, amp, bf16, expected", [
    ("cpu", None, True, "fp32"), ("cpu", "auto", True, "bf16"), ("cpu", "auto", False, "fp32"), ("cpu", "bf16", False, "fp32"),
    ("cuda", None, True, "fp32"), ("cuda", "auto", True, "fp16"), ("cuda", "bf16", True, "bf16"), ("cuda", "fp16", False, "fp16"),
    ("mps", "auto", False, "fp16"), ("mps", "fp16", False, "fp16")])
def test_precision_of_every_device(monkeypatch, device, amp, bf16, expected):
    monkeypatch.setattr(devices, "cpu_has_bf16", lambda: bf16)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: bf16)
    precision, remark = devices.choose_precision(torch.device(device), amp)
    assert precision == expected
    assert bool(remark) == (device == "mps" or (device == "cpu" and amp is not None and not bf16))
    scaler = devices.make_scaler(torch.device(device), precision)
    assert scaler.is_enabled() == (device == "cuda" and precision == "fp16" and torch.cuda.is_available())


@pytest.mark.parametrize("device, amp", [("cpu", "fp16"), ("mps", "bf16"), ("cuda", "bf16")])
def test_impossible_precisions_are_refused(monkeypatch, device, amp):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    with pytest.raises(UserError, match="--amp"):
        devices.choose_precision(torch.device(device), amp)


def test_bf16_autocast_trains_close_to_fp32_and_keeps_fp32_weights(csv_file, model_folder, tmp_path, monkeypatch):
    """Also on a CPU that only emulates bf16: the arithmetic is the same, only slow."""
    monkeypatch.setattr(devices, "cpu_has_bf16", lambda: True)
    run(csv_file, model_folder, tmp_path / "fp32", *NO_DROPOUT, "--limit", 24)
    run(csv_file, model_folder, tmp_path / "bf16", *NO_DROPOUT, "--limit", 24, "--amp", "--accum", 2)
    assert json.loads((tmp_path / "bf16" / "run.json").read_text())["precision"] == "bf16"
    assert all(p.dtype == torch.float32 for p in weights(tmp_path / "bf16").values())
    a, b = history(tmp_path / "fp32"), history(tmp_path / "bf16")
    assert a[0]["train_loss"] == pytest.approx(b[0]["train_loss"], abs=0.05)
    assert a[0]["train_loss"] != b[0]["train_loss"]


def test_the_memory_plan_counts_bert_base():
    config = EncoderConfig(model_type="bert")
    plan = devices.memory_plan(config, 109_482_240, 0, 16, 256, precision="fp32", attention_dropout=0.0, hidden_dropout=0.1,
                               fused_attention=True)
    assert plan["weights"] == plan["gradients"] == 437_928_960 and plan["adam"] == 2 * 437_928_960


@pytest.mark.parametrize("batch, length, hidden, attention, measured", [
    (16, 128, 0.0, 0.0, 648), (16, 128, 0.1, 0.0, 681), (16, 128, 0.1, 0.1, 994), (16, 256, 0.1, 0.0, 1057), (16, 256, 0.1, 0.1, 1960)])
def test_the_memory_plan_is_what_steps_were_measured_to_take(batch, length, hidden, attention, measured):
    """The table of tests/benchmarks/memory_plan.py for a six-layer model of 22.7 million parameters, MiB on a CPU."""
    config = EncoderConfig(model_type="bert", hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    plan = devices.memory_plan(config, 22_566_146, 147_840, batch, length, precision="fp32", attention_dropout=attention,
                               hidden_dropout=hidden, fused_attention=attention == 0)
    assert 0.9 < sum(plan.values()) / 2**20 / measured < 1.1


def test_what_the_process_holds_is_below_its_peak():
    held, peak = devices.resident_memory(), devices.peak_memory(torch.device("cpu"))
    assert 50 * 2**20 < held < 1.1 * peak  # the kernel keeps the two counts apart, and neither to the page


# ------------------------------------------------------------------------------------------- several seeds

def test_a_family_of_seeds(csv_file, model_folder, tmp_path, capsys):
    run(csv_file, model_folder, tmp_path / "run", "--seeds", 1, 2, 3, "--epochs", 1)
    text = capsys.readouterr().out
    assert "3 seeds: val_macro_f1 mean" in text and "worst" in text
    assert [p.name for p in checkpoint.seed_folders(tmp_path / "run")] == ["seed-1", "seed-2", "seed-3"]
    fingerprints = {json.loads((p / "run.json").read_text())["data"]["fingerprint"]["val"] for p in checkpoint.seed_folders(tmp_path / "run")}
    assert len(fingerprints) == 1  # one split for all seeds
    assert not math.isnan(history(tmp_path / "run" / "seed-2")[0]["train_loss"])
    run(csv_file, model_folder, tmp_path / "alone", "--seeds", 2, "--epochs", 1)
    same_weights(tmp_path / "run" / "seed-2", tmp_path / "alone")
