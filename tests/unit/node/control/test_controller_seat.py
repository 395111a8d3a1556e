"""Who is controller, whom it fences and when, and what it writes: brokers over one store and one network."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from data_plane.contract import replication_pb2 as pb
from data_plane.contract.methods import CONTROL
from data_plane.controller.changed_blocks import ChangedBlocks
from data_plane.controller.clocks import FAR_OFF_MS, HOLDS_MS
from data_plane.controller.leader_return import STEADY_MS
from data_plane.controller.suspicion import TAKEOVER_STEP_MS
from data_plane.metadata import broker_records, model
from data_plane.metadata.features import VersionRecord, version_key
from data_plane.metadata.model import TopicRecord
from data_plane.metadata.port import Change, Compare, Delete, Put, TxnResult
from data_plane.node.control.controller_seat import LOOKED_A_TURN, planned
from data_plane.node.ports import peer_of
from data_plane.testkit.connection import StreamRefused
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import NO_BROKER, BrokerId, TenantId, TopicId
from tests.unit.controller.setup import Store
from tests.unit.node.control.members import LONG_S, PATIENT, SOON_S, Member, Members, led_by
from tests.unit.node.storage import SETTINGS

SUSPICION_S = PATIENT.suspicion_ms / 1_000
BEAT_S = PATIENT.heartbeat_ms / 1_000
TENANT = TenantId("tn_a")
STEP_S = TAKEOVER_STEP_MS / 1_000
DEAF = replace(PATIENT, suspicion_ms=LONG_S * 1_000)
"""Silence makes no suspicion."""


def numbered(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


# -- taking the seat ----------------------------------------------------------------------------------------


def test_the_first_broker_takes_the_free_seat_and_keeps_it_whoever_comes_later() -> None:
    async def story(members: Members) -> None:
        assert members.seated == [3]
        members.start(1)
        await asyncio.sleep(10 * SUSPICION_S)
        assert members.seated == [3] and members.takeovers == 1

    Members(1, 3).run(story, start=[3])


def test_of_brokers_that_find_the_seat_free_the_lowest_takes_it_without_waiting() -> None:
    async def story(members: Members) -> None:
        members.fence(3)
        members.store.apply_txn((), (Delete(broker_records.CONTROLLER_KEY),))
        assert await members.until(lambda: members.seated == [1]) < STEP_S
        await asyncio.sleep(SUSPICION_S)
        assert members.takeovers == 2, "the others tried as well"

    Members(3, 1, 2).run(story)


@pytest.mark.parametrize(("gone", "successor", "steps"), [((1,), 2, 0), ((1, 2), 3, 1)])
def test_a_controller_that_is_gone_is_replaced_at_once_by_the_next_each_a_step_later(
    gone: Sequence[int], successor: int, steps: int
) -> None:
    async def story(members: Members) -> None:
        for number in reversed(gone):
            members.kill(number)
        took_s = await members.until(lambda: members.seated == [successor])
        assert steps * STEP_S <= took_s < (steps + 1) * STEP_S
        assert not members.alive(1), "fenced in the same step"
        await members.until(lambda: not any(map(members.alive, gone)))
        assert members.takeovers == 2

    Members().run(story)


def test_a_broker_that_stops_does_not_take_the_seat() -> None:
    async def story(members: Members) -> None:
        await members[2].registration.announce_draining()
        members.kill(1)
        await members.until(lambda: members.seated == [3], 1)
        assert members.takeovers == 2

    Members().run(story)


def test_a_controller_that_falls_silent_keeps_the_seat_for_the_whole_suspicion_time() -> None:
    async def story(members: Members) -> None:
        members.loop.pause(members[1].process)
        took_s = await members.until(lambda: members.controller == 2)
        assert SUSPICION_S - BEAT_S <= took_s < SUSPICION_S + STEP_S
        assert not members.alive(1)
        members.loop.resume(members[1].process)
        await members.until(members[1].registration.in_force)
        await asyncio.sleep(SUSPICION_S * 3)
        assert (members.seated, members[1].lost) == ([2], ["the registration was fenced"])
        assert members.takeovers == 2

    Members().run(story)


def test_a_new_controller_gets_the_whole_suspicion_time_from_those_who_suspected_the_last() -> None:
    async def story(members: Members) -> None:
        members.loop.pause(members[1].process)
        await members.until(lambda: members.controller == 2)
        members.loop.pause(members[2].process)
        took_s = await members.until(lambda: members.controller == 3)
        assert took_s >= SUSPICION_S - STEP_S

    Members().run(story)


def test_a_controller_that_was_fenced_and_registers_again_takes_its_seat_again() -> None:
    async def story(members: Members) -> None:
        epoch = members[1].view.image.controller_epoch
        members.fence(1)
        await members.until(lambda: members.seated != [1])
        await members.until(lambda: bool(members.seated))
        assert members[members.seated[0]].view.image.controller_epoch > epoch

    Members().run(story)


def test_brokers_that_all_stood_still_suspect_no_one() -> None:
    async def story(members: Members) -> None:
        for number in members.numbers:
            members.loop.pause(members[number].process)
        await asyncio.sleep(10 * SUSPICION_S)
        for number in reversed(members.numbers):
            members.loop.resume(members[number].process)
        await asyncio.sleep(SUSPICION_S)
        assert members.takeovers == 1 and members[1].stats.fences == 0
        assert all(members[number].lost == [] for number in members.numbers)

    for seed in range(5):
        Members(seed=seed).run(story)


def test_a_controller_that_stood_still_alone_fences_no_one() -> None:
    async def story(members: Members) -> None:
        members.loop.pause(members[1].process)
        await asyncio.sleep(3 * SUSPICION_S)
        members.loop.resume(members[1].process)
        await asyncio.sleep(SUSPICION_S)
        assert members.seated == [1] and members[1].stats.fences == 0

    for seed in range(5):
        Members(patience={2: DEAF, 3: DEAF}, seed=seed).run(story)


# -- watching the others ------------------------------------------------------------------------------------


def test_brokers_that_answer_beats_stay_registered() -> None:
    async def story(members: Members) -> None:
        await asyncio.sleep(20 * SUSPICION_S)
        assert all(map(members.alive, members.numbers)) and members[1].stats.fences == 0

    Members().run(story)


def test_a_silent_broker_is_fenced_after_the_suspicion_time_and_one_that_is_gone_at_once() -> None:
    async def story(members: Members) -> None:
        members.loop.pause(members[3].process)
        took_s = await members.until(lambda: not members.alive(3))
        assert SUSPICION_S - BEAT_S <= took_s < SUSPICION_S + STEP_S + BEAT_S
        assert members.alive(2) and members[1].stats.fences == 1
        members.kill(2)
        assert await members.until(lambda: not members.alive(2)) < STEP_S
        assert members[1].stats.fences == 2 and members.seated == [1]

    Members().run(story)


def test_a_broker_that_comes_back_is_watched_again() -> None:
    async def story(members: Members) -> None:
        for _ in range(2):
            members.loop.pause(members[2].process)
            await members.until(lambda: not members.alive(2))
            members.loop.resume(members[2].process)
            await members.until(members[2].registration.in_force)
            await asyncio.sleep(3 * SUSPICION_S)
            assert members.alive(2)
        assert members[1].stats.fences == 2

    Members().run(story)


def test_who_is_not_controller_beats_to_no_one() -> None:
    async def story(members: Members) -> None:
        members.loop.pause(members[3].process)
        await asyncio.sleep(3 * SUSPICION_S)
        assert members.alive(3), "the controller is deaf"
        assert members[2].stats.fences == 0
        assert members[2].seat.clock_off_ms == 0, "and goes on beating to the others"

    Members(patience={1: DEAF, 3: DEAF}).run(story)


def test_the_controller_fences_those_below_the_feature_level() -> None:
    async def story(members: Members) -> None:
        old = VersionRecord(
            incarnation=members[3].registration.incarnation, version="0", level_min=1, level_max=1
        )
        members.store.apply_txn((), (Put(version_key(3), old.encode()),))
        await members.until(lambda: members[3].lost == ["the registration was fenced"], SOON_S)
        await asyncio.sleep(SUSPICION_S)
        assert members.alive(3), "it has registered again, with the levels that it has"
        assert members[2].lost == [] and members[1].stats.fences == 1

    Members().run(story)


# -- beats --------------------------------------------------------------------------------------------------


async def beating(members: Members, caller: Member, **fields: Any) -> pb.BeatHead:
    """The answer of broker 2 to a beat which `caller` sends it."""
    record = members[2].view.image.brokers[BrokerId(2)].record
    connection = await caller.transport.connect(peer_of(record), CONTROL, 1_000)
    try:
        await connection.send(pack_frame(FrameKind.BEAT, pb.BeatHead(**fields).SerializeToString()))
        kind, head, _ = unpack_frame(await connection.receive())
        assert kind is FrameKind.BEAT
        return pb.BeatHead.FromString(bytes(head))
    finally:
        connection.close()


def test_a_beat_is_answered_with_who_answers_and_both_its_clocks() -> None:
    async def story(members: Members) -> None:
        before_ms = members[2].clock.monotonic_ms()
        answer = await beating(members, members[1], broker_id=1, sequence=7, asked_ms=5.5)
        assert (answer.broker_id, answer.sequence, answer.asked_ms) == (2, 7, 5.5)
        assert answer.broker_epoch == members[2].registration.epoch
        assert before_ms < answer.answered_ms <= members[2].clock.monotonic_ms()
        assert abs(answer.wall_ms - members[2].clock.now_ms()) < 10

    Members(skews_ms={2: 70_000}).run(story)


def test_no_broker_beats_in_the_name_of_another() -> None:
    async def story(members: Members) -> None:
        with pytest.raises(StreamRefused, match="speaks for broker 1") as refused:
            await beating(members, members[3], broker_id=1)
        assert refused.value.code == ErrorCode.FORBIDDEN

    Members().run(story)


def test_what_is_no_beat_ends_the_stream() -> None:
    async def story(members: Members) -> None:
        record = members[2].view.image.brokers[BrokerId(2)].record
        connection = await members[1].transport.connect(peer_of(record), CONTROL, 1_000)
        await connection.send(
            pack_frame(FrameKind.REPLICA_PUSH, pb.BeatHead(broker_id=1).SerializeToString())
        )
        with pytest.raises(StreamRefused, match="REPLICA_PUSH has no place on a control stream"):
            await connection.receive()

    Members().run(story)


@pytest.mark.parametrize("current", [True, False], ids=["of this controller", "of an earlier one"])
def test_only_beats_of_the_present_controller_epoch_keep_it_from_suspicion(current: bool) -> None:
    async def story(members: Members) -> None:
        epoch = members[2].view.image.controller_epoch - (not current)
        members.loop.pause(members[1].process)
        caller = Member(members, 1, PATIENT, 0)  # another process with the controller's certificate
        record = members[2].view.image.brokers[BrokerId(2)].record
        connection = await caller.transport.connect(peer_of(record), CONTROL, 1_000)
        for sequence in range(12):
            head = pb.BeatHead(broker_id=1, controller_epoch=epoch, sequence=sequence)
            await connection.send(pack_frame(FrameKind.BEAT, head.SerializeToString()))
            await asyncio.sleep(BEAT_S)
        assert (members.controller == 1) is current

    Members(patience={3: DEAF}).run(story)


def test_a_controller_that_is_heard_again_while_a_broker_waits_for_its_turn_keeps_the_seat() -> None:
    async def story(members: Members) -> None:
        epoch = members[3].view.image.controller_epoch
        members.loop.pause(members[1].process)
        caller = Member(members, 1, PATIENT, 0)  # another process with the controller's certificate
        record = members[3].view.image.brokers[BrokerId(3)].record
        connection = await caller.transport.connect(peer_of(record), CONTROL, 1_000)
        for sequence in range(6):
            head = pb.BeatHead(broker_id=1, controller_epoch=epoch, sequence=sequence)
            await connection.send(pack_frame(FrameKind.BEAT, head.SerializeToString()))
            await asyncio.sleep(SUSPICION_S + 0.9 * STEP_S)
        assert members.controller == 1 and members.takeovers == 1
        await members.until(lambda: members.controller == 3, 2 * STEP_S)

    Members(patience={2: DEAF}).run(story)


def test_a_lost_stream_of_another_than_the_controller_is_no_suspicion_of_it() -> None:
    async def story(members: Members) -> None:
        await beating(members, members[3], broker_id=3)
        await asyncio.sleep(SOON_S)
        assert members.takeovers == 1
        await beating(members, members[1], broker_id=1)
        await members.until(lambda: members.takeovers == 2, 1)

    Members().run(story)


# -- clocks -------------------------------------------------------------------------------------------------


def test_each_broker_learns_how_far_its_clock_is_off_the_middle() -> None:
    async def story(members: Members) -> None:
        await asyncio.sleep(3 * BEAT_S)
        off_ms = {number: members[number].seat.clock_off_ms for number in members.numbers}
        for number, expected_ms in {1: -400, 2: 0, 3: 70_000}.items():
            measured_ms = off_ms[number]
            assert measured_ms is not None and abs(measured_ms - expected_ms) <= 5

    Members(skews_ms={1: -400, 3: 70_000}).run(story)


def test_a_broker_that_is_alone_has_no_clock_to_compare_with() -> None:
    async def story(members: Members) -> None:
        assert members[1].seat.clock_off_ms == 0

    Members(1, skews_ms={1: 70_000}).run(story)


def test_a_comparison_of_clocks_counts_for_its_time_and_is_then_not_known() -> None:
    async def story(members: Members) -> None:
        await asyncio.sleep(3 * BEAT_S)
        members.loop.pause(members[1].process)
        await asyncio.sleep(HOLDS_MS / 1_000 - 2 * BEAT_S)
        assert members[2].seat.clock_off_ms is not None
        await asyncio.sleep(4 * BEAT_S)
        assert members[2].seat.clock_off_ms is None

    Members(timings=DEAF).run(story)


def test_a_broker_that_no_controller_has_asked_knows_nothing_of_its_clock() -> None:
    async def story(members: Members) -> None:
        members.start(2)
        await members.until(members[2].registration.in_force)
        assert members[2].seat.clock_off_ms is None
        await members.until(lambda: members[2].seat.clock_off_ms is not None, 2 * BEAT_S + SOON_S)

    Members(1, 2).run(story, start=[1])


# -- what it writes -----------------------------------------------------------------------------------------


def test_partitions_of_a_broker_that_is_fenced_get_other_leaders() -> None:
    async def story(members: Members) -> None:
        for number in range(130):
            members.put_topic(led_by(3 if number % 2 else 2), topic_id=numbered(number))
        await asyncio.sleep(SOON_S)
        members.kill(3)
        everywhere = [numbered(number) for number in range(130)]
        await members.until(
            lambda: all(members.partition(identifier).leader != 3 for identifier in everywhere), 1
        )
        after = [members.partition(identifier) for identifier in everywhere]
        assert all(3 not in identifier.in_sync and identifier.leader in (1, 2) for identifier in after)
        assert {identifier.leader_epoch for identifier in after[1::2]} == {6}
        assert {identifier.leader_epoch for identifier in after[::2]} == {5}, "their leader stays"

    Members().run(story)


def test_a_partition_without_a_leader_gets_one_as_soon_as_a_replica_is_there() -> None:
    async def story(members: Members) -> None:
        members.put_topic(led_by(NO_BROKER, (2,), leader_epoch=5))
        await asyncio.sleep(SOON_S)
        assert members.partition().leader == NO_BROKER
        members.start(2)
        await members.until(lambda: members.partition().leader == 2, 5)

    Members(1, 2).run(story, start=[1])


class Moving:
    """A store in which a topic's block changes just before many blocks are written in one transaction."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.key = model.block_key(numbered(1), 0)
        self.times = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        blocks = [change for change in changes if change.key.startswith("/partitions/")]
        if self.times and len(blocks) > 1 and any(change.key == self.key for change in blocks):
            self.times -= 1
            before = (await self._store.range(self.key)).items[0]
            record = model.decode_block(before.value)[0].changed(log_start=77)
            assert (await self._store.txn((), (Put(self.key, model.encode_block({0: record})),))).succeeded
        return await self._store.txn(compares, changes)  # type: ignore[no-any-return]


