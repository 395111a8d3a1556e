"""Losses that brokers declare: of what they are asked, who is let lead with what it has, and what an operator hears."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from data_plane.contract import admin_pb2
from data_plane.contract import replication_pb2 as pb
from data_plane.contract.methods import REPLICA_ENDS
from data_plane.log.outcomes import DamagedRange
from data_plane.metadata import broker_records
from data_plane.metadata.losses import LossKind, LossRecord
from data_plane.metadata.model import PartitionRecord
from data_plane.metadata.port import Change, Compare, Delete, OutcomeUnknown, StoreUnavailable, TxnResult
from data_plane.node.control import declared_losses
from data_plane.node.control.declared_losses import DeclaredLosses
from data_plane.node.ports import CallFailed
from data_plane.node.replicas.replica import Replica
from data_plane.testkit.clock import EPOCH_MS
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import NO_BROKER, BrokerId, TopicPartition
from tests.unit.log.miniature import TOPIC, Miniature, where
from tests.unit.node.control.members import LONG_S, PATIENT, SOON_S, Members, led_by
from tests.unit.node.replicas.test_follower_stream import led
from tests.unit.node.replicas.uncommitted import write
from tests.unit.node.storage import CALLER

OPERATOR = "ops@example.com"


class Losing(Members):
    """A topic whose partitions no broker leads; each broker has logs that end where a test says, and rests."""

    def __init__(self, ends: Sequence[dict[int, int]] = ({2: 4, 3: 6},), **options: Any) -> None:
        """`ends`: for each partition the end of the log by broker."""
        super().__init__(**options)
        self._ends = ends
        self.replicas: dict[tuple[int, int], Replica] = {}
        """Keyed by broker and partition."""
        self.announced: list[tuple[int, TopicPartition, LossRecord]] = []
        """With the broker that declared it."""
        self.losses: dict[int, DeclaredLosses] = {}

    def play(self, story: Callable[["Losing"], Any], *, start: Sequence[int] | None = None) -> None:
        async def whole(members: Members) -> None:
            for number in self.numbers:
                self._equip(number)
            self.put_topic(
                *(
                    led_by(NO_BROKER, (), partition=n, last_known=tuple(ends))
                    for n, ends in enumerate(self._ends)
                ),
                topic_id=TOPIC,
            )
            await asyncio.sleep(SOON_S)
            await story(self)

        self.run(whole, start=start)

    def _equip(self, number: int) -> None:
        member, storage = self[number], Miniature()
        for partition, ends in enumerate(self._ends):
            if number in ends:
                replica = led(storage, partition=partition)
                for _ in range(ends[number] // 2):
                    write(replica)
                storage.commit(raise_watermark=False)
                replica.became_durable()
                replica.rest()
                self.replicas[number, partition] = replica
        losses = self.losses[number] = DeclaredLosses(
            member.config, member.view, member.registration, member.store, member.transport, member.clock,
            member.stats,
            find=partial(self._find, number),
            seated=lambda: member.seat.seated,
            announce=lambda where_lost, loss: self.announced.append((number, where_lost, loss)),
        )  # fmt: skip
        member.calls[REPLICA_ENDS] = losses.replica_ends

    def _find(self, number: int, topic_partition: TopicPartition) -> Replica | None:
        ours = topic_partition.topic_id == TOPIC
        return self.replicas.get((number, topic_partition.partition)) if ours else None

    def elect(self) -> None:
        """Every broker does its part of it from now on, which is the controller's."""
        for number, losses in self.losses.items():
            self.loop.spawn(self[number].process, losses.run(), name="losses")

    def record(self, number: int = 0) -> PartitionRecord:
        return self.partition(TOPIC, number)

    @property
    def leaders(self) -> list[int]:
        return [self.record(number).leader for number in range(len(self._ends))]

    @property
    def declared(self) -> int:
        """How many losses are on record."""
        return len(self.store.snapshot("/losses/").items)

    async def asked(
        self, number: int = 2, *, partition: int = 0, **fields: Any
    ) -> admin_pb2.DeclareLossResponse:
        """An operator's demand, and the answer of that broker."""
        request = admin_pb2.DeclareLossRequest(
            topic_id=TOPIC, partition=partition, asked_by=OPERATOR, **fields
        )
        answer = await self.losses[number].declare_loss(CALLER, request.SerializeToString())
        return admin_pb2.DeclareLossResponse.FromString(answer)

    def spoil(self, number: int, first_offset: int) -> None:
        replica = self.replicas[number, 0]
        damage = DamagedRange(first_offset, first_offset + 2, "spoilt")
        replica.log.scrub.found_damage(damage)
        replica.found_damage(str(damage))


