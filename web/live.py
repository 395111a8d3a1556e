"""The state of a tenant's topics now: leaders, in-sync sets and offsets, and rates while a page is open."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from penstock import Client
from penstock.client.descriptions import PartitionDescription, TopicDescription
from penstock.contract.errors import PenstockError
from penstock.rules.timestamps import moment_of

PARTITIONS_MAX = 2_000
"""With more partitions a page does not ask for all offsets."""
TIMEOUT_S = 5.0
READ_BACK_S = 1.0
"""A page does not wait longer for optional parts."""
SAMPLES_MAX = 60
SAMPLE_S = 1.5
"""Samples are not closer than this, however many pages are open."""
GAP_S = 30.0
"""After a longer pause the rates begin again."""
WATCHED_MAX = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNow:
    """One partition with its offsets [begin, end)."""

    description: PartitionDescription
    begin: int
    end: int

    @property
    def stored(self) -> int:
        return self.end - self.begin

    @property
    def lacks(self) -> int:
        """Replicas that are not in sync."""
        return len(self.description.replicas) - len(self.description.in_sync)

    @property
    def state(self) -> str:
        """ok, caution (a replica is missing) or bad (no leader)."""
        if self.description.leader < 0:
            return "bad"
        return "caution" if self.lacks else "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNow:
    name: str
    topic_id: str
    partitions: tuple[PartitionNow, ...]

    @property
    def stored(self) -> int:
        return sum(partition.stored for partition in self.partitions)

    @property
    def written(self) -> int:
        """Messages ever written: the sum of all ends."""
        return sum(partition.end for partition in self.partitions)

    @property
    def leaderless(self) -> int:
        return sum(partition.state == "bad" for partition in self.partitions)

    @property
    def under_replicated(self) -> int:
        return sum(partition.lacks > 0 for partition in self.partitions)


def topics_now(client: Client, described: Sequence[TopicDescription]) -> list[TopicNow]:
    """The topics with all offsets. Raises `BrokerUnavailable`, `TimedOut`."""
    partitions = [(topic.name, part.partition) for topic in described for part in topic.partitions]
    if not partitions:
        return [TopicNow(name=topic.name, topic_id=topic.topic_id, partitions=()) for topic in described]
    with client.consumer() as consumer:
        consumer.assign(partitions)
        begins = consumer.beginning_offsets(TIMEOUT_S)
        ends = consumer.end_offsets(TIMEOUT_S)
    return [
        TopicNow(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                PartitionNow(
                    description=part,
                    begin=begins[topic.name, part.partition],
                    end=ends[topic.name, part.partition],
                )
                for part in topic.partitions
            ),
        )
        for topic in described
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """How much of a topic was read back intact from the disks: `messages`, on at least `copies` copies. The oldest
    check was at `since`. 0 messages = nothing was read back yet.
    """

    messages: int
    copies: int
    since: datetime | None


def read_back(client: Client, now: TopicNow) -> ReadBack | None:
    """None if it is not known: a partition has no leader, brokers do not answer in time, or the topic is large."""
    if now.leaderless or len(now.partitions) > PARTITIONS_MAX:
        return None
    try:
        reported = client.durability(now.name, timeout=READ_BACK_S)
    except PenstockError:
        return None
    checked = [one for one in reported if one.verified_ms is not None]
    oldest = min((one.verified_ms for one in checked if one.verified_ms is not None), default=None)
    return ReadBack(
        messages=sum(one.verified_end_offset - one.log_start_offset for one in checked),
        copies=min((one.replicas for one in checked), default=0),
        since=None if oldest is None else moment_of(oldest),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Messages per second between the samples, oldest first; empty until there are two."""

    per_s: tuple[float, ...]

    @property
    def now(self) -> float | None:
        return self.per_s[-1] if self.per_s else None


class Watch:
    """Samples of totals per object, in memory, while pages are open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def sample(self, name: str, total: int) -> Rates:
        """Note a total and return the rates up to it."""
        now = time.monotonic()
        with self._lock:
            seen = self._seen.pop(name, None) or deque(maxlen=SAMPLES_MAX + 1)
            self._seen[name] = seen  # the newest is the last to be removed
            while len(self._seen) > WATCHED_MAX:
                del self._seen[next(iter(self._seen))]
            if seen and (now - seen[-1][0] > GAP_S or total < seen[-1][1]):
                seen.clear()
            if not seen or now - seen[-1][0] >= SAMPLE_S:
                seen.append((now, total))
            points = list(seen)
        return Rates(
            per_s=tuple(
                (after - before) / (later - earlier) for (earlier, before), (later, after) in pairwise(points)
            )
        )


watch = Watch()
