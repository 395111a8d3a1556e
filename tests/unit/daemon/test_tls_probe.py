"""Every way in which a server of another maker cannot be called is told by its own word: stand-ins that fail so."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from daemon.tls import IdentityConfig
from daemon.tls_probe import Failure, Protocol, TlsFiles, failure
from tests.certificates import authority, write

POSTGRESQL, REDIS, ETCD = Protocol.POSTGRESQL, Protocol.REDIS, Protocol.ETCD
TLS_BEGINS = 0x16
GOOD = {POSTGRESQL: b"R\0\0\0\x08\0\0\0\0", REDIS: b"+PONG\r\n", ETCD: b"HTTP/1.0 200 OK\r\n\r\n"}
REFUSALS = {
    POSTGRESQL: b"E\0\0\0\x20SFATAL\0Mpassword authentication failed\0\0",
    REDIS: b"-NOAUTH Authentication required.\r\n",
    ETCD: b"HTTP/1.0 401 Unauthorized\r\n\r\n",
}
GREETINGS = {
    POSTGRESQL: b"\0\0\0\x29\0\x03\0\0user\0penstock\0database\0postgres\0\0",
    REDIS: b"PING\r\n",
    ETCD: b"GET /health HTTP/1.0\r\n\r\n",
}
TO_HTTP = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"

Answers = Callable[[socket.socket], None]


@contextmanager
def serving(answers: Answers) -> Iterator[int]:
    """A server of one connection at a time; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        answers(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def in_plain_text(reply: bytes, to_tls: bytes = b"") -> Answers:
    """`to_tls`: what it says to the beginning of TLS before it hangs up."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(to_tls if connection.recv(1_024)[:1] == bytes([TLS_BEGINS]) else reply)

    return answer


def over_tls(
    files: IdentityConfig,
    protocol: Protocol,
    reply: bytes,
    *,
    demands: bool = False,
    heard: list[bytes] | None = None,
) -> Answers:
    """`demands`: a certificate of its caller. `heard` gets all that its caller said."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate_file, files.key_file)
    if demands:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files.ca_file)

    def answer(connection: socket.socket) -> None:
        if protocol is POSTGRESQL:
            connection.recv(8)
            connection.sendall(b"S")
        with context.wrap_socket(connection, server_side=True) as encrypted:
            said = encrypted.recv(1_024)
            encrypted.sendall(reply)
            while more := encrypted.recv(1_024):
                said += more
            if heard is not None:
                heard.append(said)

    return answer


def probe(port: int, protocol: Protocol, files: TlsFiles | None, timeout_s: float = 30.0) -> Failure | None:
    return failure("127.0.0.1", port, protocol, files, timeout_s=timeout_s, now=datetime.now(UTC))


def reason(port: int, protocol: Protocol, files: TlsFiles | None, says: str) -> str:
    """The word; its message says where, and `says`."""
    failed = probe(port, protocol, files)
    assert failed is not None
    assert failed.message.startswith(f"127.0.0.1:{port}: ") and says in failed.message
    return failed.reason


def caller(files: IdentityConfig, *, shows: bool = False) -> TlsFiles:
    if not shows:
        return TlsFiles(ca_file=files.ca_file)
    return TlsFiles(ca_file=files.ca_file, certificate_file=files.certificate_file, key_file=files.key_file)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> IdentityConfig:
    return write(tmp_path_factory.mktemp("good"), "broker-1")


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("replies", [GOOD, REFUSALS], ids=["good", "refusal"])
def test_a_server_that_answers_can_be_called_whatever_it_answers(
    protocol: Protocol, replies: dict[Protocol, bytes], good: IdentityConfig
) -> None:
    for shows in (False, True):
        heard: list[bytes] = []
        with serving(over_tls(good, protocol, replies[protocol], demands=shows, heard=heard)) as port:
            assert probe(port, protocol, caller(good, shows=shows)) is None
        assert heard == [GREETINGS[protocol]], "it is greeted once"
    with serving(in_plain_text(replies[protocol])) as port:
        assert probe(port, protocol, None) is None


@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize(
    ("certificate", "word", "says"),
    [
        ({"hosts": ["db.example.com"]}, "name_mismatch", "its certificate is not for 127.0.0.1"),
        ({"begins_in": timedelta(days=-5)}, "expired", "has expired"),
        ({"begins_in": timedelta(days=1)}, "not_yet_valid", "is not valid yet"),
        ({"ca": authority(name="another")}, "wrong_authority", "no CA in ca_file signed its certificate"),
    ],
    ids=["name", "expired", "early", "authority"],
)
def test_what_is_wrong_with_the_servers_certificate_is_told(
    protocol: Protocol,
    certificate: dict[str, Any],
    word: str,
    says: str,
    tmp_path: Path,
    good: IdentityConfig,
) -> None:
    bad = write(tmp_path, "broker-2", **certificate)
    with serving(over_tls(bad, protocol, GOOD[protocol])) as port:
        assert reason(port, protocol, caller(good), says) == word


