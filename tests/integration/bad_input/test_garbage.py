"""Bytes that are no protocol of ours, on every port of a broker."""

import errno
import random
import socket
import ssl
from collections.abc import Callable

import pytest

from local.layout import BrokerSpec
from tests.integration.brokers import Brokers
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("unharmed")]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes(3) + b"\x04" + bytes(5)
LARGEST = b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(1 << 20)
UNDECODABLE = b"\x00\x00\x04\x01\x04\x00\x00\x00\x01\xff\xff\xff\xff"
PORTS: dict[str, Callable[[BrokerSpec], str]] = {
    "client": lambda spec: spec.client_address,
    "internal": lambda spec: spec.internal_address,
    "peer": lambda spec: spec.peer_address,
    "http": lambda spec: spec.http_address,
}


def tls_hello() -> bytes:
    """What a TLS client says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    client = context.wrap_bio(incoming, outgoing, server_hostname="broker")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "one byte": b"\x00",
    "random": random.Random(7).randbytes(100_000),
    "zeros": bytes(1 << 20),
    "text without an end": b"a" * (1 << 20),
    "HTTP/1.1": b"POST /penstock.v1.Log/Produce HTTP/1.1\r\nHost: broker\r\nContent-Length: 4\r\n\r\nbody",
    "HTTP/1.1 with endless headers": b"GET /healthz HTTP/1.1\r\n" + b"X-More: and more\r\n" * 50_000,
    "HTTP/0.9": b"GET /healthz\r\n",
    "a length that is none": b"POST /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "TLS": tls_hello(),
    "HTTP/2 without settings": PREFACE,
    "HTTP/2 with a frame of the largest size": PREFACE + SETTINGS + LARGEST,
    "HTTP/2 with headers that do not decode": PREFACE + SETTINGS + UNDECODABLE,
    "HTTP/2 with data on no stream": PREFACE + SETTINGS + b"\x00\x00\x04\x00\x00\x00\x00\x00\x05abcd",
    "HTTP/2 with pings": PREFACE + SETTINGS + (b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + bytes(8)) * 10_000,
    "the magic of peers": b"PSTP" + bytes(1 << 20),
    "a hello of peers": b"PSTP\x02\x01\x00\x01\x00\x00m" + bytes(1 << 20),
    "a hello of peers that is too long": b"PSTP\x01\x01" + b"\xff" * (1 << 20),
    "a frame without HTTP/2": b"PS\x01\x01" + bytes(8),
    "a Kafka request": b"\x00\x00\x00\x10\x00\x12\x00\x00\x00\x00\x00\x01\x00\x06client",
}  # fmt: skip


def say(address: str, said: bytes) -> bytes:
    """Say it, end the sending direction, and listen until the peer ends the other."""
    host, _, port = address.rpartition(":")
    heard = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as peer:
        try:
            peer.sendall(said)
            peer.shutdown(socket.SHUT_WR)
            while part := peer.recv(65536):
                heard += part
        except OSError as error:
            # Hung up on before all was said, which is an answer.
            assert error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)
    return heard


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("port", PORTS)
def test_garbage_is_hung_up_on(cluster: Brokers, port: str, garbage: str) -> None:
    for broker in cluster.spec.brokers:
        heard = say(PORTS[port](broker), GARBAGE[garbage])
        assert b"Traceback" not in heard


def test_many_connections_that_say_nothing_are_borne(cluster: Brokers) -> None:
    silent = []
    try:
        for address in (PORTS[port](broker) for port in PORTS for broker in cluster.spec.brokers):
            host, _, number = address.rpartition(":")
            silent += [socket.create_connection((host, int(number)), timeout=PATIENCE_S) for _ in range(20)]
        for broker in cluster.spec.brokers:
            assert b"200 OK" in say(broker.http_address, b"GET /healthz HTTP/1.0\r\n\r\n")
    finally:
        for connection in silent:
            connection.close()


def test_a_client_that_goes_away_in_mid_frame_is_borne(cluster: Brokers) -> None:
    host, _, port = cluster.bootstrap[0].rpartition(":")
    for cut in (10, len(PREFACE), len(PREFACE) + 5, len(PREFACE) + 12):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as peer:
            peer.sendall((PREFACE + SETTINGS + b"\x00\x40\x00\x00" + bytes(5))[:cut])
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
