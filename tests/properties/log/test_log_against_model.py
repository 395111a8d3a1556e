"""The log against a model of a list: any order of appends, commits, cuts, checkpoints, kills and power cuts."""

import random

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from data_plane.log.outcomes import Duplicate
from data_plane.testkit.disk import SimDisk
from penstock.contract.topic_settings import Durability, TopicSettings
from penstock.records.stamp import STAMP_BYTES, stamp_seed, unpack_stamp
from tests.unit.log.batches import made_batch, with_header
from tests.unit.log.miniature import SMALL, Miniature, where

RELAXED = TopicSettings(
    replication=3,
    min_insync_replicas=2,
    durability=Durability.REPLICATED,
    segment_bytes=4096,
    index_interval_bytes=64,
)
SEED = stamp_seed(where())


class LogMachine(RuleBasedStateMachine):
    """`batches` is what the log should hold: (base offset, count, body) in order; the first `durable` of them are
    safe."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = SMALL
        self.miniature = Miniature(settings=SMALL, journal_bytes=4096, tail_bytes=3_000)
        self.miniature.create()
        self.batches: list[tuple[int, int, bytes]] = []
        self.durable = 0
        self.start = 0
        self.epoch = 1
        self.sequence = 0
        self.producer_epoch = 0
        self.number = 0
        self.changed = False
        """The journal holds a change of bounds: replaying it removes what was appended behind it and not committed."""

    @property
    def log(self):  # type: ignore[no-untyped-def]
        return self.miniature.log

    @property
    def end(self) -> int:
        return self.batches[-1][0] + self.batches[-1][1] if self.batches else self.start

    @rule(count=st.integers(1, 4), size=st.integers(0, 1_500), wait=st.sampled_from([0, 0, 10_000]))
    def append(self, count: int, size: int, wait: int) -> None:
        self.miniature.now_ms += wait
        self.number += 1
        batch = made_batch(
            count,
            size,
            fill=self.number % 256,
            producer_id=5,
            epoch=self.producer_epoch,
            sequence=self.sequence,
        )
        assert self.log.check_sequence(with_header(batch)[1]) is None
        stamp = self.miniature.append(epoch=self.epoch, batch=batch, principal=count)
        assert stamp.base_offset == self.end
        self.batches.append((stamp.base_offset, count, batch))
        self.sequence += count

    @precondition(lambda self: self.batches and self.sequence)
    @rule(back=st.integers(0, 4))
    def repeat_a_batch(self, back: int) -> None:
        if back < len(self.batches):
            base, _, batch = self.batches[-1 - back]
            header = with_header(batch)[1]
            if header.producer_epoch == self.producer_epoch and base >= self.log.log_start_offset:
                found = self.log.check_sequence(header)
                assert isinstance(found, Duplicate) and found.base_offset == base

    @rule(raise_watermark=st.booleans())
    def commit(self, raise_watermark: bool) -> None:
        self.miniature.commit(raise_watermark=raise_watermark)
        self.durable = len(self.batches)

    @rule()
    def checkpoint(self) -> None:
        self.miniature.checkpoint()
        self.durable = len(self.batches)
        self.changed = False

    @rule(relaxed=st.booleans())
    def change_durability(self, relaxed: bool) -> None:
        self.settings = RELAXED if relaxed else SMALL
        self.log.settings = self.settings
        self.miniature.settings = self.settings

    @rule()
    def release_files(self) -> None:
        self.log.release_files()

    @precondition(lambda self: self.end > self.log.high_watermark)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        above = [base for base, _, _ in self.batches if base >= self.log.high_watermark]
        offset = data.draw(st.sampled_from(above))
        self.miniature.truncate(offset)
        self.changed = True
        self.batches = [batch for batch in self.batches if batch[0] < offset]
        self.durable = len(self.batches)
        self.new_epoch()

    @precondition(lambda self: self.log.high_watermark > self.log.log_start_offset)
    @rule()
    def move_log_start(self) -> None:
        end = self.log.retention_end(self.miniature.now_ms, 0)
        offset = end if end > self.log.log_start_offset else self.log.high_watermark
        self.miniature.move_log_start(offset)

    @rule(offset=st.integers(0, 500), keep=st.booleans())
    def start_over(self, offset: int, keep: bool) -> None:
        if keep:
            return
        self.miniature.start_over(self.end + offset)
        self.changed = True
        self.start = self.log.log_start_offset
        self.batches = []
        self.durable = 0
        self.new_epoch()

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1
        self.producer_epoch += 1
        self.sequence = 0

    @rule()
    def kill(self) -> None:
        """The page cache survives."""
        self.reopen(SimDisk(self.disk.medium))
        assert self.changed or self.log.log_end_offset == self.end
        self.keep_what_is_left()

    @rule(seed=st.integers(0, 1 << 30))
    def power_cut(self, seed: int) -> None:
        """Some of what was not synced survives."""
        self.disk.medium.power_cut(random.Random(seed))
        self.reopen(SimDisk(self.disk.medium))
        self.keep_what_is_left()

    def keep_what_is_left(self) -> None:
        """Everything durable is there, and of the rest a prefix."""
        end = self.log.log_end_offset
        kept = [batch for batch in self.batches if batch[0] + batch[1] <= end]
        assert len(kept) >= self.durable
        assert end == (kept[-1][0] + kept[-1][1] if kept else self.start)
        self.batches = kept
        self.durable = len(kept)

    @rule()
    def stop_and_start(self) -> None:
        self.miniature.close()
        self.changed = False
        self.durable = len(self.batches)
        self.reopen(SimDisk(self.disk.medium), clean=True)
        assert self.miniature.reports[0].rebuilt == ()

    @property
    def disk(self) -> SimDisk:
        disk = self.miniature.disk
        assert isinstance(disk, SimDisk)
        return disk

    def reopen(self, disk: SimDisk, *, clean: bool = False) -> None:
        self.disk.kill()
        now = self.miniature.now_ms
        self.miniature = Miniature(
            disk, settings=self.settings, journal_bytes=4096, tail_bytes=3_000, clean=clean
        )
        self.miniature.now_ms = now
        assert self.miniature.reports[0].damage == ()
        assert not self.miniature.replay.unknown_loss
        self.new_epoch()

    @invariant()
    def bounds_hold(self) -> None:
        log = self.log
        assert log.log_end_offset == self.end
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.durable_end_offset <= log.log_end_offset
        assert log.first_segment_offset <= log.log_start_offset

    @invariant()
    def totals_hold(self) -> None:
        odometer = self.log.odometer
        if odometer is not None:
            assert odometer.end_offset == self.end
            assert odometer.totals.committed_messages == self.end

    def teardown(self) -> None:
        stamps, data = self.miniature.content()
        held = [batch for batch in self.batches if batch[0] + batch[1] > self.log.log_start_offset]
        at = 0
        for number, (base, _, batch) in enumerate(held):
            stamp = unpack_stamp(stamps, SEED, number * STAMP_BYTES)
            assert stamp.base_offset == base
            assert data[at + 16 : at + stamp.size] == batch[16:]
            at += stamp.size
        assert at == len(data) and len(held) * STAMP_BYTES == len(stamps)


TestLog = LogMachine.TestCase
TestLog.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
