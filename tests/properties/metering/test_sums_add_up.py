"""What was counted is handed out or still held, whatever comes in which order; what a leadership keeps adds up."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.metering.increments import (
    DeliveredKey,
    DeliveredTally,
    ElapsedKey,
    Increments,
    RequestSums,
    RequestTally,
)
from data_plane.metering.retained import RetainedOdometer
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId, TopicId
from penstock.records.usage import MINUTE_MS
from penstock.rules.latency_buckets import bucket_of
from penstock.rules.service_levels import MINUTES_A_WINDOW

TENANTS = (TenantId("tn_a"), TenantId("tn_b"))
OPERATIONS = ("produce", "fetch")
ALL = 1 << 20
Sums = Counter[tuple[str, ...]]


class Counting:
    """Increments with few rows of each kind, and what was told to them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.increments = Increments(keys_max=self.random.choice((4, 9, 1_000)))
        self.now_ms = 1_000_000 * MINUTE_MS
        self.told = Counter[tuple[str, ...]]()
        self.taken = Counter[tuple[str, ...]]()
        self.tallies = [RequestTally(tenant, operation) for tenant in TENANTS for operation in OPERATIONS]

    def request(self) -> None:
        tally = self.random.choice(self.tallies)
        of = (tally.tenant, tally.operation)
        error = self.random.choice((ErrorCode.OK, ErrorCode.OK, ErrorCode.INTERNAL, ErrorCode.NOT_FOUND))
        tally.count(error)
        self.told[*of, "valid"] += error != ErrorCode.NOT_FOUND
        self.told[*of, "bad"] += error == ErrorCode.INTERNAL
        if error == ErrorCode.OK:
            took_ms = self.random.choice((0.1, 3.0, 500.0))
            tally.took(took_ms)
            self.told[*of, f"bucket {bucket_of(took_ms)}"] += 1

    def gather(self) -> None:
        for tally in self.random.sample(self.tallies, self.random.randint(1, len(self.tallies))):
            self.increments.gather(tally, self.now_ms)

    def deliver(self) -> None:
        tenant = self.random.choice(TENANTS)
        tally = DeliveredTally("")
        for _ in range(self.random.randint(1, 3)):
            tally.add(self.random.randint(1, 5), self.random.randint(1, 900), self.random.random() < 0.5)
        key = DeliveredKey(tenant, TopicId(bytes(16)), "orders", self.random.randrange(4), "", 5, self.minute)
        before = self.increments.forgone
        self.increments.delivered(key, tally)
        if self.increments.forgone == before:
            zones = (tally.other_zone_messages, tally.other_zone_size)
            self.add_delivered(self.told, tenant, (tally.messages, tally.size, *zones))

    def elapse(self) -> None:
        tenant = self.random.choice(TENANTS)
        spent = (self.random.randrange(9), self.random.randrange(9), self.random.randrange(9))
        key = ElapsedKey(tenant, b"", "", self.random.randrange(4), self.minute, 0)
        before = self.increments.forgone
        self.increments.elapsed(key, connection_ms=spent[0], throttled_ms=spent[1], leaderless_ms=spent[2])
        if self.increments.forgone == before:
            self.add_elapsed(self.told, tenant, spent)

    def pass_time(self) -> None:
        """The wall clock may go back."""
        self.now_ms += self.random.choice((500, 5_000, MINUTE_MS, MINUTES_A_WINDOW * MINUTE_MS, -MINUTE_MS))

    def take(self, count_max: int) -> None:
        for delivered_key, taken in self.increments.take_delivered(count_max):
            self.add_delivered(self.taken, delivered_key.tenant, taken)
        for elapsed_key, spent in self.increments.take_elapsed(count_max):
            self.add_elapsed(self.taken, elapsed_key.tenant, spent)
        for requests_key, sums in self.increments.take_requests(count_max):
            self.add_requests(self.taken, (requests_key.tenant, requests_key.operation), sums)

    @property
    def minute(self) -> int:
        return self.now_ms // MINUTE_MS

    @staticmethod
    def add_delivered(sums: Sums, tenant: str, taken: tuple[int, ...]) -> None:
        for name, value in zip(("messages", "bytes", "other messages", "other bytes"), taken, strict=True):
            sums[tenant, name] += value

    @staticmethod
    def add_elapsed(sums: Sums, tenant: str, spent: tuple[int, ...]) -> None:
        for name, value in zip(("connected", "throttled", "leaderless"), spent, strict=True):
            sums[tenant, name] += value

    @staticmethod
    def add_requests(sums: Sums, of: tuple[str, str], requests: RequestSums) -> None:
        sums[*of, "valid"] += requests.valid
        sums[*of, "bad"] += requests.bad
        assert bool(requests.failed_seconds) == bool(requests.bad)
        for bucket, count in requests.latencies.items():
            sums[*of, f"bucket {bucket}"] += count


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nothing_that_was_counted_is_lost_or_told_twice(seed: int) -> None:
    counting = Counting(seed)
    steps = (counting.request, counting.gather, counting.deliver, counting.elapse, counting.pass_time)
    for _ in range(120):
        if counting.random.random() < 0.06:
            counting.take(counting.random.randint(1, 6))
        else:
            counting.random.choice(steps)()
    for tally in counting.tallies:
        counting.increments.gather(tally, counting.now_ms)
    counting.take(ALL)
    assert len(counting.increments) == 0
    assert +counting.taken == +counting.told, f"seed {seed}"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_byte_minutes_are_the_sum_over_the_minutes_that_were_looked_at(seed: int) -> None:
    """Each minute since the look before counts the smaller of the sizes at both, times the fewer replicas."""
    chosen = random.Random(seed)
    now_ms = 1_000_000 * MINUTE_MS + chosen.randrange(MINUTE_MS)
    began_ms = now_ms
    size, replicas = chosen.randrange(1_000), chosen.randint(1, 3)
    odometer = RetainedOdometer(now_ms, 0.0, size, replicas)
    minute = now_ms // MINUTE_MS
    kept = replicated = 0
    for _ in range(40):
        now_ms += chosen.choice((0, 700, 20_000, MINUTE_MS, 3 * MINUTE_MS))
        next_size, next_replicas = chosen.randrange(1_000), chosen.randint(1, 3)
        odometer.look(now_ms, now_ms - began_ms, next_size, next_replicas)
        if now_ms // MINUTE_MS > minute:
            for _ in range(minute, now_ms // MINUTE_MS):
                kept += min(size, next_size)
                replicated += min(size, next_size) * min(replicas, next_replicas)
            minute, size, replicas = now_ms // MINUTE_MS, next_size, next_replicas
        assert (odometer.until, odometer.byte_minutes) == (minute, kept), f"seed {seed}"
        assert odometer.replicated_byte_minutes == replicated, f"seed {seed}"
