"""No secret is to be found where it has no business: not in logs, metrics, process lists or stored files."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from data_plane.contract import admin_pb2
from data_plane.contract import methods as internal
from local.provisioning import new_key
from penstock import Unauthenticated
from penstock.contract import methods
from penstock.contract.api_keys import parse_api_key
from penstock.contract.v1 import log_pb2 as pb
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.raw_wire import ProduceWire, Refused, batch_of, call, with_key
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

CANARY = b"canary-in-a-message"
CERTIFIED = ("broker-1", "broker-2", "broker-3", "operator", "control-plane", "runner")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    path = tmp_path_factory.mktemp("cluster")
    with brokers(path, settings={"log_level": "debug"}) as running:
        yield running


def use_everything(cluster: Brokers) -> dict[str, str]:
    """Right and wrong credentials in every place that takes one; the secrets by name."""
    tenant = cluster.tenant("tn_canary")
    revoked = cluster.another_key(tenant.name)
    unknown = Tenant(name=tenant.name, api_key=new_key().reveal())
    topic_id = cluster.create_topic(tenant, "canary")
    with cluster.client(tenant) as client, client.producer() as producer:
        producer.send("canary", CANARY).result(PATIENCE_S)
    cluster.revoke(revoked)
    for wrong in (revoked, unknown):
        with cluster.client(wrong) as client, pytest.raises(Unauthenticated):
            client.topics()
    for broker in cluster.spec.brokers:
        with ProduceWire(broker.client_address, unknown.api_key) as wire:
            wire.put([(topic_id, 0, batch_of(CANARY))])
            wire.end()
        for who in (cluster.issued("runner"), with_key(tenant.api_key)):
            with pytest.raises(Refused):
                call(broker.internal_address, internal.DESCRIBE_CLUSTER, b"", admin_pb2.Outcome, who)
        with pytest.raises(Refused):
            call(broker.client_address, methods.METADATA, b"", pb.MetadataResponse, cluster.operator)
    keys = {"key": tenant, "revoked key": revoked, "unknown key": unknown}
    return {
        **{f"key of {name}": key_of(cluster, name) for name in CERTIFIED},
        "pepper": cluster.directory.pepper_file.read_text().strip(),
        **{name: parse_api_key(key.api_key).secret for name, key in keys.items()},
    }


def key_of(cluster: Brokers, name: str) -> str:
    """A line of the key, as no other file should have it."""
    return cluster.directory.certificates.files(name).key_file.read_text().splitlines()[2]


def files_that_hold(folder: Path, secret: bytes) -> list[str]:
    return [
        str(file.relative_to(folder))
        for file in sorted(folder.rglob("*"))
        if file.is_file() and secret in file.read_bytes()
    ]


def test_secrets_are_nowhere_but_in_the_files_that_were_made_for_them(cluster: Brokers) -> None:
    secrets = use_everything(cluster)
    texts = {f"output of broker {number}": cluster.output(number) for number in cluster.ids}
    for number in cluster.ids:
        for path in ("/metrics", "/healthz", "/readyz"):
            texts[f"{path} of broker {number}"] = cluster.http(number, path)[1]
        process = psutil.Process(cluster.pid(number))
        texts[f"command line of broker {number}"] = " ".join(process.cmdline())
        texts[f"environment of broker {number}"] = str(process.environ())
    found = [
        (name, place) for name, secret in secrets.items() for place, text in texts.items() if secret in text
    ]
    assert found == []
    assert all(CANARY.decode() not in text for text in texts.values())

    homes = {"pepper": ["pepper"]} | {
        f"key of {name}": [f"certificates/{name}-key.pem"] for name in CERTIFIED
    }
    for name, secret in secrets.items():
        assert files_that_hold(cluster.directory.path, secret.encode()) == homes.get(name, []), name
    for file in (
        *(cluster.directory.certificates.files(name).key_file for name in CERTIFIED),
        cluster.directory.pepper_file,
        cluster.directory.metadata_file,
    ):
        assert file.stat().st_mode & 0o077 == 0, file
    segments = [file for n in cluster.ids for file in cluster.directory.log_directory(n).rglob("*.log")]
    assert segments
    assert all(file.stat().st_mode & 0o077 == 0 for file in segments)


def test_the_search_for_secrets_finds_what_is_there(cluster: Brokers) -> None:
    """The check above would see a secret: a message's text does rest in the log directories."""
    use = b"found-by-the-search"
    tenant = cluster.tenant("tn_search")
    cluster.create_topic(tenant, "searched")
    with cluster.client(tenant) as client, client.producer(compression="none") as producer:
        producer.send("searched", use).result(PATIENCE_S)
    assert files_that_hold(cluster.directory.path, use)