@pytest.mark.parametrize("protocol", Protocol)
def test_a_server_that_demands_a_certificate_says_which_one_it_takes(
    protocol: Protocol, tmp_path: Path, good: IdentityConfig
) -> None:
    foreign = write(tmp_path, "broker-1", ca=authority(name="another"), believed=[authority()])
    with serving(over_tls(good, protocol, GOOD[protocol], demands=True)) as port:
        assert reason(port, protocol, caller(good), "give certificate_file and key_file") == "no_certificate"
        says = "does not accept our certificate (unknown ca)"
        assert reason(port, protocol, caller(foreign, shows=True), says) == "refused_by_server"


def test_a_postgresql_that_asks_for_a_certificate_by_its_own_protocol_is_understood(
    good: IdentityConfig,
) -> None:
    asks = b"E\0\0\0\x40SFATAL\0Mconnection requires a valid client certificate\0\0"
    with serving(over_tls(good, POSTGRESQL, asks)) as port:
        assert reason(port, POSTGRESQL, caller(good), "requires a client certificate") == "no_certificate"


@pytest.mark.parametrize(
    ("protocol", "server", "word", "says"),
    [
        (POSTGRESQL, in_plain_text(b"N"), "plain_text", "turn it on there (ssl = on)"),
        (REDIS, in_plain_text(GOOD[REDIS]), "plain_text", "speaks no TLS at this port; turn it on there"),
        (REDIS, in_plain_text(REFUSALS[REDIS]), "plain_text", "speaks no TLS at this port; turn it on there"),
        (ETCD, in_plain_text(GOOD[ETCD]), "plain_text", "speaks no TLS at this port; turn it on there"),
        (REDIS, in_plain_text(b"", to_tls=b"-ERR unknown command\r\n"), "plain_text", "speaks no TLS at this port ("),
        (POSTGRESQL, in_plain_text(b"S"), "closed", "closed the connection; its log says why"),
        (REDIS, in_plain_text(b""), "closed", "closed the connection; its log says why"),
        (ETCD, in_plain_text(TO_HTTP), "closed", "closed the connection; its log says why"),
    ],
)  # fmt: skip
def test_a_server_that_speaks_no_tls_is_told_from_one_that_hangs_up(
    protocol: Protocol, server: Answers, word: str, says: str, good: IdentityConfig
) -> None:
    with serving(server) as port:
        assert reason(port, protocol, caller(good), says) == word


@pytest.mark.parametrize(
    ("protocol", "reply"),
    [
        (POSTGRESQL, b"Mno pg_hba.conf entry for host, no encryption\0"),
        (POSTGRESQL, b"Mno pg_hba.conf entry for host, SSL off\0"),
        (REDIS, b""),
        (REDIS, b"\x15\x03\x01\0\x02\x02\x46"),
        (ETCD, b""),
        (ETCD, TO_HTTP),
    ],
)
def test_a_server_that_takes_tls_alone_is_told_to_a_caller_in_plain_text(
    protocol: Protocol, reply: bytes
) -> None:
    with serving(in_plain_text(reply)) as port:
        says = "accepts TLS alone; name the files for it in the settings"
        assert reason(port, protocol, None, says) == "plain_text_refused"


@pytest.mark.parametrize("answers_plain", [False, True])
def test_a_server_that_says_nothing_to_tls_is_asked_in_plain_text(
    answers_plain: bool, good: IdentityConfig
) -> None:
    def answer(connection: socket.socket) -> None:
        first = connection.recv(1_024)
        if answers_plain and first == GREETINGS[REDIS]:
            connection.sendall(GOOD[REDIS])
        while connection.recv(1_024):
            pass

    with serving(answer) as port:
        # What is to be answered has time enough; what is not answered is waited for in full.
        failed = probe(port, REDIS, caller(good), timeout_s=2.0 if answers_plain else 0.2)
        assert failed is not None
        assert failed.reason == ("plain_text" if answers_plain else "no_answer")
        if not answers_plain:
            assert "no answer within 0.2 s" in failed.message


def test_where_nothing_listens_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert reason(port, REDIS, None, "check the address, and that it runs") == "unreachable"


def test_what_is_wrong_with_the_callers_own_files_is_told_before_anything_is_called(
    tmp_path: Path, good: IdentityConfig
) -> None:
    ended = write(tmp_path / "ended", "broker-1", begins_in=timedelta(days=-5))
    missing = tmp_path / "missing.pem"
    for files, says in (
        (TlsFiles(ca_file=missing), str(missing)),
        (caller(ended, shows=True), f"{ended.certificate_file}: has ended at "),
        (
            TlsFiles(ca_file=good.ca_file, certificate_file=good.certificate_file, key_file=ended.key_file),
            f"{ended.key_file}: is the key of another certificate",
        ),
    ):
        failed = probe(1, REDIS, files)
        assert failed is not None and (failed.reason, says in failed.message) == ("own_files", True)
