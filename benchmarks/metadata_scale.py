"""Metadata of 100,000 partitions on etcd: its size, how long a broker loads it, how long failing over takes.

    python -m benchmarks.metadata_scale [--partitions 100000] [--per-topic 100] [--leaders 10000]

Starts one etcd of its own in `var`, fills a block, measures, and prints one JSON line. Failing over is what the
controller does when a broker is fenced, without the brokers: plan, write in transactions, see them in the watch.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from data_plane.broker.etcd_store import EtcdStore
from data_plane.controller.batches import all_compares, batched
from data_plane.controller.changed_blocks import ChangedBlocks
from data_plane.controller.elections import fence_changes, plan
from data_plane.etcd.endpoints import EtcdConfig
from data_plane.metadata import broker_records, model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Change, Compare, Put
from data_plane.node.control.controller_seat import LOOKED_A_TURN
from local import etcd_process, processes
from local.free_ports import free_port
from local.layout import DataDirectory, EtcdSpec
from penstock.contract.ids import BrokerId, TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings

REPLICATION = 3
_START_S = 30.0
_SESSION_MS = 3_600_000


def blocks(partitions: int, per_topic: int, brokers: int) -> Iterator[list[Change]]:
    """The keys of each topic: its record, its name, its blocks. Leaders go round over the brokers."""
    rng = random.Random(1)
    leader = 0
    for number in range(partitions // per_topic):
        topic_id = TopicId(rng.randbytes(16))
        name = f"topic-{number:06d}"
        record = model.TopicRecord(
            topic_id=topic_id,
            tenant=TenantId("tn_bench"),
            name=name,
            partitions=per_topic,
            settings=TopicSettings(),
        )
        changes: list[Change] = [
            Put(model.topic_key(topic_id), record.encode()),
            Put(model.name_key("tn_bench", name), topic_id.hex().encode()),
        ]
        for first in range(0, per_topic, model.PARTITIONS_PER_BLOCK):
            block: dict[int, model.PartitionRecord] = {}
            for partition in range(first, min(first + model.PARTITIONS_PER_BLOCK, per_topic)):
                replicas = tuple(BrokerId((leader + n) % brokers + 1) for n in range(REPLICATION))
                block[partition] = model.PartitionRecord(
                    partition=partition,
                    replicas=replicas,
                    replica_generations=(0,) * REPLICATION,
                    leader=replicas[0],
                    leader_epoch=1,
                    in_sync=replicas,
                )
                leader += 1
            changes.append(Put(model.block_key(topic_id, first), model.encode_block(block)))
        yield changes


async def fill(store: EtcdStore, partitions: int, per_topic: int, brokers: int) -> int:
    """Returns the bytes of all keys and values."""
    session = await store.session(_SESSION_MS)
    for number in range(1, brokers + 1):
        about = broker_records.BrokerRecord(
            broker_id=BrokerId(number),
            directory_id="d",
            client_address="c",
            internal_address="i",
            zone=str(number),
        )
        live = broker_records.LiveRecord(incarnation=f"{number:032x}", directory_id="d")
        await store.txn(
            [],
            [
                Put(broker_records.live_key(number), live.encode(), session.session_id),
                Put(broker_records.broker_key(number), about.encode()),
            ],
        )
    seat = broker_records.ControllerRecord(broker_id=BrokerId(2), incarnation=f"{2:032x}")
    await store.txn([], [Put(broker_records.CONTROLLER_KEY, seat.encode(), session.session_id)])
    size = 0
    pending: list[Change] = []
    for changes in blocks(partitions, per_topic, brokers):
        if len(pending) + len(changes) > 100 or _bytes(pending) > 500_000:
            await store.txn([], pending)
            pending = []
        pending += changes
        size += _bytes(changes)
    await store.txn([], pending)
    return size


async def load(store: EtcdStore) -> tuple[ClusterImage, dict[str, float]]:
    """The image, and how long listing the store and making the image of it took."""
    started, cpu = time.monotonic(), time.process_time()
    listing = await store.range("/")
    listed = time.monotonic()
    image = ClusterImage()
    image.load(listing.items, listing.revision)
    return image, {
        "list_s": round(listed - started, 2),
        "image_s": round(time.monotonic() - listed, 2),
        "load_cpu_s": round(time.process_time() - cpu, 2),
    }


async def fail_over(store: EtcdStore, image: ClusterImage, broker: BrokerId) -> dict[str, float]:
    """Fence a broker and elect for all it led, as `data_plane/node/control/controller_seat.py` does."""

    async def follow() -> None:
        async for batch in store.watch("/", image.revision):
            image.apply(batch)
            advanced.set()

    async def reached(revision: int) -> None:
        while image.revision < revision:
            advanced.clear()
            await advanced.wait()

    advanced = asyncio.Event()
    following = asyncio.create_task(follow())
    seat = (
        Compare(broker_records.CONTROLLER_KEY, image.controller_epoch),
        Compare(broker_records.live_key(2), image.epoch_of(2)),
    )
    led = sum(r.leader == broker for topic in image.topics for r in image.partitions_of(topic))
    started, cpu = time.monotonic(), time.process_time()
    transaction = fence_changes(image, broker)
    assert transaction is not None
    result = await store.txn([*transaction[0], *seat], transaction[1])
    await reached(result.revision)
    changed = ChangedBlocks()
    transactions, planning_s, longest_s = 1, 0.0, 0.0
    while True:
        began = time.process_time()
        looked_at = changed.take(image, LOOKED_A_TURN)
        writes = plan(image, looked_at)
        planned_s = time.process_time() - began
        longest_s, planning_s = max(longest_s, planned_s), planning_s + planned_s
        if not looked_at:
            break
        for batch in batched(writes, seat):
            result = await store.txn(all_compares(batch, seat), [Put(w.key, w.value) for w in batch])
            assert result.succeeded
            transactions += 1
        if writes:
            await reached(result.revision)
    took_s, cpu_s = time.monotonic() - started, time.process_time() - cpu
    following.cancel()
    left = sum(r.leader == broker for topic in image.topics for r in image.partitions_of(topic))
    assert left == 0
    return {
        "leaders_failed_over": led,
        "fail_over_s": round(took_s, 2),
        "fail_over_cpu_s": round(cpu_s, 2),
        "fail_over_transactions": transactions,
        "fail_over_planning_cpu_s": round(planning_s, 2),
        "fail_over_longest_plan_cpu_ms": round(longest_s * 1000),
    }


@contextmanager
def etcd() -> Iterator[str]:
    """An etcd of our own, and its endpoint."""
    Path("var").mkdir(exist_ok=True)
    directory = DataDirectory(Path(tempfile.mkdtemp(prefix="metadata-scale-", dir="var")))
    taken: set[int] = set()
    spec = EtcdSpec(client_port=free_port(taken), peer_port=free_port(taken))
    directory.etcd_data.mkdir(parents=True, mode=0o700)
    child = etcd_process.start(directory, spec)
    try:
        deadline = time.monotonic() + _START_S
        while not etcd_process.serves(directory, spec):
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(directory.etcd_output_file.read_text()[-2_000:])
            time.sleep(0.05)
        yield spec.client_address
    finally:
        found = etcd_process.find(directory)
        if found is not None:
            processes.kill(found)
        child.wait()
        shutil.rmtree(directory.path)


async def measure(endpoint: str, partitions: int, per_topic: int, leaders: int) -> dict[str, Any]:
    store = EtcdStore(EtcdConfig(endpoints=(endpoint,), call_s=20.0), "scale")
    try:
        brokers = max(partitions // leaders, REPLICATION)
        started = time.monotonic()
        size = await fill(store, partitions, per_topic, brokers)
        filled_s = time.monotonic() - started
        status = await store.client.status()
        image, loaded = await load(store)
        failed_over = await fail_over(store, image, BrokerId(1))
        return {
            "partitions": partitions,
            "per_topic": per_topic,
            "brokers": brokers,
            "keys_and_values_mb": round(size / 1e6, 1),
            "etcd_db_mb": round(status.dbSizeInUse / 1e6, 1),
            "load_average": os.getloadavg()[0],
            "fill_s": round(filled_s, 1),
            **loaded,
            **failed_over,
        }
    finally:
        await store.close()


def _bytes(changes: Sequence[Change]) -> int:
    return sum(len(change.key) + len(change.value) for change in changes if isinstance(change, Put))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata_scale", description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--per-topic", type=int, default=100)
    parser.add_argument("--leaders", type=int, default=10_000)
    chosen = parser.parse_args()
    with etcd() as endpoint:
        print(json.dumps(asyncio.run(measure(endpoint, chosen.partitions, chosen.per_topic, chosen.leaders))))


if __name__ == "__main__":
    main()
