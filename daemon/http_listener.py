"""The operators' HTTP listener of every process: /healthz, /readyz and /metrics, on threads of its own.

It stands beside the process's own loop so that it can say when the loop is stuck. What /healthz says, a unit of systemd
with `WatchdogSec` hears too. One thread takes connections in and reads until a request's headers are whole; only then
does the request take a thread of those that answer. So one who sends slowly, or nothing, delays no one: it has a short
time, and where places are short the oldest makes way for the next.

waiting for headers -> answered -> closed
                    -> closed (not in time, too long, or it made way)
"""

import errno
import io
import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

from daemon.hang_ups import ADDRESS_HAS_ENOUGH, MADE_WAY, NO_SPACE, NOT_IN_TIME, HangUps
from daemon.watchdog import Watchdog

_JSON = "application/json"
STALL_S = 5.0
"""A loop that has not turned for this long is not healthy."""
WAITING_MAX = 128
"""Connections whose request is not whole: a probe and a few scrapers need one for a moment."""
WAITING_OF_ADDRESS_MAX = 64
"""Of them from one address: half, so that a flood from one leaves the other half to others."""
ANSWERED_MAX = 32
"""Requests that are answered at once; for further ones the connection is closed."""
METRICS_MAX = 4
"""Of them for /metrics, which may take a while: others are asked to come again, and health stays free."""
HEADERS_S = 5.0
"""For the request line and all headers, from the connection on."""
HEADERS_BYTES_MAX = 16 * 1024
_ANSWER_S = 5.0
"""For the peer to take the answer."""
_LOOK_S = 0.1


class LoopStalled(Exception):
    """The event loop did not answer in time, so its counters cannot be read."""


class _Waiting:
    """A connection whose request is not whole."""

    __slots__ = ("began", "connection", "head", "peer")

    def __init__(self, connection: socket.socket, peer: tuple[Any, ...], began: float) -> None:
        """`peer` as it was accepted: a connection that was reset meanwhile has none any more."""
        self.connection = connection
        self.peer = peer
        self.began = began
        self.head = b""

    @property
    def address(self) -> str:
        return str(self.peer[0])


class _Handler(WSGIRequestHandler):
    """Answers one request whose headers were read before."""

    timeout = _ANSWER_S
    server: "_Server"

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(io.BytesIO(self.server.take_head(self.connection)))

    def log_message(self, format: str, *args: object) -> None:
        """Health checks are not worth a line each."""


