"""A planned end of a leadership: it moves when the other one has everything, or it stays and goes on; and why."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from data_plane.controller.leader_return import LeaderMove
from data_plane.metadata import broker_records, model
from data_plane.metadata.model import PartitionRecord
from data_plane.metadata.port import Change, Compare, Delete, Put, TxnResult
from data_plane.node.ports import CallFailed, ConnectionLost
from data_plane.node.replicas.replica import Replica
from data_plane.replication.opening import NO_EPOCH, Position
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import NO_BROKER, BrokerId, TopicPartition
from tests.unit.log.miniature import TOPIC, Miniature, where
from tests.unit.node.control.members import PATIENT, SOON_S, Members
from tests.unit.node.replicas.test_follower_stream import FOLLOWER, ME, OTHER, REGISTERED, held_by_other, led
from tests.unit.node.replicas.uncommitted import write

STANDSTILL_S = PATIENT.hand_over_ms / 1_000
LATE = "it was not all in sync in time"
CHANGED = "its record changed meanwhile"


class Leading(Members):
    """Broker 1 leads partitions of one topic, in sync with broker 3; their logs hold as much as a test writes."""

    def __init__(self, partitions: int = 1, *, numbers: Sequence[int] = (1, 2, 3), **options: Any) -> None:
        super().__init__(*numbers, **options)
        self._partitions = partitions
        self.led: list[Replica] = []
        self._storage = Miniature()

    def lead(self) -> None:
        for number in range(self._partitions):
            replica = led(self._storage, partition=number, clock=self[1].clock)
            assert replica.record is not None
            self.led.append(replica)
            self[1].replicas.add(replica)
            held_by_other(replica, 0)
        self.put_topic(
            *(leader_replica.record for leader_replica in self.led if leader_replica.record is not None),
            topic_id=TOPIC,
        )

    def play(self, story: Any, **options: Any) -> None:
        async def whole(members: Members) -> None:
            self.lead()
            await asyncio.sleep(SOON_S)
            await story(self)

        self.run(whole, **options)

    def write(self, number: int = 0) -> None:
        """A batch that is durable here, and which broker 3 does not have."""
        write(self.led[number])
        self._storage.commit(raise_watermark=False)
        self.led[number].became_durable()

    def record(self, number: int = 0) -> PartitionRecord:
        return self.partition(TOPIC, number)

    def become(self, number: int = 0, **changes: Any) -> None:
        """The record and the leader's knowledge of it, in the next leader epoch."""
        before = self.record(number)
        after = replace(before, leader_epoch=before.leader_epoch + 1, partition_epoch=9, **changes)
        self.put_record(after)
        if after.leader == ME:
            self.led[number].lead(after)
        else:
            self.led[number].rest()

    def put_record(self, record: PartitionRecord) -> None:
        key = model.block_key(TOPIC, record.partition)
        block = model.decode_block(self.store.snapshot(key).items[0].value)
        changes = [Put(key, model.encode_block(block | {record.partition: record}))]
        assert self.store.apply_txn((), changes).succeeded

    @property
    def takes(self) -> list[bool]:
        """For each leader, whether it takes batches."""
        return [
            leader_replica.leading is not None and leader_replica.leading.taking
            for leader_replica in self.led
        ]


HANDLES = itertools.count(1)
"""Each open is newer than all before it."""


def moves(*numbers: int, to: int = OTHER, leader_epoch: int = 1) -> list[LeaderMove]:
    return [
        LeaderMove(where=where(number), leader=ME, leader_epoch=leader_epoch, to=BrokerId(to))
        for number in numbers or (0,)
    ]


def holds(replica: Replica, follower: BrokerId, end: int | None = None) -> None:
    """The follower has all that there is, or all up to `end`, in the epoch that is led."""
    leading, end = replica.leading, replica.log.log_end_offset if end is None else end
    assert leading is not None
    epoch, position = (
        leading.leader_epoch,
        Position(log_end_offset=end, durable_end_offset=end, last_epoch=NO_EPOCH),
    )
    handle = next(HANDLES)
    leading.follower_opened(
        follower, REGISTERED, 1, position, 0.0, handle=handle, leader_epoch=epoch,
        partition_epoch=leading.record.partition_epoch, registered_epoch=REGISTERED,
        epoch_lookup=replica.log.end_offset_for_epoch, stored_from=0,
    )  # fmt: skip
    leading.follower_acked(follower, REGISTERED, end, end, 0.0, handle=handle, leader_epoch=epoch)
    replica.carry_out()


