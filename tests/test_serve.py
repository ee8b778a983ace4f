"""The server: what it answers, and that no client, however slow, broken or hostile, stops it from answering the others.

`MINIBERT_HOSTILE=10000 python -m pytest tests/test_serve.py -k hostile` runs the long form of the last test.
"""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import serve
from minibert import attention
from minibert.batcher import Batcher, ClientGone, Item, Job, Overloaded, TooMuch, choose_batch
from minibert.predictor import Predictor, Window
from test_predictor import TEXTS, make_parts, make_run

ROOT = Path(__file__).resolve().parent.parent
JSON = {"Content-Type": "application/json"}


# ---- two ways to run it --------------------------------------------------------------------------------------

class RunningServer:
    """serve.py as users start it: a process of its own."""

    def __init__(self, run, *flags):
        self.process = subprocess.Popen([sys.executable, "serve.py", str(run), "--port", "0", *flags], cwd=ROOT, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.log = []
        self._reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True)
        self._reader.start()
        ready = self.process.stdout.readline()
        assert "http://" in ready, f"{ready!r} {self.process.wait(10)} {self.log}"
        self.url = re.search(r"http://\S+", ready)[0]
        self.port = int(self.url.rstrip("/").rsplit(":", 1)[1])

    def predict(self, text):
        return post(self.port, {"texts": [text]})[2]["predictions"][0]

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(30)
        self._reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


@contextlib.contextmanager
def local_server(predictor, **flags):
    """The same parts in this process, where a test can look inside. Yields the service; `.port`, `.server`."""
    flags = serve.Flags(port=0, **{"quiet": True, **flags})
    flags.check()
    if flags.batch_tokens:
        predictor.batch_tokens = flags.batch_tokens
    service = serve.Service(predictor, flags)
    server = serve.bind(flags, lambda: service)
    service.connections = lambda: server.connections
    server.server_activate()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    service.server, service.port = server, server.server_address[1]
    try:
        yield service
    finally:
        server.stop(5)
        service.batcher.stop(5)
        thread.join(5)


class Client:
    """A socket with just enough HTTP to see what really comes back."""

    def __init__(self, port, timeout=15):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))

    def response(self, head=False):
        """(status, headers, body), or None where the server has closed."""
        line = self.file.readline()
        if not line:
            return None
        assert re.fullmatch(rb"HTTP/1\.1 \d\d\d [A-Za-z -]+\r\n", line), line
        headers = {}
        while (header := self.file.readline()) != b"\r\n":
            name, _, value = header.decode("ascii").partition(":")
            headers[name.lower()] = value.strip()
        body = b"" if head else self.file.read(int(headers.get("content-length", 0)))
        return int(line.split()[1]), headers, body

    def closed(self):
        return self.file.read(1) == b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()


def post(port, value, path="/predict", headers=JSON):
    """(status, headers, JSON) of one POST; `value` is JSON-encoded unless it is bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", path, value if isinstance(value, bytes) else json.dumps(value), headers)
        response = connection.getresponse()
        return response.status, response.headers, json.loads(response.read())
    finally:
        connection.close()


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
        return response.headers, response.read()


def request_text(body='{"texts": ["funny"]}', method="POST", path="/predict", length=None, extra="", content_type="application/json"):
    length = len(body) if length is None else length
    return (f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{extra}\r\n{body}")


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    return Predictor(make_run(tmp_path_factory.mktemp("serve") / "run"))


@pytest.fixture(scope="module")
def shared(predictor):
    with local_server(predictor) as service:
        yield service


class Gate:
    """A predictor whose model waits at a gate, so that a test decides what is in the queue."""

    def __init__(self, predictor):
        self._predictor = predictor
        self.open = threading.Event()
        self.inside = threading.Semaphore(0)  # released once for each forward that has begun
        self.batches = []

    def __getattr__(self, name):
        return getattr(self._predictor, name)

    def forward(self, windows):
        self.batches.append(len(windows))
        self.inside.release()
        assert self.open.wait(30)
        return self._predictor.forward(windows)


def settles(condition, seconds=15):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "did not settle"
        time.sleep(0.02)


# ---- answers -------------------------------------------------------------------------------------------------

def test_predictions_come_in_order_and_equal_the_predictors(shared, predictor):
    status, headers, answer = post(shared.port, {"texts": TEXTS})
    assert status == 200 and headers["Content-Type"] == "application/json"
    for got, expected in zip(answer["predictions"], predictor.predict(TEXTS), strict=True):
        assert got["label"] == expected["label"] and got["scores"] == pytest.approx(expected["scores"], abs=1e-5)
    assert post(shared.port, {"texts": "funny"})[2]["predictions"][0]["scores"] == pytest.approx(predictor.predict(["funny"])[0]["scores"], abs=1e-5)


def test_the_same_answer_alone_and_in_company(shared, predictor):
    """Sixteen threads, texts of all lengths at once: S9's shared tokenizer, and batches made across connections."""
    texts = [("the plot was dull " * (1 + i % 9))[:5 + 11 * i % 90] + str(i) for i in range(96)]
    expected = predictor.probabilities(texts)
    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda text: post(shared.port, {"texts": [text]})[2]["predictions"][0]["scores"]["pos"], texts))
    np.testing.assert_allclose(got, expected[:, 1], atol=1e-5)


def test_requests_that_wait_share_a_batch(predictor):
    gate = Gate(predictor)
    with local_server(gate) as service, ThreadPoolExecutor(16) as pool:
        first = pool.submit(post, service.port, {"texts": ["funny"]})
        assert gate.inside.acquire(timeout=10)
        others = [pool.submit(post, service.port, {"texts": ["dull", "not good"]}) for _ in range(7)]
        settles(lambda: service.batcher.depth[0] == 7)
        gate.open.set()
        assert [f.result()[0] for f in [first, *others]] == [200] * 8
        assert gate.batches == [1, 14]


