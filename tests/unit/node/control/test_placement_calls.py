"""Operators' calls about where partitions are: each arrives whole, and says why when nothing moves."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from google.protobuf.message import Message

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.metadata.features import HIGHEST
from data_plane.node.control.admin_calls import AdminCalls
from data_plane.node.control.placement_calls import PlacementCalls
from data_plane.testkit.rng import SimRng
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import NO_BROKER, BrokerId, TopicPartition
from tests.unit.log.miniature import TOPIC, where
from tests.unit.node.control.members import PATIENT, SOON_S, Members
from tests.unit.node.replicas.test_follower_stream import FOLLOWER, ME, OTHER
from tests.unit.node.storage import CALLER

from .test_handover import Leading, holds

Answer = TypeVar("Answer", bound=Message)


class Placing(Leading):
    """Operators ask each of these brokers. Broker 1 leads the topic, in sync with broker 3."""

    def play(self, story: Callable[["Placing"], Any], **options: Any) -> None:
        self.placing: dict[int, PlacementCalls] = {}

        async def whole(members: Members) -> None:
            for number in self.numbers:
                member = self[number]
                admin = AdminCalls(member.config, member.view, member.store, SimRng(number))
                calls = self.placing[number] = PlacementCalls(
                    member.config,
                    member.view,
                    admin,
                    member.replicas,
                    member.handover,
                    member.transport,
                    member.clock,
                )
                member.calls[methods.DESCRIBE_MOVES] = calls.describe_moves
            self.lead()
            await asyncio.sleep(SOON_S)
            await story(self)

        self.run(whole, **options)

    async def ask(self, name: str, request: Message, kind: type[Answer], number: int = 2) -> Answer:
        call = getattr(self.placing[number], name)
        return kind.FromString(await call(CALLER, request.SerializeToString()))

    async def outcome(self, name: str, request: Message, number: int = 2) -> tuple[int, str]:
        answer = await self.ask(name, request, pb.Outcome, number)
        assert (answer.revision > 0) is not bool(answer.error)
        return answer.error, answer.message

    async def move(self, to: int, *, number: int = 2, partition: int = 0) -> tuple[int, str]:
        request = pb.MoveLeaderRequest(topic_id=TOPIC, partition=partition, broker=to)
        return await self.outcome("move_leader", request, number)

    async def moves(self, number: int = 2, **fields: Any) -> list[pb.DescribedMove]:
        request = pb.DescribeMovesRequest(**fields)
        return list((await self.ask("describe_moves", request, pb.DescribeMovesResponse, number)).moves)


# -- leaders ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2], ids=["at the leader", "elsewhere"])
def test_a_leader_is_moved_whoever_is_asked(number: int) -> None:
    async def story(placing: Placing) -> None:
        assert await placing.move(ME, number=number) == (0, ""), "it is there already"
        assert placing.record().leader_epoch == 1
        assert await placing.move(OTHER, number=number) == (0, "")
        assert placing.record().leader == OTHER
        assert await placing.move(OTHER, number=number) == (0, "")

    Placing().play(story)


def test_a_leader_that_stays_is_told_with_the_reason() -> None:
    async def story(placing: Placing) -> None:
        code, text = await placing.move(FOLLOWER)
        assert code == ErrorCode.BROKER_UNAVAILABLE
        assert text.endswith("-0: its leader stays: broker 2 is no other in-sync replica that is alive")
        code, text = await placing.move(OTHER, partition=9)
        assert code == ErrorCode.NOT_FOUND and text.endswith("does not exist")
        placing.loop.pause(placing[1].process)
        code, text = await placing.move(OTHER)
        assert code == ErrorCode.BROKER_UNAVAILABLE and "-0: its leader, broker 1, does not answer: " in text
        placing.become(leader=NO_BROKER, in_sync=(), last_known=(ME,))
        await asyncio.sleep(SOON_S)
        code, text = await placing.move(OTHER)
        assert code == ErrorCode.BROKER_UNAVAILABLE and text.endswith("-0: it has no leader now")

    Placing().play(story)


# -- replicas -----------------------------------------------------------------------------------------------


def altered(*replicas: int, cancel: bool = False, partition: int = 0) -> pb.AlterReplicasRequest:
    return pb.AlterReplicasRequest(topic_id=TOPIC, partition=partition, replicas=replicas, cancel=cancel)


def test_replicas_are_to_be_others_until_that_is_called_off() -> None:
    async def story(placing: Placing) -> None:
        assert await placing.outcome("alter_replicas", altered(3, 2, 1)) == (0, "")
        assert placing.record().replicas == (3, 2, 1), "another order needs no copies"
        assert await placing.outcome("alter_replicas", altered(4, 2, 1)) == (0, "")
        record = placing.record()
        assert (record.target, record.adding) == ((4, 2, 1), (4,))
        assert placing.record(1).target == ()
        assert await placing.outcome("alter_replicas", altered(cancel=True)) == (0, "")
        assert placing.record().target == (3, 2, 1)
        code, text = await placing.outcome("alter_replicas", altered(3, 2, partition=7))
        assert code == ErrorCode.NOT_FOUND and "does not exist" in text
        code, text = await placing.outcome("alter_replicas", altered(3, 2, 8))
        assert code == ErrorCode.INVALID_REQUEST and "broker 8 is not known" in text

    Placing(2, numbers=(1, 2, 3, 4)).play(story)


def test_moves_are_described_by_any_broker_with_what_their_leaders_know_of_those_that_are_added() -> None:
    async def story(placing: Placing) -> None:
        assert await placing.moves() == []
        for number in range(2):
            for _ in range(4 - 2 * number):
                placing.write(number)
            placing.become(number, replicas=(1, 2, 3), target=(1, 2), adding=(FOLLOWER,))
            holds(placing.led[number], OTHER)
        placing.become(2, leader=OTHER, target=(1, 2), adding=(FOLLOWER,))
        await asyncio.sleep(SOON_S)
        for number in (1, 2):
            first, second, third = await placing.moves(number)
            assert (first.topic_id, first.partition, second.partition) == (TOPIC, 0, 1)
            assert (first.tenant, bool(first.topic), first.leader) == ("tn_a", True, 1)
            assert (list(first.replicas), list(first.target)) == ([1, 2, 3], [1, 2])
            assert (list(first.adding), list(first.removing), list(first.in_sync)) == ([2], [3], [1, 3])
            assert [
                (
                    copy_progress.broker,
                    copy_progress.in_sync,
                    copy_progress.offsets_left,
                    copy_progress.bytes_left,
                )
                for copy_progress in first.progress
            ] == [(2, False, -1, -1)]
            assert (third.leader, list(third.progress)) == (3, []), "its leader has nothing to tell"
        assert [move.partition for move in await placing.moves(1, local=True)] == [0, 1]
        assert await placing.moves(2, local=True) == []

    Placing(3).play(story)


def test_what_is_left_is_counted_from_where_the_added_replica_is() -> None:
    async def story(placing: Placing) -> None:
        for _ in range(4):
            placing.write()
        placing.become(target=(1, 2), adding=(FOLLOWER,))
        holds(placing.led[0], FOLLOWER, 6)
        await asyncio.sleep(SOON_S)
        ((move,), size) = await placing.moves(), placing.led[0].log.size_bytes
        (progress,) = move.progress
        assert (progress.broker, progress.in_sync, progress.offsets_left) == (2, False, 2)
        assert progress.bytes_left == size * 2 // 8
        placing.become(target=(1, 2), adding=(FOLLOWER,), in_sync=(ME, FOLLOWER, OTHER))
        holds(placing.led[0], FOLLOWER)
        await asyncio.sleep(SOON_S)
        ((progress,),) = [move.progress for move in await placing.moves()]
        assert (progress.in_sync, progress.offsets_left, progress.bytes_left) == (True, 0, 0)

    Placing().play(story)


def test_a_leader_that_is_away_leaves_its_moves_without_progress_and_keeps_nothing_else_back() -> None:
    async def story(placing: Placing) -> None:
        placing.become(target=(1, 2), adding=(FOLLOWER,))
        await asyncio.sleep(SOON_S)
        placing.loop.pause(placing[1].process)
        began_s = placing.loop.time()
        (move,) = await placing.moves()
        assert (move.leader, list(move.progress)) == (1, [])
        assert placing.loop.time() - began_s <= PATIENT.suspicion_ms / 1_000 + SOON_S
        await placing.until(lambda: not placing[2].view.image.epoch_of(ME))
        began_s = placing.loop.time()
        (move,) = await placing.moves()
        assert list(move.progress) == [] and placing.loop.time() - began_s < SOON_S

    Placing().play(story)


# -- brokers and the feature level --------------------------------------------------------------------------


def test_a_broker_is_cordoned_taken_back_and_forgotten_when_it_is_gone_and_holds_nothing() -> None:
    async def story(placing: Placing) -> None:
        def cordoned(number: int) -> bool:
            return placing[2].view.image.cordoned(BrokerId(number))

        for on, generation, after in ((True, 2, True), (False, 1, True), (False, 3, False), (True, 4, True)):
            request = pb.CordonBrokerRequest(broker=4, cordoned=on, generation=generation)
            assert not (await placing.ask("cordon_broker", request, pb.Outcome)).error
            assert cordoned(4) is after and not cordoned(3)
        code, text = await placing.outcome("cordon_broker", pb.CordonBrokerRequest(broker=9, cordoned=True))
        assert (code, text) == (ErrorCode.NOT_FOUND, "broker 9 is not known")
        code, text = await placing.outcome("forget_broker", pb.ForgetBrokerRequest(broker=4))
        assert (code, text) == (ErrorCode.INVALID_REQUEST, "broker 4: it still runs; stop it first")
        placing.kill(4)
        await placing.until(lambda: not placing[2].view.image.epoch_of(BrokerId(4)))
        assert await placing.outcome("forget_broker", pb.ForgetBrokerRequest(broker=4)) == (0, "")
        assert (
            BrokerId(4) not in placing[2].view.image.brokers and BrokerId(3) in placing[2].view.image.brokers
        )

    Placing(numbers=(1, 2, 3, 4)).play(story)


def test_a_feature_level_is_put_in_force_or_refused_and_not_without_the_newest_metadata() -> None:
    async def story(placing: Placing) -> None:
        level = pb.SetFeatureLevelRequest(level=HIGHEST)
        assert await placing.outcome("set_feature_level", level) == (0, "")
        code, text = await placing.outcome("set_feature_level", pb.SetFeatureLevelRequest(level=HIGHEST + 1))
        assert code == ErrorCode.INVALID_REQUEST and f"level {HIGHEST + 1}" in text
        placing.store.cut("h2")
        assert await placing.outcome("set_feature_level", level) == (
            ErrorCode.BROKER_UNAVAILABLE,
            "the metadata store does not answer",
        )

    Placing().play(story)


def test_a_partition_of_no_topic_is_not_moved() -> None:
    async def story(placing: Placing) -> None:
        other = TopicPartition(type(TOPIC)(b"x" * 16), 0)
        request = pb.MoveLeaderRequest(topic_id=other.topic_id, broker=OTHER)
        code, text = await placing.outcome("move_leader", request)
        assert (code, text) == (ErrorCode.NOT_FOUND, f"partition {other} does not exist")
        assert placing.record().leader == ME and where().topic_id == TOPIC

    Placing().play(story)
