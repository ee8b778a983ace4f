"""BERT, DistilBERT and RoBERTa encoders, and the heads that classify with them. Read it from top to bottom.

The axis legend, used on every reshape:

    B  batch: texts in a step            H  heads: num_attention_heads
    S  sequence: tokens of the longest   W  head width: D / H
    D  hidden_size                       V  vocabulary: vocab_size
                                         C  classes

    (B,S) ids ── Embeddings ──> (B,S,D) ── EncoderLayer × L ──> (B,S,D) ── row [CLS] = [:, 0] ── Head ──> (B,C) logits

Sources: Vaswani et al. 2017 (attention), Devlin et al. 2018 (BERT), Liu et al. 2019 (RoBERTa), Sanh et al. 2019
(DistilBERT). All three families run on this one code; what differs between them is data, in config.FAMILIES and
in NATIVE_HEADS below.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .cli import UserError
from .config import EncoderConfig

ACTIVATION = {
    "gelu": F.gelu,  # x·Φ(x) by erf, as BERT has it; the tanh form is off by up to 5e-4 and is GPT-2's
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}


class EncoderOutput(NamedTuple):
    """`last_hidden_state` (B,S,D); `pooler_output` (B,D); `hidden_states` L+1 × (B,S,D), the embeddings first;
    `attentions` L × (B,H,S,S), row = the token that looks. None where there is none or it was not asked for.

    Rows at padded positions hold numbers too (they are not zero): never average over them.
    """

    last_hidden_state: Tensor
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class Embeddings(nn.Module):
    """Word + position + segment rows, LayerNorm, dropout: (B,S) → (B,S,D). Devlin et al. 2018, §3, figure 2.

    The positions are a learned table, not sinusoids, which is why a longer sequence than the table has rows
    cannot be taken at all.
    """

    def __init__(self, config: EncoderConfig):
        super().__init__()
        D, pad = config.hidden_size, config.pad_token_id
        self.pad_token_id = pad
        self.position_offset = config.position_offset
        self.skip_padding = config.family.positions_skip_padding
        # padding_idx: the [PAD] row gets no gradient, as in the reference.
        self.word_embeddings = nn.Embedding(config.vocab_size, D, padding_idx=pad)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, D, padding_idx=pad if self.skip_padding else None)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, D) if config.type_vocab_size else None
        self.LayerNorm = nn.LayerNorm(D, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor | None, attention_mask: Tensor | None, token_type_ids: Tensor | None,
                inputs_embeds: Tensor | None) -> Tensor:
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds  # (B,S) -> (B,S,D)
        x = words
        if self.token_type_embeddings is not None:
            # Left out means segment 0, and row 0 is still added: RoBERTa's one row is not zero.
            row = self.token_type_embeddings.weight[0] if token_type_ids is None else self.token_type_embeddings(token_type_ids)
            x = x + row
        x = x + self.position_embeddings(self.positions(input_ids, attention_mask, words))
        return self.dropout(self.LayerNorm(x))

    def positions(self, input_ids: Tensor | None, attention_mask: Tensor | None, words: Tensor) -> Tensor:
        """The row of the position table for every token, (1,S) or (B,S).

        BERT counts 0, 1, 2, … whatever the padding. RoBERTa counts real tokens only, from pad id + 1, and leaves
        pads on row pad id: [0,5,6,2,1,1] with pad id 1 gives [2,3,4,5,1,1].
        """
        if not self.skip_padding:
            return torch.arange(words.shape[1], device=words.device)[None]
        if input_ids is not None:
            real = input_ids != self.pad_token_id
        elif attention_mask is not None:  # embeddings in place of ids: only the mask knows the pads
            real = attention_mask != 0
        else:
            real = torch.ones(words.shape[:2], dtype=torch.bool, device=words.device)
        return real.cumsum(dim=1) * real + self.pad_token_id


class MultiHeadAttention(nn.Module):
    """softmax(QKᵀ/√W + mask)·V in H heads side by side, then one output projection: (B,S,D) → (B,S,D).

    Vaswani et al. 2017, §3.2. The division by √W keeps the scores' variance at 1 whatever the head width; without
    it softmax saturates and the gradient vanishes.
    """

    def __init__(self, config: EncoderConfig):
        super().__init__()
        D = config.hidden_size
        self.H, self.W = config.num_attention_heads, config.head_width
        self.query, self.key, self.value = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.output = nn.Linear(D, D)
        self.dropout = config.attention_probs_dropout_prob

    def forward(self, x: Tensor, mask: Tensor | None, eager: bool, queries: int | None = None) -> tuple[Tensor, Tensor | None]:
        """`mask` (B,1,1,S) bool, True = take part. Only the first `queries` tokens look (None: all, Q = S below), at all
        S tokens. Returns (B,Q,D) and, in eager mode, the weights (B,H,Q,S)."""
        B, S, D = x.shape
        looking = x[:, :queries]
        Q = looking.shape[1]
        q = self.query(looking).view(B, Q, self.H, self.W).transpose(1, 2)  # (B,Q,D) -> (B,Q,H,W) -> (B,H,Q,W)
        k = self.key(x).view(B, S, self.H, self.W).transpose(1, 2)
        v = self.value(x).view(B, S, self.H, self.W).transpose(1, 2)
        # A functional dropout rate does not follow eval() by itself: it has to be told.
        p = self.dropout if self.training else 0.0
        weights = None
        if eager:
            scores = q @ k.transpose(2, 3) * self.W**-0.5  # (B,H,Q,W) @ (B,H,W,S) -> (B,H,Q,S)
            if mask is not None:
                # Fill, not add, and with the dtype's own lowest number: -1e9 or a sum overflows in fp16.
                scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            weights = scores.softmax(dim=-1, dtype=torch.float32).to(v.dtype)  # over keys; in fp32 under autocast
            weights = F.dropout(weights, p)
            context = weights @ v  # (B,H,Q,S) @ (B,H,S,W) -> (B,H,Q,W)
        else:
            # True in this mask means "take part"; nn.MultiheadAttention means the opposite by the same word.
            context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)
        return self.output(context.transpose(1, 2).reshape(B, Q, D)), weights  # (B,H,Q,W) -> (B,Q,H,W) -> (B,Q,D)


class FeedForward(nn.Module):
    """Two Linears with the activation between, at each position alone: (B,S,D) → (B,S,4D) → (B,S,D)."""

    def __init__(self, config: EncoderConfig):
        super().__init__()
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACTIVATION[config.hidden_act]
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.activation(self.intermediate(x)))


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each with dropout, residual and then LayerNorm: (B,S,D) → (B,S,D).

    LayerNorm *after* the sum (post-LN), as in 2017 and in BERT; GPT-2 and later models put it before. With post-LN
    the gradient at the top is large at first: that is why BERT is trained with a warmup.
    """

    def __init__(self, config: EncoderConfig):
        super().__init__()
        self.attention = MultiHeadAttention(config)
        self.attention_dropout = nn.Dropout(config.hidden_dropout_prob if config.family.attention_output_dropout else 0.0)
        self.attention_LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.output_dropout = nn.Dropout(config.hidden_dropout_prob)
        self.output_LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, mask: Tensor | None, eager: bool, queries: int | None = None) -> tuple[Tensor, Tensor | None]:
        """(B,S,D) → (B,S,D), or, of the first `queries` tokens alone, (B,Q,D)."""
        context, weights = self.attention(x, mask, eager, queries)
        x = x[:, :queries]
        x = self.attention_LayerNorm(x + self.attention_dropout(context))
        x = self.output_LayerNorm(x + self.output_dropout(self.feed_forward(x)))
        return x, weights


