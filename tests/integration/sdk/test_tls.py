"""TLS on the client listener: the key goes out only to a broker whose certificate the given authorities signed."""

from __future__ import annotations

import asyncio
import codecs
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

import penstock
import penstock.asyncio
from penstock.transport.authorities import tls_context
from tests.integration.sdk.fake_brokers import FakeBrokers
from tests.waiting import PATIENCE_S, wait_until


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {key} -out {certificate}"
        f" -days 2 -subj /CN={name} -addext subjectAltName=IP:127.0.0.1".split(),
        check=True,
        capture_output=True,
    )
    return certificate, key


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    return make_certificate(tmp_path, "broker")


@pytest.fixture
def brokers(certificate: tuple[Path, Path]) -> Iterator[FakeBrokers]:
    file, key = certificate
    secret = grpc.ssl_server_credentials([(key.read_bytes(), file.read_bytes())])
    with FakeBrokers(count=2, api_key="key", credentials=secret) as running:
        running.act(lambda cluster: cluster.create("orders", 1))
        yield running


def test_both_surfaces_speak_tls_to_the_authorities_they_are_given(
    brokers: FakeBrokers, certificate: tuple[Path, Path]
) -> None:
    """The second file begins with a byte order mark, as some editors write it, and has a remark of other letters."""
    ca_file = str(certificate[0])
    marked = certificate[0].with_suffix(".marked")
    marked.write_bytes(certificate[0].read_bytes().join([codecs.BOM_UTF8, "\n# B\u00fcro\n".encode()]))
    assert len(tls_context(str(marked)).get_ca_certs()) == 1
    with penstock.Client(bootstrap=brokers.bootstrap, api_key="key", ca_file=ca_file) as client:
        assert client.producer().send("orders", b"x").result(PATIENCE_S).offset == 0

    async def scene() -> None:
        async with penstock.asyncio.Client(brokers.bootstrap, api_key="key", ca_file=str(marked)) as client:
            assert (await (await client.producer().send("orders", b"y"))).offset == 1

    asyncio.run(scene())


def test_a_broker_of_other_authorities_never_hears_the_key(brokers: FakeBrokers, tmp_path: Path) -> None:
    other, _ = make_certificate(tmp_path, "other")
    with penstock.Client(bootstrap=brokers.bootstrap, api_key="key", ca_file=str(other)) as client:
        producer = client.producer(max_block_ms=1_000)
        with pytest.raises(penstock.BrokerUnavailable):
            producer.send("orders", b"x")
    assert brokers.request_ids == []


def test_a_file_of_authorities_that_is_not_there_is_named(brokers: FakeBrokers) -> None:
    with (
        penstock.Client(bootstrap=brokers.bootstrap, api_key="key", ca_file="/nowhere/ca.pem") as client,
        pytest.raises(penstock.ConfigurationError, match=r"ca_file: /nowhere/ca\.pem: No such file"),
    ):
        client.topics()


def why(bootstrap: list[str], ca_file: str | None) -> tuple[str, str]:
    """Why no broker answers, by both surfaces."""
    with (
        penstock.Client(bootstrap=bootstrap, api_key="key", ca_file=ca_file) as client,
        pytest.raises(penstock.BrokerUnavailable) as blocking,
    ):
        client.topics(timeout=1.5)

    async def scene() -> str:
        async with penstock.asyncio.Client(bootstrap, api_key="key", ca_file=ca_file) as client:
            with pytest.raises(penstock.BrokerUnavailable) as awaited:
                await client.topics(timeout=1.5)
        return awaited.value.message

    return blocking.value.message, asyncio.run(scene())


def wait_until_told(text: str, bootstrap: list[str], ca_file: str | None) -> None:
    """Both surfaces say it once an attempt has failed in their time; on a busy machine none may have ended by then."""
    last: list[str] = []

    def told() -> bool:
        last[:] = why(bootstrap, ca_file)
        return all(text in said for said in last)

    wait_until(f"they say {text!r}", told, instead=lambda: last)


def test_a_client_without_tls_is_told_that_the_listener_may_speak_it(brokers: FakeBrokers) -> None:
    wait_until_told("if it speaks TLS, set ca_file", brokers.bootstrap, None)


def test_a_client_with_tls_is_told_that_the_listener_does_not_speak_it(
    certificate: tuple[Path, Path],
) -> None:
    with FakeBrokers(count=1, api_key="key") as plain:
        wait_until_told("it does not speak TLS, which ca_file asks for", plain.bootstrap, str(certificate[0]))


def test_a_client_of_other_authorities_is_told_that_the_certificate_is_not_trusted(
    brokers: FakeBrokers, tmp_path: Path
) -> None:
    other, _ = make_certificate(tmp_path, "other")
    wait_until_told("its certificate is not trusted", brokers.bootstrap, str(other))