# -- the controller -----------------------------------------------------------------------------------------


def test_the_controller_lets_those_lead_whose_logs_go_furthest_and_records_what_it_knew() -> None:
    async def story(losing: Losing) -> None:
        losing.elect()
        await losing.until(lambda: NO_BROKER not in losing.leaders)
        assert losing.leaders == [3, 2, 1]
        assert [number for number, _, _ in losing.announced] == [1, 1, 1] and losing.declared == 3
        assert [losing[number].stats.declared_losses for number in losing.numbers] == [3, 0, 0]
        after = losing.record()
        assert (after.in_sync, after.last_known, after.log_generation) == ((3,), (), 2)
        by_partition = {topic_partition.partition: loss for _, topic_partition, loss in losing.announced}
        loss = by_partition[0]
        assert (loss.kind, loss.leader, loss.offset, loss.known_end_offset) == (LossKind.LONGEST, 3, 6, 6)
        assert loss.ends == ((2, 1, 4), (3, 1, 6)) and loss.last_known == (2, 3)
        assert (loss.asked_by, loss.declared_ms > EPOCH_MS) == ("", True)

    Losing(({2: 4, 3: 6}, {2: 8, 3: 2}, {1: 2})).play(story)


def test_who_is_not_the_controller_elects_no_one() -> None:
    async def story(losing: Losing) -> None:
        for number in (2, 3):
            losing.loop.spawn(losing[number].process, losing.losses[number].run(), name="losses")
        await asyncio.sleep(5)
        assert losing.leaders == [NO_BROKER] and not losing.announced
        losing.kill(1)
        await losing.until(lambda: losing.leaders == [3], 3)

    Losing().play(story)


@pytest.mark.parametrize("why", ["silent", "busy", "follows", "damaged"])
def test_no_one_leads_before_every_last_known_replica_has_said_what_it_holds_and_others_are_elected(
    why: str,
) -> None:
    async def story(losing: Losing) -> None:
        replica = losing.replicas[3, 0]
        if why == "silent":
            losing.loop.pause(losing[3].process)
        elif why == "busy":
            replica.busy = True
        elif why == "follows":
            replica.follow(led_by(1))
        else:
            losing.spoil(3, 4)
        losing.elect()
        await asyncio.sleep(5)
        assert losing.leaders == [NO_BROKER, 2] and losing.declared == 1
        if why == "damaged":
            return
        losing.loop.resume(losing[3].process)
        replica.busy = False
        replica.rest()
        await losing.until(lambda: losing.leaders == [3, 2], 5)

    timings = PATIENT if why != "silent" else replace(PATIENT, suspicion_ms=LONG_S * 1_000, call_ms=300)
    Losing(({2: 4, 3: 6}, {2: 2}), timings=timings).play(story)


def test_a_partition_that_waits_for_a_broker_keeps_no_other_one_from_a_leader() -> None:
    async def story(losing: Losing) -> None:
        losing.elect()
        await losing.until(lambda: losing.leaders == [NO_BROKER, 2], 3)
        losing.start(3)
        await losing.until(lambda: losing.leaders == [3, 2], 5)

    Losing(({2: 4, 3: 6}, {2: 2})).play(story, start=[1, 2])


