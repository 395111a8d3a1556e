"""TLS on the client listener, and what may not be listened on without it."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import grpc
import pytest

from penstock import BrokerUnavailable, Client
from penstock.contract import methods
from penstock.contract.v1 import log_pb2 as pb
from tests.integration.brokers import BROKER, Brokers, Tenant, brokers
from tests.integration.bystander import Bystander
from tests.integration.operations.certificates import Certificate, make_certificate
from tests.integration.raw_wire import Refused, call, with_key
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

EXIT_CANNOT_START = 2


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificates"), "broker")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("cluster"), settings=certificate.settings) as running:
        yield running


@pytest.fixture(scope="module")
def bystander(cluster: Brokers) -> Iterator[Bystander]:
    """Produces and consumes over TLS all the while."""
    with Bystander(cluster) as watching:
        yield watching


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_secure")


def test_clients_produce_and_consume_over_tls_on_every_broker(
    cluster: Brokers, bystander: Bystander, tenant: Tenant
) -> None:
    for first in cluster.ids:
        others = [number for number in cluster.ids if number != first]
        cluster.create_topic(tenant, f"led-by-{first}", assignments=[[first, *others]])
        with cluster.client(tenant) as client, client.producer() as producer:
            assert producer.send(f"led-by-{first}", b"secret").result(PATIENCE_S).offset == 0
            with client.consumer([f"led-by-{first}"]) as consumer:
                assert [message.value for message in consumer.poll(timeout=PATIENCE_S)] == [b"secret"]
    bystander.check()


def test_plaintext_is_refused_where_tls_is_spoken(
    cluster: Brokers, bystander: Bystander, tenant: Tenant
) -> None:
    for address in cluster.bootstrap:
        with pytest.raises(Refused) as refused:
            call(address, methods.METADATA, b"", pb.MetadataResponse, with_key(tenant.api_key))
        assert refused.value.status is grpc.StatusCode.UNAVAILABLE
    began = time.monotonic()
    with (
        Client(bootstrap=cluster.bootstrap, api_key=tenant.api_key) as client,
        pytest.raises(BrokerUnavailable, match=cluster.bootstrap[0]),
    ):
        client.topics(timeout=2)
    assert time.monotonic() - began < 60
    bystander.check()


def test_a_certificate_of_another_authority_is_not_spoken_to(
    cluster: Brokers, bystander: Bystander, tenant: Tenant, tmp_path: Path
) -> None:
    other = str(make_certificate(tmp_path, "other").certificate)
    with (
        Client(bootstrap=cluster.bootstrap, api_key=tenant.api_key, ca_file=other) as client,
        pytest.raises(BrokerUnavailable),
    ):
        client.topics(timeout=2)
    bystander.check()


REFUSED: dict[str, tuple[Mapping[str, str], str]] = {
    "clients in plaintext on all addresses": (
        {"client_listen": "0.0.0.0:0", "client_advertised": "127.0.0.1:1"},
        "client_listen: 0.0.0.0 is not a loopback address; API keys need TLS there",
    ),
    "clients in plaintext on all IPv6 addresses": (
        {"client_listen": "[::]:0", "client_advertised": "127.0.0.1:1"},
        "is not a loopback address; API keys need TLS there",
    ),
    "clients in plaintext on a name": (
        {"client_listen": "broker.example.com:0"},
        "client_listen: broker.example.com is not a loopback address; API keys need TLS there",
    ),
    "Admin calls at an address that none can use": (
        {"internal_listen": "0.0.0.0:0"},
        "internal_listen: 0.0.0.0 is no address that Admin calls can use; give internal_advertised",
    ),
    "other brokers at an address that none can use": (
        {"peer_listen": "[::]:0"},
        "peer_listen: :: is no address that other brokers can use; give peer_advertised",
    ),
    "a certificate without its key": (
        {"tls_certificate_file": "/nowhere/broker.pem"},
        "tls_key_file: missing; give both the certificate and its key or none",
    ),
    "a certificate that is not there": (
        {"tls_certificate_file": "/nowhere/broker.pem", "tls_key_file": "/nowhere/broker.key"},
        "/nowhere/broker.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_broker_does_not_start_where_secrets_would_travel_in_plaintext(tmp_path: Path, case: str) -> None:
    settings, reason = REFUSED[case]
    cluster = Brokers(tmp_path / "cluster", 1, settings, BROKER)
    try:
        cluster.launch(1)
        assert cluster.status(1) == EXIT_CANNOT_START
    finally:
        cluster.end()
    (line,) = cluster.output(1).splitlines()
    assert line.startswith("penstock-broker: ")
    assert reason in line
    assert not any(cluster.directory.log_directory(1).iterdir())
