"""Which readings are due of a partition, told by hand-made logs."""

from collections.abc import Iterable

from data_plane.metering.readings import MeterPeriods, PartitionMeter, ReadingKind
from data_plane.metering.retained import RetainedOdometer
from penstock.records.usage import OdometerMark, Totals

PERIODS = MeterPeriods(changed_ms=10_000, idle_ms=3_600_000)


def mark(end_offset: int, accepted_ms: int = 0) -> OdometerMark:
    return OdometerMark(
        end_offset=end_offset,
        accepted_ms=accepted_ms,
        totals=Totals(committed_messages=end_offset),
        minute_rows=(),
    )


class Partition:
    """A leader's log as its meter sees it."""

    def __init__(self, metered_offset: int = 0) -> None:
        self.meter = PartitionMeter(1, metered_offset, RetainedOdometer(0, 0, 0, 1))
        self.log_end = self.high_watermark = 0
        self.minutes: list[tuple[int, OdometerMark]] = []
        """Due offset and mark."""
        self.known = True

    def due(self, above: int, high_watermark: int) -> Iterable[OdometerMark]:
        return [one for due, one in self.minutes if due <= high_watermark and one.end_offset > above]

    def look(self, now_ms: float, *, at_once: bool = False) -> list[tuple[ReadingKind, int]]:
        found = self.meter.look(
            log_end=self.log_end,
            high_watermark=self.high_watermark,
            now_ms=now_ms,
            periods=PERIODS,
            mark_end=lambda: mark(self.log_end) if self.known else None,
            minute_marks=self.due,
            at_once=at_once,
        )
        return [(due.kind, due.mark.end_offset) for due in found]


def test_a_new_leader_reads_at_once_even_an_empty_partition() -> None:
    assert Partition().look(0) == [(ReadingKind.LEADER_CHANGE, 0)]


def test_a_reading_waits_until_its_offset_is_committed() -> None:
    partition = Partition()
    partition.log_end, partition.high_watermark = 100, 40
    assert partition.look(0) == []
    partition.log_end, partition.high_watermark = 300, 99
    assert partition.look(1_000) == []
    partition.high_watermark = 120
    assert partition.look(2_000) == [(ReadingKind.LEADER_CHANGE, 100)]
    partition.log_end = partition.high_watermark = 120
    assert partition.look(10_000) == [(ReadingKind.PERIODIC, 120)], "what was committed by then was not read"


def test_what_is_written_is_marked_at_its_time_though_nothing_new_is_committed() -> None:
    partition = Partition()
    partition.look(0)
    partition.log_end = 10
    assert partition.look(10_000) == []
    partition.log_end, partition.high_watermark = 30, 10
    assert partition.look(10_001) == [(ReadingKind.PERIODIC, 10)]
    assert not partition.meter.quiet(30, 10_002, PERIODS), "the rest is read next"
    partition.high_watermark = 30
    assert partition.look(20_000) == [(ReadingKind.PERIODIC, 30)]


def test_it_is_early_from_a_batch_after_a_reading_until_the_next_one_is_due() -> None:
    partition = Partition()
    assert not partition.meter.early(5, 0, PERIODS), "it was never read"
    partition.look(0)
    assert not partition.meter.early(0, 1, PERIODS), "nothing came since then"
    assert partition.meter.early(5, 9_999, PERIODS)
    assert not partition.meter.early(5, 10_000, PERIODS)
    assert not partition.meter.early(5, 9_999, MeterPeriods(changed_ms=10_000, idle_ms=9_999))
    partition.log_end = 5
    assert partition.look(10_000) == []
    assert not partition.meter.early(6, 10_001, PERIODS), "a reading waits until it is committed"


