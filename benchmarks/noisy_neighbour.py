"""What one tenant's hostile load does to another: p99 of its acknowledgements beside that in peace.

Each kind of load is measured several times, each time right after a time of peace on the same brokers, and the ratio
of the two is what counts. The hostile clients stand in a process that gets what the machine has left; `spinning` tells
what such a process does to the neighbour without any call.
"""

import asyncio
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import penstock.asyncio
from benchmarks.cluster import BenchCluster
from benchmarks.event_loop import run
from benchmarks.figures import Benchmark, Measured, percentile
from benchmarks.hostile import LOADS
from data_plane.contract import admin_pb2 as pb
from local.provisioning import new_key, provision_internal_topics, put_key
from penstock.contract.topic_settings import TopicSettings

SECONDS = 5
ROUNDS = 3
PER_S = 200
"""What leaves the machine idle for the most part: the load is to be seen, not the processor's end."""
MESSAGE_BYTES = 1_000
TOPICS = 400
PARTITIONS = 1_000
"""Of the hostile tenant's first topic; the others have one."""
_WARM_UP_S = 2.0
_END_S = 60.0


def noisy_neighbour(folder: Path) -> list[Measured]:
    """The worst ratio, with each load's ratio and milliseconds beside it."""
    ratios: dict[str, float] = {}
    beside: dict[str, float] = {}
    with BenchCluster(folder) as cluster:
        provision_internal_topics(cluster.admin, len(cluster.spec.brokers))
        api_key, topics = _hostile_tenant(cluster)
        cluster.topic("victim", 3)
        run(_acks(cluster))
        for kind in LOADS:
            peace, hurt = _rounds(cluster, kind, api_key, topics)
            ratios[kind] = percentile(hurt, 0.99) / percentile(peace, 0.99)
            beside |= {
                f"{kind}_ratio": ratios[kind],
                f"{kind}_ms": percentile(hurt, 0.99),
                f"{kind}_peace_ms": percentile(peace, 0.99),
            }
            print(f"  {kind}: {ratios[kind]:.2f}", file=sys.stderr, flush=True)
    return [
        Measured(name="noisy_neighbour", value=max(ratios.values()), unit="x of p99 in peace", beside=beside)
    ]


def _rounds(
    cluster: BenchCluster, kind: str, api_key: str, topics: list[str]
) -> tuple[list[float], list[float]]:
    """The neighbour's milliseconds in peace and beside the load."""
    peace: list[float] = []
    hurt: list[float] = []
    changing = kind == "watches"
    for _ in range(ROUNDS):
        peace += run(_acks(cluster, changing=changing))
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.hostile", kind),
                *("--bootstrap", cluster.bootstrap, "--api-key", api_key, "--topics", ",".join(topics)),
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(_WARM_UP_S)
            hurt += run(_acks(cluster, changing=changing))
        finally:
            process.kill()
            process.wait()
        time.sleep(_WARM_UP_S)
    return peace, hurt


def _hostile_tenant(cluster: BenchCluster) -> tuple[str, list[str]]:
    """Its key and topics."""
    cluster.admin.put_tenant("tn_hostile")
    key = new_key()
    put_key(cluster.directory, cluster.admin, key, tenant="tn_hostile", name="hostile")
    brokers = [broker.id for broker in cluster.spec.brokers]
    names = [f"topic-{number}" for number in range(TOPICS)]
    made = pb.CreateTopicResponse()
    for number, name in enumerate(names):
        turns = [
            [brokers[(number + partition + replica) % len(brokers)] for replica in range(3)]
            for partition in range(PARTITIONS if number == 0 else 1)
        ]
        made = cluster.admin.create_topic("tn_hostile", name, TopicSettings(), turns)
    cluster.admin.wait_until_seen(made.outcome)
    return key.reveal(), names


async def _acks(cluster: BenchCluster, *, changing: bool = False) -> list[float]:
    """Milliseconds from `send` to receipt, one a message; `changing`: a topic of the victim's is made each second."""
    total = SECONDS * PER_S
    taken: list[float] = []
    padding = os.urandom(MESSAGE_BYTES)
    client = penstock.asyncio.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key)

    def acknowledged(sent_at: float, delivery: penstock.asyncio.Delivery) -> None:
        taken.append((time.perf_counter() - sent_at) * 1e3)

    async with client, client.producer(linger_ms=0, compression="none") as producer:
        for partition in range(3):
            await (await producer.send("victim", padding, partition=partition))
        began = time.perf_counter()
        for number in range(total):
            ahead = began + number / PER_S - time.perf_counter()
            if ahead > 0:
                await asyncio.sleep(ahead)
            if changing and number % PER_S == 0:
                await asyncio.to_thread(cluster.topic, f"victim-{time.monotonic_ns()}", 1)
                began = time.perf_counter() - number / PER_S
            sent_at = time.perf_counter()
            delivery = await producer.send("victim", padding, partition=number % 3)
            delivery.add_done_callback(partial(acknowledged, sent_at))
        await producer.flush(_END_S)
    return taken


BENCHMARK = Benchmark(figures=("noisy_neighbour",), run=noisy_neighbour, seconds=360, quick=False)