# -- one move -----------------------------------------------------------------------------------------------


def test_what_the_other_one_has_moves_at_once_into_the_next_epoch() -> None:
    async def story(leading: Leading) -> None:
        leading.write()
        held_by_other(leading.led[0], 2)
        began_s = leading.loop.time()
        assert await leading[1].handover.move(moves()) == [""]
        assert leading.loop.time() - began_s < STANDSTILL_S / 10
        after = leading.record()
        assert (after.leader, after.leader_epoch, after.in_sync) == (OTHER, 2, (ME, OTHER))
        assert leading[1].view.image.partition(where()) == after, "the image shows it"
        assert leading.takes == [False], "in this epoch nothing more is appended"
        stats = leading[1].stats
        assert (stats.leaders_handed_over, sum(stats.hand_over_ms.counts)) == (1, 1)

    Leading().play(story)


def test_what_the_other_one_gets_within_the_time_is_waited_for() -> None:
    async def story(leading: Leading) -> None:
        leading.write()
        moving = asyncio.create_task(leading[1].handover.move(moves()))
        await asyncio.sleep(STANDSTILL_S * 0.9)
        assert leading.takes == [False] and not moving.done()
        held_by_other(leading.led[0], 2)
        assert await moving == [""]
        assert leading.record().leader == OTHER

    Leading().play(story)


def test_what_is_not_complete_in_time_stays_and_takes_batches_again() -> None:
    async def story(leading: Leading) -> None:
        leading.write()
        before, began_s = leading.record(), leading.loop.time()
        assert await leading[1].handover.move(moves()) == [LATE]
        assert STANDSTILL_S <= leading.loop.time() - began_s < STANDSTILL_S * 1.1
        assert leading.record() == before and leading.takes == [True]
        assert (leading[1].stats.leaders_handed_over, sum(leading[1].stats.hand_over_ms.counts)) == (0, 0)

    Leading().play(story)


def test_of_several_that_are_moved_together_those_move_that_can() -> None:
    async def story(leading: Leading) -> None:
        leading.write(1)
        reasons = await leading[1].handover.move(moves(0, 1, 2))
        assert reasons == ["", LATE, ""]
        assert [leading.record(number).leader for number in range(3)] == [OTHER, ME, OTHER]
        assert leading.takes == [False, True, False]
        assert leading[1].stats.leaders_handed_over == 2

    Leading(3).play(story)


def test_each_move_that_is_not_possible_says_why_in_its_place() -> None:
    async def story(leading: Leading) -> None:
        leading.led[1].busy = True
        alone = TopicPartition(TOPIC, 77)
        asked = [
            *moves(1),
            *moves(0, leader_epoch=2),
            *moves(0, leader_epoch=0),
            replace(moves()[0], where=alone),
            *moves(0, to=FOLLOWER),
            *moves(0, to=ME),
            *moves(2),
        ]
        assert await leading[1].handover.move(asked) == [
            "its log is being changed",
            "broker 1 does not lead it in epoch 2",
            "broker 1 does not lead it in epoch 0",
            "broker 1 does not lead it in epoch 1",
            "broker 2 is no other in-sync replica that is alive",
            "broker 1 is no other in-sync replica that is alive",
            "",
        ]
        assert leading.takes == [True, True, False]
        leading.led[0].rest()
        assert await leading[1].handover.move(moves()) == ["broker 1 does not lead it in epoch 1"]

    Leading(3).play(story)


