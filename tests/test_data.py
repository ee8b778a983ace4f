"""Data: what files of every kind become, what is refused and how, and how rows are split, stored and batched.

The names D1 … D11 are the cases that real users met.
"""

import gzip
import json
import os
import re
import threading

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st

from minibert import data, sources
from minibert.cli import UserError
from minibert.tokenization import train_wordpiece


@pytest.fixture(autouse=True)
def cache_in_tmp(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("MINIBERT_CACHE", str(tmp_path_factory.mktemp("cache")))


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def table(rows, header="text,label"):
    return "\n".join([header, *rows]) + "\n"


def plain(n, labels=("neg", "pos"), word="film"):
    """n rows of different texts, labels in turn."""
    return [f"{word} number {i},{labels[i % len(labels)]}" for i in range(n)]


def everything(dataset):
    """All rows of a dataset as a sorted list of (line, text, label)."""
    return sorted((int(s.rows[i]), s.texts[i], s.label_text(i))
                  for s in (dataset.train, dataset.val, dataset.test) if s is not None for i in range(len(s)))


def printed(dataset):
    return "\n".join(dataset.report.lines())


# ------------------------------------------------------------------------------------------------ D1

WORDS = ["NA", "null", "None", "nan", "N/A", "123", "True", "1e5", "-", "007"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_d1_no_word_becomes_a_missing_value_or_a_number(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    rows = [(word, label) for word in WORDS for label in ("yes", "no") for _ in range(2)]
    if suffix == ".jsonl":
        write(path, "".join(json.dumps({"text": f"{t} {i}" if i % 2 else t, "label": l}) + "\n" for i, (t, l) in enumerate(rows)))
    else:
        sep = "," if suffix == ".csv" else "\t"
        write(path, f"text{sep}label\n" + "".join(f"{t} {i}{sep}{l}\n" if i % 2 else f"{t}{sep}{l}\n" for i, (t, l) in enumerate(rows)))
    got = everything(data.load_data(str(path)))
    assert [text for _, text, _ in got] == [f"{t} {i}" if i % 2 else t for i, (t, _) in enumerate(rows)]


def test_d1_missing_value_words_are_labels_and_are_mentioned(tmp_path):
    d = data.load_data(write(tmp_path / "a.csv", table(plain(40, ("NA", "null", "None", "nan", "N/A")))))
    assert d.labels == sorted(["NA", "null", "None", "nan", "N/A"])
    assert "'nan' is taken as the name of a class" in printed(d)


def test_d1_empty_text_is_dropped_with_its_line_and_an_empty_label_is_an_error(tmp_path):
    rows = plain(30)
    rows[3], rows[7] = ",neg", '"   ",pos'
    d = data.load_data(write(tmp_path / "a.csv", table(rows)))
    assert len(everything(d)) == 28 and {line for line, _, _ in everything(d)}.isdisjoint({5, 9})
    assert "2 dropped" in printed(d) and "lines 5, 9" in printed(d)

    rows = plain(30)
    rows[4], rows[5] = "a text,", "another, "
    with pytest.raises(UserError, match=r"label is empty in lines 6, 7"):
        data.load_data(write(tmp_path / "b.csv", table(rows)))


def test_line_numbers_are_those_of_the_file_also_after_texts_of_several_lines(tmp_path):
    rows = plain(30)
    rows[2] = '"one\ntwo\n\nthree",pos'
    rows[10] = ",neg"
    d = data.load_data(write(tmp_path / "a.csv", table(rows)))
    assert (4, "one\ntwo\n\nthree", "pos") in everything(d)
    assert "line 15" in printed(d)  # 1 header + 10 rows + 3 more lines of the long one + 1


# ------------------------------------------------------------------------------------------------ D3

def test_d3_labels_are_exact_stripped_strings(tmp_path):
    rows = [f"t{i},{l}" for i, l in enumerate([" pos", "pos ", "Pos", "01", "1", "TRUE", "true"] * 6)]
    d = data.load_data(write(tmp_path / "a.csv", table(rows)))
    assert d.labels == ["01", "1", "Pos", "TRUE", "pos", "true"]
    text = printed(d)
    for pair in ("'Pos', 'pos'", "'01', '1'", "'TRUE', 'true'"):
        assert f"{pair} differ only in spelling" in text


def test_d3_a_blank_among_whole_numbers_turns_nothing_into_a_float(tmp_path):
    with pytest.raises(UserError, match="label is empty in line 3"):
        data.load_data(write(tmp_path / "a.csv", table(["a,1", "b,", "c,2"] + plain(20, ("1", "2")))))
    d = data.load_data(write(tmp_path / "b.csv", table(plain(20, ("1", "2")))))
    assert d.labels == ["1", "2"]


@pytest.mark.parametrize("train, test", [(("1", "2"), ("1.0", "2.0")), (("1.0", "2.0"), ("1", "2"))])
def test_d3_one_number_spelled_twice_across_files_is_an_error_that_says_so(tmp_path, train, test):
    write(tmp_path / "train.csv", table(plain(20, train)))
    write(tmp_path / "test.csv", table(plain(20, test, word="other")))
    with pytest.raises(UserError, match=r"two spellings of one number") as e:
        data.load_data(tmp_path)
    for label, split in zip((train[0], test[0]), ("train", "test")):
        assert re.search(rf"'{label}' \({split}, [^)]*{split}.csv, line 2\)", str(e.value)), e.value


def test_d3_json_numbers_keep_their_spelling(tmp_path):
    lines = [f'{{"text": "t {i}", "label": {l}}}' for i, l in enumerate(["1", "2", "true", "1e3", "-0"] * 8)]
    d = data.load_data(write(tmp_path / "a.jsonl", "\n".join(lines)))
    assert d.labels == ["-0", "1", "1e3", "2", "true"]
    with pytest.raises(UserError, match="two spellings"):
        data.load_data(write(tmp_path / "b.jsonl", "\n".join(f'{{"text": "t {i}", "label": {"1.0" if i % 3 else "1"}}}' for i in range(20))))


# ------------------------------------------------------------------------------------------------ D4, D5

def test_d4_ids_are_made_here_whatever_numbers_the_file_holds(tmp_path):
    d = data.load_data(write(tmp_path / "a.csv", table(plain(60, ("1", "2", "3", "4", "-1", "-100", "10")))))
    assert d.labels == ["-100", "-1", "1", "2", "3", "4", "10"]  # whole numbers sort as numbers
    for split in (d.train, d.val, d.test):
        assert split.labels.dtype == np.int64 and split.labels.min() >= 0 and split.labels.max() < 7


def test_d5_unseen_labels_are_listed_never_dropped(tmp_path):
    write(tmp_path / "train.csv", table(plain(20)))
    write(tmp_path / "test.csv", table(["x,pos", "y,qux", "z,quux"]))
    with pytest.raises(UserError, match="test.csv, line 3: the labels 'quux', 'qux' are not among the 2 labels of the training rows"):
        data.load_data(tmp_path)


def test_d5_one_class_is_refused_with_the_counts_and_a_class_missing_from_a_split_is_said(tmp_path):
    with pytest.raises(UserError, match=r"single class \(pos 20 rows\)"):
        data.load_data(write(tmp_path / "a.csv", table(plain(20, ("pos",)))))
    folder = tmp_path / "f"
    folder.mkdir()
    write(folder / "train.csv", table(plain(20, ("a", "b"))))
    write(folder / "val.csv", table(["x,a"]))
    d = data.load_data(folder)
    assert "val has no row of 1 of 2 classes ('b')" in printed(d)
    assert d.test is None and "no test rows" in printed(d)


def test_d5_labels_of_a_saved_model_fix_names_and_order(tmp_path):
    path = write(tmp_path / "a.csv", table(plain(20)))
    assert data.load_data(path, names=["pos", "neg", "meh"]).labels == ["pos", "neg", "meh"]
    split = data.load_rows(path, ["pos", "neg", "meh"])
    assert len(split) == 20 and split.label_text(0) == "neg" and split.labels[0] == 1 and split.rows[0] == 2
    with pytest.raises(UserError, match="a.csv, line 3: the labels 'pos' are not among the 1 labels of the model"):
        data.load_rows(path, ["neg"])
    said = []
    split = data.load_rows(write(tmp_path / "b.csv", "Text;label\na;pos\n ;neg\nb;neg\n"), ["neg", "pos"], say=said.append)
    assert split.texts == ["a", "b"] and split.rows.tolist() == [2, 4]
    assert "1 rows dropped, empty text in line 3" in said[0] and len(said) == 3


# ------------------------------------------------------------------------------------------------ D7

def test_d7_equal_texts_stay_on_one_side_and_everything_odd_is_reported(tmp_path):
    rows = ["Good film,pos", "good  FILM,pos", "good film ,neg", "Good film,pos"] + plain(60)
    path = write(tmp_path / "a.csv", table(rows))
    for seed in range(20):
        d = data.load_data(path, seed=seed)
        sides = [any("film" in t.casefold() and "number" not in t for t in s.texts) for s in (d.train, d.val, d.test)]
        assert sum(sides) == 1
    text = printed(d)
    assert "1 within all" in text  # exact repeats: the first and the fourth
    assert "1 rows give a text another label" in text and "line 2 says 'pos'" in text and "line 4 says 'neg'" in text


def test_d7_shared_texts_are_counted_and_can_be_masked(tmp_path):
    write(tmp_path / "train.csv", table(plain(40) + ["Twice,pos", "Twice,pos"]))
    write(tmp_path / "test.csv", table(["Twice,pos", "twice,pos", "film number 3,pos", "new,neg"]))
    d = data.load_data(tmp_path)
    assert d.test.shared_with(d.train, d.val, None).tolist() == [True, False, True, False]
    assert d.report.repeats == {"train": 1, "test": 0} and d.report.shared == {("train", "test"): 2}
    assert "2 texts shared by train and test" in printed(d)
    assert len(d.test) == 4  # they stay


def test_d7_texts_alike_but_for_case_and_spaces_are_counted_apart(tmp_path):
    write(tmp_path / "train.csv", table(plain(40) + ["Twice,pos", "Twice,pos", "TWICE ,pos", "Spaced  out,neg"]))
    write(tmp_path / "val.csv", table(["film number 39,pos", "else,neg"]))
    write(tmp_path / "test.csv", table(["Twice,pos", "tWICE,pos", "twice,pos", "spaced out,neg", "FILM number 3,pos", "new,neg"]))
    report = data.load_data(tmp_path).report
    assert report.repeats == {"train": 1, "val": 0, "test": 0}            # Twice, Twice
    assert report.alike == {"train": 1, "val": 0, "test": 2}              # TWICE; tWICE and twice
    assert report.shared == {("train", "val"): 1, ("train", "test"): 1, ("val", "test"): 0}
    assert report.alike_shared == {("train", "val"): 0, ("train", "test"): 2, ("val", "test"): 0}  # spaced out, film number 3
    lines = report.lines()
    at = next(i for i, line in enumerate(lines) if line.startswith("duplicates"))
    assert lines[at].startswith("duplicates  exact repeats: 1 within train, 1 texts shared by train and val, 1 texts shared by train and test (they")
    assert lines[at + 1] == "  alike     but for case or spaces: 1 more within train, 2 more within test, 2 more shared by train and test"


@pytest.mark.parametrize("given", [True, False])
def test_splits_and_classes_are_printed_alike_whatever_the_source(tmp_path, given):
    rows = [f"{row},{'train' if i < 80 else 'val' if i < 90 else 'test'}" for i, row in enumerate(plain(100))]
    d = data.load_data(write(tmp_path / "a.csv", table(rows, "text,label,split") if given else table(plain(100))))
    lines = d.report.lines()
    assert lines[2:6] == ["splits      train 80 (80.0%), val 10 (10.0%), test 10 (10.0%)",
                          "  train     neg 40 (50.0%), pos 40 (50.0%); majority baseline 50.0%",
                          "  val       neg 5 (50.0%), pos 5 (50.0%); majority baseline 50.0%",
                          "  test      neg 5 (50.0%), pos 5 (50.0%); majority baseline 50.0%"]


def test_d7_validation_comes_out_of_train_and_never_out_of_test(tmp_path):
    write(tmp_path / "train.csv", table(plain(100)))
    write(tmp_path / "test.csv", table(plain(50, word="other")))
    d = data.load_data(tmp_path)
    assert (len(d.train), len(d.val), len(d.test)) == (90, 10, 50)
    assert all("film" in t for t in d.train.texts + d.val.texts) and all("other" in t for t in d.test.texts)
    assert np.bincount(d.val.labels).tolist() == [5, 5]


def test_conflicting_rows_are_found_and_kept_out_of_the_wiring_check(tmp_path):
    rows = ["same,pos", "SAME,neg", "same ,pos"] + plain(40)
    write(tmp_path / "train.csv", table(rows))
    write(tmp_path / "val.csv", table(["x,pos", "y,neg"]))
    d = data.load_data(tmp_path)
    assert np.flatnonzero(d.train.conflicting()).tolist() == [0, 1, 2]
    wiring = data.wiring_rows(d.train, 10)
    assert len(wiring) == 10 and np.bincount(wiring.labels).tolist() == [5, 5]
    assert not any("same" in t.casefold() for t in wiring.texts)


# ------------------------------------------------------------------------------------------------ D9

@pytest.mark.parametrize("content", [
    "\ufefftext,label\n", "text;label\n", "text\tlabel\n", "\"text\";\"label\"\n", " Text , LABEL \n", "label,text\n",
    "id,text,label\n", "\r\ntext,label\r\n", "text,label\r"], ids=repr)
def test_d9_headers_that_are_understood(tmp_path, content):
    columns = [c.strip(' "').lower() for c in content.strip("\ufeff\r\n").replace(";", ",").replace("\t", ",").split(",")]
    sep, end = next(s for s in ";\t," if s in content), content[len(content.rstrip("\r\n")):]
    cells = {"text": "film {i}", "label": "ab", "id": "{i}"}
    rows = [sep.join(("ab"[i % 2] if c == "label" else cells[c].format(i=i)) for c in columns) + end for i in range(20)]
    d = data.load_data(write(tmp_path / "a.csv", content + "".join(rows)))
    assert sorted(t for _, t, _ in everything(d)) == sorted(f"film {i}" for i in range(20))
    assert d.labels == ["a", "b"]
    assert list(d.train.extra) == [c for c in columns if c == "id"]
    if sep != ",":
        assert "columns are separated by" in printed(d)
    if "Text" in content:
        assert "the column 'Text' is read as 'text'" in printed(d)


def test_d9_a_file_without_a_header_loses_no_row_silently(tmp_path):
    with pytest.raises(UserError, match=r"no column 'text'.*'I loved it', 'pos'.*first line is a header"):
        data.load_data(write(tmp_path / "a.csv", "I loved it,pos\nI hated it,neg\n"))


def test_d9_a_missing_column_prints_those_found_and_the_nearest(tmp_path):
    with pytest.raises(UserError, match=r"no column 'label' \(did you mean 'labels'\?\).*'text', 'labels', 'id'"):
        data.load_data(write(tmp_path / "a.csv", table(["a,b,c"], "text,labels,id")))


def test_d9_undecodable_bytes_are_an_error_with_their_offset(tmp_path):
    content = table(plain(5000)).encode() + "caf\u00e9,pos\n".encode("cp1252")
    with pytest.raises(UserError, match=rf"a.csv, line 5002: byte 0xe9 at offset {content.index(0xe9)} is not UTF-8.*Windows-1252"):
        data.load_data(write(tmp_path / "a.csv", content))


@pytest.mark.parametrize("order", ["utf-16", "utf-16-be"])
def test_d9_utf16_with_its_mark_is_read_and_said(tmp_path, order):
    text = table(plain(20) + ["caf\u00e9 \U0001f600,pos"])
    mark = b"\xfe\xff" if order == "utf-16-be" else b""
    d = data.load_data(write(tmp_path / "a.csv", mark + text.encode(order)))
    assert "caf\u00e9 \U0001f600" in [t for _, t, _ in everything(d)] and "UTF-16" in printed(d)
    with pytest.raises(UserError, match="UTF-16 without its mark"):
        data.load_data(write(tmp_path / "b.csv", text.encode("utf-16-le")))


@pytest.mark.parametrize("content, what", [(gzip.compress(b"text,label\na,pos\n", mtime=0), "compressed"), (b"PK\x03\x04" + bytes(range(256)), "spreadsheet"),
                                           (b"\xd0\xcf\x11\xe0" + bytes(99), "spreadsheet"), (bytes(5000), "zero bytes")])
def test_what_is_no_text_is_named(tmp_path, content, what):
    with pytest.raises(UserError, match=what):
        data.load_data(write(tmp_path / "a.csv", content))


def test_quotes_commas_and_newlines_survive_a_round_trip_through_pandas(tmp_path):
    texts = ['he said "hi", twice', "two\nlines", "a;b\tc", '"', "''", "trailing, ", "\\", "été", "'\",\n\"'"] * 4
    frame = pd.DataFrame({"text": [f"{t}{i}" for i, t in enumerate(texts)], "label": ["a", "b"] * 18})
    for suffix, sep in ((".csv", ","), (".csv", ";"), (".tsv", "\t")):
        path = tmp_path / f"x{ord(sep)}{suffix}"
        frame.to_csv(path, index=False, sep=sep)
        assert sorted(t for _, t, _ in everything(data.load_data(path))) == sorted(frame.text)


def test_a_tsv_with_bare_quotes_is_read_line_by_line(tmp_path):
    rows = [row for i in range(6) for row in (f'"A quote opens here {i}\tpos', f'and closes here" far below {i}\tneg',
                                              f'a "word" in quotes {i}\tpos', f'"whole {i}"\tneg')]
    d = data.load_data(write(tmp_path / "a.tsv", "text\tlabel\n" + "\n".join(rows) + "\n"))
    assert [t for _, t, _ in everything(d)] == [r.split("\t")[0] for r in rows]
    assert "quote characters are read as part of the text" in printed(d)


@pytest.mark.parametrize("rows, why", [
    (['"never closed,pos', "x,neg"], "opened and never closed"),
    (['"a" b,pos'], "bad quoting"),
    (["one, two,pos"], "3 cells where the header has 2"),
    (["only"], "1 cells where the header has 2"),
])
def test_badly_quoted_and_ragged_rows_are_errors_with_their_line(tmp_path, rows, why):
    with pytest.raises(UserError, match=rf"line 12: .*{why}"):
        data.load_data(write(tmp_path / "a.csv", table(plain(10) + rows)))


@pytest.mark.parametrize("content, why", [
    ("", "is empty"), ("\n\n", "is empty"), ("text,label\n", "no row with a text"), ("text,text,label\n", "two columns called 'text'"),
    ("text,label\n,a\n", "no row with a text")])
def test_empty_and_useless_files(tmp_path, content, why):
    with pytest.raises(UserError, match=why):
        data.load_data(write(tmp_path / "a.csv", content))


@pytest.mark.parametrize("line, why", [
    ("[1]", "is a list, not a JSON object"), ("{", "not a JSON object"), ("nonsense", "not a JSON object"),
    ('{"text": 5, "label": "a"}', "'text' is a number"), ('{"text": null, "label": "a"}', "'text' is a null"),
    ('{"text": ["a"], "label": "a"}', "'text' is a list"), ('{"text": "a"}', "key 'label' is missing"),
    ('{"text": "a", "label": {}}', "'label' is a object"), ('{"text": "a", "label": ["a"]}', "needs --multi-label"),
    ('{"text": "a", "label": NaN}', "NaN is not JSON"), ('{"text": "a", "label": null}', "label is empty in line 4"),
    ('{"text": "\\ud800", "label": "a"}', "half a surrogate pair"), ("[" * 100_000, "nested too deeply"),
    ('{"text": "a", "label": "%s"}' % ("x" * 300), "300 characters")])
def test_jsonl_faults_name_the_line(tmp_path, line, why):
    good = ['{"text": "t", "label": "a"}', '{"text": "u", "label": "b"}', ""]
    with pytest.raises(UserError, match=why) as e:
        data.load_data(write(tmp_path / "a.jsonl", "\n".join(good + [line])))
    assert "line 4" in str(e.value)


def test_jsonl_extra_keys_are_columns_and_blank_lines_are_nothing(tmp_path):
    lines = [json.dumps({"text": f"t{i}", "label": "ab"[i % 2], "n": i, "deep": [1, {"x": None}]}) for i in range(20)]
    lines[5] = json.dumps({"text": "t5", "label": "b"})
    d = data.load_data(write(tmp_path / "a.jsonl", "\ufeff" + "\n\n".join(lines)))
    found = {t: n for s in (d.train, d.val, d.test) for t, n in zip(s.texts, s.extra["n"])}
    assert found["t7"] == "7" and found["t5"] == "" and len(found) == 20


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_a_line_of_many_megabytes_is_refused_in_bounded_memory(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(sources, "MAX_CELL", 10_000)
    first = '{"text": "a", "label": "b"}' if suffix == ".jsonl" else "text\tlabel"
    path = write(tmp_path / f"a{suffix}", f"{first}\n" + "x" * 50_000 + "\ta\n")
    with pytest.raises(UserError, match="10,000 characters"):
        data.load_data(path)
    rows = ["text,label", '"' + "many lines\n" * 5_000]  # an unclosed quote swallows line after line
    with pytest.raises(UserError, match="double quote was probably not closed"):
        data.load_data(write(tmp_path / "b.csv", "\n".join(rows)))


def test_nul_bytes_are_text(tmp_path):
    d = data.load_data(write(tmp_path / "a.csv", table(plain(300) + ["a\0b,pos"])))
    assert "a\0b" in [t for _, t, _ in everything(d)]


# ------------------------------------------------------------------------------------------------ sources

@pytest.mark.parametrize("spec, why", [
    ("reveiws", r"did you mean 'reviews'"), ("no/such/file.csv", "neither a known name"), ("x" * 5000, "cannot be opened"),
    ("a\0b", "neither a known name"), ("/dev/null", "not a kind of data file")])
def test_unknown_sources(spec, why):
    with pytest.raises(UserError, match=why):
        data.load_data(spec)


def test_other_files_and_folders_are_refused_in_words(tmp_path):
    for name in ("a.txt", "a.csv.gz", "a.json", "a"):
        with pytest.raises(UserError, match="not a kind of data file"):
            data.load_data(write(tmp_path / name, "text,label\n"))
    with pytest.raises(UserError, match="holds no train.csv"):
        data.load_data(tmp_path)
    write(tmp_path / "train.csv", table(plain(20)))
    write(tmp_path / "train.tsv", table(plain(20)))
    with pytest.raises(UserError, match="both train.csv and train.tsv"):
        data.load_data(tmp_path)


def test_a_folder_says_which_validation_file_it_does_not_read(tmp_path):
    write(tmp_path / "train.tsv", "text\tlabel\n" + "".join(f"t{i}\t{'ab'[i % 2]}\n" for i in range(20)))
    write(tmp_path / "dev.tsv", "text\tlabel\nx\ta\n")
    assert "dev.tsv is not read" in printed(data.load_data(tmp_path))


def test_a_split_column_is_obeyed_and_said(tmp_path):
    rows = [f"t{i},{'ab'[i % 2]},{('train', 'train', 'val', 'test')[i // 2 % 4]}" for i in range(40)]
    d = data.load_data(write(tmp_path / "a.csv", table(rows, "text,label,split")))
    assert (len(d.train), len(d.val), len(d.test)) == (20, 10, 10) and "split" not in d.train.extra
    assert "the column 'split' says which rows" in printed(d)
    d = data.load_data(write(tmp_path / "b.csv", table([r.replace("val", "dev") for r in rows], "text,label,split")))
    assert "'split' is not used" in printed(d) and len(d.train) == 32 and "split" in d.train.extra


def test_one_file_is_carved_into_80_10_10_in_proportion(tmp_path):
    rows = [f"t{i},{'urgent' if i % 20 == 0 else 'routine'}" for i in range(1000)]
    d = data.load_data(write(tmp_path / "a.csv", table(rows)))
    assert (len(d.train), len(d.val), len(d.test)) == (800, 100, 100)
    assert [int((s.labels == 1).sum()) for s in (d.train, d.val, d.test)] == [40, 5, 5]
    again, other = data.load_data(tmp_path / "a.csv"), data.load_data(tmp_path / "a.csv", seed=1)
    assert again.val.texts == d.val.texts and other.val.texts != d.val.texts
    assert again.val.fingerprint() == d.val.fingerprint() != other.val.fingerprint()


def test_150_classes_of_three_rows(tmp_path):
    d = data.load_data(write(tmp_path / "a.csv", table(plain(450, [f"intent {i:03d}" for i in range(150)]))))
    assert len(d.labels) == 150 and (len(d.train), len(d.val), len(d.test)) == (360, 45, 45)
    assert np.bincount(d.train.labels, minlength=150).min() >= 1
    assert "150 in all" in printed(d) and "val has no row of 105 of 150 classes" in printed(d)


def test_too_little_to_split_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="too few"):
        data.load_data(write(tmp_path / "a.csv", table(["a,x", "b,y"])))
    with pytest.raises(UserError, match="too few"):
        data.load_data(write(tmp_path / "a.csv", table(["a,x"] * 50 + ["b,y"])))


@pytest.mark.parametrize("kw, why", [
    (dict(text_col="a,b,c"), "--text-col"), (dict(text_col=""), "--text-col"), (dict(label_col="a,,b"), "--label-col"),
    (dict(label_col="a,b"), "add --multi-label"), (dict(text_col="label"), "both text and label"),
    (dict(seed=-1), "seed"), (dict(val_fraction=1.5), "shares")])
def test_arguments_that_make_no_sense(tmp_path, kw, why):
    with pytest.raises(UserError, match=why):
        data.load_data(write(tmp_path / "a.csv", table(plain(20))), **kw)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "A ", " b", "d e", "D  E"]) | st.text("xyz", max_size=3),
                          st.sampled_from("pqr")), min_size=10, max_size=60), st.integers(0, 5))
