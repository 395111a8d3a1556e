"""Which partitions a round of metering looks at: what happened decides, not how many there are."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from data_plane.contract import usage_pb2 as pb
from data_plane.metering.connection_time import ConnectionTime
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from penstock.contract.ids import SYSTEM_TENANT, TenantId
from tests.unit.log.batches import made_batch, with_header
from tests.unit.log.miniature import Miniature, where
from tests.unit.node.metering.usage import Usage, metering_of
from tests.unit.node.replicas.test_follower_stream import held_by_other, led

HOUR_MS = 3_600_000
TENANT, OTHER = TenantId("t"), TenantId("tn_other")


class Clock:
    """Goes as far as a test says."""

    def __init__(self) -> None:
        self.passed_ms = 0.0

    def now_ms(self) -> int:
        return 1_000 + int(self.passed_ms)

    def monotonic_ms(self) -> float:
        return self.passed_ms


class Metered:
    """One partition that is led here, and rounds of metering."""

    def __init__(self, time: ConnectionTime | None = None) -> None:
        self.replicas = ReplicaSet()
        self.clock = Clock()
        self.usage = Usage(self.clock)
        self.metering = metering_of(self.usage, self.clock, self.replicas, time)
        self.storage = Miniature(tail_bytes=1 << 22)
        self.replica = led(self.storage, wrote=self._wrote, clock=self.clock)
        self.replica.in_generation(1)
        self.replicas.add(self.replica)
        self.replicas.changed(self.replica)

    def _wrote(self, replica: Replica, size: int) -> None:
        self.replicas.changed(replica)

    def produce(self) -> None:
        """One committed batch."""
        batch, header = with_header(made_batch(1, 40))
        self.replica.produce(batch, header, acks=0, claimed_epoch=1, principal=5, answer=lambda outcome: None)
        self.storage.commit(raise_watermark=False)
        self.replica.became_durable()
        held_by_other(self.replica, self.replica.log.log_end_offset)

    def round_after(self, passed_ms: float) -> list[tuple[str, int]]:
        """(kind, end offset) of the readings that it wrote."""
        self.clock.passed_ms += passed_ms
        before = len(self.usage.records)
        self.usage.run(self.metering._tick())
        return [
            (pb.ReadingKind.Name(reading.kind), reading.end_offset)
            for record in self.usage.records[before:]
            for reading in record.readings
        ]

    @property
    def looks_at(self) -> int:
        return len(self.metering._looks)


@pytest.fixture
def metered() -> Iterator[Metered]:
    made = Metered()
    with made.usage:
        yield made


def test_a_partition_is_looked_at_from_a_batch_on_until_it_is_read_and_then_no_more(metered: Metered) -> None:
    assert metered.round_after(0) == [("LEADER_CHANGE", 0)]
    assert metered.round_after(1_000) == [] and metered.looks_at == 0
    metered.produce()
    assert metered.round_after(1_000) == [] and metered.looks_at == 1, "its next reading is not due yet"
    assert metered.round_after(9_000) == [("PERIODIC", 1)]
    assert metered.round_after(1_000) == [] and metered.looks_at == 0


@pytest.mark.pure
def test_a_partition_that_is_written_to_all_the_time_is_put_aside_between_its_readings(
    metered: Metered, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []
    is_early = metered.metering.readings.is_early

    def look(replica: Replica, now_ms: float, minute: int) -> bool:
        looked.append(now_ms)
        return is_early(replica, now_ms, minute)

    monkeypatch.setattr(metered.metering.readings, "is_early", look)
    read = metered.round_after(0)
    for _ in range(40):
        metered.produce()
        read += metered.round_after(1_000)
    assert read == [("LEADER_CHANGE", 0), *(("PERIODIC", end) for end in (8, 16, 24, 32, 40))]
    assert len(looked) == 1 + 2 * 5, "once to be put aside and once to be read"


@pytest.mark.parametrize("why", ["another leadership", "a minute", "none"])
def test_what_was_put_aside_is_looked_at_when_something_happens_to_it(metered: Metered, why: str) -> None:
    assert metered.round_after(0) == [("LEADER_CHANGE", 0)]
    metered.produce()
    assert metered.round_after(1_000) == []
    record = metered.replica.record
    assert record is not None
    if why == "another leadership":
        metered.replica.rest()
        metered.replica.lead(record.changed(leader_epoch=record.leader_epoch + 1))
    metered.replicas.changed(metered.replica)
    now_ms = metered.clock.monotonic_ms()
    found = metered.metering._looks.begin(now_ms, 1 if why == "a minute" else 0)
    assert found == ([] if why == "none" else [metered.replica])


def test_the_end_of_a_minute_is_read_in_the_next_round_though_the_period_is_not_over(
    metered: Metered,
) -> None:
    assert metered.round_after(58_000) == [("LEADER_CHANGE", 0)]
    metered.produce()
    assert metered.round_after(1_000) == []
    metered.clock.passed_ms += 1_000
    metered.produce()
    assert metered.round_after(0) == [("MINUTE_END", 1)]
    assert metered.round_after(1_000) == [] and metered.looks_at == 1
    assert metered.round_after(7_000) == [("PERIODIC", 2)]


def test_what_was_put_aside_before_its_first_batch_of_a_minute_is_read_when_that_comes(
    metered: Metered,
) -> None:
    assert metered.round_after(56_000) == [("LEADER_CHANGE", 0)]
    metered.produce()
    assert metered.round_after(1_000) == []
    assert metered.round_after(3_000) == [], "the minute has begun, and may still be empty"
    assert metered.round_after(1_000) == []
    metered.produce()
    assert metered.round_after(1_000) == [("MINUTE_END", 1)]


def test_what_a_caller_wants_is_read_though_the_period_is_not_over(metered: Metered) -> None:
    assert metered.round_after(0) == [("LEADER_CHANGE", 0)]
    metered.produce()
    metered.metering.hurry(where())
    assert metered.round_after(1_000) == [("PERIODIC", 1)]


def test_a_partition_at_rest_is_read_once_an_hour(metered: Metered) -> None:
    assert metered.round_after(0) == [("LEADER_CHANGE", 0)]
    hourly: list[tuple[str, int]] = []
    for _ in range(62):
        hourly += metered.round_after(HOUR_MS / 60)
    assert hourly == [("HOURLY", 0)]


def test_a_partition_at_rest_is_read_in_the_very_round_in_which_its_hour_is_over(metered: Metered) -> None:
    assert metered.round_after(0) == [("LEADER_CHANGE", 0)]
    assert metered.round_after(HOUR_MS - 60_000) == []
    assert metered.round_after(60_000) == [("HOURLY", 0)]


def test_a_partition_that_is_led_again_is_read_again(metered: Metered) -> None:
    assert metered.round_after(0) == [("LEADER_CHANGE", 0)]
    assert metered.round_after(1_000) == []
    record = metered.replica.record
    assert record is not None
    metered.replica.rest()
    assert metered.round_after(1_000) == []
    metered.replica.lead(record.changed(leader_epoch=record.leader_epoch + 1))
    metered.replicas.changed(metered.replica)
    assert metered.round_after(1_000) == [("LEADER_CHANGE", 0)]


def test_a_replica_that_has_left_the_set_is_forgotten(metered: Metered) -> None:
    changes = metered.replicas.changes()
    metered.produce()
    metered.replicas.remove(where())
    assert changes.take() == {}
    assert metered.round_after(0) == [] and metered.looks_at == 0


@pytest.mark.pure
def test_a_reading_that_is_wanted_while_a_round_writes_is_made_in_the_next_one(
    metered: Metered, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert metered.round_after(0) == [("LEADER_CHANGE", 0)]
    metered.produce()
    is_early = metered.metering.readings.is_early

    def look_and_hurry(replica: Replica, now_ms: float, minute: int) -> bool:
        """As when a caller asks right after the partition's turn."""
        early = is_early(replica, now_ms, minute)
        metered.metering.hurry(where())
        return early

    with monkeypatch.context() as busy:
        busy.setattr(metered.metering.readings, "is_early", look_and_hurry)
        assert metered.round_after(1_000) == []
    assert metered.round_after(1_000) == [("PERIODIC", 1)]
    metered.produce()
    assert metered.round_after(1_000) == [], "it was wanted once"