def test_multi_label_and_pairs(tmp_path):
    labels = ("acting", "plot", "music")
    with local_server(Predictor(make_run(tmp_path / "multi", labels, True, thresholds=dict.fromkeys(labels, 0.0)))) as service:
        answer = post(service.port, {"texts": ["funny"]})[2]["predictions"][0]
        assert answer["labels"] == list(labels) and set(answer) == {"labels", "scores", "thresholds"}
    pairs = Predictor(make_run(tmp_path / "pairs", text_col=["a", "b"]))
    with local_server(pairs) as service:
        answer = post(service.port, {"texts": [["funny", "dull"], ["dull", "funny"]]})[2]["predictions"]
        assert [a["scores"] for a in answer] == [pytest.approx(e["scores"], abs=1e-5) for e in pairs.predict(["funny", "dull"], ["dull", "funny"])]
        for bad in ("funny", ["funny", "dull"], [["funny"]], [["a", "b", "c"]], [["a", 1]]):
            status, _, answer = post(service.port, {"texts": bad})
            assert status == 400 and "pair" in answer["error"], bad
        assert len(post(service.port, {"text": ["the plot", "was dull"]}, "/explain")[2]["tokens"]) == 7


def test_long_documents_are_pooled_as_in_the_predictor(tmp_path):
    predictor = Predictor(make_run(tmp_path / "run", truncate="chunk", max_len=12, pooling="weighted"))
    texts = ["the plot was dull but the acting saved it " * n for n in (1, 5, 3)]
    with local_server(predictor) as service:
        answers = post(service.port, {"texts": texts})[2]["predictions"]
    np.testing.assert_allclose([a["scores"]["pos"] for a in answers], predictor.probabilities(texts)[:, 1], atol=1e-5)


def test_explain_measures_each_token_and_shows_every_head(shared, predictor):
    text = "the plot was dull"
    status, _, answer = post(shared.port, {"text": text}, "/explain")
    assert status == 200
    direct = attention.explain(predictor, text)
    assert answer["tokens"] == ["[CLS]", "the", "plot", "was", "dull", "[SEP]"] and answer["label"] == direct["label"]
    np.testing.assert_allclose(answer["effect"], direct["effect"], atol=1e-5)
    np.testing.assert_allclose(np.sum(answer["attention"], axis=-1), np.ones((2, 2)), atol=1e-5)
    p = predictor.probabilities(["the plot was dull", "the was dull"])[:, predictor.labels.index(answer["label"])]
    assert answer["effect"][2] == pytest.approx(p[0] - p[1], abs=1e-5)


def test_explain_is_cut_and_shares_the_queue(predictor):
    gate = Gate(predictor)
    gate.open.set()
    with local_server(gate, explain_tokens=16, batch_tokens=48) as service:
        answer = post(service.port, {"text": "dull funny " * 30}, "/explain")[2]
        assert len(answer["tokens"]) == 16 and answer["cut"] is True
        assert sum(gate.batches) == 1 + 15 and max(gate.batches) <= 3  # the text, then itself and 14 occlusions, never over budget


def test_outputs_need_no_gradient_in_any_thread(predictor, shared):
    seen = []
    hook = predictor.classifier.register_forward_hook(lambda module, args, output: seen.append((output.requires_grad, threading.current_thread().name)))
    try:
        post(shared.port, {"texts": ["funny"]})
        post(shared.port, {"text": "funny"}, "/explain")
    finally:
        hook.remove()
    assert seen and set(seen) == {(False, "model")}


# ---- what is refused -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("body, status, says", [
    (b"", 400, "not valid JSON"),
    (b"{", 400, "not valid JSON"),
    (b"[]", 400, "must be a JSON object"),
    (b"null", 400, "must be a JSON object"),
    (b'{"texts": ["\xff"]}', 400, "not UTF-8 (at byte 12)"),
    (b'{"texts": ["a"], "texts": ["b"]}', 400, "'texts' stands there twice"),
    (b'{"texts": [NaN]}', 400, "NaN is no JSON number"),
    (b'{"texts": 1' + b"0" * 5000 + b"}", 400, "not valid JSON"),
    (b"[" * 200_000, 400, "nested too deeply"),
    ({}, 400, "'texts' is missing"),
    ({"text": "a"}, 400, "'texts' is missing"),
    ({"texts": ["a"], "txts": 1}, 400, "did you mean 'texts'"),
    ({"texts": []}, 400, "at least one"),
    ({"texts": None}, 400, "at least one"),
    ({"texts": 3}, 400, "at least one"),
    ({"texts": {"a": "b"}}, 400, "at least one"),
    ({"texts": ["a", 1]}, 400, "'texts[1]' is not a string"),
    ({"texts": ["a", None]}, 400, "'texts[1]'"),
    ({"texts": [True]}, 400, "'texts[0]'"),
    ({"texts": [["a", "b"]]}, 400, "'texts[0]'"),
    ({"texts": ["a"] * 129}, 400, "129 items; this server takes at most 128"),
    ({"texts": ["a", "b" * 20_001]}, 400, "'texts[1]' has 20001 characters"),
    ({"texts": ["b" * 3_000_000]}, 413, "at most 2097152"),
])
def test_bodies_that_are_refused(shared, body, status, says):
    got, _, answer = post(shared.port, body)
    assert got == status and says in answer["error"] and list(answer) == ["error"]


@pytest.mark.parametrize("headers, status", [
    ({"Content-Type": "application/json; charset=utf-8"}, 200), ({"Content-Type": 'Application/JSON;charset="UTF-8"'}, 200),
    ({"Content-Type": "application/json; charset=latin-1"}, 415), ({"Content-Type": "text/plain"}, 415), ({}, 415),
    ({"Content-Type": "multipart/form-data; boundary=x"}, 415), ({**JSON, "Content-Encoding": "gzip"}, 415),
    ({**JSON, "Expect": "something"}, 417),
])
def test_content_types(shared, headers, status):
    assert post(shared.port, {"texts": ["funny"]}, headers=headers)[0] == status


