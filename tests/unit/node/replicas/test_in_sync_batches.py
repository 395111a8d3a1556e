"""Many changes of in-sync sets at once: few transactions, and what fails in one of them harms no other partition."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data_plane.broker.sqlite_store import SqliteStore
from data_plane.metadata import broker_records, model
from data_plane.metadata.port import (
    Change,
    Compare,
    OutcomeUnknown,
    Put,
    RangeResult,
    Session,
    TxnResult,
    WatchBatch,
)
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.replicas.in_sync_writer import InSyncWriter
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.replication.effects import Look
from data_plane.replication.opening import Accepted, Position
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from penstock.contract.ids import BrokerId
from tests.waiting import PATIENCE_S

from .test_follower_stream import CONFIG, FOLLOWER, ME, OTHER, StillClock, led

NOBODY: Any = None


def registration_in(view: MetadataView, store: Any) -> Registration:
    return Registration(
        CONFIG, "d", view, store, StillClock(), NOBODY,
        data_lost=NOBODY, damaged=NOBODY, gained=NOBODY, lost=NOBODY,
    )  # fmt: skip


BROKERS = (ME, FOLLOWER, OTHER)
EVERYONE = {ME, FOLLOWER, OTHER}


class Counting:
    """The store, its transactions counted; the answers of as many as `lost` says are lost once they are applied."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.transactions = 0
        self.lost = 0
        self.answered = asyncio.Event()
        self.heard = asyncio.Event()
        """Until it is set the image stands still."""
        self.heard.set()

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        self.transactions += 1
        result = await self._store.txn(compares, changes)
        if self.lost:
            self.lost -= 1
            raise OutcomeUnknown("the answer was lost")
        self.answered.set()
        return result

    async def range(self, prefix: str) -> RangeResult:
        return await self._store.range(prefix)

    async def watch(self, prefix: str, after_revision: int) -> AsyncIterator[WatchBatch]:
        async for batch in self._store.watch(prefix, after_revision):
            await self.heard.wait()
            yield batch

    async def session(self, ttl_ms: int) -> Session:
        return await self._store.session(ttl_ms)

    async def close(self) -> None:
        await self._store.close()


class Leader:
    """A broker that leads partitions of as many blocks as it is asked for; a follower has caught up in each of them."""

    def __init__(self, store: SqliteStore, blocks: int) -> None:
        self.store = Counting(store)
        self._blocks = blocks
        self.replicas: list[Replica] = []
        self.epoch = 0

    async def begin(self) -> None:
        live = broker_records.LiveRecord(incarnation="i", directory_id="d").encode()
        known = [Put(broker_records.live_key(one), live) for one in BROKERS]
        known += [Put(broker_records.broker_key(one), _broker(one).encode()) for one in BROKERS]
        self.epoch = (await self.store.txn([], known)).revision
        for number in range(self._blocks):
            replica = led(partition=number * model.PARTITIONS_PER_BLOCK)
            assert replica.record is not None
            block = model.encode_block({replica.where.partition: replica.record})
            await self.store.txn([], [Put(_key(replica), block)])
            self.catch_up(replica, self.epoch)
            self.replicas.append(replica)
        self.store.transactions = 0
        self.store.answered.clear()
        self.view = MetadataView(self.store, CONFIG.timings)
        await self.view.load()
        self.registration = registration_in(self.view, self.store)
        self.registration.epoch = self.epoch
        self.writer = InSyncWriter(
            CONFIG, self.view, self.registration, self.store, StillClock(), NodeStats()
        )

    def catch_up(self, replica: Replica, broker_epoch: int) -> None:
        assert replica.leading is not None
        position = Position(log_end_offset=0, durable_end_offset=0, last_epoch=-1)
        answer = replica.leading.follower_opened(
            FOLLOWER, broker_epoch, 1, position, 1_000.0, handle=1, leader_epoch=1,
            partition_epoch=replica.leading.record.partition_epoch, registered_epoch=broker_epoch,
            epoch_lookup=lambda epoch: (-1, 0), stored_from=0,
        )  # fmt: skip
        assert isinstance(answer, Accepted)

    async def in_sync(self) -> list[set[BrokerId]]:
        """Of each partition, as the store has it and as its leader believes."""
        found = []
        for replica in self.replicas:
            (item,) = (await self.store.range(_key(replica))).items
            stored = set(model.decode_block(item.value)[replica.where.partition].in_sync)
            assert replica.leading is not None and set(replica.leading.record.in_sync) == stored
            found.append(stored)
        return found