def test_a_block_that_moved_meanwhile_keeps_none_of_the_others_from_being_written() -> None:
    async def story(members: Members) -> None:
        for number in range(3):
            members.put_topic(led_by(2), topic_id=numbered(number))
        await asyncio.sleep(SOON_S)
        members.kill(2)
        await members.until(lambda: all(members.partition(numbered(n)).leader != 2 for n in range(3)), 2)
        assert members.partition(numbered(1)).log_start == 77, "nothing was written over"

    Members(wrapped=Moving).run(story)


def test_a_controller_that_does_not_reach_the_store_for_a_while_acts_when_it_does() -> None:
    async def story(members: Members) -> None:
        members.put_topic(led_by(3))
        await asyncio.sleep(SOON_S)
        members.store.cut("h1")
        members.kill(3)
        await asyncio.sleep(5)
        assert members.partition().leader == 3 and members.alive(3)
        members.store.heal("h1")
        await members.until(lambda: members.partition().leader == 1, 10)
        assert not members.alive(3) and members.seated == [1]

    Members().run(story)


def test_a_controller_that_lost_the_seat_without_hearing_of_it_writes_nothing() -> None:
    async def story(members: Members) -> None:
        members.put_topic(led_by(3))
        await asyncio.sleep(SOON_S)
        record = broker_records.ControllerRecord(broker_id=BrokerId(2), incarnation="other")
        members.loop.pause(members[2].process)
        members.store.faults.watch_delayed_chance, members.store.faults.watch_delay_ms = 1.0, 2_000.0
        members.store.apply_txn((), (Put(broker_records.CONTROLLER_KEY, record.encode()),))
        members.kill(3)
        await asyncio.sleep(1)
        assert members.alive(3) and members[1].stats.fences == 0

    Members().run(story)


