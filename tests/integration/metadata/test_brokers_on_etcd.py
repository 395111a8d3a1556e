"""Three brokers whose metadata lies on etcd: they serve, fail over, and outlive the end of their etcd."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from data_plane.broker import metadata
from data_plane.contract import admin_pb2 as pb
from data_plane.log.small_file import SmallFileKind, unpack_small_file
from data_plane.metadata.copying import EPOCHS_AHEAD
from data_plane.metadata.lineage import Witness
from data_plane.node.membership.trusted_store import WITNESS_FILE
from local import etcd_process
from local.free_ports import HOST
from local.layout import ETCD
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.etcd_servers import control
from tests.integration.groups.test_surfaces import Surface
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def proxy() -> Iterator[socket.socket]:
    """The proxy that the environment names for everything, also for this machine: it accepts and answers nothing."""
    with socket.create_server((HOST, 0)) as listening, pytest.MonkeyPatch.context() as patches:
        address = f"http://{HOST}:{listening.getsockname()[1]}"
        for name in ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy"):
            patches.setenv(name, address)
            patches.delenv(name.upper(), raising=False)
        for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY"):
            patches.delenv(name, raising=False)
        listening.setblocking(False)
        yield listening


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, proxy: socket.socket) -> Iterator[Brokers]:
    path = tmp_path_factory.mktemp("etcd") / "cluster"
    with brokers(path, settings={"metering": True}, metadata=ETCD, internal_topics=True) as running:
        yield running


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_kept")


def only(cluster: Brokers, topic_id: bytes) -> pb.DescribedPartition:
    (partition,) = cluster.partitions(topic_id)
    return partition


def send(cluster: Brokers, tenant: Tenant, topic: str, values: range) -> None:
    with cluster.client(tenant) as client, client.producer() as producer:
        for delivery in [producer.send(topic, b"%d" % value) for value in values]:
            delivery.result(PATIENCE_S)


def read(cluster: Brokers, tenant: Tenant, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with cluster.client(tenant) as client, client.consumer(topic) as consumer:
        while len(found) < count and (messages := consumer.poll(max_messages=1_000, timeout=PATIENCE_S)):
            found += [message.value for message in messages]
    return found


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "asyncio"])
def test_nothing_goes_through_the_proxy_of_the_environment(
    cluster: Brokers, tenant: Tenant, proxy: socket.socket, awaited: bool
) -> None:
    surface = Surface(awaited)
    topic = f"direct-{awaited}"
    cluster.create_topic(tenant, topic)
    with surface.client(cluster, tenant) as client:
        assert surface(client.topic(topic)).name == topic
    surface.end()
    with pytest.raises(BlockingIOError):
        proxy.accept()


def test_what_was_acknowledged_outlives_the_leader_and_the_etcd(cluster: Brokers, tenant: Tenant) -> None:
    topic_id = cluster.create_topic(tenant, "kept")
    send(cluster, tenant, "kept", range(100))

    first = only(cluster, topic_id).leader
    cluster.kill(first)
    cluster.wait_until("another leader", lambda: only(cluster, topic_id).leader not in (0, -1, first))
    send(cluster, tenant, "kept", range(100, 200))

    cluster.kill_etcd()
    assert etcd_process.find(cluster.directory) is None
    cluster.start()
    assert etcd_process.find(cluster.directory) is not None
    cluster.wait_until("all in sync", lambda: len(only(cluster, topic_id).in_sync) == 3)
    send(cluster, tenant, "kept", range(200, 300))
    second = only(cluster, topic_id).leader
    cluster.kill(second)
    cluster.wait_until("a third leader", lambda: only(cluster, topic_id).leader not in (0, -1, second))

    assert read(cluster, tenant, "kept", 300) == [b"%d" % value for value in range(300)]
    cluster.start()


def test_the_etcd_is_listed_and_another_store_is_refused(cluster: Brokers) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "penstock.cli", *arguments, "--data", str(cluster.directory.path)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    seen = json.loads(command("--json", "dev", "status").stdout)["metadata"]
    process = etcd_process.find(cluster.directory)
    assert process is not None and cluster.spec.etcd is not None and cluster.spec.etcd.tls
    assert (seen["kind"], seen["state"], seen["pid"]) == ("etcd", "ready", process.pid)
    refused = command("dev", "up", "--bare", "--detach", "--metadata", "sqlite")
    assert refused.returncode != 0
    assert "keeps its metadata in etcd" in refused.stderr


def test_an_etcd_from_an_old_backup_is_not_acted_on_until_an_operator_confirms_it(
    cluster: Brokers, tenant: Tenant, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, etcd = cluster.directory, cluster.spec.etcd
    assert etcd is not None
    backup = directory.path / "backup"
    topic_id = cluster.create_topic(tenant, "rolled")
    send(cluster, tenant, "rolled", range(100))
    files = directory.certificates.files("operator")
    control((etcd.client_address,), "snapshot", "save", str(backup), files=files)
    cluster.create_topic(tenant, "forgotten")
    send(cluster, tenant, "rolled", range(100, 200))
    revision = cluster.admin.describe_cluster().revision
    cluster.wait_until(
        "all remember", lambda: all(seen(cluster, b.id) >= revision for b in cluster.spec.brokers)
    )

    # Under running brokers: they turn read-only.
    cluster.kill_etcd()
    directory.etcd_data.rename(directory.etcd_data.with_name("before"))
    peer = f"https://{etcd.peer_address}"
    control(
        (etcd.client_address,),
        *("snapshot", "restore", str(backup), "--data-dir", str(directory.etcd_data), "--name", "dev"),
        *("--initial-cluster", f"dev={peer}", "--initial-advertise-peer-urls", peer),
    )
    cluster.start_etcd()
    cluster.wait_until(
        "all read-only", lambda: all("went back" in readiness(b.http_port) for b in cluster.spec.brokers)
    )
    assert read(cluster, tenant, "rolled", 200) == [b"%d" % value for value in range(200)]
    with cluster.client(tenant) as client, client.producer(delivery_timeout_ms=3_000) as producer:
        # It gives up soon, and says why the brokers refused it where they had the time to.
        cluster.wait_until(
            "the refusal says why",
            lambda: "went back" in str(producer.send("rolled", b"never").exception(PATIENCE_S)),
        )

    # A new start does not act on it either.
    cluster.kill()
    for number in cluster.ids:
        cluster.launch(number)
    cluster.wait_until(
        "all refuse",
        lambda: all("may not be acted on" in readiness(b.http_port) for b in cluster.spec.brokers),
    )
    assert "data_plane.broker.metadata confirm" in cluster.output(1)

    # Until an operator says so. Nothing that was acknowledged is missing then.
    confirm = ["confirm", "--config", str(directory.config_file(1)), "--why", "the disk of etcd was lost"]
    cluster.wait_until("confirmed once the old sessions have ended", lambda: metadata.main(confirm) == 0)
    assert "start every broker" in capsys.readouterr().out
    cluster.start()
    cluster.wait_until("a leader", lambda: only(cluster, topic_id).leader > 0)
    assert only(cluster, topic_id).leader_epoch > EPOCHS_AHEAD
    send(cluster, tenant, "rolled", range(200, 300))
    assert read(cluster, tenant, "rolled", 300) == [b"%d" % value for value in range(300)]


def seen(cluster: Brokers, broker: int) -> int:
    """The greatest revision of the store that a broker has noted; 0 before it noted any."""
    file = cluster.directory.log_directory(broker) / WITNESS_FILE
    if not file.exists():
        return 0
    content = file.read_bytes()
    return Witness.decode(unpack_small_file(SmallFileKind.WITNESS, content)[1]).revision


def readiness(port: int) -> str:
    """Why a broker is not ready."""
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/readyz")
        return str(json.loads(connection.getresponse().read())["reason"])
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()
