"""The HTTP listener of every process but the web application: /healthz, /readyz and /metrics, on threads of its own.

It stands beside the process's own loop so that it can say when the loop is stuck. What /healthz says, a unit of systemd
with `WatchdogSec` hears too.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from socket import socket
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

from daemon.watchdog import Watchdog

_JSON = "application/json"
STALL_S = 5.0
"""A loop that has not turned for this long is not healthy."""
CONNECTIONS_MAX = 32
"""More at once are closed unanswered: a probe and a few scrapers need far less."""
_WAIT_S = 5.0
_CLOSING_POLL_S = 0.1


class LoopStalled(Exception):
    """The event loop did not answer in time, so its counters cannot be read."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: Any) -> None:
        """A peer that breaks off or sends what is no HTTP is not worth a line."""


class _Quiet(WSGIRequestHandler):
    timeout = _WAIT_S

    def log_message(self, format: str, *args: object) -> None:
        """Health checks are not worth a line each."""


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
        not_ready: Callable[[], str],
        warnings: Callable[[], dict[str, str]] = dict,
        loop_age_s: Callable[[], float],
        late: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """A collector of `registry` may raise `LoopStalled`. `late` names what else of the process stands still, and
        why: /healthz is not healthy with it, and a supervisor starts the process again.
        """
        self._registry, self._not_ready, self._loop_age_s = registry, not_ready, loop_age_s
        self._warnings = warnings
        self._late = late
        self._server = make_server(host, port, self._answer, server_class=_Server, handler_class=_Quiet)
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_CLOSING_POLL_S,), name="http", daemon=True
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
            return _respond(start, _ok_if(not reason), body | ({"warnings": warnings} if warnings else {}))
        if path == "/metrics":
            try:
                text: bytes = generate_latest(self._registry)
            except LoopStalled as stalled:
                return _respond(start, HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(stalled)})
            return _respond(start, HTTPStatus.OK, text, CONTENT_TYPE_LATEST)
        return _respond(start, HTTPStatus.NOT_FOUND, {"error": "there are /healthz, /readyz and /metrics"})

    def _health(self) -> tuple[bool, dict[str, object]]:
        age, late = self._loop_age_s(), dict(self._late())
        healthy = age < STALL_S and not late
        answer: dict[str, object] = {"healthy": healthy, "loop_age_s": round(age, 3)}
        return healthy, answer | ({"late": late} if late else {})

    def abandon(self) -> None:
        """In a forked process, which has none of the threads: close its copy of the socket."""
        self._server.socket.close()

    def close(self) -> None:
        self._watchdog.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _ok_if(good: bool) -> HTTPStatus:
    return HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE


def _respond(
    start: StartResponse, status: HTTPStatus, body: dict[str, object] | bytes, kind: str = _JSON
) -> list[bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode() + b"\n"
    headers = [("Content-Type", kind), ("Content-Length", str(len(data))), ("Cache-Control", "no-store")]
    start(f"{status.value} {status.phrase}", headers)
    return [data]
