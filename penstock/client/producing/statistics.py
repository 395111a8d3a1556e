"""What a producer says of itself: totals, and what concerns single partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest

from penstock.client.producing.accumulator import RecordAccumulator
from penstock.client.producing.key_sampler import LOOKS_MIN, KeySampler, KeySketch
from penstock.client.producing.partition_queue import PartitionQueue

HOT_KEYS_MAX = 10
PARTITIONS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """A frequent key of a partition among the messages that this producer sent in about the last minute."""

    key: bytes
    """Its first 128 bytes at most."""
    size: int
    """Of the whole key, in bytes."""
    share_percent: int
    """Of the partition's messages from this producer, at least; estimated from one message in about 256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStats:
    """One partition that this producer sends to."""

    topic: str
    partition: int
    buffered_bytes: int
    """Of batches that are closed and without an outcome."""
    slowed_for_ms: int
    """So long nothing leaves for it from now on, because its broker asks for that; 0 = it is not slowed."""
    slowed_ms: int
    """How long it was slowed until now, in all; since its topic is known to the producer."""
    hot_keys: tuple[HotKey, ...]
    """The most frequent first, at most ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStats:
    """One producer, since it was made."""

    buffered_bytes: int
    failed_messages: int
    dropped_messages: int
    throttled_ms: int
    """How long brokers delayed its batches because of the tenant's produce rate, summed over batches."""
    refused_for_limits: int
    """Refusals of batches because a limit of the tenant was reached, its rate or its storage; they were sent again."""
    slowed_ms: int
    """How long partitions were slowed until now because their brokers asked for it, summed over partitions, also those
    of topics that are gone."""
    key_reports_failed: int
    """Reports of frequent keys that no broker took; nothing else came of it."""
    partitions: tuple[PartitionStats, ...]
    """Those with something buffered, that were slowed, or with frequent keys; at most 1,000. First those that are
    slowed now, then those that were slowed for longest, then those with most buffered."""


def producer_stats(
    accumulator: RecordAccumulator,
    now: float,
    *,
    failed_messages: int,
    throttled_ms: int,
    refused_for_limits: int,
    slowed_ms: float,
    key_reports_failed: int,
) -> ProducerStats:
    """The rest as `ProducerCore` counts it; `slowed_ms` with what is still to be waited."""
    queues = [queue for route in accumulator.routes.values() for queue in route.queues]
    return ProducerStats(
        buffered_bytes=accumulator.buffered_bytes,
        failed_messages=failed_messages,
        dropped_messages=accumulator.dropped_messages,
        throttled_ms=throttled_ms,
        refused_for_limits=refused_for_limits,
        slowed_ms=round(slowed_ms - sum([queue.slowed_for_ms(now) for queue in queues])),
        key_reports_failed=key_reports_failed,
        partitions=_partitions(queues, accumulator.sampler, now),
    )


def _partitions(
    queues: Iterable[PartitionQueue], sampler: KeySampler | None, now: float
) -> tuple[PartitionStats, ...]:
    sketches = {} if sampler is None else dict(sampler.sketches())
    found: list[PartitionStats] = []
    for queue in queues:
        sketch = sketches.get((queue.topic, queue.partition))
        hot_keys = () if sketch is None else _hot_keys(sketch, now)
        if not (queue.buffered_bytes or queue.slowed_ms or hot_keys):
            continue
        slowed_for_ms = queue.slowed_for_ms(now)
        found.append(
            PartitionStats(
                topic=queue.topic,
                partition=queue.partition,
                buffered_bytes=queue.buffered_bytes,
                slowed_for_ms=round(slowed_for_ms),
                slowed_ms=round(queue.slowed_ms - slowed_for_ms),
                hot_keys=hot_keys,
            )
        )
    return tuple(nsmallest(PARTITIONS_MAX, found, key=_worst_first))


def _worst_first(one: PartitionStats) -> tuple[bool, int, int, str, int]:
    return not one.slowed_for_ms, -one.slowed_ms, -one.buffered_bytes, one.topic, one.partition


def _hot_keys(sketch: KeySketch, now: float) -> tuple[HotKey, ...]:
    return tuple(
        [
            HotKey(
                key=one.key,
                size=one.size,
                share_percent=(one.count - one.error) * 100 // max(1, sketch.sampled),
            )
            for one in sketch.top(HOT_KEYS_MAX, now, LOOKS_MIN)
        ]
    )
