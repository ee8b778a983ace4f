"""The floors: honest (they learn what bags of words can), and never in the way (any number of classes, any text)."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from minibert import baselines, metrics

WORDS = "the a film plot acting was is very not bad good dull great fine music".split()


def sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(3, 12))) for _ in range(n)]


def test_ngrams_are_what_sklearn_counts():
    texts, others = sentences(60), sentences(20, seed=1) + ["", "unknown words only", "good!"]
    ngrams = baselines.Ngrams(order=3, min_df=2)
    fitted, new = ngrams.fit(texts), ngrams.transform(others)
    for order in (1, 2, 3):
        # scikit-learn counts every n-gram of a text for itself; only the column order differs
        sk = CountVectorizer(ngram_range=(order, order), min_df=2, tokenizer=baselines.words, token_pattern=None)
        for mine, theirs in ((fitted[order - 1], sk.fit_transform(texts)), (new[order - 1], sk.transform(others))):
            assert mine.shape == theirs.shape
            assert sorted(map(tuple, mine.toarray().T.astype(int))) == sorted(map(tuple, theirs.toarray().T))


def test_an_ngram_never_spans_two_texts():
    ngrams = baselines.Ngrams(order=2, min_df=1)
    assert ngrams.fit(["a b", "c d"])[1].shape == (2, 2)  # "a b" and "c d", not "b c"


def test_known_log_count_ratio():
    """Wang & Manning's r by hand: 'good' in 3 of 3 positive, 1 of 2 negative texts."""
    texts = ["good film", "good film", "good", "good film", "film"]
    y = np.array([1, 1, 1, 0, 0])
    counts = baselines.Ngrams(order=1, min_df=1).fit(texts)
    seen = {}
    real = baselines._regression
    try:
        baselines._regression = lambda x, y, C, seed: seen.setdefault("x", x) is None or real(x, y, C, seed)
        baselines.fit_nb(counts, y, 2)
    finally:
        baselines._regression = real
    p, q = np.array([1 + 3, 1 + 2]), np.array([1 + 1, 1 + 2])  # good, film
    r = np.log((p / p.sum()) / (q / q.sum()))
    assert seen["x"].toarray()[0] == pytest.approx(r, rel=1e-5)


def test_two_classes_are_learned_and_nb_knows_word_pairs():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 400)
    texts = [f"{'not bad' if y else 'bad'} {' '.join(rng.choice(['film', 'plot', 'scene', 'end'], 4))}" for y in label]
    figures, probs = baselines.floors(texts[:300], label[:300], texts[300:], label[300:], ["neg", "pos"])
    assert list(figures) == list(probs) == ["majority", "tfidf", "nb"]
    assert figures["majority"]["accuracy"] < 0.7 and figures["tfidf"]["accuracy"] == figures["nb"]["accuracy"] == 1.0
    for name, p in probs.items():
        assert p.shape == (100, 2) and p.sum(1) == pytest.approx(1.0)
        assert figures[name]["macro_f1"] == metrics.summary(label[300:], p, ["neg", "pos"])["macro_f1"]


def test_majority_is_the_commonest_class_of_training():
    figures, _ = baselines.floors(["a b"] * 9, [2] * 5 + [0] * 3 + [1], ["x", "y", "z"], [2, 2, 0], ["a", "b", "c"])
    assert figures["majority"]["accuracy"] == pytest.approx(2 / 3)
    assert figures["majority"]["per_class"]["c"]["recall"] == 1.0


@pytest.mark.parametrize("k, per_class", [(2, 1), (5, 3), (150, 3), (40, 1)])
def test_many_classes_with_few_rows(k, per_class):
    labels = np.repeat(np.arange(k), per_class)
    texts = [f"topic{y} word{y} text number {i}" for i, y in enumerate(labels)]
    figures, probs = baselines.floors(texts, labels, texts, labels, [f"c{i}" for i in range(k)])
    assert figures["tfidf"]["accuracy"] == 1.0 and figures["nb"]["accuracy"] == 1.0
    assert probs["nb"].shape == (len(texts), k) and probs["nb"].sum(1) == pytest.approx(1.0)


