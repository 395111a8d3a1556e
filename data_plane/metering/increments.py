"""What consumers took and what was asked for: increments that add up here until a usage record carries them."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple, TypeVar

from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId, TopicId
from penstock.rules.latency_buckets import bucket_of
from penstock.rules.service_levels import MINUTES_A_WINDOW

K = TypeVar("K")
V = TypeVar("V")

KEYS_MAX = 50_000
"""Of each kind, while `__usage` takes nothing: some 20 MB. Deliveries beyond that are not charged to the tenant.
Requests become coarser instead, as a forgotten failure would be at the tenant's cost: with 1,000 tenants that produce
and fetch, there are minutes of the first 25 minutes, windows of service levels for two hours, and sums after that."""

_OUR_FAULT = frozenset(
    int(code)
    for code in (
        ErrorCode.INTERNAL,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.LEADER_NOT_READY,
        ErrorCode.NO_LEADER,
        ErrorCode.BROKER_UNAVAILABLE,
        ErrorCode.CORRUPT_LOG,
        ErrorCode.DISK_FULL,
        ErrorCode.SHUTTING_DOWN,
        ErrorCode.OUTCOME_UNKNOWN,
        ErrorCode.TIMEOUT,
    )
)
"""All other errors are the client's, or only say whom to ask: they count neither way. So does a truncated log: who asks
for an offset that never was gets the same answer, and what is really lost is declared and credited."""


class DeliveredKey(NamedTuple):
    """Whose messages, and for whom. `group` is empty without one; minutes are since 1970 UTC. Made often, so it is a
    tuple: a frozen dataclass takes several times as long to make and to find."""

    tenant: TenantId
    topic_id: TopicId
    topic: str
    partition: int
    group: str
    principal: int
    minute: int


class ElapsedKey(NamedTuple):
    """Whose time. `topic_id` and `topic` are empty for what is of no topic, `partition` is 0 for what is of none."""

    tenant: TenantId
    topic_id: bytes
    topic: str
    principal: int
    minute: int
    partition: int


class Spent(NamedTuple):
    """Milliseconds of open connections, of clients that limits delayed, and of a partition without a leader."""

    connection_ms: int
    throttled_ms: int
    leaderless_ms: int


class Taken(NamedTuple):
    """What consumers took, and what of it left the broker's zone."""

    messages: int
    size: int
    other_zone_messages: int
    other_zone_size: int


class RequestsKey(NamedTuple):
    """Who asked for what, and in which minute since 1970 UTC."""

    tenant: TenantId
    operation: str
    minute: int


class DeliveredTally:
    """What a consumer has taken of a partition since it was last gathered; counted without looking at the clock."""

    __slots__ = ("group", "messages", "other_zone_messages", "other_zone_size", "size")

    def __init__(self, group: str) -> None:
        self.group = group
        self.messages = self.size = self.other_zone_messages = self.other_zone_size = 0

    def add(self, messages: int, size: int, own_zone: bool) -> bool:
        """Whole batches of `size` bytes; `own_zone`: they stayed in this broker's. True: these are the first, so it has
        to be gathered."""
        is_first = not self.size
        self.messages += messages
        self.size += size
        if not own_zone:
            self.other_zone_messages += messages
            self.other_zone_size += size
        return is_first

    def clear(self) -> None:
        self.messages = self.size = self.other_zone_messages = self.other_zone_size = 0


class RequestTally:
    """Requests of one operation on one stream since they were last gathered; counted without looking at the clock."""

    __slots__ = ("bad", "latencies", "operation", "tenant", "valid")

    def __init__(self, tenant: TenantId, operation: str) -> None:
        self.tenant = tenant
        self.operation = operation
        self.valid = self.bad = 0
        self.latencies: dict[int, int] = {}
        """Of good answers, by the buckets of `penstock.rules.latency_buckets`."""

    def count(self, error: int) -> None:
        """One answer, by its error code (0 = none)."""
        if not error:
            self.valid += 1
        elif error in _OUR_FAULT:
            self.valid += 1
            self.bad += 1

    def took(self, milliseconds: float) -> None:
        """How long a good answer took that is counted, without what the tenant's own rate delayed it."""
        bucket = bucket_of(milliseconds)
        self.latencies[bucket] = self.latencies.get(bucket, 0) + 1

    def fail(self, count: int) -> None:
        """So many requests could not even be sent."""
        self.valid += count
        self.bad += count


class RequestSums:
    """Requests of one operation in a minute. Seconds of the minute are bits, the first one the lowest: in which of them
    answers were gathered that were good, and that failed by our fault.
    """

    __slots__ = ("bad", "failed_seconds", "latencies", "succeeded_seconds", "valid")

    def __init__(self) -> None:
        self.valid = self.bad = self.succeeded_seconds = self.failed_seconds = 0
        self.latencies: dict[int, int] = {}

    def take(self, tally: RequestTally, second: int) -> None:
        """Add what the tally has, which then has nothing."""
        if tally.valid > tally.bad:
            self.succeeded_seconds |= 1 << second
        if tally.bad:
            self.failed_seconds |= 1 << second
        self.valid += tally.valid
        self.bad += tally.bad
        tally.valid = tally.bad = 0
        self._histogram(tally.latencies)
        tally.latencies.clear()

    def add(self, other: "RequestSums") -> None:
        """Those of another minute of the same window. Its seconds become seconds of this one."""
        self.valid += other.valid
        self.bad += other.bad
        self.succeeded_seconds |= other.succeeded_seconds
        self.failed_seconds |= other.failed_seconds
        self._histogram(other.latencies)

    def _histogram(self, latencies: Mapping[int, int]) -> None:
        for bucket, count in latencies.items():
            self.latencies[bucket] = self.latencies.get(bucket, 0) + count