class Encoder(nn.Module):
    """The whole encoder: embeddings, L layers and, where the family has one, the pooler.

    `implementation` "sdpa" uses PyTorch's fused attention, "eager" the arithmetic written out above; both agree to
    1e-5 in fp32. New weights are normal(0, initializer_range), from PyTorch's global generator.
    BERT-base has 109,482,240 parameters, RoBERTa-base 124,645,632, DistilBERT-base 66,362,880.
    """

    def __init__(self, config: EncoderConfig, implementation: str = "sdpa"):
        super().__init__()
        if implementation not in ("sdpa", "eager"):
            raise UserError(f"attention implementation {implementation!r} is not one of sdpa, eager.")
        self.config, self.implementation = config, implementation
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))
        # The pooler was trained on next-sentence prediction: tanh of one Linear on the [CLS] row.
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if config.has_pooler else None
        init_weights(self, config.initializer_range)

    def forward(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, inputs_embeds: Tensor | None = None,
                output_hidden_states: bool = False, output_attentions: bool = False, cls_only: bool = False) -> EncoderOutput:
        """`input_ids` (B,S) int64, or `inputs_embeds` (B,S,D) in place of the word rows (for gradients on them).

        `attention_mask` (B,S), 1 or True = real token, any dtype; left out, every token is real. `token_type_ids`
        (B,S): left out, zeros; not read where the family has no segment table. `output_attentions=True` runs this
        one call eagerly: the fused kernel never holds the weights. `cls_only=True` computes the last layer for [CLS]
        alone, which is all that a head reads: `last_hidden_state` is then (B,1,D), the same numbers for a twelfth to a
        third less work. Raises ValueError for inputs it cannot take.
        """
        check_shapes(self.config, input_ids, attention_mask, token_type_ids, inputs_embeds)
        # Values too, where looking at them costs microseconds. On an accelerator every step would wait for the
        # answer: there a caller runs check_inputs on the batch before it moves.
        if (input_ids if inputs_embeds is None else inputs_embeds).device.type == "cpu" and not torch.compiler.is_compiling():
            check_inputs(self.config, input_ids, attention_mask, token_type_ids)
        eager = output_attentions or self.implementation == "eager"
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]  # (B,S) -> (B,1,1,S)
        x = self.embeddings(input_ids, attention_mask, token_type_ids, inputs_embeds)
        hidden, attentions = [x], []
        for number, layer in enumerate(self.layers, 1):
            x, weights = layer(x, mask, eager, 1 if cls_only and number == len(self.layers) else None)
            if output_hidden_states:
                hidden.append(x)
            if output_attentions:
                attentions.append(weights)
        pooled = None if self.pooler is None else torch.tanh(self.pooler(x[:, 0]))  # (B,S,D) -> (B,D)
        return EncoderOutput(x, pooled, tuple(hidden) if output_hidden_states else None,
                             tuple(attentions) if output_attentions else None)


