"""Whatever a log derives from its batches is a function of its prefix: cut at every batch, it equals a log that never
had more.

Several producers, principals, leader epochs and minutes are mixed; checkpoints, commits, seals and readings happen in
between, so that snapshots and marks of every age stand where the log is cut.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_plane.log.derived import SNAPSHOT_BATCHES
from data_plane.log.outcomes import Duplicate, Slice
from data_plane.testkit.disk import SimDisk
from penstock.contract.errors import PenstockError
from penstock.contract.topic_settings import TopicSettings
from penstock.records.usage import MINUTE_MS, OdometerMark
from tests.unit.log.batches import NOW_MS, made_batch, with_header
from tests.unit.log.miniature import Miniature, reopened

SETTINGS = TopicSettings(replication=1, min_insync_replicas=1, segment_bytes=4_096, index_interval_bytes=64)
PRODUCERS = (-1, 5, 6, 7)
BATCHES = 18


@dataclass(frozen=True, slots=True)
class Step:
    """One batch, and what happens to the log behind it."""

    batch: bytes
    leader_epoch: int
    principal: int
    now_ms: int
    end_offset: int
    commits: bool
    """Made durable and committed; else it is written only."""
    checkpoint: bool
    release: bool


def history(seed: int) -> list[Step]:
    """The same steps for the same seed."""
    rng = random.Random(seed)
    sequences: dict[int, tuple[int, int]] = {}
    leader_epoch, now_ms, end_offset = 1, NOW_MS, 0
    steps = []
    for _ in range(BATCHES):
        now_ms += rng.choice((0, 0, 900, 20_000, MINUTE_MS, 3 * MINUTE_MS))
        leader_epoch += rng.choice((0, 0, 0, 1, 2))
        producer_id = rng.choice(PRODUCERS)
        epoch, sequence = sequences.get(producer_id, (0, 0))
        if rng.random() < 0.15:
            epoch, sequence = epoch + 1, 0
        count = rng.randint(1, 5)
        batch = (
            made_batch(count, rng.randint(40, 1_200), fill=rng.randrange(256))
            if producer_id < 0
            else made_batch(
                count, rng.randint(40, 1_200), producer_id=producer_id, epoch=epoch, sequence=sequence
            )
        )
        sequences[producer_id] = (epoch, sequence + count)
        end_offset += count
        steps.append(
            Step(
                batch=batch,
                leader_epoch=leader_epoch,
                principal=rng.choice((1, 2, 9)),
                now_ms=now_ms,
                end_offset=end_offset,
                commits=rng.random() < 0.5,
                checkpoint=rng.random() < 0.2,
                release=rng.random() < 0.1,
            )
        )
    return steps


def written(steps: list[Step], committed_to: int) -> Miniature:
    """A log with these batches. Nothing at or above `committed_to` counts as committed, so that it may be cut there."""
    miniature = Miniature(settings=SETTINGS, journal_bytes=4_096, tail_bytes=3_000)
    miniature.create()
    for step in steps:
        miniature.now_ms = step.now_ms
        miniature.append(epoch=step.leader_epoch, batch=step.batch, principal=step.principal)
        if step.commits:
            miniature.commit(raise_watermark=False)
            miniature.log.set_high_watermark(min(step.end_offset, committed_to))
        if step.checkpoint:
            miniature.checkpoint()
        if step.release:
            miniature.log.release_files()
    miniature.commit(raise_watermark=False)
    return miniature


class Walk:
    """A log that is cut, stopped, killed and written again; `steps` is what it holds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.miniature = Miniature(settings=SETTINGS, journal_bytes=4_096, tail_bytes=3_000)
        self.miniature.create()
        self.steps: list[Step] = []
        self.asked: list[Step] = []
        """Every batch that the log ever held."""
        self.seed = seed
        self.stopped = False

    @property
    def end_offset(self) -> int:
        return self.steps[-1].end_offset if self.steps else 0

    def append(self) -> None:
        """Some batches of a history of their own, in a later leader epoch."""
        self.seed += 1
        last = self.asked[-1] if self.asked else None
        for step in history(self.seed)[: self.random.randint(1, 6)]:
            moved = replace(
                step,
                leader_epoch=step.leader_epoch + (last.leader_epoch if last else 0),
                now_ms=step.now_ms + (last.now_ms - NOW_MS if last else 0),
                end_offset=self.end_offset + with_header(step.batch)[1].offset_span,
            )
            self.miniature.now_ms = moved.now_ms
            self.miniature.append(epoch=moved.leader_epoch, batch=moved.batch, principal=moved.principal)
            self.steps.append(moved)
            self.asked.append(moved)
        self.miniature.commit(raise_watermark=False)

    def raise_watermark(self) -> None:
        step = self.steps[-1] if self.random.random() < 0.7 else self.random.choice(self.steps)
        self.miniature.log.set_high_watermark(step.end_offset)

    def cut(self, *, declared: bool) -> None:
        floor = 0 if declared else self.miniature.log.high_watermark
        least = sum(step.end_offset <= floor for step in self.steps)
        few = min(len(self.steps), least + 2)  # close to where snapshots stand
        kept = self.random.randint(least, self.random.choice((few, len(self.steps))))
        if declared and self.random.random() < 0.5:
            kept = max(0, len(self.steps) - self.random.randint(0, 2))
        del self.steps[kept:]
        self.miniature.truncate(self.end_offset, declared=declared)

    def stop(self) -> None:
        """A clean stop keeps snapshots at the log's end; a kill keeps what the last one wrote."""
        self.stopped = True
        high_watermark = self.miniature.log.high_watermark
        clean = self.random.random() < 0.6
        if clean:
            self.miniature.close()
        else:
            self.miniature.checkpoint()
        disk = self.miniature.disk
        assert isinstance(disk, SimDisk)
        disk.kill()
        self.miniature = Miniature(
            SimDisk(disk.medium), settings=SETTINGS, journal_bytes=4_096, tail_bytes=3_000, clean=clean
        )
        assert self.miniature.reports[0].damage == ()
        assert self.miniature.reports[0].rebuilt == (), "a cache of another history was left"
        assert self.miniature.log.high_watermark <= high_watermark