def test_any_rows_split_without_loss_and_without_parting_equal_texts(rows, seed):
    names = sorted({l for _, l in rows})
    split = data.Split([t for t, _ in rows], np.array([names.index(l) for _, l in rows]), np.arange(len(rows)), names)
    try:
        mask = data.carve(split, 0.2, seed)
    except UserError:
        return
    groups = data.text_groups(split.texts)
    assert not set(groups[mask]) & set(groups[~mask])
    assert 1 <= mask.sum() <= 0.2 * len(rows) + len(names)
    first_label = {g: split.labels[i] for i, g in reversed(list(enumerate(groups)))}
    assert {first_label[g] for g in groups} == {first_label[g] for g in groups[~mask]}  # no class leaves train


# ------------------------------------------------------------------------------------------------ several labels, pairs

def test_d11_label_sets_ignore_order_and_repeats_and_may_be_empty(tmp_path):
    cells = ["a|b", "b | a", "a|a", "", "|", "b", "c|a|b"] * 6
    d = data.load_data(write(tmp_path / "a.csv", table([f"t{i},{c}" for i, c in enumerate(cells)])), multi_label=True)
    assert d.labels == ["a", "b", "c"] and d.multi_label
    expected = ["a|b", "a|b", "a", "", "", "b", "a|b|c"] * 6
    assert [l for _, _, l in everything(d)] == expected
    for split in (d.train, d.val, d.test):
        assert split.labels.dtype == np.float32 and split.labels.shape == (len(split), 3)
        assert set(np.unique(split.labels)) <= {0.0, 1.0}


