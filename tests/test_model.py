"""The encoder's own promises: masks, positions, segments, dropout, checks of its inputs and of its config."""

import ast
import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from minibert.cli import UserError
from minibert.config import EncoderConfig, labels_from_config, model_type_of, problem_type
from minibert.model import Classifier, Encoder, check_inputs, init_weights
from reference import FAMILIES, PAD, batch, difference, one_thread, randomise

TINY = dict(vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=20)
OWN = {"bert": {}, "distilbert": {}, "roberta": dict(pad_token_id=1, type_vocab_size=1)}


def tiny_config(family="bert", **changes):
    return EncoderConfig(family, **{**TINY, **OWN[family], **changes})


def tiny(family="bert", head="linear", implementation="sdpa", labels=3, **changes):
    return randomise(Classifier(tiny_config(family, **changes), labels, head, implementation), seed=0).eval()


def ids_of_lengths(*lengths, pad=0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 30, (len(lengths), max(lengths)), generator=generator)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids[~mask] = pad
    return ids, mask.long()


# ---------------------------------------------------------------------- masks

@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_padding_is_not_attended_to(family, implementation):
    """M1: the short row is as if alone, whatever stands at the pads, in every type a mask may have."""
    model = tiny(family, implementation=implementation)
    ids, mask = ids_of_lengths(3, 7, pad=PAD[family])
    with torch.no_grad():
        alone = model(ids[:1, :3])
        for kind in (torch.int64, torch.int32, torch.uint8, torch.bool, torch.float32, torch.float16):
            assert difference(model(ids, mask.to(kind))[:1], alone) < 1e-5, kind
        noisy = ids.clone()
        noisy[0, 3:] = torch.tensor([9, 17, 28, 11])
        assert difference(model(noisy, mask)[:1], alone) < 1e-5
        assert difference(model(noisy)[:1], alone) > 1e-3  # without the mask they do count


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_do_not_matter(family, implementation):
    """M5: alone, beside a long text, and padded up to the table."""
    model = tiny(family, implementation=implementation, max_position_embeddings=514)
    ids, mask = ids_of_lengths(5, 500, pad=PAD[family])
    with torch.no_grad():
        alone = model(ids[:1, :5])
        for width in (32, 500, 512):
            padded = torch.full((1, width), PAD[family])
            padded[0, :5] = ids[0, :5]
            assert difference(model(padded, padded != PAD[family]), alone) < 1e-5
        assert difference(model(ids, mask)[:1], alone) < 1e-5


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_half_precision_with_padding_is_finite(implementation, kind):
    """M3: scores of ±20 and beyond in 16 bits, one key padded."""
    model = tiny(implementation=implementation).to(kind)
    with torch.no_grad():
        for layer in model.encoder.layers:
            layer.attention.query.weight.mul_(20)
    ids, mask = ids_of_lengths(6, 7)
    out = model.encoder(ids, mask, output_attentions=True)
    assert out.last_hidden_state.isfinite().all() and all(a.isfinite().all() for a in out.attentions)
    assert model(ids, mask).isfinite().all()
    assert out.attentions[0][0, :, :, 6].max() == 0


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("rate", ["attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout"])
def test_dropout_is_off_in_eval_and_on_in_train(implementation, rate):
    """M4: after any number of switches; each of the three rates alone."""
    off = dict(attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0, classifier_dropout=0.0)
    model = tiny(implementation=implementation, **{**off, rate: 0.5})
    ids, mask = ids_of_lengths(4, 7)
    kept = model.eval()(ids, mask)
    for _ in range(3):
        assert not torch.equal(model.train()(ids, mask), model(ids, mask))
        assert torch.equal(model.eval()(ids, mask), kept) and torch.equal(model(ids, mask), kept)


def test_the_fused_kernel_takes_the_boolean_mask_on_a_cpu():
    """Not the slow fallback that holds all S×S weights."""
    from torch.profiler import profile

    model = tiny()
    ids, mask = ids_of_lengths(4, 7)
    with profile() as seen, torch.no_grad():
        model(ids, mask)
    names = {event.key for event in seen.key_averages()}
    assert any("flash_attention" in name for name in names) and not any("attention_math" in name for name in names)


