"""python serve.py RUN: a trained classifier behind HTTP/1.1, and a page to try it.

    POST /predict   {"texts": ["…", …]}  → {"predictions": [{"label", "confidence", "scores"}, …]}, in order
    POST /explain   {"text": "…"}        → tokens, [CLS] attention per layer and head, each token's measured effect
    GET  /health    ready, model, labels, limits          GET /metrics   Prometheus text
    GET  /          the page                              errors: {"error": "one sentence"}

Two rooms do the heavy part: `minibert/server.py` speaks HTTP, `minibert/batcher.py` makes batches across connections
and runs them on the one thread that owns the model. This file says what is served, and starts and stops it.
"""

from __future__ import annotations

from minibert import cli

if __name__ == "__main__":
    cli.leave_at_a_signal(status=0)

import base64
import hashlib
import json
import os
import re
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np
import torch

import minibert
from minibert import attention
from minibert.batcher import Batcher, ClientGone, Overloaded, TooMuch
from minibert.cli import UserError
from minibert.predictor import FAST_TOLERANCE, INT8_MOVES, Predictor, Window
from minibert.server import ClientLeft, Connection, HTTPError, Limits, Request, Response, Server

PAGE = Path(minibert.__file__).parent / "page.html"
A_DAY = 86_400  # seconds; somewhat longer waits overflow in the system's calls
MAY_BE_0 = ("port", "batch_wait_ms", "explain_queue")
MOST = {"port": 65_535, "threads": 1024}  # other whole numbers: 2**30
LOG_SECONDS = 0.5  # a line that stderr does not take for so long is dropped


@dataclass
class Flags:
    host: str = cli.flag("127.0.0.1", "address to listen on; 0.0.0.0 lets other machines in")
    port: int = cli.flag(8000, "port; 0 takes a free one and prints it")
    device: str = cli.flag("auto", "cuda, mps or cpu")
    precision: str = cli.flag("fp32", "fp32: the same answer alone or in company, to 1e-5; fast: bf16, fp16 or int8, "
                              f"whichever the device is fastest with, to {FAST_TOLERANCE} (int8 {INT8_MOVES})", choices=("fp32", "fast"))
    threads: int = cli.flag(None, "CPU threads of the model; by default torch's choice", type=int)
    max_texts: int = cli.flag(128, "texts in one request")
    max_chars: int = cli.flag(20_000, "characters in one text")
    max_body_bytes: int = cli.flag(2 * 1024 * 1024, "bytes in one request's body")
    max_connections: int = cli.flag(256, "open connections; past it 503")
    queue_tokens: int = cli.flag(65_536, "tokens that may wait for the model; past it 503")
    batch_tokens: int = cli.flag(None, "tokens in one batch, padding included; by default what suits the device", type=int)
    batch_wait_ms: float = cli.flag(4.0, "how long a request waits for company, if the batch before had any")
    explain_tokens: int = cli.flag(128, "tokens of a text that /explain looks at")
    explain_queue: int = cli.flag(8, "texts that may wait for an explanation; past it 503")
    header_seconds: float = cli.flag(10.0, "for a client to send its request line and headers")
    body_seconds: float = cli.flag(20.0, "for a client to send its body")
    write_seconds: float = cli.flag(20.0, "for a client to take its answer")
    idle_seconds: float = cli.flag(60.0, "for which a connection may stay open between requests")
    answer_seconds: float = cli.flag(30.0, "for which a request may wait for the model; past it 503")
    shutdown_seconds: float = cli.flag(10.0, "for requests in flight to finish after SIGTERM")
    cors_origin: str = cli.flag("", "let pages of this origin call the server from a browser", metavar="ORIGIN")
    log_json: bool = cli.flag(False, "log lines as JSON objects")
    quiet: bool = cli.flag(False, "no line per request")

    def check(self) -> None:
        """Raises UserError for a value that could not work."""
        for name, value in vars(self).items():
            shown, most = f"--{name.replace('_', '-')} is {value}", MOST.get(name, 2**30)
            # Asked for what is right, because nan is neither below nor above anything.
            if isinstance(value, float) and not (0 < value <= A_DAY or value == 0 and name in MAY_BE_0):
                raise UserError(f"{shown}; it must be {'0 or more' if name in MAY_BE_0 else 'above 0'} and at most {A_DAY}.")
            if isinstance(value, int) and not isinstance(value, bool) and not (name not in MAY_BE_0) <= value <= most:
                raise UserError(f"{shown}; it must be from {int(name not in MAY_BE_0)} to {most}.")
        if not 5 <= self.explain_tokens <= self.queue_tokens:
            raise UserError(f"--explain-tokens is {self.explain_tokens}; it must be from 5 to --queue-tokens "
                            f"{self.queue_tokens}.")
        if self.cors_origin and not re.fullmatch(r"\*|https?://[A-Za-z0-9.\-\[\]:]+", self.cors_origin):
            raise UserError(f"--cors-origin {self.cors_origin!r} is no origin; write it as https://example.org.")


