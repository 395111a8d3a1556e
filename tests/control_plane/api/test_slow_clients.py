"""Clients that send or read slowly, or open many connections: others are answered, and they are cut off in time."""

import http.client
import json
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waitress.adjustments import Adjustments

from control_plane import http_server
from control_plane.api.delayed_answers import delay
from control_plane.config import Network
from control_plane.http_server import BODY_BYTES_MAX, CONNECTIONS_OF_ADDRESS_MAX, Server
from tests.control_plane.api.web_process import Web, running_web
from tests.floods import HOSTS, SAYINGS, attack
from tests.waiting import PATIENCE_S, wait_until

HALF_HEADERS = b"GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_BODY = (
    b"POST /v1/sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b'Content-Length: 500\r\n\r\n{"email": "'
)


def connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S, source_address=(source, 0))


def is_cut_off(client: socket.socket) -> bool:
    """Whether the server has ended the connection by now."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def everything(client: socket.socket) -> bytes:
    """What comes until the server ends the connection."""
    parts = []
    try:
        while part := client.recv(65_536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


# -- the whole process ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with running_web(tmp_path_factory.mktemp("slow")) as web:
        yield web


def ask(port: int, method: str, path: str, body: str | None = None) -> int:
    """The status of the answer, over a connection of its own."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, body, headers)
        return connection.getresponse().status


@pytest.mark.slow
@pytest.mark.processes
def test_console_and_rest_answer_while_four_hundred_clients_send_slowly(web: Web) -> None:
    bodies = [connected(web.port, f"127.0.1.{1 + number % 4}") for number in range(200)]
    headers = [connected(web.port, f"127.0.2.{1 + number % 4}") for number in range(200)]
    try:
        for client in bodies:
            client.sendall(HALF_BODY)
        for client in headers:
            client.sendall(HALF_HEADERS)
        for number in range(20):
            assert ask(web.port, "GET", "/sign-in") == 200
            assert ask(web.port, "GET", "/v1/tenants") == 401
            assert ask(web.port, "POST", "/v1/sign-in", f'{{"email": "{number}"}}') == 400
            for client in bodies:
                client.sendall(b"x")
        assert not any(is_cut_off(client) for client in bodies), "they held nobody up, and had their time"
    finally:
        for client in [*bodies, *headers]:
            client.close()
    assert ask(web.port, "GET", "/healthz") == 200


@pytest.mark.slow
@pytest.mark.processes
def test_a_request_at_work_when_the_process_is_told_to_end_is_answered(tmp_path: Path) -> None:
    with running_web(tmp_path) as web:
        account = '{"email": "ann@example.com", "password": "a horse, a battery", "tenant": "acme"}'
        headers = {"Content-Type": "application/json"}
        with (
            closing(sqlite3.connect(web.database, isolation_level=None)) as locking,
            closing(http.client.HTTPConnection("127.0.0.1", web.port, timeout=PATIENCE_S)) as asking,
            connected(web.port, "127.0.0.2") as half,
        ):
            locking.execute("BEGIN IMMEDIATE")
            asking.request("POST", "/v1/sign-up", account, headers)
            half.sendall(HALF_BODY)
            # Connections are taken in their order: both are read before this one is answered.
            assert ask(web.port, "GET", "/healthz") == 200
            web.process.terminate()
            refused(web.port)
            assert web.process.poll() is None, "it waits for the database"
            half.close()
            locking.execute("ROLLBACK")
            assert asking.getresponse().status == 201
        assert web.process.wait(PATIENCE_S) == 0


def refused(port: int) -> None:
    """Return once no connection is taken there any more."""
    while True:
        try:
            connected(port, "127.0.0.3").close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            continue  # it waited to be taken when the socket was closed


# -- the server alone, with shorter times ---------------------------------------------------------------------


