"""A coordinator answers what is committed, and keeps its log short by what is written (RL79, RL88)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from data_plane.groups.coordinator import Coordinator
from data_plane.groups.requests import Decision, Heartbeat, HeartbeatAnswer
from data_plane.log.outcomes import DamagedRange
from data_plane.node.groups import group_partition
from data_plane.node.groups.group_partition import GroupPartition
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn
from data_plane.replication.opening import Position
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.rng import Chances, SimRng
from penstock.contract import errors
from tests.unit.groups.setup import TENANT, SomeTopics
from tests.unit.log.miniature import Miniature
from tests.unit.node.replicas.test_follower_stream import OTHER, REGISTERED, held_by_other, led

TOPICS = SomeTopics({"orders": 6})


@dataclass
class Coordinating:
    """One partition of `__groups` that is led here; the follower in sync holds what a test says."""

    loop: SimLoop = field(default_factory=lambda: SimLoop(1))
    begins: list[int] = field(default_factory=list)
    """Where the log was asked to begin."""
    confident: bool = True
    """The metadata store answers."""

    def __post_init__(self) -> None:
        self.storage, self.clock, self.stats = Miniature(), SimClock(self.loop), NodeStats()
        self.replica = led(self.storage, clock=self.clock)
        self.partition = self.taken_over()

    def taken_over(self) -> GroupPartition:
        """What this leadership knows: nothing, until it is loaded."""
        leading = self.replica.leading
        assert leading is not None
        return GroupPartition(
            self.replica, leading, self.storage.disk, self.clock, self.stats, lambda: self.confident, 1_000_000,
            self._begin,
        )  # fmt: skip

    def lead_again(self) -> None:
        """In the next epoch."""
        record = self.replica.record
        assert record is not None
        self.replica.rest()
        self.replica.lead(record.changed(leader_epoch=record.leader_epoch + 1))

    def _begin(self, replica: Replica, offset: int) -> bool:
        self.begins.append(offset)
        return True

    def hold(self, end_offset: int) -> None:
        """All is durable here, and the follower has it up to there."""
        self.storage.commit(raise_watermark=False)
        self.replica.became_durable()
        held_by_other(self.replica, end_offset)

    def join(self, member: str) -> "asyncio.Task[HeartbeatAnswer]":
        return asyncio.create_task(self.partition.carry_out(self.joining(member)))

    def refuse(self, core: Coordinator, now_ms: float) -> Decision[HeartbeatAnswer]:
        raise errors.InvalidRequest("no")

    def joining(self, member: str) -> Callable[[Coordinator, float], Decision[HeartbeatAnswer]]:
        def decide(core: Coordinator, now_ms: float) -> Decision[HeartbeatAnswer]:
            beat = Heartbeat(
                tenant=TENANT, group="readers", member_id=member, epoch=0, owned=(), topics=("orders",),
                session_timeout_ms=10_000, rebalance_timeout_ms=60_000,
            )  # fmt: skip
            return core.heartbeat(beat, TOPICS, now_ms)

        return decide

    @property
    def written(self) -> int:
        return self.replica.log.log_end_offset

    async def tick(self) -> None:
        await self.partition.tick(TOPICS, Turn(self.clock, SimRng(1, Chances(1))))

    def play(self, story: Callable[[], Awaitable[None]]) -> None:
        async def whole() -> None:
            self.hold(0)
            await self.partition.load()
            await story()

        try:
            self.loop.run_until_complete(whole())
        finally:
            self.loop.close()


async def some_turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def members(partition: GroupPartition) -> list[str]:
    return sorted(member.member_id for member in partition.core.group(TENANT, "readers").members)


def test_each_answer_waits_for_its_own_records_and_for_those_before_it() -> None:
    coordinating = Coordinating()

    async def story() -> None:
        first = coordinating.join("a")
        await some_turns()
        end = coordinating.written
        second = coordinating.join("b")
        await some_turns()
        assert 0 < end < coordinating.written
        assert not first.done() and not second.done(), "nothing is committed"
        coordinating.hold(end)
        await some_turns()
        assert first.done() and not second.done()
        coordinating.hold(coordinating.written)
        await some_turns()
        assert second.done()

    coordinating.play(story)


def test_an_answer_that_writes_nothing_waits_for_what_was_written_before_it() -> None:
    coordinating = Coordinating()

    async def story() -> None:
        joined = coordinating.join("a")
        await some_turns()
        asked = asyncio.create_task(
            coordinating.partition.carry_out(lambda core, now_ms: Decision(answer="read", records=()))
        )
        await some_turns()
        assert not asked.done(), "what it has read may be lost"
        coordinating.hold(coordinating.written)
        assert await asked == "read"
        await joined

    coordinating.play(story)


@pytest.mark.pure  # changes constants
def test_a_log_is_written_once_more_behind_all_that_is_written_and_begins_there_once_that_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_partition, "_SHORT", 4)
    monkeypatch.setattr(group_partition, "_STALE", 1)
    coordinating = Coordinating()

    async def story() -> None:
        joins = [coordinating.join(f"member-{number}") for number in range(4)]
        await some_turns()
        begin = coordinating.written
        assert begin >= 4 and coordinating.replica.log.high_watermark == 0
        await coordinating.tick()  # begins
        await coordinating.tick()  # writes
        end = coordinating.written
        assert end > begin
        for held in (begin, end - 1):
            coordinating.hold(held)
            await coordinating.tick()
            assert coordinating.begins == [], "what is kept is not committed"
        assert coordinating.stats.group_logs_shortened == 0
        coordinating.hold(end)
        await coordinating.tick()
        assert coordinating.begins == [begin] and coordinating.stats.group_logs_shortened == 1
        await asyncio.gather(*joins)

    coordinating.play(story)


# -- refusals and losses ------------------------------------------------------------------------------------


def test_what_was_appended_and_not_committed_when_leadership_is_lost_is_unknown() -> None:
    coordinating = Coordinating()

    async def story() -> None:
        joined = coordinating.join("a")
        await some_turns()
        asked = asyncio.create_task(
            coordinating.partition.carry_out(lambda core, now_ms: Decision(answer="read", records=()))
        )
        await some_turns()
        coordinating.replica.rest()
        with pytest.raises(errors.OutcomeUnknown):
            await joined
        with pytest.raises(errors.NotCoordinator):
            await asked
        assert not coordinating.partition.serving
        with pytest.raises(errors.NotCoordinator):
            await coordinating.join("b")

    coordinating.play(story)


def test_what_is_not_committed_in_time_is_unknown() -> None:
    coordinating = Coordinating()

    async def story() -> None:
        began_s = coordinating.loop.time()
        with pytest.raises(errors.OutcomeUnknown, match="not committed within 10 s"):
            await coordinating.join("a")
        assert coordinating.loop.time() - began_s == pytest.approx(10, abs=0.1)

    coordinating.play(story)


def test_a_broker_that_lost_the_store_gives_no_answer() -> None:
    coordinating = Coordinating()

    async def story() -> None:
        joined = coordinating.join("a")
        await some_turns()
        coordinating.confident = False
        coordinating.hold(coordinating.written)
        with pytest.raises(errors.OutcomeUnknown, match="lost the metadata store"):
            await joined
        written = coordinating.written
        with pytest.raises(errors.CoordinatorNotReady, match="lost the metadata store"):
            await coordinating.join("b")
        assert coordinating.written == written, "nothing is decided"

    coordinating.play(story)


def test_a_refusal_applies_nothing_unless_a_part_before_it_was_appended() -> None:
    coordinating = Coordinating()

    async def story() -> None:
        partition = coordinating.partition
        with pytest.raises(errors.InvalidRequest):
            await partition.carry_out(coordinating.refuse)
        assert coordinating.written == 0
        with pytest.raises(errors.OutcomeUnknown, match="applied in part: no"):
            await partition.carry_out_in_turns([coordinating.joining("a"), coordinating.refuse])
        assert members(partition) == ["a"]

    coordinating.play(story)


def test_parts_of_a_request_are_answered_together_in_their_order() -> None:
    coordinating = Coordinating()

    async def story() -> None:
        asked = asyncio.create_task(
            coordinating.partition.carry_out_in_turns([coordinating.joining("a"), coordinating.joining("b")])
        )
        for _ in range(3):
            await some_turns()
        assert not asked.done() and members(coordinating.partition) == ["a", "b"]
        coordinating.hold(coordinating.written)
        assert len(await asked) == 2

    coordinating.play(story)


# -- taking over --------------------------------------------------------------------------------------------


def test_the_next_leadership_reads_all_that_was_written_once_it_is_confirmed() -> None:
    coordinating = Coordinating()

    async def story() -> None:
        first = coordinating.join("a")
        await some_turns()
        coordinating.hold(coordinating.written)
        await first
        second = coordinating.join("b")
        await some_turns()
        coordinating.storage.commit(raise_watermark=False)
        coordinating.lead_again()
        with pytest.raises(errors.OutcomeUnknown):
            await second
        assert not coordinating.partition.current
        partition = coordinating.taken_over()
        with pytest.raises(errors.CoordinatorNotReady, match="the log is being read"):
            partition.require_ready()
        loading = asyncio.create_task(partition.load())
        await some_turns()
        assert not partition.serving, "no replica in sync has confirmed the log"
        leading = coordinating.replica.leading
        assert leading is not None
        position = Position(
            log_end_offset=coordinating.written, durable_end_offset=coordinating.written, last_epoch=1,
            log_start_offset=0,
        )  # fmt: skip
        leading.follower_opened(
            OTHER, REGISTERED, 1, position, 0.0, handle=1, leader_epoch=2,
            partition_epoch=leading.record.partition_epoch, registered_epoch=REGISTERED,
            epoch_lookup=coordinating.replica.log.end_offset_for_epoch, stored_from=0,
        )  # fmt: skip
        coordinating.replica.carry_out()
        await loading
        partition.require_ready()
        assert coordinating.replica.log.high_watermark == coordinating.written
        assert members(partition) == ["a", "b"]

    coordinating.play(story)


def test_a_log_that_cannot_be_read_is_said_so() -> None:
    coordinating = Coordinating()

    async def story() -> None:
        joined = coordinating.join("a")
        await some_turns()
        coordinating.hold(coordinating.written)
        await joined
        partition = coordinating.taken_over()
        partition.leading.leader_epoch_start_offset = coordinating.written
        storage = coordinating.storage
        segment = coordinating.replica.log._segments.all[0]
        coordinating.replica.log.scrub.found_damage(DamagedRange(0, segment.end_offset, "spoilt"))
        assert storage.log.has_damage
        await partition.load()
        assert not partition.serving
        with pytest.raises(errors.CoordinatorNotReady, match="its log cannot be read"):
            partition.require_ready()

    coordinating.play(story)