@pytest.mark.parametrize("sep", [";", ","])
def test_d11_another_separator_is_named(tmp_path, sep):
    cells = [f"a{sep}b", "a", f"b{sep} a", "b", f"a{sep}a"] * 6
    path = write(tmp_path / "a.tsv", "text\tlabel\n" + "".join(f"t{i}\t{c}\n" for i, c in enumerate(cells)))
    with pytest.raises(UserError, match=rf"line 2: 'a{sep}b' seems to separate labels by '{sep}'.*a\|b"):
        data.load_data(path, multi_label=True)
    rows = [f"t{i}\tfood{sep} drink|b\n" if i % 2 else f"t{i}\tb\n" for i in range(30)]
    assert data.load_data(write(tmp_path / "b.tsv", "text\tlabel\n" + "".join(rows)), multi_label=True).labels == ["b", f"food{sep} drink"]


def test_several_labels_without_the_flag_are_mentioned(tmp_path):
    d = data.load_data(write(tmp_path / "a.csv", table(plain(40, ("a|b", "a")))))
    assert "need --multi-label" in printed(d) and d.labels == ["a", "a|b"]


def test_label_columns_of_0_and_1(tmp_path):
    rows = [f"t{i},{i % 2},{int(i % 3 == 0)},x" for i in range(40)]
    d = data.load_data(write(tmp_path / "a.csv", table(rows, "text,plot,music,note")), label_col="plot,music", multi_label=True)
    assert d.labels == ["music", "plot"] and list(d.train.extra) == ["note"]
    assert [l for _, _, l in everything(d)] == ["|".join(n for n, on in (("music", i % 3 == 0), ("plot", i % 2)) if on) for i in range(40)]
    with pytest.raises(UserError, match=r"line 5: the label column 'music' holds '2'"):
        data.load_data(write(tmp_path / "b.csv", table(rows[:3] + ["t,1,2,x"] + rows, "text,plot,music,note")),
                       label_col="plot,music", multi_label=True)