def tell_length(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """An application that says how long the body was."""
    length = str(len(environ["wsgi.input"].read())).encode()
    start_response("200 OK", [("Content-Length", str(len(length)))])
    return [length]


def answer_at_length(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """An application whose answers are longer than the server keeps for a client."""
    start_response("200 OK", [("Content-Length", str(64 * 2**20))])
    return (b"x" * 2**20 for _ in range(64))


@contextmanager
def serving(
    application: Callable[..., Any] = tell_length, trusted_proxies: tuple[Network, ...] = ()
) -> Iterator[int]:
    """The port of a server in a thread of this process; it must come to its end when told to."""
    with running(application, trusted_proxies) as server:
        yield server.port


@contextmanager
def running(
    application: Callable[..., Any] = tell_length, trusted_proxies: tuple[Network, ...] = ()
) -> Iterator[Server]:
    """The server itself."""
    server = Server(application, listen="127.0.0.1:0", trusted_proxies=trusted_proxies, descriptors=4_096)
    thread = threading.Thread(target=server.run, args=(1.0,))
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def drip(client: socket.socket) -> None:
    """Send a byte every tenth of a second until the server has ended the connection."""
    client.settimeout(0.1)
    while True:
        try:
            client.sendall(b"x")
            assert client.recv(1) == b"", "it was answered"
            return
        except TimeoutError:
            continue
        except OSError:
            return


def test_headers_that_never_end_are_cut_off_however_steadily_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "HEADERS_S", 0.5)
    with serving() as port, connected(port) as client:
        client.sendall(HALF_HEADERS)
        drip(client)


def test_a_body_that_comes_too_slowly_is_cut_off_however_steadily_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "RECEIVED_S", 0.5)
    with serving() as port, connected(port) as client:
        client.sendall(HALF_BODY.replace(b"500", b"50000"))
        drip(client)


def test_who_does_not_read_the_answer_is_cut_off_and_the_thread_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "WHOLE_S", 0.5)
    monkeypatch.setattr(http_server, "THREADS", 1)
    with serving(answer_at_length) as port, connected(port) as first:
        first.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert first.recv(1), "its answer has begun"
        # Those who wait behind it for all of their own time are cut off too.
        assert any(is_answered(port) for _ in range(20)), "the only thread answers somebody else"


def is_answered(port: int) -> bool:
    with connected(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        try:
            return client.recv(1) != b""
        except ConnectionResetError:
            return False


def test_silence_ends_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "QUIET_S", 1)
    with serving() as port, connected(port) as silent, connected(port) as half:
        half.sendall(HALF_BODY)
        assert everything(silent) == everything(half) == b""


@pytest.mark.parametrize(
    "start",
    [
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1),
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"%x\r\n" % (BODY_BYTES_MAX + 1)
        + b"x" * (BODY_BYTES_MAX + 1),
    ],
    ids=["told", "chunks"],
)
def test_a_body_over_the_limit_is_refused(start: bytes) -> None:
    with serving() as port, connected(port) as client:
        client.sendall(start)
        answer = everything(client)
        assert answer.startswith(b"HTTP/1.1 413 ") and b"text/plain" in answer
    with serving() as port, connected(port) as client:
        client.sendall(start.replace(b"POST / ", b"POST /v1/topics ", 1))
        head, _, body = everything(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ") and b"Content-Type: application/problem+json" in head
    said = json.loads(body)
    assert (said["status"], said["code"]) == (413, "invalid_request") and str(BODY_BYTES_MAX) in said[
        "detail"
    ]


def test_a_body_of_the_limit_is_taken_after_it_was_asked_for() -> None:
    with serving() as port, connected(port) as client:
        client.sendall(
            b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % BODY_BYTES_MAX
        )
        assert client.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"x" * BODY_BYTES_MAX)
        assert everything(client).endswith(b"\r\n\r\n%d" % BODY_BYTES_MAX)


def test_an_address_has_so_many_connections_and_its_oldest_makes_way_for_its_next() -> None:
    with serving() as port:
        held = [connected(port, "127.0.0.2") for _ in range(CONNECTIONS_OF_ADDRESS_MAX)]
        try:
            with connected(port, "127.0.0.2") as more:
                more.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                assert more.recv(1), "it is served"
                assert everything(held[0]) == b""
                assert [n for n, client in enumerate(held) if is_cut_off(client)] == [0]
            assert ask(port, "GET", "/") == 200
        finally:
            for client in held:
                client.close()


