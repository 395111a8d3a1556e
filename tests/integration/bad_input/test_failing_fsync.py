"""A sync that fails on one broker: it ends at once, others serve, and it comes back with nothing lost (RL126)."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.replica_files import differences, stored_batches
from penstock.contract.ids import TopicPartition
from tests.integration.brokers import Brokers, Tenant
from tests.integration.bystander import Bystander
from tests.integration.servers import ServerFailed
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TOPIC = "synced"
EXIT_FAULT = 70


@contextmanager
def failing_syncs(cluster: Brokers, number: int, folder: Path) -> Iterator[None]:
    """From here on every fsync and fdatasync of the broker returns EIO and syncs nothing."""
    program = shutil.which("strace")
    if program is None:
        raise ServerFailed("strace is missing; run: make setup")
    said = folder / "strace.err"
    with said.open("wb") as output:
        tracer = subprocess.Popen(
            [
                program,
                *("-f", "-p", str(cluster.pid(number)), "-o", str(folder / "strace.out")),
                *("-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
        )
    try:
        cluster.wait_until("strace is attached", lambda: b"attached" in said.read_bytes())
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(PATIENCE_S)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_broker_whose_sync_fails_ends_and_comes_back_with_nothing_lost(
    cluster: Brokers, tenant: Tenant, bystander: Bystander, tmp_path: Path, role: str
) -> None:
    topic = f"{TOPIC}-{role}"
    topic_id = cluster.create_topic(tenant, topic)
    leader = cluster.leader(topic_id)
    victim = leader if role == "leader" else next(number for number in cluster.ids if number != leader)
    with cluster.client(tenant) as client:
        producer = client.producer(linger_ms=0)
        offsets = [producer.send(topic, b"%d" % n).result(PATIENCE_S).offset for n in range(3)]
        with failing_syncs(cluster, victim, tmp_path):
            offsets += [producer.send(topic, b"%d" % n).result(PATIENCE_S).offset for n in range(3, 6)]
            assert cluster.status(victim) == EXIT_FAULT
        offsets.append(producer.send(topic, b"6").result(PATIENCE_S).offset)
    assert offsets == list(range(7))
    assert "storage failed; start again to recover" in cluster.output(victim)
    # The metadata file may have been the first to be synced.
    told = cluster.output(victim)
    assert "Input/output error" in told or "metadata store" in told, told[-4_000:]
    assert not (cluster.directory.log_directory(victim) / "clean").exists()
    bystander.check()

    cluster.start(victim)
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
    with cluster.client(tenant) as client, client.consumer([topic]) as consumer:
        read: list[bytes | None] = []
        while len(read) < 7:
            read += [message.value for message in consumer.poll(timeout=5)]
    assert read == [b"%d" % n for n in range(7)]
    bystander.check()
    where = TopicPartition(topic_id, 0)
    stored = {n: stored_batches(cluster.directory.log_directory(n), where, 7) for n in cluster.ids}
    assert differences(stored) == []
