"""A little HTTP server that answers as a test says, and keeps what it was asked."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    connection: int
    """Which connection it came on, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to answer. `cut` ends the connection without an answer, once the request is there."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    wait_s: float = 0.0
    close: bool = False
    """End the connection after the answer without saying so."""


Answering = Callable[[Asked], Answer]


class LittleServer:
    """Its address, and the requests so far."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []


@contextmanager
def little_server(answering: Answering, certificate: tuple[str, str] | None = None) -> Iterator[LittleServer]:
    """A server on a free port while the block runs; with a certificate (file, key file) over TLS."""
    released = threading.Event()
    connections: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            connections.append(1)
            self.number = len(connections)

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            asked = Asked(
                method=self.command,
                path=self.path,
                headers=dict(self.headers.items()),
                body=body,
                connection=self.number,
            )
            server.asked.append(asked)
            given = answering(asked)
            if given.wait_s:
                released.wait(given.wait_s)
            if given.cut:
                self.close_connection = True
                return
            raw = given.body if isinstance(given.body, bytes) else json.dumps(given.body).encode()
            if given.body is None:
                raw = b""
            if "Date" in given.headers:
                self.send_response_only(given.status)
            else:
                self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in given.headers:
                self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)
            self.close_connection = given.close or self.close_connection

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    http.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients here hang up on purpose
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        http.socket = context.wrap_socket(http.socket, server_side=True)
        scheme = "https"
    server = LittleServer(f"{scheme}://127.0.0.1:{http.server_address[1]}")
    thread = threading.Thread(target=lambda: http.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield server
    finally:
        released.set()
        http.shutdown()
        thread.join()
        http.server_close()
