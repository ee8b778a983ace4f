"""The predictor: order, batches, pooling, thresholds, run folders and published classifiers, scoring files."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from minibert import checkpoint, convert, sources
from minibert.cli import UserError
from minibert.config import EncoderConfig
from minibert.model import Classifier
from minibert.predictor import (FAST_TOLERANCE, Predictor, chunks, log_softmax, pool_windows, score_file, token_budget_batches, turns)
from minibert.tokenization import train_wordpiece

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ["the plot was dull but the acting saved it", "a warm and funny film , well acted", "not good , not bad , just long"] * 4
TEXTS = ["the plot was dull", "funny", "a warm and funny film but not good " * 12, "", "it", "acting acting acting", "日本 😃 \x00"]


def make_parts(labels=("neg", "pos"), multi_label=False, seed=1):
    torch.manual_seed(seed)
    tokenizer = train_wordpiece(CORPUS, vocab_size=120)
    config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                           intermediate_size=32, max_position_embeddings=64)
    classifier = Classifier(config, len(labels))
    with torch.no_grad():
        for p in classifier.parameters():
            p.mul_(6)  # far enough from zero that a mix-up shows
        for p in classifier.encoder.embeddings.parameters():
            p.mul_(3)
    classifier.labels = list(labels)
    classifier.problem_type = "multi_label_classification" if multi_label else "single_label_classification"
    tokenizer.max_tokens = config.max_tokens
    return classifier, tokenizer


def make_run(folder, labels=("neg", "pos"), multi_label=False, seed=1, val_macro_f1=0.5, **info):
    """A finished run folder as train.py leaves it, of a tiny model with random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    classifier, tokenizer = make_parts(labels, multi_label, seed)
    convert.save_classifier(classifier, folder)
    tokenizer.save(folder)
    (folder / "metrics.json").write_text(json.dumps({"val": {"macro_f1": val_macro_f1}}))
    checkpoint.seal_run(folder, {"labels": list(labels), "multi_label": multi_label, "max_len": 32, "truncate": "right", "stride": 8,
                                 "text_col": ["text"], "temperature": 1.0, "thresholds": None, "decision_threshold": None,
                                 "pooling": None, **info}, ["config.json", "model.safetensors", "tokenizer.json"])
    return folder


def say_nothing(line):
    pass


# ---- answers -------------------------------------------------------------------------------------------------

def test_batched_equals_one_by_one_in_the_order_given(tmp_path):
    predictor = Predictor(make_run(tmp_path / "run"), batch_tokens=64)
    together = predictor.logits(TEXTS)
    alone = np.concatenate([predictor.logits([text]) for text in TEXTS])
    assert np.ptp(alone[:, 0]) > 0.05  # the texts differ, so a wrong order would show
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert together.dtype == np.float32


def test_batch_size_does_not_matter(tmp_path):
    run = make_run(tmp_path / "run")
    small, large = (Predictor(run, batch_tokens=n).logits(TEXTS * 5) for n in (1, 100_000))
    np.testing.assert_allclose(small, large, atol=1e-5)


def test_no_texts_give_no_rows(tmp_path):
    predictor = Predictor(make_run(tmp_path / "run", labels=("a", "b", "c")))
    assert predictor.logits([]).shape == (0, 3)
    assert predictor.predict([]) == []


def test_answers_are_plain_json(tmp_path):
    predictor = Predictor(make_run(tmp_path / "run"))
    answer, = predictor.predict(["the plot was dull"])
    assert set(answer) == {"label", "confidence", "scores"} and answer["label"] in ("neg", "pos")
    assert answer["confidence"] == answer["scores"][answer["label"]] == max(answer["scores"].values())
    assert sum(answer["scores"].values()) == pytest.approx(1)
    json.dumps(answer, allow_nan=False)


def test_eval_mode_and_no_gradients(tmp_path):
    classifier, tokenizer = make_parts()
    predictor = Predictor.from_parts(classifier.train(), tokenizer)
    assert not classifier.training
    np.testing.assert_array_equal(predictor.logits(TEXTS), predictor.logits(TEXTS))  # dropout is off


def test_temperature_softens_and_keeps_the_label(tmp_path):
    sharp, soft = (Predictor(make_run(tmp_path / f"t{t}", temperature=t)) for t in (1.0, 4.0))
    np.testing.assert_allclose(soft.probabilities(TEXTS), np.exp(log_softmax(sharp.logits(TEXTS).astype(float) / 4)), atol=1e-9)
    assert [a["label"] for a in soft.predict(TEXTS)] == [a["label"] for a in sharp.predict(TEXTS)]


