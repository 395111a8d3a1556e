"""The web process under bytes that are no HTTP, or two requests to two readers: clear refusals, and it lives on."""

import re
import socket
from collections.abc import Iterator

import pytest

from tests.control_plane.api.web_process import lives, web_process
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.processes]

ADDRESS = b"Host: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with web_process(tmp_path_factory.mktemp("raw")) as port:
        yield port


def sent(port: int, request: bytes) -> bytes:
    """Everything that comes in answer until the connection ends. The request's end is told, as a client's that left."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        try:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it refused before it had read all
        parts = []
        try:
            while part := client.recv(65_536):
                parts.append(part)
        except ConnectionResetError:
            pass
        return b"".join(parts)


def status(answer: bytes) -> int:
    """Of the first answer; 0 = the connection ended without one."""
    match = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    return int(match[1]) if match else 0


POST = b"POST /v1/sign-in HTTP/1.1\r\n" + ADDRESS + b"Content-Type: application/json\r\n"
# Answered by 401 where it is read at all.
HIDDEN = b"GET /v1/tenants HTTP/1.1\r\n" + ADDRESS + b"\r\n"
REFUSED: dict[str, bytes] = {
    "bytes": bytes(range(256)) * 8 + b"\r\n\r\n",
    "a greeting of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200 + b"\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "a version that is none": b"GET /healthz HTTP/9.9\r\n" + ADDRESS + b"\r\n",
    "a method that is none": b"G\x00T / HTTP/1.1\r\n" + ADDRESS + b"\r\n",
    "an address too long": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + ADDRESS + b"\r\n",
    "a header too long": b"GET / HTTP/1.1\r\n" + ADDRESS + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n",
    "headers without end": b"GET / HTTP/1.1\r\n" + ADDRESS + b"X-A: b\r\n" * 5_000 + b"\r\n",
    "another's host": b"GET /v1/tenants HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "two hosts": b"GET /v1/tenants HTTP/1.1\r\n" + ADDRESS + b"Host: evil.example\r\n\r\n",
    "a header without colon": b"GET / HTTP/1.1\r\n" + ADDRESS + b"nonsense\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\n" + ADDRESS + b"X-A : b\r\n\r\n",
    "a header on two lines": b"GET / HTTP/1.1\r\n" + ADDRESS + b"X-A: b\r\n c\r\n\r\n",
    "a NUL in a header": b"GET / HTTP/1.1\r\n" + ADDRESS + b"X-A: b\0c\r\n\r\n",
    "a bare return": b"GET / HTTP/1.1\r\n" + ADDRESS + b"X-A: b\rX-B: c\r\n\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}" + HIDDEN,
    "a length list": POST + b"Content-Length: 2, 60\r\n\r\n{}" + HIDDEN,
    "a length with a sign": POST + b"Content-Length: +2\r\n\r\n{}" + HIDDEN,
    "a length below 0": POST + b"Content-Length: -1\r\n\r\n{}" + HIDDEN,
    "a length of other digits": POST + "Content-Length: ٢\r\n\r\n{}".encode() + HIDDEN,
    "length and chunks": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks twice": POST
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + HIDDEN,
    "chunks not last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks misspelt": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks in an old version": POST.replace(b"1.1", b"1.0")
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + HIDDEN,
    "a chunk's size that is none": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a chunk too long": POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_no_request_or_could_be_two_is_refused_and_nothing_behind_it_is_read(
    name: str, port: int
) -> None:
    answer = sent(port, REFUSED[name])
    assert 400 <= status(answer) < 500 or status(answer) in (501, 505), (name, answer[:300])
    assert b" 401 " not in answer, "the request that hides behind was read"
    assert lives(port)


@pytest.mark.parametrize(
    "whole",
    [
        POST + b"Content-Length: 200\r\n\r\n" + b'{"email": "a@b.example", "password": "x"',
        POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n{}",
    ],
    ids=["length", "chunk", "huge chunk"],
)
def test_requests_that_end_in_the_middle_harm_nobody(whole: bytes, port: int) -> None:
    for end in (1, 5, 20, 40, len(POST), len(whole)):
        assert status(sent(port, whole[:end])) in (0, 400)
    assert lives(port)
