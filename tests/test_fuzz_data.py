"""Hostile data: whatever the bytes are, a loader gives a valid Dataset or one sentence (UserError), and nothing else."""

import gzip
import io
import json
import tarfile

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from minibert import data, imdb, sources
from minibert.cli import UserError

FUZZ = settings(max_examples=150, deadline=None,
                suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large])


def check(path, **kw):
    """Load `path`; either a sentence comes back, or a Dataset in which everything holds together."""
    try:
        d = data.load_data(path, **kw)
    except UserError as e:
        assert str(e).strip() and str(e).isprintable(), repr(str(e))  # one line, no escape sequences from the file
        return None
    k = len(d.labels)
    assert k >= (1 if d.multi_label else 2) and len(set(d.labels)) == k and all(l == l.strip() != "" for l in d.labels)
    seen = []
    for split in filter(None, (d.train, d.val, d.test)):
        n = len(split)
        assert n > 0 and len(split.labels) == n == len(split.rows) and split.names == d.labels
        assert all(type(t) is str and t.strip() and t.encode("utf-8") for t in split.texts)
        if d.multi_label:
            assert split.labels.shape == (n, k) and set(np.unique(split.labels)) <= {0.0, 1.0}
        else:
            assert split.labels.min() >= 0 and split.labels.max() < k
        assert all(len(column) == n for column in split.extra.values())
        if split is not d.test or d.name != "imdb":
            seen += split.rows.tolist()
    assert len(set(seen)) == len(seen)  # no row is in two splits (IMDB counts its two halves each from 1)
    for line in [*d.report.lines(), *data.sample_rows(d.train)]:
        assert line.isprintable() and line.encode("utf-8")
    return d


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


# Bytes that reach deep: a good header, cells and ends of lines out of which broken files are made.
SCRAPS = st.sampled_from([b"text,label\n", b"text;label\n", b"text\tlabel\n", b"label,text,split\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff",
                          b'"', b'""', b",", b";", b"\t", b"\n", b"\r", b"\r\n", b"\0", b"|", b" ", b"good,pos\n", b"bad,neg\n",
                          b"train", b"test", b"val", b"1", b"1.0", b"01", b"nan", b"\xe9", b"\xc3\xa9", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80",
                          "\u2028\u0085\u200b".encode(), b"\x1b[31m", b"x" * 300, b"\\"]) | st.binary(max_size=6)
FILES = st.binary(max_size=300) | st.lists(SCRAPS, max_size=60).map(b"".join)
GOOD = b"".join(b"film %d,%s\n" % (i, (b"pos", b"neg")[i % 2]) for i in range(12))


@FUZZ
@given(FILES, st.sampled_from([b"", b"text,label\n", b"text,label\n" + GOOD]), st.sampled_from(["a.csv", "a.tsv"]), st.booleans())
def test_any_bytes_as_csv_or_tsv(tmp_path, content, start, name, multi_label):
    check(put(tmp_path, name, start + content), multi_label=multi_label)


@FUZZ
@given(st.lists(st.tuples(st.text(max_size=12), st.sampled_from(["a", "b", "A", "a|b", ""]) | st.text(max_size=4)), max_size=25),
       st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), st.booleans())
def test_any_text_well_quoted_comes_back_whole(tmp_path, rows, sep, end, encoding, multi_label):
    """Not only no crash: with proper quoting every text that is not blank is among the rows, unchanged."""
    quote = lambda cell: '"' + cell.replace('"', '""') + '"'
    lines = [sep.join(map(quote, row)) for row in [("text", "label"), *rows, *((f"film {i}", "ab"[i % 2]) for i in range(20))]]
    d = check(put(tmp_path, "a.csv", end.join(lines).encode(encoding, "replace")), multi_label=multi_label)
    if d is not None:
        got = sorted(t for s in (d.train, d.val, d.test) for t in s.texts)
        assert got == sorted([t for t, _ in rows if t.strip()] + [f"film {i}" for i in range(20)])


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["a", "b", "\ud800"]),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "label", "x"]), inner, max_size=3),
                    max_leaves=6)


@FUZZ
@given(st.lists(JSON | st.fixed_dictionaries({"text": JSON, "label": JSON}), max_size=12), st.booleans(), st.booleans())
def test_any_json_as_jsonl(tmp_path, values, good_rows, multi_label):
    lines = [json.dumps({"text": f"film {i}", "label": "ab"[i % 2]}) for i in range(20 * good_rows)] + [json.dumps(v) for v in values]
    check(put(tmp_path, "a.jsonl", "\n".join(lines).encode("utf-8", "surrogatepass")), multi_label=multi_label)


@FUZZ
@given(FILES, st.booleans())
def test_any_bytes_as_jsonl(tmp_path, content, good_rows):
    start = b"".join(b'{"text": "film %d", "label": %d}\n' % (i, i % 2) for i in range(20 * good_rows))
    check(put(tmp_path, "a.jsonl", start + content))