class Faulty:
    """A store whose next transactions about partitions fail as `failures` says, with `meddle` done before."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.failures: list[Exception | None] = []
        self.applies = False
        """A transaction that fails is applied all the same."""
        self.meddle: Change | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        if not any(change.key.startswith("/partitions/") for change in changes):
            return await self._store.txn(compares, changes)  # type: ignore[no-any-return]
        if self.meddle is not None:
            await self._store.txn((), (self.meddle,))
            self.meddle = None
        failure = self.failures.pop(0) if self.failures else None
        if failure is None:
            return await self._store.txn(compares, changes)  # type: ignore[no-any-return]
        if self.applies:
            await self._store.txn(compares, changes)
        raise failure


def store_of(losing: Losing, number: int) -> Faulty:
    store: Any = losing[number].store
    assert isinstance(store, Faulty)
    return store


@pytest.mark.pure
def test_many_partitions_that_wait_for_ever_keep_no_later_one_from_a_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Broker 3 has lost its replicas of the first three of five partitions; two are asked about at once."""
    monkeypatch.setattr(declared_losses, "_PARTITIONS_PER_CALL", 2)

    async def story(losing: Losing) -> None:
        for number in range(3):
            del losing.replicas[3, number]
        losing.elect()
        await losing.until(lambda: losing.leaders == [NO_BROKER, NO_BROKER, NO_BROKER, 3, 3], 10)

    Losing([{2: 4, 3: 6}] * 5).play(story)


def test_a_broker_that_was_fenced_since_it_answered_does_not_lead_by_that_answer() -> None:
    async def story(losing: Losing) -> None:
        epoch = losing[3].registration.epoch
        store_of(losing, 1).meddle = Delete(broker_records.live_key(3))
        losing.elect()
        await losing.until(lambda: losing.leaders == [3], 5)
        assert losing[3].registration.epoch > epoch and losing.declared == len(losing.announced) == 1

    Losing(wrapped=Faulty).play(story)


def test_a_controller_that_lost_its_seat_meanwhile_declares_nothing() -> None:
    async def story(losing: Losing) -> None:
        losing.loop.pause(losing[2].process)
        store_of(losing, 1).meddle = Delete(broker_records.CONTROLLER_KEY)
        losing.loop.spawn(losing[1].process, losing.losses[1].run(), name="losses")
        await losing.until(lambda: store_of(losing, 1).meddle is None)
        assert losing.declared == 0
        await losing.until(lambda: losing.leaders == [1], 5)
        assert losing.declared == 1, "by its next seat"

    Losing(({1: 2},), wrapped=Faulty).play(story)


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), OutcomeUnknown("lost")])
def test_a_store_that_fails_the_controller_is_asked_again(failure: Exception) -> None:
    async def story(losing: Losing) -> None:
        store_of(losing, 1).failures = [failure] * 3
        losing.elect()
        await losing.until(lambda: losing.leaders == [3], 5)
        assert losing.declared == 1

    Losing(wrapped=Faulty).play(story)


# -- what replicas hold -------------------------------------------------------------------------------------


def test_a_broker_tells_where_its_resting_replicas_end_and_where_they_are_whole() -> None:
    async def story(losing: Losing) -> None:
        losing.spoil(2, 4)
        losing.replicas[2, 2].busy = True
        losing.replicas[2, 3].follow(led_by(1))
        asked_for = [pb.EndOfReplica(topic_id=TOPIC, partition=number) for number in (1, 0, 2, 3, 9)]
        request = pb.ReplicaEndsRequest(revision=losing[2].view.image.revision, partitions=asked_for)
        answer = await losing.losses[2].replica_ends(CALLER, request.SerializeToString())
        response = pb.ReplicaEndsResponse.FromString(answer)
        assert response.broker_epoch == losing[2].registration.epoch
        ends = [
            (
                end.topic_id,
                end.partition,
                end.last_epoch,
                end.log_end_offset,
                end.sound_end_offset,
                bool(end.damage),
            )
            for end in response.ends
        ]
        assert ends == [(TOPIC, 1, 1, 4, 4, False), (TOPIC, 0, 1, 8, 4, True)]

    Losing(({2: 8}, {2: 4}, {2: 2}, {2: 2})).play(story)