def test_readings_tell_what_the_leadership_has_kept_so_far(metered: Metered) -> None:
    metered.round_after(0)
    metered.produce()
    metered.round_after(10_000)
    size, replicas = metered.replica.log.size_bytes, 3
    metered.round_after(HOUR_MS)
    metered.produce()
    metered.round_after(2 * HOUR_MS)
    told = [
        (
            reading.retained_since,
            reading.retained_until,
            reading.retained_byte_minutes,
            reading.replicated_byte_minutes,
        )
        for record in metered.usage.records
        for reading in record.readings
    ]
    # What came after the first look of a minute counts from the next one on.
    assert list(dict.fromkeys(told)) == [
        (0, 0, 0, 0),
        (0, 60, 0, 0),
        (0, 180, 120 * size, 120 * size * replicas),
    ]


def test_what_is_kept_is_looked_at_when_a_minute_begins_though_its_reading_is_early(metered: Metered) -> None:
    metered.round_after(58_000)
    metered.produce()
    size = metered.replica.log.size_bytes
    assert metered.round_after(1_000) == [] and metered.round_after(2_000) == []
    metered.produce()
    assert metered.round_after(5_000)
    metered.produce()
    assert metered.round_after(60_000)
    (*_, reading) = metered.usage.records[-1].readings
    assert (reading.retained_until, reading.retained_byte_minutes) == (2, size)


