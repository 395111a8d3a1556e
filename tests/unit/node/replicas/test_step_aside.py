"""A broker whose sync does not end leaves the partitions that others can lead, and comes back when its disk is well."""

import asyncio
from dataclasses import replace

import pytest

from tests.unit.log.batches import made_batch
from tests.unit.node.brokers import TIMINGS, Brokers, topic

SLOW = replace(TIMINGS, slow_sync_ms=1_000, replica_lag_ms_max=600_000)
BOUND_S = SLOW.slow_sync_ms / 1_000
LOOK_S = 0.3
"""The broker has looked at its syncs, and the metadata show what it wrote."""


async def sync_begins(brokers: Brokers, number: int, takes_s: float) -> "asyncio.Task[object]":
    """A batch, which that broker's disk takes so long to sync; no other sync is slow."""
    producing = await brokers.producing()
    brokers.broker(number).faults.extra_sync_ms = takes_s * 1_000
    sending = asyncio.create_task(producing.send(made_batch(2, 40)))
    await asyncio.sleep(0.05)
    brokers.broker(number).faults.extra_sync_ms = 0.0
    return sending


@pytest.mark.parametrize("leads", [True, False], ids=["the leader", "a follower"])
def test_a_broker_whose_sync_takes_too_long_is_left_by_what_others_have(leads: bool) -> None:
    async def story(brokers: Brokers) -> None:
        await brokers.in_sync(3)
        leader = brokers.leader()
        number = leader if leads else (leader + 1) % 3
        other = (leader + 2) % 3
        node = brokers.node(number)
        sending = await sync_begins(brokers, number, 4 * BOUND_S)
        await asyncio.sleep(BOUND_S * 0.8)
        assert (node.stats.slow_syncs, node.gauges()["disk_slow"], node.warnings()) == (0, 0, {})
        await asyncio.sleep(BOUND_S * 0.2 + LOOK_S)
        assert (node.stats.slow_syncs, node.gauges()["disk_slow"]) == (1, 1)
        assert node.warnings()["slow disk"] == "a sync has taken 1000 ms and more"
        record = brokers.node(other).view.image.partition(brokers.where())
        assert record is not None and number not in record.in_sync and record.leader not in (number, -1)
        assert (record.leader == leader) is not leads and node.stats.stepped_aside == 1
        revision = brokers.store.revision
        await asyncio.sleep(BOUND_S)
        assert brokers.store.revision == revision and node.stats.slow_syncs == 1, (
            "there is nothing more to leave"
        )
        await brokers.until(lambda: node.gauges()["disk_slow"] == 0)
        await brokers.in_sync(3)
        assert node.warnings() == {} and node.stats.slow_syncs == 1
        await sending

    Brokers(3, topic(replicas=3), timings=SLOW).run(story)


def test_what_no_other_broker_has_stays_with_a_slow_one() -> None:
    async def story(brokers: Brokers) -> None:
        leader = brokers.leader()
        node, revision = brokers.node(leader), brokers.store.revision
        sending = await sync_begins(brokers, leader, 3 * BOUND_S)
        await asyncio.sleep(2 * BOUND_S)
        assert (node.stats.slow_syncs, node.stats.stepped_aside) == (1, 0)
        assert brokers.leader() == leader and brokers.store.revision == revision
        await sending
        assert brokers.replica().log.high_watermark == 2

    Brokers(2, topic(), timings=SLOW).run(story)


def test_a_slow_broker_that_does_not_reach_the_store_steps_aside_once_it_does() -> None:
    async def story(brokers: Brokers) -> None:
        await brokers.in_sync(3)
        leader = brokers.leader()
        host, node = brokers.broker(leader).host, brokers.node(leader)
        sending = await sync_begins(brokers, leader, 8 * BOUND_S)
        brokers.store.cut(host)
        await asyncio.sleep(2 * BOUND_S)
        assert node.stats.slow_syncs == 1 and node.stats.stepped_aside == 0
        brokers.store.heal(host)
        await brokers.until(lambda: brokers.leader(number=(leader + 1) % 3) != leader, 3 * BOUND_S)
        assert node.stats.stepped_aside == 1
        sending.cancel()

    Brokers(3, topic(replicas=3), timings=SLOW).run(story)
