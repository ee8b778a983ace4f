"""Decay groups, layer-wise rates, freezing and the schedule (cases R8, R9)."""

import math

import pytest
import torch
from torch import nn

from minibert.cli import UserError
from minibert.config import EncoderConfig
from minibert.model import Classifier
from minibert.optimization import (depth_of, freeze, lr_factor, make_optimizer, parameter_groups, reinit_layers, set_lr,
                                   warmup_steps)


def small(family="bert", layers=3, head="linear"):
    torch.manual_seed(0)
    config = EncoderConfig(model_type=family, vocab_size=30, hidden_size=16, num_hidden_layers=layers, num_attention_heads=2,
                           intermediate_size=24, max_position_embeddings=20, pad_token_id=1 if family == "roberta" else 0,
                           type_vocab_size={"bert": 2, "roberta": 1, "distilbert": 0}[family])
    return Classifier(config, 3, head)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("head", ["linear", "native"])
def test_every_trainable_parameter_is_in_one_group_and_only_matrices_decay(family, head):
    model = small(family, head=head)
    groups = parameter_groups(model, 1e-3, 0.01)
    ids = [id(p) for g in groups for p in g["params"]]
    assert len(ids) == len(set(ids))
    assert set(ids) == {id(p) for p in model.parameters() if p.requires_grad}
    decayed = {n for g in groups if g["weight_decay"] > 0 for n in g["names"]}
    exempt = {n for g in groups if g["weight_decay"] == 0 for n in g["names"]}
    assert decayed and exempt
    for name, module in model.named_modules():
        if isinstance(module, nn.LayerNorm):
            assert {f"{name}.weight", f"{name}.bias"} <= exempt
        if isinstance(module, (nn.Linear, nn.Embedding)) and module.weight.requires_grad:
            assert f"{name}.weight" in decayed
            assert getattr(module, "bias", None) is None or f"{name}.bias" in exempt


def test_a_tied_parameter_is_counted_once():
    model = small()
    model.encoder.layers[1].feed_forward.output.weight = model.encoder.layers[0].feed_forward.output.weight
    ids = [id(p) for g in parameter_groups(model, 1e-3, 0.01) for p in g["params"]]
    assert len(ids) == len(set(ids))


def test_the_unused_pooler_of_a_linear_head_is_left_out():
    model = small(head="linear")
    assert model.encoder.pooler is not None
    names = {n for g in parameter_groups(model, 1e-3, 0.01) for n in g["names"]}
    assert not any("pooler" in n for n in names)


def test_layer_decay_lowers_the_rate_layer_by_layer():
    model = small(layers=3)
    rate = {n: g["peak_lr"] for g in parameter_groups(model, 1.0, 0.0, layer_decay=0.5) for n in g["names"]}
    for name, r in rate.items():
        depth = depth_of(name, 3)
        assert r == {0: 0.125, 1: 0.25, 2: 0.5, 3: 1.0, 4: 1.0}[depth], name
    assert {depth_of(n, 3) for n in rate} == {0, 1, 2, 3, 4}


def test_freeze_parts():
    model = small(layers=3)
    freeze(model, "2")
    trainable = {depth_of(n, 3) for n, p in model.named_parameters() if p.requires_grad}
    assert trainable == {3, 4}
    model = small()
    freeze(model, "embeddings")
    assert not any(p.requires_grad for p in model.encoder.embeddings.parameters())
    assert all(p.requires_grad for p in model.encoder.layers.parameters())
    model = small()
    freeze(model, "encoder")
    assert {n for n, p in model.named_parameters() if p.requires_grad} == {
        f"head.{n}" for n, _ in model.head.named_parameters()}
    for wrong in ("7", "0", "top", "-1"):
        with pytest.raises(UserError, match="--freeze"):
            freeze(small(), wrong)


def test_a_frozen_model_is_an_error():
    model = small()
    for p in model.parameters():
        p.requires_grad_(False)
    with pytest.raises(UserError, match="no parameter is left to train"):
        parameter_groups(model, 1e-3, 0.01)


def test_reinit_changes_the_top_layers_only():
    model = small(layers=3)
    before = {n: p.clone() for n, p in model.named_parameters()}
    reinit_layers(model, 1, seed=3)
    for n, p in model.named_parameters():
        fresh = n.startswith("encoder.layers.2.") and n.endswith("weight") and "LayerNorm" not in n
        assert torch.equal(p, before[n]) != fresh, n
    with pytest.raises(UserError, match="has 3 layers"):
        reinit_layers(model, 4, seed=3)


def test_schedule_is_the_references_over_the_steps_that_happen():
    from transformers import get_linear_schedule_with_warmup

    for total, warmup in [(12, 0), (12, 1), (12, 2), (12, 12), (1, 0), (7, 3)]:
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        reference = get_linear_schedule_with_warmup(optimizer, warmup, total)
        for step in range(total):
            assert lr_factor(step, total, warmup) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
            optimizer.step()
            reference.step()
        assert lr_factor(total - 1, total, warmup) > 0 or total == warmup == 1


def test_warmup_counts_and_errors():
    assert warmup_steps(12, 0.1) == 2
    assert warmup_steps(12, 0.0) == 0
    assert warmup_steps(3, 1.0) == 2 and warmup_steps(1, 0.1) == 0  # the last step learns
    with pytest.raises(UserError, match="does not fit"):
        lr_factor(0, 10, 100)
    for wrong in (-0.1, 1.5, math.nan):
        with pytest.raises(UserError, match="warmup-ratio"):
            warmup_steps(10, wrong)


def test_set_lr_keeps_the_groups_ratios():
    model = small()
    optimizer = make_optimizer(parameter_groups(model, 1e-3, 0.01, layer_decay=0.5), torch.device("cpu"))
    set_lr(optimizer, 0.25)
    assert {g["lr"] / g["peak_lr"] for g in optimizer.param_groups} == {0.25}