def test_a_class_without_training_rows_keeps_its_column():
    figures, probs = baselines.floors(["good film", "bad film", "good plot", "bad plot"], [0, 2, 0, 2], ["good"], [0], list("abc"))
    assert probs["tfidf"].shape == (1, 3) and probs["tfidf"][0].argmax() == 0


def test_several_labels():
    rng = np.random.default_rng(0)
    truth = (rng.random((200, 3)) < 0.4).astype(np.float32)
    truth[:, 2] = 0  # never given
    texts = ["the film " + " ".join(w for w, on in zip(("music", "acting"), row) if on) for row in truth]
    figures, probs = baselines.floors(texts, truth, texts, truth, ["music", "acting", "price"], multi_label=True)
    assert figures["nb"]["subset_accuracy"] == 1.0 and figures["tfidf"]["micro_f1"] == 1.0
    assert (probs["nb"][:, 2] < 0.05).all() and figures["majority"]["multi_label"]


def test_texts_without_a_word_fall_back_and_say_so():
    texts = ["", " ", "\n", ""]
    figures, probs = baselines.floors(texts, [0, 1, 1, 1], texts, [0, 1, 1, 1], ["a", "b"])
    assert "no words" in figures["nb"]["note"] and "note" not in figures["majority"]
    assert np.array_equal(probs["nb"], probs["majority"])


def test_words_that_never_repeat_are_used_all_the_same():
    figures, _ = baselines.floors(["sun", "moon", "rain", "snow"], [0, 0, 1, 1], ["sun", "snow"], [0, 1], ["a", "b"])
    assert figures["tfidf"]["accuracy"] == 1.0 and "note" not in figures["tfidf"]


def test_scripts_without_spaces_are_read_by_characters():
    assert baselines.words("好看 Film!很 don't") == ["好", "看", "film", "!", "很", "don", "'", "t"]
    figures, _ = baselines.floors(["这部电影很好看", "很好看的故事", "这部电影不好看", "不好看的故事"], [1, 1, 0, 0],
                                  ["故事很好看", "电影不好看"], [1, 0], ["neg", "pos"])
    assert figures["nb"]["accuracy"] == 1.0


def test_same_seed_same_figures():
    rng = np.random.default_rng(1)
    texts, labels = sentences(80), rng.integers(0, 3, 80)
    a, b = (baselines.floors(texts[:60], labels[:60], texts[60:], labels[60:], list("xyz"))[1] for _ in range(2))
    assert all(np.array_equal(a[name], b[name]) for name in a)


ARCHIVE = Path(__file__).resolve().parents[2] / "shared" / "imdb" / "aclImdb_labelled.tar.gz"


@pytest.mark.skipif(not ARCHIVE.is_file(), reason="the IMDB archive is not beside the repository")
def test_real_reviews_are_floored_high():
    """2,000 + 1,000 of the real reviews: the published gap between the floors, nb above TF-IDF above chance."""
    rows = {"train": [], "test": []}
    with tarfile.open(ARCHIVE, "r|gz") as archive:
        for member in archive:
            part = member.name.split("/")
            if member.isfile() and part[-2] in ("pos", "neg") and int(part[-1].split("_")[0]) < (1000 if part[-3] == "train" else 500):
                rows[part[-3]].append((archive.extractfile(member).read().decode(), int(part[-2] == "pos")))
    assert len(rows["train"]) == 2000 and len(rows["test"]) == 1000
    (train, y), (test, t) = (zip(*rows[name]) for name in ("train", "test"))
    figures, _ = baselines.floors(train, y, test, t, ["neg", "pos"])
    assert figures["majority"]["accuracy"] == 0.5
    assert figures["tfidf"]["accuracy"] > 0.83 and figures["nb"]["accuracy"] > 0.85