@pytest.mark.parametrize("hosts", HOSTS.values(), ids=HOSTS.keys())
@pytest.mark.parametrize("saying", SAYINGS)
def test_a_newcomer_is_answered_while_others_hold_every_connection_and_that_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, saying: str, hosts: tuple[str, ...]
) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 16)
    monkeypatch.setattr(http_server, "CONNECTIONS_OF_ADDRESS_MAX", 4)
    with running() as server, attack(("127.0.0.1", server.port), saying, hosts, 40):
        for _ in range(20):
            assert ask(server.port, "GET", "/") == 200
        if saying != "the preface of HTTP/2 alone":  # it is refused as what is not HTTP/1
            wait_until("some made way", lambda: server.hang_ups.counts.total() > 0)
            assert "the web listener" in server.warnings()["web_connections"]
            told = [record for record in caplog.records if record.name == "penstock.connections"]
            assert [record.__dict__["listener"] for record in told] == ["web"]


def test_a_trusted_proxy_may_have_more_connections() -> None:
    with serving(trusted_proxies=(ip_network("127.0.0.2/32"),)) as port:
        held = [connected(port, "127.0.0.2") for _ in range(CONNECTIONS_OF_ADDRESS_MAX + 20)]
        try:
            held[-1].sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert everything(held[-1]).startswith(b"HTTP/1.1 200 ")
        finally:
            for client in held:
                client.close()


# -- delayed answers, on a clock that the test sets -----------------------------------------------------------

LATE = b"GET /late HTTP/1.1\r\nHost: a\r\n\r\n"
DELAY_S = 60.0


@dataclass
class Clock:
    now: float = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def delay_some(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """An application whose answers for one path are delayed."""
        late = environ["PATH_INFO"] == "/late" and delay(environ, self.now + DELAY_S)
        start_response("200 OK", [("Content-Length", "4")])
        return [b"late" if late else b"told"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(http_server, "time", clock)
    yield clock
    clock.now += 1e6  # a server that a failed test left behind ends


def test_a_delayed_answer_leaves_in_time_and_takes_no_thread(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "THREADS", 1)
    with serving(clock.delay_some) as port, connected(port) as first:
        first.sendall(LATE)
        assert ask(port, "GET", "/") == 200
        clock.now += DELAY_S - 1.0
        assert ask(port, "GET", "/") == 200, "the only thread answers somebody else"
        assert not has_answer(first)
        clock.now += 1.0
        assert body(first) == b"late"
        first.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert body(first) == b"told", "the connection goes on"


def test_the_loop_does_not_look_at_a_connection_whose_answer_is_delayed(clock: Clock) -> None:
    server = SimpleNamespace(active_channels={}, delayed=0, trusted_proxies=())
    one, other = socket.socketpair()
    with other:
        channel = http_server.Channel(server, one, ("127.0.0.1", 1), Adjustments(), map={})
        channel.total_outbufs_len = 5
        assert channel.writable()
        assert channel.delay(clock.now + DELAY_S)
        assert not channel.writable() and not channel.readable()
        clock.now += DELAY_S
        assert channel.writable()
        channel.handle_close()


def body(client: socket.socket) -> bytes:
    """The four bytes behind the headers of one answer."""
    answer = b""
    while not answer.partition(b"\r\n\r\n")[2]:
        part = client.recv(65_536)
        assert part, answer
        answer += part
    return answer.partition(b"\r\n\r\n")[2]


def has_answer(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return False
    finally:
        client.settimeout(PATIENCE_S)


def test_requests_that_came_along_with_a_delayed_one_are_not_made(clock: Clock) -> None:
    with serving(clock.delay_some) as port, connected(port) as client:
        client.sendall(LATE * 50)
        assert ask(port, "GET", "/") == 200
        clock.now += DELAY_S
        assert everything(client).count(b"HTTP/1.1 200") == 1


def test_so_many_answers_are_delayed_and_others_leave_at_once(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "DELAYED_MAX", 0)
    with serving(clock.delay_some) as port, connected(port) as client:
        client.sendall(LATE)
        assert body(client) == b"told"
