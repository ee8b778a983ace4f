"""Names and folders to files, against a stub of the hub on 127.0.0.1.

huggingface_hub reads HF_ENDPOINT and HF_HOME when it is imported, so every load runs in a client process.
"""

import hashlib
import http.server
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from minibert import pretrained
from minibert.cli import UserError

ROOT = Path(__file__).resolve().parent.parent
CONFIG = dict(model_type="bert", vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1,
              intermediate_size=8, max_position_embeddings=16, type_vocab_size=2)
VOCAB = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##c\n"
WEIGHTS = os.urandom(400_000)
OTHER = os.urandom(1000)
BIG = os.urandom(25_000_000)  # huggingface_hub writes 10 MB at a time


def repo(**files):
    """A repository's files by name: config and vocabulary, and what is given (double underscore for a dot)."""
    base = {"config.json": json.dumps(CONFIG), "vocab.txt": VOCAB, "tokenizer_config.json": '{"do_lower_case": true}',
            "README.md": "not needed", "flax_model.msgpack": "not needed", "tf_model.h5": "not needed"}
    named = {k.replace("__", "."): v for k, v in files.items()}
    return {k: v.encode() if isinstance(v, str) else v for k, v in {**base, **named}.items() if v is not None}


class StubHub:
    """The endpoints huggingface_hub uses to fetch a file: HEAD and GET /<repo>/resolve/<revision>/<file>.

    As on the real hub, large files redirect to another host (the "CDN"), which must not see the user's token.
    """

    def __init__(self):
        self.repos = {}          # name → {revision → {file → bytes}}
        self.private = {}        # name → token
        self.gated = set()
        self.log = []            # (server, method, file, Range header, Authorization header)
        self.status = None       # answer everything with this status
        self.cut_after = None    # close the connection once, after so many bytes of a large file
        self.slow = 0.0          # seconds between two pieces of a large file
        self.hub, self.cdn = self._serve("hub"), self._serve("cdn")
        self.url = f"http://127.0.0.1:{self.hub.server_port}"

    def commit(self, name, revision):
        return hashlib.sha1(f"{name} {sorted(self.repos[name]).index(revision)}".encode()).hexdigest()

    def _serve(self, which):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            do_GET = do_HEAD = lambda self: outer.answer(self, which)
            log_message = lambda self, *a: None

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def close(self):
        for server in (self.hub, self.cdn):
            server.shutdown()
            server.server_close()

    def answer(self, h, which):
        name, _, rest = h.path.lstrip("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        token = h.headers.get("Authorization")
        self.log.append((which, h.command, file, h.headers.get("Range"), token))
        if self.status:
            return self.refuse(h, self.status)
        if which == "hub" and name in self.private and token != f"Bearer {self.private[name]}":
            return self.refuse(h, 401)
        if name in self.gated:
            return self.refuse(h, 403, "GatedRepo")
        if name not in self.repos:
            return self.refuse(h, 401)  # the hub does not tell strangers which names exist
        revisions = self.repos[name]
        found = next((r for r in revisions if revision in (r, self.commit(name, r))), None)
        if found is None:
            return self.refuse(h, 404, "RevisionNotFound")
        commit, body = self.commit(name, found), revisions[found].get(file)
        if body is None:
            return self.refuse(h, 404, "EntryNotFound", commit)
        large = len(body) > 10_000
        h_out = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if large and which == "hub":
            h_out |= {"X-Linked-Etag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Linked-Size": str(len(body)),
                      "Location": f"http://127.0.0.1:{self.cdn.server_port}{h.path}", "Content-Length": "0"}
            return self.send(h, 302, h_out, b"")
        h_out["ETag"] = f'"{hashlib.sha1(body).hexdigest()}"'
        status, start = 200, 0
        if h.headers.get("Range"):
            status, start = 206, int(h.headers["Range"].removeprefix("bytes=").split("-")[0])
            h_out["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        h_out["Content-Length"] = str(len(body) - start)
        self.send(h, status, h_out, body[start:] if h.command == "GET" else b"", large)

    def refuse(self, h, status, code=None, commit=None):
        headers = {"Content-Length": "0"} | ({"X-Error-Code": code} if code else {}) | ({"X-Repo-Commit": commit} if commit else {})
        self.send(h, status, headers, b"")

    def send(self, h, status, headers, body, large=False):
        h.send_response(status)
        for key, value in headers.items():
            h.send_header(key, value)
        h.end_headers()
        step = max(20_000, len(body) // 50)
        for at in range(0, len(body), step):
            if large and self.cut_after is not None and at >= self.cut_after:
                self.cut_after = None
                h.close_connection = True
                return h.connection.close()
            try:
                h.wfile.write(body[at:at + step])
                h.wfile.flush()
            except OSError:
                return
            time.sleep(self.slow if large else 0)

    def gets(self, file):
        """The Range headers of the requests that fetched `file`'s content."""
        return [r for which, method, f, r, _ in self.log if method == "GET" and f == file and which == "cdn"]


@pytest.fixture(scope="module")
def stub():
    stub = StubHub()
    yield stub
    stub.close()


@pytest.fixture
def hub(stub):
    """The stub, fresh but for its address: nothing on it, all well."""
    stub.repos, stub.private, stub.gated, stub.log = {}, {}, set(), []
    stub.status, stub.cut_after, stub.slow = None, None, 0.0
    return stub


CLIENT = """
import json, os, sys
from minibert import cli, pretrained

def load(name, revision=None, what="files", quiet=False, token=None):
    os.environ["HF_TOKEN"] = token or ""
    if what == "tokenizer":
        from minibert.tokenization import load_tokenizer
        t = load_tokenizer(name, revision)
        return {"ids": [a.tolist() for a in t.ids(["a ac b"])], "max_tokens": t.max_tokens}
    files = pretrained.resolve(name, revision, quiet)
    return {"folder": str(files.folder), "name": files.name, "config": files.config,
            "weights": [str(w) for w in files.weights], "present": sorted(p.name for p in files.folder.iterdir())}

for line in sys.stdin:
    try:
        answer = load(**json.loads(line))
    except cli.UserError as e:  # anything else ends this process, and the test with it
        answer = str(e)
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def client(stub, tmp_path_factory):
    """Start a client process: huggingface_hub reads its environment once, when it is imported."""
    home, started = tmp_path_factory.mktemp("home"), []

    def start(stderr=subprocess.PIPE, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and "proxy" not in k.lower()}
        process = subprocess.Popen(
            [sys.executable, "-c", CLIENT], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            env={**clean, "HF_ENDPOINT": stub.url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", **env})
        started.append(process)
        return process

    start.home = home
    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def load(client):
    """load(name, …, where="online" | "offline" | "dead line"): the client's answer, or its error sentence."""
    environments = {"online": {}, "offline": {"HF_HUB_OFFLINE": "1"}, "dead line": {"HF_ENDPOINT": "http://127.0.0.1:9"}}
    running = {}

    def ask(name, revision=None, where="online", **kw):
        if where not in running:
            running[where] = client(stderr=None, **environments[where])
        process = running[where]
        process.stdin.write(json.dumps(dict(name=name, revision=revision, **kw)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, "the client died: anything but a UserError is a fault"
        answer = json.loads(line)
        assert isinstance(answer, dict) or ("\n" not in answer and answer.endswith(".")), answer
        return answer
    return ask


def content(answer):
    return [Path(w).read_bytes() for w in answer["weights"]]


# ---------------------------------------------------------------- the hub

def test_first_download_then_cache_then_offline(hub, load):
    hub.repos["org/first"] = {"main": repo(model__safetensors=WEIGHTS, pytorch_model__bin=OTHER)}
    first = load("org/first")
    assert content(first) == [WEIGHTS] and first["config"] == CONFIG
    assert first["weights"][0].endswith("model.safetensors"), "safetensors are preferred"
    assert first["present"] == ["config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"]

    hub.log.clear()
    assert load("org/first") == first
    assert not [entry for entry in hub.log if entry[1] == "GET"], "a cached model is not fetched again"
    assert {entry[2] for entry in hub.log} == {"config.json"}, "one question to the hub: has the branch moved?"

    hub.log.clear()
    assert load("org/first", where="offline") == first
    assert not hub.log
    hub.status = 503  # the hub is down: the cache serves
    assert load("org/first") == first
    assert load("org/first", where="dead line") == first


def test_offline_and_not_cached(hub, load):
    hub.repos["org/uncached"] = {"main": repo(model__safetensors=WEIGHTS)}
    for where, why in (("offline", "HF_HUB_OFFLINE"), ("dead line", "reached")):
        said = load("org/uncached", where=where)
        assert "'org/uncached'" in said and "cached" in said and why in said and "run once with network" in said
    assert "did you mean 'bert-base-uncased'" in load("bert-base-uncasd", where="offline")
    load("org/uncached", what="tokenizer")  # caches the tokenizer, not the weights
    assert "its weights" in load("org/uncached", where="offline")


def test_tokenizer_alone_fetches_no_weights(hub, load):
    hub.repos["org/tokens"] = {"main": repo(model__safetensors=WEIGHTS)}
    assert load("org/tokens", what="tokenizer") == {"ids": [[5, 5, 7, 6]], "max_tokens": 16}
    assert not hub.gets("model.safetensors")


def test_wrong_name_and_private(hub, load):
    said = load("bert-base-uncasd")
    assert "did you mean 'bert-base-uncased'" in said and "log in" in said
    assert "possible name" in load("no such name")

    hub.repos["org/secret"] = {"main": repo(model__safetensors=WEIGHTS)}
    hub.private["org/secret"] = "hf_right"
    assert "HF_TOKEN" in load("org/secret")
    assert "HF_TOKEN" in load("org/secret", token="hf_wrong")
    assert content(load("org/secret", token="hf_right")) == [WEIGHTS]
    assert any(entry[4] for entry in hub.log if entry[0] == "hub")
    assert not [entry for entry in hub.log if entry[0] == "cdn" and entry[4]], \
        "the token belongs to the hub, not to the host it redirects to"

    hub.repos["org/gated"] = hub.repos["org/secret"]
    hub.gated.add("org/gated")
    assert "accept its terms" in load("org/gated", token="hf_right")


@pytest.mark.parametrize("status, word", [(403, "may not read"), (429, "too many requests"), (500, "status 500"), (418, "418"),
                                          (200, "HF_ENDPOINT")])
def test_other_refusals(hub, load, status, word):
    hub.status = status
    said = load("org/refused")
    assert word in said and "'org/refused'" in said


def test_connection_cut_is_resumed(hub, load):
    hub.repos["org/cut"] = {"main": repo(model__safetensors=BIG)}
    hub.cut_after = 15_000_000
    assert content(load("org/cut")) == [BIG]
    assert hub.gets("model.safetensors") == [None, f"bytes={10 * 2**20}-"]


def test_killed_download_is_resumed(hub, client, load):
    hub.repos["org/killed"] = {"main": repo(model__safetensors=BIG)}
    hub.slow = 0.05
    process = client()
    process.stdin.write('{"name": "org/killed"}\n')
    process.stdin.flush()
    partial = lambda: [p for p in client.home.rglob("*.partial") if p.stat().st_size > 0]
    while not partial():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = partial()[0].stat().st_size
    assert 0 < kept < len(BIG)
    hub.slow = 0
    hub.log.clear()
    assert content(load("org/killed")) == [BIG]
    assert hub.gets("model.safetensors") == [f"bytes={kept}-"]
    assert not list(client.home.rglob("*.partial"))


def test_resumed_into_garbage_is_noticed(hub, client, load):
    hub.repos["org/garbage"] = {"main": repo(model__safetensors=WEIGHTS)}
    blobs = client.home / "hub/models--org--garbage/blobs"
    blobs.mkdir(parents=True)
    part = blobs / (hashlib.sha256(WEIGHTS).hexdigest() + ".partial")
    part.write_bytes(b"x" * 1000)
    assert "checksum" in load("org/garbage")
    part.write_bytes(b"x" * (len(WEIGHTS) + 5))  # longer than the file: begun again
    assert content(load("org/garbage")) == [WEIGHTS]


def test_sharded_weights(hub, load):
    shards = {"model-00001-of-00002.safetensors": os.urandom(20_000), "model-00002-of-00002.safetensors": os.urandom(20_000)}
    index = {"weight_map": {f"w{i}": list(shards)[i % 2] for i in range(4)}}
    files = {**repo(), **shards, "model.safetensors.index.json": json.dumps(index).encode(), "pytorch_model.bin": OTHER}
    hub.repos["org/big"] = {"main": files}
    assert content(load("org/big")) == list(shards.values())
    assert content(load("org/big", where="offline")) == list(shards.values())

    hub.repos["org/half"] = {"main": {k: v for k, v in files.items() if k != "model-00002-of-00002.safetensors"}}
    assert "lacks model-00002-of-00002.safetensors" in load("org/half")

    evil = json.dumps({"weight_map": {"w": "../../../../etc/passwd"}}).encode()
    hub.repos["org/evil"] = {"main": {**repo(), "model.safetensors.index.json": evil}}
    assert "outside" in load("org/evil")


def test_bin_only(hub, load):
    hub.repos["org/old"] = {"main": repo(pytorch_model__bin=WEIGHTS)}
    answer = load("org/old")
    assert content(answer) == [WEIGHTS] and answer["weights"][0].endswith("pytorch_model.bin")
    hub.log.clear()
    load("org/old")
    assert {entry[2] for entry in hub.log} == {"config.json"}, "that there are no safetensors is remembered"


def test_revision(hub, load):
    hub.repos["org/moving"] = {"main": repo(model__safetensors=WEIGHTS), "v1": repo(model__safetensors=OTHER)}
    commit = hub.commit("org/moving", "v1")
    assert content(load("org/moving", "v1")) == [OTHER]
    assert content(load("org/moving")) == [WEIGHTS]
    for where in ("online", "offline"):
        assert content(load("org/moving", commit, where=where)) == [OTHER]
    assert content(load("org/moving", "v1", where="offline")) == [OTHER]
    said = load("org/moving", "v2")
    assert "'v2'" in said and "revision" in said


def test_what_cannot_be_loaded_is_told_before_its_weights(hub, load):
    for family in ("gpt2", "deberta-v2"):
        hub.repos[f"org/{family}"] = {"main": repo(config__json=json.dumps({"model_type": family}), model__safetensors=WEIGHTS)}
        said = load(f"org/{family}")
        assert family in said and "distilbert" in said and "roberta" in said
    assert not hub.gets("model.safetensors")
    hub.repos["org/empty"] = {"main": repo()}
    assert "model.safetensors" in load("org/empty") and "pytorch_model.bin" in load("org/empty")
    hub.repos["org/none"] = {"main": repo(config__json=None)}
    assert "config.json" in load("org/none")
    hub.repos["org/bad"] = {"main": repo(config__json="{")}
    assert "config.json" in load("org/bad")


def test_progress_on_a_terminal_only(hub, client):
    hub.slow = 0.05  # 50 pieces: two and a half seconds

    def shown(name, quiet=False):
        hub.repos[name] = {"main": repo(model__safetensors=BIG + name.encode())}
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 120))
        process = client(stderr=theirs, TERM="xterm")
        os.close(theirs)
        process.stdin.write(json.dumps(dict(name=name, quiet=quiet)) + "\n")
        process.stdin.close()
        seen = b""
        try:
            while chunk := os.read(ours, 65536):
                seen += chunk
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        assert content(json.loads(process.stdout.read())) == [hub.repos[name]["main"]["model.safetensors"]]
        return seen.decode(errors="replace")

    bar = shown("org/bar")
    assert "model.safetensors" in bar and "%" in bar
    assert shown("org/quiet", quiet=True) == ""
    hub.repos["org/pipe"] = {"main": repo(model__safetensors=WEIGHTS)}
    assert client().communicate('{"name": "org/pipe"}\n')[1] == ""


def test_two_at_once(hub, client):
    hub.repos["org/both"] = {"main": repo(model__safetensors=WEIGHTS)}
    hub.slow = 0.05
    both = [client(), client()]
    for process in both:
        process.stdin.write('{"name": "org/both"}\n')
        process.stdin.close()
    assert [content(json.loads(p.stdout.read())) for p in both] == [[WEIGHTS], [WEIGHTS]]


# ---------------------------------------------------------------- folders

def folder(tmp_path, **files):
    for name, body in repo(**files).items():
        (tmp_path / name).write_bytes(body)
    return tmp_path


def test_folder(tmp_path):
    folder(tmp_path, pytorch_model__bin=OTHER)
    files = pretrained.resolve(tmp_path)
    assert files.folder == tmp_path and files.config == CONFIG and files.weights == [tmp_path / "pytorch_model.bin"]
    (tmp_path / "model.safetensors").write_bytes(WEIGHTS)
    assert pretrained.resolve(str(tmp_path)).weights == [tmp_path / "model.safetensors"]
    assert pretrained.resolve(tmp_path, weights=False).weights == []


@pytest.mark.parametrize("files, words", [
    (dict(config__json=None), ["config.json", "model.safetensors", "pytorch_model.bin"]),
    (dict(), ["no weights", "model.safetensors", "pytorch_model.bin"]),
    (dict(config__json="[]"), ["config.json"]),
    (dict(config__json="{"), ["config.json", "JSON"]),
    (dict(config__json='{"model_type": "gpt2"}'), ["gpt2", "distilbert"]),
    (dict(config__json=b"\xff\xfe"), ["config.json"]),
])
def test_folder_that_cannot_be_loaded(tmp_path, files, words):
    folder(tmp_path, **files)
    with pytest.raises(UserError) as e:
        pretrained.resolve(tmp_path)
    assert all(w in str(e.value) for w in words) and str(tmp_path) in str(e.value)


@pytest.mark.parametrize("name", ["./nothing", "/nowhere/at/all", "a/b/c", "tests/nothing", "runs/", "~/nothing-here", "", "a\\b"])
def test_a_path_that_does_not_exist(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(UserError, match="folder"):
        pretrained.resolve(name)


def test_a_file_for_a_folder(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="is a file"):
        pretrained.resolve(tmp_path / "model.safetensors")


@pytest.mark.parametrize("table", [
    {"w": "../x.bin"}, {"w": "/etc/passwd"}, {"w": "a/../../x"}, {"w": "..\\x"}, {"w": ""}, {"w": 3}, {}, [], None, {"w": None}, {"w": "a\0b"}])
def test_index_that_is_damaged_or_evil(tmp_path, table):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": table}))
    with pytest.raises(UserError, match="index"):
        pretrained.shards(path)


def test_shards_of_a_folder(tmp_path):
    folder(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "2.safetensors", "b": "1.safetensors"}}))
    with pytest.raises(UserError, match="1.safetensors"):
        pretrained.resolve(tmp_path)
    for name in ("1.safetensors", "2.safetensors"):
        (tmp_path / name).write_bytes(b"x")
    assert [w.name for w in pretrained.resolve(tmp_path).weights] == ["1.safetensors", "2.safetensors"]


def test_import_is_light():
    code = ("import sys, minibert.pretrained; "
            "assert not {'huggingface_hub', 'torch', 'httpx2'} & set(sys.modules), sorted(sys.modules)")
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