def _archive():
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for split in ("train", "test"):
            for label in ("pos", "neg"):
                for i in range(4):
                    info = tarfile.TarInfo(f"aclImdb/{split}/{label}/{i}_5.txt")
                    text = f"{split} {label} {i}".encode()
                    info.size = len(text)
                    if i == 0:
                        info.pax_headers = {"comment": "x", "GNU.sparse.major": "1"} if label == "pos" else {"comment": "\u00e9"}
                    archive.addfile(info, io.BytesIO(text))
    return raw.getvalue()


TAR = _archive()


@FUZZ
@given(st.lists(st.tuples(st.integers(0, len(TAR) - 1), st.binary(min_size=1, max_size=12)), max_size=6), st.integers(0, len(TAR)),
       st.booleans())
@example([], len(TAR), False)
def test_any_damage_to_an_archive(tmp_path, edits, length, fix_checksums):
    """Bytes of the tar inside an intact gzip are changed; half of the time the headers' checksums are made to fit."""
    raw = bytearray(TAR)
    for at, patch in edits:
        raw[at:at + len(patch)] = patch
    if fix_checksums:
        for at in range(0, len(raw) - 511, 512):
            block = raw[at:at + 512]
            if block[257:262] == b"ustar":
                total = sum(block[:148]) + 8 * 32 + sum(block[156:])
                raw[at + 148:at + 156] = b"%06o\0 " % (total & 0o777777)
    check(put(tmp_path, "a.tar.gz", gzip.compress(bytes(raw[:length] if length < len(TAR) * 0.9 else raw), 1)), seed=0)


@FUZZ
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_as_an_archive(tmp_path, content, zipped):
    check(put(tmp_path, "a.tar.gz", gzip.compress(content, 1) if zipped else content))


@FUZZ
@given(st.lists(st.sampled_from(["0", "1", "1.0", "true", "2", "", "x", " 1 "]), min_size=20, max_size=60))
def test_any_cells_as_0_1_columns(tmp_path, cells):
    rows = [f"film {i},{a},{b}" for i, (a, b) in enumerate(zip(cells[::2], cells[1::2]))]
    check(put(tmp_path, "a.csv", "\n".join(["text,x,y", *rows]).encode()), label_col="x,y", multi_label=True)


@FUZZ
@given(FILES, FILES)
def test_any_pair_of_files_in_a_folder(tmp_path, train, test):
    put(tmp_path, "train.csv", b"text,label\n" + GOOD + train)
    put(tmp_path, "test.csv", b"text,label\n" + test)
    try:
        d = data.load_data(tmp_path)
    except UserError:
        return
    assert set(np.unique(d.test.labels)) <= set(range(len(d.labels)))


# ------------------------------------------------------------------------------------------------ sizes

def test_a_cell_of_200_megabytes_is_refused_without_being_read_whole(tmp_path):
    import resource
    for name, start in (("a.csv", b'text,label\n"'), ("b.csv", b"text,label\n"), ("c.tsv", b"text\tlabel\n"),
                        ("d.jsonl", b'{"text": "a", "label": "b"}\n{"text": "')):
        path = tmp_path / name
        with open(path, "wb") as f:
            f.write(start)
            for _ in range(200):
                f.write(b"word " * 200_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(UserError, match="10,000,000 characters"):
            data.load_data(path)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000  # kB
        path.unlink()


def test_a_million_short_rows(tmp_path):
    from minibert.tokenization import train_wordpiece
    n = 1_000_000
    path = tmp_path / "a.csv"
    with open(path, "w") as f:
        f.write("text,label\n")
        f.writelines(f"word {i % 977} {i},{i % 2}\n" for i in range(n))
    table = sources.read_table(path, ["text"], ["label"])
    assert len(table) == n and table.lines[-1] == n + 1
    tokenizer = train_wordpiece(table.columns["text"][:2000], vocab_size=100)

    class Quick:  # the store's own cost, without the tokenizer's
        vocab_size = tokenizer.vocab_size

        def ids(self, texts):
            return [np.array([5, len(t)], dtype=np.int32) for t in texts]
    store = data._tokenize(Quick(), table.columns["text"], quiet=True)
    assert len(store) == n and store.ids.nbytes == 4 * n
    batches = data.length_buckets(store.lengths, 32, 0, 0)
    assert len(batches) == n // 32 and np.bincount(np.concatenate(batches)).tolist() == [1] * n


def test_more_labels_than_memory_is_a_sentence(tmp_path, monkeypatch):
    from minibert import label_names
    monkeypatch.setattr(label_names, "MAX_MATRIX", 100)
    path = put(tmp_path, "a.csv", ("text,label\n" + "".join(f"t{i},l{i}|m\n" for i in range(50))).encode())
    with pytest.raises(UserError, match="50 rows with 51 different labels"):
        data.load_data(path, multi_label=True)
    assert imdb.MAX_UNPACKED <= 1 << 30