def test_time_of_connections_and_of_delays_is_written_with_the_next_increments() -> None:
    time = ConnectionTime()
    made = Metered(time)
    with made.usage:
        made.round_after(0)
        time.begin(TENANT, 5, "c", 0)
        made.metering.clients.throttled(TENANT, 5, 40)
        made.metering.clients.throttled(TENANT, 5, 0)
        made.metering.clients.throttled(TENANT, 5, 2, made.replica.topic)
        made.metering.clients.throttled(OTHER, 6, 3, made.replica.topic)
        made.metering.clients.throttled(SYSTEM_TENANT, 1, 9)
        for _ in range(10):
            made.round_after(1_000)
    told = [
        (one.tenant, one.topic, one.principal, one.connection_ms, one.throttled_ms)
        for record in made.usage.records
        for one in record.elapsed
    ]
    assert told == [
        (TENANT, "", 5, 8_000, 40),
        (TENANT, made.replica.topic.name, 5, 0, 2),
        (OTHER, "", 6, 0, 3),
    ], "another tenant's topic is not named"
    assert [bool(one.topic_id) for record in made.usage.records for one in record.elapsed] == [
        False, True, False
    ]  # fmt: skip


def test_each_second_of_a_partition_without_a_leader_is_told_by_partition_and_fails_two_requests() -> None:
    made = Metered()
    topic = made.replica.topic
    with made.usage:
        made.round_after(0)
        made.metering.clients.not_served(topic, 2, 3)
        made.metering.clients.not_served(topic, 1, 1)
        made.metering.clients.not_served(replace(topic, tenant=SYSTEM_TENANT), 0, 9)
        for _ in range(10):
            made.round_after(1_000)
    elapsed = [one for record in made.usage.records for one in record.elapsed]
    assert [(one.topic_id, one.topic, one.partition, one.leaderless_ms) for one in elapsed] == [
        (topic.topic_id, topic.name, 2, 3_000), (topic.topic_id, topic.name, 1, 1_000),
    ]  # fmt: skip
    requests = [
        (one.operation, one.valid, one.bad) for record in made.usage.records for one in record.requests
    ]
    assert requests == [("produce", 4, 4), ("fetch", 4, 4)]


@pytest.mark.parametrize(
    ("metered_end", "sealed_end", "deletable", "begins_there"),
    [(5, 5, True, True), (4, 5, False, False), (5, 4, False, True), (6, 6, True, True)],
)
def test_a_log_is_deleted_up_to_what_is_metered_and_sealed_and_no_further(
    metered: Metered, metered_end: int, sealed_end: int, deletable: bool, begins_there: bool
) -> None:
    metered.replica.note_metered(1, metered_end)
    metered.replica.note_sealed(sealed_end)
    assert metered.metering.may_delete(where(), 5) is deletable
    assert metered.metering.is_read(where(), 5) is begins_there


def test_what_is_not_metered_may_be_deleted_at_once(metered: Metered) -> None:
    assert not metered.metering.may_delete(where(), 5) and not metered.metering.is_read(where(), 5)
    metered.replica.topic = replace(metered.replica.topic, tenant=SYSTEM_TENANT)
    assert metered.metering.may_delete(where(), 5) and metered.metering.is_read(where(), 5)
    metered.replicas.remove(where())
    assert metered.metering.may_delete(where(), 5) and metered.metering.is_read(where(), 5)