def test_decision_threshold_moves_the_binary_choice(tmp_path):
    plain = Predictor(make_run(tmp_path / "plain"))
    p = plain.probabilities(TEXTS)[:, 1]
    value = float(np.sort(p)[-2])  # only the two highest reach it
    tuned = Predictor(make_run(tmp_path / "tuned", decision_threshold={"label": "pos", "value": value}))
    assert [a["label"] for a in tuned.predict(TEXTS)] == ["pos" if x >= value else "neg" for x in p]
    assert all(a["confidence"] == a["scores"][a["label"]] for a in tuned.predict(TEXTS))


def test_multi_label_thresholds_and_empty_sets(tmp_path):
    labels = ("acting", "plot", "music")
    predictor = Predictor(make_run(tmp_path / "run", labels, True, thresholds={"acting": 0.0, "plot": 1.0, "music": 0.5}))
    answers = predictor.predict(TEXTS)
    for answer, row in zip(answers, predictor.probabilities(TEXTS)):
        assert set(answer) == {"labels", "scores", "thresholds"}
        assert "acting" in answer["labels"] and "plot" not in answer["labels"]
        assert ("music" in answer["labels"]) == (row[2] >= 0.5)
    none = Predictor(make_run(tmp_path / "none", labels, True, thresholds=dict.fromkeys(labels, 1.0)))
    assert [a["labels"] for a in none.predict(TEXTS)] == [[]] * len(TEXTS)  # an empty set is a legal answer


# ---- long documents ------------------------------------------------------------------------------------------

def test_chunks_make_one_answer_per_document(tmp_path):
    run = make_run(tmp_path / "run", truncate="chunk", max_len=16, pooling="mean_probs")
    predictor = Predictor(run)
    encoded = predictor.encode(TEXTS)
    assert [len(of_text) > 1 for of_text in encoded] == [False, False, True, False, False, False, False]
    logits, document, lengths = predictor.window_logits(TEXTS)
    assert len(logits) == sum(map(len, encoded)) and predictor.logits(TEXTS).shape == (len(TEXTS), 2)
    for i, row in enumerate(predictor.probabilities(TEXTS)):
        np.testing.assert_allclose(row, np.exp(log_softmax(logits[document == i].astype(float))).mean(axis=0), atol=1e-6)


def test_poolings_by_hand():
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    logits, document, lengths = np.log(p) + 3.0, np.array([0, 0, 1]), np.array([30, 10, 5])

    def probabilities(pooling):
        return np.exp(log_softmax(pool_windows(logits, document, lengths, pooling, False).astype(float)))

    np.testing.assert_allclose(probabilities("mean_probs"), [[0.55, 0.45], [0.6, 0.4]], atol=1e-6)
    np.testing.assert_allclose(probabilities("weighted"), [[0.725, 0.275], [0.6, 0.4]], atol=1e-6)
    np.testing.assert_allclose(probabilities("max"), [[0.9 / 1.7, 0.8 / 1.7], [0.6, 0.4]], atol=1e-6)
    geometric = np.sqrt([0.18, 0.08])
    np.testing.assert_allclose(probabilities("mean_logits")[0], geometric / geometric.sum(), atol=1e-6)


def test_a_tie_between_windows_goes_to_the_lower_index_and_extremes_stay_finite():
    tie = pool_windows(np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([0, 0]), np.array([5, 5]), "mean_probs", False)
    assert tie.argmax() == 0 and tie[0, 0] == pytest.approx(tie[0, 1])
    for multi_label in (False, True):
        for pooling in ("mean_probs", "weighted", "mean_logits", "max"):
            pooled = pool_windows(np.array([[900.0, -900.0], [900.0, -900.0]]), np.array([0, 0]), np.array([5, 9]), pooling, multi_label)
            assert np.isfinite(pooled).all() and pooled[0, 0] > pooled[0, 1]


def test_multi_label_pooling_means_the_sigmoids():
    logits = np.array([[1.0, -2.0], [-3.0, 0.5]])
    pooled = pool_windows(logits, np.array([0, 0]), np.array([1, 1]), "mean_probs", True)
    np.testing.assert_allclose(1 / (1 + np.exp(-pooled[0])), (1 / (1 + np.exp(-logits))).mean(axis=0), atol=1e-6)