def answer(check: Callable[[], Duplicate | None]) -> object:
    """What a producer would be told."""
    try:
        duplicate = check()
    except PenstockError as error:
        return type(error)
    return None if duplicate is None else (duplicate.base_offset, duplicate.accepted_ms)


def derived(miniature: Miniature, steps: list[Step]) -> dict[str, object]:
    """All that the log says of its prefix, through what its users ask."""
    log = miniature.log
    assert log.odometer is not None
    return {
        "end": log.log_end_offset,
        "totals": log.usage.mark(),
        "last accepted": log.usage.last_accepted_ms,
        "epochs": log.epochs.pairs(),
        "last epoch": log.last_epoch,
        "ends of epochs": [log.end_offset_for_epoch(epoch) for epoch in range(steps[-1].leader_epoch + 2)],
        "producers": [answer(lambda: log.check_sequence(with_header(step.batch)[1])) for step in steps],  # noqa: B023
        "next seal": log.odometer.seal(log.where, bytes(32)) if log.odometer.batch_count else None,
    }


def minutes(miniature: Miniature) -> list[OdometerMark]:
    return list(miniature.log.usage.minute_marks(0, miniature.log.log_end_offset))


def minutes_ended(steps: list[Step]) -> list[int]:
    """Ends of the last batches of minutes that a later batch has ended."""
    return [
        before.end_offset
        for before, after in pairwise(steps)
        if before.now_ms // MINUTE_MS < after.now_ms // MINUTE_MS
    ]


def folded(miniature: Miniature, end_offset: int) -> list[OdometerMark]:
    return [mark for mark in miniature.log.usage.fold_to(end_offset) if mark is not None]


