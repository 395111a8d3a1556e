"""The HTTP listener of a broker: /healthz, /readyz and /metrics, on a thread of its own."""

import json
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

_JSON = "application/json"
_STALL_S = 5.0
"""A loop that has not turned for this long is not healthy."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    timeout = 5

    def log_message(self, format: str, *args: object) -> None:
        """Health checks are not worth a line each."""


class HttpListener:
    """Serves from construction until `close`. The callables are read from its threads: they must only look."""

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        *,
        not_ready: Callable[[], str],
        loop_age_s: Callable[[], float],
    ) -> None:
        self._registry, self._not_ready, self._loop_age_s = registry, not_ready, loop_age_s
        self._server = make_server(host, port, self._answer, server_class=_Server, handler_class=_Quiet)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)
        self._thread.start()

    def _answer(self, environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environment.get("PATH_INFO", "")
        if environment.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return _respond(start, "405 Method Not Allowed", _JSON, {"error": "only GET is offered"})
        if path == "/healthz":
            age = self._loop_age_s()
            healthy = age < _STALL_S
            status = "200 OK" if healthy else "503 Service Unavailable"
            return _respond(start, status, _JSON, {"healthy": healthy, "loop_age_s": round(age, 3)})
        if path == "/readyz":
            reason = self._not_ready()
            status = "503 Service Unavailable" if reason else "200 OK"
            return _respond(start, status, _JSON, {"ready": not reason, "reason": reason})
        if path == "/metrics":
            return _respond(start, "200 OK", CONTENT_TYPE_LATEST, _exposition(self._registry))
        return _respond(start, "404 Not Found", _JSON, {"error": "there are /healthz, /readyz and /metrics"})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _exposition(registry: CollectorRegistry) -> bytes:
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


def _respond(start: StartResponse, status: str, kind: str, body: dict[str, object] | bytes) -> list[bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode() + b"\n"
    start(status, [("Content-Type", kind), ("Content-Length", str(len(data)))])
    return [data]
