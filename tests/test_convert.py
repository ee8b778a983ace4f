"""Weights in and out: strict, complete, bit for bit, and open to `transformers` on the other side."""

import itertools
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

import minibert
from minibert import checkpoint, convert, files, tokenization
from minibert.cli import UserError
from minibert.model import Classifier
from reference import (
    CLASSES, FAMILIES, batch, difference, one_thread, ours, randomise, reference_classifier, reference_config, reference_encoder,
)

PREFIX = {"bert": "bert.", "distilbert": "distilbert.", "roberta": "roberta."}
quiet = lambda line: None  # noqa: E731


def write(folder: Path, config: dict, state: dict, kind: str = "safetensors", metadata: dict | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    state = {key: value.clone().contiguous() for key, value in state.items()}
    if kind == "safetensors":
        save_file(state, folder / "model.safetensors", metadata=metadata)
    else:
        torch.save(state, folder / "pytorch_model.bin")
    return folder


def checkpoint_of(reference, folder, change=lambda state: state, **kw):
    """A folder with the reference's config.json and its state after `change`."""
    config = {**reference.config.to_dict(), "architectures": [type(reference).__name__]}
    return write(folder, config, change(dict(reference.state_dict())), **kw)


def same(model, reference, family="bert"):
    inputs = batch(family)
    with torch.no_grad():
        return difference(model.eval()(**inputs), reference(**inputs).logits)


# ---------------------------------------------------------------------- strictness

@pytest.mark.parametrize("family, key", [("bert", "bert.encoder.layer.1.output.dense.weight"), ("bert", "bert.embeddings.LayerNorm.bias"),
                                         ("distilbert", "distilbert.transformer.layer.0.ffn.lin1.bias"),
                                         ("roberta", "roberta.embeddings.token_type_embeddings.weight"),
                                         ("bert", "bert.pooler.dense.weight"), ("bert", "classifier.bias"), ("bert", "classifier.weight"),
                                         ("roberta", "classifier.dense.weight"), ("distilbert", "pre_classifier.weight")])
def test_a_missing_weight_is_named(tmp_path, family, key):
    """L1: also the pooler and the head, where a trained head needs them."""
    reference = reference_classifier(family)
    folder = checkpoint_of(reference, tmp_path, lambda state: {k: v for k, v in state.items() if k != key})
    with pytest.raises(UserError) as caught:
        convert.load_classifier(folder)
    assert key.removeprefix(PREFIX[family]) in str(caught.value) and "without a text classifier" not in str(caught.value)


def test_no_key_matches(tmp_path):
    """L1: every key under a nonsense prefix; nothing in the file at all."""
    reference = reference_classifier("bert")
    for i, change in enumerate((lambda s: {"nonsense." + k: v for k, v in s.items()}, lambda s: {}, lambda s: {"classifier.weight": s["classifier.weight"]})):
        folder = checkpoint_of(reference, tmp_path / str(i), change)
        for load in (convert.load_encoder, lambda f: convert.load_classifier(f, num_labels=2, say=quiet)):
            with pytest.raises(UserError, match="not one of its"):
                load(folder)


def test_an_unknown_key_is_named(tmp_path):
    """L10: also a layer more than the config has."""
    reference = reference_encoder("bert")
    folder = checkpoint_of(reference, tmp_path / "a", lambda s: {**s, "encoder.layer.0.attention.self.querry.weight": torch.ones(2)})
    with pytest.raises(UserError, match=r"self\.querry\.weight.*did you mean"):
        convert.load_encoder(folder)
    config = {**reference.config.to_dict(), "num_hidden_layers": 1}
    with pytest.raises(UserError, match="with 1 layers.*encoder.layer.1"):
        convert.load_encoder(write(tmp_path / "b", config, reference.state_dict()))
    with pytest.raises(UserError, match="pooler"):
        state = {**reference_encoder("distilbert").state_dict(), "pooler.dense.weight": torch.ones(36, 36)}
        convert.load_encoder(write(tmp_path / "c", reference_encoder("distilbert").config.to_dict(), state))


def test_a_refused_load_leaves_the_module_as_it_was():
    reference = reference_classifier("bert")
    mine = ours(reference, "native")
    before = {key: value.clone() for key, value in mine.state_dict().items()}
    state = {**reference_classifier("bert", seed=1).state_dict(), "classifier.weight": torch.ones(3, 35)}
    with pytest.raises(UserError, match=r"classifier.weight has shape \(3, 35\), but config.json makes it \(3, 36\)"):
        convert.load_state(mine, state)
    assert all(torch.equal(before[key], value) for key, value in mine.state_dict().items())


@pytest.mark.parametrize("field, value, shape", [("hidden_size", 39, r", 36\).*, 39\)"), ("vocab_size", 38, r"\(37, 36\).*\(38, 36\)"),
                                                ("max_position_embeddings", 31, r"\(30, 36\).*\(31, 36\)"),
                                                ("intermediate_size", 41, r"\(40, 36\).*\(41, 36\)")])
def test_a_shape_that_differs_names_both(tmp_path, field, value, shape):
    """L8, elsewhere than the head; and 10**9 words are refused before a byte is allocated."""
    reference = reference_classifier("bert")
    config = {**reference.config.to_dict(), field: value}
    with pytest.raises(UserError, match=shape):
        convert.load_classifier(write(tmp_path, config, reference.state_dict()))


# ---------------------------------------------------------------------- spellings

def legacy(state):
    """LayerNorm weight/bias as gamma/beta."""
    return {key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value for key, value in state.items()}


def test_gamma_and_beta(tmp_path):
    """L2."""
    reference = reference_classifier("bert")
    assert same(convert.load_classifier(checkpoint_of(reference, tmp_path / "a", legacy)), reference) < 1e-5
    key = "bert.embeddings.LayerNorm."
    twice = checkpoint_of(reference, tmp_path / "b", lambda s: {**s, key + "gamma": s[key + "weight"]})
    assert same(convert.load_classifier(twice), reference) < 1e-5
    differing = checkpoint_of(reference, tmp_path / "c", lambda s: {**s, key + "gamma": s[key + "weight"] + 1})
    with pytest.raises(UserError, match="two values for one parameter"):
        convert.load_classifier(differing)


def test_gamma_is_renamed_as_the_last_part_only():
    assert convert.canonical("bert.encoder.layer.0.output.LayerNorm.gamma") == "encoder.layer.0.output.LayerNorm.weight"
    assert convert.canonical("gamma.beta_1.weight") == "gamma.beta_1.weight"


@pytest.mark.parametrize("family", FAMILIES)
def test_prefixes(tmp_path, family):
    """L3: none, the family's, DataParallel's, both, torch.compile's, and a mixture: the same logits."""
    reference = reference_classifier(family)
    own = PREFIX[family]
    changes = {
        "none": lambda s: {k.removeprefix(own): v for k, v in s.items()},
        "own": lambda s: s,
        "module": lambda s: {"module." + k.removeprefix(own): v for k, v in s.items()},
        "both": lambda s: {"module." + k: v for k, v in s.items()},
        "compiled": lambda s: {"_orig_mod." + k: v for k, v in s.items()},
        "mixed": lambda s: {("module." if i % 3 else "") + k: v for i, (k, v) in enumerate(s.items())},
    }
    for name, change in changes.items():
        said = []
        assert same(convert.load_classifier(checkpoint_of(reference, tmp_path / name, change), say=said.append), reference, family) < 1e-5, name
        assert said == [], name  # not even of DistilBERT that it carries BERT's prefix
    key = own + "embeddings.word_embeddings.weight"
    with pytest.raises(UserError, match="two values for one parameter"):
        convert.load_classifier(checkpoint_of(reference, tmp_path / "twice", lambda s: {**s, "module." + key: s[key]}))


@pytest.mark.parametrize("family, other", [("bert", "roberta."), ("bert", "module.distilbert."), ("roberta", "bert."), ("distilbert", "bert.")])
def test_another_familys_prefix_is_stripped_and_said_aloud(tmp_path, family, other):
    """L3: config.json names the family; a prefix is only the name that somebody gave the encoder."""
    reference = reference_classifier(family)
    folder = checkpoint_of(reference, tmp_path, lambda s: {k.replace(PREFIX[family], other): v for k, v in s.items()})
    said = []
    assert same(convert.load_classifier(folder, say=said.append), reference, family) < 1e-5
    assert len(said) == 1 and f"prefix {other.removeprefix('module.')} though" in said[0] and "model_type" in said[0]
    convert.load_encoder(folder, say=said.append)
    assert said[-1].startswith(said[0][:40])


@pytest.mark.parametrize("config, weights", [("bert", "distilbert"), ("distilbert", "bert"), ("distilbert", "roberta"), ("bert", "roberta"), ("roberta", "bert")])
def test_another_familys_weights_are_refused(tmp_path, config, weights):
    """Not by the prefix: by what the file holds. BERT and RoBERTa have the same keys, and tables of other shapes."""
    folder = write(tmp_path, reference_classifier(config).config.to_dict(), dict(reference_classifier(weights).state_dict()))
    with pytest.raises(UserError, match="get the weights and the config.json of one model|do not belong together|weights are missing|lacks"):
        convert.load_classifier(folder, say=quiet)


def test_two_encoders_in_one_file_are_refused(tmp_path):
    reference = reference_encoder("bert")
    folder = checkpoint_of(reference, tmp_path, lambda s: {p + k: v for p in ("bert.", "roberta.") for k, v in s.items()})
    with pytest.raises(UserError, match="two values for one parameter"):
        convert.load_encoder(folder)


def test_a_misnamed_head_key_is_named_with_what_is_there(tmp_path):
    reference = reference_classifier("bert")
    folder = checkpoint_of(reference, tmp_path / "a", lambda s: {k.replace("classifier.weight", "clasifier.weight"): v for k, v in s.items()})
    with pytest.raises(UserError, match=r"lacks classifier\.weight \(the file has classifier\.bias, clasifier\.weight\)"):
        convert.load_classifier(folder)
    headless = checkpoint_of(reference, tmp_path / "b", lambda s: {k: v for k, v in s.items() if k.startswith("bert.")})
    with pytest.raises(UserError, match=r"lacks classifier\.weight, classifier\.bias; "):  # config.json: …ForSequenceClassification
        convert.load_classifier(headless)
    linear = convert.load_classifier(checkpoint_of(reference, tmp_path / "c"), 2, say=quiet)
    convert.save_classifier(linear, tmp_path / "d")
    state = load_file(tmp_path / "d" / "model.safetensors")
    state["linearhead.weight"] = state.pop("linear_head.weight")
    save_file(state, tmp_path / "d" / "model.safetensors")
    with pytest.raises(UserError, match=r"lacks linear_head\.weight \("):
        convert.load_classifier(tmp_path / "d")


def test_the_hubs_bert_base_uncased_layout(tmp_path, capsys):
    """Prefix, gamma/beta, MLM and NSP heads, position_ids: loads without a word."""
    reference = reference_encoder("bert")

    def as_published(state):
        state = {"bert." + k: v for k, v in legacy(state).items()}
        extra = {"bert.embeddings.position_ids": torch.arange(30)[None], "cls.predictions.bias": torch.zeros(37),
                 "cls.predictions.transform.LayerNorm.gamma": torch.ones(36), "cls.seq_relationship.weight": torch.ones(2, 36)}
        return {**state, **extra}

    encoder = convert.load_encoder(checkpoint_of(reference, tmp_path, as_published, kind="bin")).eval()
    assert capsys.readouterr() == ("", "")
    assert encoder.load_report.fresh == [] and encoder.load_report.left_out == [] and len(encoder.load_report.loaded) == 39
    with torch.no_grad():
        assert difference(encoder(**batch("bert")).pooler_output, reference(**batch("bert")).pooler_output) < 1e-5


@pytest.mark.parametrize("family, extra", [("distilbert", ["vocab_transform.weight", "vocab_layer_norm.bias", "vocab_projector.bias"]),
                                           ("roberta", ["lm_head.dense.weight", "lm_head.layer_norm.bias", "lm_head.bias", "roberta.embeddings.position_ids",
                                                        "roberta.embeddings.token_type_ids"]),
                                           ("bert", ["fit_dense.weight", "fit_denses.3.bias"])])
def test_pretraining_heads_and_buffers_are_left_out_quietly(tmp_path, capsys, family, extra):
    reference = reference_encoder(family)
    folder = checkpoint_of(reference, tmp_path, lambda s: {**s, **{key: torch.ones(3) for key in extra}})
    assert convert.load_encoder(folder).load_report.left_out == [] and capsys.readouterr() == ("", "")


# ---------------------------------------------------------------------- pooler and heads

@pytest.mark.parametrize("head", ["linear", "native"])
def test_a_missing_bert_pooler_is_new_seeded_and_named(tmp_path, capsys, head):
    """L10."""
    reference = reference_encoder("bert")
    folder = checkpoint_of(reference, tmp_path, lambda s: {k: v for k, v in s.items() if "pooler" not in k})
    encoder = convert.load_encoder(folder)
    assert encoder.load_report.fresh == ["pooler.weight", "pooler.bias"] and "pooler.weight" in capsys.readouterr().out
    assert 0.015 < encoder.pooler.weight.std() < 0.025 and encoder.pooler.bias.abs().max() == 0
    torch.manual_seed(99)
    first, second, third = (convert.load_classifier(folder, 2, head, seed=seed) for seed in (7, 7, 8))
    assert "encoder.pooler.weight" in capsys.readouterr().out
    for name, p in first.named_parameters():
        assert torch.equal(p, dict(second.named_parameters())[name])
    assert not torch.equal(first.encoder.pooler.weight, third.encoder.pooler.weight)
    assert not torch.equal(first.head.classifier.weight, third.head.classifier.weight)


def test_loading_does_not_touch_the_global_generator(tmp_path):
    folder = checkpoint_of(reference_encoder("bert"), tmp_path)
    torch.manual_seed(4)
    expected = torch.randn(3)
    torch.manual_seed(4)
    convert.load_classifier(folder, num_labels=2, say=quiet)
    assert torch.equal(torch.randn(3), expected)


def test_roberta_needs_no_pooler(tmp_path):
    """Its classifiers have none; its encoder files may have one, which is then loaded, kept and frozen."""
    bare, whole = reference_classifier("roberta"), reference_encoder("roberta")
    encoder = convert.load_encoder(checkpoint_of(bare, tmp_path / "bare"), say=quiet)
    assert encoder.pooler is None and encoder.load_report.fresh == []
    folder = checkpoint_of(whole, tmp_path / "whole")
    assert torch.equal(convert.load_encoder(folder).pooler.weight, whole.pooler.dense.weight)
    linear = convert.load_classifier(folder, 2, say=quiet)
    assert torch.equal(linear.encoder.pooler.weight, whole.pooler.dense.weight) and not linear.encoder.pooler.weight.requires_grad
    native = convert.load_classifier(folder, 2, "native", say=quiet)
    assert native.encoder.pooler is None and native.load_report.left_out == ["pooler.dense.bias", "pooler.dense.weight"]


def test_reload_keeps_labels_and_another_head_is_announced(tmp_path):
    """L8 (a) and (b)."""
    reference = reference_classifier("bert")
    reference.config.id2label = {0: "bad", 1: "so so", 2: "good"}
    folder = checkpoint_of(reference, tmp_path)
    said = []
    saved = convert.load_classifier(folder, say=said.append)
    assert (saved.labels, saved.head_type, saved.problem_type, said) == (["bad", "so so", "good"], "native", "single_label_classification", [])
    other = convert.load_classifier(folder, labels=["no", "yes"], say=said.append)
    assert other.labels == ["no", "yes"] and other.head_type == "linear" and other.head.classifier.weight.shape == (2, 36)
    assert any("new linear head for 2 labels" in line for line in said) and any("classifier.weight" in line for line in said)
    assert other.load_report.fresh == ["head.classifier.weight", "head.classifier.bias"]
    assert torch.equal(other.encoder.layers[1].attention.key.weight, saved.encoder.layers[1].attention.key.weight)


def test_what_is_no_classifier_of_texts_is_refused(tmp_path):
    """L8 (c) and its siblings."""
    from transformers import BertForTokenClassification

    one = reference_classifier("bert", num_labels=1)
    with pytest.raises(UserError, match="one output.*regression"):
        convert.load_classifier(checkpoint_of(one, tmp_path / "one"))
    with pytest.raises(UserError, match="without a text classifier"):
        convert.load_classifier(checkpoint_of(reference_encoder("bert"), tmp_path / "encoder"))
    with pytest.raises(UserError, match="BertForTokenClassification without a text classifier"):
        convert.load_classifier(checkpoint_of(BertForTokenClassification(reference_config("bert")), tmp_path / "tokens"))
    three = checkpoint_of(reference_classifier("bert"), tmp_path / "three")
    with pytest.raises(UserError, match="native head, not a linear one"):
        convert.load_classifier(three, head="linear")
    for wrong in (dict(num_labels=0), dict(num_labels=True), dict(labels=["a", "a"]), dict(labels=[]), dict(num_labels=3, labels=["a", "b"])):
        with pytest.raises(UserError, match="labels"):
            convert.load_classifier(three, **wrong)
    for single in (dict(num_labels=1), dict(labels=["a"])):  # softmax of one output: always sure, and it could not be reloaded
        with pytest.raises(UserError, match="at least two labels"):
            convert.load_classifier(three, **single)
    yes_or_no = convert.load_classifier(three, labels=["a"], multi_label=True, say=quiet)
    convert.save_classifier(yes_or_no, tmp_path / "again")
    again = convert.load_classifier(tmp_path / "again", say=quiet)
    assert (again.labels, again.problem_type) == (["a"], "multi_label_classification")
    config = {**json.loads((three / "config.json").read_text()), "id2label": {"0": "a", "1": "b"}}
    (three / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="names 2 labels .* 3 outputs"):
        convert.load_classifier(three)
    (three / "config.json").write_text(json.dumps({**config, "id2label": None, "problem_type": "regression"}))
    with pytest.raises(UserError, match="regression"):
        convert.load_classifier(three)


@pytest.mark.parametrize("family", FAMILIES)
def test_published_classifiers(tmp_path, family):
    """As `save_pretrained` writes them: own head, label names, multi-label, and one sigmoid output."""
    for problem, labels in (("single_label_classification", 3), ("multi_label_classification", 3), ("multi_label_classification", 1)):
        names = ["a", "b", "c"][:labels]
        reference = reference_classifier(family, num_labels=labels, problem_type=problem, id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)})
        reference.save_pretrained(tmp_path / problem)
        mine = minibert.load_classifier(tmp_path / problem)
        assert (mine.labels, mine.problem_type, mine.head_type) == (names, problem, "native")
        assert mine.load_report.fresh == [] and mine.load_report.left_out == []
        assert same(mine, reference, family) < 1e-5