def test_nothing_is_handed_to_a_broker_that_is_not_registered_or_does_not_answer() -> None:
    async def story(leading: Leading) -> None:
        leading.loop.pause(leading[3].process)
        began_s = leading.loop.time()
        assert await leading[1].handover.move(moves(0, 1)) == ["broker 3 does not answer"] * 2
        assert leading.loop.time() - began_s < STANDSTILL_S * 1.1
        await leading.until(lambda: leading[1].view.image.epoch_of(OTHER) == 0)
        reasons = await leading[1].handover.move(moves())
        assert reasons == ["broker 3 is no other in-sync replica that is alive"]
        assert all(leading.takes)

    Leading(2).play(story)


def test_nothing_is_handed_to_a_broker_that_stops_itself() -> None:
    async def story(leading: Leading) -> None:
        await leading[3].handover.leave()
        assert await leading[1].handover.move(moves()) == ["broker 3 does not answer"]

    Leading().play(story)


def test_a_partition_of_a_long_list_is_moved_too_and_few_blocks_are_written() -> None:
    async def story(leading: Leading) -> None:
        revision = leading.store.revision
        assert await leading[1].handover.move(moves(*range(105))) == [""] * 105
        assert all(leading.record(number).leader == OTHER for number in range(105))
        assert leading.store.revision - revision == 3, "64, the rest of that block, and the next block"

    Leading(105).play(story)


def test_moves_from_several_sides_go_one_after_the_other() -> None:
    async def story(leading: Leading) -> None:
        leading.write(0)
        first = asyncio.create_task(leading[1].handover.move(moves(0)))
        await asyncio.sleep(STANDSTILL_S / 10)
        second = asyncio.create_task(leading[1].handover.move(moves(1)))
        await asyncio.sleep(STANDSTILL_S / 2)
        assert leading.takes == [False, True] and not second.done()
        assert [await first, await second] == [[LATE], [""]]

    Leading(2).play(story)


# -- the record changes meanwhile ---------------------------------------------------------------------------


