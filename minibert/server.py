"""HTTP/1.1 on Python's http.server, made fit to stand behind a proxy. Nothing here knows what is served.

http.server parses request lines and headers; this room adds what it leaves out: a deadline on everything that waits
for a client, a bound on everything a client can make grow, one rule for bodies that nobody read, JSON errors, and a
stop that finishes what is in flight.

    answer: Callable[[Request], Response]      the only thing an application has to give
"""

from __future__ import annotations

import http.server
import io
import json
import re
import select
import socket
import socketserver
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Callable, Mapping

HEADER_BYTES = 65_536  # a request line (414) and all headers together (431)
DRAIN_BYTES = 65_536  # an unread body up to this size is read and dropped; past it the connection is closed
STOPPING_SECONDS = 0.1  # what a new connection has to send its first byte when the server is stopping
LINGER_SECONDS = 1.0  # a closing side reads on until nothing comes for so long, so that the client sees the answer and no reset

# One space between the words: a proxy in front may not split at the tabs and no-break spaces that Python splits at.
REQUEST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ [!-~]+ HTTP/1\.[0-9]\r?\n")
# A name, a colon, a value in one line, or the empty line at the end.
HEADER_LINE = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00\r\n]*)?\r?\n")


@dataclass
class Limits:
    """What one client may take. Seconds, bytes, connections."""
    connections: int = 256
    body_bytes: int = 2 * 1024 * 1024
    header_seconds: float = 10.0
    body_seconds: float = 20.0
    write_seconds: float = 20.0
    idle_seconds: float = 60.0


class HTTPError(Exception):
    """An answer other than 200: raised anywhere below `answer`, sent as {"error": message}."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


class ClientLeft(Exception):
    """The client hung up while its answer was being worked out: there is nobody to answer."""


@dataclass
class Response:
    """`body` is a dict (sent as JSON) or bytes of the given type; None means no body (204)."""
    body: dict | bytes | None
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    log: dict[str, Any] = field(default_factory=dict)  # counts for the access log; never texts


@dataclass
class Request:
    method: str
    path: str  # without the query
    headers: Any  # email.message.Message: .get(name) ignores case
    read_body: Callable[[], bytes]  # raises HTTPError 411, 413, 408
    gone: Callable[[], bool]  # whether the client has hung up


def to_json(value: Any) -> bytes:
    """Strict JSON in ASCII: NaN and infinity raise ValueError, a lone surrogate becomes an escape."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


class DeadlineReader(io.RawIOBase):
    """Reads a socket until `deadline` (monotonic) and for at most `allowance` bytes.

    A socket's own timeout is per call: a client that sends one byte every five seconds never meets it.
    """

    def __init__(self, sock: socket.socket):
        self.sock, self.deadline, self.allowance = sock, 0.0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if self.allowance <= 0:
            raise OverflowError
        self.sock.settimeout(left)
        try:
            n = self.sock.recv_into(buffer, min(len(buffer), self.allowance))
        except TimeoutError:
            raise
        except OSError as e:  # reset, unreachable, shut down by `Server.stop`: in every case nobody is there
            raise ConnectionResetError from e
        self.allowance -= n
        return n