def test_what_changes_is_read_every_period_and_what_rests_every_hour() -> None:
    partition = Partition()
    partition.look(0)
    partition.log_end = partition.high_watermark = 10
    assert partition.look(9_999) == []
    assert partition.look(10_000) == [(ReadingKind.PERIODIC, 10)]
    assert partition.meter.quiet(10, 3_609_999, PERIODS)
    assert not partition.meter.quiet(11, 20_000, PERIODS)
    assert partition.look(3_609_999) == []
    assert not partition.meter.quiet(10, 3_610_000, PERIODS)
    assert partition.look(3_610_000) == [(ReadingKind.HOURLY, 10)]


def test_the_end_of_a_minute_is_read_before_what_follows_it() -> None:
    partition = Partition()
    partition.look(0)
    partition.log_end = partition.high_watermark = 50
    partition.minutes = [(45, mark(40, 59_000))]
    assert partition.look(10_000) == [(ReadingKind.MINUTE_END, 40), (ReadingKind.PERIODIC, 50)]
    assert partition.look(10_001) == []


def test_the_end_of_a_minute_waits_for_the_batch_after_it() -> None:
    partition = Partition()
    partition.look(0)
    partition.log_end, partition.high_watermark = 50, 40
    partition.minutes = [(45, mark(40, 59_000))]
    assert partition.look(1_000) == []
    partition.high_watermark = 45
    assert partition.look(2_000) == [(ReadingKind.MINUTE_END, 40)]


def test_minutes_that_end_between_the_last_one_read_and_the_watermark_are_read_too() -> None:
    partition = Partition()
    partition.look(0)
    partition.log_end, partition.high_watermark = 90, 50
    partition.minutes = [(45, mark(40, 59_000)), (60, mark(48, 119_000)), (95, mark(80, 179_000))]
    assert partition.look(1_000) == [(ReadingKind.MINUTE_END, 40)]
    partition.high_watermark = 70
    assert partition.look(2_000) == [(ReadingKind.MINUTE_END, 48)]
    partition.log_end, partition.high_watermark = 120, 96
    assert partition.look(3_000) == [(ReadingKind.MINUTE_END, 80)]


def test_a_minute_that_ends_where_a_reading_was_taken_has_its_end_read_too() -> None:
    partition = Partition()
    partition.look(0)
    partition.log_end = partition.high_watermark = 50
    assert partition.look(10_000) == [(ReadingKind.PERIODIC, 50)]
    partition.log_end, partition.high_watermark = 80, 60
    partition.minutes = [(55, mark(50, 59_000))]
    assert partition.look(11_000) == [(ReadingKind.MINUTE_END, 50)]


def test_a_reading_taken_before_a_minute_ended_stays_before_its_end() -> None:
    partition = Partition()
    partition.look(0)
    partition.log_end, partition.high_watermark = 30, 20
    assert partition.look(10_000) == []
    partition.log_end = partition.high_watermark = 60
    partition.minutes = [(60, mark(40, 59_000))]
    assert partition.look(11_000) == [(ReadingKind.PERIODIC, 30), (ReadingKind.MINUTE_END, 40)]


def test_minutes_that_the_leader_before_has_read_are_not_read_again() -> None:
    partition = Partition(metered_offset=40)
    partition.log_end = partition.high_watermark = 60
    partition.minutes = [(41, mark(40)), (60, mark(55))]
    assert partition.look(0) == [(ReadingKind.MINUTE_END, 55), (ReadingKind.LEADER_CHANGE, 60)]


def test_nothing_is_read_where_the_totals_are_not_known() -> None:
    partition = Partition()
    partition.known = False
    assert partition.look(0) == []
    partition.known = True
    assert partition.look(1) == [(ReadingKind.LEADER_CHANGE, 0)]


def test_a_broker_that_leaves_reads_what_changed_whatever_the_time() -> None:
    partition = Partition()
    partition.look(0)
    assert partition.look(1, at_once=True) == []
    partition.log_end = partition.high_watermark = 5
    assert partition.look(2, at_once=True) == [(ReadingKind.PERIODIC, 5)]