# ---------------------------------------------------------------------- positions and segments

def test_roberta_counts_real_tokens():
    """T1: the positions of the case, of left padding, and of pad id 3."""
    embeddings = tiny("roberta").encoder.embeddings
    rows = torch.zeros(1, 6, 16)
    count = lambda ids: embeddings.positions(torch.tensor([ids]), None, rows[:, :len(ids)])[0].tolist()  # noqa: E731
    assert count([0, 5, 6, 2, 1, 1]) == [2, 3, 4, 5, 1, 1]
    assert count([1, 1, 0, 5, 2]) == [1, 1, 2, 3, 4]
    embeddings = tiny("roberta", pad_token_id=3).encoder.embeddings
    assert count([0, 5, 6, 2, 3, 3]) == [4, 5, 6, 7, 3, 3]


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_bert_positions_start_at_0_and_do_not_know_padding(family):
    embeddings = tiny(family).encoder.embeddings
    assert embeddings.positions(torch.tensor([[0, 0, 5]]), None, torch.zeros(1, 3, 16)).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("family, usable", [("bert", 20), ("distilbert", 20), ("roberta", 18)])
def test_longest_sequence(family, usable):
    model = tiny(family)
    assert model.config.max_tokens == usable
    assert model(torch.full((1, usable), 7)).isfinite().all()
    with pytest.raises(ValueError, match=f"{usable + 1} tokens is longer than the {usable}"):
        model(torch.full((1, usable + 1), 7))


def test_segments():
    """T2: left out = zeros; RoBERTa's only row is added all the same; out of range is a sentence; DistilBERT has none."""
    ids, mask = ids_of_lengths(4, 7)
    zeros = torch.zeros_like(ids)
    for family in ("bert", "roberta"):
        model = tiny(family)
        assert torch.equal(model(ids, mask), model(ids, mask, zeros))
        with pytest.raises(ValueError, match="segment id .* is outside"):
            model(ids, mask, zeros + model.config.type_vocab_size)
        without = copy.deepcopy(model)
        with torch.no_grad():
            without.encoder.embeddings.token_type_embeddings.weight.zero_()
        assert difference(model(ids, mask), without(ids, mask)) > 1e-3
    assert difference(tiny()(ids, mask), tiny()(ids, mask, zeros + 1)) > 1e-3
    model = tiny("distilbert")
    assert model.encoder.embeddings.token_type_embeddings is None
    assert torch.equal(model(ids, mask), model(ids, mask, zeros))


# ---------------------------------------------------------------------- bad inputs

IDS = torch.tensor([[5, 6, 7], [8, 9, 0]])
BAD = {
    "id too high": (dict(input_ids=IDS + 25), "token id 34 is outside this model's table of 30 rows"),
    "id negative": (dict(input_ids=IDS - 1), "token id -1 is outside"),
    "mask of another length": (dict(input_ids=IDS, attention_mask=torch.ones(2, 4)), r"attention_mask has shape \(2, 4\)"),
    "mask already spread": (dict(input_ids=IDS, attention_mask=torch.ones(2, 1, 1, 3)), "attention_mask has shape"),
    "nothing to attend to": (dict(input_ids=IDS, attention_mask=torch.tensor([[1, 1, 0], [0, 0, 0]])), "row 1 of attention_mask is all 0"),
    "additive mask": (dict(input_ids=IDS, attention_mask=torch.tensor([[0.0, 0, -1e4]] * 2)), "other than 0"),
    "not a number in the mask": (dict(input_ids=IDS, attention_mask=torch.full((2, 3), float("nan"))), "other than 0"),
    "one row without its axis": (dict(input_ids=IDS[0]), "has to be"),
    "no tokens": (dict(input_ids=IDS[:, :0]), "at least one token"),
    "floats for ids": (dict(input_ids=IDS.float()), "int64"),
    "a list for ids": (dict(input_ids=IDS.tolist()), "int64"),
    "a list for the mask": (dict(input_ids=IDS, attention_mask=[[1, 1, 1]] * 2), "attention_mask"),
    "nothing at all": (dict(), "exactly one"),
    "both": (dict(input_ids=IDS, inputs_embeds=torch.zeros(2, 3, 16)), "exactly one"),
    "embeddings of another width": (dict(inputs_embeds=torch.zeros(2, 3, 15)), "15 wide"),
    "segments of another shape": (dict(input_ids=IDS, token_type_ids=IDS[:1]), "token_type_ids has shape"),
    "segments of floats": (dict(input_ids=IDS, token_type_ids=torch.zeros(2, 3)), "int64"),
    "negative segment": (dict(input_ids=IDS, token_type_ids=IDS - 9), "segment id -9"),
}