# ---- what is served ------------------------------------------------------------------------------------------

class Service:
    """The routes: a Request in, a Response out. Everything here runs on the connections' threads."""

    def __init__(self, predictor: Predictor, flags: Flags):
        self.predictor, self.flags = predictor, flags
        self.started = time.time()
        self.metrics = Metrics()
        self.batcher = Batcher(predictor.forward, predictor.batch_tokens, flags.queue_tokens, flags.batch_wait_ms / 1000,
                               self.metrics.batch)
        self.connections: Callable[[], int] = lambda: 0
        self.stopping = False
        # An explanation reads the text once for each of its tokens. One at a time leaves the queue to the others, and
        # few may wait for their turn, or they would hold all connections.
        self.explaining = threading.Semaphore(1)
        self.explanations = threading.Semaphore(1 + flags.explain_queue)
        self.page, self.page_policy = load_page()
        self.routes: dict[str, dict[str, Callable[[Request], Response]]] = {
            "/": {"GET": self.get_page}, "/health": {"GET": self.health}, "/metrics": {"GET": self.get_metrics},
            "/predict": {"POST": self.predict}, "/explain": {"POST": self.explain}}

    def answer(self, request: Request) -> Response:
        try:
            response = self._route(request)
        except UserError as e:
            response = Response({"error": str(e)}, 400)
        except HTTPError as e:
            response = Response({"error": e.message}, e.status, headers=e.headers)
        if self.flags.cors_origin:  # on refusals too, or the other site's page could not read why
            response.headers["Access-Control-Allow-Origin"] = self.flags.cors_origin
        return response

    def _route(self, request: Request) -> Response:
        if request.path == "*" and request.method == "OPTIONS":
            return Response(None, 204, headers={"Allow": "GET, HEAD, OPTIONS, POST"})
        methods = self.routes.get(request.path)
        if methods is None:
            raise HTTPError(404, f"there is nothing at this address; there are {', '.join(self.routes)}.")
        allowed = sorted([*methods, "OPTIONS"] + (["HEAD"] if "GET" in methods else []))
        if request.method == "OPTIONS":
            headers = {"Allow": ", ".join(allowed)}
            if self.flags.cors_origin:
                headers |= {"Access-Control-Allow-Methods": ", ".join(allowed), "Access-Control-Max-Age": "600",
                            "Access-Control-Allow-Headers": "Content-Type"}
            return Response(None, 204, headers=headers)
        handler = methods.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            raise HTTPError(405, f"{request.path} answers {', '.join(allowed)} only.", {"Allow": ", ".join(allowed)})
        return handler(request)

    # -- POST /predict

    def predict(self, request: Request) -> Response:
        fields = read_fields(request, ("texts",))
        texts, pairs = self._texts(fields["texts"])
        encoded = self.predictor.encode(texts, pairs)
        windows = [window for of_text in encoded for window in of_text]
        document = np.repeat(np.arange(len(encoded)), [len(of_text) for of_text in encoded])
        lengths = np.array([len(window.input_ids) for window in windows])
        logits = self._in_turn(lambda: self.batcher.submit(windows, self.flags.answer_seconds, request.gone))
        probabilities = self.predictor.to_probabilities(self.predictor.pool(logits, document, lengths))
        self.metrics.add("texts_total", len(texts))
        return Response({"predictions": [self.predictor.answer(row) for row in probabilities]},
                        log={"texts": len(texts), "tokens": int(lengths.sum())})

    def _texts(self, value: Any) -> tuple[list[str], list[str] | None]:
        """The texts of a request and, for a pair model, the second ones. Raises HTTPError with the index of a bad item."""
        if isinstance(value, str) and not self.predictor.takes_pairs:
            value = [value]
        if not isinstance(value, list) or not value:
            raise HTTPError(400, f"'texts' must be a list of at least one {self._kind}"
                                 f"{'' if self.predictor.takes_pairs else ', or one string'}.")
        if len(value) > self.flags.max_texts:
            raise HTTPError(400, f"'texts' holds {len(value)} items; this server takes at most {self.flags.max_texts} at a "
                                 f"time.")
        for i, item in enumerate(value):
            self._check_text(item, f"texts[{i}]")
        if self.predictor.takes_pairs:
            return [a for a, _ in value], [b for _, b in value]
        return value, None

    @property
    def _kind(self) -> str:
        return 'pair of strings ["…", "…"]' if self.predictor.takes_pairs else "string"

    def _check_text(self, item: Any, where: str) -> None:
        parts = item if self.predictor.takes_pairs and isinstance(item, list) and len(item) == 2 else [item]
        if self.predictor.takes_pairs and len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise HTTPError(400, f"'{where}' is not a {self._kind}.")
        longest = max(map(len, parts))
        if longest > self.flags.max_chars:
            raise HTTPError(400, f"'{where}' has {longest} characters; this server takes at most {self.flags.max_chars} "
                                 f"per text.")

    def _in_turn(self, work: Callable[[], Any]) -> Any:
        """Work that goes through the queue, with the queue's and the model's troubles in HTTP's words."""
        try:
            return work()
        except Overloaded as e:
            raise HTTPError(503, str(e), {"Retry-After": str(e.retry_after)}) from None
        except TooMuch as e:
            raise HTTPError(413, str(e)) from None
        except ClientGone:
            raise ClientLeft from None
        except FloatingPointError as e:
            raise HTTPError(500, str(e)) from None

    # -- POST /explain

    def explain(self, request: Request) -> Response:
        item = read_fields(request, ("text",))["text"]
        self._check_text(item, "text")
        text, pair = item if self.predictor.takes_pairs else (item, None)
        seconds = self.flags.answer_seconds
        busy = HTTPError(503, "others are being explained; try again later.", {"Retry-After": "5"})
        if not self.explanations.acquire(blocking=False):
            raise busy
        try:
            if not self.explaining.acquire(timeout=seconds):
                raise busy
            try:
                explanation = self._in_turn(lambda: attention.explain(
                    self.predictor, text, max_tokens=self.flags.explain_tokens, pair=pair,
                    logits_of=lambda windows: self._by_and_by(windows, request),
                    on_model=lambda work: self.batcher.call(work, self.flags.explain_tokens, seconds, request.gone)))
            finally:
                self.explaining.release()
        finally:
            self.explanations.release()
        return Response(explanation, log={"texts": 1, "tokens": len(explanation["tokens"])})

    def _by_and_by(self, windows: Sequence[Window], request: Request) -> np.ndarray:
        """Logits of many windows, a batch at a time: whoever comes meanwhile waits for one batch, not for all of them."""
        at_once = max(1, self.predictor.batch_tokens // max(len(w.input_ids) for w in windows))
        return np.concatenate([self.batcher.submit(windows[i:i + at_once], self.flags.answer_seconds, request.gone)
                               for i in range(0, len(windows), at_once)])

    # -- GET

    def get_page(self, request: Request) -> Response:
        return Response(self.page, content_type="text/html; charset=utf-8",
                        headers={"Content-Security-Policy": self.page_policy, "Referrer-Policy": "no-referrer",
                                 "Cache-Control": "no-cache"})

    def health(self, request: Request) -> Response:
        p = self.predictor
        requests, tokens = self.batcher.depth
        limits = {name: value for name, value in vars(self.flags).items() if isinstance(value, (int, float))
                  and not isinstance(value, bool) and name not in ("port", "threads")} | {"batch_tokens": p.batch_tokens}
        return Response({
            "status": "stopping" if self.stopping else "ok", "model": p.name, "labels": p.labels,
            "multi_label": p.multi_label, "pairs": p.takes_pairs, "device": str(p.device), "precision": p.precision,
            "max_len": p.max_len, "truncate": p.truncate, "temperature": p.temperature,
            "uptime_seconds": round(time.time() - self.started, 3), "version": minibert.__version__,
            "torch": torch.__version__, "limits": limits, "connections": self.connections(),
            "queue": {"requests": requests, "tokens": tokens}}, status=503 if self.stopping else 200,
            headers={"Cache-Control": "no-store"})

    def get_metrics(self, request: Request) -> Response:
        requests, tokens = self.batcher.depth
        text = self.metrics.render({"queue_requests": requests, "queue_tokens": tokens, "connections": self.connections(),
                                    "uptime_seconds": time.time() - self.started})
        return Response(text.encode("ascii"), content_type="text/plain; version=0.0.4; charset=utf-8")

    # -- after each request

    def on_request(self, connection: Connection | None, response: Response | None, seconds: float) -> None:
        """Count it and write its log line: who, what, how it went, how long; never a text, nor a path of the client's."""
        path = getattr(connection, "route_path", None)
        route = path if path in self.routes else "other"
        status = 499 if response is None else response.status  # 499: the client had gone (nginx's number for it)
        self.metrics.request(route, status, seconds)
        if self.flags.quiet:
            return
        method = getattr(connection, "command", None)
        line = {"time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                "client": connection.client_address[0] if connection else "-",
                "method": method if method in ("GET", "HEAD", "POST", "OPTIONS") else "other",
                "route": route, "status": status, "ms": round(seconds * 1000, 1), **(response.log if response else {})}
        log(json.dumps(line) if self.flags.log_json else " ".join(
            str(v) if k in ("time", "client", "method", "route", "status") else f"{k}={v}" for k, v in line.items()))

    def on_fault(self, fault: BaseException) -> None:
        log("".join(traceback.format_exception(fault)).rstrip())


def read_fields(request: Request, required: Sequence[str]) -> dict[str, Any]:
    """The request's JSON object, which holds the required keys, each once, and no others.

    Raises HTTPError 415 for another content type and 400 for what is not such an object: a key written twice or not
    known is a mistake that guessing would hide.
    """
    kind, _, parameters = request.headers.get("Content-Type", "").partition(";")
    if kind.strip().lower() != "application/json":
        raise HTTPError(415, "send JSON with the header Content-Type: application/json.")
    if "charset" in parameters.lower() and not re.search(r'charset\s*=\s*"?utf-?8"?\s*(;|$)', parameters, re.IGNORECASE):
        raise HTTPError(415, "send the JSON in UTF-8.")
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise HTTPError(415, "send the body without Content-Encoding.")
    body = request.read_body()
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_no_repeats, parse_constant=_no_constant)
    except UnicodeDecodeError as e:
        raise HTTPError(400, f"the body is not UTF-8 (at byte {e.start}).") from None
    except RecursionError:
        raise HTTPError(400, "the body is not JSON that can be read: it is nested too deeply.") from None
    except ValueError as e:
        raise HTTPError(400, f"the body is not valid JSON: {e}.") from None
    if not isinstance(value, dict):
        raise HTTPError(400, f'the body must be a JSON object such as {{"{required[0]}": …}}.')
    for key in required:
        if key not in value:
            raise HTTPError(400, f"the key '{key}' is missing.")
    for key in value:
        if key not in required:
            raise HTTPError(400, f"the key '{key[:40]}' is not known here{cli.nearest(key[:40], required)}.")
    return value


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key '{twice[:40]}' stands there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def load_page() -> tuple[bytes, str]:
    """The page and a Content-Security-Policy that allows its own script and style, by their hash, and nothing else."""
    page = PAGE.read_text(encoding="utf-8")

    def hashes(tag: str) -> str:
        parts = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(p.encode()).digest()).decode()}'" for p in parts)

    return page.encode("utf-8"), (f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; "
                                  "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                                  "frame-ancestors 'none'")


# ---- counting ------------------------------------------------------------------------------------------------

class Metrics:
    """Counters and histograms in Prometheus' text format, version 0.0.4."""

    HELP = {
        "requests_total": ("counter", "HTTP requests by route and status (499: the client hung up)"),
        "request_seconds": ("histogram", "from a request's first byte to the last of its answer"),
        "batch_windows": ("histogram", "texts (or windows of long texts) in one forward"),
        "texts_total": ("counter", "texts predicted"),
        "tokens_total": ("counter", "tokens read by the model, padding not counted"),
        "padding_tokens_total": ("counter", "tokens of padding"),
        "model_seconds_total": ("counter", "time spent in the model"),
        "queue_requests": ("gauge", "requests that wait for the model"),
        "queue_tokens": ("gauge", "tokens that wait for the model"),
        "connections": ("gauge", "open connections"),
        "uptime_seconds": ("gauge", "since the model was ready"),
    }
    BUCKETS = {"request_seconds": (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
               "batch_windows": (1, 2, 4, 8, 16, 32, 64, 128, 256)}

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: Counter[tuple[str, str]] = Counter()  # (name, labels) → value
        self._histograms: dict[tuple[str, str], list[float]] = {}  # (name, labels) → a count per bucket, over, sum

    def add(self, name: str, amount: float, labels: str = "") -> None:
        with self._lock:
            self._values[name, labels] += amount

    def observe(self, name: str, value: float, labels: str = "") -> None:
        buckets = self.BUCKETS[name]
        with self._lock:
            counts = self._histograms.setdefault((name, labels), [0.0] * (len(buckets) + 2))
            counts[bisect_left(buckets, value)] += 1
            counts[-1] += value

    def request(self, route: str, status: int, seconds: float) -> None:
        self.add("requests_total", 1, f'route="{route}",code="{status}"')
        self.observe("request_seconds", seconds, f'route="{route}"')

    def batch(self, windows: Sequence[Window], seconds: float) -> None:
        lengths = [len(w.input_ids) for w in windows]
        self.observe("batch_windows", len(windows))
        self.add("tokens_total", sum(lengths))
        self.add("padding_tokens_total", max(lengths) * len(lengths) - sum(lengths))
        self.add("model_seconds_total", seconds)

    def render(self, gauges: dict[str, float]) -> str:
        with self._lock:
            values = {**self._values, **{(name, ""): value for name, value in gauges.items()}}
            histograms = {key: list(counts) for key, counts in self._histograms.items()}
        lines = []
        for name, (kind, help_text) in self.HELP.items():
            lines += [f"# HELP minibert_{name} {help_text}", f"# TYPE minibert_{name} {kind}"]
            for (_, labels), value in sorted((k, v) for k, v in values.items() if k[0] == name):
                lines.append(f"minibert_{name}{'{' + labels + '}' if labels else ''} {value:.15g}")
            for (_, labels), counts in sorted((k, v) for k, v in histograms.items() if k[0] == name):
                comma, total = labels and labels + ",", 0.0
                for bound, count in zip((*self.BUCKETS[name], "+Inf"), counts):
                    total += count
                    lines.append(f'minibert_{name}_bucket{{{comma}le="{bound}"}} {total:.15g}')
                tail = "{" + labels + "}" if labels else ""
                lines += [f"minibert_{name}_sum{tail} {counts[-1]:.15g}", f"minibert_{name}_count{tail} {total:.15g}"]
        return "\n".join(lines) + "\n"


_log_lock = threading.Lock()


def log(line: str) -> None:
    """One line on stderr, whole, whatever other threads write. A stderr that is closed, full or read by nobody (a pipe
    then blocks whoever writes) stops no request and no stop."""
    if not _log_lock.acquire(timeout=LOG_SECONDS):
        return
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    finally:
        _log_lock.release()


# ---- start and stop ------------------------------------------------------------------------------------------

def bind(flags: Flags, service: Callable[[], Service]) -> Server:
    """The server with its port taken but not yet listening. Raises UserError if the port cannot be had."""
    limits = Limits(flags.max_connections, flags.max_body_bytes, flags.header_seconds, flags.body_seconds,
                    flags.write_seconds, flags.idle_seconds)
    try:
        return Server((flags.host, flags.port), limits, lambda request: service().answer(request),
                      lambda *about: service().on_request(*about), lambda fault: service().on_fault(fault))
    except (OSError, UnicodeError, TypeError) as e:  # the last two: a host that cannot be written as a domain name
        raise cannot_listen(flags, e) from None


def allow_open_files(flags: Flags) -> None:
    """Every connection is an open file, and as many again may be on their way out. Raises UserError if that is too many.

    Without a file to be had, accepting fails and is tried again at once, for ever.
    """
    wanted = 2 * flags.max_connections + 64
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError, OverflowError):
            raise UserError(f"--max-connections {flags.max_connections} needs {wanted} open files and the system allows "
                            f"{hard}; lower it, or raise the limit (ulimit -n).") from None


def cannot_listen(flags: Flags, e: Exception) -> UserError:
    if not isinstance(e, OSError) or isinstance(e, socket.gaierror):
        return UserError(f"--host {flags.host} is no address of this machine; 127.0.0.1 or 0.0.0.0 are.")
    return UserError(f"cannot listen on {flags.host} port {flags.port}: {(e.strerror or str(e)).lower()}; "
                     f"choose another with --port (0 takes a free one).")


def announce(line: str) -> None:
    """One line on stdout; one that is full, or whose reader has gone, does not stop a server."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter would try again at its end


def warm_up(predictor: Predictor) -> None:
    """The first forward of a process sets up threads and kernels; it happens before anyone waits for it."""
    try:
        for text in ("a", "a " * predictor.max_len):
            predictor.logits([text], [text] if predictor.takes_pairs else None)
    except FloatingPointError as e:
        raise UserError(f"{predictor.name}: {e}") from None


def stop(server: Server, service: Service) -> bool:
    """Take nothing more and finish what is in flight; whether that was done within --shutdown-seconds."""
    until = time.monotonic() + service.flags.shutdown_seconds
    service.stopping = True
    finished = server.stop(service.flags.shutdown_seconds)
    return service.batcher.stop(max(0.0, until - time.monotonic())) and finished


def main(argv: Sequence[str]) -> int:
    p = cli.parser(Flags, "serve.py", "Serve a trained run, or a published classifier, over HTTP.")
    p.add_argument("run", metavar="RUN_OR_MODEL", help="a run folder, or a published classifier's name or folder")
    given = cli.parse(p, argv)
    run = given.pop("run")
    flags = Flags(**given)
    flags.check()
    allow_open_files(flags)

    signals = []

    def on_signal(number: int, frame: Any) -> None:
        signals.append(number)
        if len(signals) > 1:  # asked twice: do not wait for anyone
            os._exit(0)

    service: Service | None = None
    with bind(flags, lambda: service) as server:
        cli.leave_at_a_signal(status=0)  # still loading: nothing to finish
        predictor = Predictor(run, flags.device, flags.precision, flags.batch_tokens, flags.threads, log)
        warm_up(predictor)
        service = Service(predictor, flags)
        service.connections = lambda: server.connections
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, on_signal)
        try:
            server.server_activate()
        except OSError as e:
            raise cannot_listen(flags, e) from None
        # Python hands the interpreter from thread to thread every 5 ms; the model's thread, which asks for it after
        # every operation, would stand in line behind each parsing thread.
        sys.setswitchinterval(0.0005)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="accept", daemon=True).start()
        host, port = server.server_address[:2]
        host = f"[{host}]" if ":" in host else host
        announce(f"minibert: serving {predictor.name} ({len(predictor.labels)} labels, {predictor.device}, "
                 f"{predictor.precision}) at http://{host}:{port}/")
        # Python runs its signal handlers on this thread, but the system may hand the signal to any other, which does
        # not wake this one: so it never sleeps for long.
        while not signals:
            time.sleep(0.1)
        finished: list[bool] = []
        threading.Thread(target=lambda: finished.append(stop(server, service)), name="stop", daemon=True).start()
        until = time.monotonic() + flags.shutdown_seconds + 2
        while not finished and time.monotonic() < until:
            time.sleep(0.1)
    if finished != [True]:  # a thread still inside the model must not meet the interpreter's end
        log("minibert: stopped before every request in flight was answered.")
        os._exit(0)
    return 0


if __name__ == "__main__":
    cli.run(main)