class HeadSpec(NamedTuple):
    """What a head does before its last Linear: what it reads, and the hidden layer it has, if any."""

    reads_pooler: bool = False  # else the raw [CLS] row
    dense: Callable[[Tensor], Tensor] | None = None  # the activation after a D×D Linear; None: no such layer
    dropout_first: bool = False  # a dropout before that Linear as well


LINEAR_HEAD = HeadSpec()
NATIVE_HEADS = {
    "bert": HeadSpec(reads_pooler=True),
    "distilbert": HeadSpec(dense=torch.relu),
    "roberta": HeadSpec(dense=torch.tanh, dropout_first=True),
}


class Head(nn.Module):
    """EncoderOutput → logits (B,C): [dropout, Linear, activation,] dropout, Linear.

    It reads row 0 because attention is bidirectional: [CLS] has seen the whole text. In a causal model only the
    last token has.
    """

    def __init__(self, config: EncoderConfig, num_labels: int, spec: HeadSpec):
        super().__init__()
        D = config.hidden_size
        self.spec = spec
        self.dense = nn.Linear(D, D) if spec.dense else None
        self.dropout = nn.Dropout(config.head_dropout)
        self.classifier = nn.Linear(D, num_labels)

    def forward(self, out: EncoderOutput) -> Tensor:
        x = out.pooler_output if self.spec.reads_pooler else out.last_hidden_state[:, 0]  # (B,S,D) -> (B,D)
        if self.dense is not None:
            x = self.dropout(x) if self.spec.dropout_first else x
            x = self.spec.dense(self.dense(x))
        return self.classifier(self.dropout(x))  # (B,D) -> (B,C)


class Classifier(nn.Module):
    """An encoder and a head. `head="linear"`: dropout and one Linear on the raw [CLS] row (1,538 parameters for
    BERT-base and two classes); `"native"`: the head of the family's published classifiers.

    `labels`: the C names in index order. `problem_type` says how to read the logits: softmax over classes
    ("single_label_classification") or one sigmoid each ("multi_label_classification").
    """

    def __init__(self, config: EncoderConfig, num_labels: int, head: str = "linear", implementation: str = "sdpa"):
        super().__init__()
        if head not in ("linear", "native"):
            raise UserError(f"head {head!r} is not one of linear, native.")
        if not isinstance(num_labels, int) or isinstance(num_labels, bool) or num_labels < 1:
            raise UserError(f"num_labels is {num_labels!r}; it has to be a whole number above 0.")
        spec = LINEAR_HEAD if head == "linear" else NATIVE_HEADS[config.model_type]
        if head == "native" and not spec.reads_pooler:
            config = dataclasses.replace(config, has_pooler=False)  # as in the family's published classifiers
        self.config, self.head_type = config, head
        self.labels = [f"LABEL_{i}" for i in range(num_labels)]
        self.problem_type = "single_label_classification"
        self.encoder = Encoder(config, implementation)
        self.head = Head(config, num_labels, spec)
        init_weights(self.head, config.initializer_range)
        if self.encoder.pooler is not None and not spec.reads_pooler:
            # Kept for export, but nothing reads it: without gradients neither decay nor DDP stumbles over it.
            self.encoder.pooler.requires_grad_(False)

    def forward(self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None,
                token_type_ids: Tensor | None = None, inputs_embeds: Tensor | None = None) -> Tensor:
        """Logits (B,C); the arguments are the encoder's."""
        return self.head(self.encoder(input_ids, attention_mask, token_type_ids, inputs_embeds, cls_only=True))


