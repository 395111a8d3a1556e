"""A bucket of S3-style storage on loopback, and a way to it on which answers are lost."""

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3

from daemon.data_set_store import BucketSettings
from tests.integration import servers
from tests.waiting import PATIENCE_S

HOST = "127.0.0.1"
ACCESS_KEY, SECRET_KEY = "AKIATESTTESTTESTTEST", "c2VjcmV0LXNlY3JldC1zZWNyZXQ"
NAME = "data-sets"
_OF_A_HOP = ("connection", "transfer-encoding", "date", "server")
Spoils = Callable[[str, str], bool]
"""Whether something happens to a request, by its method and path."""


@dataclass
class Spoiler:
    """What the way to the storage does: it loses answers, or keeps requests from the storage."""

    loses_answer: Spoils = lambda method, path: False
    keeps_back: Spoils = lambda method, path: False
    requests: list[tuple[str, str]] = field(default_factory=list)
    """(method, path), as they came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """`settings` lead to it directly, `spoiled` over a way that `spoiler` makes worse."""

    settings: BucketSettings
    spoiled: BucketSettings
    spoiler: Spoiler

    def names(self) -> list[str]:
        """Of all objects."""
        s3: Any = boto3.client(
            "s3",
            endpoint_url=self.settings.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=NAME)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]


@contextmanager
def bucket(folder: Path) -> Iterator[Bucket]:
    """An empty bucket; keys are in a file in `folder`."""
    credentials = folder / "credentials"
    credentials.write_text(
        f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    )
    with servers.s3() as server:
        made = http.client.HTTPConnection(HOST, server.port, timeout=PATIENCE_S)
        made.request("PUT", f"/{NAME}")
        assert made.getresponse().status == 200
        made.close()
        spoiler = Spoiler()
        with _way(server.port, spoiler) as port:
            yield Bucket(
                settings=_settings(server.port, credentials),
                spoiled=_settings(port, credentials),
                spoiler=spoiler,
            )


def _settings(port: int, credentials: Path) -> BucketSettings:
    return BucketSettings(
        name=NAME,
        prefix="eu/production",
        endpoint_url=f"http://{HOST}:{port}",
        region="us-east-1",
        credentials_file=credentials,
    )


@contextmanager
def _way(to: int, spoiler: Spoiler) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            spoiler.requests.append((self.command, self.path))
            self.close_connection = True
            if spoiler.keeps_back(self.command, self.path):
                return
            with contextlib.closing(http.client.HTTPConnection(HOST, to, timeout=PATIENCE_S)) as there:
                there.request(self.command, self.path, body, dict(self.headers))
                answer = there.getresponse()
                content = answer.read()
            if spoiler.loses_answer(self.command, self.path):
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in (*_OF_A_HOP, "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

        def log_message(self, *_: object) -> None:
            pass

    relay = ThreadingHTTPServer((HOST, 0), Handler)
    thread = threading.Thread(target=relay.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(relay.server_address[1])
    finally:
        relay.shutdown()
        relay.server_close()
        thread.join(PATIENCE_S)
