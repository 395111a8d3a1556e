"""How even real brokers are after a join, a drain and a hot spot, once the planned moves have been made."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import penstock
from benchmarks.cluster import BenchCluster
from benchmarks.figures import Benchmark, Measured
from data_plane.contract import admin_pb2 as pb
from data_plane.placement import balance, moves
from data_plane.placement.balance import Skew
from data_plane.placement.moves import PlacedPartition, PlannedMove
from data_plane.placement.planner import BrokerView

TOPIC = "uneven"
PARTITIONS = 60
COPIES = 2
MESSAGE = b"x" * 10_000
"""Sent without compression: what is sent is what brokers weigh."""
SIZES_KB = (200, 600, 300, 1_000, 400, 250)
"""Of the partitions, in turn."""
HOT_BYTES_PER_S = 4_000_000
HOT = 5
"""Partitions of one broker that take ten times what the others of the topic do."""
_AT_ONCE = 10
_PLANS_MAX = 4
_PATIENCE_S = 120.0
_RATES_KNOWN_S = 45.0


class _Load(threading.Thread):
    """Writes to the topic until it is ended, ten times as much to the partitions in `hot`."""

    def __init__(self, cluster: BenchCluster, hot: Sequence[int]) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._turn = [n for n in range(PARTITIONS) for _ in range(10 if n in hot else 1)]
        self.ended = threading.Event()

    def run(self) -> None:
        client = penstock.Client(bootstrap=self._cluster.bootstrap, api_key=self._cluster.api_key)
        pause_s = len(self._turn) * len(MESSAGE) / HOT_BYTES_PER_S
        with client, client.producer(compression="none") as producer:
            while not self.ended.wait(pause_s):
                for partition in self._turn:
                    producer.send(TOPIC, MESSAGE, partition=partition)

    def end(self) -> None:
        self.ended.set()
        self.join(30)


def _seen(
    cluster: BenchCluster,
) -> tuple[list[PlacedPartition], list[BrokerView], pb.DescribeClusterResponse]:
    """The cluster as it is: leaders first, sizes and rates as brokers report them."""
    described = cluster.admin.describe_cluster(partitions=True)
    sizes: dict[tuple[bytes, int], int] = {}
    rates: Counter[tuple[bytes, int]] = Counter()
    for broker in described.brokers:
        if broker.state == "active":
            load = cluster.admin.describe_load(broker.internal_address, 1_000)
            for one in load.partitions:
                # A leader of before still remembers a part of the rate.
                rates[one.topic_id, one.partition] += one.bytes_in_per_s + one.bytes_out_per_s
                if one.leads:
                    sizes[one.topic_id, one.partition] = one.log_bytes
    partitions = []
    for p in described.partitions:
        partitions.append(
            PlacedPartition(
                topic_id=p.topic_id.hex(),
                topic=p.topic,
                partition=p.partition,
                replicas=(p.leader, *(broker for broker in p.replicas if broker != p.leader)),
                log_bytes=sizes.get((p.topic_id, p.partition), 0),
                bytes_per_s=rates[p.topic_id, p.partition],
            )
        )
    brokers = [
        BrokerView(
            id=b.id,
            zone=b.zone,
            host=b.host,
            replicas=b.replicas,
            state="draining" if b.cordoned else b.state,
        )
        for b in described.brokers
    ]
    return partitions, brokers, described


def _until(cluster: BenchCluster, what: str, holds: Callable[[pb.DescribeClusterResponse], bool]) -> None:
    ends = time.monotonic() + _PATIENCE_S
    while not holds(cluster.admin.describe_cluster(partitions=True)):
        if time.monotonic() > ends:
            raise TimeoutError(f"{what}: not within {_PATIENCE_S:g} s")
        time.sleep(0.5)


def _carry_out(cluster: BenchCluster, planned: Sequence[PlannedMove]) -> None:
    for begin in range(0, len(planned), _AT_ONCE):
        for move in planned[begin : begin + _AT_ONCE]:
            topic_id = bytes.fromhex(move.partition.topic_id)
            cluster.admin.alter_replicas(topic_id, move.partition.partition, move.target)
        _until(cluster, "moves", lambda seen: not any(p.target for p in seen.partitions))
    _until(
        cluster,
        "leaders return",
        lambda seen: all(p.leader == p.replicas[0] for p in seen.partitions),
    )


def _even_out(cluster: BenchCluster, wait_s: float = 0.0) -> tuple[Skew, int, int]:
    """Plans until one is empty, `wait_s` after the moves of the one before: the skew then, bytes copied, and moves."""
    copied = count = 0
    for _ in range(_PLANS_MAX):
        partitions, brokers, _ = _seen(cluster)
        found = balance.rebalance(partitions, brokers)
        if not found.moves:
            break
        copied += sum(map(moves.copied_bytes, found.moves))
        count += len(found.moves)
        _carry_out(cluster, found.moves)
        time.sleep(wait_s)
    partitions, brokers, _ = _seen(cluster)
    return balance.skew_of(partitions, brokers), copied, count


def _figure(name: str, before: Skew, after: tuple[Skew, int, int], *, with_rates: bool) -> Measured:
    skew, copied, count = after
    judged = skew if with_rates else replace(skew, bytes_per_s=0.0)
    return Measured(
        name=name,
        value=judged.worst,
        unit="% from the mean, of the worst broker",
        beside={
            "replicas": skew.replicas,
            "log_bytes": skew.log_bytes,
            "leaders": skew.leaders,
            "bytes_per_s": skew.bytes_per_s,
            "before": before.worst if with_rates else replace(before, bytes_per_s=0.0).worst,
            "moves": count,
            "copied_mb": copied / 1e6,
        },
    )


def placement_skew(folder: Path) -> list[Measured]:
    """Sixty uneven partitions on three brokers; a fourth joins, another is drained, five partitions get hot."""
    with BenchCluster(folder) as cluster:
        cluster.topic(TOPIC, PARTITIONS, replication=COPIES, min_insync_replicas=1)
        client = penstock.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key)
        with client, client.producer(compression="none") as producer:
            for partition in range(PARTITIONS):
                for _ in range(SIZES_KB[partition % len(SIZES_KB)] * 1_000 // len(MESSAGE)):
                    producer.send(TOPIC, MESSAGE, partition=partition)
            producer.flush(timeout=60)

        cluster.dev.add_broker(lambda done, of, note: None)
        cluster.spec = cluster.directory.load()
        partitions, brokers, _ = _seen(cluster)
        joined = _figure(
            "placement_skew_after_join_percent",
            balance.skew_of(partitions, brokers),
            _even_out(cluster),
            with_rates=False,
        )

        cluster.admin.cordon_broker(2, True, generation=1)
        partitions, brokers, _ = _seen(cluster)
        before = balance.skew_of(partitions, brokers)
        _carry_out(cluster, moves.moves_off(2, partitions, brokers))
        drained = _figure("placement_skew_after_drain_percent", before, _even_out(cluster), with_rates=False)

        partitions, brokers, described = _seen(cluster)
        hot = [p.partition for p in described.partitions if p.topic == TOPIC and p.leader == 1][:HOT]
        load = _Load(cluster, hot)
        load.start()
        time.sleep(_RATES_KNOWN_S)
        partitions, brokers, _ = _seen(cluster)
        before = balance.skew_of(partitions, brokers)
        after = _even_out(cluster, _RATES_KNOWN_S)
        load.end()
    hot_spot = _figure("placement_skew_after_hot_spot_percent", before, after, with_rates=True)
    return [joined, drained, hot_spot]


BENCHMARK = Benchmark(
    figures=(
        "placement_skew_after_join_percent",
        "placement_skew_after_drain_percent",
        "placement_skew_after_hot_spot_percent",
    ),
    run=placement_skew,
    seconds=240,
)