def init_weights(module: nn.Module, std: float, generator: torch.Generator | None = None) -> None:
    """BERT's start: weights normal(0, std), biases 0, LayerNorm 1 and 0, the [PAD] row 0 (Devlin et al., A.2)."""
    for m in module.modules():
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=std, generator=generator)
        if isinstance(m, nn.Embedding) and m.padding_idx is not None:
            with torch.no_grad():
                m.weight[m.padding_idx].zero_()
        if isinstance(m, nn.LayerNorm):
            nn.init.ones_(m.weight)
        if isinstance(m, (nn.Linear, nn.LayerNorm)):
            nn.init.zeros_(m.bias)


def check_shapes(config: EncoderConfig, input_ids: Tensor | None, attention_mask: Tensor | None,
                 token_type_ids: Tensor | None, inputs_embeds: Tensor | None) -> None:
    """Raise UserError (a ValueError) if the shapes do not fit together or the sequence is too long. Looks at no value."""
    if (input_ids is None) == (inputs_embeds is None):
        raise UserError("the encoder takes either input_ids or inputs_embeds, and exactly one of them.")
    for name, ids in (("input_ids", input_ids), ("token_type_ids", token_type_ids)):
        if ids is not None and (not isinstance(ids, Tensor) or ids.dtype not in (torch.int64, torch.int32)):
            raise UserError(f"{name} is {getattr(ids, 'dtype', type(ids).__name__)}; it has to be an int64 tensor.")
    name, given, axes = ("input_ids", input_ids, "BS") if inputs_embeds is None else ("inputs_embeds", inputs_embeds, "BSD")
    if given.dim() != len(axes) or given.shape[1] == 0:
        raise UserError(f"{name} has shape {tuple(given.shape)}; it has to be ({','.join(axes)}) with at least one token.")
    if inputs_embeds is not None and inputs_embeds.shape[2] != config.hidden_size:
        raise UserError(f"inputs_embeds is {inputs_embeds.shape[2]} wide; this model's hidden_size is {config.hidden_size}.")
    if given.shape[1] > config.max_tokens:
        raise UserError(f"a sequence of {given.shape[1]} tokens is longer than the {config.max_tokens} this model has "
                        f"positions for; truncate it to {config.max_tokens}.")
    for name, other in (("attention_mask", attention_mask), ("token_type_ids", token_type_ids)):
        if other is not None and (not isinstance(other, Tensor) or other.shape != given.shape[:2]):
            raise UserError(f"{name} has shape {tuple(getattr(other, 'shape', ()))}; it has to be {tuple(given.shape[:2])}, one number a token.")


def check_inputs(config: EncoderConfig, input_ids: Tensor | None, attention_mask: Tensor | None = None,
                 token_type_ids: Tensor | None = None) -> None:
    """Raise UserError (a ValueError) if a value is outside what the model can take, or a row has no token at all.

    It reads the tensors, so call it where they are still on the CPU.
    """
    for name, ids, rows in (("token id", input_ids, config.vocab_size), ("segment id", token_type_ids, config.type_vocab_size)):
        if ids is None or ids.numel() == 0 or rows == 0:
            continue
        low, high = (int(v) for v in ids.aminmax())
        if low < 0 or high >= rows:
            raise UserError(f"{name} {low if low < 0 else high} is outside this model's table of {rows} rows (0 to {rows - 1}); "
                            "use the tokenizer that belongs to this model.")
    if attention_mask is not None and attention_mask.numel():
        real = attention_mask != 0
        if not bool(((attention_mask == 1) | ~real).all()):
            raise UserError("attention_mask holds values other than 0 (padding) and 1 (a real token).")
        if not bool(real.any(dim=1).all()):
            row = int(real.any(dim=1).logical_not().nonzero()[0])
            raise UserError(f"row {row} of attention_mask is all 0: there is nothing to attend to; leave the row out.")
