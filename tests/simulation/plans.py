"""Plans of short simulations, each kind rich in what one family of bugs needs."""

import random
from dataclasses import replace

from data_plane.node.config import Timings
from data_plane.testkit.disk import DiskTiming
from data_plane.testkit.faults import Combination, FaultKind, Step
from data_plane.testkit.network import LinkTiming, NetworkSettings
from data_plane.testkit.store_faults import StoreFaults
from data_plane.testkit.swarm import ZONES, NodeSizes, Plan, ProducerPlan, TopicPlan
from penstock.contract import limits
from penstock.contract.topic_settings import Durability, TopicSettings

TIMINGS = Timings(
    session_ttl_ms=3_000,
    heartbeat_ms=100,
    suspicion_ms=400,
    replica_lag_ms_max=600,
    watermark_beat_ms=100,
    in_sync_check_ms=100,
    drain_ms=3_000,
)
SETTINGS = TopicSettings(
    replication=3, min_insync_replicas=2, flush_ms=200, segment_bytes=limits.SEGMENT_BYTES_MIN * 4
)
PRODUCER = ProducerPlan(
    topic=0,
    acks=-1,
    idempotent=True,
    batches_per_s=40.0,
    records_per_batch_max=2,
    value_bytes_max=40,
    in_flight=5,
    delivery_timeout_ms=20_000,
    sdk=False,
    repeats=True,
)
SIZES = NodeSizes(
    journal_bytes=64 * limits.KIB,
    tail_bytes=64 * limits.KIB,
    replica_window_bytes=64 * limits.KIB,
    push_bytes_max=16 * limits.KIB,
    unsynced_bytes_max=1024 * limits.KIB,
)


def pairs_of(
    faults: tuple[FaultKind, ...], steps: tuple[Step, ...], rng: random.Random
) -> tuple[Combination, ...]:
    """All pairs, in an order of the seed's."""
    pairs = [Combination(fault, step) for fault in faults for step in steps]
    rng.shuffle(pairs)
    return tuple(pairs)


def plan_of(seed: int, faults: tuple[FaultKind, ...], steps: tuple[Step, ...]) -> Plan:
    """One partition on three brokers, one producer, one reader, quick timings, an even network and disk."""
    rng = random.Random(f"{seed}/small plan")
    return Plan(
        seed=seed,
        brokers=3,
        topics=(TopicPlan(name="orders", partitions=1, settings=SETTINGS),),
        producers=(PRODUCER,),
        consumers=1,
        sdk_consumers=0,
        timings=TIMINGS,
        sizes=SIZES,
        network=NetworkSettings(timing=LinkTiming(base_ms=0.5, jitter_ms=4.0), give_up_ms=3_000.0),
        disk=DiskTiming(sync_ms=0.5, sync_jitter_ms=5.0, read_ms=0.5),
        store=StoreFaults(latency_ms=(0.5, 5.0)),
        put_off_chance=0.01,
        clock_skew_ms_max=100,
        chaos_s=6.0,
        fault_gap_s=0.15,
        combinations=pairs_of(faults, steps, rng),
    )


def leaders_come_and_go(seed: int) -> Plan:
    """Leaders are silenced, cut off and reset while they append: many epochs, much to cut."""
    return plan_of(
        seed,
        (FaultKind.PAUSE, FaultKind.CUT, FaultKind.ONE_WAY_CUT, FaultKind.KILL),
        (Step.PRODUCE, Step.ELECTION, Step.TRUNCATION),
    )


def nearest_is_a_follower(seed: int) -> Plan:
    """Two readers stay with the replica of one zone, mostly a follower, while that one and its leader are hurt."""
    plan = plan_of(
        seed,
        (FaultKind.PAUSE, FaultKind.CUT, FaultKind.ONE_WAY_CUT, FaultKind.KILL),
        (Step.PRODUCE, Step.IN_SYNC_CHANGE, Step.ELECTION),
    )
    return replace(
        plan,
        producers=(PRODUCER, replace(PRODUCER, acks=1, batches_per_s=80.0)),
        sdk_consumers=2,
        reader_zone=ZONES[seed % len(ZONES)],
        chaos_s=12.0,
    )


def slow_answers(seed: int) -> Plan:
    """Changes of in-sync sets take long: followers hover outside while leaders go."""
    plan = plan_of(
        seed,
        (FaultKind.KILL, FaultKind.SLOW_SYNC, FaultKind.PAUSE),
        (Step.IN_SYNC_CHANGE, Step.CATCH_UP, Step.PRODUCE),
    )
    return replace(
        plan,
        store=StoreFaults(latency_ms=(20.0, 200.0), answer_lost_chance=0.1),
        producers=(replace(PRODUCER, batches_per_s=80.0),),
        disk=DiskTiming(sync_ms=1.0, sync_jitter_ms=30.0, tail_chance=0.05, tail_ms=200.0, read_ms=0.5),
    )


