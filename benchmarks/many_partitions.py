"""What 30,000 partitions of three copies cost three brokers: memory, idle processor time, a restart, a fail-over."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import penstock
from benchmarks.cluster import BenchCluster, cpu_s
from benchmarks.figures import Benchmark, Measured, percentile
from benchmarks.metrics import gauges
from data_plane.contract.admin_client import new_topic
from penstock.contract.errors import PenstockError
from penstock.contract.topic_settings import TopicSettings

TOPICS = 10_000
PARTITIONS = 3
"""Of each topic."""
_A_CALL = 200
_WATCHED = 100
"""Partitions led by the broker that is killed, each written to five times a second."""
_WRITE_EVERY_S = 0.2
_WRITTEN_S = 20.0
"""Over before the broker is started again: several times what a fail-over may take."""
_IDLE_S = 30.0
_SETTLED_S = 15.0
_WHOLE_S = 240.0
_POLL_S = 0.5
_COUNTED = ("penstock_replicas", "penstock_partitions_under_replicated", "penstock_partitions_led")
_VICTIM = 1


@dataclass(slots=True)
class _Watched:
    """When each partition's first message that was sent after the kill was acknowledged."""

    killed_at: float
    since_kill_s: dict[tuple[str, int], float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledged(self, where: tuple[str, int]) -> None:
        with self.lock:
            self.since_kill_s.setdefault(where, time.monotonic() - self.killed_at)


def many_partitions(folder: Path) -> list[Measured]:
    """10,000 topics of 3 partitions; then one broker is killed while 100 of its partitions are written to."""
    with BenchCluster(folder) as cluster:
        began = time.monotonic()
        _make(cluster)
        called_s = time.monotonic() - began
        _wait_whole(cluster)
        made_s = time.monotonic() - began
        _wait_born(cluster)
        time.sleep(_SETTLED_S)
        memory = [process.memory_full_info() for process in cluster.processes()]
        idle = _idle_percent(cluster)
        gaps = _fail_over(cluster)
        began = time.monotonic()
        cluster.dev.start_broker(_VICTIM, lambda done, of, note: None)
        ready_s = time.monotonic() - began
        _wait_whole(cluster)
        restart_s = time.monotonic() - began
    made = {"made_s": made_s, "calls_s": called_s}
    return [
        Measured(name="many_partitions", value=float(TOPICS * PARTITIONS), unit="", beside=made),
        Measured(
            name="many_partitions_rss_mb",
            value=max(one.rss for one in memory) / 1e6,
            unit="MB",
            beside={"pss_mb": max(one.pss for one in memory) / 1e6},
        ),
        Measured(
            name="many_partitions_idle_percent",
            value=max(idle),
            unit="% of a core",
            beside={"sum": sum(idle)},
        ),
        Measured(
            name="many_partitions_fail_over_p99_s",
            value=percentile(gaps, 0.99),
            unit="s",
            beside={"p50_s": percentile(gaps, 0.5), "max_s": max(gaps)},
        ),
        Measured(name="many_partitions_restart_s", value=restart_s, unit="s", beside={"ready_s": ready_s}),
    ]


def _name(number: int) -> str:
    return f"topic-{number:05d}"


def _make(cluster: BenchCluster) -> None:
    """Partition `p` of topic `n` is led by the (n + p)-th broker, going round."""
    ids = [broker.id for broker in cluster.spec.brokers]
    settings = TopicSettings()
    for first in range(0, TOPICS, _A_CALL):
        asked = []
        for number in range(first, min(first + _A_CALL, TOPICS)):
            turns = [(number + partition) % len(ids) for partition in range(PARTITIONS)]
            assignments = [ids[turn:] + ids[:turn] for turn in turns]
            topic_id = (number + 1).to_bytes(16, "big")
            asked.append(
                new_topic(cluster.spec.tenant, _name(number), settings, assignments, topic_id=topic_id)
            )
        answer = cluster.admin.create_topics(asked, timeout_s=60.0)
        refused = [one.outcome.message for one in answer.topics if one.outcome.error]
        if refused:
            raise RuntimeError(f"{len(refused)} topics were refused: {refused[0]}")


def _wait_whole(cluster: BenchCluster) -> None:
    """Until every broker has all replicas and leads some, and all replicas are in sync. Raises `TimeoutError`."""
    deadline = time.monotonic() + _WHOLE_S
    addresses = [broker.http_address for broker in cluster.spec.brokers]
    while True:
        counts = [gauges(address, *_COUNTED) for address in addresses]
        replicas, behind, led = zip(*counts, strict=True)
        if min(replicas) >= TOPICS * PARTITIONS <= sum(led) and not sum(behind):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"replicas {replicas}, behind {behind}, led {sum(led)} of {TOPICS * PARTITIONS}"
                f" after {_WHOLE_S:g} s"
            )
        time.sleep(_POLL_S)


