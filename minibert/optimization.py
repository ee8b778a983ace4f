"""AdamW's parameter groups and the learning-rate schedule, written out."""

from __future__ import annotations

import math

import torch
from torch import nn

from .cli import UserError
from .model import Classifier, init_weights


def depth_of(name: str, num_hidden_layers: int) -> int:
    """How many layers lie below a classifier's parameter: 0 embeddings, i+1 for layer i, L+1 pooler and head."""
    if name.startswith("encoder.embeddings."):
        return 0
    if name.startswith("encoder.layers."):
        return int(name.split(".")[2]) + 1
    return num_hidden_layers + 1


def parameter_groups(model: Classifier, lr: float, weight_decay: float, layer_decay: float = 1.0) -> list[dict]:
    """Every trainable parameter in exactly one group, for AdamW (Loshchilov & Hutter 2019).

    Decay applies to the matrices of Linear and Embedding modules. Biases and LayerNorms are exempt, and told
    apart by the *type of their module*: names differ between families, and a test on "LayerNorm" in a name that
    does not hold it exempts nothing, silently.

    `layer_decay` ξ < 1 gives lower layers smaller rates (Sun et al. 2019, §5.3.2): the head and the top layer keep
    `lr`, each layer below has ξ times the rate of the one above, the embeddings ξ^L. Each group carries its
    `peak_lr`, which the schedule multiplies.

    Raises UserError when nothing is trainable.
    """
    layers = model.config.num_hidden_layers
    decayed_ids = {id(p) for m in model.modules() if isinstance(m, (nn.Linear, nn.Embedding))
                   for name, p in m.named_parameters(recurse=False) if p.dim() >= 2}
    groups: dict[tuple[bool, float], dict] = {}
    for name, p in model.named_parameters():  # yields a tied parameter once
        if not p.requires_grad:
            continue
        rate = lr * layer_decay ** max(0, layers - depth_of(name, layers))
        decayed = id(p) in decayed_ids
        group = groups.setdefault((decayed, rate), dict(params=[], names=[], lr=rate, peak_lr=rate,
                                                        weight_decay=weight_decay if decayed else 0.0))
        group["params"].append(p)
        group["names"].append(name)
    if not groups:
        raise UserError("no parameter is left to train: --freeze covers everything; freeze less.")
    return list(groups.values())


def frozen_depth(what: str | None, layers: int) -> int:
    """Parameters with a smaller `depth_of` than this are frozen by --freeze `what` in a model of `layers` layers.

    Raises UserError for a word or number that names no part of the model.
    """
    if what is None:
        return 0
    if what == "embeddings":
        return 1
    if what == "encoder":
        return layers + 1
    if what.isascii() and what.isdigit() and 1 <= int(what) <= layers:
        return int(what) + 1
    raise UserError(f"--freeze {what}: use 'embeddings', 'encoder' or a number of layers from 1 to {layers}.")


def freeze(model: Classifier, what: str | None) -> list[str]:
    """Stop the gradient for `what`: "embeddings", "encoder" (train the head only), or a number k: the embeddings
    and the lowest k layers. Returns the frozen parameters' names. Raises UserError as `frozen_depth` does.
    """
    layers = model.config.num_hidden_layers
    below, frozen = frozen_depth(what, layers), []
    for name, p in model.named_parameters():
        if depth_of(name, layers) < below and p.requires_grad:
            p.requires_grad_(False)
            frozen.append(name)
    return frozen


def check_reinit(top: int, layers: int) -> None:
    """Raise UserError when a model of `layers` layers has no `top` layers to give fresh weights."""
    if top > layers:
        raise UserError(f"--reinit-layers {top}: the model has {layers} layers.")


def reinit_layers(model: Classifier, top: int, seed: int) -> None:
    """Give the top `top` layers (and the pooler, where the head uses it) fresh weights (Zhang et al. 2021, §4).

    Raises UserError when the model has fewer layers.
    """
    layers = model.config.num_hidden_layers
    check_reinit(top, layers)
    if top <= 0:
        return
    generator = torch.Generator().manual_seed(seed)
    parts = list(model.encoder.layers[layers - top:])
    if getattr(model.encoder, "pooler", None) is not None and model.head_type == "native":
        parts.append(model.encoder.pooler)
    for part in parts:
        init_weights(part, model.config.initializer_range, generator)


def make_optimizer(groups: list[dict], device: torch.device) -> torch.optim.AdamW:
    """AdamW with BERT's betas and epsilon; bias correction on, which the original BERT code left out and which
    small data sets need (Mosbach et al. 2021). `fused` is one kernel per step instead of one per operation.
    """
    fused = device.type in ("cuda", "cpu")
    return torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8, fused=fused)


def warmup_steps(total: int, ratio: float) -> int:
    """ceil(ratio · total), as the reference counts them, but never all of them: a run of one step would learn nothing.

    Raises UserError for a ratio outside [0, 1].
    """
    if not 0.0 <= ratio <= 1.0:
        raise UserError(f"--warmup-ratio {ratio}: a share of the steps between 0 and 1 is needed.")
    return min(math.ceil(ratio * total), total - 1)


def lr_factor(step: int, total: int, warmup: int) -> float:
    """The factor on the peak rate for optimizer step `step` (0-based) of `total` that will really happen.

    Linear from 0 over `warmup` steps, then linear to 0 at step `total`, which is never executed: the last step
    still learns. Step 0 of a warmup has rate 0, as in the reference (Devlin et al. 2018, §A.2).
    Raises UserError when the warmup is longer than the training.
    """
    if warmup > total:
        raise UserError(f"a warmup of {warmup} steps does not fit into {total} optimizer steps; lower --warmup-ratio.")
    if step < warmup:
        return step / warmup
    return max(0.0, (total - step) / max(1, total - warmup))


def set_lr(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Rate of every group = its own peak · factor."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak_lr"] * factor