class Connection(http.server.BaseHTTPRequestHandler):
    """One client's connection: a loop of requests, on a thread of its own."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self.reader = DeadlineReader(self.request)
        self.rfile = io.BufferedReader(self.reader)
        self.idle_since: float | None = None  # set between requests
        self.linger = 0.0  # for how many seconds to read on at most before closing
        self.server.opened(self)

    def finish(self) -> None:
        if self.linger:
            self._read_on(self.linger)

    def handle(self) -> None:
        self.close_connection = False
        first = True
        while not self.close_connection:
            if not self._wait_for_request(self.server.limits.header_seconds if first else self.server.limits.idle_seconds):
                return
            first = False
            self._one_request()

    def _wait_for_request(self, seconds: float) -> bool:
        """Whether a first byte came. A silent client is no request: it gets no answer."""
        self.reader.deadline, self.reader.allowance = time.monotonic() + seconds, HEADER_BYTES
        self.idle_since = time.monotonic()
        if self.server.stopping:  # what has been sent before the stop is answered, and nothing is waited for
            self.reader.deadline = time.monotonic() + STOPPING_SECONDS
        try:
            return bool(self.rfile.peek(1))
        except (OSError, OverflowError):
            return False
        finally:
            self.idle_since = None

    # ---- one request -----------------------------------------------------------------------------------------

    def _one_request(self) -> None:
        started = time.monotonic()
        self.command, self.route_path, self.request_version = None, None, self.protocol_version
        self.length, self.body_read, self.expects_continue = 0, True, False
        understood = False
        try:
            self._read_head()
            understood = True
            response = self.server.answer(Request(self.command, self.route_path, self.headers, self._read_body, self._gone))
            body = response.body if isinstance(response.body, (bytes, type(None))) else to_json(response.body)
        except HTTPError as e:
            if not understood:
                self._refuse_rest()
            response = Response({"error": e.message}, e.status, headers=e.headers)
            body = to_json(response.body)
        except TimeoutError:
            self._refuse_rest(LINGER_SECONDS)  # it has had its time
            response = Response({"error": "the request did not arrive in time."}, 408)
            body = to_json(response.body)
        except (ClientLeft, ConnectionError):
            response, body = None, None
        except Exception as e:  # the process never dies of a request
            self.server.on_fault(e)
            response = Response({"error": "the server failed on this request and has logged why."}, 500)
            body = to_json(response.body)
        try:
            if response is not None:
                self._send(response, body)
        except OSError:  # it hung up while the answer was on its way
            response = None
        if response is None:
            self.close_connection, self.linger = True, 0.0
        self.server.on_request(self, response, time.monotonic() - started)

    def _read_head(self) -> None:
        """Request line, headers and the framing of the body. Raises HTTPError for whatever is not HTTP/1.x."""
        self.reader.deadline = time.monotonic() + self.server.limits.header_seconds
        self.raw_requestline = self._read_line(414, "the request line")
        if self.raw_requestline in (b"\r\n", b"\n"):  # some clients send an empty line after a body
            self.raw_requestline = self._read_line(414, "the request line")
        if not REQUEST_LINE.fullmatch(self.raw_requestline):
            raise HTTPError(400, "the request line is not that of HTTP/1.0 or HTTP/1.1.")
        lines = []
        while not lines or lines[-1] not in (b"\r\n", b"\n"):
            lines.append(self._read_line(431, "the header"))
            # Python's parser takes a line without a colon for the end of the headers and a lone CR for a line's end;
            # a proxy in front reads the same bytes otherwise, and the two disagree on where the next request starts.
            if not HEADER_LINE.fullmatch(lines[-1]):
                raise HTTPError(400, "a header line is malformed.")
        real, self.rfile = self.rfile, io.BytesIO(b"".join(lines))
        try:
            if not self.parse_request():  # http.server's: request line, version, headers, Connection, Expect
                raise HTTPError(400, "the request line is empty.")
        finally:
            self.rfile = real
        self._check_head()
        self._check_framing()

    def _read_line(self, status: int, what: str) -> bytes:
        try:
            line = self.rfile.readline()
        except OverflowError:
            raise HTTPError(status, f"{what} is too long; {HEADER_BYTES} bytes are taken.") from None
        if not line.endswith(b"\n"):
            raise ConnectionError("hung up within the headers")
        return line

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """http.server's own refusals (a bad request line or version, too many headers): it would send an HTML page."""
        if code == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            raise HTTPError(431, "the request has too many headers.")
        raise HTTPError(400, "the request line is not that of HTTP/1.0 or HTTP/1.1.")

    def handle_expect_100(self) -> bool:
        """Say "100 Continue" only once the body is wanted (`_read_body`): that is what the client waits to learn."""
        self.expects_continue = True
        return True

    def _check_head(self) -> None:
        # http.server knows a lone "close" or "keep-alive"; the header is a list, and may come in several lines.
        options = {option.strip().lower() for line in self.headers.get_all("Connection", []) for option in line.split(",")}
        self.close_connection = "close" in options or (self.request_version == "HTTP/1.0" and "keep-alive" not in options)
        hosts = self.headers.get_all("Host", [])
        if len(hosts) > 1 or (not hosts and self.request_version != "HTTP/1.0"):
            raise HTTPError(400, "the request needs exactly one Host header.")
        expect = self.headers.get("Expect", "100-continue")
        if expect.strip().lower() != "100-continue":
            raise HTTPError(417, "the only expectation met here is 100-continue.")
        # A client may name the whole address (proxies do): only the path matters here.
        self.route_path = re.sub(r"^https?://[^/?#]*", "", self.path, flags=re.IGNORECASE).split("?")[0].split("#")[0] or "/"

    def _check_framing(self) -> None:
        """How long the body is. Where that cannot be known, neither can the start of the next request."""
        lengths = self.headers.get_all("Content-Length", [])
        coded = self.headers.get_all("Transfer-Encoding", [])
        if coded and lengths:
            raise HTTPError(400, "Content-Length and Transfer-Encoding exclude each other.")
        if coded:
            raise HTTPError(411, "a body without Content-Length (chunked) is not taken; send Content-Length.")
        if len(lengths) > 1 or (lengths and not re.fullmatch(r"[0-9]{1,18}", lengths[0].strip(" \t"))):
            raise HTTPError(400, "Content-Length must be one whole number of bytes.")
        self.has_length = bool(lengths)
        self.length = int(lengths[0]) if lengths else 0
        self.body_read = self.length == 0

    def _read_body(self) -> bytes:
        if not self.has_length:
            self._refuse_rest()
            raise HTTPError(411, "the request has no Content-Length.")
        if self.length > self.server.limits.body_bytes:
            raise HTTPError(413, f"the body has {self.length} bytes; this server takes at most "
                                 f"{self.server.limits.body_bytes}.")
        if self.expects_continue:
            self._send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.expects_continue = False
        self._allow_body()
        body = self.rfile.read(self.length)
        if len(body) < self.length:
            raise ConnectionError("hung up within the body")
        self.body_read = True
        return body

    def _allow_body(self) -> None:
        self.reader.deadline = time.monotonic() + self.server.limits.body_seconds
        self.reader.allowance = self.length + HEADER_BYTES  # the buffer may hold the next request's head too

    def _gone(self) -> bool:
        """Whether the client has closed its side. (One that only half-closes counts as gone, as in most servers.)"""
        try:
            waiting = select.poll()
            waiting.register(self.request, select.POLLIN)
            return bool(waiting.poll(0)) and self.request.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True

    # ---- the answer ------------------------------------------------------------------------------------------

    def _refuse_rest(self, seconds: float | None = None) -> None:
        """What else comes on this connection is not understood or not wanted: answer and close."""
        self.close_connection = True
        self.linger = self.server.limits.body_seconds if seconds is None else seconds

    def _send(self, response: Response, body: bytes | None) -> None:
        """Send the answer, and settle what to do with a body that nobody read."""
        if self.server.stopping:
            self.close_connection = True
        # A client still waiting for "100 Continue" may send its body or not: no telling where the next request starts.
        if not self.body_read and not self.linger and \
                (self.close_connection or self.length > DRAIN_BYTES or self.expects_continue):
            self._refuse_rest()
        head = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
                f"Date: {self.date_time_string()}", "Server: minibert", "X-Content-Type-Options: nosniff"]
        if body is not None:
            head += [f"Content-Type: {response.content_type}", f"Content-Length: {len(body)}"]
        head += [f"{name}: {value}" for name, value in response.headers.items()]
        if self.close_connection:
            head.append("Connection: close")
        elif self.request_version == "HTTP/1.0":
            head.append("Connection: keep-alive")
        if body is None or self.command == "HEAD":
            body = b""
        self._send_all("\r\n".join(head).encode("ascii") + b"\r\n\r\n" + body)
        if not self.body_read and not self.close_connection:
            self._drop_body()

    def _send_all(self, data: bytes) -> None:
        self.request.settimeout(self.server.limits.write_seconds)  # for the whole of it: sendall counts down
        self.request.sendall(data)

    def _drop_body(self) -> None:
        self._allow_body()
        try:
            self.close_connection = len(self.rfile.read(self.length)) < self.length
        except OSError:
            self.close_connection = True

    def _read_on(self, seconds: float) -> None:
        """Closing a socket with unread bytes resets it, and a reset can overtake the answer: read on for a while.

        To the end of what the client sends, until it sends nothing for a moment, or for `seconds`: a client in the
        middle of a long body looks for an answer only when all of it is sent.
        """
        until = time.monotonic() + seconds
        try:
            self.request.shutdown(socket.SHUT_WR)
            while (left := until - time.monotonic()) > 0 and not (self.server.stopping and left < seconds - LINGER_SECONDS):
                self.request.settimeout(min(left, LINGER_SECONDS))
                if not self.request.recv(65_536):
                    return
        except OSError:
            pass

    def log_message(self, *_: Any) -> None:
        """http.server's own log line; ours is `Server.on_request`."""


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A thread per connection, up to a number of connections; past it an immediate 503.

    `answer(request)` makes the responses. `on_request(connection, response, seconds)` is told of every request
    (response None: the client had gone), `on_fault(exception)` of our own faults.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True  # a restarted server need not wait for the last one's connections to time out
    request_queue_size = 1024  # the default of 5 lets a burst of connects run into retries

    def __init__(self, address: tuple[str, int], limits: Limits, answer: Callable[[Request], Response],
                 on_request: Callable[[Connection, Response | None, float], None],
                 on_fault: Callable[[BaseException], None]):
        self.limits, self.answer, self.on_request, self.on_fault = limits, answer, on_request, on_fault
        self.stopping = False
        self._open: dict[socket.socket, Connection | None] = {}  # None: accepted, its thread not yet running
        self._changed = threading.Condition()
        self._lingering: deque[tuple[float, socket.socket]] = deque()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        # Bound here, so that a taken port is found out before the model is loaded; `server_activate` listens.
        super().__init__(address, Connection, bind_and_activate=False)
        try:
            self.server_bind()
        except BaseException:
            self.server_close()
            raise

    @property
    def connections(self) -> int:
        with self._changed:
            return len(self._open)

    def process_request(self, request: socket.socket, client_address: Any) -> None:
        with self._changed:
            full = len(self._open) >= self.limits.connections and not self._close_idlest()
            if not full:
                self._open[request] = None
        if full:
            self._turn_away(request)
        else:
            super().process_request(request, client_address)

    def opened(self, connection: Connection) -> None:
        with self._changed:
            if connection.request in self._open:
                self._open[connection.request] = connection

    def shutdown_request(self, request: socket.socket) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.pop(request, None)
            self._changed.notify_all()

    def _close_idlest(self) -> bool:
        """Make room by ending the connection that has sent nothing for the longest time, if that is over a second."""
        idle = [(c.idle_since, request) for request, c in self._open.items() if c is not None and c.idle_since is not None]
        since, request = min(idle, key=lambda pair: pair[0], default=(time.monotonic(), None))
        if time.monotonic() - since < 1.0:
            return False
        del self._open[request]
        _quietly(request.shutdown, socket.SHUT_RDWR)
        return True

    def _turn_away(self, request: socket.socket) -> None:
        """503 without a thread and without waiting: this runs where connections are accepted."""
        body = to_json({"error": "the server has too many connections; try again later."})
        head = (f"HTTP/1.1 503 Service Unavailable\r\nDate: {formatdate(usegmt=True)}\r\nServer: minibert\r\n"
                f"X-Content-Type-Options: nosniff\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n")
        request.setblocking(False)
        _quietly(request.send, head.encode("ascii") + body)
        _quietly(request.shutdown, socket.SHUT_WR)
        self._lingering.append((time.monotonic() + LINGER_SECONDS, request))
        while len(self._lingering) > self.limits.connections:
            self._end_lingering()
        self.on_request(None, Response(None, 503), 0.0)

    def service_actions(self) -> None:
        """Called by serve_forever between requests: close those that were turned away a moment ago."""
        while self._lingering and self._lingering[0][0] < time.monotonic():
            self._end_lingering()

    def _end_lingering(self) -> None:
        request = self._lingering.popleft()[1]
        _quietly(request.recv, 65_536)  # unread bytes would turn the close into a reset
        request.close()

    def _accept_the_rest(self) -> None:
        """Take what the system has already connected: closing the socket would reset those clients."""
        _quietly(self.socket.setblocking, False)
        for _ in range(self.request_queue_size):
            try:
                request, address = self.get_request()
            except OSError:  # none left
                return
            try:
                self.process_request(request, address)
            except Exception:
                self.handle_error(request, address)
                self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """An exception outside of any request: a client's hang-up is none of ours, the rest is."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            self.on_fault(error)

    def stop(self, seconds: float) -> bool:
        """Accept nothing more, end idle connections, let the others finish; whether all did within `seconds`.

        Not to be called from the thread that runs serve_forever: it waits for that one.
        """
        until = time.monotonic() + seconds
        self.stopping = True  # from here on every answer says Connection: close
        self.shutdown()
        self._accept_the_rest()
        self.server_close()
        with self._changed:
            for request, connection in self._open.items():
                if connection is not None and connection.idle_since is not None:
                    _quietly(request.shutdown, socket.SHUT_RD)
            while self._open and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return not self._open


def _quietly(call: Callable[..., Any], *args: Any) -> None:
    try:
        call(*args)
    except OSError:
        pass