def test_unknown_pooling_is_named(tmp_path):
    with pytest.raises(UserError, match="did you mean 'mean_probs'"):
        Predictor(make_run(tmp_path / "run", truncate="chunk", pooling="mean_prob")).logits(TEXTS)


# ---- pairs ---------------------------------------------------------------------------------------------------

def test_pairs_are_read_and_asked_for(tmp_path):
    predictor = Predictor(make_run(tmp_path / "run", text_col=["premise", "hypothesis"]))
    first, second = ["the plot was dull", "funny"], ["not good", "a warm film"]
    swapped = predictor.logits(second, first)
    assert np.abs(predictor.logits(first, second) - swapped).max() > 1e-3
    assert predictor.encode(first, second)[0][0].token_type_ids.max() == 1
    with pytest.raises(UserError, match="second text"):
        predictor.predict(first)
    with pytest.raises(UserError, match="2 texts but 1"):
        predictor.predict(first, second[:1])


# ---- faults --------------------------------------------------------------------------------------------------

def test_non_finite_outputs_are_an_error():
    classifier, tokenizer = make_parts()
    with torch.no_grad():
        classifier.head.classifier.weight[0, 0] = float("nan")
    with pytest.raises(FloatingPointError, match="not finite"):
        Predictor.from_parts(classifier, tokenizer).predict(["the plot"])


def test_an_encoder_without_a_head_says_to_train(tmp_path):
    classifier, tokenizer = make_parts()
    convert.save_classifier(classifier, tmp_path)
    from safetensors.torch import load_file, save_file
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({k: v for k, v in tensors.items() if "linear_head" not in k}, tmp_path / "model.safetensors")
    tokenizer.save(tmp_path)
    with pytest.raises(UserError, match="train.py --model"):
        Predictor(tmp_path)


@pytest.mark.parametrize("change, message", [
    ({"labels": ["neg", "pos", "third"]}, "3 labels"),
    ({"temperature": -1.0}, "temperature"), ({"temperature": "warm"}, "run.json"), ({"max_len": [1]}, "run.json"),
    ({"thresholds": 3, "multi_label": True}, "run.json"), ({"decision_threshold": {"value": 0.5}}, "run.json"), ({"labels": 5}, "run.json"),
    ({"decision_threshold": {"label": "other", "value": 0.5}}, "other"),
])
def test_a_run_json_that_does_not_fit_is_refused(tmp_path, change, message):
    run = make_run(tmp_path / "run")
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, **change}))
    with pytest.raises(UserError, match=message):
        Predictor(run)


def test_an_unfinished_or_altered_run_is_refused(tmp_path):
    run = make_run(tmp_path / "run")
    weights = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    with pytest.raises(UserError, match="checksum"):
        Predictor(run)
    (run / "run.json").unlink()
    (run / "state").mkdir()
    with pytest.raises(UserError, match="not ended"):
        Predictor(run)


@pytest.mark.parametrize("kwargs, message", [({"precision": "half"}, "fp32"), ({"device": "tpu"}, "cpu"), ({"batch_tokens": 0}, "at least 1"),
                                             ({"threads": 0}, "at least 1"), ({"threads": 10**5}, "at most 1024"), ({"threads": 10**20}, "at most 1024")])
def test_bad_arguments_are_named(tmp_path, kwargs, message):
    with pytest.raises(UserError, match=message):
        Predictor(make_run(tmp_path / "run"), **kwargs)


# ---- where models come from ----------------------------------------------------------------------------------

def test_the_best_seed_is_taken_and_said(tmp_path):
    for seed, score in ((42, 0.81), (43, 0.93), (44, 0.88)):
        make_run(tmp_path / "family" / f"seed-{seed}", seed=seed, val_macro_f1=score)
    said = []
    predictor = Predictor(tmp_path / "family", say=said.append)
    assert "seed-43" in said[0] and "0.93" in said[0]
    np.testing.assert_array_equal(predictor.logits(TEXTS), Predictor(tmp_path / "family" / "seed-43").logits(TEXTS))