@pytest.mark.parametrize("text", ["", "   ", "\x00\u200b", "\ud800 half a pair", "日本語 😃" * 50, "w" * 20_000, "</script>\u2028"])
def test_awkward_texts_are_answered_in_ascii(shared, text):
    with Client(shared.port) as client:
        for path, value in (("/predict", {"texts": [text]}), ("/explain", {"text": text})):
            client.send(request_text(json.dumps(value), path=path))
            status, _, body = client.response()
            assert status == 200 and body.isascii()
            json.loads(body, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_a_model_that_yields_nan_is_a_500_in_json_and_the_server_lives():
    classifier, tokenizer = make_parts()
    predictor = Predictor.from_parts(classifier, tokenizer)
    with local_server(predictor) as service:
        with torch.no_grad():
            saved = classifier.head.classifier.weight.clone()
            classifier.head.classifier.weight.fill_(float("nan"))
        for path, value in (("/predict", {"texts": ["a"]}), ("/explain", {"text": "a"})):
            status, _, answer = post(service.port, value, path)
            assert status == 500 and "not finite" in answer["error"]
        with torch.no_grad():
            classifier.head.classifier.weight.copy_(saved)
        assert post(service.port, {"texts": ["a"]})[0] == 200


def test_our_own_fault_is_a_500_and_logged(predictor, capsys):
    gate = Gate(predictor)
    gate.to_probabilities = lambda logits: 1 / 0
    gate.open.set()
    with local_server(gate) as service:
        status, _, answer = post(service.port, {"texts": ["a secret text"]})
        assert status == 500 and "has logged why" in answer["error"]
    assert "ZeroDivisionError" in (logged := capsys.readouterr().err) and "secret" not in logged


# ---- HTTP ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("request_, status", [
    (request_text(path="/nothing"), 404),
    (request_text(method="PUT"), 405),
    (request_text(path="/health"), 405),
    (request_text(content_type="text/plain"), 415),
    (request_text(body="x" * 60_000), 400),
    (request_text(body="x" * 3_000_000), 413),
    (request_text(body="x" * 100_000, path="/nothing"), 404),
    (request_text(method="GET", path="/health"), 200),
    (request_text(method="OPTIONS"), 204),
], ids=lambda v: v if isinstance(v, int) else None)
def test_an_unread_body_never_becomes_the_next_request(shared, request_, status):
    with Client(shared.port) as client:
        client.send(request_)
        got, headers, body = client.response()
        assert got == status
        if status >= 400:
            assert list(json.loads(body)) == ["error"]
        if headers.get("connection") == "close":
            assert client.closed()
        else:
            client.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.response()[0] == 200


