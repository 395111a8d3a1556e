"""A disk that brokers, their metadata file and their output share runs full: writes are refused, reads and sessions go
on, and all of it recovers by itself.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Belief, Client, DeliveryTimeout, DiskFull, Producer, TimedOut
from penstock.contract import limits
from tests.integration.bad_input.small_disk import Ballast, may_mount, small_disk
from tests.integration.brokers import brokers
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.optional_peer,
    pytest.mark.skipif(not may_mount(), reason="needs root, to mount a small disk"),
]

DISK_BYTES = 96 * limits.MIB
SETTINGS = {
    "limits": {
        "journal_bytes": limits.MIB,
        "disk_soft_free_bytes": 4 * limits.MIB,
        "disk_hard_free_bytes": 2 * limits.MIB,
        "ballast_bytes": 256 * limits.KIB,
    },
    "timings": {"revisit_ms": 100},
}
READS_S = 15.0
"""More than twice what a broker's session lives without being confirmed in the metadata."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    with small_disk(path, DISK_BYTES):
        yield path


def refused(producer: Producer[bytes, bytes], taken: list[bytes], unknown: list[bytes]) -> bool:
    """What was acknowledged joins `taken`, what may be in the topic all the same `unknown`."""
    try:
        producer.send("orders", b"in vain").result(PATIENCE_S)
    except (DiskFull, TimedOut, DeliveryTimeout) as error:
        if error.belief is not Belief.NOT_APPLIED:
            unknown.append(b"in vain")
        return True
    taken.append(b"in vain")
    return False


def values(client: Client, within_s: float = PATIENCE_S) -> list[bytes | None] | None:
    """All that is committed now; what comes by one poll may be less. None: the time was up."""
    found: list[bytes | None] = []
    deadline = time.monotonic() + within_s
    try:
        with client.consumer(["orders"]) as consumer:
            end = consumer.end_offsets(within_s)["orders", 0]
            while consumer.position("orders", 0, within_s) < end:
                found += [message.value for message in consumer.poll(timeout=1)]
                if time.monotonic() > deadline:
                    return None
    except TimedOut:
        return None
    return found


def test_a_disk_that_holds_the_metadata_too_runs_full_and_recovers(disk: Path) -> None:
    with brokers(disk / "cluster", settings=SETTINGS) as cluster:
        tenant = cluster.tenant("tn_full")
        cluster.create_topic(tenant, "orders")
        pids, ballast = cluster.pids(), Ballast(disk)
        with cluster.client(tenant) as client:
            client.producer(linger_ms=0).send("orders", b"before").result(PATIENCE_S)
            ballast.leave(0)
            hasty = client.producer(linger_ms=0, delivery_timeout_ms=1_000)
            taken, unknown = [b"before"], list[bytes]()
            cluster.wait_until("writes are refused", lambda: refused(hasty, taken, unknown))
            until, reads = time.monotonic() + READS_S, 0
            while time.monotonic() < until:
                ballast.leave(0)
                found = values(client, READS_S)
                if found is None:
                    # A busy machine: after a minute without new metadata a broker's keys are too old, and it refuses.
                    break
                reads += 1
                assert found in (taken, [*taken, *unknown]), cluster.last_words()
            assert reads, cluster.last_words()
            assert cluster.pids() == pids, cluster.last_words()
            ballast.drop()
            client.producer(linger_ms=0).send("orders", b"after").result(PATIENCE_S)
            after = values(client)
            assert after is not None and after[-1] == b"after"
        cluster.tenant("tn_later")
        assert cluster.pids() == pids, cluster.last_words()
