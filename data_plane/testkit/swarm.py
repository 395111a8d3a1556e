"""What one seed is made of: sizes, timings, topics, clients, faults. Each seed draws its own configuration."""

import random
from dataclasses import dataclass, replace

from data_plane.node.config import Timings
from data_plane.testkit.disk import DiskTiming
from data_plane.testkit.faults import COMBINATIONS, Combination, FaultKind
from data_plane.testkit.network import LinkTiming, NetworkSettings
from data_plane.testkit.store_faults import StoreFaults
from penstock.contract import limits
from penstock.contract.topic_settings import UNLIMITED, Durability, TopicSettings

COMBINATIONS_PER_SEED = 8
_CHANGING_CLIENTS, GROUP_CLIENTS = 12, 8
_STRIDE = 37
"""Relatively prime to the number of combinations, so that consecutive seeds try different ones and all get
their turn.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """One topic of the workload."""

    name: str
    partitions: int
    settings: TopicSettings


USAGE_PLAN = TopicPlan(
    name="__usage",
    partitions=3,
    settings=TopicSettings(
        replication=3, min_insync_replicas=2, retention_ms=UNLIMITED, retention_bytes=UNLIMITED
    ),
)
"""The internal topic that metering needs."""
GROUPS_PLAN = replace(USAGE_PLAN, name="__groups", partitions=2)
"""The internal topic that consumer groups need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerPlan:
    """One producing client; it sends to every partition of one topic."""

    topic: int
    acks: int
    idempotent: bool
    batches_per_s: float
    records_per_batch_max: int
    value_bytes_max: int
    in_flight: int
    """Batches of one partition unanswered at a time."""
    delivery_timeout_ms: int
    sdk: bool
    """The SDK's producer; otherwise one that speaks the wire contract by itself."""
    repeats: bool
    """Now and then sends an acknowledged batch again, as a retry that was slow to travel would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSizes:
    """Small sizes, so that rolls, checkpoints, full windows and cold reads happen within seconds."""

    journal_bytes: int
    tail_bytes: int
    replica_window_bytes: int
    push_bytes_max: int
    unsynced_bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that a seed decides before the simulation begins."""

    seed: int
    brokers: int
    topics: tuple[TopicPlan, ...]
    producers: tuple[ProducerPlan, ...]
    consumers: int
    sdk_consumers: int
    timings: Timings
    sizes: NodeSizes
    network: NetworkSettings
    disk: DiskTiming
    store: StoreFaults
    put_off_chance: float
    clock_skew_ms_max: int
    chaos_s: float
    """Length of the time in which faults happen."""
    fault_gap_s: float
    """Mean time between the end of one fault and the beginning of the next."""
    combinations: tuple[Combination, ...]
    """Faults with the protocol steps they are to meet, in this order, again from the first when done."""
    operated: bool = False
    """An operator moves replicas and leaders about meanwhile."""
    spared: tuple[int, ...] = ()
    """Numbers of the harms that the nemesis leaves out, as it would do them in a run that leaves out none before."""
    metered: bool = False
    """`__usage` is there, and what brokers put into it is judged too."""
    grouped: bool = False
    """A consumer group reads the first topic; its members come, go and fall asleep."""
    throttled: bool = False
    """The tenant gets a produce rate now and then, lower than what its producers want."""
    changing: bool = False
    """One more topic loses records, grows, and is deleted and made again under its name."""
    stopped: bool = False
    """Brokers are stopped cleanly, one at a time, and started again."""
    reader_zone: str | None = None
    """The consumers of the SDK read from replicas in sync there."""

    @property
    def relaxed(self) -> bool:
        """Some topic acknowledges before stable storage: power cuts may lose data there."""
        return any(topic.settings.durability is Durability.REPLICATED for topic in self.topics)

    @property
    def client_hosts(self) -> int:
        """How many hosts of clients there are, at most."""
        workload = len(self.producers) + self.consumers + self.sdk_consumers + 1
        return workload + (_CHANGING_CLIENTS if self.changing else 0) + (GROUP_CLIENTS if self.grouped else 0)