def test_a_broker_that_is_behind_the_asker_says_so_after_waiting_for_the_metadata() -> None:
    async def story(losing: Losing) -> None:
        revision, began_s = losing[2].view.image.revision + 1, losing.loop.time()
        request = pb.ReplicaEndsRequest(revision=revision).SerializeToString()
        with pytest.raises(
            CallFailed, match=f"at revision {revision - 1}, {revision} was asked for"
        ) as refused:
            await losing.losses[2].replica_ends(CALLER, request)
        assert refused.value.code == ErrorCode.BROKER_UNAVAILABLE
        assert losing.loop.time() - began_s >= PATIENT.call_ms / 1_000

    Losing().play(story)


# -- operators ----------------------------------------------------------------------------------------------


def test_an_operator_sees_a_loss_before_it_is_declared_and_then_declares_that_one() -> None:
    async def story(losing: Losing) -> None:
        before, revision = losing.record(), losing.store.revision
        shown = await losing.asked(broker=2)
        assert (shown.outcome.error, shown.declared, losing.record()) == (0, False, before)
        assert shown.outcome.revision == losing.store.revision == revision
        declared = await losing.asked(broker=2, accept_loss=True)
        assert (declared.outcome.error, declared.declared) == (0, True)
        assert declared.outcome.revision == losing.store.revision > revision
        for loss in (shown.loss, declared.loss):
            assert (loss.tenant, loss.topic_id, loss.partition) == ("tn_a", TOPIC, 0)
            assert (loss.kind, loss.log_generation, loss.leader) == (LossKind.FORCED, 2, 2)
            assert (loss.leader_epoch, loss.offset, loss.known_end_offset) == (6, 4, 4)
            assert loss.asked_by == OPERATOR and loss.topic and loss.declared_ms > EPOCH_MS
        assert losing.leaders == [2] and losing.declared == 1
        ((number, topic_partition, told),) = losing.announced
        assert (number, topic_partition, told.offset) == (2, where(), 4) and losing[
            2
        ].stats.declared_losses == 1

    Losing().play(story)


def refused(response: admin_pb2.DeclareLossResponse) -> tuple[int, str]:
    assert not response.declared and response.outcome.revision == 0
    return response.outcome.error, response.outcome.message


def test_an_operator_hears_why_a_replica_may_not_lead() -> None:
    async def story(losing: Losing) -> None:
        code, text = refused(await losing.asked(partition=7, broker=2))
        assert code == ErrorCode.NOT_FOUND and "does not exist" in text
        code, text = refused(await losing.asked())
        assert code == ErrorCode.INVALID_REQUEST and "it has no leader; name the broker" in text
        code, text = refused(await losing.asked(broker=9, accept_loss=True))
        assert code == ErrorCode.INVALID_REQUEST and "broker 9 holds no replica" in text
        code, text = refused(await losing.asked(broker=1, accept_loss=True))
        assert (
            code == ErrorCode.BROKER_UNAVAILABLE and "broker 1 does not tell what its replica holds" in text
        )
        losing.loop.pause(losing[3].process)
        began_s = losing.loop.time()
        code, text = refused(await losing.asked(broker=3, accept_loss=True))
        assert code == ErrorCode.BROKER_UNAVAILABLE and "broker 3 does not tell" in text
        assert losing.loop.time() - began_s < 2 * PATIENT.call_ms / 1_000
        assert losing.declared == 0

    Losing().play(story)