@pytest.mark.parametrize("head, status", [
    ("Transfer-Encoding: chunked\r\n", 411),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
    ("Transfer-Encoding: identity\r\n", 411),
    ("", 411),
    ("Content-Length: -1\r\n", 400), ("Content-Length: +5\r\n", 400), ("Content-Length: 5x\r\n", 400), ("Content-Length: 0x5\r\n", 400),
    ("Content-Length: 5, 5\r\n", 400), ("Content-Length: 5\r\nContent-Length: 5\r\n", 400), ("Content-Length:\r\n", 400),
    ("Content-Length: 99999999999999999999999\r\n", 400), ("Content-Length: 999999999999\r\n", 413), ("Content-Length: \xb2\r\n", 400),
    ("Content-Length : 5\r\n", 400), ("X: a\rContent-Length: 5\r\n", 400), ("no colon\r\nContent-Length: 5\r\n", 400),
    ("X: a\r\n folded\r\nContent-Length: 5\r\n", 400), ("X: a\x00b\r\nContent-Length: 5\r\n", 400), ("Host: y\r\nContent-Length: 5\r\n", 400),
    ("X: y\r\n" * 150, 431), ("X: " + "y" * 70_000 + "\r\n", 431),
])
def test_framing_that_cannot_be_trusted_is_refused_and_closed(shared, head, status):
    with Client(shared.port) as client:
        client.send(f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{head}\r\n5\r\nhello\r\n0\r\n\r\n")
        got, headers, body = client.response()
        assert got == status and headers["connection"] == "close" and json.loads(body)["error"]
        assert client.closed()


@pytest.mark.parametrize("line, status", [
    ("GET /" + "x" * 70_000 + " HTTP/1.1", 414), ("GET /health HTTP/2.0", 400), ("GET /health HTTP/1", 400), ("GET /health FTP/1.1", 400),
    ("GET /health", 400), ("GET", 400), ("\x16\x03\x01\x02\x00\x01", 400), ("GET /health HTTP/1.1 more", 400), ("GET  HTTP/1.1", 400),
    ("GET\x0b/health\x0bHTTP/1.1", 400), ("GET\xa0/health HTTP/1.1", 400),
    ("GET\t/health HTTP/1.1", 400), ("GET  /health HTTP/1.1", 400), ("GET /health HTTP/1.1 ", 400), (" GET /health HTTP/1.1", 400), ("GET /hea\x00lth HTTP/1.1", 400),
    ("GE(T /health HTTP/1.1", 400), ("GET /\xe9 HTTP/1.1", 400), ("GET /health HTTP/0.8", 400), ("GET /health HTTP/01.1", 400), ("GET /health HTTP/1.10", 400),
    ("FROB /health HTTP/1.1", 405), ("get /health HTTP/1.1", 405), ("GET /health?x=1 HTTP/1.1", 200), ("GET http://example.org/health HTTP/1.1", 200),
    ("GET //health HTTP/1.1", 200), ("GET /health/ HTTP/1.1", 404), ("GET /%68ealth HTTP/1.1", 404), ("GET /../serve.py HTTP/1.1", 404),
    ("GET /health HTTP/1.7", 200),
])
def test_request_lines(shared, line, status):
    with Client(shared.port) as client:
        client.send(line + "\r\nHost: x\r\n\r\n")
        got, headers, body = client.response()
        assert got == status
        assert json.loads(body).get("error") if status >= 400 else True


def test_http_1_0_and_keep_alive(shared):
    with Client(shared.port) as client:
        client.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert client.response()[1]["connection"] == "keep-alive"
        client.send("GET /health HTTP/1.0\r\n\r\n")
        assert client.response()[1]["connection"] == "close" and client.closed()
    with Client(shared.port) as client:  # HTTP/1.1 keeps open unless asked to close; an empty line between is forgiven
        client.send(request_text() + "\r\n" + request_text())
        assert [client.response()[0], client.response()[0]] == [200, 200]
        client.send(request_text(extra="Connection: close\r\n"))
        assert client.response()[1]["connection"] == "close" and client.closed()


def test_pipelined_requests_are_answered_in_order(shared):
    with Client(shared.port) as client:
        client.send(request_text('{"texts": ["a"]}') + request_text(path="/nothing") + request_text(method="GET", path="/health") + request_text("{"))
        assert [client.response()[0] for _ in range(4)] == [200, 404, 200, 400]


def test_the_connection_header_is_a_list_and_may_come_in_lines(shared):
    for version, value, open_ in (("1.1", "TE, close", False), ("1.1", "Close , TE", False), ("1.1", "keep-alive\r\nConnection: close", False),
                                  ("1.1", "Upgrade, closed", True), ("1.0", "TE, Keep-Alive", True), ("1.0", "TE", False)):
        with Client(shared.port) as client:
            client.send(f"GET /health HTTP/{version}\r\nHost: x\r\nConnection: {value}\r\n\r\n")
            assert (client.response()[1].get("connection") != "close") == open_, value
            assert open_ or client.closed()


@pytest.mark.parametrize("head, length, status", [
    ("POST /nothing HTTP/1.1\r\nConnection: close\r\n", 3000, 404), ("POST /nothing HTTP/1.0\r\n", 3000, 404),
    ("POST /predict HTTP/1.1\r\nConnection: close\r\nContent-Type: a/b\r\n", 60_000, 415), ("POST /nothing HTTP/1.1\r\n", 200_000, 404),
    ("POST /predict HTTP/1.1\r\nContent-Type: application/json\r\n", 3_000_000, 413),
    ("POST /predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", None, 411), ("POST /pre dict HTTP/1.1\r\n", 3000, 400),
])
def test_a_refusal_reaches_a_client_in_the_middle_of_a_slow_body(shared, head, length, status):
    """Most clients send all of their body before they look for an answer: a reset meanwhile is all they would see."""
    with Client(shared.port) as client:
        client.send(head + "Host: x\r\n" + (f"Content-Length: {length}\r\n\r\n" if length else "\r\n"))
        for _ in range(6):
            time.sleep(0.3)
            client.send(b"x" * ((length or 3000) // 6))
        got, headers, body = client.response()
        assert got == status and headers["connection"] == "close" and json.loads(body)["error"]
        assert client.closed()


def test_expect_100_continue(shared):
    body = '{"texts": ["funny"]}'
    head = f"POST {{}} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {{}}\r\nExpect: 100-continue\r\n\r\n"
    with Client(shared.port) as client:
        client.send(head.format("/predict", len(body)))
        assert client.file.readline() == b"HTTP/1.1 100 Continue\r\n" and client.file.readline() == b"\r\n"
        client.send(body)
        assert client.response()[0] == 200
        client.send(request_text())
        assert client.response()[0] == 200
    for path, length, status in (("/nothing", 20, 404), ("/predict", 3_000_000, 413)):
        with Client(shared.port) as client:  # refused before the body: the client is told at once, and never to send it
            client.send(head.format(path, length))
            assert client.response()[0] == status and client.closed()


def test_methods_head_and_options(shared):
    with Client(shared.port) as client:
        client.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HTTP/1.1\r\nHost: x\r\n\r\nHEAD /predict HTTP/1.1\r\nHost: x\r\n\r\n"
                    "OPTIONS /predict HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: x\r\n\r\nDELETE / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.response()[0] == 200
        status, headers, body = client.response(head=True)
        assert status == 200 and int(headers["content-length"]) == len(shared.page)
        status, headers, _ = client.response(head=True)
        assert status == 405 and headers["allow"] == "OPTIONS, POST"
        status, headers, body = client.response()
        assert status == 204 and headers["allow"] == "OPTIONS, POST" and "content-length" not in headers
        assert not any(name.startswith("access-control") for name in headers)
        assert client.response()[0] == 204
        status, headers, _ = client.response()
        assert status == 405 and headers["allow"] == "GET, HEAD, OPTIONS"


def test_cors_only_where_asked_for(predictor):
    with local_server(predictor, cors_origin="https://example.org") as service, Client(service.port) as client:
        client.send("OPTIONS /predict HTTP/1.1\r\nHost: x\r\n\r\n" + request_text() + request_text("{"))
        headers = client.response()[1]
        assert headers["access-control-allow-origin"] == "https://example.org" and "POST" in headers["access-control-allow-methods"]
        for status in (200, 400):
            answer = client.response()
            assert answer[0] == status and answer[1]["access-control-allow-origin"] == "https://example.org"
    with pytest.raises(ValueError, match="origin"):
        serve.Flags(cors_origin="evil\r\nX: y").check()


def test_every_answer_has_a_date_and_says_little(shared):
    with Client(shared.port) as client:
        client.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /nothing HTTP/1.1\r\nHost: x\r\n\r\nbroken\r\n\r\n")
        for _ in range(3):
            _, headers, _ = client.response()
            assert headers["server"] == "minibert" and re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", headers["date"])
            assert headers["x-content-type-options"] == "nosniff"


# ---- slow and many clients -----------------------------------------------------------------------------------

def test_slow_clients_meet_a_deadline_and_hold_nothing_up(predictor):
    with local_server(predictor, header_seconds=0.6, body_seconds=0.6, idle_seconds=0.6) as service:
        base = threading.active_count()
        slow = [Client(service.port) for _ in range(100)]
        dribble = "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
        for i, client in enumerate(slow):
            client.send({0: "POST /pre", 1: dribble, 2: dribble + '{"te', 3: ""}[i % 4])
        for part in range(3):  # a byte now and then must not extend the deadline
            assert post(service.port, {"texts": ["funny"]})[0] == 200
            for i, client in enumerate(slow):
                with contextlib.suppress(OSError):
                    client.send("x" if i % 4 < 3 else "")
            time.sleep(0.1)
        for i, client in enumerate(slow):
            answer = client.response()
            assert (answer is None) == (i % 4 == 3)  # a silent client is closed without a word
            assert answer is None or answer[0] == 408
            client.__exit__()
        settles(lambda: threading.active_count() <= base and service.server.connections == 0)


def test_an_idle_connection_is_closed(predictor):
    with local_server(predictor, idle_seconds=0.3) as service, Client(service.port) as client:
        client.send(request_text())
        assert client.response()[0] == 200 and client.closed()


def test_two_hundred_connects_at_once_are_all_answered(shared):
    with ThreadPoolExecutor(200) as pool:
        assert set(pool.map(lambda i: post(shared.port, {"texts": [f"text {i}"]})[0], range(200))) == {200}


def test_connections_over_the_cap_get_a_503(predictor):
    gate = Gate(predictor)
    with local_server(gate, max_connections=3) as service, contextlib.ExitStack() as stack:
        busy = [stack.enter_context(Client(service.port)) for _ in range(3)]
        busy[0].send(request_text())
        assert gate.inside.acquire(timeout=30)  # the model is busy with the first: the others wait
        for client in busy[1:]:
            client.send(request_text())
        settles(lambda: service.batcher.depth[0] == 2)
        for _ in range(5):
            with Client(service.port) as extra:
                extra.send(request_text())
                status, headers, body = extra.response()
                assert status == 503 and headers["retry-after"] == "1" and json.loads(body)["error"]
                assert headers["date"].endswith(" GMT") and headers["server"] == "minibert"
        gate.open.set()
        assert [client.response()[0] for client in busy] == [200, 200, 200]


def test_idle_connections_make_room_for_new_ones(predictor):
    with local_server(predictor, max_connections=3) as service, contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(Client(service.port))
        time.sleep(1.1)  # silent for over a second
        assert post(service.port, {"texts": ["funny"]})[0] == 200


def test_a_full_queue_is_an_immediate_503(predictor):
    gate = Gate(predictor)
    tokens = len(predictor.encode(["funny"])[0][0].input_ids)
    with local_server(gate, queue_tokens=max(5, tokens * 4), explain_tokens=5, batch_tokens=tokens) as service, ThreadPoolExecutor(8) as pool:
        running = pool.submit(post, service.port, {"texts": ["funny"]})
        assert gate.inside.acquire(timeout=10)
        waiting = [pool.submit(post, service.port, {"texts": ["funny"] * 2}) for _ in range(2)]
        settles(lambda: service.batcher.depth[0] == 2)
        status, headers, answer = post(service.port, {"texts": ["funny"]})
        assert status == 503 and int(headers["Retry-After"]) >= 1 and "too much to do" in answer["error"]
        assert json.loads(get(service.port, "/health")[1])["queue"] == {"requests": 2, "tokens": tokens * 4}
        gate.open.set()
        assert [f.result()[0] for f in [running, *waiting]] == [200] * 3
        assert post(service.port, {"texts": ["funny"] * 5})[0] == 413  # more than would ever fit
        assert service.batcher.depth == (0, 0)


def test_a_request_that_waits_too_long_is_a_503(predictor):
    gate = Gate(predictor)
    with local_server(gate, answer_seconds=0.3) as service:
        status, headers, answer = post(service.port, {"texts": ["funny"]})
        assert status == 503 and "in time" in answer["error"] and "Retry-After" in headers
        gate.open.set()
        settles(lambda: post(service.port, {"texts": ["funny"]})[0] == 200)


def test_explanations_do_not_pile_up(predictor):
    """Each takes as long as a hundred predictions: those that wait for one may not hold the connections of the others."""
    gate = Gate(predictor)
    with local_server(gate, explain_queue=2) as service, ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(post, service.port, {"text": "funny"}, "/explain")]
        assert gate.inside.acquire(timeout=30)
        waiting += [pool.submit(post, service.port, {"text": "funny"}, "/explain") for _ in range(2)]
        settles(lambda: service.explanations._value == 0)
        status, headers, answer = post(service.port, {"text": "funny"}, "/explain")
        assert status == 503 and int(headers["Retry-After"]) >= 1 and "try again later" in answer["error"]
        gate.open.set()
        assert [f.result()[0] for f in waiting] == [200] * 3
        assert post(service.port, {"text": "funny"}, "/explain")[0] == 200


def test_a_client_that_hangs_up_costs_nothing_more(predictor, capsys):
    gate = Gate(predictor)
    with local_server(gate, quiet=False) as service, ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, service.port, {"texts": ["funny"]})
        assert gate.inside.acquire(timeout=10)
        for hang_up in (lambda s: s.close(), lambda s: (s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)), s.close())):
            client = socket.create_connection(("127.0.0.1", service.port))
            client.sendall(request_text('{"texts": ["dull", "dull", "dull"]}').encode())
            settles(lambda: service.batcher.depth[0] >= 1)
            hang_up(client)
        settles(lambda: service.batcher.depth[0] == 2)
        gate.open.set()
        assert first.result()[0] == 200
        settles(lambda: service.server.connections == 0)
        assert gate.batches == [1]  # the model never saw the others' texts
    log = capsys.readouterr().err
    assert log.count(" 499 ") == 2 and "Traceback" not in log and "dull" not in log