def test_dropout_rates_can_be_set(tmp_path):
    folder = checkpoint_of(reference_encoder("distilbert"), tmp_path)
    model = convert.load_classifier(folder, 2, say=quiet)
    assert (model.config.hidden_dropout_prob, model.config.attention_probs_dropout_prob, model.head.dropout.p) == (0.2, 0.3, 0.4)
    model = convert.load_classifier(folder, 2, dropout=0.0, attention_dropout=0.5, say=quiet)
    assert {m.p for m in model.modules() if isinstance(m, nn.Dropout)} == {0.0} and model.encoder.layers[0].attention.dropout == 0.5
    with pytest.raises(UserError, match="a rate from 0"):
        convert.load_classifier(folder, 2, dropout=1.5, say=quiet)


# ---------------------------------------------------------------------- files

@pytest.mark.parametrize("kind", ["safetensors", "bin"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_weights_become_float32_exactly(tmp_path, kind, dtype):
    """L4: whatever the file held; and a step of 2e-5 moves every weight that has a gradient."""
    reference = reference_classifier("bert").to(dtype)
    mine = convert.load_classifier(checkpoint_of(reference, tmp_path, kind=kind))
    stored = {convert.canonical(key): value for key, value in reference.state_dict().items()}
    params = dict(mine.named_parameters())
    for key, name in convert.key_map(mine).items():
        assert params[name].dtype == torch.float32 and torch.equal(params[name], stored[key].float())
    before = {name: p.detach().clone() for name, p in params.items()}
    optimizer = torch.optim.AdamW(mine.parameters(), lr=2e-5)
    nn.functional.cross_entropy(mine(**batch("bert")), torch.tensor([0, 1, 2, 1])).backward()
    optimizer.step()
    for name, p in params.items():
        moved = (p != before[name])[p.grad.abs() > 1e-6]
        assert moved.all(), name


def test_safetensors_are_preferred(tmp_path):
    """L11: both formats with different values."""
    reference, other = reference_classifier("bert", seed=0), reference_classifier("bert", seed=1)
    checkpoint_of(other, tmp_path, kind="bin")
    checkpoint_of(reference, tmp_path)
    assert same(convert.load_classifier(tmp_path), reference) < 1e-5


class Evil:
    def __init__(self, witness):
        self.witness = witness

    def __reduce__(self):
        return os.system, (f"touch {self.witness}",)


@pytest.mark.parametrize("save", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value, protocol=2))])
def test_a_file_that_would_run_code(tmp_path, save):
    """L11: refused, and nothing was executed."""
    reference = reference_classifier("bert")
    checkpoint_of(reference, tmp_path, kind="bin")
    save({**reference.state_dict(), "x": Evil(tmp_path / "witness")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="pytorch_model.bin.*could run code"):
        convert.load_classifier(tmp_path)
    assert not (tmp_path / "witness").exists()


def test_every_torch_load_is_safe():
    root = Path(__file__).parent.parent
    for file in [*root.glob("*.py"), *root.glob("minibert/*.py")]:
        for line in file.read_text().splitlines():
            assert "torch.load(" not in line or "weights_only=True" in line, f"{file.name}: {line.strip()}"
            assert "weights_only=False" not in line and "pickle.load" not in line, f"{file.name}: {line.strip()}"


WHOLE_FILE = {"safetensors": lambda path: save_file({"a": torch.ones(300)}, path), "bin": lambda path: torch.save({"a": torch.ones(300)}, path)}
DAMAGE = {
    "cut": (lambda b: b[:-40], "cut short or damaged"),
    "cut early": (lambda b: b[:100], "cut short or damaged"),
    "empty": (lambda b: b"", "is empty"),
    "a web page": (lambda b: b"<!DOCTYPE html><html>login</html>", "web page"),
    "a git-lfs pointer": (lambda b: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "Git LFS pointer"),
    "noise": (lambda b: bytes(range(7, 250)) * 9, "damaged"),
}


@pytest.mark.parametrize("kind", WHOLE_FILE)
@pytest.mark.parametrize("damage, message", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_files_are_named(tmp_path, kind, damage, message):
    path = tmp_path / f"model.{kind}"
    WHOLE_FILE[kind](path)
    assert list(convert.read_weights([path])) == ["a"]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=message) as caught:
        convert.read_weights([path])
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_other_contents_are_refused(tmp_path):
    for i, value in enumerate(([torch.ones(1)], {"model": {"a": torch.ones(1)}}, {1: torch.ones(1)})):
        torch.save(value, tmp_path / f"{i}.bin")
        with pytest.raises(UserError, match="plain table of named tensors"):
            convert.read_weights([tmp_path / f"{i}.bin"])
    reference = reference_classifier("bert")
    whole_numbers = checkpoint_of(reference, tmp_path / "q", lambda s: {**s, "classifier.weight": torch.ones(3, 36, dtype=torch.int8)})
    with pytest.raises(UserError, match="torch.int8"):
        convert.load_classifier(whole_numbers)
    with pytest.raises(UserError, match="gone.safetensors does not exist"):
        convert.read_weights([tmp_path / "gone.safetensors"])


@pytest.mark.parametrize("kind, name", [("safetensors", "model.safetensors"), ("bin", "pytorch_model.bin")])
def test_sharded(tmp_path, kind, name):
    reference = reference_classifier("bert")
    state = list(reference.state_dict().items())
    parts = {name.replace(".", "-0000%d-of-00003." % (i + 1)): dict(state[i::3]) for i in range(3)}
    for part, tensors in parts.items():
        save_file(tensors, tmp_path / part) if kind == "safetensors" else torch.save(tensors, tmp_path / part)
    index = {"metadata": {"total_size": 1}, "weight_map": {key: part for part, tensors in parts.items() for key in tensors}}
    (tmp_path / f"{name}.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text(json.dumps({**reference.config.to_dict(), "architectures": ["BertForSequenceClassification"]}))
    assert same(convert.load_classifier(tmp_path), reference) < 1e-5
    first, second = list(parts)[:2]
    with pytest.raises(UserError, match="which another shard holds too"):
        convert.read_weights([tmp_path / first, tmp_path / first])
    (tmp_path / second).unlink()
    with pytest.raises(UserError, match=second):
        convert.load_classifier(tmp_path)


@pytest.mark.parametrize("kept", ["bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"])
def test_tied_tensors_stored_once(tmp_path, kept):
    """L10: the metadata says under which other name; a plain save has no metadata at all."""
    reference = reference_encoder("bert")
    tied = {"bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"}

    def once(state):
        state = {"bert." + key: value for key, value in state.items()}
        return {**{k: v for k, v in state.items() if k not in tied}, kept: state["bert.embeddings.word_embeddings.weight"]}

    folder = checkpoint_of(reference, tmp_path, once, metadata={(tied - {kept}).pop(): kept, "format": "pt"})
    assert torch.equal(convert.load_encoder(folder).embeddings.word_embeddings.weight, reference.embeddings.word_embeddings.weight)


# ---------------------------------------------------------------------- out

@pytest.mark.parametrize("head", ["linear", "native"])
@pytest.mark.parametrize("model_type", [*FAMILIES, "xlm-roberta"])
def test_in_out_in_changes_no_bit(tmp_path, model_type, head):
    family = "roberta" if model_type == "xlm-roberta" else model_type
    config = {**reference_encoder(family).config.to_dict(), "model_type": model_type}
    folder = write(tmp_path / "in", config, reference_encoder(family).state_dict())
    first = convert.load_classifier(folder, labels=["x", "y z"], head=head, say=quiet)
    first.problem_type = "multi_label_classification"
    convert.save_classifier(first, tmp_path / "out")
    again = convert.load_classifier(tmp_path / "out", say=pytest.fail)
    assert (again.labels, again.problem_type, again.head_type, again.config) == (first.labels, first.problem_type, head, first.config)
    assert again.load_report.fresh == [] and again.load_report.left_out == []
    for (name, a), (other, b) in zip(first.named_parameters(), again.named_parameters(), strict=True):
        assert name == other and torch.equal(a, b) and a.requires_grad == b.requires_grad
    convert.save_classifier(again, tmp_path / "twice")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "twice" / file).read_bytes()
    saved = json.loads((tmp_path / "out" / "config.json").read_text())
    stem = {"bert": "Bert", "distilbert": "DistilBert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta"}[model_type]
    assert saved["architectures"] == [stem + ("ForSequenceClassification" if head == "native" else "Model")]
    assert saved["model_type"] == model_type


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_opens_what_is_saved(tmp_path, family):
    """A native head as the family's classifier, names included; a linear one as the bare encoder, its head unread."""
    inputs = batch(family)
    model = ours(reference_classifier(family), "native")
    model.labels = ["bad", "so so", "good"]
    convert.save_classifier(model, tmp_path / "native")
    theirs, report = AutoModelForSequenceClassification.from_pretrained(tmp_path / "native", output_loading_info=True)
    assert type(theirs) is CLASSES[family][2] and theirs.config.id2label == {0: "bad", 1: "so so", 2: "good"}
    assert not report["missing_keys"] and not report["unexpected_keys"]
    with torch.no_grad():
        assert difference(theirs.eval()(**inputs).logits, model(**inputs)) < 1e-5
    linear = Classifier(model.config, 2, "linear").eval()
    convert.save_classifier(linear, tmp_path / "linear")
    encoder, report = AutoModel.from_pretrained(tmp_path / "linear", output_loading_info=True)
    assert set(report["unexpected_keys"]) == {"linear_head.weight", "linear_head.bias"}
    assert all(key.startswith("pooler.") for key in report["missing_keys"])
    with torch.no_grad():
        assert difference(encoder.eval()(**inputs).last_hidden_state, linear.encoder(**inputs).last_hidden_state) < 1e-5
    _, report = AutoModelForSequenceClassification.from_pretrained(tmp_path / "linear", output_loading_info=True)
    assert any("classifier" in key for key in report["missing_keys"])  # it cannot be misread: that head is known to be new


def test_a_failed_save_leaves_the_old_files(tmp_path, monkeypatch):
    model = ours(reference_classifier("bert"), "native")
    convert.save_classifier(model, tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()

    def full(tensors, path, metadata):
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(convert, "save_file", full)
    with pytest.raises(UserError, match="disk is full"):
        convert.save_classifier(model, tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


# ---------------------------------------------------------------------- export of a run

METRICS = {"val": {"n": 50, "accuracy": 0.9, "macro_f1": 0.89, "macro_f1_ci95": [0.81, 0.95], "per_class": {"ne|g": dict(precision=0.9, recall=0.8, f1=0.85, support=20)},
                   "baselines": {"tfidf": {"accuracy": 0.8, "macro_f1": 0.79}}}}
INFO = {"minibert": "0.1.0", "model": "bert-base-uncased", "labels": ["ne|g", "pos"], "head": "native", "max_len": 24, "truncate": "left",
        "temperature": 1.7, "thresholds": None, "decision_threshold": {"label": "pos", "value": 0.37},
        "data": {"name": "reviews", "n": {"train": 1000, "val": 50, "test": 60}, "label_counts": {"ne|g": 400, "pos": 600}}}
TEXTS = ["dull but the acting saved it", "well acted but dull", "no"]


def a_run(folder: Path, head: str, info: dict = INFO) -> Path:
    tokenizer = tokenization.train_wordpiece(TEXTS * 30, vocab_size=60)
    config = ours(reference_classifier("bert"), "native").config
    config.vocab_size = tokenizer.vocab_size
    model = randomise(Classifier(config, 2, head), seed=3)
    model.labels = info["labels"]
    convert.save_classifier(model, folder)
    tokenizer.save(folder)
    (folder / "metrics.json").write_text(json.dumps(METRICS))
    checkpoint.seal_run(folder, info, ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
    return folder


def test_export(tmp_path, capsys):
    """A folder for `transformers`, the temperature inside, and a card with data, figures and limits."""
    run = a_run(tmp_path / "run", "native")
    convert.main([str(run), str(tmp_path / "out")])
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    mine = convert.load_classifier(run).eval()
    with torch.no_grad():
        logits = theirs(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits
        expected = mine(**tokenization.load_tokenizer(run).batch(TEXTS, max_len=24)) / 1.7
    assert difference(logits, expected) < 1e-5 and theirs.config.id2label == {0: "ne|g", 1: "pos"}
    card = (tmp_path / "out" / "README.md").read_text()
    for part in ('base_model: "bert-base-uncased"', "reviews: 1,000 train rows", "| val | this model | 50 | 0.9000 | 0.8900 | 0.8100 to 0.9500 |",
                 "| val | tfidf |", "| val | ne\\|g | 0.9000", "1.7", "`pos` is chosen from a probability of 0.37", "at most 24 tokens", "weakest class is `ne|g`: of 20 it finds 80%",
                 "`--truncate left`", "not been measured on a test set", "## Limits"):
        assert part in card, part
    assert card.startswith("---\n") and sorted(p.name for p in (tmp_path / "out").iterdir())[:3] == ["README.md", "config.json", "model.safetensors"]
    with pytest.raises(UserError, match="not an empty folder"):
        convert.export(run, tmp_path / "out")


@pytest.mark.parametrize("written", range(5))
def test_a_killed_export_is_no_model_and_is_made_again(tmp_path, monkeypatch, written):
    """Killed after any number of files: nothing opens what is left, and the same command ends it."""
    run, out = a_run(tmp_path / "run", "native"), tmp_path / "out"
    real, count = files.write_atomic, itertools.count()

    def killed(path, write):
        if next(count) == written:
            Path(path).with_name(f".{Path(path).name}.99.tmp").write_bytes(b"half")
            raise KeyboardInterrupt
        real(path, write)
    with monkeypatch.context() as patch:
        for module in (files, tokenization):
            patch.setattr(module, "write_atomic", killed)
        with pytest.raises(KeyboardInterrupt):
            convert.export(run, out)
    assert len([p for p in out.iterdir() if not p.name.startswith(".")]) == written and not (out / "config.json").exists()
    convert.export(run, out)
    assert sorted(p.name for p in out.iterdir()) == ["README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]


@pytest.mark.parametrize("name", ["README.md", "config.json", "notes.txt"])
def test_an_export_writes_over_nothing(tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(UserError, match="not an empty folder"):
        convert.export(a_run(tmp_path / "run", "native"), tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").iterdir()] == [name]


def test_export_of_several_labels_names_every_threshold(tmp_path):
    info = {**INFO, "thresholds": {"ne|g": 0.31, "pos": 0.62}, "decision_threshold": None, "multi_label": True}
    convert.export(a_run(tmp_path / "run", "native", info), tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "`ne|g` counts as present from a probability of 0.31" in card and "`pos` counts as present from a probability of 0.62" in card


def test_what_cannot_be_exported_is_refused_in_words(tmp_path):
    with pytest.raises(UserError, match="linear head.*--head native"):
        convert.export(a_run(tmp_path / "linear", "linear"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="no folder"):
        convert.export(tmp_path / "gone", tmp_path / "out")
    (tmp_path / "family" / "seed-1").mkdir(parents=True)
    with pytest.raises(UserError, match="several seeds.*seed-1"):
        convert.export(tmp_path / "family", tmp_path / "out")


def test_the_command_line(tmp_path):
    run = a_run(tmp_path / "run", "linear")
    done = subprocess.run([sys.executable, "-m", "minibert.convert", run, tmp_path / "out"], capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and "--head native" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("change, words", [
    ({"architectures": 5}, "architectures is 5"),
    ({"architectures": {"a": 1}}, "architectures is"),
    ({"id2label": None, "label2id": {"good": [1], "bad": 0}}, "id2label has to map"),
])
def test_absurd_fields_of_a_config_are_one_sentence(tmp_path, change, words):
    folder = checkpoint_of(reference_classifier("bert"), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(UserError, match=words):
        convert.load_classifier(folder)