def lead(losing: Losing, number: int, in_sync: Sequence[int]) -> None:
    losing.put_topic(led_by(number, tuple(map(BrokerId, in_sync))), topic_id=TOPIC)


def test_what_is_led_is_not_given_to_another_and_is_repaired_only_where_it_is_damaged() -> None:
    async def story(losing: Losing) -> None:
        lead(losing, 3, [3])
        await asyncio.sleep(SOON_S)
        code, text = refused(await losing.asked(broker=2, accept_loss=True))
        assert code == ErrorCode.INVALID_REQUEST and "broker 3 leads it" in text
        code, text = refused(await losing.asked(accept_loss=True))
        assert code == ErrorCode.INVALID_REQUEST and "nothing of it is known to be damaged" in text
        losing.spoil(3, 2)
        shown = await losing.asked()
        assert (shown.loss.kind, shown.loss.offset, shown.declared) == (LossKind.REPAIR, 2, False)
        lead(losing, 3, [2, 3])
        await asyncio.sleep(SOON_S)
        code, text = refused(await losing.asked(accept_loss=True))
        assert code == ErrorCode.INVALID_REQUEST and "are in sync" in text
        lead(losing, 3, [3])
        await asyncio.sleep(SOON_S)
        declared = await losing.asked(accept_loss=True)
        assert declared.declared and (declared.loss.offset, declared.loss.known_end_offset) == (2, 6)
        assert losing.record().log_generation == 2

    Losing().play(story)


def test_a_repair_needs_the_leaders_answer() -> None:
    async def story(losing: Losing) -> None:
        lead(losing, 3, [3])
        await asyncio.sleep(SOON_S)
        losing.replicas[3, 0].busy = True
        code, text = refused(await losing.asked(accept_loss=True))
        assert code == ErrorCode.BROKER_UNAVAILABLE and "its leader, broker 3, does not answer" in text

    Losing().play(story)


@pytest.mark.parametrize("applies", [True, False])
def test_a_loss_whose_outcome_was_unknown_is_declared_one_time(applies: bool) -> None:
    async def story(losing: Losing) -> None:
        store = store_of(losing, 2)
        store.failures, store.applies = [OutcomeUnknown("lost")], applies
        declared = await losing.asked(broker=2, accept_loss=True)
        assert (declared.outcome.error, declared.declared, declared.loss.log_generation) == (0, True, 2)
        assert declared.outcome.revision == losing.store.revision
        assert losing.declared == 1 and losing.record().log_generation == 2

    Losing(wrapped=Faulty).play(story)


@pytest.mark.parametrize(
    ("failures", "code", "text"),
    [
        ([StoreUnavailable("away")] * 30, ErrorCode.BROKER_UNAVAILABLE, "the metadata store does not answer"),
        (
            [OutcomeUnknown("lost"), *[StoreUnavailable("away")] * 30],
            ErrorCode.OUTCOME_UNKNOWN,
            "the loss may or may not have been declared; describe the partition",
        ),
    ],
    ids=["for certain", "perhaps"],
)
def test_an_operator_hears_whether_nothing_was_declared_or_that_it_is_unknown(
    failures: list[Exception | None], code: ErrorCode, text: str
) -> None:
    async def story(losing: Losing) -> None:
        store_of(losing, 2).failures = list(failures)
        answer = await losing.asked(broker=2, accept_loss=True)
        assert (answer.outcome.error, answer.outcome.message, answer.declared) == (code, text, False)
        assert len(store_of(losing, 2).failures) == len(failures) - 20

    Losing(wrapped=Faulty).play(story)


def test_a_store_that_was_away_for_a_moment_is_asked_again() -> None:
    async def story(losing: Losing) -> None:
        store_of(losing, 2).failures = [StoreUnavailable("away")] * 19
        assert (await losing.asked(broker=2, accept_loss=True)).declared

    Losing(wrapped=Faulty).play(story)