def bytes_of(miniature: Miniature) -> tuple[bytes, bytes]:
    part = miniature.read(0, max_bytes=1 << 20)
    assert isinstance(part, Slice)
    return miniature.content()


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_a_log_that_was_cut_at_any_batch_says_what_one_says_that_never_had_more(seed: int) -> None:
    steps = history(seed)
    for cut in range(1, len(steps)):
        offset = steps[cut - 1].end_offset
        whole = written(steps, committed_to=offset)
        marks_of_the_whole = folded(whole, offset)
        whole.truncate(offset)
        prefix = written(steps[:cut], committed_to=offset)
        expected = derived(prefix, steps)
        assert derived(whole, steps) == expected, f"cut at {offset}, seed {seed}"
        marks = minutes(whole)
        assert marks == minutes(prefix), f"cut at {offset}, seed {seed}"
        assert [mark.end_offset for mark in marks] == minutes_ended(steps[:cut])
        assert [[mark] for mark in marks] == [folded(whole, mark.end_offset) for mark in marks]
        assert marks_of_the_whole == folded(whole, offset) == [prefix.log.usage.mark()]
        assert bytes_of(whole) == bytes_of(prefix)

        assert isinstance(whole.disk, SimDisk)
        whole.checkpoint()
        again = reopened(whole.disk, settings=SETTINGS, journal_bytes=4_096, tail_bytes=3_000)
        assert again.reports[0].damage == ()
        assert derived(again, steps) == expected, f"cut at {offset} and killed, seed {seed}"


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), data=st.data())
def test_a_cut_log_goes_on_as_one_that_never_had_more(seed: int, data: st.DataObject) -> None:
    """What comes behind the cut is another history: nothing of the first one may show."""
    steps = history(seed)
    cut = data.draw(st.integers(1, len(steps) - 1))
    offset = steps[cut - 1].end_offset
    whole = written(steps, committed_to=offset)
    whole.truncate(offset)
    prefix = written(steps[:cut], committed_to=offset)
    later = history(seed + 1)
    leader_epoch = steps[-1].leader_epoch + 1
    for miniature in (whole, prefix):
        miniature.log.start_epoch(leader_epoch)
        for step in later:
            miniature.now_ms = steps[-1].now_ms + step.now_ms - NOW_MS
            miniature.append(
                epoch=leader_epoch + step.leader_epoch, batch=made_batch(2, 700), principal=step.principal
            )
            miniature.commit()
    probes = steps + later
    assert derived(whole, probes) == derived(prefix, probes)
    assert minutes(whole) == minutes(prefix)
    assert whole.log.usage.seals_above(0) == prefix.log.usage.seals_above(0)
    assert bytes_of(whole) == bytes_of(prefix)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_cuts_stops_and_kills_in_any_order_leave_what_the_batches_imply(seed: int) -> None:
    """Snapshots taken at a stop are cut below, above and at their offset, once and again."""
    walk = Walk(seed)
    walk.append()
    for number in range(25):
        event = walk.random.randrange(100)
        if not walk.steps or event < 35:
            walk.append()
        elif event < 50:
            walk.raise_watermark()
        elif event < 75:
            walk.cut(declared=event < 62)
        else:
            walk.stop()
        if not walk.steps:
            continue
        prefix = written(walk.steps, committed_to=walk.miniature.log.high_watermark)
        told = derived(walk.miniature, walk.asked)
        assert told == derived(prefix, walk.asked), f"event {number} of seed {seed}"
        due = minutes(walk.miniature)
        expected = minutes(prefix)
        if walk.stopped:  # marks below the snapshot that the log was opened with are not made again
            expected = expected[len(expected) - len(due) :]
        assert due == expected, f"event {number} of seed {seed}"
        for step in walk.steps:
            assert folded(walk.miniature, step.end_offset) == folded(prefix, step.end_offset)


def many(count: int) -> list[Step]:
    """Small batches of one producer; every 200th begins a minute, and so does the last of those that a snapshot
    takes."""
    return [
        Step(
            batch=made_batch(1, 40, producer_id=5, epoch=0, sequence=number),
            leader_epoch=1 + number // 300,
            principal=1 + number % 2,
            now_ms=NOW_MS + (number // 200 + (number >= SNAPSHOT_BATCHES - 1)) * MINUTE_MS,
            end_offset=number + 1,
            commits=number % 50 == 0,
            checkpoint=number == SNAPSHOT_BATCHES - 1,
            release=False,
        )
        for number in range(count)
    ]


def test_a_snapshot_in_memory_serves_cuts_at_and_above_its_offset_alone() -> None:
    steps = many(SNAPSHOT_BATCHES + 20)
    taken = SNAPSHOT_BATCHES
    for cuts in ((taken + 1, taken), (taken, taken - 1), (taken - 1,), (taken + 10, taken + 2), (700, 699)):
        whole = written(steps, committed_to=400)
        for cut in cuts:
            whole.truncate(cut)
            prefix = written(steps[:cut], committed_to=400)
            assert derived(whole, steps[cut - 9 : cut + 9]) == derived(prefix, steps[cut - 9 : cut + 9]), cut
            assert minutes(whole) == minutes(prefix), cut
            assert folded(whole, cut - 1) == folded(prefix, cut - 1), cut