def test_jsonl_lists_are_label_sets(tmp_path):
    lines = [json.dumps({"text": f"t{i}", "label": [["a", "b"], [], ["b"]][i % 3]}) for i in range(30)]
    d = data.load_data(write(tmp_path / "a.jsonl", "\n".join(lines)), multi_label=True)
    assert [l for _, _, l in everything(d)] == ["a|b", "", "b"] * 10


def test_no_label_at_all_is_refused(tmp_path):
    with pytest.raises(UserError, match="no training row has any label"):
        data.load_data(write(tmp_path / "a.csv", table([f"t{i}," for i in range(20)])), multi_label=True)


def test_multi_label_splits_keep_the_rare_labels_in_proportion(tmp_path):
    rng = np.random.default_rng(0)
    cells = ["|".join(n for n, p in (("common", 0.6), ("some", 0.2), ("rare", 0.03)) if rng.random() < p) for _ in range(2000)]
    d = data.load_data(write(tmp_path / "a.csv", table([f"t{i},{c}" for i, c in enumerate(cells)])), multi_label=True)
    whole = np.mean([[n in c.split("|") for n in d.labels] for c in cells], axis=0)
    for split in (d.val, d.test):
        assert np.abs(split.labels.mean(0) - whole).max() < 0.03
        assert abs(split.labels[:, d.labels.index("rare")].sum() - 200 * whole[d.labels.index("rare")]) <= 2