def test_a_thousand_requests_leave_threads_and_memory_as_they_were(predictor):
    def resident():
        return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024

    with local_server(predictor) as service:
        def some(n):
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
            for i in range(n):
                connection.request("POST", "/predict", json.dumps({"texts": [f"funny {i}"]}), JSON)
                assert connection.getresponse().read()
            connection.close()

        some(200)
        threads, memory = threading.active_count(), resident()
        for _ in range(10):
            some(100)
        settles(lambda: threading.active_count() <= threads)
        assert resident() - memory < 20


# ---- the batcher ---------------------------------------------------------------------------------------------

def window(length):
    return Window(np.zeros(length, np.int32), np.zeros(length, np.int8))


def items(*lengths):
    job = Job([window(n) for n in lengths], None, sum(lengths), 0.0, lambda: False)
    return [Item(job, i, n) for i, n in enumerate(lengths)]


@pytest.mark.parametrize("lengths, budget, chosen", [
    ((500, 10, 490, 480, 12), 2000, [500, 490, 480]),       # the oldest, with those of like length
    ((10, 500, 12, 9), 2000, [10, 9, 12]),                  # short ones do not pay for a long one
    ((100, 100, 100, 100), 300, [100, 100, 100]),           # the budget
    ((600, 600), 500, [600]),                               # one always goes
    ((5, 60, 30), 2000, [5, 30, 60]),                       # below a few hundred tokens padding is free
])
def test_choose_batch(lengths, budget, chosen):
    assert [item.length for item in choose_batch(items(*lengths), budget)] == chosen


def lengths_as_logits(windows):
    return np.array([[len(w.input_ids)] for w in windows], dtype=np.float32)


def test_batcher_gives_every_request_its_own_rows():
    batcher = Batcher(lengths_as_logits, batch_tokens=64, queue_tokens=100_000, wait=0.002)
    rng = random.Random(0)
    requests = [[rng.randrange(2, 60) for _ in range(rng.randrange(1, 20))] for _ in range(120)]
    with ThreadPoolExecutor(24) as pool:
        got = list(pool.map(lambda lengths: batcher.submit([window(n) for n in lengths], 30)[:, 0].tolist(), requests))
    assert got == requests
    assert batcher.depth == (0, 0) and batcher.stop(5)