def _wait_born(cluster: BenchCluster) -> None:
    """Until every replica has its directory. Raises `TimeoutError`."""
    deadline = time.monotonic() + _WHOLE_S
    addresses = [broker.http_address for broker in cluster.spec.brokers]
    while unborn := sum(gauges(address, "penstock_replicas_unborn")[0] for address in addresses):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{unborn} replicas without a directory after {_WHOLE_S:g} s")
        time.sleep(_POLL_S)


def _idle_percent(cluster: BenchCluster) -> list[float]:
    """Processor time of each broker in percent of a core, without clients."""
    running = cluster.processes()
    before = [cpu_s(process) for process in running]
    time.sleep(_IDLE_S)
    after = [cpu_s(process) for process in running]
    return [100 * (late - early) / _IDLE_S for early, late in zip(before, after, strict=True)]


def _watched(cluster: BenchCluster) -> list[tuple[str, int]]:
    """Partitions led by the victim, evenly over all topics."""
    ids = [broker.id for broker in cluster.spec.brokers]
    step = max(1, TOPICS // _WATCHED)
    numbers = range(0, TOPICS, step)
    return [(_name(number), (ids.index(_VICTIM) - number) % len(ids)) for number in numbers][:_WATCHED]


def _fail_over(cluster: BenchCluster) -> Sequence[float]:
    """Seconds from SIGKILL of the broker to the first acknowledgement of each partition that it led."""
    watched = _watched(cluster)
    with (
        penstock.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client,
        client.producer(linger_ms=0) as producer,
    ):
        for topic, partition in watched:  # every connection is open
            producer.send(topic, b"x", partition=partition).result(60.0)
        killed = _Watched(time.monotonic())
        cluster.dev.kill_broker(_VICTIM)
        while time.monotonic() < killed.killed_at + _WRITTEN_S and len(killed.since_kill_s) < len(watched):
            turn = time.monotonic()
            for where in watched:
                if where not in killed.since_kill_s:
                    _send(producer, killed, where)
            time.sleep(max(0.0, turn + _WRITE_EVERY_S - time.monotonic()))
    if missing := set(watched) - set(killed.since_kill_s):
        raise TimeoutError(f"{len(missing)} of {len(watched)} partitions without an acknowledgement")
    return list(killed.since_kill_s.values())


def _send(producer: penstock.Producer[bytes, bytes], killed: _Watched, where: tuple[str, int]) -> None:
    def done(delivery: penstock.Delivery) -> None:
        if delivery.exception(0.0) is None:
            killed.acknowledged(where)

    try:
        producer.send(where[0], b"x" * 100, partition=where[1]).add_done_callback(done)
    except PenstockError:
        pass  # the buffer is full of what waits for a leader: an earlier message tells as well


BENCHMARK = Benchmark(
    figures=(
        "many_partitions",
        "many_partitions_rss_mb",
        "many_partitions_idle_percent",
        "many_partitions_fail_over_p99_s",
        "many_partitions_restart_s",
    ),
    run=many_partitions,
    seconds=600,
    quick=False,
)