def test_pairs(tmp_path):
    rows = [f"premise {i},hypothesis {i % 5},{'ab'[i % 2]}" for i in range(40)] + [",only b,a", "only a,,b"]
    d = data.load_data(write(tmp_path / "a.csv", table(rows, "p,h,label")), text_col="p,h")
    assert d.train.pairs is not None and len(d.train.pairs) == len(d.train) and "2 dropped" in printed(d)
    i = d.train.texts.index(next(t for t in d.train.texts))
    assert d.train.pairs[i] == f"hypothesis {int(d.train.texts[i].split()[1]) % 5}"
    assert data.joined_texts(d.train)[i] == f"{d.train.texts[i]}\n{d.train.pairs[i]}"
    assert d.train.take([2, 0]).pairs == [d.train.pairs[2], d.train.pairs[0]]


def test_equal_first_texts_of_pairs_are_no_duplicates(tmp_path):
    d = data.load_data(write(tmp_path / "a.csv", table([f"same,other {i},{'ab'[i % 2]}" for i in range(40)], "p,h,label")), text_col="p,h")
    assert d.report.repeats == {"all": 0} and not d.train.conflicting().any()


# ------------------------------------------------------------------------------------------------ corrections

def test_corrections_replace_train_and_val_labels_and_never_test_labels(tmp_path):
    write(tmp_path / "train.csv", table(plain(40)))
    write(tmp_path / "test.csv", table(["t,pos", "u,neg"]))
    errors = "row,text,truth,predicted,correction\n2,film number 0,neg,pos,pos\n9,t,pos,neg,neg\n3,film number 1,pos,neg,\n"
    d = data.load_data(tmp_path)
    before = d.test.labels.copy()
    said = data.apply_corrections(d, write(tmp_path / "errors.csv", errors))
    changed = [s.label_text(s.texts.index("film number 0")) for s in (d.train, d.val) if "film number 0" in s.texts]
    assert changed == ["pos"] and (d.test.labels == before).all() and "1 of 2 corrections are for other rows" in said
    with pytest.raises(UserError, match=r"line 2: the correction 'pso' is no label.*did you mean 'pos'"):
        data.apply_corrections(d, write(tmp_path / "errors.csv", errors.replace("neg,pos,pos", "neg,pos,pso")))
    # what was read in a test row changes no copy of it in training
    d = data.load_data(tmp_path)
    marked = "split,text,truth,correction\ntest,film number 2,neg,pos\nval,film number 4,neg,pos\n"
    said = data.apply_corrections(d, write(tmp_path / "errors.csv", marked))
    label = {text: split.label_text(i) for split in (d.train, d.val) for i, text in enumerate(split.texts)}
    assert (label["film number 2"], label["film number 4"]) == ("neg", "pos") and "1 of 2 corrections are for other rows" in said
    with pytest.raises(UserError, match="corrects test rows only, whose labels stay as they are"):
        data.apply_corrections(d, write(tmp_path / "errors.csv", marked.replace("\nval", "\ntest")))
    with pytest.raises(UserError, match="holds no correction"):
        data.apply_corrections(d, write(tmp_path / "errors.csv", "text,truth,correction\na,pos,\n"))