class Increments:
    """Sums by key, handed out in the order in which the keys first came."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._delivered: dict[DeliveredKey, list[int]] = {}
        self._requests: dict[RequestsKey, RequestSums] = {}
        self._newest: dict[tuple[TenantId, str], RequestsKey] = {}
        """Of the requests held here, by tenant and operation."""
        self._coarse_until = 0
        """Minutes before this one are one row a window."""
        self._elapsed: dict[ElapsedKey, list[int]] = {}
        self.forgone = 0
        """Deliveries beyond that bound."""

    def __len__(self) -> int:
        return len(self._delivered) + len(self._requests) + len(self._elapsed)

    def delivered(self, key: DeliveredKey, tally: DeliveredTally) -> None:
        """Take over what a consumer has taken."""
        row = self._delivered.get(key)
        if row is None:
            if len(self._delivered) >= self._keys_max:
                self.forgone += 1
                return
            row = self._delivered[key] = [0, 0, 0, 0]
        row[0] += tally.messages
        row[1] += tally.size
        row[2] += tally.other_zone_messages
        row[3] += tally.other_zone_size

    def elapsed(
        self, key: ElapsedKey, *, connection_ms: int = 0, throttled_ms: int = 0, leaderless_ms: int = 0
    ) -> None:
        """Time of open connections, by which limits delayed the client, and in which the partition had no leader."""
        row = self._elapsed.get(key)
        if row is not None:
            row[0] += connection_ms
            row[1] += throttled_ms
            row[2] += leaderless_ms
        elif len(self._elapsed) < self._keys_max:
            self._elapsed[key] = [connection_ms, throttled_ms, leaderless_ms]
        else:
            self.forgone += 1

    def gather(self, tally: RequestTally, now_ms: int) -> None:
        """Take over what a stream counted, as of this second."""
        if not tally.valid:
            return
        minute, second = divmod(now_ms // 1_000, 60)
        key = RequestsKey(tally.tenant, tally.operation, minute)
        sums = self._requests.get(key)
        if sums is None:
            sums = self._begun(key)
        sums.take(tally, second)

    def _begun(self, key: RequestsKey) -> RequestSums:
        """A row of this minute, or where there is no space for one, the newest row of its tenant and operation. Each of
        these has a row, whatever the bound.
        """
        if len(self._requests) >= self._keys_max:
            self._coarsen(key.minute // MINUTES_A_WINDOW * MINUTES_A_WINDOW)
            newest = self._newest.get((key.tenant, key.operation))
            if newest is not None and len(self._requests) >= self._keys_max:
                return self._requests[newest]
        self._newest[key.tenant, key.operation] = key
        sums = self._requests[key] = RequestSums()
        return sums

    def _coarsen(self, until: int) -> None:
        """Put the minutes of each window that ended by `until` together, once."""
        if until <= self._coarse_until:
            return
        begun = self._coarse_until
        self._coarse_until = until
        for key in [key for key in self._requests if begun <= key.minute < until]:
            minute = key.minute // MINUTES_A_WINDOW * MINUTES_A_WINDOW
            if minute == key.minute:
                continue
            into = RequestsKey(key.tenant, key.operation, minute)
            sums = self._requests.pop(key)
            there = self._requests.get(into)
            if there is None:
                self._requests[into] = sums
            else:
                there.add(sums)
            # None where it is in a record already, and the clock was set back before it was begun.
            if self._newest.get((key.tenant, key.operation)) == key:
                self._newest[key.tenant, key.operation] = into

    def take_delivered(self, count_max: int) -> list[tuple[DeliveredKey, Taken]]:
        """At most so many (key, sums), no longer held here."""
        return [(key, Taken(*sums)) for key, sums in self._taken(self._delivered, count_max)]

    def take_elapsed(self, count_max: int) -> list[tuple[ElapsedKey, Spent]]:
        """At most so many (key, sums), no longer held here."""
        return [(key, Spent(*sums)) for key, sums in self._taken(self._elapsed, count_max)]

    def take_requests(self, count_max: int) -> list[tuple[RequestsKey, RequestSums]]:
        """At most so many (key, sums), no longer held here."""
        taken = list(self._taken(self._requests, count_max))
        for key, _ in taken:
            if self._newest.get((key.tenant, key.operation)) == key:
                del self._newest[key.tenant, key.operation]
        return taken

    def _taken(self, sums: dict[K, V], count_max: int) -> Iterator[tuple[K, V]]:
        for key in list(islice(sums, count_max)):
            yield key, sums.pop(key)
