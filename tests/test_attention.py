"""The maps are what they say they are, and the faithfulness figures can tell a good one from a bad one."""

import json

import numpy as np
import pytest
import torch
from scipy import stats

from minibert import attention, tokenization
from minibert.cli import UserError
from minibert.config import EncoderConfig
from minibert.model import Classifier
from minibert.predictor import Predictor, Window

TEXT = "the plot was dull but the acting saved it"
CORPUS = [TEXT, "a great film and a fine story", "an awful mess , not a good one", "$ x y z [ ] # | `"] * 3
SHAPES = {"bert": {}, "distilbert": {"type_vocab_size": 0}, "roberta": {"type_vocab_size": 1, "pad_token_id": 0}}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """The models are so small that a second thread costs more than it brings."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.train_wordpiece(CORPUS, vocab_size=300, max_tokens=64)


def make(tokenizer, model_type="bert", labels=("negative", "positive"), head="linear", seed=0, **info):
    torch.manual_seed(seed)
    config = EncoderConfig(model_type=model_type, vocab_size=tokenizer.vocab_size, hidden_size=24, num_hidden_layers=3,
                           num_attention_heads=4, intermediate_size=48, max_position_embeddings=80, initializer_range=0.3,
                           **SHAPES[model_type])
    classifier = Classifier(config, len(labels), head=head)
    classifier.labels = list(labels)
    if info.get("multi_label"):
        classifier.problem_type = "multi_label_classification"
    return Predictor.from_parts(classifier, tokenizer, {"labels": list(labels), "multi_label": False, "max_len": 48, **info},
                                say=lambda line: None)


@pytest.fixture(scope="module")
def trained(tokenizer):
    """A small model that has learned that one word of the text decides, wherever it stands."""
    rng = np.random.default_rng(0)
    filler = "the plot was but acting it a film and story an one".split()
    predictor = make(tokenizer, seed=3)
    for p in predictor.classifier.parameters():  # the wide random start serves the other tests, not learning
        p.data *= 0.2 if p.dim() > 1 else 1.0
    optimizer = torch.optim.AdamW(predictor.classifier.parameters(), lr=5e-3)

    def sample(n):
        labels = rng.integers(0, 2, n)
        texts = []
        for y in labels:
            words = list(rng.choice(filler, 8))
            words.insert(rng.integers(0, 9), rng.choice(["great", "fine", "good"] if y else ["dull", "awful", "mess"]))
            texts.append(" ".join(words))
        return texts, labels
    for _ in range(100):
        texts, labels = sample(32)
        loss = torch.nn.functional.cross_entropy(predictor.classifier(**tokenizer.batch(texts)), torch.as_tensor(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    texts, labels = sample(60)
    assert (predictor.probabilities(texts).argmax(1) == labels).mean() > 0.95
    return predictor, texts


# ── attention ────────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("model_type", SHAPES)
def test_cls_rows_are_the_models_own_and_sum_to_one(tokenizer, model_type):
    predictor = make(tokenizer, model_type)
    reading = attention.read(predictor, TEXT)
    weights = attention.attentions(predictor, reading)
    S = len(reading.tokens)
    assert weights.shape == (3, 4, S, S) and np.allclose(weights.sum(-1), 1, atol=1e-6)
    batch = tokenizer.batch([TEXT], max_len=48)
    with torch.inference_mode():
        out = predictor.classifier.encoder(**batch, output_attentions=True)
    assert np.allclose(weights[1, 2, 0], out.attentions[1][0, 2, 0], atol=1e-6)
    assert predictor.classifier.encoder.implementation == "sdpa"  # the maps are there although the model runs fused attention
    with torch.inference_mode():
        eager = predictor.classifier.head(out).numpy()
    assert np.allclose(eager, predictor.logits([TEXT]), atol=1e-5)


def test_special_tokens_are_marked_by_place_not_by_spelling(tokenizer):
    reading = attention.read(make(tokenizer), "the [SEP] film")
    assert reading.tokens == ["[CLS]", "the", "[SEP]", "film", "[SEP]"]
    assert reading.special.tolist() == [True, False, False, False, True]
    pair = attention.read(make(tokenizer, text_col=["a", "b"]), "the film", "a story")
    assert pair.special.tolist() == [True, False, False, True, False, False, True]


def test_rollout_is_the_product_of_the_layers(tokenizer):
    rng = np.random.default_rng(0)
    weights = rng.random((3, 2, 5, 5))
    weights /= weights.sum(-1, keepdims=True)
    product = np.eye(5)
    for layer in weights:
        product = (0.5 * layer.mean(0) + 0.5 * np.eye(5)) @ product
    assert np.allclose(attention.rollout(weights), product[0]) and attention.rollout(weights).sum() == pytest.approx(1)
    by_hand = np.array([[[[0.2, 0.8], [1.0, 0.0]]]])  # one layer, one head
    assert np.allclose(attention.rollout(by_hand), [0.6, 0.4])


# ── gradients ────────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("model_type", SHAPES)
def test_gradient_times_input_against_finite_differences(tokenizer, model_type):
    predictor = make(tokenizer, model_type)
    predictor.classifier.double()  # differences of float32 are mostly rounding
    reading = attention.read(predictor, TEXT)
    found = attention.gradient_times_input(predictor, reading)
    rows = attention._word_rows(predictor, reading.window.input_ids)
    for i in (0, 2, 5, len(reading.tokens) - 1):
        step = torch.zeros_like(rows)
        step[i] = 1e-3 * rows[i]
        ends = attention._slope(predictor, reading, torch.stack([rows - step, rows + step]))[0]
        assert float(ends[1] - ends[0]) / 2e-3 == pytest.approx(found[i], abs=1e-3)


@pytest.mark.parametrize("model_type", SHAPES)
def test_integrated_gradients_are_complete(tokenizer, model_type):
    predictor = make(tokenizer, model_type, temperature=1.7)
    reading = attention.read(predictor, TEXT)
    found = attention.integrated_gradients(predictor, reading)
    ids = reading.window.input_ids.copy()
    ids[reading.content] = tokenizer.mask_id
    masked = Window(ids, reading.window.token_type_ids)
    difference = attention.score(predictor, [reading.window, masked], reading.target)
    assert found.difference == pytest.approx(difference[0] - difference[1], abs=1e-4)
    assert found.attribution.sum() == pytest.approx(found.difference, abs=0.05 * abs(found.difference) + 2e-3) and found.complete
    assert np.allclose(found.attribution[reading.special], 0)  # they are the same at both ends of the path


def test_an_incomplete_integral_says_so(tokenizer, monkeypatch):
    predictor = make(tokenizer, seed=5)
    monkeypatch.setattr(attention, "STEPS", (1,))
    monkeypatch.setattr(attention, "INCOMPLETE", 0.0)
    inspection = attention.inspect(predictor, TEXT)
    assert not inspection.figures["integral"]["complete"] and "NOT complete" in "\n".join(inspection.lines)


# ── occlusion, and the measure of the maps ───────────────────────────────────────────────────────────────────────

def test_occlusion_is_the_loss_from_really_leaving_the_word_out(tokenizer):
    predictor = make(tokenizer)
    reading = attention.read(predictor, TEXT)
    effect, in_probability = attention.occlusion(predictor, reading)
    words = TEXT.split()
    assert reading.tokens[1:-1] == words
    whole = predictor.probabilities([TEXT])[0, reading.target]
    for i, _ in enumerate(words):
        left = predictor.probabilities([" ".join(words[:i] + words[i + 1:])])[0, reading.target]
        assert in_probability[i + 1] == pytest.approx(whole - left, abs=1e-5)
        assert effect[i + 1] == pytest.approx(np.log(whole / (1 - whole)) - np.log(left / (1 - left)), abs=1e-4)
    assert effect[0] == effect[-1] == 0


def test_spearman_against_scipy():
    rng = np.random.default_rng(0)
    for _ in range(5):
        a, b = rng.integers(0, 6, 20), rng.random(20)
        assert attention.spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert attention.spearman(np.ones(4), np.arange(4)) == 0.0


def test_deletion_curve_goes_from_the_text_to_nothing(tokenizer):
    predictor = make(tokenizer)
    reading = attention.read(predictor, TEXT)
    curves = attention.deletion_curves(predictor, reading, [reading.content, reading.content[::-1]])
    assert curves.shape == (2, 11)
    assert np.allclose(curves[:, 0], predictor.probabilities([TEXT])[0, reading.target], atol=1e-5)
    assert np.allclose(curves[:, -1], predictor.probabilities([""])[0, reading.target], atol=1e-5)
    assert attention.area(np.array([[1.0, 1.0, 0.0]])) == pytest.approx([0.75])


def test_the_figures_tell_a_faithful_map_from_a_wrong_one(trained):
    predictor, texts = trained
    table = attention.faithfulness(predictor, texts, sample=6)
    by_name = {r["method"]: r for r in table.rows}
    assert by_name["occlusion"]["deletion_area"] < by_name["random"]["deletion_area"] - 0.03
    assert by_name["integrated gradients"]["deletion_area"] < by_name["random"]["deletion_area"] - 0.02
    assert by_name["occlusion"]["spearman"] == pytest.approx(1.0) and table.figures["texts"] == 6
    assert [r["deletion_area"] for r in table.rows] == sorted(r["deletion_area"] for r in table.rows)
    reading = attention.read(predictor, texts[0])
    maps = attention.all_maps(predictor, reading)
    upside_down = attention.Maps(reading, maps.weights, {"occlusion": -maps.by_method["occlusion"]}, maps.in_probability, maps.integral)
    wrong = attention.faithful(predictor, upside_down)["occlusion"]["deletion_area"]
    assert wrong > attention.faithful(predictor, maps)["occlusion"]["deletion_area"]


def test_occlusion_points_at_the_word_that_decides(trained):
    predictor, texts = trained
    deciding = {"great", "fine", "good", "dull", "awful", "mess"}
    hits = 0
    for text in texts[:20]:
        reading = attention.read(predictor, text)
        hits += reading.tokens[int(attention.occlusion(predictor, reading)[0].argmax())] in deciding
    assert hits >= 18


# ── what people and the server get ───────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("model_type", SHAPES)
def test_explain_is_plain_python_and_agrees_with_the_prediction(tokenizer, model_type):
    predictor = make(tokenizer, model_type)
    found = attention.explain(predictor, TEXT)
    json.dumps(found, allow_nan=False)
    answer = predictor.predict([TEXT])[0]
    assert found["label"] == answer["label"] and found["scores"] == pytest.approx(answer["scores"], abs=1e-6)
    S = len(found["tokens"])
    assert len(found["attention"]) == 3 and all(len(layer) == 4 and all(len(row) == S for row in layer) for layer in found["attention"])
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for layer in found["attention"] for row in layer)
    assert len(found["effect"]) == len(found["special"]) == S and found["cut"] is False


def test_explain_is_bounded_and_batched(tokenizer):
    predictor = make(tokenizer)
    calls = []

    def logits_of(windows):
        calls.append(len(windows))
        return predictor.forward(windows)
    found = attention.explain(predictor, TEXT + " film" * 500, max_tokens=20, logits_of=logits_of)
    assert len(found["tokens"]) == 20 and found["cut"] is True
    assert calls == [1, 19]  # the text; then the text again and each of its 18 content tokens left out, at once
    predictor.batch_tokens = 64
    asked = []
    original, predictor.forward = predictor.forward, lambda windows: asked.append(sum(len(w.input_ids) for w in windows)) or original(windows)
    attention.explain(predictor, TEXT)
    assert max(asked) <= 64 and len(asked) > 2


@pytest.mark.parametrize("text", ["", " ", "film", "\x00\x1b[31m", "映画 😀", "film " * 300])
def test_any_text_can_be_inspected(tokenizer, text, tmp_path):
    inspection = attention.inspect(make(tokenizer), text, tmp_path)
    assert inspection.png.stat().st_size > 1000 and inspection.lines and inspection.markdown
    assert not [c for line in inspection.lines for c in line if ord(c) < 32]
    json.dumps(inspection.figures, allow_nan=False)
    assert attention.explain(make(tokenizer), text)["tokens"][0] == "[CLS]"


def test_inspection_shows_every_head_the_mean_and_a_verdict(tokenizer, tmp_path, recwarn):
    inspection = attention.inspect(make(tokenizer), "$ x $ | ` # saved", tmp_path, layer=2)
    text = "\n".join(inspection.lines)
    assert "layer 2, mean of 4 heads" in text and text.count("(sum 1.0000)") == 4 and "*[CLS]" in text
    assert "integrated gradients: parts add up to" in text and "random" in text
    assert "\\|" in inspection.markdown and inspection.png.name in inspection.markdown
    assert np.array(inspection.figures["heads"]).shape == (4, 9)
    assert not [w for w in recwarn if "Glyph" in str(w.message)]


def test_a_layer_that_does_not_exist_is_refused(tokenizer):
    for layer in (0, 4, -1):
        with pytest.raises(UserError, match="layers 1 to 3"):
            attention.inspect(make(tokenizer), TEXT, layer=layer)


def test_several_labels_many_classes_and_windows(tokenizer):
    multi = make(tokenizer, labels=("a", "b", "c"), multi_label=True)
    found = attention.explain(multi, TEXT)
    assert set(found["scores"]) == {"a", "b", "c"} and found["label"] == max(found["scores"], key=found["scores"].get)
    assert attention.inspect(multi, TEXT).figures["integral"]["complete"]
    many = make(tokenizer, labels=tuple(f"class {i}" for i in range(40)))
    assert attention.explain(many, TEXT)["label"] == many.predict([TEXT])[0]["label"]
    chunk = make(tokenizer, truncate="chunk", stride=4, max_len=12)
    seen = attention.explain(chunk, TEXT * 5)
    assert len(seen["tokens"]) == 12 and seen["cut"]


def test_pairs_need_their_second_text(tokenizer):
    predictor = make(tokenizer, text_col=["a", "b"])
    with pytest.raises(UserError, match="second text"):
        attention.explain(predictor, TEXT)
    assert "story" in attention.explain(predictor, TEXT, pair="a fine story")["tokens"]