# ------------------------------------------------------------------------------------------------ report

def test_token_length_report_counts_by_hand():
    lengths = np.array([10] * 50 + [200] * 40 + [600] * 10)
    text = "\n".join(data.token_length_report(lengths, 256))
    assert "median 105, 90 % 240, 95 % 600, 99 % 600, longest 600" in text
    kept = (50 * 10 + 40 * 200 + 10 * 256) / lengths.sum()
    cost = (50 * 100 + 40 * 200 ** 2 + 10 * 256 ** 2) / (50 * 100 + 40 * 200 ** 2 + 10 * 512 ** 2)
    assert f"256 keeps  90.0% whole and  {kept:.1%} of the tokens; attention costs {cost:.0%} of what 512 costs   <- --max-len" in text
    assert f"discards {10 * 344 / lengths.sum():.1%} of the tokens, of 10.0% of the texts; the shortest that keeps 95 % whole is 600" in text


def test_shortest_length_that_keeps_95_percent_is_exact():
    for n in (1, 2, 19, 20, 21, 100):
        lengths = np.arange(1, n + 1)
        shortest = int(data.token_length_report(lengths, 5)[-1].split()[-1])
        assert np.mean(lengths <= shortest) >= 0.95 and np.mean(lengths <= shortest - 1) < 0.95