def draw_plan(seed: int) -> Plan:
    """The plan of a seed: a pure function of it."""
    rng = random.Random(f"{seed}/activities")
    plan = _draw_workload(seed)
    if rng.random() < 0.2:
        plan = with_metering(plan)
    if rng.random() < 0.2:
        plan = with_operator(plan)
    plan = replace(
        plan,
        grouped=rng.random() < 0.2,
        throttled=rng.random() < 0.2,
        changing=rng.random() < 0.25,
        stopped=rng.random() < 0.3,
    )
    if rng.random() < 0.3:
        plan = replace(plan, disk=replace(plan.disk, at_once_chance=rng.choice((0.5, 0.95))))
    if plan.sdk_consumers and rng.random() < 2 / 3:
        plan = replace(plan, reader_zone=ZONES[rng.randrange(len(ZONES))])
    return plan


def _draw_workload(seed: int) -> Plan:
    """Sizes, timings, topics, clients and faults, without anything that is done to the cluster meanwhile."""
    rng = random.Random(f"{seed}/swarm")
    brokers = rng.choices((3, 4, 5), (7, 2, 1))[0]
    turns = range(seed * COMBINATIONS_PER_SEED, (seed + 1) * COMBINATIONS_PER_SEED)
    combinations = tuple(COMBINATIONS[turn * _STRIDE % len(COMBINATIONS)] for turn in turns)
    strict_only = any(combination.fault is FaultKind.ALL_POWER_CUT for combination in combinations)
    topics = tuple(_topic(rng, number, strict_only) for number in range(rng.choice((1, 1, 2))))
    return Plan(
        seed=seed,
        brokers=brokers,
        topics=topics,
        producers=tuple(
            _producer(rng, len(topics), first=number == 0) for number in range(rng.randint(2, 4))
        ),
        consumers=rng.randint(1, 2),
        sdk_consumers=rng.choice((0, 1)),
        timings=_timings(rng),
        sizes=_sizes(rng),
        network=_network(rng),
        disk=_disk(rng),
        store=_store(rng),
        put_off_chance=rng.choice((0.0, 0.01, 0.05)),
        clock_skew_ms_max=rng.choice((0, 100, 60_000)),
        chaos_s=rng.uniform(12.0, 24.0),
        fault_gap_s=rng.choice((0.2, 0.8, 1.5)),
        combinations=combinations,
    )


ZONES = ("z0", "z1", "z2")
"""Brokers are in them in turn."""
_REPLICATION = ((3, 2), (2, 2), (2, 1), (1, 1), (3, 1), (3, 3))
_REPLICATION_WEIGHTS = (12, 2, 2, 1, 1, 1)


def _topic(rng: random.Random, number: int, strict_only: bool) -> TopicPlan:
    replication, min_insync = rng.choices(_REPLICATION, _REPLICATION_WEIGHTS)[0]
    relaxed = not strict_only and replication == 3 and min_insync == 2 and rng.random() < 0.25
    settings = TopicSettings(
        replication=replication,
        min_insync_replicas=min_insync,
        durability=Durability.REPLICATED if relaxed else Durability.FSYNC,
        flush_ms=rng.choice((50, 500, 2000)),
        segment_bytes=rng.choice((limits.SEGMENT_BYTES_MIN, 8 * limits.KIB, 64 * limits.KIB)),
        segment_ms=rng.choice((2_000, 24 * 3600 * 1000)),
        retention_bytes=rng.choice((-1, -1, -1, 64 * limits.KIB)),
        retention_ms=rng.choice((limits.RETENTION_MS_MIN, limits.RETENTION_MS_DEFAULT)),
    )
    return TopicPlan(name=f"topic-{number}", partitions=rng.randint(1, 3), settings=settings)