@pytest.mark.parametrize("inputs, message", BAD.values(), ids=BAD.keys())
def test_bad_inputs_are_sentences(inputs, message):
    with pytest.raises(ValueError, match=message) as caught:
        tiny()(**inputs)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_check_inputs_on_its_own():
    config = tiny_config()
    check_inputs(config, IDS, torch.ones(2, 3), torch.zeros_like(IDS))
    check_inputs(config, IDS[:0], torch.ones(0, 3))
    with pytest.raises(UserError, match="row 1"):
        check_inputs(config, IDS, torch.tensor([[True] * 3, [False] * 3]))


def test_forward_looks_at_shapes_only_where_looking_would_wait():
    """On the meta device no value can be read: a check that tried would raise."""
    with torch.device("meta"):
        model = Classifier(tiny_config(), 2)
        ids = torch.ones(2, 5, dtype=torch.int64)
    assert model(ids, ids, ids).shape == (2, 2)
    with pytest.raises(ValueError, match="attention_mask has shape"):
        model(ids, ids[:1])


# ---------------------------------------------------------------------- parts

def test_linear_head_has_1538_parameters_and_the_pooler_is_frozen():
    with torch.device("meta"):
        model = Classifier(EncoderConfig(), 2)
    assert sum(p.numel() for p in model.head.parameters()) == 1538
    assert sum(p.numel() for p in model.encoder.parameters()) == 109_482_240
    assert {name for name, p in model.named_parameters() if not p.requires_grad} == {"encoder.pooler.weight", "encoder.pooler.bias"}


@pytest.mark.parametrize("head", ["linear", "native"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_trainable_parameter_gets_a_gradient(family, head):
    """P4: nothing unused is left trainable."""
    model = tiny(family, head).train()
    ids, mask = ids_of_lengths(4, 7, pad=PAD[family])
    torch.nn.functional.cross_entropy(model(ids, mask), torch.tensor([0, 1])).backward()
    assert all((p.grad is not None) == p.requires_grad for p in model.parameters())
    assert (model.encoder.pooler is not None) == (family == "bert" or (family == "roberta" and head == "linear"))


def test_native_bert_head_reads_the_pooler_and_the_linear_one_does_not():
    ids, mask = ids_of_lengths(4, 7)
    for head, reads in (("native", True), ("linear", False)):
        model = tiny(head=head)
        before = model(ids, mask)
        with torch.no_grad():
            model.encoder.pooler.weight.neg_()
        assert torch.equal(before, model(ids, mask)) != reads


def test_new_weights_are_berts():
    model = Classifier(tiny_config(vocab_size=5000, hidden_size=64, initializer_range=0.05), 3)
    words = model.encoder.embeddings.word_embeddings.weight
    assert words[0].abs().max() == 0 and abs(words[1:].std() - 0.05) < 0.001
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            assert (module.weight == 1).all() and (module.bias == 0).all()
        if isinstance(module, torch.nn.Linear):
            assert (module.bias == 0).all() and abs(module.weight.std() - 0.05) < 0.01
    first, second = (torch.nn.Linear(8, 8) for _ in range(2))
    for layer in (first, second):
        init_weights(layer, 0.02, torch.Generator().manual_seed(3))
    assert torch.equal(first.weight, second.weight)


def test_copies_and_double_precision_give_the_same():
    """deepcopy, state_dict and double(): nothing hangs on a hook or a global."""
    model = tiny("roberta", "native")
    ids, mask = ids_of_lengths(4, 7, pad=1)
    again = tiny("roberta", "native")
    again.load_state_dict(copy.deepcopy(model).state_dict(), strict=True)
    assert torch.equal(again(ids, mask), model(ids, mask))
    assert difference(copy.deepcopy(model).double()(ids, mask).float(), model(ids, mask)) < 1e-5


@pytest.mark.parametrize("make", [lambda: Encoder(tiny_config(), "flash"), lambda: Classifier(tiny_config(), 2, "pooled"),
                                  lambda: Classifier(tiny_config(), 0), lambda: Classifier(tiny_config(), True),
                                  lambda: Classifier(tiny_config(), 2.0)])
def test_wrong_choices_are_sentences(make):
    with pytest.raises(UserError):
        make()


def test_the_layers_do_not_know_the_family():
    """Families are data. `model_type` may pick a row of a table, once; nothing branches on a family's name."""
    source = (Path(__file__).parent.parent / "minibert" / "model.py").read_text()
    tests = [ast.unparse(node.test) for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.If, ast.IfExp))]
    assert tests and not any(name in test for test in tests for name in (*FAMILIES, "model_type"))
    assert len(source.splitlines()) < 400