def test_length_histogram_holds_every_row():
    lengths = np.random.default_rng(0).integers(0, 1000, 5000)
    h = data.length_histogram(lengths)
    assert sum(h["counts"]) == 5000 and len(h["edges"]) == len(h["counts"]) + 1
    assert json.loads(json.dumps(h)) == h


def test_sample_rows_are_readable_and_harmless(tmp_path):
    d = data.load_data(write(tmp_path / "a.csv", table(plain(20) + [f'"\x1b[31mred\nnext {"long " * 100} end",pos'])))
    lines = data.sample_rows(d.train, 100)
    assert len(lines) == len(d.train) and all(len(line) < 220 and line.isprintable() for line in lines)
    assert data.sample_rows(d.train, 5, 1) == data.sample_rows(d.train, 5, 1) != data.sample_rows(d.train, 5, 2)


# ------------------------------------------------------------------------------------------------ tokens

@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece([f"film number {i} was good bad" for i in range(50)], vocab_size=120)


def test_the_store_holds_the_tokenizers_ids_flat(tokenizer):
    texts = ["film number 1", "", "   ", "good " * 500, "was bad", "\x00"]
    store = data.tokenize_store(tokenizer, texts)
    assert store.ids.dtype == np.uint16 and store.ids.ndim == 1 and len(store) == 6
    for i, ids in enumerate(tokenizer.ids(texts)):
        assert store.row(i).tolist() == ids.tolist() and store.lengths[i] == len(ids)
    assert len(data.tokenize_store(tokenizer, [])) == 0


def test_a_large_vocabulary_takes_four_bytes(tokenizer):
    class Large:
        vocab_size, unk_id = 250_002, 3

        def ids(self, texts):
            return [np.array([250_001, 7], dtype=np.int32) for _ in texts]
    store = data.tokenize_store(Large(), ["a", "b"])
    assert store.ids.dtype == np.uint32 and store.row(1).tolist() == [250_001, 7]