# -- planned moves ------------------------------------------------------------------------------------------


def test_a_leader_that_others_prefer_is_asked_to_hand_over_once_it_was_steady() -> None:
    async def story(members: Members) -> None:
        members.put_topic(led_by(2))
        began_s = members.loop.time()
        members[1].answering.clear()
        await members.until(lambda: bool(members[1].asked))
        assert members.loop.time() - began_s >= STEADY_MS / 1_000
        ((move,),) = members[1].asked
        assert (move.leader, move.leader_epoch, move.to) == (2, 5, 1)
        await asyncio.sleep(STEADY_MS / 1_000)
        assert len(members[1].asked) == 1, "leaders are asked one time after the other"
        members[1].answering.set()
        await members.until(lambda: len(members[1].asked) > 1, 5)
        assert members[2].asked == [] and members[3].asked == []

    Members().run(story)


def test_a_broker_whose_clock_is_far_off_is_not_to_lead() -> None:
    async def story(members: Members) -> None:
        members.put_topic(led_by(3, replicas=(3, 1, 2)))
        await members.until(lambda: bool(members[1].asked), 4)
        ((move,), *_) = members[1].asked
        assert (move.leader, move.to) == (3, 1)

    Members(skews_ms={3: 2 * FAR_OFF_MS}).run(story)


