"""What consumers took and what was asked for: increments that add up here until a usage record carries them."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId, TopicId

K = TypeVar("K")

KEYS_MAX = 50_000
"""Of each kind, while `__usage` takes nothing: some 20 MB. What exceeds that is not charged to the tenant."""

PRODUCE, FETCH, METADATA = "produce", "fetch", "metadata"

_OUR_FAULT = frozenset(
    int(code)
    for code in (
        ErrorCode.INTERNAL,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.LEADER_NOT_READY,
        ErrorCode.NO_LEADER,
        ErrorCode.BROKER_UNAVAILABLE,
        ErrorCode.CORRUPT_LOG,
        ErrorCode.LOG_TRUNCATED,
        ErrorCode.DISK_FULL,
        ErrorCode.SHUTTING_DOWN,
        ErrorCode.OUTCOME_UNKNOWN,
        ErrorCode.TIMEOUT,
    )
)
"""All other errors are the client's, or only say whom to ask: they count neither way."""


class DeliveredKey(NamedTuple):
    """Whose messages, and for whom. `group` is empty without one; minutes are since 1970 UTC. Made for each credit that
    returns, so it is a tuple: a frozen dataclass takes several times as long to make and to find."""

    tenant: TenantId
    topic_id: TopicId
    topic: str
    partition: int
    group: str
    principal: int
    minute: int


class RequestsKey(NamedTuple):
    """Who asked for what, and in which minute since 1970 UTC."""

    tenant: TenantId
    operation: str
    minute: int


class RequestTally:
    """Requests of one operation on one stream since they were last gathered; counted without looking at the clock."""

    __slots__ = ("bad", "operation", "tenant", "valid")

    def __init__(self, tenant: TenantId, operation: str) -> None:
        self.tenant, self.operation = tenant, operation
        self.valid = self.bad = 0

    def count(self, error: int) -> None:
        """One answer, by its error code (0 = none)."""
        if not error:
            self.valid += 1
        elif error in _OUR_FAULT:
            self.valid += 1
            self.bad += 1

    def fail(self, count: int) -> None:
        """So many requests could not even be sent."""
        self.valid += count
        self.bad += count


class Increments:
    """Sums by key, handed out in the order in which the keys first came."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._delivered: dict[DeliveredKey, list[int]] = {}
        self._requests: dict[RequestsKey, list[int]] = {}
        self.forgone = 0
        """Increments beyond that bound."""

    def __len__(self) -> int:
        return len(self._delivered) + len(self._requests)

    def delivered(self, key: DeliveredKey, messages: int, size: int) -> None:
        """Messages and bytes of batches that a consumer has taken."""
        self._add(self._delivered, key, messages, size)

    def gather(self, tally: RequestTally, minute: int) -> None:
        """Take over what a stream counted."""
        if tally.valid:
            self._add(
                self._requests, RequestsKey(tally.tenant, tally.operation, minute), tally.valid, tally.bad
            )
            tally.valid = tally.bad = 0

    def take_delivered(self, count_max: int) -> list[tuple[DeliveredKey, int, int]]:
        """At most so many (key, messages, bytes), no longer held here."""
        return [(key, *sums) for key, sums in self._taken(self._delivered, count_max)]

    def take_requests(self, count_max: int) -> list[tuple[RequestsKey, int, int]]:
        """At most so many (key, valid, bad), no longer held here."""
        return [(key, *sums) for key, sums in self._taken(self._requests, count_max)]

    def _add(self, sums: dict[K, list[int]], key: K, first: int, second: int) -> None:
        row = sums.get(key)
        if row is not None:
            row[0] += first
            row[1] += second
        elif len(sums) < self._keys_max:
            sums[key] = [first, second]
        else:
            self.forgone += 1

    def _taken(self, sums: dict[K, list[int]], count_max: int) -> Iterator[tuple[K, tuple[int, int]]]:
        for key in list(islice(sums, count_max)):
            first, second = sums.pop(key)
            yield key, (first, second)
