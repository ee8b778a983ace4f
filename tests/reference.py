"""Tiny randomised `transformers` models: what minibert's encoder, heads and gradients are compared with."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch
import transformers
from torch import nn
from transformers import (
    BertConfig, BertForSequenceClassification, BertModel,
    DistilBertConfig, DistilBertForSequenceClassification, DistilBertModel,
    RobertaConfig, RobertaForSequenceClassification, RobertaModel,
)

from minibert import convert
from minibert.config import EncoderConfig
from minibert.model import Classifier

transformers.logging.set_verbosity_error()


@pytest.fixture(autouse=True)
def one_thread():
    """For test files that import it: on matrices this small a second thread only waits for the first."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FAMILIES = ("bert", "distilbert", "roberta")
CLASSES = {
    "bert": (BertConfig, BertModel, BertForSequenceClassification),
    "distilbert": (DistilBertConfig, DistilBertModel, DistilBertForSequenceClassification),
    "roberta": (RobertaConfig, RobertaModel, RobertaForSequenceClassification),
}
V, D, H, F, POSITIONS, PAD = 37, 36, 3, 40, 30, {"bert": 0, "distilbert": 0, "roberta": 1}


def reference_config(family: str, layers: int = 2, **changes):
    """3 heads of width 12, 37 tokens; dropout rates all different, so that one in the place of another shows."""
    common = dict(vocab_size=V, max_position_embeddings=POSITIONS, pad_token_id=PAD[family], initializer_range=0.02,
                  bos_token_id=None, eos_token_id=None, num_labels=3)
    if family == "distilbert":
        own = dict(dim=D, n_heads=H, n_layers=layers, hidden_dim=F, dropout=0.2, attention_dropout=0.3, seq_classif_dropout=0.4)
    else:
        own = dict(hidden_size=D, num_attention_heads=H, num_hidden_layers=layers, intermediate_size=F, hidden_dropout_prob=0.2,
                   attention_probs_dropout_prob=0.3, classifier_dropout=0.4, type_vocab_size=1 if family == "roberta" else 2,
                   layer_norm_eps=1e-5 if family == "roberta" else 1e-12)
    return CLASSES[family][0](**{**common, **own, **changes})


def randomise(model: nn.Module, seed: int) -> nn.Module:
    """Every parameter away from its start, LayerNorms and [PAD] rows too: a part left out or swapped then shows."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            norm = "norm" in name.lower() and name.endswith("weight")
            p.copy_(1 + 0.3 * noise if norm else 0.25 * noise)
    return model


def reference_classifier(family: str, attention: str = "eager", seed: int = 0, **changes) -> nn.Module:
    config = reference_config(family, **changes)
    config._attn_implementation = attention
    return randomise(CLASSES[family][2](config), seed).eval()


def reference_encoder(family: str, attention: str = "eager", seed: int = 0, **changes) -> nn.Module:
    config = reference_config(family, **changes)
    config._attn_implementation = attention
    return randomise(CLASSES[family][1](config), seed).eval()


class LinearOnCls(nn.Module):
    """The reference encoder with minibert's linear head, which `transformers` does not have."""

    def __init__(self, encoder: nn.Module, num_labels: int = 3):
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(0.4)
        self.linear_head = randomise(nn.Linear(D, num_labels), seed=9)


def ours(reference: nn.Module, head: str, implementation: str = "eager") -> Classifier:
    """minibert's classifier with the reference's weights, through the same strict load as any checkpoint."""
    config = (reference.encoder if isinstance(reference, LinearOnCls) else reference).config
    state = reference.state_dict()
    if isinstance(reference, LinearOnCls):
        state = {key.removeprefix("encoder."): value for key, value in state.items()}
    classifier = Classifier(EncoderConfig.from_dict(config.to_dict()), 3, head, implementation)
    convert.load_state(classifier, state)
    return classifier.eval()


def batch(family: str, padding: str = "right", seed: int = 0, B: int = 4, S: int = 11) -> dict[str, torch.Tensor]:
    """A batch with rows of different lengths; "none": no padding and no mask."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, V, (B, S), generator=generator)
    types = torch.randint(0, 2, (B, S), generator=generator)
    mask = torch.ones(B, S, dtype=torch.int64)
    for row in range(B if padding != "none" else 0):
        n = 3 * row % S
        if n:
            mask[row, slice(S - n, S) if padding == "right" else slice(0, n)] = 0
    ids[mask == 0], types[mask == 0] = PAD[family], 0
    made = {"input_ids": ids}
    if padding != "none":
        made["attention_mask"] = mask
    if family == "bert":
        made["token_type_ids"] = types
    return made


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest absolute difference; not finite counts as infinite."""
    assert a.shape == b.shape, f"{tuple(a.shape)} against {tuple(b.shape)}"
    worst = (a.detach().double() - b.detach().double()).abs().max().item()
    return worst if worst == worst else float("inf")
