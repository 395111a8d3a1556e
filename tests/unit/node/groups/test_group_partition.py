"""A coordinator answers what is committed, and keeps its log short by what is written (RL79, RL88)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from data_plane.groups.coordinator import Coordinator
from data_plane.groups.requests import Decision, Heartbeat, HeartbeatAnswer
from data_plane.node.groups import group_partition
from data_plane.node.groups.group_partition import GroupPartition
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.rng import Chances, SimRng
from tests.unit.groups.setup import TENANT, SomeTopics
from tests.unit.log.miniature import Miniature
from tests.unit.node.replicas.test_follower_stream import held_by_other, led

TOPICS = SomeTopics({"orders": 6})


@dataclass
class Coordinating:
    """One partition of `__groups` that is led here; the follower in sync holds what a test says."""

    loop: SimLoop = field(default_factory=lambda: SimLoop(1))
    begins: list[int] = field(default_factory=list)
    """Where the log was asked to begin."""

    def __post_init__(self) -> None:
        self.storage, self.clock = Miniature(), SimClock(self.loop)
        self.replica = led(self.storage, clock=self.clock)
        leading = self.replica.leading
        assert leading is not None
        self.partition = GroupPartition(
            self.replica, leading, self.storage.disk, self.clock, NodeStats(), lambda: True, 1_000_000, self._begin
        )  # fmt: skip

    def _begin(self, replica: Replica, offset: int) -> bool:
        self.begins.append(offset)
        return True

    def hold(self, end_offset: int) -> None:
        """All is durable here, and the follower has it up to there."""
        self.storage.commit(raise_watermark=False)
        self.replica.became_durable()
        held_by_other(self.replica, end_offset)

    def join(self, member: str) -> "asyncio.Task[HeartbeatAnswer]":
        def decide(core: Coordinator, now_ms: float) -> Decision[HeartbeatAnswer]:
            beat = Heartbeat(
                tenant=TENANT, group="readers", member_id=member, epoch=0, owned=(), topics=("orders",),
                session_timeout_ms=10_000, rebalance_timeout_ms=60_000,
            )  # fmt: skip
            return core.heartbeat(beat, TOPICS, now_ms)

        return asyncio.create_task(self.partition.carry_out(decide))

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
        coordinating.hold(end)
        await coordinating.tick()
        assert coordinating.begins == [begin]
        await asyncio.gather(*joins)

    coordinating.play(story)