@pytest.mark.parametrize("problem_type", ["single_label_classification", "multi_label_classification"])
def test_a_published_classifier_predicts_as_the_reference_does(tmp_path, problem_type):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    _, tokenizer = make_parts()
    config = transformers.BertConfig(vocab_size=tokenizer.vocab_size, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=32, max_position_embeddings=64, problem_type=problem_type, initializer_range=0.5,
                                     id2label={0: "sad", 1: "glad", 2: "mad"}, label2id={"sad": 0, "glad": 1, "mad": 2})
    reference = transformers.BertForSequenceClassification(config).eval()
    reference.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    predictor = Predictor(tmp_path)
    assert predictor.labels == ["sad", "glad", "mad"] and predictor.info == {} and predictor.max_len == 64
    with torch.no_grad():
        expected = reference(**tokenizer.batch(TEXTS, max_len=64)).logits
    np.testing.assert_allclose(predictor.logits(TEXTS), expected.numpy(), atol=1e-5)
    tokenizer.save(tmp_path, max_len=9, truncate="left")  # a folder that says how its texts are cut
    assert (cut := Predictor(tmp_path)).max_len == 9 and cut.truncate == "left"
    with torch.no_grad():
        short = reference(**tokenizer.batch(TEXTS, max_len=9, truncate="left")).logits
    np.testing.assert_allclose(cut.logits(TEXTS), short.numpy(), atol=1e-5)
    probabilities = expected.sigmoid() if problem_type.startswith("multi") else expected.softmax(-1)
    np.testing.assert_allclose(predictor.probabilities(TEXTS), probabilities.numpy(), atol=1e-5)
    assert ("labels" in predictor.predict(["it"])[0]) == problem_type.startswith("multi")


# ---- fast ----------------------------------------------------------------------------------------------------

def test_fast_stays_within_its_tolerance_alone_and_in_company(tmp_path):
    """Q1: with int8 a text's answer depends on who shares the batch; by how much is stated, and held."""
    run = make_run(tmp_path / "run")
    said = []
    exact, fast = Predictor(run), Predictor(run, precision="fast", say=said.append)
    assert fast.precision in said[0] and (fast.precision == "fp32" or f"within {FAST_TOLERANCE} of fp32" in said[0])
    assert fast.precision != "int8" or "0.002 in a tiny model, 0.02 in a 6-layer one" in said[0]  # ten times as far, as measured
    if fast.precision == "int8":  # GELU's outputs are what one scale cannot hold
        layer = fast.classifier.encoder.layers[0]
        assert type(layer.feed_forward.output) is torch.nn.Linear is not type(layer.feed_forward.intermediate)
    tiny = 0.15
    texts = [f"{a} {b}" for a in TEXTS for b in TEXTS]
    p = exact.probabilities(texts)
    together, alone = fast.probabilities(texts), np.concatenate([fast.probabilities([text]) for text in texts])
    np.testing.assert_allclose(together, p, atol=tiny)
    np.testing.assert_allclose(alone, p, atol=tiny)
    flips = (together.argmax(1) != p.argmax(1)) & (np.abs(p[:, 0] - p[:, 1]) > 2 * tiny)
    assert not flips.any()  # a label changes only where two classes are within the tolerance of each other


# ---- batches -------------------------------------------------------------------------------------------------

def test_token_budget_batches_hold_every_row_once_within_the_budget():
    lengths = np.random.default_rng(0).integers(2, 300, size=500)
    batches = list(token_budget_batches(lengths, 1000))
    assert sorted(np.concatenate(batches)) == list(range(500))
    assert all(lengths[b].max() * len(b) <= 1000 for b in batches)
    assert sum(lengths[b].max() * len(b) for b in batches) < 1.1 * lengths.sum()  # hardly any padding


# ---- files ---------------------------------------------------------------------------------------------------

def score(predictor, path, **kwargs):
    out = io.StringIO()
    score_file(predictor, path, out, **kwargs)
    return list(csv.reader(io.StringIO(out.getvalue())))


def test_scoring_keeps_columns_order_and_awkward_rows(tmp_path):
    predictor = Predictor(make_run(tmp_path / "run", labels=("the, good", 'the "bad"')))
    file = tmp_path / "in.csv"
    rows = [["1", "the plot was dull", "x,y"], ["2", "", ""], ["3", 'said "funny"\nand left', "NA"], ["4", "NA", "00"], ["5", "nan", "1.0"]]
    with open(file, "w", encoding="utf-8-sig", newline="") as f:
        csv.writer(f).writerows([["id", "text", "note"], *rows])
    header, *scored = score(predictor, file, chunk_rows=2)
    assert header == ["id", "text", "note", "prediction", "confidence", "p_the, good", 'p_the "bad"']
    assert [row[:3] for row in scored] == rows
    for row, p in zip(scored, predictor.probabilities([row[1] for row in rows])):
        assert [float(x) for x in row[5:]] == pytest.approx(p, abs=1e-6)
        assert row[3] == predictor.labels[p.argmax()] and float(row[4]) == pytest.approx(p.max(), abs=1e-6)