class Meddled:
    """A store in which `change` happens just before blocks are written, for as long as it is set."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.change: Change | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        if self.change is not None and any(change.key.startswith("/partitions/") for change in changes):
            await self._store.txn((), (self.change,))
            self.change = None
        return await self._store.txn(compares, changes)  # type: ignore[no-any-return]


def draining(members: Members, number: int) -> Put:
    stored = members[1].view.image.brokers[BrokerId(number)].record
    return Put(broker_records.broker_key(number), replace(stored, draining=True).encode())


@pytest.mark.parametrize("what", ["other fenced", "leader fenced", "other stops", "another block"])
def test_what_would_make_the_move_wrong_meanwhile_keeps_it_from_being_written(what: str) -> None:
    async def story(leading: Leading) -> None:
        key = model.block_key(TOPIC, 0)
        changes: dict[str, Change] = {
            "other fenced": Delete(broker_records.live_key(3)),
            "leader fenced": Delete(broker_records.live_key(1)),
            "other stops": draining(leading, 3),
            "another block": Put(key, model.encode_block({0: leading.record().changed(log_start=1)})),
        }
        store: Any = leading[1].store
        store.change = changes[what]
        assert await leading[1].handover.move(moves()) == [CHANGED]
        assert leading.record().leader_epoch == 1 and leading.takes == [True]

    Leading(wrapped=Meddled).play(story)


@pytest.mark.parametrize(
    "changes",
    [
        {"leader": OTHER},
        {"leader_epoch": 2},
        {"leader": NO_BROKER},
        {"in_sync": (ME,)},
        {"partition": 5},
    ],
)
def test_a_record_that_the_image_does_not_show_yet_is_not_written_over(changes: dict[str, Any]) -> None:
    async def story(leading: Leading) -> None:
        leading.store.faults.watch_delayed_chance, leading.store.faults.watch_delay_ms = 1.0, 5_000.0
        key, changed = model.block_key(TOPIC, 0), replace(leading.record(), **changes)
        block = {changed.partition: changed}
        leading.store.apply_txn((), (Put(key, model.encode_block(block)),))
        assert await leading[1].handover.move(moves()) == [CHANGED]
        assert leading.store.snapshot(key).items[0].value == model.encode_block(block)
        assert leading.takes == [True]

    Leading().play(story)


def test_a_leadership_that_ends_while_it_is_handed_over_is_not_moved() -> None:
    async def story(leading: Leading) -> None:
        leading.write()
        moving = asyncio.create_task(leading[1].handover.move(moves()))
        await asyncio.sleep(STANDSTILL_S / 10)
        leading.led[0].rest()
        assert await moving == [LATE]
        assert leading.record().leader == ME

    Leading().play(story)


def test_a_store_that_is_away_leaves_the_leader_and_says_so() -> None:
    async def story(leading: Leading) -> None:
        leading.store.cut("h1")
        (reason,) = await leading[1].handover.move(moves())
        assert reason.startswith("the metadata store: ") and "h1" in reason
        leading.store.heal("h1")
        assert leading.takes == [True]
        assert await leading[1].handover.move(moves()) == [""]

    Leading().play(story)


def test_a_partition_of_a_topic_that_is_gone_stays() -> None:
    async def story(leading: Leading) -> None:
        leading.store.faults.watch_delayed_chance, leading.store.faults.watch_delay_ms = 1.0, 5_000.0
        leading.store.apply_txn((), (Delete(model.block_key(TOPIC, 0)),))
        (reason,) = await leading[1].handover.move(moves())
        assert reason and leading.takes == [True]

    Leading().play(story)


# -- asked by others ----------------------------------------------------------------------------------------


def test_another_broker_asks_the_leader_and_then_sees_what_became_of_it() -> None:
    async def story(leading: Leading) -> None:
        asked = [*moves(2), *moves(0, leader_epoch=7), *moves(1, to=FOLLOWER)]
        assert await leading[2].handover.ask(ME, asked) == [
            "",
            "broker 1 does not lead it in epoch 7",
            "broker 2 is no other in-sync replica that is alive",
        ]
        after = leading[2].view.image.partition(where(2))
        assert after is not None and after.leader == OTHER
        assert await leading[1].handover.ask(ME, moves(1)) == [""], "the leader asks itself"
        assert leading.record(1).leader == OTHER

    Leading(3).play(story)


def test_a_leader_that_is_not_there_cannot_be_asked() -> None:
    async def story(leading: Leading) -> None:
        with pytest.raises(ConnectionLost, match="broker 9 is not there"):
            await leading[2].handover.ask(BrokerId(9), moves())
        leading.kill(3)
        await leading.until(lambda: not leading[2].view.image.epoch_of(OTHER))
        with pytest.raises(ConnectionLost, match="broker 3 is not there"):
            await leading[2].handover.ask(OTHER, moves())

    Leading().play(story)


def test_a_broker_that_stops_takes_no_question() -> None:
    async def story(leading: Leading) -> None:
        assert await leading[2].handover.ask(OTHER, []) == []
        await leading[3].handover.leave()
        with pytest.raises(CallFailed, match="this broker stops") as refused:
            await leading[2].handover.ask(OTHER, [])
        assert refused.value.code == ErrorCode.BROKER_UNAVAILABLE

    Leading().play(story)


def test_the_controllers_moves_are_asked_of_each_leader_and_one_that_is_away_keeps_none_back() -> None:
    async def story(leading: Leading) -> None:
        away = [replace(move, leader=BrokerId(9)) for move in moves()]
        stopping = [replace(move, leader=OTHER) for move in moves()]
        await leading[3].handover.leave()
        for number in range(2):
            leading.become(number, in_sync=(ME, FOLLOWER, OTHER))
            holds(leading.led[number], FOLLOWER)
            holds(leading.led[number], OTHER)
        await asyncio.sleep(SOON_S)
        mine = [*moves(1, to=FOLLOWER, leader_epoch=2), *moves(0, to=FOLLOWER, leader_epoch=2)]
        await leading[2].handover.ask_all([*away, *stopping, *mine])
        assert [leading.record(number).leader for number in range(2)] == [FOLLOWER, FOLLOWER]

    Leading(2).play(story)


# -- a clean stop -------------------------------------------------------------------------------------------


def test_a_broker_that_stops_hands_over_all_that_others_may_lead() -> None:
    async def story(leading: Leading) -> None:
        leading.become(1, in_sync=(ME,))
        leading.led[2].busy = True
        await asyncio.sleep(SOON_S)
        await leading[1].handover.leave()
        assert [leading.record(number).leader for number in range(4)] == [OTHER, ME, ME, OTHER]

    Leading(4).play(story)


def test_a_broker_that_stops_hands_over_to_those_who_answer() -> None:
    async def story(leading: Leading) -> None:
        leading.become(in_sync=(ME, FOLLOWER, OTHER))
        for follower in (FOLLOWER, OTHER):
            holds(leading.led[0], follower)
        await asyncio.sleep(SOON_S)
        leading.loop.pause(leading[2].process)
        await leading[1].handover.leave()
        assert leading.record().leader == OTHER, "broker 2 comes first, and is silent"

    Leading().play(story)


def test_a_leadership_that_ends_while_a_broker_that_stops_asks_the_others_is_left_out() -> None:
    async def story(leading: Leading) -> None:
        leading.become(0, in_sync=(ME, FOLLOWER, OTHER))
        leading.become(1, in_sync=(ME, FOLLOWER, OTHER))
        for leader_replica in leading.led:
            holds(leader_replica, OTHER)
        await asyncio.sleep(SOON_S)
        leading.loop.pause(leading[2].process)
        leaving = asyncio.create_task(leading[1].handover.leave())
        await asyncio.sleep(STANDSTILL_S / 2)
        leading.led[0].rest()
        await leaving
        assert [leading.record(number).leader for number in range(2)] == [ME, OTHER]

    Leading(2).play(story)


# -- reassignments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "leader"), [((FOLLOWER, OTHER), FOLLOWER), ((FOLLOWER, ME), ME)], ids=["moves", "stays"]
)
def test_a_reassignment_is_closed_once_all_that_stay_are_in_sync(
    target: tuple[BrokerId, ...], leader: BrokerId
) -> None:
    async def story(leading: Leading) -> None:
        closing = asyncio.create_task(leading[1].handover.run())
        leading.become(target=target, adding=(FOLLOWER,))
        holds(leading.led[0], OTHER)
        leading[1].replicas.reassigning[where()] = None
        await asyncio.sleep(1)
        assert leading.record().target == target, "what is added is not in sync"
        leading.become(in_sync=(ME, FOLLOWER, OTHER))
        holds(leading.led[0], OTHER)
        holds(leading.led[0], FOLLOWER)
        leading.led[0].busy = True
        await asyncio.sleep(1)
        assert leading.record().target == target, "its log is being changed"
        leading.led[0].busy = False
        await leading.until(lambda: not leading.record().target, 0.5)
        after = leading.record()
        assert (after.replicas, after.leader, after.leader_epoch) == (target, leader, 4)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()

    Leading().play(story)


def test_what_is_not_led_here_any_more_is_not_closed_here() -> None:
    async def story(leading: Leading) -> None:
        closing = asyncio.create_task(leading[1].handover.run())
        leading.become(target=(OTHER, ME))
        holds(leading.led[0], OTHER)
        leading[1].replicas.reassigning[TopicPartition(TOPIC, 77)] = None
        leading[1].replicas.reassigning[where()] = None
        leading.led[0].rest()
        await asyncio.sleep(1)
        assert leading.record().target == (OTHER, ME) and not closing.done()
        closing.cancel()

    Leading().play(story)


def test_members_that_a_reassignment_keeps_are_registered_when_it_is_closed() -> None:
    async def story(leading: Leading) -> None:
        leading.become(target=(ME, FOLLOWER), in_sync=(ME, FOLLOWER, OTHER))
        holds(leading.led[0], OTHER)
        holds(leading.led[0], FOLLOWER)
        leading[1].replicas.reassigning[where()] = None
        store: Any = leading[1].store
        store.change = Delete(broker_records.live_key(FOLLOWER))
        closing = asyncio.create_task(leading[1].handover.run())
        await leading.until(lambda: store.change is None, 1)
        assert leading.record().target == (ME, FOLLOWER), "broker 2 may have lost what it had"
        closing.cancel()

    Leading(wrapped=Meddled).play(story)