def test_one_requests_fault_is_not_its_neighbours():
    started, go = threading.Event(), threading.Event()

    def forward(windows):
        started.set()
        go.wait(10)
        if any(len(w.input_ids) == 13 for w in windows):
            raise FloatingPointError("unlucky")
        return lengths_as_logits(windows)

    batcher = Batcher(forward, 4096, 100_000, 0.0)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(batcher.submit, [window(2)], 10)
        assert started.wait(10)
        others = [pool.submit(batcher.submit, [window(n)], 10) for n in (12, 13, 14)]
        settles(lambda: batcher.depth[0] == 3)
        go.set()
        assert first.result().tolist() == [[2.0]] and others[0].result().tolist() == [[12.0]] and others[2].result().tolist() == [[14.0]]
        with pytest.raises(FloatingPointError, match="unlucky"):
            others[1].result()
    batcher.stop(5)


def test_a_stopped_batcher_finishes_what_waits_and_takes_no_more():
    go = threading.Event()
    batcher = Batcher(lambda windows: (go.wait(10), lengths_as_logits(windows))[1], 4, 1000, 0.0)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(batcher.submit, [window(3)], 10) for _ in range(3)]
        settles(lambda: batcher.depth[0] == 2)
        assert not batcher.stop(0.05)
        with pytest.raises(Overloaded, match="stopping"):
            batcher.submit([window(2)], 1)
        go.set()
        assert [f.result().tolist() for f in waiting] == [[[3.0]]] * 3
    assert batcher.stop(5)


def test_the_gone_and_the_late_are_not_computed():
    seen, go = [], threading.Event()
    batcher = Batcher(lambda windows: (seen.append(len(windows)), go.wait(10), lengths_as_logits(windows))[2], 100, 1000, 0.0)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(batcher.submit, [window(3)], 10)
        settles(lambda: seen == [1])
        late = pool.submit(batcher.submit, [window(3)] * 5, 0.1)
        gone = pool.submit(batcher.submit, [window(3)] * 7, 10, lambda: True)
        with pytest.raises(Overloaded, match="in time"):
            late.result()
        go.set()
        with pytest.raises(ClientGone):
            gone.result()
        assert first.result().tolist() == [[3.0]]
    assert seen == [1] and batcher.depth == (0, 0)
    with pytest.raises(TooMuch, match="1002 tokens"):
        batcher.submit([window(1002)], 1)
    batcher.stop(5)


# ---- health, metrics, log, page ------------------------------------------------------------------------------

def test_health_says_what_is_served_and_every_cap(shared, predictor):
    health = json.loads(get(shared.port, "/health")[1])
    assert health["status"] == "ok" and health["labels"] == ["neg", "pos"] and health["device"] == "cpu" and health["precision"] == "fp32"
    assert health["version"] == serve.minibert.__version__ and health["uptime_seconds"] >= 0 and health["model"] == predictor.name
    caps = {name for name in vars(shared.flags) if name.startswith(("max_", "queue_", "batch_", "explain_")) or name.endswith("_seconds")}
    assert caps == set(health["limits"]) and health["limits"]["max_texts"] == 128


def test_metrics_are_prometheus_text(predictor):
    with local_server(predictor) as service:
        post(service.port, {"texts": ["funny", "dull funny"]})
        post(service.port, {"texts": []})
        post(service.port, {}, "/some/where/else")
        service.metrics.add("texts_total", 10**11 + 1)  # counters stay exact: a rate is taken from differences
        headers, body = get(service.port, "/metrics")
    text = body.decode()
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    sample = re.compile(r'minibert_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? -?[0-9.e+-]+')
    assert all(line.startswith(("# HELP ", "# TYPE ")) or sample.fullmatch(line) for line in text.splitlines())
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values['minibert_requests_total{route="/predict",code="200"}'] == "1"
    assert values['minibert_requests_total{route="/predict",code="400"}'] == "1"
    assert values['minibert_requests_total{route="other",code="404"}'] == "1"
    assert values["minibert_texts_total"] == str(10**11 + 3) and values["minibert_queue_tokens"] == "0"
    assert float(values["minibert_model_seconds_total"]) > 0 and float(values["minibert_tokens_total"]) >= 6
    assert values['minibert_batch_windows_bucket{le="1"}'] == "0" and values['minibert_batch_windows_bucket{le="2"}'] == "1"
    assert values['minibert_batch_windows_sum'] == "2" and values['minibert_batch_windows_count'] == "1"
    counts = [float(values[k]) for k in values if k.startswith('minibert_request_seconds_bucket{route="/predict"')]
    assert counts == sorted(counts) and counts[-1] == float(values['minibert_request_seconds_count{route="/predict"}']) == 2


def test_the_log_has_a_line_per_request_and_no_text(predictor, capsys):
    with local_server(predictor, quiet=False, log_json=True) as service:
        post(service.port, {"texts": ["my secret diary"]})
        with Client(service.port) as client:
            client.send("GET /my/secret/diary?q=secret HTTP/1.1\r\nHost: x\r\n\r\nsecret secret\r\n\r\n")
            client.response(), client.response()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and not any("secret" in line for line in lines)
    first = json.loads(lines[0])
    assert first["route"] == "/predict" and first["status"] == 200 and first["texts"] == 1 and first["tokens"] > 3 and first["ms"] > 0
    assert [json.loads(line)["status"] for line in lines] == [200, 404, 400]


