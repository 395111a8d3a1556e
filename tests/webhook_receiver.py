"""An endpoint of webhooks over TLS on this machine, which answers as a test says and keeps what it got."""

import contextlib
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests import certificates
from tests.waiting import wait_until


@dataclass(frozen=True, kw_only=True)
class Got:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What to answer with."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Script = Callable[[Got], Reply | None]
"""What to answer to a request; None: nothing, and the connection stays open until the receiver ends."""


class Receiver:
    """`script` may be exchanged at any time."""

    def __init__(self, host: str, ca_file: Path, port: int) -> None:
        self.host = host
        self.ca_file = ca_file
        self.port = port
        self.got: list[Got] = []
        self.script: Script = lambda got: Reply()
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}/hook"

    def wait_for(self, count: int) -> None:
        wait_until(f"{count} requests", lambda: len(self.got) >= count, instead=lambda: self.got)


@contextmanager
def receiver(host: str = "127.0.0.1", *, trusted: bool = True) -> Iterator[Receiver]:
    """An endpoint at this address. `trusted`: whether its certificate is of the authority in `ca_file`."""
    with tempfile.TemporaryDirectory(prefix="webhooks-") as folder:
        ca = certificates.authority("webhooks")
        files = certificates.write(
            Path(folder),
            "broker-1",
            ca=ca if trusted else certificates.authority("another"),
            believed=[ca],
            hosts=[host, "localhost", "hooks.example"],
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate_file, files.key_file)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                got = Got(path=self.path, headers=dict(self.headers.items()), body=body)
                made.got.append(got)
                reply = made.script(got)
                if reply is None:
                    made.ended.wait()
                    return
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            def do_GET(self) -> None:
                made.got.append(Got(path=f"GET {self.path}", headers={}, body=b""))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self) -> tuple[Any, Any]:
                connection, address = super().get_request()
                # The handshake comes with the first read, on the connection's own thread.
                return context.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                ), address

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Callers that hang up, and those that refuse the certificate, are what tests are about."""

            def shutdown_request(self, request: Any) -> None:
                with contextlib.suppress(OSError):
                    super().shutdown_request(request)

        server = Server((host, 0), Handler)
        made = Receiver(host, files.ca_file, int(server.server_address[1]))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.ended.set()
            server.shutdown()
            server.server_close()
            thread.join()