# ---------------------------------------------------------------------- config

WHOLE = EncoderConfig(**TINY).to_dict()
ABSURD = {
    "a list": ([1, 2], "holds a list"),
    "a word": ("bert", "holds a str"),
    "nothing": (None, "NoneType"),
    "no family": ({}, "no model_type"),
    "another family": ({**WHOLE, "model_type": "gpt2"}, "'gpt2' is not a family minibert knows; what works: bert, distilbert, roberta, xlm-roberta"),
    "a family that is no word": ({**WHOLE, "model_type": ["bert"]}, "not a family"),
    "heads that do not divide": ({**WHOLE, "num_attention_heads": 3}, "3 heads .* do not divide 16"),
    "no layers": ({**WHOLE, "num_hidden_layers": 0}, "num_hidden_layers is 0"),
    "negative width": ({**WHOLE, "hidden_size": -16}, "hidden_size is -16"),
    "absurd width": ({**WHOLE, "hidden_size": 10**12}, "hidden_size is 1000000000000"),
    "absurd all together": ({**WHOLE, "hidden_size": 65536, "vocab_size": 10**7, "num_attention_heads": 1}, "parameters"),
    "a float": ({**WHOLE, "hidden_size": 16.0}, "hidden_size is 16.0"),
    "a word for a number": ({**WHOLE, "vocab_size": "30"}, "vocab_size is '30'"),
    "true for a number": ({**WHOLE, "num_hidden_layers": True}, "num_hidden_layers is True"),
    "null": ({**WHOLE, "intermediate_size": None}, "intermediate_size is None"),
    "dropout of 1": ({**WHOLE, "hidden_dropout_prob": 1.0}, "hidden_dropout_prob is 1.0"),
    "dropout not a number": ({**WHOLE, "attention_probs_dropout_prob": float("nan")}, "attention_probs_dropout_prob is nan"),
    "epsilon of 0": ({**WHOLE, "layer_norm_eps": 0}, "layer_norm_eps is 0"),
    "no such activation": ({**WHOLE, "hidden_act": "banana"}, "hidden_act is 'banana'; it has to be one of gelu"),
    "pad outside": ({**WHOLE, "pad_token_id": 30}, "pad_token_id is 30"),
    "relative positions": ({**WHOLE, "position_embedding_type": "relative_key"}, "position_embedding_type"),
    "a decoder": ({**WHOLE, "is_decoder": True}, "is_decoder"),
    "RoBERTa without a pad": ({**WHOLE, "model_type": "roberta", "pad_token_id": None}, "pad_token_id is None"),
    "RoBERTa without room": ({**WHOLE, "model_type": "roberta", "max_position_embeddings": 1}, "max_position_embeddings is 1"),
    **{f"{key} missing": ({k: v for k, v in WHOLE.items() if k != key}, f"'{key}' is missing")
       for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")},
}


@pytest.mark.parametrize("content, message", ABSURD.values(), ids=ABSURD.keys())
def test_absurd_configs_are_sentences(content, message):
    with pytest.raises(UserError, match=message) as caught:
        EncoderConfig.from_dict(content, "that/config.json")
    assert str(caught.value).startswith("that/config.json") and str(caught.value).endswith(".")


def test_the_familys_own_field_is_named():
    d = EncoderConfig("distilbert", **TINY).to_dict()
    with pytest.raises(UserError, match="dim is -1"):
        EncoderConfig.from_dict({**d, "dim": -1})
    with pytest.raises(UserError, match="'n_layers' is missing"):
        EncoderConfig.from_dict({k: v for k, v in d.items() if k != "n_layers"})


@pytest.mark.parametrize("model_type", ["bert", "distilbert", "roberta", "xlm-roberta"])
def test_config_survives_the_way_out_and_in(model_type):
    from transformers import AutoConfig

    family = "roberta" if model_type == "xlm-roberta" else model_type
    config = tiny_config(family, exported_model_type=model_type, hidden_dropout_prob=0.3, classifier_dropout=0.25)
    assert EncoderConfig.from_dict(config.to_dict()) == config
    theirs = AutoConfig.for_model(**config.to_dict())
    assert (theirs.model_type, theirs.hidden_size, theirs.num_attention_heads) == (model_type, 16, 2)
    assert EncoderConfig.from_dict(theirs.to_dict()) == config


def test_the_first_bert_files_have_no_model_type():
    """BERT-tiny's config.json as its author published it: its fields say what it is, the rest is BERT's default."""
    d = dict(hidden_size=128, hidden_act="gelu", initializer_range=0.02, vocab_size=30522, hidden_dropout_prob=0.1, num_attention_heads=2,
             type_vocab_size=2, max_position_embeddings=512, num_hidden_layers=2, intermediate_size=512, attention_probs_dropout_prob=0.1)
    config = EncoderConfig.from_dict(d)
    assert (config.model_type, config.layer_norm_eps, config.pad_token_id) == ("bert", 1e-12, 0)
    with pytest.raises(UserError, match="no model_type"):
        model_type_of({**d, "architectures": ["GPT2Model"]})


def test_label_names():
    assert labels_from_config({"id2label": {"1": "pos", "0": "neg"}}) == ["neg", "pos"]
    assert labels_from_config({"label2id": {"pos": 1, "neg": 0}}) == ["neg", "pos"]
    assert labels_from_config({}) is None
    for wrong in ({"0": "a", "2": "b"}, {"x": "a"}, ["a", "b"], {"0": "a", "1": "a"}, {}):
        with pytest.raises(UserError, match="id2label"):
            labels_from_config({"id2label": wrong})
    assert problem_type({}) == problem_type({"problem_type": None}) == "single_label_classification"
    assert problem_type({"problem_type": "multi_label_classification"}) == "multi_label_classification"
    with pytest.raises(UserError, match="'regression' is not classification"):
        problem_type({"problem_type": "regression"})


# ---------------------------------------------------------------------- the package

def test_importing_the_package_loads_no_room():
    """`import minibert` brings nothing heavy of its own; the four names and no more."""
    code = ("import sys, torch; before = set(sys.modules); import minibert; new = set(sys.modules) - before;"
            "print(sorted(new)); print(sorted(n for n in dir(minibert) if not n.startswith('_')), minibert.__version__)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent.parent, check=True).stdout
    assert out.splitlines() == ["['minibert']", "['Predictor', 'load_classifier', 'load_encoder', 'load_tokenizer'] 0.1.0"]
    import minibert

    assert callable(minibert.load_encoder) and callable(minibert.load_tokenizer) and callable(minibert.load_classifier)
    with pytest.raises(AttributeError):
        minibert.load_anything