def test_rows_without_a_text_are_scored_and_counted_aloud(tmp_path):
    run, pairs = make_run(tmp_path / "run"), make_run(tmp_path / "pairs", text_col=["q", "p"])
    (tmp_path / "in.csv").write_text('q,p,text\na,b,the plot was dull\na," ",""\n,b,"  \t"\n')
    done = command("-m", "minibert.predictor", str(run), str(tmp_path / "in.csv"), "--chunk-rows", "1")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 4
    assert done.stderr == f"note: 2 of 3 rows of {tmp_path / 'in.csv'} have an empty text; their predictions rest on no word.\n"
    said = []
    assert score_file(Predictor(pairs), tmp_path / "in.csv", io.StringIO(), say=said.append) == 3  # one text of the pair
    assert len(said) == 1 and "2 of 3 rows" in said[0]


def test_scoring_pairs_and_multi_label(tmp_path):
    predictor = Predictor(make_run(tmp_path / "run", ("a", "b"), True, text_col=["q", "p"], thresholds={"a": 0.0, "b": 0.0}))
    (tmp_path / "in.tsv").write_text("p\tq\nfunny\tdull\n", encoding="utf-8")
    _, row = score(predictor, tmp_path / "in.tsv")
    expected = predictor.probabilities(["dull"], ["funny"])[0]
    assert row[2] == "a|b" and [float(x) for x in row[4:]] == pytest.approx(expected, abs=1e-6)
    assert float(row[3]) == pytest.approx(expected.min(), abs=1e-6)


