"""One partition through leader changes, cuts of its tail, crashes, retention and lost readings: totals stay exact.

Two replicas keep real logs over a simulated disk. Whoever leads appends batches of growing or resting clocks, commits
some, and reads as its meter says. A list of the committed batches is the whole truth.
"""

import random
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_plane.log.outcomes import Slice
from data_plane.metering.readings import DueReading, MeterPeriods, PartitionMeter, ReadingKind
from data_plane.metering.retained import RetainedOdometer
from penstock.contract.topic_settings import TopicSettings
from penstock.records.stamp import STAMP_BYTES, Stamp, stamp_seed, unpack_stamp
from penstock.records.usage import MINUTE_MS, MinuteRow, OdometerMark, Totals, minute_of
from tests.unit.log.batches import NOW_MS, made_batch
from tests.unit.log.miniature import Miniature, reopened, where

STEPS = 120
PERIODS = MeterPeriods(changed_ms=10_000, idle_ms=3_600_000)
SETTINGS = TopicSettings(segment_bytes=4_096, replication=1, min_insync_replicas=1)


@dataclass(frozen=True, slots=True)
class Batch:
    end_offset: int
    messages: int
    size: int
    accepted_ms: int
    principal: int


class Model:
    """The partition, its two replicas and everything that was read of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.replicas = [Miniature(settings=SETTINGS), Miniature(settings=SETTINGS)]
        for replica in self.replicas:
            replica.create()
        self.leader = 0
        self.epoch = 1
        self.now_ms = NOW_MS
        self.monotonic_ms = 0
        self.committed: list[Batch] = []
        self.metered = [0, 0]
        self.readings: list[DueReading] = []
        self.begin()

    @property
    def log(self) -> Miniature:
        return self.replicas[self.leader]

    @property
    def end(self) -> int:
        return self.committed[-1].end_offset if self.committed else 0

    def begin(self) -> None:
        """Someone leads, in a new epoch."""
        self.log.log.start_epoch(self.epoch)
        retained = RetainedOdometer(self.now_ms, self.monotonic_ms, 0, 1)
        self.meter = PartitionMeter(self.epoch, self.metered[self.leader], retained)

    def pass_time(self) -> None:
        """The clock that stamps may go back; the one that readings go by never does."""
        passed_ms = self.random.choice((1, 700, 4_000, 15_000, MINUTE_MS, 3 * MINUTE_MS, -2_000))
        self.now_ms += passed_ms
        self.monotonic_ms += max(0, passed_ms)

    def append(self) -> None:
        """Up to a few batches, not committed."""
        for _ in range(self.random.randint(1, 6)):
            self.log.now_ms = self.now_ms
            self.log.append(
                epoch=self.epoch,
                principal=self.random.choice((1, 2, 9)),
                batch=made_batch(self.random.randint(1, 5), self.random.randint(40, 400)),
            )
            if self.random.random() < 0.3:
                self.pass_time()
        self.log.commit(raise_watermark=False)

    def replicate(self) -> None:
        """The follower takes all that the leader holds; what both hold is committed."""
        leader, follower = self.log, self.replicas[1 - self.leader]
        log = follower.log
        while log.last_epoch >= 0:
            epoch, end = leader.log.end_offset_for_epoch(log.last_epoch)
            if epoch == log.last_epoch and end >= log.log_end_offset:
                break
            follower.truncate(min(end, log.end_offset_for_epoch(epoch)[1], log.log_end_offset))
        while log.log_end_offset < leader.log.log_end_offset:
            part = leader.read(log.log_end_offset, max_bytes=1 << 20)
            assert isinstance(part, Slice)
            log.append_as_follower(memoryview(part.stamps), memoryview(b"".join(part.batches)), self.epoch)
        follower.commit(raise_watermark=False)
        for stamp in self.stamps(self.end):
            self.committed.append(
                Batch(stamp.end_offset, stamp.record_count, stamp.size, stamp.accepted_ms, stamp.principal)
            )
        for replica in self.replicas:
            replica.log.set_high_watermark(self.end)

    def stamps(self, offset: int) -> list[Stamp]:
        found: list[Stamp] = []
        while offset < self.log.log.log_end_offset:
            part = self.log.read(offset, max_bytes=1 << 20)
            assert isinstance(part, Slice)
            for at in range(0, len(part.stamps), STAMP_BYTES):
                found.append(unpack_stamp(part.stamps, stamp_seed(where()), at))
            offset = part.next_offset
        return found

    def change_leader(self) -> None:
        """The other one leads: what only the old leader holds is lost, and was never committed."""
        self.leader, self.epoch = 1 - self.leader, self.epoch + 1
        self.begin()

    def crash(self) -> None:
        """The leader is killed and leads again."""
        self.replicas[self.leader] = reopened(self.log.disk, settings=SETTINGS)  # type: ignore[arg-type]
        self.log.log.set_high_watermark(self.end)
        self.epoch += 1
        self.metered[self.leader] = self.metered[1 - self.leader]
        self.begin()

    def read(self) -> None:
        log = self.log.log
        due = self.meter.look(
            log_end=log.log_end_offset,
            high_watermark=log.high_watermark,
            now_ms=self.monotonic_ms,
            periods=PERIODS,
            mark_end=log.usage.mark,
            minute_marks=log.usage.minute_marks,
        )
        for one in due:
            assert one.mark == self.truth(one.mark.end_offset)
        self.readings += due
        if due and self.random.random() < 0.8:
            self.metered = [max(held, due[-1].mark.end_offset) for held in self.metered]
            for replica in self.replicas:
                replica.log.usage.forget_minute_marks(due[-1].mark.end_offset)

    def trim(self) -> None:
        """Retention: the leader's oldest segments go, as far as they were metered."""
        log = self.log.log
        allowed = min(self.metered[self.leader], log.usage.sealed_end_offset, log.high_watermark)
        bases = [segment.base_offset for segment in log._segments.all]
        target = max((base for base in bases if base <= allowed), default=0)
        if target > log.log_start_offset and self.random.random() < 0.5:
            self.log.move_log_start(target)

    def truth(self, end_offset: int) -> OdometerMark:
        """The mark at an offset, counted from the list of batches."""
        below = [batch for batch in self.committed if batch.end_offset <= end_offset]
        assert (below[-1].end_offset if below else 0) == end_offset
        last_ms = below[-1].accepted_ms if below else -1
        rows: dict[int, list[int]] = {}
        for batch in below:
            if minute_of(batch.accepted_ms) == minute_of(last_ms):
                row = rows.setdefault(batch.principal, [0, 0])
                row[0] += batch.messages
                row[1] += batch.size
        return OdometerMark(
            end_offset=end_offset,
            accepted_ms=last_ms,
            totals=Totals(
                committed_messages=sum(batch.messages for batch in below),
                committed_bytes=sum(batch.size for batch in below),
            ),
            minute_rows=tuple(MinuteRow(minute_of(last_ms), p, *rows[p]) for p in sorted(rows)),
        )


