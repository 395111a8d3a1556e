"""Losses that an operator declares, call by call: what is refused, what is shown before it is accepted, and what holds
after it.
"""

from typing import Any

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.log.outcomes import DamagedRange
from data_plane.metadata.losses import LossKind
from data_plane.metadata.port import OutcomeUnknown, StoreUnavailable
from data_plane.testkit.cluster import TENANT, SimBroker
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicPartition
from tests.simulation.test_cuts import METERED, Period, topic

OPERATOR = "ops@example.com"
NO_LEADER = -1


async def declared(
    period: Period,
    asked: SimBroker,
    where: TopicPartition,
    *,
    broker: int | None = None,
    accept: bool = False,
) -> pb.DeclareLossResponse:
    request = pb.DeclareLossRequest(
        topic_id=where.topic_id, partition=where.partition, accept_loss=accept, asked_by=OPERATOR
    )
    if broker is not None:
        request.broker = broker
    answer = await period._call(asked, methods.DECLARE_LOSS, request.SerializeToString())
    return pb.DeclareLossResponse.FromString(answer)


def record_at(period: Period, asked: SimBroker, where: TopicPartition) -> Any:
    assert asked.node is not None
    record = asked.node.view.image.partition(where)
    assert record is not None
    return record


async def one_left_behind(period: Period, where: TopicPartition) -> tuple[SimBroker, list[SimBroker]]:
    """The only broker that runs holds ten messages of fifteen; the others are down. Ten are there before."""
    leader, behind = period.led_by(where)
    await period.until("it holds ten", lambda: period.replica_of(behind, where).log.log_end_offset == 10)
    # Cut off, not paused: a paused one still takes what waits in its sockets when it goes on.
    period.cluster.isolate(behind)
    await period.until(
        "it is out of sync", lambda: behind.broker_id not in record_at(period, leader, where).in_sync
    )
    await period.produce("orders", 5)
    others = [broker for broker in period.cluster.brokers if broker is not behind]
    for broker in others:
        period.cluster.kill(broker)
    period.cluster.rejoin(behind)
    await period.until(
        "it is back and nobody leads",
        lambda: behind.ready and record_at(period, behind, where).leader == NO_LEADER,
    )
    return behind, others


class Doubtful:
    """A metadata store whose next transactions are not answered: `applied` tells whether they hold all the same."""

    def __init__(self, store: Any, *, applied: list[bool]) -> None:
        self._store = store
        self.applied = applied

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def txn(self, compares: Any, changes: Any) -> Any:
        if not self.applied:
            return await self._store.txn(compares, changes)
        if self.applied.pop(0):
            await self._store.txn(compares, changes)
        raise OutcomeUnknown


class Silent(Doubtful):
    """Does not take the next transactions, for certain."""

    async def txn(self, compares: Any, changes: Any) -> Any:
        if self.applied:
            self.applied.pop()
            raise StoreUnavailable
        return await self._store.txn(compares, changes)