def _key(replica: Replica) -> str:
    return model.block_key(replica.where.topic_id, replica.where.partition)


def _broker(broker: BrokerId) -> broker_records.BrokerRecord:
    return broker_records.BrokerRecord(
        broker_id=broker, directory_id="d", client_address="c:1", internal_address="i:1", zone="z"
    )


def run(tmp_path: Path, blocks: int, story: Callable[[Leader], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        store = await SqliteStore.open(tmp_path / "metadata.db")
        leader = Leader(store, blocks)
        await leader.begin()
        following = asyncio.create_task(leader.view.run())
        try:
            await story(leader)
        finally:
            following.cancel()
            await store.close()

    asyncio.run(all_of_it())


def test_followers_of_many_blocks_join_in_few_transactions(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        await leader.writer._look(leader.replicas)
        assert leader.store.transactions == 3
        assert await leader.in_sync() == [EVERYONE] * 250

    run(tmp_path, 250, story)


def test_a_block_that_others_have_moved_meanwhile_keeps_no_other_from_being_written(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        moved = leader.replicas[13]
        assert moved.record is not None
        neighbour = model.PartitionRecord(
            partition=moved.where.partition + 1, replicas=(OTHER,), replica_generations=(1,)
        )
        block = model.encode_block({moved.where.partition: moved.record, neighbour.partition: neighbour})
        await leader.store.txn([], [Put(_key(moved), block)])
        await leader.writer._look(leader.replicas)
        assert await leader.in_sync() == [EVERYONE] * 40
        (item,) = (await leader.store.range(_key(moved))).items
        assert model.decode_block(item.value)[neighbour.partition] == neighbour

    run(tmp_path, 40, story)


def test_many_that_were_refused_are_written_again_once_the_image_shows_why(tmp_path: Path) -> None:
    """Before, each half would be refused as well, down to the block that has moved."""

    async def story(leader: Leader) -> None:
        leader.store.heard.clear()
        moved = leader.replicas[13]
        assert moved.record is not None
        later = model.encode_block({moved.where.partition: moved.record.changed(in_sync=(ME,))})
        await leader.store.txn([], [Put(_key(moved), later)])
        leader.store.transactions = 0
        leader.store.answered.clear()
        looking = asyncio.create_task(leader.writer._look(leader.replicas))
        await asyncio.wait_for(leader.store.answered.wait(), PATIENCE_S)
        for _ in range(20):
            await asyncio.sleep(0)
        assert leader.store.transactions == 1
        leader.store.heard.set()
        await looking
        assert await leader.in_sync() == [EVERYONE] * 13 + [{ME}] + [EVERYONE] * 26

    run(tmp_path, 40, story)


def test_a_partition_whose_record_has_moved_on_takes_that_record_and_the_others_join(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        moved = leader.replicas[13]
        assert moved.record is not None
        later = model.encode_block({moved.where.partition: moved.record.changed(in_sync=(ME,))})
        await leader.store.txn([], [Put(_key(moved), later)])
        await leader.writer._look(leader.replicas)
        assert await leader.in_sync() == [EVERYONE] * 13 + [{ME}] + [EVERYONE] * 26

    run(tmp_path, 40, story)


def test_one_that_waits_behind_thousands_has_its_turn(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        for number in range(2_100):
            leader.writer.look_at(led(partition=number), Look.IN_TIME)
        (last,) = leader.replicas
        leader.writer.look_at(last, Look.IN_TIME)
        running = asyncio.create_task(leader.writer.run())
        await asyncio.wait_for(leader.store.answered.wait(), PATIENCE_S)
        running.cancel()
        await asyncio.wait([running])
        assert await leader.in_sync() == [EVERYONE]

    run(tmp_path, 1, story)


def test_a_lost_answer_to_many_leaves_each_unresolved_until_the_store_is_asked(tmp_path: Path) -> None:
    async def story(leader: Leader) -> None:
        leader.store.lost = 1
        await leader.writer._look(leader.replicas)
        for replica in leader.replicas:
            assert replica.leading is not None and replica.leading.unresolved
            assert set(replica.leading.maximal) == EVERYONE and replica.leading.in_sync_count == 2
        await leader.writer._look(leader.replicas)
        assert await leader.in_sync() == [EVERYONE] * 10

    run(tmp_path, 10, story)


def test_a_follower_that_registers_again_meanwhile_joins_only_as_it_is_then(tmp_path: Path) -> None:
    """Of two blocks in one transaction the first was proposed before, the second after (RL34, RL35)."""

    async def story(leader: Leader) -> None:
        early, late = leader.replicas
        assert early.leading is not None and late.leading is not None
        before = early.leading.propose(1_000.0, leader.writer.view_of)
        live = broker_records.LiveRecord(incarnation="j", directory_id="d").encode()
        again = await leader.store.txn([], [Put(broker_records.live_key(FOLLOWER), live)])
        assert await leader.view.reached(again.revision, 60_000)
        leader.catch_up(late, again.revision)
        after = late.leading.propose(1_000.0, leader.writer.view_of)
        assert before is not None and after is not None
        await leader.writer._write(
            {
                _key(early): [(early, early.leading, before)],
                _key(late): [(late, late.leading, after)],
            }
        )
        assert await leader.in_sync() == [{ME, OTHER}, EVERYONE]

    run(tmp_path, 2, story)


def _proposed(leader: Leader) -> dict[str, Any]:
    """What is due of every partition, by its block."""
    blocks = {}
    for replica in leader.replicas:
        assert replica.leading is not None
        proposal = replica.leading.propose(1_000.0, leader.writer.view_of)
        assert proposal is not None and set(proposal.in_sync) == EVERYONE
        blocks[_key(replica)] = [(replica, replica.leading, proposal)]
    return blocks


@pytest.mark.parametrize("blocks", [1, 4])
def test_a_follower_that_begins_to_shut_down_before_it_is_written_does_not_join(
    tmp_path: Path, blocks: int
) -> None:
    async def story(leader: Leader) -> None:
        proposed = _proposed(leader)
        record = replace(_broker(FOLLOWER), draining=True)
        leaves = await leader.store.txn([], [Put(broker_records.broker_key(FOLLOWER), record.encode())])
        assert await leader.view.reached(leaves.revision, 60_000)
        await leader.writer._write(proposed)
        assert await leader.in_sync() == [{ME, OTHER}] * blocks

    run(tmp_path, blocks, story)


@pytest.mark.parametrize("blocks", [1, 4])
def test_a_leader_that_is_registered_no_more_writes_nothing_that_it_proposed_before(
    tmp_path: Path, blocks: int
) -> None:
    """Though the store still has its registration: its session may have ended by its own clock first (RL9)."""

    async def story(leader: Leader) -> None:
        proposed = _proposed(leader)
        leader.registration.epoch = 0
        await leader.writer._write(proposed)
        assert await leader.in_sync() == [{ME, OTHER}] * blocks

    run(tmp_path, blocks, story)


@pytest.mark.parametrize("how", ["registers again", "begins to shut down"])
def test_a_follower_that_changes_while_the_transaction_is_on_its_way_joins_none_of_the_partitions(
    tmp_path: Path, how: str
) -> None:
    async def story(leader: Leader) -> None:
        proposed = _proposed(leader)
        writes = [leader.writer._by_image(key, some) for key, some in proposed.items()]
        if how == "registers again":
            live = broker_records.LiveRecord(incarnation="j", directory_id="d").encode()
            change = Put(broker_records.live_key(FOLLOWER), live)
        else:
            record = replace(_broker(FOLLOWER), draining=True)
            change = Put(broker_records.broker_key(FOLLOWER), record.encode())
        await leader.store.txn([], [change])
        await leader.writer._write_together([write for write in writes if write is not None], proposed)
        assert await leader.in_sync() == [{ME, OTHER}] * 5

    run(tmp_path, 5, story)


def test_one_that_is_due_at_once_is_looked_at_in_the_turn_that_looks_at_thousands() -> None:
    loop = SimLoop(1)
    clock = SimClock(loop)
    view = MetadataView(NOBODY, CONFIG.timings)
    writer = InSyncWriter(CONFIG, view, registration_in(view, NOBODY), NOBODY, clock, NodeStats())

    async def story() -> None:
        for number in range(2_100):
            writer.look_at(led(partition=number), Look.IN_TIME)
        settled = led(partition=2_100)
        settled.rest()
        period_s = CONFIG.timings.in_sync_check_ms / 1000
        running = asyncio.create_task(writer.run())
        loop.call_at(loop.time() + period_s, writer.look_at, settled, Look.NOW)
        await asyncio.sleep(period_s * 1.5)
        assert settled not in writer._unsettled, "it was looked at"
        running.cancel()
        await asyncio.wait([running])

    try:
        loop.run_until_complete(story())
        assert not loop.failures
    finally:
        loop.close()
