"""serve.py beside the plain way to put a classifier behind HTTP: Flask's threaded server, one forward per request.

    python tests/benchmarks/serve_load.py RUN_OR_MODEL [--seconds 8] [--rounds 3]

The same model, the same machine, both servers up, asked in turn (A B, B A, …). The clients are sockets in a process of
their own: each sends one short text, waits for the answer, checks it, and sends the next. Figures are medians over the
rounds. Needs Flask (tests/benchmarks/requirements.txt).
"""

import argparse
import json
import multiprocessing
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

TEXTS = ["The plot was dull but the acting saved it.", "A warm and funny film.", "I would not watch this again, not even for the music.",
         "Well acted, badly written.", "It starts slowly and then never lets go of you.", "Two hours that felt like four.",
         "The best thing this year, by far.", "My sister loved it and I did not."]


def flask_server(model: str) -> None:
    """What a tutorial would show, with keep-alive switched on so that it need not connect for each request."""
    import flask
    import torch
    from werkzeug.serving import WSGIRequestHandler

    from minibert import load_classifier, load_tokenizer

    classifier, tokenizer = load_classifier(model).eval(), load_tokenizer(model)
    app = flask.Flask(__name__)
    import logging
    logging.getLogger("werkzeug").setLevel(logging.ERROR)

    @app.post("/predict")
    def predict():
        texts = flask.request.get_json()["texts"]
        with torch.no_grad():
            probabilities = classifier(**tokenizer.batch(texts)).softmax(-1).tolist()
        return {"predictions": [{"label": classifier.labels[max(range(len(p)), key=p.__getitem__)],
                                 "scores": dict(zip(classifier.labels, p))} for p in probabilities]}

    port = free_port()
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    print(f"http://127.0.0.1:{port}/", flush=True)
    app.run("127.0.0.1", port, threaded=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def start(*command: str) -> tuple[subprocess.Popen, int]:
    process = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    port = int(re.search(r"http://[^:]+:(\d+)", process.stdout.readline())[1])
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    return process, port


class Client:
    """One connection that asks, waits and asks again."""

    def __init__(self, port: int, text: str):
        self.port = port
        body = json.dumps({"texts": [text]}).encode()
        self.request = (f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n").encode() + body
        self.socket, self.answers = None, 0

    def ask(self, selector: selectors.BaseSelector) -> None:
        self.began, self.got = time.perf_counter(), b""
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self.port), 30)
            selector.register(self.socket, selectors.EVENT_READ, self)
        self.socket.sendall(self.request)

    def read(self, selector: selectors.BaseSelector) -> bool:
        """Whether the answer is whole; checks it."""
        data = self.socket.recv(65_536)
        self.got += data
        head, gap, body = self.got.partition(b"\r\n\r\n")
        if not data or not gap:
            assert data, f"closed within an answer: {self.got!r}"
            return False
        if len(body) < int(re.search(rb"(?i)content-length: *(\d+)", head)[1]):
            return False
        assert b" 200 " in head and b'"label"' in body, self.got
        if b"connection: close" in head.lower():
            selector.unregister(self.socket)
            self.socket.close()
            self.socket = None
        return True


def clients(port: int, count: int, seconds: float, result) -> None:
    selector = selectors.DefaultSelector()
    everyone = [Client(port, TEXTS[i % len(TEXTS)]) for i in range(count)]
    for client in everyone:
        client.ask(selector)
    began, latencies = time.perf_counter(), []
    while time.perf_counter() - began < seconds or len(latencies) < 2 * count:
        for key, _ in selector.select(1.0):
            client = key.data
            if client.read(selector):
                client.answers += 1
                if client.answers > 1:  # the first one carries the connecting, and all clients start at once
                    latencies.append(time.perf_counter() - client.began)
                client.ask(selector)
    result.send((sum(client.answers for client in everyone) / (time.perf_counter() - began), latencies))


def measure(port: int, count: int, seconds: float) -> dict[str, float]:
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=clients, args=(port, count, seconds, theirs))
    process.start()
    theirs.close()
    rate, latencies = mine.recv()
    process.join()
    ms = np.array(latencies) * 1000
    return {"rate": rate, "p50": float(np.percentile(ms, 50)), "p99": float(np.percentile(ms, 99))}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("model")
    p.add_argument("--seconds", type=float, default=8.0)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--clients", type=int, nargs="+", default=[1, 64])
    p.add_argument("--flask", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.flask:
        return flask_server(args.model)
    servers = {"Flask": start(__file__, args.model, "--flask"), "serve.py": start("serve.py", args.model, "--port", "0", "--quiet")}
    try:
        print(f"{args.model}; {os.cpu_count()} cores; {args.rounds} rounds of {args.seconds:g} s each, in turn\n")
        print("| clients | server | requests/s | p50 ms | p99 ms | spread of requests/s |\n|---|---|---|---|---|---|")
        for count in args.clients:
            figures = {name: [] for name in servers}
            for _, port in servers.values():
                measure(port, count, 1.0)  # warm
            for i in range(args.rounds):
                for name in list(servers)[:: 1 if i % 2 == 0 else -1]:
                    figures[name].append(measure(servers[name][1], count, args.seconds))
            middle = {name: {k: float(np.median([f[k] for f in found])) for k in found[0]} for name, found in figures.items()}
            for name, m in middle.items():
                rates = [f["rate"] for f in figures[name]]
                print(f"| {count} | {name} | {m['rate']:.0f} | {m['p50']:.1f} | {m['p99']:.1f} | {min(rates):.0f}–{max(rates):.0f} |")
            ours, plain = middle["serve.py"], middle["Flask"]
            print(f"| {count} | **ratio** | **{ours['rate'] / plain['rate']:.2f}×** | {ours['p50'] / plain['p50']:.2f} | "
                  f"**{ours['p99'] / plain['p99']:.2f}** | |", flush=True)
    finally:
        for process, _ in servers.values():
            process.send_signal(signal.SIGTERM)
            process.wait(20)


if __name__ == "__main__":
    main()