def test_the_store_is_cached_by_tokenizer_and_texts_and_survives_damage(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "CACHED_FROM", 10)
    texts = [f"film number {i}" for i in range(100)]
    first = data.tokenize_store(tokenizer, texts, tmp_path)
    made = sorted(tmp_path.glob("*.npy"))
    assert len(made) == 2 and isinstance(first.ids, np.memmap)

    monkeypatch.setattr(type(tokenizer), "ids", lambda *_: pytest.fail("tokenised again"))
    assert data.tokenize_store(tokenizer, texts, tmp_path).ids.tolist() == first.ids.tolist()
    monkeypatch.undo()
    monkeypatch.setattr(data, "CACHED_FROM", 10)

    expected = first.ids.tolist()
    del first
    for path in made:
        whole = path.read_bytes()
        for damaged in (b"", whole[:-7], b"garbage" * 50, whole[:128] + b"\xff" * (len(whole) - 128)):
            path.write_bytes(damaged)
            assert data.tokenize_store(tokenizer, texts, tmp_path).ids.tolist() == expected
    other = train_wordpiece(["another vocabulary"], vocab_size=60)
    data.tokenize_store(other, texts, tmp_path)
    data.tokenize_store(tokenizer, texts[:-1], tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 6


def test_the_cache_is_bounded_and_what_was_used_last_stays(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "CACHED_FROM", 10)
    sets = [[f"film number {i} of {k}" for i in range(100)] for k in range(4)]
    kept = []
    for k, texts in enumerate(sets[:3]):
        kept.append(data.tokenize_store(tokenizer, texts, tmp_path))
        for path in tmp_path.glob("*.npy"):  # as if each were made on another day
            os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 86_400 * 10**9))
    size = sum(p.stat().st_size for p in tmp_path.glob("*.npy")) // 3
    data.tokenize_store(tokenizer, sets[0], tmp_path)  # used today
    monkeypatch.setattr(data, "CACHE_BYTES", int(2.5 * size))
    data.tokenize_store(tokenizer, sets[3], tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 4  # the first and the last
    assert [row.tolist() for row in map(kept[1].row, range(100))] == [ids.tolist() for ids in tokenizer.ids(sets[1])]  # still mapped
    monkeypatch.setattr(type(tokenizer), "ids", lambda *_: pytest.fail("tokenised again"))
    data.tokenize_store(tokenizer, sets[0], tmp_path), data.tokenize_store(tokenizer, sets[3], tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(data, "CACHED_FROM", 10)
    monkeypatch.setattr(data, "CACHE_BYTES", 1)
    data.tokenize_store(tokenizer, sets[1], tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 2  # larger than the bound alone: it stays all the same


def test_a_cache_that_cannot_be_written_costs_time_only(tokenizer, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(data, "CACHED_FROM", 10)
    store = data.tokenize_store(tokenizer, ["film number one"], write(tmp_path / "a file", "x"))
    assert len(store) == 1 and "not cached" in capsys.readouterr().out


def test_unknown_share(tokenizer):
    store = data.tokenize_store(tokenizer, ["film \u4e2d \u56fd number"])
    assert data.unknown_share(tokenizer, store) == pytest.approx(0.5)
    assert data.unknown_share(tokenizer, data.tokenize_store(tokenizer, [""])) == 0.0


# ------------------------------------------------------------------------------------------------ batches

@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 600), max_size=300), st.integers(1, 40), st.integers(0, 3), st.integers(0, 3))
def test_every_row_once_and_only_the_last_batch_partial(lengths, size, seed, epoch):
    batches = data.length_buckets(np.array(lengths, dtype=np.int64), size, seed, epoch)
    assert sorted(np.concatenate(batches).tolist() if batches else []) == list(range(len(lengths)))
    assert all(len(b) == size for b in batches[:-1]) and len(batches) == -(-len(lengths) // size)


def test_the_order_is_a_function_of_seed_and_epoch():
    lengths = np.random.default_rng(0).integers(1, 300, 1000)
    order = lambda *a: np.concatenate(data.length_buckets(lengths, 16, *a)).tolist()
    assert order(1, 0) == order(1, 0)
    assert len({tuple(order(s, e)) for s in range(3) for e in range(3)}) == 9
    torch.manual_seed(0), np.random.seed(0)
    assert order(1, 0) == order(1, 0)


def test_buckets_pad_little_and_are_not_sorted_by_length():
    lengths = np.random.default_rng(0).integers(10, 500, 4000)
    batches = data.length_buckets(lengths, 16, 3, 0)
    padded = sum(len(b) * lengths[b].max() for b in batches)
    shuffled = np.random.default_rng(1).permutation(4000).reshape(-1, 16)
    assert padded / lengths.sum() < 1.08 < 1.7 < sum(16 * lengths[b].max() for b in shuffled) / lengths.sum()
    means = np.array([lengths[b].mean() for b in batches])
    assert abs(np.corrcoef(np.arange(len(means)), means)[0, 1]) < 0.2


def test_balanced_rows_draw_classes_equally_often():
    labels = np.array([0] * 950 + [1] * 50 + [3] * 1000)
    rows = data.balanced_rows(labels, 1, 0)
    share = np.bincount(labels[rows], minlength=4) / len(rows)
    assert len(rows) == 2000 and share[2] == 0 and np.abs(share[[0, 1, 3]] - 1 / 3).max() < 0.05
    assert (rows == data.balanced_rows(labels, 1, 0)).all() and (rows != data.balanced_rows(labels, 1, 1)).any()
    with pytest.raises(UserError, match="--sampler balanced"):
        data.balanced_rows(np.zeros((3, 2), np.float32), 0, 0)


def test_collate_is_the_tokenizers_own_batch(tokenizer):
    texts = ["film number 1 was good", "bad", "", "good " * 30]
    store = data.tokenize_store(tokenizer, texts)
    for max_len, truncate in ((8, "right"), (8, "left"), (9, "head+tail"), (512, "right")):
        ours = data.collate(tokenizer, store, [2, 0, 3], max_len, truncate)
        reference = tokenizer.batch([texts[2], texts[0], texts[3]], max_len=max_len, truncate=truncate)
        assert all(torch.equal(ours[k], reference[k]) for k in reference) and ours.keys() == reference.keys()
    pairs = data.tokenize_store(tokenizer, ["was", "was good", "number", "x"])
    ours = data.collate(tokenizer, store, [1, 3], 12, "right", pairs)
    reference = tokenizer.batch([texts[1], texts[3]], ["was good", "x"], max_len=12)
    assert all(torch.equal(ours[k], reference[k]) for k in reference)


def test_collate_windows_says_whose_window_each_row_is(tokenizer):
    texts = ["film " * 40, "bad", "good " * 15]
    store = data.tokenize_store(tokenizer, texts)
    batch = data.collate_windows(tokenizer, store, [1, 0, 2], 12, 4)
    expected = [tokenizer.windows(store.row(i), None, 12, 4) for i in (1, 0, 2)]
    assert batch["document"].tolist() == [d for d, windows in enumerate(expected) for _ in windows]
    assert batch["document"].dtype == torch.int64 and len(set(batch["document"].tolist())) == 3
    flat = [w for windows in expected for w in windows]
    assert batch["input_ids"].shape[0] == len(flat)
    for row, mask, (ids, _) in zip(batch["input_ids"], batch["attention_mask"], flat):
        assert row[mask.bool()].tolist() == ids


def test_threads_may_load_at_once(tmp_path):
    path = write(tmp_path / "a.csv", table(plain(200)))
    prints = []
    threads = [threading.Thread(target=lambda: prints.append(data.load_data(path).train.fingerprint())) for _ in range(8)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert len(prints) == 8 and len(set(prints)) == 1


def test_a_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "train.csv")
    with pytest.raises(UserError, match="is a pipe or a device"):
        data.load_data(str(tmp_path))
    (tmp_path / "zero").mkdir()
    (tmp_path / "zero" / "train.csv").symlink_to("/dev/zero")
    with pytest.raises(UserError, match="is a pipe or a device"):
        data.load_data(str(tmp_path / "zero"))
    for part in ("train/pos", "train/neg", "test/pos", "test/neg"):
        (tmp_path / "aclImdb" / part).mkdir(parents=True)
        (tmp_path / "aclImdb" / part / "1_7.txt").write_text("a review")
    os.mkfifo(tmp_path / "aclImdb" / "train" / "pos" / "2_9.txt")
    with pytest.raises(UserError, match="2_9.txt is no ordinary file"):
        data.load_data(str(tmp_path / "aclImdb"))
