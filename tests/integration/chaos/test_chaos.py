"""Brokers are killed and paused in turn and all at once; nothing acknowledged is lost, doubled, reordered
or different.

`FULL=1` runs all 30 rounds, otherwise 8.
"""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.replica_files import differences, stored_batches
from penstock import Client
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import TopicSettings
from tests.integration.chaos.faults import ROUNDS_FULL, ROUNDS_QUICK, Fault, Round, schedule
from tests.integration.chaos.verdict import check_values
from tests.integration.chaos.writers import Writer
from tests.integration.dev_cluster import RunningCluster, running_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TOPIC = "chaos"
PARTITIONS = 6
WRITERS = 4
PAUSE_S = 5.0
RECOVERY_S = 45.0
"""Far beyond every goal: what is not back by then is stuck."""
POLL_S = 0.05
SEGMENT_BYTES = 8 * 1024
"""So small that segments roll while brokers fail."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path / "cluster") as running:
        yield running


def wait_for(
    what: str, holds: Callable[[], bool], cluster: RunningCluster, timeout_s: float = RECOVERY_S
) -> float:
    """Seconds until `holds()`; fails with the brokers' last words when it does not."""
    started = time.monotonic()
    while not holds():
        if time.monotonic() - started > timeout_s:
            pytest.fail(f"after {timeout_s:g} s still not: {what}\n{cluster.last_words()}")
        time.sleep(POLL_S)
    return time.monotonic() - started


def writing_goes_on(writers: list[Writer]) -> Callable[[], bool]:
    """True once every writer has a message acknowledged that it sent after this call."""
    floors = [writer.sent.count for writer in writers]

    def holds() -> bool:
        for writer in writers:
            if writer.crash is not None:
                raise AssertionError(f"{writer.name} failed") from writer.crash
        return all(writer.newest_acknowledged >= floor for writer, floor in zip(writers, floors, strict=True))

    return holds


def whole(cluster: RunningCluster, topic_id: bytes) -> bool:
    """Every replica of every partition is in sync."""
    partitions = cluster.partitions(topic_id)
    return all(len(p.in_sync) == len(p.replicas) and p.leader >= 0 for p in partitions)


def strike(cluster: RunningCluster, hit: Round, writers: list[Writer]) -> None:
    """One fault, and its end."""
    alone = len(hit.brokers) == 1
    if hit.fault is Fault.KILL:
        cluster.kill(hit.brokers)
        if alone:
            wait_for(f"writing without the victim of {hit}", writing_goes_on(writers), cluster)
        cluster.start_missing()
    else:
        cluster.pause(hit.brokers)
        time.sleep(PAUSE_S)
        cluster.resume(hit.brokers)


def read_everything(cluster: RunningCluster, ends: dict[int, int]) -> list[list[bytes]]:
    """All values by partition, in offset order, as a fresh consumer gets them up to `ends`."""
    values: dict[int, dict[int, bytes]] = defaultdict(dict)
    positions = dict.fromkeys(ends, 0)
    deadline = time.monotonic() + 120
    with (
        Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client,
        client.consumer([TOPIC]) as consumer,
    ):
        while any(positions[partition] < end for partition, end in ends.items()):
            assert time.monotonic() < deadline, f"read {positions}, {ends} required\n{cluster.last_words()}"
            for message in consumer.poll(max_messages=10_000, timeout=5.0):
                assert message.offset not in values[message.partition], f"offset {message.offset} came twice"
                assert message.offset >= positions[message.partition], "offsets go back"
                values[message.partition][message.offset] = message.value or b""
                positions[message.partition] = message.offset + 1
    return [list(values[partition].values()) for partition in range(PARTITIONS)]


@pytest.mark.timeout(1500)
def test_every_acknowledged_value_is_there_once_in_order_and_the_replicas_are_equal(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = schedule(ROUNDS_FULL if os.environ.get("FULL") else ROUNDS_QUICK)
    settings = TopicSettings(replication=3, min_insync_replicas=2, segment_bytes=SEGMENT_BYTES)
    topic_id = cluster.create_topic(TOPIC, PARTITIONS, settings)
    wait_for("every replica in sync at the start", lambda: whole(cluster, topic_id), cluster)
    writers = [Writer(n, cluster.bootstrap, cluster.api_key, TOPIC, PARTITIONS) for n in range(WRITERS)]
    started = time.monotonic()
    for writer in writers:
        writer.start()
    wait_for("writing at the start", writing_goes_on(writers), cluster)
    for hit in rounds:
        strike(cluster, hit, writers)
        wait_for(f"writing after {hit}", writing_goes_on(writers), cluster)
        wait_for(f"every replica in sync after {hit}", lambda: whole(cluster, topic_id), cluster)
    for writer in writers:
        writer.stop()
    for writer in writers:
        writer.join(timeout=120)
        assert not writer.is_alive(), f"{writer.name} does not end"
        assert writer.crash is None, f"{writer.name}: {writer.crash!r}"
    seconds = time.monotonic() - started

    ends = end_offsets(cluster)
    stored = read_everything(cluster, ends)
    check_values({writer.number: writer.sent.receipts for writer in writers}, stored)
    cluster.cluster.down(timeout_s=60)
    compared, segments = check_replicas(cluster, TopicId(topic_id), ends)

    sent = sum(writer.sent.count for writer in writers)
    acknowledged = sum(writer.acknowledged for writer in writers)
    unknown = sum(len(writer.sent.failures) for writer in writers)
    duplicates = sum(r.duplicate for writer in writers for r in writer.sent.receipts.values())
    silence = max(writer.sent.longest_silence_s for writer in writers)
    kinds = Counter(f"{hit.fault.value}{' of all' if len(hit.brokers) > 1 else ''}" for hit in rounds)
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    with capsys.disabled():
        print(
            f"\nchaos: {len(rounds)} rounds ({faults}) in {seconds:.0f} s; {sent} sent, "
            f"{acknowledged} acknowledged ({duplicates} of them stored before the answer was lost), "
            f"{unknown} not acknowledged, 0 lost, 0 doubled, 0 out of order; {compared} batches and stamps "
            f"in {segments} segments equal on three replicas; longest silence {silence:.1f} s"
        )


def end_offsets(cluster: RunningCluster) -> dict[int, int]:
    """The watermark of each partition."""
    with (
        Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client,
        client.consumer([TOPIC]) as reader,
    ):
        return {partition: offset for (_, partition), offset in reader.end_offsets().items()}


def check_replicas(cluster: RunningCluster, topic_id: TopicId, ends: dict[int, int]) -> tuple[int, int]:
    """The replicas' batches and stamps below the watermark are equal byte for byte; (batches, segments)."""
    compared = segments = 0
    for partition, end in sorted(ends.items()):
        replicas = {
            broker.id: stored_batches(
                cluster.directory.log_directory(broker.id), TopicPartition(topic_id, partition), end
            )
            for broker in cluster.spec.brokers
        }
        found = differences(replicas)
        assert not found, f"partition {partition} up to {end}: {'; '.join(found)}"
        first = next(iter(replicas.values()))
        assert (first[-1].end_offset if first else 0) == end
        compared += len(first)
        segments += len({stored.segment for stored in first})
    assert segments > PARTITIONS, "no segment was rolled while brokers failed"
    return compared, segments