def too_few_in_sync(seed: int) -> Plan:
    """The only other replica falls behind while messages without a promise keep coming."""
    plan = plan_of(seed, (FaultKind.PAUSE, FaultKind.CUT), (Step.PRODUCE, Step.CATCH_UP))
    settings = replace(SETTINGS, replication=2)
    return replace(
        plan,
        topics=(TopicPlan(name="orders", partitions=1, settings=settings),),
        producers=(PRODUCER, replace(PRODUCER, acks=1)),
    )


def deposed_alive(seed: int) -> Plan:
    """Leaders lose their leadership to a suspicion while their clients still send to them, over slow links."""
    plan = plan_of(seed, (FaultKind.RESET, FaultKind.ONE_WAY_CUT), (Step.PRODUCE, Step.IDLE))
    return replace(
        plan,
        producers=(replace(PRODUCER, batches_per_s=80.0),) * 3,
        network=NetworkSettings(timing=LinkTiming(base_ms=10.0, jitter_ms=60.0), give_up_ms=3_000.0),
    )


def relaxed_power_cuts(seed: int) -> Plan:
    """Hosts lose power, and with it what a topic with durability `replicated` had not synced yet."""
    plan = plan_of(seed, (FaultKind.POWER_CUT, FaultKind.KILL), (Step.PRODUCE, Step.CATCH_UP, Step.IDLE))
    settings = replace(SETTINGS, durability=Durability.REPLICATED, flush_ms=2_000)
    return replace(
        plan,
        topics=(TopicPlan(name="orders", partitions=1, settings=settings),),
        network=NetworkSettings(timing=LinkTiming(base_ms=5.0, jitter_ms=40.0), give_up_ms=20_000.0),
    )


def flipped_bits(seed: int) -> Plan:
    """Stored bits change under brokers that are killed soon after, all replicas demanded in sync."""
    plan = plan_of(seed, (FaultKind.BIT_FLIP,), (Step.IDLE, Step.PRODUCE, Step.CATCH_UP, Step.IN_SYNC_CHANGE))
    settings = replace(SETTINGS, min_insync_replicas=3, segment_bytes=1 << 20)
    return replace(plan, topics=(TopicPlan(name="orders", partitions=1, settings=settings),))


def unnumbered(seed: int) -> Plan:
    """Leaders come and go under producers whose batches carry no sequence numbers."""
    plan = leaders_come_and_go(seed)
    unnumbered = replace(PRODUCER, idempotent=False, in_flight=1, repeats=False)
    return replace(plan, producers=(PRODUCER, unnumbered, unnumbered))


def failing_syncs(seed: int) -> Plan:
    """A sync fails and loses pages; later all hosts lose power."""
    return plan_of(seed, (FaultKind.SYNC_ERROR, FaultKind.ALL_POWER_CUT), (Step.PRODUCE,))


def left_with_a_tail(seed: int) -> Plan:
    """Leaders fall with a tail that nobody else has, one after the other, for long."""
    plan = plan_of(seed, (FaultKind.KILL, FaultKind.CUT), (Step.PRODUCE, Step.TRUNCATION))
    return replace(
        plan,
        producers=(PRODUCER, replace(PRODUCER, acks=1, batches_per_s=80.0), replace(PRODUCER, acks=1)),
        chaos_s=15.0,
    )


def restarts(seed: int) -> Plan:
    """Relaxed replicas that lost data come back while their leader still counts on what they held before."""
    plan = relaxed_power_cuts(seed)
    return replace(
        plan,
        combinations=pairs_of(
            (FaultKind.POWER_CUT,), (Step.PRODUCE, Step.CATCH_UP, Step.IDLE), random.Random(seed)
        ),
        network=NetworkSettings(timing=LinkTiming(base_ms=30.0, jitter_ms=150.0), give_up_ms=20_000.0),
        timings=replace(TIMINGS, heartbeat_ms=300, suspicion_ms=1_200, replica_lag_ms_max=1_500),
        store=StoreFaults(latency_ms=(0.1, 0.5)),
        producers=(replace(PRODUCER, batches_per_s=80.0), replace(PRODUCER, acks=1, batches_per_s=80.0)),
        chaos_s=12.0,
    )