def test_an_operator_sees_what_is_lost_before_a_replica_leads_and_then_all_goes_on() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 10)
        leader, other = period.led_by(where)
        led = await declared(period, other, where, broker=other.broker_id)
        assert led.outcome.error == ErrorCode.INVALID_REQUEST
        assert f"broker {leader.broker_id} leads it" in led.outcome.message
        whole = await declared(period, other, where)
        assert "are in sync" in whole.outcome.message
        nowhere = await declared(period, other, TopicPartition(where.topic_id, 7), broker=0)
        assert nowhere.outcome.error == ErrorCode.NOT_FOUND
        behind, others = await one_left_behind(period, where)
        end = period.replica_of(behind, where).log.log_end_offset
        assert end == 10
        before = record_at(period, behind, where)
        unnamed = await declared(period, behind, where)
        assert unnamed.outcome.error == ErrorCode.INVALID_REQUEST
        assert "it has no leader" in unnamed.outcome.message
        foreign = await declared(period, behind, where, broker=9)
        assert foreign.outcome.error == ErrorCode.INVALID_REQUEST
        assert "holds no replica" in foreign.outcome.message
        down = await declared(period, behind, where, broker=others[0].broker_id)
        assert down.outcome.error == ErrorCode.BROKER_UNAVAILABLE
        assert "does not tell what its replica holds" in down.outcome.message
        shown = await declared(period, behind, where, broker=behind.broker_id)
        assert (shown.outcome.error, shown.declared) == (0, False)
        assert record_at(period, behind, where) == before
        given = await declared(period, behind, where, broker=behind.broker_id, accept=True)
        assert (given.outcome.error, given.declared) == (0, True)
        for told in (shown.loss, given.loss):
            assert (told.tenant, told.topic, told.topic_id) == (TENANT, "orders", where.topic_id)
            assert (told.kind, told.log_generation) == (LossKind.FORCED.value, before.log_generation + 1)
            assert (told.leader, told.leader_epoch) == (behind.broker_id, before.leader_epoch + 1)
            assert (told.offset, told.known_end_offset, told.asked_by) == (10, 10, OPERATOR)
        after = record_at(period, behind, where)
        assert (after.leader, after.log_generation) == (behind.broker_id, before.log_generation + 1)
        again = await declared(period, behind, where, broker=behind.broker_id, accept=True)
        assert again.outcome.error == ErrorCode.INVALID_REQUEST
        for broker in others:
            period.cluster.start(broker)
        await period.until("all are in sync", lambda: len(record_at(period, behind, where).in_sync) == 3)
        await period.produce("orders", 3)
        period.begin("cut_1")
        assert await period.answered(behind) == {("orders", 0): (13, 13, False)}

    Period(METERED, topic("orders")).run(story)


def test_the_only_copy_goes_on_after_its_damage_is_declared_lost() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 10)
        leader, other = period.led_by(where)
        whole = await declared(period, other, where, accept=True)
        assert whole.outcome.error == ErrorCode.INVALID_REQUEST
        assert "nothing of it is known to be damaged" in whole.outcome.message
        replica = period.replica_of(leader, where)
        damage = DamagedRange(4, 6, "spoilt")
        replica.log.scrub.found_damage(damage)
        replica.found_damage(str(damage))
        shown = await declared(period, other, where)
        assert (shown.outcome.error, shown.declared) == (0, False)
        assert record_at(period, other, where).log_generation == 1
        given = await declared(period, other, where, accept=True)
        assert given.declared
        assert (given.loss.kind, given.loss.offset) == (LossKind.REPAIR.value, 4)
        assert (given.loss.known_end_offset, given.loss.leader) == (10, leader.broker_id)
        await period.produce("orders", 3)
        period.begin("cut_1")
        assert await period.answered(other) == {("orders", 0): (7, 7, False)}

    Period(METERED, topic("orders", replication=1)).run(story)


def test_a_loss_of_which_nobody_can_say_whether_it_holds_is_told_so() -> None:
    async def story(period: Period) -> None:
        where = period.where("orders")
        await period.produce("orders", 10)
        behind, _ = await one_left_behind(period, where)
        losses: Any = behind.node and behind.node.control.losses
        store = losses._store
        losses._store = Silent(store, applied=[True] * 20)
        silent = await declared(period, behind, where, broker=behind.broker_id, accept=True)
        assert (silent.outcome.error, silent.declared) == (ErrorCode.BROKER_UNAVAILABLE, False)
        losses._store = Doubtful(store, applied=[False] * 20)
        unknown = await declared(period, behind, where, broker=behind.broker_id, accept=True)
        assert (unknown.outcome.error, unknown.declared) == (ErrorCode.OUTCOME_UNKNOWN, False)
        assert record_at(period, behind, where).log_generation == 1
        losses._store = Doubtful(store, applied=[False, True])
        given = await declared(period, behind, where, broker=behind.broker_id, accept=True)
        assert (given.outcome.error, given.declared) == (0, True)
        assert given.loss.log_generation == record_at(period, behind, where).log_generation == 2

    Period(METERED, topic("orders")).run(story)
