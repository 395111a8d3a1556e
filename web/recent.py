"""The last hour by the minute, from usage records: messages and bytes in and out, by tenant and topic. Pure.

Usage in: a reading gives the totals of its own minute, and a later reading of that minute gives larger ones. Repeated
and late readings change nothing. Usage out: increments, each counted once by (broker, boot, sequence). Invoices are
made from the same records by other code, and with a proof; this is only shown.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from data_plane.contract import usage_pb2
from penstock.records.usage import MINUTE_MS

MINUTES = 60
_KEPT = MINUTES + 2
_ENTRIES_MAX = 500_000
"""Entries are the numbers of one partition in one minute. With more the oldest minute is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The usage of one minute."""

    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """Whole minutes, oldest first, and the one that is not over."""

    minutes: tuple[Flow, ...]
    present: Flow

    @property
    def last(self) -> Flow:
        """The last whole minute."""
        return self.minutes[-1]

    @property
    def total(self) -> Flow:
        """The whole hour, with the present minute."""
        return _sum((*self.minutes, self.present))


@dataclass(slots=True, kw_only=True)
class _Topic:
    """By minute: usage in by (partition, log generation), and usage out."""

    taken: dict[int, dict[tuple[int, int], tuple[int, int]]] = field(default_factory=dict)
    given: dict[int, tuple[int, int]] = field(default_factory=dict)


class RecentUsage:
    """Takes the records of `__usage` in any order; returns the last hour of a tenant or of one topic."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, _Topic]] = {}
        self._seen: dict[tuple[int, str], int] = {}
        self._newest = 0
        self._forgotten = 0
        self._entries = 0

    def apply(self, record: usage_pb2.UsageRecord) -> None:
        """Count one usage record."""
        for reading in record.readings:
            rows = reading.minute_rows
            if rows:
                messages = sum(row.messages for row in rows)
                size = sum(row.bytes for row in rows)
                log = (reading.partition, reading.log_generation)
                self._take(reading.tenant, reading.topic_id.hex(), rows[0].minute, log, messages, size)
        boot = (record.broker_id, record.boot_id)
        if record.sequence > self._seen.get(boot, 0):
            self._seen[boot] = record.sequence
            for one in record.delivered:
                self._give(one.tenant, one.topic_id.hex(), one.minute, one.messages, one.bytes)

    def hour(self, tenant: str, now_ms: int, topic_id: str | None = None) -> Hour:
        """The hour of the tenant, or of one of its topics (hex)."""
        present = now_ms // MINUTE_MS
        mine = self._topics.get(tenant, {})
        chosen = list(mine.values()) if topic_id is None else [mine[topic_id]] if topic_id in mine else []
        minutes = [
            _sum(_flow(topic, minute) for topic in chosen) for minute in range(present - MINUTES, present + 1)
        ]
        return Hour(minutes=tuple(minutes[:-1]), present=minutes[-1])

    def _take(
        self, tenant: str, topic_id: str, minute: int, log: tuple[int, int], messages: int, size: int
    ) -> None:
        if not self._welcome(minute):
            return
        partitions = self._topic(tenant, topic_id).taken.setdefault(minute, {})
        before = partitions.get(log)
        self._entries += before is None
        partitions[log] = max(before or (0, 0), (messages, size))

    def _give(self, tenant: str, topic_id: str, minute: int, messages: int, size: int) -> None:
        if not self._welcome(minute):
            return
        given = self._topic(tenant, topic_id).given
        before = given.get(minute)
        self._entries += before is None
        given[minute] = ((before or (0, 0))[0] + messages, (before or (0, 0))[1] + size)

    def _topic(self, tenant: str, topic_id: str) -> _Topic:
        return self._topics.setdefault(tenant, {}).setdefault(topic_id, _Topic())

    def _welcome(self, minute: int) -> bool:
        """Whether the minute is kept; a new one removes the oldest."""
        if minute > self._newest:
            self._newest = minute
            self._forget(minute - _KEPT)
        while self._entries > _ENTRIES_MAX and self._forgotten < self._newest:
            self._forget(self._forgotten + 1)
        return minute > self._forgotten

    def _forget(self, until: int) -> None:
        """Remove minutes up to and including `until`."""
        if until <= self._forgotten:
            return
        self._forgotten = until
        for tenant, topics in list(self._topics.items()):
            for topic_id, topic in list(topics.items()):
                for minute in [minute for minute in topic.taken if minute <= until]:
                    self._entries -= len(topic.taken.pop(minute))
                for minute in [minute for minute in topic.given if minute <= until]:
                    self._entries -= 1
                    del topic.given[minute]
                if not topic.taken and not topic.given:
                    del topics[topic_id]
            if not topics:
                del self._topics[tenant]


def _flow(topic: _Topic, minute: int) -> Flow:
    taken = topic.taken.get(minute, {}).values()
    out = topic.given.get(minute, (0, 0))
    return Flow(
        messages_in=sum(messages for messages, _ in taken),
        bytes_in=sum(size for _, size in taken),
        messages_out=out[0],
        bytes_out=out[1],
    )


def _sum(flows: Iterable[Flow]) -> Flow:
    listed = list(flows)
    return Flow(
        messages_in=sum(one.messages_in for one in listed),
        bytes_in=sum(one.bytes_in for one in listed),
        messages_out=sum(one.messages_out for one in listed),
        bytes_out=sum(one.bytes_out for one in listed),
    )
