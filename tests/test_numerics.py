"""Same bits from the same command in separate processes; finite numbers at the extremes of 16 bits and of class counts."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from test_train import ROOT, csv_file, history, model_folder, run, weights  # noqa: F401  (two of them are fixtures)

import train
from minibert import baselines, checkpoint
from minibert.cli import UserError
from minibert.config import EncoderConfig
from minibert.model import Classifier


# ------------------------------------------------------------------------------------------- determinism

def test_separate_processes_give_the_same_bits(csv_file, tmp_path):  # noqa: F811
    """Everything random is seeded and nothing depends on hash order: vocabulary, batches, dropout, with and without
    loader workers; another seed differs."""
    def train_in_a_process(out, hash_seed, *flags):
        env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, str(ROOT / "train.py"), "--data", str(csv_file), "--out", str(tmp_path / out), "--epochs", "1",
                               "--batch-size", "16", "--quiet", *flags], capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return {name: (tmp_path / out / name).read_bytes() for name in ("model.safetensors", "tokenizer.json", "metrics.json")}

    one = train_in_a_process("one", 1)
    two = train_in_a_process("two", 2, "--workers", "2")
    assert one == two
    assert history(tmp_path / "one")[0]["train_loss"] == history(tmp_path / "two")[0]["train_loss"]


# ------------------------------------------------------------------------------------------- sixteen bits

@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_short_rows_beside_long_ones_train_finitely_under_autocast(implementation, kind):
    """Case M3: scores in the thousands, rows of 2 and of 512 tokens, forward and backward."""
    torch.manual_seed(0)
    config = EncoderConfig(model_type="bert", vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                           intermediate_size=32, max_position_embeddings=512, hidden_dropout_prob=0.0,
                           attention_probs_dropout_prob=0.0)
    model = Classifier(config, 3, "linear", implementation).train()
    with torch.no_grad():
        for layer in model.encoder.layers:
            for part in (layer.attention.query, layer.attention.key):
                part.weight.normal_(0, 8)
        model.head.classifier.weight.mul_(1e3)
    ids, mask = torch.randint(5, 40, (2, 512)), torch.ones(2, 512, dtype=torch.int64)
    mask[0, 2:] = 0
    with torch.autocast("cpu", dtype=kind):
        logits = model(ids, mask)
    loss = train.loss_sum(logits.float(), torch.tensor([0, 2]), None, 0.1)
    loss.backward()
    assert logits.isfinite().all() and loss.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    with torch.no_grad(), torch.autocast("cpu", dtype=kind):
        ids[0, 2:] = torch.randint(5, 40, (510,))  # what the mask hides
        assert torch.equal(model(ids, mask)[0], logits[0])


# ------------------------------------------------------------------------------------------- many classes, large logits

@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_over_100_000_classes(scale, smoothing):
    """Against float64, with weights from 1e-3 to 1e3; finite in value and gradient."""
    rng = torch.Generator().manual_seed(0)
    logits = (scale * torch.randn(3, 100_000, generator=rng)).requires_grad_()
    targets = torch.tensor([0, 50_000, 99_999])
    weights = torch.logspace(-3, 3, 100_000)
    for w in (None, weights):
        loss = train.loss_sum(logits, targets, w, smoothing)
        exact = train.loss_sum(logits.detach().double(), targets, None if w is None else w.double(), smoothing)
        assert loss.isfinite() and float(loss) == pytest.approx(float(exact), rel=1e-4)
        gradient, = torch.autograd.grad(loss, logits)
        assert gradient.isfinite().all()
    assert train.loss_weight(targets.numpy(), weights) == pytest.approx(float(weights[targets].double().sum()), rel=1e-6)


def test_loss_over_100_000_labels_at_once():
    targets = torch.zeros(2, 100_000)
    targets[:, ::1000] = 1.0
    logits = torch.full((2, 100_000), -80.0, requires_grad=True)
    loss = train.loss_sum(logits, targets, torch.full((100_000,), 999.0), 0.0)
    assert float(loss) == pytest.approx(2 * 100 * 999 * 80, rel=1e-4)
    gradient, = torch.autograd.grad(loss, logits)
    assert gradient.isfinite().all()


# ------------------------------------------------------------------------------------------- rates that break a run

def test_a_learning_rate_of_1_stops_with_a_sentence_and_the_last_good_state_intact(csv_file, model_folder, tmp_path, monkeypatch):  # noqa: F811
    """The first epoch goes well; in the second the weights run away."""
    monkeypatch.setattr(baselines, "floors", lambda *a, **k: ({}, {}))
    real, factors = train.lr_factor, []
    monkeypatch.setattr(train, "lr_factor", lambda step, total, warmup: factors.append(step) or (1e-3 if step < 2 else 1e30))
    with pytest.raises(UserError, match="stopped being finite at optimizer step [3-9].*lower --lr") as e:
        run(csv_file, model_folder, tmp_path / "run", "--lr", 1, "--limit", 16, "--epochs", 4, "--max-grad-norm", 1e30)
    assert "\n" not in str(e.value) and real(0, 10, 0) == 1.0
    state = checkpoint.load_state(tmp_path / "run")
    assert state["epoch"] >= 2 and all(torch.isfinite(v).all() for v in state["model"].values())
    best = checkpoint.load_best(tmp_path / "run", state["best_file"], state["best_sha256"])
    assert all(np.isfinite(v.numpy()).all() for v in best.values())
    assert not checkpoint.finished(tmp_path / "run")


def test_a_learning_rate_of_1_never_leaves_weights_that_are_not_finite(csv_file, model_folder, tmp_path):  # noqa: F811
    try:
        run(csv_file, model_folder, tmp_path / "run", "--lr", 1, "--warmup-ratio", 0, "--limit", 24)
    except UserError as e:
        assert "lower --lr" in str(e)
        assert not checkpoint.finished(tmp_path / "run")
    else:
        assert all(torch.isfinite(p).all() for p in weights(tmp_path / "run").values())
