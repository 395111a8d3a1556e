"""Receipts of real producers against the logs of real brokers, through SIGKILL of both."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock
import penstock.asyncio
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import TimestampType
from penstock.receipts import Receipts, read_receipts
from penstock.receipts.keeper import WRITE_MS
from penstock.records.batch import read_header, split_batches
from penstock.verification.receipts_check import BilledPart, check_receipts
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes
ROOT = Path(__file__).resolve().parents[3]
BUSY_MS = 3_000
"""What a busy machine may add to WRITE_MS before a thread runs and a write is done."""
ROUNDS = 3
LINES = 400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with brokers(tmp_path_factory.mktemp("receipts") / "cluster") as running:
        yield running


@pytest.fixture(scope="module")
def tenant(cluster: Brokers) -> Tenant:
    return cluster.tenant("tn_receipts")


class Stored:
    """The batches of one partition on its leader's disk."""

    def __init__(self, cluster: Brokers, where: TopicPartition) -> None:
        leader = cluster.leader(where.topic_id, where.partition)
        self.bytes_at = {0: 0}
        """Bytes before each batch boundary."""
        self.end = size = 0
        for path in sorted(cluster.partition_directory(leader, where).glob("*.log")):
            for batch in split_batches(path.read_bytes()):
                header = read_header(batch)
                assert header.base_offset == self.end
                self.end += header.record_count
                size += header.size
                self.bytes_at[self.end] = size

    def totals_at(self, offset: int) -> tuple[int, int] | None:
        return (offset, self.bytes_at[offset]) if offset in self.bytes_at else None


def stored(cluster: Brokers, topic_id: TopicId) -> dict[TopicPartition, Stored]:
    where = [TopicPartition(topic_id, number) for number in range(2)]
    return {partition: Stored(cluster, partition) for partition in where}


def assert_true(receipts: Receipts, logs: dict[TopicPartition, Stored], *, complete: bool) -> None:
    """Every range is in the log to the byte."""
    parts = [
        BilledPart(
            topic="billed", where=where, start_offset=0, end_offset=log.end, messages=log.end,
            bytes=log.bytes_at[log.end], totals_at=log.totals_at, read_from=0,
        )
        for where, log in logs.items()
    ]  # fmt: skip
    now_ms = int(time.time() * 1000)
    comparison = check_receipts(
        receipts, parts, period_start_ms=0, period_end_ms=now_ms + 2 * 86_400_000, complete=complete
    )
    assert comparison.agrees, "\n".join(map(str, comparison.findings))
    assert comparison.messages_covered == receipts.messages