@pytest.mark.parametrize("content, flags, message", [
    (b"review,stars\na,1\n", {}, "no column 'text'.*'review', 'stars'"),
    (b"txt\na\n", {}, "did you mean 'txt'"),
    (b"text\na\n", {"text_col": "text,text"}, "reads 1 text column, but --text-col names 2"),
    (b"text,prediction\na,b\n", {}, "already has a column named 'prediction'"),
    (b"text,p_pos\na,b\n", {}, "already has a column named 'p_pos'"),
    (b"", {}, "empty"),
    (b"text,a\nx,1\ny\n", {}, "line 3: 1 cells where the header has 2"),
    (b'text\n"open\n', {}, "line 2"),
    (b"text\ngood\ncaf\xe9\n", {}, "not UTF-8"),
])
def test_files_that_cannot_be_scored(tmp_path, content, flags, message):
    predictor = Predictor(make_run(tmp_path / "run"))
    (tmp_path / "in.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        score(predictor, tmp_path / "in.csv", **flags)
    with pytest.raises(UserError, match="no.csv does not exist"):
        score(predictor, tmp_path / "no.csv")


def test_chunks_end_by_rows_or_characters(monkeypatch):
    monkeypatch.setattr("minibert.predictor.CHUNK_CHARACTERS", 100)
    assert [len(c) for c in chunks([["x" * 60]] * 5, 10)] == [2, 2, 1]
    assert [len(c) for c in chunks([["x"]] * 5, 2)] == [2, 2, 1]
    assert [[len(c) for c in turn] for turn in turns(chunks([["x"]] * 5, 2), 2)] == [[2, 2], [1]]


def test_memory_does_not_grow_with_the_file(tmp_path):
    """Rows are read as they are scored: when the first chunk is written, hardly more than it has been read."""
    predictor = Predictor(make_run(tmp_path / "run"))
    (tmp_path / "in.csv").write_text("text\n" + "the plot was dull\n" * 5000)
    read_when_written = []
    real = sources.open_table

    def counting(*args):
        header, rows, notes = real(*args)
        count = [0]

        def counted():
            for row in rows:
                count[0] += 1
                yield row
        counting.count = count
        return header, counted(), notes

    class Out(io.StringIO):
        def writelines(self, lines):
            read_when_written.append(counting.count[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "open_table", counting)
        assert score_file(predictor, tmp_path / "in.csv", Out(), chunk_rows=500) == 5000
    assert read_when_written == list(range(500, 5001, 500))


def test_jsonl_and_a_published_pair_classifier(tmp_path):
    predictor = Predictor.from_parts(*make_parts())
    (tmp_path / "in.jsonl").write_text('{"a": "the plot", "b": "was dull", "n": 1}\n')
    header, row = score(predictor, tmp_path / "in.jsonl", text_col="a,b")
    assert header[:3] == ["a", "b", "n"] and row[:3] == ["the plot", "was dull", "1"]
    assert float(row[-1]) == pytest.approx(predictor.probabilities(["the plot"], ["was dull"])[0, 1], abs=1e-6)


def command(*args):
    process = subprocess.Popen([sys.executable, *args], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               process_group=0, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        out, err = process.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # torchrun's children too
        raise
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def test_the_command_and_its_exit_status(tmp_path):
    run = make_run(tmp_path / "run")
    (tmp_path / "in.csv").write_text("body\nthe plot was dull\nfunny\n")
    done = command("-m", "minibert.predictor", str(run), str(tmp_path / "in.csv"), "--text-col", "body")
    assert done.returncode == 0 and done.stderr == ""
    assert [row[:1] for row in csv.reader(io.StringIO(done.stdout))] == [["body"], ["the plot was dull"], ["funny"]]
    wrong = command("-m", "minibert.predictor", str(run), str(tmp_path / "in.csv"))
    assert wrong.returncode == 2 and wrong.stdout == "" and wrong.stderr.startswith("error: ") and "body" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_two_processes_write_what_one_writes(tmp_path):
    run = make_run(tmp_path / "run")
    with open(tmp_path / "in.csv", "w", newline="") as f:
        csv.writer(f).writerows([["id", "text"], *([i, f"{TEXTS[i % 3]} {i}"] for i in range(45))])
    one = score(Predictor(run), tmp_path / "in.csv")
    done = command("-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone", "-m", "minibert.predictor", str(run),
                   str(tmp_path / "in.csv"), "--chunk-rows", "10", "--batch-tokens", "64")
    assert done.returncode == 0, done.stderr
    two = list(csv.reader(io.StringIO(done.stdout)))
    assert [row[:3] for row in one] == [row[:3] for row in two] and len(one) == 46
    np.testing.assert_allclose([[float(x) for x in row[3:]] for row in one[1:]], [[float(x) for x in row[3:]] for row in two[1:]], atol=2e-6)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 KiB; skipped where only an administrator may mount one."""
    where = tmp_path / "disk"
    where.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", where], capture_output=True)
    if made.returncode:
        pytest.skip("mounting a small disk needs an administrator: " + made.stderr.decode().strip())
    yield where
    subprocess.run(["umount", where], check=True)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_does_not_fit_is_no_success(tmp_path, small_disk, unbuffered):
    """With PYTHONUNBUFFERED, usual in containers, Python passes over a write that a full disk cut short."""
    run = make_run(tmp_path / "run")
    with open(tmp_path / "in.csv", "w", newline="") as f:
        csv.writer(f).writerows([["text", "more"], *(["the plot was dull", "x" * 5000] for _ in range(100))])
    with open(small_disk / "out.csv", "wb") as out:
        done = subprocess.run([sys.executable, "-m", "minibert.predictor", str(run), str(tmp_path / "in.csv")], cwd=ROOT, stdout=out,
                              stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 2 and "cannot be written" in done.stderr and done.stderr.count("\n") == 1


def test_an_interrupted_output_holds_whole_rows_and_is_said_to_be_incomplete(tmp_path):
    run = make_run(tmp_path / "run")
    with open(tmp_path / "in.csv", "w", newline="") as f:
        csv.writer(f).writerows([["text"], *([f"{TEXTS[i % 3]} {i}"] for i in range(200_000))])
    with open(tmp_path / "out.csv", "wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "minibert.predictor", str(run), str(tmp_path / "in.csv"), "--chunk-rows", "3"], cwd=ROOT,
                                   stdout=out, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while process.poll() is None and (tmp_path / "out.csv").read_bytes().count(b"\n") < 4:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=600)[1]
    assert process.returncode == 130 and "in.csv was not scored to its end" in err and "whole" not in err
    out = (tmp_path / "out.csv").read_text()
    assert out.endswith("\n") and 4 <= len(list(csv.reader(io.StringIO(out)))) < 200_000