def check_minutes(model: Model) -> None:
    """No interval between two readings in a row crosses a minute."""
    ends = sorted({reading.mark.end_offset for reading in model.readings})
    at = 0
    for low, high in zip([0, *ends], ends, strict=False):
        minutes = set()
        while at < len(model.committed) and model.committed[at].end_offset <= high:
            minutes.add(minute_of(model.committed[at].accepted_ms))
            at += 1
        assert len(minutes) <= 1, f"offsets {low} to {high} count in minutes {sorted(minutes)}"


def check_usage_of_what_arrived(model: Model) -> None:
    """Lost, repeated and late readings change no total: the last one that arrived tells all below it."""
    arrived = [one for one in model.readings if model.random.random() < 0.6]
    arrived += model.random.sample(arrived, len(arrived) // 2)
    model.random.shuffle(arrived)
    counted = billed = 0
    previous = OdometerMark(end_offset=0, accepted_ms=-1, totals=Totals(), minute_rows=())
    for one in sorted(arrived, key=lambda reading: reading.mark.end_offset):
        used = one.mark.totals.since(previous.totals)
        counted += used.committed_messages
        billed += used.committed_bytes
        previous = one.mark
    below = [batch for batch in model.committed if batch.end_offset <= previous.end_offset]
    assert counted == sum(batch.messages for batch in below)
    assert billed == sum(batch.size for batch in below)


def check_folds(model: Model) -> None:
    """Any cut's offset and totals are found again from what the log still holds."""
    log = model.log.log
    start = log.first_segment_offset
    for batch in model.committed:
        if batch.end_offset < start or model.random.random() < 0.7:
            continue
        folded = [mark for mark in log.usage.fold_to(batch.end_offset) if mark is not None]
        assert [(mark.end_offset, mark.totals) for mark in folded] == [
            (batch.end_offset, model.truth(batch.end_offset).totals)
        ]
        cut_ms = batch.accepted_ms + 1
        expected = max(one.end_offset for one in model.committed if one.accepted_ms < cut_ms)
        assert min(log.usage.end_before(cut_ms), model.end) == expected


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_totals_are_exact_whatever_happens_to_a_partition(seed: int) -> None:
    model = Model(seed)
    crashed = False
    for _ in range(STEPS):
        step = model.random.randrange(100)
        if step < 35:
            model.append()
        elif step < 55:
            model.replicate()
        elif step < 80:
            model.pass_time()
            model.read()
        elif step < 86:
            model.replicate()
            model.change_leader()
        elif step < 93:
            model.change_leader()
        elif step < 94:
            model.crash()
            crashed = True
        else:
            model.trim()
    model.replicate()
    for _ in range(3):
        model.monotonic_ms += 11_000
        model.read()
    assert max(model.readings, key=_end).mark == model.truth(model.end)
    assert any(one.kind is ReadingKind.LEADER_CHANGE for one in model.readings)
    if not crashed:
        check_minutes(model)
    check_usage_of_what_arrived(model)
    check_folds(model)


def _end(reading: DueReading) -> int:
    return reading.mark.end_offset
