"""Leadership handed over in good order, by what each move is answered: it moved, or why not, and then all goes on."""

import asyncio
from dataclasses import replace
from typing import Any

from data_plane.controller.leader_return import LeaderMove
from data_plane.metadata import model
from data_plane.testkit.cluster import SimBroker
from penstock.contract.ids import TopicPartition
from tests.simulation.test_cuts import METERED, Period, topic
from tests.simulation.test_declared_losses import Silent, record_at

SLOW = replace(
    METERED,
    session_ttl_ms=600_000,
    suspicion_ms=600_000,
    replica_lag_ms_max=600_000,
    slow_sync_ms=600_000,
    call_ms=5_000,
)
"""Whoever is silent or slow stays registered and in sync for the length of a story."""


def move_of(period: Period, where: TopicPartition, to: int, *, later: int = 0) -> LeaderMove:
    leader = period.leader(where)
    assert leader is not None
    record = record_at(period, leader, where)
    return LeaderMove(
        where=where,
        leader=leader.broker_id,
        leader_epoch=record.leader_epoch + later,
        to=period.cluster.broker(to).broker_id,
    )


async def moved(broker: SimBroker, *moves: LeaderMove) -> list[str]:
    assert broker.node is not None
    reasons = await broker.node.control.handover.ask(moves[0].leader, moves)
    return list(reasons)


async def whole(period: Period, *places: TopicPartition) -> None:
    await period.until(
        "all are in sync",
        lambda: all(len(record_at(period, period.led_by(at)[0], at).in_sync) == 3 for at in places),
    )


def test_of_moves_asked_for_together_each_is_answered_for_itself() -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 30, partitions=3)
        places = period.places()
        await whole(period, *places)
        leader, other = period.led_by(places[0])
        (third,) = [one for one in period.cluster.brokers if one not in (leader, other)]
        for place in places:
            if period.leader(place) is not leader:
                assert await moved(other, move_of(period, place, leader.broker_id)) == [""]
        for asked in (leader, other):
            assert await moved(asked, move_of(period, places[0], other.broker_id, later=1)) == [
                f"broker {leader.broker_id} does not lead it in epoch "
                f"{record_at(period, leader, places[0]).leader_epoch + 1}"
            ]
            assert await moved(asked, move_of(period, places[0], leader.broker_id)) == [
                f"broker {leader.broker_id} is no other in-sync replica that is alive"
            ]
        period.cluster.pause(third)
        assert leader.node is not None
        before = leader.node.stats.leaders_handed_over
        reasons = await moved(
            other,
            move_of(period, places[0], other.broker_id),
            move_of(period, places[1], third.broker_id),
            move_of(period, places[2], other.broker_id, later=5),
        )
        assert (reasons[0], reasons[1]) == ("", f"broker {third.broker_id} does not answer")
        assert reasons[2].startswith(f"broker {leader.broker_id} does not lead it in epoch")
        assert [period.leader(place) for place in places] == [other, leader, leader]
        assert leader.node.stats.leaders_handed_over == before + 1
        period.cluster.resume(third)
        await period.produce("orders", 30, partitions=3)

    Period(SLOW, topic("orders", 3)).run(story)


def test_what_cannot_be_handed_over_in_time_stays_and_takes_batches_again() -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 10)
        where = period.where("orders")
        await whole(period, where)
        leader, other = period.led_by(where)
        for _ in range(2):
            other.faults.extra_sync_ms = 20_000.0
            under_way = asyncio.create_task(period.produce("orders", 1))
            await asyncio.sleep(1)
            assert await moved(leader, move_of(period, where, other.broker_id)) == [
                "it was not all in sync in time"
            ]
            other.faults.extra_sync_ms = 0.0
            await under_way
            await period.produce("orders", 5)
            assert period.leader(where) is leader
        assert await moved(leader, move_of(period, where, other.broker_id)) == [""]

    Period(SLOW, topic("orders")).run(story)


def test_what_is_all_in_sync_within_the_time_is_waited_for_and_moves() -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 10)
        where = period.where("orders")
        await whole(period, where)
        leader, other = period.led_by(where)
        other.faults.extra_sync_ms = SLOW.hand_over_ms / 2
        under_way = asyncio.create_task(period.produce("orders", 1))
        await asyncio.sleep(SLOW.hand_over_ms / 10_000)
        assert not under_way.done()
        assert await moved(leader, move_of(period, where, other.broker_id)) == [""]
        await under_way
        await period.until("it leads", lambda: period.leader(where) is other)

    Period(SLOW, topic("orders")).run(story)


def test_a_store_that_does_not_answer_leaves_the_leader_where_it_is_and_the_next_try_moves_it() -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 10)
        where = period.where("orders")
        await whole(period, where)
        leader, other = period.led_by(where)
        assert leader.node is not None
        handover: Any = leader.node.control.handover
        store = handover._store
        for _ in range(2):
            handover._store = Silent(store, applied=[True])
            (reason,) = await moved(leader, move_of(period, where, other.broker_id))
            assert reason.startswith("the metadata store: ")
            await period.produce("orders", 5)
            assert period.leader(where) is leader
        assert await moved(leader, move_of(period, where, other.broker_id)) == [""]
        await period.until("it leads", lambda: period.leader(where) is other)
        await period.produce("orders", 5)

    Period(METERED, topic("orders")).run(story)


def test_a_record_that_changed_meanwhile_is_not_written_over() -> None:
    async def story(period: Period) -> None:
        await period.produce("orders", 10)
        where = period.where("orders")
        await whole(period, where)
        leader, other = period.led_by(where)
        assert leader.node is not None
        handover: Any = leader.node.control.handover
        store = handover._store
        for lacking in ("value", "item"):
            handover._store = Elsewhere(store, lacking)
            (reason,) = await moved(leader, move_of(period, where, other.broker_id))
            assert reason
            await period.produce("orders", 5)
            assert period.leader(where) is leader
        handover._store = store
        assert await moved(leader, move_of(period, where, other.broker_id)) == [""]

    Period(METERED, topic("orders")).run(story)


class Elsewhere:
    """A metadata store in which the partition's record, or its whole block, is gone."""

    def __init__(self, store: Any, lacking: str) -> None:
        self._store = store
        self._lacking = lacking

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def range(self, prefix: str) -> Any:
        found = await self._store.range(prefix)
        items = (
            ()
            if self._lacking == "item"
            else tuple(replace(item, value=model.encode_block({})) for item in found.items)
        )
        return replace(found, items=items)