class _Server(ThreadingMixIn, WSGIServer):
    """What `serve_until` does is all on one thread, but the answers."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.BoundedSemaphore(ANSWERED_MAX)
        self._heads: dict[socket.socket, bytes] = {}
        self._waiting: dict[socket.socket, _Waiting] = {}
        """The oldest first."""
        self._selector = selectors.DefaultSelector()
        self.hang_ups: HangUps
        super().__init__(*arguments)

    def take_head(self, connection: socket.socket) -> bytes:
        """What was read of this connection, once."""
        return self._heads.pop(connection)

    def serve_until(self, ended: threading.Event) -> None:
        """Take connections in, and hand over those whose request is whole."""
        self.socket.setblocking(False)
        self._selector.register(self.socket, selectors.EVENT_READ)
        while not ended.is_set():
            for key, _ in self._selector.select(_LOOK_S):
                if key.data is None:
                    self._accept()
                elif key.fileobj in self._waiting:
                    # Else it made way in this turn.
                    self._read(key.data)
            now = time.monotonic()
            for waiting in list(self._waiting.values()):
                if now <= waiting.began + HEADERS_S:
                    break
                self._hang_up_on(waiting, NOT_IN_TIME)
        for waiting in list(self._waiting.values()):
            self._leave(waiting)
            waiting.connection.close()
        self._selector.close()

    def abandon(self) -> None:
        """Close this process's copies of all sockets, which a parent serves. The parent's selector keeps what is
        registered."""
        self.socket.close()
        for waiting in self._waiting.values():
            waiting.connection.close()
        self._selector.close()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._heads.pop(request, None)
            self._free.release()

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """A peer that breaks off or sends what is no HTTP is not worth a line."""

    def _accept(self) -> None:
        try:
            connection, peer = self.socket.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._make_space()
            return
        connection.setblocking(False)
        of_address = [waiting for waiting in self._waiting.values() if waiting.address == peer[0]]
        if len(of_address) >= WAITING_OF_ADDRESS_MAX:
            self._hang_up_on(of_address[0], ADDRESS_HAS_ENOUGH)
        elif len(self._waiting) >= WAITING_MAX:
            self._hang_up_on(next(iter(self._waiting.values())), MADE_WAY)
        waiting = _Waiting(connection, peer, time.monotonic())
        self._waiting[connection] = waiting
        self._selector.register(connection, selectors.EVENT_READ, waiting)

    def _make_space(self) -> None:
        """There is no descriptor for the next connection."""
        oldest = next(iter(self._waiting.values()), None)
        if oldest is None:
            time.sleep(_LOOK_S)
        else:
            self._hang_up_on(oldest, MADE_WAY)

    def _read(self, waiting: _Waiting) -> None:
        try:
            part = waiting.connection.recv(HEADERS_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        waiting.head += part
        whole = b"\r\n\r\n" in waiting.head or b"\n\n" in waiting.head
        if part and not whole and len(waiting.head) < HEADERS_BYTES_MAX:
            return
        self._leave(waiting)
        if not whole:
            waiting.connection.close()
        elif not self._free.acquire(blocking=False):
            self.hang_ups.count(NO_SPACE, waiting.address)
            waiting.connection.close()
        else:
            self._answer_on_a_thread(waiting)

    def _answer_on_a_thread(self, waiting: _Waiting) -> None:
        self._heads[waiting.connection] = waiting.head
        try:
            self.process_request(waiting.connection, waiting.peer)
        except RuntimeError:
            # No thread can be started at this moment. The listener goes on, or health would be gone for good.
            del self._heads[waiting.connection]
            self._free.release()
            self.hang_ups.count(NO_SPACE, waiting.address)
            waiting.connection.close()

    def _hang_up_on(self, waiting: _Waiting, reason: str) -> None:
        self.hang_ups.count(reason, waiting.address)
        self._leave(waiting)
        waiting.connection.close()

    def _leave(self, waiting: _Waiting) -> None:
        del self._waiting[waiting.connection]
        self._selector.unregister(waiting.connection)


class HttpListener:
    """Serves from construction until `close`. The callables are called on its threads: they must only look.

    Raises `OSError` when the address cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        *,
        hang_ups: HangUps,
        not_ready: Callable[[], str],
        warnings: Callable[[], dict[str, str]] = dict,
        loop_age_s: Callable[[], float],
        late: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """A collector of `registry` may raise `LoopStalled`. `hang_ups` of this listener are counted there; the caller
        exports them. `late` names what else of the process stands still, and why: /healthz is not healthy with it, and
        a supervisor starts the process again.
        """
        self._registry = registry
        self._not_ready = not_ready
        self._loop_age_s = loop_age_s
        self._warnings = warnings
        self._late = late
        self._metrics_free = threading.BoundedSemaphore(METRICS_MAX)
        self._hang_ups = hang_ups
        self._server = make_server(host, port, self._answer, server_class=_Server, handler_class=_Handler)
        self._server.hang_ups = hang_ups
        self.port = self._server.server_port
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._server.serve_until, args=(self._ended,), name="http", daemon=True
        )
        self._thread.start()
        self._watchdog = Watchdog(lambda: self._health()[0])

    def _answer(self, environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environment.get("PATH_INFO", "")
        if environment.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return _respond(start, HTTPStatus.METHOD_NOT_ALLOWED, {"error": "only GET is offered"})
        if path == "/healthz":
            healthy, answer = self._health()
            return _respond(start, _ok_if(healthy), answer)
        if path == "/readyz":
            reason = self._not_ready()
            body: dict[str, object] = {"ready": not reason, "reason": reason}
            warnings = self._warnings()
            crowded = self._hang_ups.crowded()
            if crowded:
                warnings = warnings | {f"{self._hang_ups.listener}_connections": crowded}
            return _respond(start, _ok_if(not reason), body | ({"warnings": warnings} if warnings else {}))
        if path == "/metrics":
            return self._metrics(start)
        return _respond(start, HTTPStatus.NOT_FOUND, {"error": "there are /healthz, /readyz and /metrics"})

    def _health(self) -> tuple[bool, dict[str, object]]:
        age, late = self._loop_age_s(), dict(self._late())
        healthy = age < STALL_S and not late
        answer: dict[str, object] = {"healthy": healthy, "loop_age_s": round(age, 3)}
        return healthy, answer | ({"late": late} if late else {})

    def _metrics(self, start: StartResponse) -> Iterable[bytes]:
        if not self._metrics_free.acquire(blocking=False):
            return _respond(
                start,
                HTTPStatus.SERVICE_UNAVAILABLE,
                {"error": f"{METRICS_MAX} scrapers get the metrics at this moment; come again"},
            )
        try:
            text: bytes = generate_latest(self._registry)
        except LoopStalled as stalled:
            self._metrics_free.release()
            return _respond(start, HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(stalled)})
        except BaseException:
            self._metrics_free.release()
            raise
        return _Sent(_respond(start, HTTPStatus.OK, text, CONTENT_TYPE_LATEST), self._metrics_free.release)

    def abandon(self) -> None:
        """In a forked process, which has none of the threads: close its copies of the sockets."""
        self._server.abandon()

    def close(self) -> None:
        self._watchdog.close()
        self._ended.set()
        self._thread.join()
        self._server.server_close()


class _Sent(list[bytes]):
    """An answer that says when it was sent, or its peer was given up."""

    def __init__(self, parts: Iterable[bytes], sent: Callable[[], None]) -> None:
        super().__init__(parts)
        self.close = sent


def _ok_if(good: bool) -> HTTPStatus:
    return HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE


def _respond(
    start: StartResponse, status: HTTPStatus, body: dict[str, object] | bytes, kind: str = _JSON
) -> list[bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode() + b"\n"
    headers = [("Content-Type", kind), ("Content-Length", str(len(data))), ("Cache-Control", "no-store")]
    start(f"{status.value} {status.phrase}", headers)
    return [data]