def test_the_page_is_one_file_under_a_strict_policy(shared):
    headers, page = get(shared.port, "/")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy
    assert policy.count("sha256-") == 2
    text = page.decode("utf-8")
    assert not re.search(r"https?://|//\w+\.\w|@import|url\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    assert not re.search(r"\son\w+=|\sstyle=", text)  # the policy would refuse them


# ---- starting and stopping -----------------------------------------------------------------------------------

def test_sigterm_finishes_what_is_in_flight_and_frees_the_port(tmp_path):
    run = make_run(tmp_path / "run")
    server = RunningServer(run, "--log-json")
    idle, body_to_come = Client(server.port), Client(server.port)
    idle.send(request_text())
    assert idle.response()[0] == 200
    body = '{"texts": ["funny"]}'
    body_to_come.send(request_text(body)[:-len(body)])
    time.sleep(0.3)
    server.process.send_signal(signal.SIGTERM)
    assert idle.closed()
    settles(lambda: connect_refused(server.port))
    body_to_come.send(body)
    status, headers, _ = body_to_come.response()
    assert status == 200 and headers["connection"] == "close"
    server.process.wait(30)  # a second signal would wait for nothing, the log included
    assert server.end() == 0
    assert [json.loads(line)["status"] for line in server.log] == [200, 200]
    with socket.create_server(("127.0.0.1", server.port)):  # the port can be had again at once
        taken = subprocess.run([sys.executable, "serve.py", str(run), "--port", str(server.port)], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert taken.returncode == 2 and "already in use" in taken.stderr and "--port" in taken.stderr and "Traceback" not in taken.stderr


def test_stopping_answers_those_who_are_already_connected(predictor):
    """A request that the system has taken but nobody read: closing the port at once would reset it."""
    with local_server(predictor) as service, contextlib.ExitStack() as stack:
        service.server.shutdown()  # nobody accepts any more
        clients = [stack.enter_context(Client(service.port)) for _ in range(20)]
        for client in clients:
            client.send(request_text())
        stack.enter_context(Client(service.port))  # silent
        assert service.server.stop(10)
        for client in clients:
            status, headers, _ = client.response()
            assert status == 200 and headers["connection"] == "close" and client.closed()


def test_sigterm_while_torch_is_imported_is_a_clean_exit(tmp_path):
    process = subprocess.Popen([sys.executable, "serve.py", str(make_run(tmp_path / "run")), "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    settles(lambda: "numpy" in Path(f"/proc/{process.pid}/maps").read_text(), 60)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == (b"", b"") and process.returncode == 0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@pytest.mark.parametrize("streams", ["<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
def test_a_server_needs_no_standard_streams(tmp_path, streams):
    """Closed ones are not handed to the first socket, which would then receive whatever is written to stderr."""
    port = free_port()
    process = subprocess.Popen(["bash", "-c", f'exec "$@" {streams}', "-", sys.executable, "serve.py", str(make_run(tmp_path / "run")), "--port", str(port)],
                               cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        settles(lambda: process.poll() is not None or not connect_refused(port), 60)
        with Client(port) as client:
            client.send(request_text() + request_text())
            assert [client.response()[0], client.response()[0]] == [200, 200]
        assert not any(os.readlink(f"/proc/{process.pid}/fd/{n}").startswith("socket") for n in (0, 1, 2))
    finally:
        process.terminate()
    assert process.wait(30) == 0


def test_a_log_that_nobody_reads_stops_no_request_and_no_stop(tmp_path):
    read, write = os.pipe()  # a pipe that is full blocks whoever writes to it
    port = free_port()
    process = subprocess.Popen([sys.executable, "serve.py", str(make_run(tmp_path / "run")), "--port", str(port), "--shutdown-seconds", "1"],
                               cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=write, stdout=subprocess.DEVNULL)
    try:
        settles(lambda: process.poll() is not None or not connect_refused(port), 60)
        os.set_blocking(write, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write, b"x" * 4096)
        os.set_blocking(write, True)
        for _ in range(3):
            with Client(port) as client:
                client.send(request_text() * 2)
                assert client.response()[0] == 200  # the first of them sticks at its log line; the others do without
        with Client(port) as client:
            client.send(request_text() * 3)
            assert [client.response()[0] for _ in range(3)] == [200] * 3
    finally:
        process.terminate()
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()
            os.close(read), os.close(write)


def connect_refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return True
    return False


def test_sigterm_does_not_wait_for_ever(tmp_path):
    server = RunningServer(make_run(tmp_path / "run"), "--shutdown-seconds", "0.5", "--quiet")
    with Client(server.port) as stuck:
        stuck.send(request_text(length=100))  # the rest of the body never comes
        time.sleep(0.3)
        start = time.monotonic()
        assert server.end() == 0
        assert time.monotonic() - start < 15
    assert any("stopped before" in line for line in server.log)


def test_a_second_sigterm_waits_for_nobody(tmp_path):
    server = RunningServer(make_run(tmp_path / "run"), "--shutdown-seconds", "500")
    with Client(server.port) as stuck:
        stuck.send(request_text(length=100))
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        settles(lambda: connect_refused(server.port))
        assert server.process.poll() is None  # it waits for the request in flight …
        assert server.end() == 0  # … until asked again


@pytest.mark.parametrize("argv, says", [
    (["--port", "70000"], "65535"), (["--max-texts", "0"], "--max-texts"), (["--host", "no.such.host.invalid"], "no address"),
    (["--prot", "1"], "did you mean '--port'"), (["--cors-origin", "x y"], "origin"), (["--explain-tokens", "1"], "--explain-tokens"),
    (["--max-connections", "900000000"], "ulimit -n"), (["--max-connections", "9" * 20], "--max-connections"), (["--host", ""], "--host is empty"),
    (["--host", "a..b"], "no address"), (["--host", "\xe9" * 80], "no address"), (["--port", "-1"], "from 0 to 65535"), (["--threads", "0"], "--threads"),
    (["--threads", "99999"], "--threads"), (["--batch-tokens", "0"], "--batch-tokens"), (["--max-body-bytes", "9" * 12], "--max-body-bytes"),
    *(([f"--{name}", value], f"--{name} is {value}") for name in ("header-seconds", "body-seconds", "write-seconds", "idle-seconds", "answer-seconds",
                                                               "shutdown-seconds", "batch-wait-ms") for value in ("nan", "inf", "1e+300")),
])
def test_mistakes_on_the_command_line_are_sentences(tmp_path, argv, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        serve.main([str(tmp_path), *argv])


# ---- hostile -------------------------------------------------------------------------------------------------

def hostile_bytes(rng):
    """One connection's worth of trouble: bytes to send, in pieces."""
    good = request_text(json.dumps({"texts": [rng.choice(TEXTS)]})).encode("latin-1", "replace")
    head, _, body = good.partition(b"\r\n\r\n")

    def mutate(data):
        data = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data) + 1)
            data[at:at + rng.randrange(3)] = rng.choice([b"", bytes([rng.randrange(256)]), b"\r\n", b"\x00", b"\r", b":", b" ", b"\xff\xfe", b"%00"])
        return bytes(data)

    kind = rng.randrange(12)
    if kind == 0:
        return [rng.randbytes(rng.randrange(1, 3000))]
    if kind == 1:
        return [mutate(head) + b"\r\n\r\n" + body]
    if kind == 2:
        return [head + b"\r\n\r\n" + mutate(body)]
    if kind == 3:
        headers = b"".join(rng.choice([b"A: b\r\n", b"Content-Length: 7\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"Host: y\r\n",
                                       b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"X" * rng.randrange(9000) + b": y\r\n", b" fold\r\n", b"\x80\r\n"])
                           for _ in range(rng.randrange(1, 12)))
        return [head + b"\r\n" + headers + b"\r\n" + body]
    if kind == 4:
        value = rng.choice([[], {}, None, 1e308, -1, "x", [[]], {"texts": None}, {"texts": [1]}, {"texts": ["a", {}]}, {"texts": ["a"] * 300}, {"text": "a"},
                            {"texts": ["\ud83d"]}, {"texts": [""]}, {"texts": ["\x00"]}, {"texts": ["y" * 30_000]}, [[[["a"]]]] * 50, {"texts": ["a"], "b": 1}])
        text = rng.choice([json.dumps(value), "[" * rng.randrange(50_000), '{"texts":' * 2000, '{"texts":["a"],"texts":["b"]}', "NaN", '{"texts":[1e999]}', "9" * 6000])
        return [request_text(text, path=rng.choice(["/predict", "/explain"])).encode()]
    if kind == 5:  # the length lies
        return [request_text(body.decode("latin-1"), length=rng.choice([0, 1, len(body) - 1, len(body) + 5, 10**9, 10**17])).encode("latin-1")]
    if kind == 6:  # in small pieces, and perhaps not all of it
        cut = rng.randrange(len(good))
        return [good[i:i + 40] for i in range(0, cut, 40)]
    if kind == 7:  # good ones and bad ones on one connection
        return [b"".join(rng.choice([good, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n", mutate(good), b"\r\n"]) for _ in range(rng.randrange(2, 6)))]
    if kind == 8:
        method, path = rng.choice(["GET", "PUT", "PATCH", "TRACE", "CONNECT", "OPTIONS", "HEAD", "\x01", "G" * 300]), rng.choice(["/", "*", "//", "/" + "x" * 5000, "/é", "x"])
        return [f"{method} {path} HTTP/{rng.choice(['1.1', '1.0', '0.9', '2', '1.1.1', '-1', ''])}\r\nHost: x\r\n\r\n".encode()]
    if kind == 9:
        return [b"GET /" + b"a" * rng.choice([60_000, 66_000, 200_000])]
    if kind == 10:
        return [good]  # and hang up at once
    return [request_text(json.dumps({"texts": [("word " * 50) + str(rng.random())] * rng.randrange(1, 60)})).encode()]


def attack(port, seed):
    """Send one connection's trouble and read what comes; the statuses, after checking that each answer is well formed."""
    rng = random.Random(seed)
    statuses = []
    try:
        with Client(port, timeout=20) as client:
            for piece in hostile_bytes(rng):
                client.send(piece)
                if rng.random() < 0.02:
                    time.sleep(0.05)
            how = rng.randrange(4)
            if how == 0:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, mid-way
                return statuses
            if how == 1:
                client.socket.shutdown(socket.SHUT_WR)
            if how == 2:
                client.socket.settimeout(0.3)
            while (answer := client.response()) is not None:
                status, headers, body = answer
                statuses.append(status)
                if status >= 400:
                    assert list(json.loads(body)) == ["error"] or body == b"", body
                assert status != 503 or "retry-after" in headers
    except (OSError, ValueError):  # reset by the server after it closed, or an answer to HEAD taken for one with a body
        pass
    return statuses


def test_hostile_requests_beside_a_normal_client(tmp_path):
    """Fuzzed lines, headers, JSON, bodies, slow senders, hang-ups: no 5xx but 503, no leaked thread, flat memory."""
    count = int(os.environ.get("MINIBERT_HOSTILE", 600))
    run = make_run(tmp_path / "run")
    expected = Predictor(run).predict(TEXTS[:3])
    server = RunningServer(run, "--quiet", "--header-seconds", "2", "--body-seconds", "2", "--idle-seconds", "5", "--log-json")

    def status_of(name):
        return int(re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())[1])

    wrong, asked, stop = [], [0], threading.Event()

    def normal_client():
        while not stop.is_set():
            status, _, answer = post(server.port, {"texts": TEXTS[:3]})
            asked[0] += 1
            if status != 200 or any(a["label"] != e["label"] or abs(a["confidence"] - e["confidence"]) > 1e-5
                                    for a, e in zip(answer["predictions"], expected)):
                wrong.append((status, answer))

    with server:
        normal = threading.Thread(target=normal_client)
        with ThreadPoolExecutor(24) as pool:
            list(pool.map(lambda seed: attack(server.port, seed), range(200)))  # buffers and arenas reach their size
            settles(lambda: json.loads(get(server.port, "/health")[1])["connections"] <= 2, 30)
            threads, memory = status_of("Threads"), status_of("VmRSS")
            normal.start()
            statuses = [s for found in pool.map(lambda seed: attack(server.port, seed), range(1000, 1000 + count)) for s in found]
        stop.set()
        normal.join(30)
        settles(lambda: json.loads(get(server.port, "/health")[1])["connections"] <= 1, 30)
        settles(lambda: status_of("Threads") <= threads, 30)
        grown = (status_of("VmRSS") - memory) / 1024
        metrics = get(server.port, "/metrics")[1].decode()
        assert server.process.poll() is None
    print(f"\n{count} hostile connections: {len(statuses)} answers, {dict(sorted(Counter(statuses).items()))}; {asked[0]} normal "
          f"requests, all right; memory {grown:+.1f} MB")
    assert not wrong and asked[0] > 5, wrong[:3]
    assert statuses.count(200) > count / 20 and statuses.count(400) > count / 20
    assert [s for s in statuses if s >= 500 and s != 503] == []
    assert not re.search(r'code="5(?!03)', metrics)
    assert grown < 40, f"memory grew by {grown:.0f} MB"
    assert server.log == [], server.log[:5]  # no traceback
