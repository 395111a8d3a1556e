"""Links between processes on real brokers: certificates that change, run out, or are not the cluster's."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from daemon import authority
from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from local.status import is_ready
from penstock import Delivery
from tests import certificates
from tests.certificates import own, write
from tests.integration.brokers import BROKER, Brokers, Tenant, brokers
from tests.integration.bystander import Bystander
from tests.integration.raw_wire import RawPeer, Refused, call
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes

EXIT_CANNOT_START = 2
EXPIRES = 'penstock_certificate_expires_seconds{certificate="identity.certificate_file"}'


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Brokers]:
    with brokers(tmp_path / "cluster") as running:
        yield running


def taken_up(cluster: Brokers, number: int) -> int:
    """How often the broker has taken up files that changed."""
    return cluster.output(number).count("the certificate was taken up again")


def all_took_up_more(cluster: Brokers, before: Mapping[int, int]) -> bool:
    return all(taken_up(cluster, number) > count for number, count in before.items())


def metric(cluster: Brokers, number: int, name: str) -> float:
    """Its value, 0 while there is none."""
    lines = cluster.http(number, "/metrics")[1].splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)), 0.0)


@contextmanager
def load(cluster: Brokers, tenant: Tenant) -> Iterator[None]:
    """Sends all the while; at the end everything was acknowledged and is there once, in order."""
    stop, sent = threading.Event(), list[Delivery]()
    cluster.create_topic(tenant, "under-load", 3)
    with cluster.client(tenant) as client, client.producer(linger_ms=0) as producer:

        def send() -> None:
            while not stop.wait(0.005):
                sent.append(producer.send("under-load", b"%d" % len(sent), partition=len(sent) % 3))

        sending = threading.Thread(target=send)
        sending.start()
        try:
            yield
        finally:
            stop.set()
            sending.join()
        for delivery in sent:
            delivery.result(PATIENCE_S)
        with client.consumer(["under-load"]) as consumer:
            read: list[int] = []
            while len(read) < len(sent):
                read += [int(message.value or b"") for message in consumer.poll(timeout=PATIENCE_S)]
    assert sorted(read) == list(range(len(sent)))


def test_certificates_and_the_authority_change_under_load_without_a_lost_acknowledgement(
    cluster: Brokers,
) -> None:
    folder, now = cluster.directory.certificates.folder, datetime.now(UTC)
    names = authority.names_of(folder)
    steps: list[Callable[[], object]] = [
        lambda: authority.renew(folder, names, now=now),
        lambda: authority.add_ca(folder, now=now),
        lambda: authority.use_new_ca(folder, now=now),
        lambda: authority.drop_old_ca(folder),
    ]
    tenant = cluster.tenant("tn_load")
    with load(cluster, tenant):
        for step in steps:
            before = {number: taken_up(cluster, number) for number in cluster.ids}
            step()
            cluster.wait_until("all have taken it up", partial(all_took_up_more, cluster, before))
            # New handshakes between all of them, and of the control plane's kind.
            cluster.kill(2)
            cluster.start(2)
            cluster.admin.put_tenant("tn_new")
    for number in cluster.ids:
        for reason in ("wrong_authority", "expired", "name_mismatch", "other"):
            name = f'penstock_refused_handshakes_total{{reason="{reason}",side="peer"}}'
            assert metric(cluster, number, name) == 0, cluster.last_words()


def test_what_is_not_of_the_cluster_is_turned_away_counted_and_harms_nothing(
    cluster: Brokers, tmp_path: Path
) -> None:
    stranger = own(
        write(tmp_path / "other", "broker-2", ca=certificates.authority("another-cluster")), "broker-2"
    )
    address = cluster.spec.broker(1).peer_address
    with Bystander(cluster) as bystander:
        for who in (stranger, cluster.issued("runner")):
            for _ in range(5):
                try:
                    with RawPeer(address, methods.REPLICATE, who) as peer:
                        peer.end()
                except OSError:
                    pass
        counted = 'penstock_refused_handshakes_total{reason="%s",side="peer"}'
        cluster.wait_until("they are counted", lambda: metric(cluster, 1, counted % "wrong_role") == 5)
        bystander.check()


def test_a_certificate_that_runs_out_is_a_metric_and_a_warning(cluster: Brokers) -> None:
    folder = cluster.directory.certificates.folder
    assert metric(cluster, 1, EXPIRES) > 300 * 86_400
    authority.renew(folder, ["broker-1"], now=datetime.now(UTC), days=5)
    cluster.wait_until("it is taken up", lambda: taken_up(cluster, 1) > 0)
    left_s = metric(
        cluster, 1, 'penstock_certificate_expires_seconds{certificate="identity.certificate_file"}'
    )
    assert 4 * 86_400 < left_s <= 5 * 86_400
    cluster.wait_until("it is a warning", lambda: "warnings" in json.loads(cluster.http(1, "/readyz")[1]))
    warnings = json.loads(cluster.http(1, "/readyz")[1])["warnings"]
    assert warnings["certificate expires"].endswith("broker-1.pem expires in 5 days; put a new one there")
    assert '"condition": "certificate expires"' in cluster.output(1)


def test_half_a_renewal_is_waited_out(cluster: Brokers) -> None:
    files = cluster.directory.certificates.files("broker-1")
    good = files.key_file.read_bytes()
    files.key_file.write_bytes(cluster.directory.certificates.files("broker-2").key_file.read_bytes())
    cluster.wait_until("it is a warning", lambda: "identity files" in cluster.http(1, "/readyz")[1])
    cluster.kill(2)
    cluster.start(2)
    files.key_file.write_bytes(good)
    cluster.wait_until("it is none any more", lambda: "identity files" not in cluster.http(1, "/readyz")[1])


WRONG: dict[str, tuple[timedelta, str]] = {
    "expired": (timedelta(days=-400), "expired at"),
    "not yet valid": (timedelta(days=2), "is not valid before"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_broker_does_not_start_with_a_certificate_that_is_not_good(tmp_path: Path, case: str) -> None:
    begins_in, says = WRONG[case]
    cluster = Brokers(tmp_path / "cluster", 1, {}, BROKER)
    ca = certificates.authority(cluster.spec.cluster_id)
    write(cluster.directory.certificates.folder, "broker-1", ca=ca, begins_in=begins_in)
    try:
        cluster.launch(1)
        assert cluster.status(1) == EXIT_CANNOT_START
    finally:
        cluster.end()
    (line,) = cluster.output(1).splitlines()
    assert line.startswith("penstock-broker: identity.certificate_file: ")
    assert says in line
    assert not any(cluster.directory.log_directory(1).iterdir())


def test_brokers_listen_beyond_loopback(tmp_path: Path) -> None:
    cluster = Brokers(tmp_path / "cluster", 3, {}, BROKER)
    try:
        for broker in cluster.spec.brokers:
            cluster.settings = {
                "metering": False,
                "internal_listen": f"0.0.0.0:{broker.internal_port}",
                "internal_advertised": broker.internal_address,
                "peer_listen": f"0.0.0.0:{broker.peer_port}",
                "peer_advertised": f"localhost:{broker.peer_port}",
            }
            cluster.launch(broker.id)
        for broker in cluster.spec.brokers:
            cluster.wait_until("it is ready", partial(is_ready, broker))
        tenant = cluster.tenant("tn_wide")
        topic_id = cluster.create_topic(tenant, "wide")
        cluster.wait_until("all are in sync", lambda: cluster.whole(topic_id))
    finally:
        cluster.end()


def test_a_renewed_operator_goes_on(cluster: Brokers) -> None:
    authority.renew(cluster.directory.certificates.folder, ["operator", "broker-1"], now=datetime.now(UTC))
    cluster.wait_until("it is taken up", lambda: taken_up(cluster, 1) > 0)
    before = cluster.operator.current
    cluster.wait_until(
        "so does the operator",
        lambda: bool(cluster.admin.put_tenant("tn_x").revision) and cluster.operator.current is not before,
    )
    with pytest.raises(Refused):
        call(
            cluster.spec.broker(1).internal_address,
            methods.DESCRIBE_CLUSTER,
            b"",
            pb.DescribeClusterResponse,
            (),
        )


def test_a_second_broker_of_one_id_does_not_start_and_takes_nothing_from_the_first(
    cluster: Brokers, tmp_path: Path
) -> None:
    values = json.loads(cluster.directory.config_file(1).read_text())
    values |= {"data": str(tmp_path / "other")} | {
        f"{name}_listen": "127.0.0.1:0" for name in ("client", "internal", "peer", "http")
    }
    config = tmp_path / "second.json"
    config.write_text(json.dumps(values))
    epochs = [broker.broker_epoch for broker in cluster.admin.describe_cluster().brokers]
    with Bystander(cluster) as bystander:
        second = subprocess.run(
            [sys.executable, "-m", BROKER, "--config", str(config)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        bystander.check()
    assert second.returncode == EXIT_CANNOT_START, second.stderr
    assert second.stderr.splitlines()[-1].startswith("penstock-broker: broker_id: broker 1 runs already")
    assert [broker.broker_epoch for broker in cluster.admin.describe_cluster().brokers] == epochs


def test_a_broker_whose_disk_was_replaced_waits_for_its_last_registration_to_end(cluster: Brokers) -> None:
    tenant = cluster.tenant("tn_replaced")
    topic_id = cluster.create_topic(tenant, "kept")
    with cluster.client(tenant) as client, client.producer() as producer:
        producer.send("kept", b"x").result(PATIENCE_S)
    cluster.kill(1)
    shutil.rmtree(cluster.directory.log_directory(1))
    cluster.directory.log_directory(1).mkdir()
    cluster.start(1)
    cluster.wait_until("all are in sync", lambda: cluster.whole(topic_id))
