"""A replica that gives itself up joins by nothing that its leader heard, or hears, of it from before.

Whole brokers, with fsync. What the replica says on its stream takes 300 ms more than its write to the store, and it
finds damage in one moment of four. It fetches everything again, and joins with it.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, cast

import pytest

from data_plane.log.outcomes import DamagedRange
from data_plane.metadata import model
from data_plane.metadata.port import MetaStore, OutcomeUnknown
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.wing import Hosting
from data_plane.testkit.cluster import SimBroker
from data_plane.testkit.scenario import Scenario
from penstock.contract.ids import TopicPartition
from tests.simulation.plans import TIMINGS, plan_of

STEP_S = 0.0005
PATIENCE_S = 20.0


class Moment(Enum):
    """When the replica finds damage."""

    OPENED = "it is in sync, and has opened again just now"
    ACKNOWLEDGED = "it is out of sync, and has acknowledged the end of the log just now"
    JOINED = "it has joined, and its leader has not heard so"
    REMOVED = "its leader has proposed that it leaves, and got no answer"


class Deaf:
    """The store, which none of the leader's changes reaches."""

    def __init__(self, store: MetaStore) -> None:
        self._store = store

    async def range(self, key: str) -> Any:
        return await self._store.range(key)

    async def txn(self, compares: Sequence[object], changes: Sequence[object]) -> Any:
        await asyncio.sleep(0.05)
        raise OutcomeUnknown("lost")


class GivenUp(Scenario):
    """Ends when the replica is in sync again."""

    def __init__(self, moment: Moment) -> None:
        timings = replace(TIMINGS, suspicion_ms=1_000, slow_sync_ms=60_000)
        super().__init__(replace(plan_of(1, (), ()), timings=timings))
        self._moment = moment
        self.ends: list[int] = []
        """Where the leader's log and the replica's end."""

    async def _story(self) -> None:
        cluster = await self._booted()
        self._where = TopicPartition(cluster.topic_ids["orders"], 0)
        await asyncio.sleep(1.0)
        self._start_workload(cluster)
        await asyncio.sleep(3.0)
        record = self._record()
        self._leader = cluster.broker(record.replicas[0])
        self._bad = cluster.broker(record.replicas[1])
        assert record.leader == self._leader.broker_id
        self._link = cluster.network.link(self._bad.host, self._leader.host)
        stories = {
            Moment.OPENED: self._after_it_opened,
            Moment.ACKNOWLEDGED: self._after_it_acknowledged,
            Moment.JOINED: self._after_it_joined,
            Moment.REMOVED: self._while_it_is_removed,
        }
        await stories[self._moment]()
        await self._until(lambda: self._replica(self._bad).repairs == 1)
        await self._until(self._in_sync)
        self.ends = [self._replica(broker).log.log_end_offset for broker in (self._leader, self._bad)]

    async def _after_it_opened(self) -> None:
        await self._at_rest()
        self._link.extra_ms = 300.0
        await asyncio.sleep(1.0)
        self._hosting(self._bad).assignment._links.open_again()
        await asyncio.sleep(0.010)
        self._find_damage()

    async def _after_it_acknowledged(self) -> None:
        await self._out_for_lagging()
        led, followed = self._replica(self._leader).log, self._replica(self._bad).log
        await self._until(lambda: followed.durable_end_offset == led.log_end_offset)
        await asyncio.sleep(0.010)
        self._find_damage()

    async def _after_it_joined(self) -> None:
        await self._out_for_lagging()
        assert self.cluster is not None
        store, commit = self.cluster.store, self.cluster.store._commit
        joined: list[None] = []

        def cutting(changes: Any) -> Any:
            committed = commit(changes)
            if not joined and self._in_sync():
                joined.append(None)
                store.cut(self._leader.host)
            return committed

        store._commit = cutting  # type: ignore[method-assign]
        await self._until(lambda: bool(joined))
        await asyncio.sleep(0.010)
        self._find_damage()
        await self._until(lambda: not self._in_sync())
        store.heal(self._leader.host)

    async def _while_it_is_removed(self) -> None:
        writer = self._hosting(self._leader).in_sync
        leading = self._replica(self._leader).leading
        assert leading is not None
        self._bad.faults.extra_sync_ms = 1_200.0
        await asyncio.sleep(0.35)
        hearing, writer._store = writer._store, cast(Any, Deaf(writer._store))
        await self._until(lambda: leading.unresolved)
        self._bad.faults.extra_sync_ms = 0.0
        self._link.extra_ms = 300.0
        await self._at_rest()
        await self._until(lambda: leading.high_watermark == leading.log_end)
        assert self._in_sync()
        self._find_damage()
        await self._until(lambda: not self._in_sync())
        writer._store = hearing

    async def _out_for_lagging(self) -> None:
        self._bad.faults.extra_sync_ms = 1_500.0
        await self._until(lambda: not self._in_sync())
        await self._at_rest()
        self._link.extra_ms = 300.0
        self._bad.faults.extra_sync_ms = 0.0

    async def _at_rest(self) -> None:
        """Nothing more is produced, and all of it has its answer."""
        assert self.cluster is not None
        self.cluster.lull_until_s = self.loop.time() + 60
        await self._until(lambda: all(batch.outcome.value != "pending" for batch in self.history.sent))

    def _find_damage(self) -> None:
        replica = self._replica(self._bad)
        damage = DamagedRange(0, 1, "spoilt")
        replica.log.scrub.found_damage(damage)
        replica.found_damage(str(damage))

    def _record(self) -> model.PartitionRecord:
        key = model.block_key(self._where.topic_id, self._where.partition)
        assert self.cluster is not None
        return model.decode_block(self.cluster.store._values[key].value)[self._where.partition]

    def _in_sync(self) -> bool:
        return self._bad.broker_id in self._record().in_sync

    def _replica(self, broker: SimBroker) -> Replica:
        assert broker.node is not None
        replica = broker.node.replicas.find(self._where)
        assert replica is not None
        return replica

    def _hosting(self, broker: SimBroker) -> Hosting:
        assert broker.node is not None
        return broker.node.hosting

    async def _until(self, holds: Callable[[], bool]) -> None:
        for _ in range(int(PATIENCE_S / STEP_S)):
            if holds():
                return
            await asyncio.sleep(STEP_S)
        raise AssertionError(f"never: {self._record()}")


@pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
def test_a_replica_that_gives_itself_up_joins_with_what_it_holds(moment: Moment) -> None:
    story = GivenUp(moment)
    result = story.run()
    assert result.passed, f"{result.violated}: {result.explanation}"
    leader_end, end = story.ends
    assert 0 < leader_end == end