@contextmanager
def producing(
    surface: str, cluster: Brokers, tenant: Tenant, topic: str, path: Path
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.integration.sdk.keeping_receipts", surface]
    process = subprocess.Popen(
        [*command, ",".join(cluster.bootstrap), tenant.api_key, topic, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize(("surface", "timestamps"), [("blocking", "create"), ("asyncio", "append")])
def test_a_killed_producers_receipts_are_true_and_lack_no_more_than_is_said(
    cluster: Brokers, tenant: Tenant, tmp_path: Path, surface: str, timestamps: str
) -> None:
    topic = f"killed-{surface}"
    topic_id = cluster.create_topic(tenant, topic, 2, timestamp_type=TimestampType[timestamps.upper()])
    path = tmp_path / "receipts"
    missing = 0
    for turn in range(ROUNDS):
        with producing(surface, cluster, tenant, topic, path) as process:
            assert process.stdout is not None
            told = [next(process.stdout) for _ in range(LINES)]
            if turn == 1:
                cluster.kill(cluster.leader(topic_id))
                told += [next(process.stdout) for _ in range(LINES)]
            killed_at = time.monotonic() * 1000
            process.kill()
            told += process.stdout.readlines()
        if turn == 1:
            cluster.start()
            cluster.wait_until("all in sync", lambda: cluster.whole(topic_id))
        receipts = read_receipts(path)
        assert_true(receipts, stored(cluster, topic_id), complete=False)
        for line in told:
            if not line.endswith("\n"):
                continue  # cut short by the kill
            partition, offset, at_ms = line.split()
            ranges = receipts.ranges.get(TopicPartition(topic_id, int(partition)), ())
            if not any(held.first_offset <= int(offset) < held.end_offset for held in ranges):
                missing += 1
                assert killed_at - float(at_ms) < WRITE_MS + BUSY_MS, f"turn {turn}: {line}"
    print(f"{missing} acknowledged messages without a receipt after {ROUNDS} kills")


@pytest.mark.parametrize("surface", ["blocking", "asyncio"])
def test_two_producers_receipts_together_are_the_whole_log(
    cluster: Brokers, tenant: Tenant, tmp_path: Path, surface: str
) -> None:
    topic = f"shared-{surface}"
    topic_id = cluster.create_topic(tenant, topic, 2)
    one, two = tmp_path / "one", tmp_path / "two"
    if surface == "blocking":
        with cluster.client(tenant) as client:
            producers = [client.producer(receipts=path, linger_ms=1) for path in (one, two)]
            with pytest.raises(penstock.ConfigurationError, match="each needs a file of its own"):
                client.producer(receipts=one)
            for number in range(200):
                producers[number % 2].send(topic, b"%d" % number, partition=number // 3 % 2).result(
                    PATIENCE_S
                )
    else:

        async def scene() -> None:
            async with penstock.asyncio.Client(cluster.bootstrap, api_key=tenant.api_key) as client:
                producers = [client.producer(receipts=path, linger_ms=1) for path in (one, two)]
                for number in range(200):
                    delivery = await producers[number % 2].send(
                        topic, b"%d" % number, partition=number // 3 % 2
                    )
                    await asyncio.wait_for(delivery, PATIENCE_S)

        asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))
    merged = Receipts.merged(read_receipts(one), read_receipts(two))
    assert merged.messages == 200
    assert merged.topics == {topic_id: topic}
    assert_true(merged, stored(cluster, topic_id), complete=True)


@pytest.mark.parametrize("surface", ["blocking", "asyncio"])
def test_a_file_that_cannot_be_written_is_an_error_of_the_close_and_of_nothing_else(
    cluster: Brokers, tenant: Tenant, tmp_path: Path, surface: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"full-{surface}"
    cluster.create_topic(tenant, topic)
    path = tmp_path / "receipts"

    def no_space(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with pytest.raises(penstock.ReceiptsNotWritten, match="No space left on device"):
        if surface == "blocking":
            with cluster.client(tenant) as client:
                producer = client.producer(receipts=path)
                monkeypatch.setattr("os.pwrite", no_space)
                assert producer.send(topic, b"x").result(PATIENCE_S).offset == 0
        else:

            async def scene() -> None:
                async with penstock.asyncio.Client(cluster.bootstrap, api_key=tenant.api_key) as client:
                    producer = client.producer(receipts=path)
                    monkeypatch.setattr("os.pwrite", no_space)
                    delivery = await producer.send(topic, b"x")
                    assert (await asyncio.wait_for(delivery, PATIENCE_S)).offset == 0

            asyncio.run(asyncio.wait_for(scene(), PATIENCE_S))
    monkeypatch.undo()
    assert read_receipts(path).messages == 0
    with cluster.client(tenant) as client, client.producer(receipts=path) as producer:
        producer.send(topic, b"y").result(PATIENCE_S)
    assert read_receipts(path).messages == 1


def test_a_child_does_not_keep_the_lock_of_its_parents_file(tmp_path: Path) -> None:
    code = """
import os, sys
from penstock.receipts.keeper import ReceiptsKeeper
keeper = ReceiptsKeeper(sys.argv[1], -1)
reading, writing = os.pipe()
if os.fork() == 0:
    os.close(writing)
    os.read(reading, 1)
    keeper.close()
    ReceiptsKeeper(sys.argv[1], -1).close()
    print("child had it", flush=True)
    os._exit(0)
os.close(reading)
keeper.close()
os.close(writing)
os.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "receipts")],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("child had it\n", 0), done.stderr


def test_an_interpreter_that_ends_without_a_close_writes_what_is_left(tmp_path: Path) -> None:
    code = """
import sys
from penstock.receipts.keeper import ReceiptsKeeper
keeper = ReceiptsKeeper(sys.argv[1], -1)
keeper.acknowledged(
    "orders", bytes(16), 0, first_offset=0, messages=3, size=100, accepted_ms=0, leader_epoch=1
)
"""
    path = tmp_path / "receipts"
    subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, timeout=PATIENCE_S, check=True)
    assert read_receipts(path).messages == 3