def test_a_controller_that_ends_gives_up_its_questions_and_its_beats() -> None:
    async def story(members: Members) -> None:
        members.put_topic(led_by(2))
        members[1].answering.clear()
        await members.until(lambda: bool(members[1].asked))
        assert members[1].life is not None
        members[1].life.cancel()
        assert await members.until(lambda: members.controller == 2) < STEP_S, "its streams have ended"
        assert members[1].given_up == 1

    Members().run(story)


# -- one look -----------------------------------------------------------------------------------------------


def leaderless(count: int) -> Store:
    """So many partitions, each of which needs another leader."""
    store = Store((1, 2, 3))
    changes: list[Change] = [Delete(broker_records.live_key(3))]
    for topic_id in map(numbered, range(count)):
        topic = TopicRecord(
            topic_id=topic_id, tenant=TENANT, name=topic_id.hex(), partitions=1, settings=SETTINGS
        )
        changes.append(Put(model.topic_key(topic_id), topic.encode()))
        changes.append(Put(model.block_key(topic_id, 0), model.encode_block({0: led_by(3)})))
    assert store.txn((), changes)
    return store


def test_of_many_writes_a_thousand_are_planned_at_once_and_the_rest_next_time() -> None:
    async def story() -> None:
        store, changed = leaderless(2 * LOOKED_A_TURN + 200), ChangedBlocks()
        writes = [len(await planned(store.image, changed)) for _ in range(3)]
        assert writes == [2 * LOOKED_A_TURN, 200, 0]

    asyncio.run(story())


def test_all_that_is_planned_at_once_is_of_one_revision() -> None:
    async def story() -> None:
        store, changed = leaderless(LOOKED_A_TURN + 100), ChangedBlocks()

        async def meddle() -> None:
            store.put(model.tenant_key(TENANT), model.TenantRecord(tenant=TENANT).encode())

        meddling = asyncio.create_task(meddle())
        assert len(await planned(store.image, changed)) == LOOKED_A_TURN
        await meddling
        assert len(await planned(store.image, changed)) == 100

    asyncio.run(story())