def _producer(rng: random.Random, topics: int, *, first: bool) -> ProducerPlan:
    acks = -1 if first else rng.choices((-1, 1, 0), (8, 1, 1))[0]
    idempotent = acks != 0 and (first or rng.random() < 0.8)
    return ProducerPlan(
        topic=rng.randrange(topics),
        acks=acks,
        idempotent=idempotent,
        batches_per_s=rng.choice((10.0, 30.0, 80.0)),
        records_per_batch_max=rng.choice((1, 4, 20)),
        value_bytes_max=rng.choice((20, 100, 600)),
        in_flight=rng.randint(1, limits.IN_FLIGHT_BATCHES_PER_PRODUCER) if idempotent else 1,
        delivery_timeout_ms=rng.choice((1_500, 10_000, 60_000)),
        sdk=not first and rng.random() < 0.5,
        repeats=idempotent and rng.random() < 0.5,
    )


def _timings(rng: random.Random) -> Timings:
    return Timings(
        session_ttl_ms=rng.choice((3_000, 6_000)),
        replica_lag_ms_max=rng.choice((1_000, 3_000, 10_000)),
        watermark_beat_ms=rng.choice((50, 200)),
        in_sync_check_ms=rng.choice((100, 500)),
        retention_check_ms=rng.choice((1_000, 10_000)),
        drain_ms=5_000,
    )


def _sizes(rng: random.Random) -> NodeSizes:
    return NodeSizes(
        journal_bytes=rng.choice((16, 64)) * limits.KIB,
        tail_bytes=rng.choice((0, 8, 1024)) * limits.KIB,
        replica_window_bytes=rng.choice((2, 64, 1024)) * limits.KIB,
        push_bytes_max=rng.choice((1, 16, 256)) * limits.KIB,
        unsynced_bytes_max=rng.choice((8, 1024)) * limits.KIB,
    )


def _network(rng: random.Random) -> NetworkSettings:
    timing = rng.choice(
        (
            LinkTiming(),
            LinkTiming(base_ms=0.5, jitter_ms=2.0),
            LinkTiming(base_ms=0.2, jitter_ms=1.0, tail_chance=0.01, tail_ms=400.0),
            LinkTiming(base_ms=2.0, jitter_ms=20.0, tail_chance=0.05, tail_ms=100.0),
        )
    )
    return NetworkSettings(
        timing=timing,
        window_bytes=rng.choice((4, 64, 256)) * limits.KIB,
        eager_connect_chance=rng.choice((0.0, 0.5)),
        cancel_chance=rng.choice((0.0, 0.5, 1.0)),
        give_up_ms=rng.choice((3_000.0, 20_000.0)),
    )


def _disk(rng: random.Random) -> DiskTiming:
    return rng.choice(
        (
            DiskTiming(sync_ms=0.2, sync_jitter_ms=0.5, read_ms=0.2),
            DiskTiming(sync_ms=1.0, sync_jitter_ms=10.0, read_ms=2.0),
            DiskTiming(sync_ms=0.2, sync_jitter_ms=1.0, tail_chance=0.02, tail_ms=300.0, read_ms=5.0),
        )
    )


def _store(rng: random.Random) -> StoreFaults:
    faults = StoreFaults(latency_ms=rng.choice(((0.1, 0.5), (0.5, 10.0))))
    if rng.random() < 0.6:
        faults.slow_chance = rng.choice((0.0, 0.05))
        faults.refused_chance = rng.choice((0.0, 0.02))
        faults.request_lost_chance = rng.choice((0.0, 0.02))
        faults.answer_lost_chance = rng.choice((0.0, 0.05))
        faults.watch_delayed_chance = rng.choice((0.0, 0.1))
        faults.watch_cut_chance = rng.choice((0.0, 0.02))
        faults.compacted_chance = rng.choice((0.0, 0.3))
        faults.session_early_chance = rng.choice((0.0, 0.02))
        faults.session_late_ms = rng.choice((0.0, 3_000.0))
    return faults


def with_metering(plan: Plan) -> Plan:
    """The plan with metering, and readings often enough for a short run."""
    return replace(plan, metered=True, timings=replace(plan.timings, metering_tick_ms=200, reading_ms=1_000))


def with_operator(plan: Plan) -> Plan:
    """The plan with an operator who moves things about, and a broker more than any topic needs."""
    return replace(plan, operated=True, brokers=max(plan.brokers, 4))
