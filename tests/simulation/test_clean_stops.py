"""A clean marker vouches for nothing that a leader pushed after a stopping broker's last checkpoint (RL44, RL46)."""

from dataclasses import replace

import pytest

from data_plane.node.log_directory.directory import CLEAN_FILE
from data_plane.testkit.cluster import BrokerState
from data_plane.testkit.disk import SimDisk
from data_plane.testkit.medium import CutChoice
from penstock.contract.topic_settings import Durability
from tests.simulation.test_cuts import METERED, Period, topic

pytestmark = pytest.mark.pure

FIRST, LATE = 10, 5


def marked_clean(durability: Durability, *, late: bool) -> bool:
    """A follower stops in good order. With `late` it takes a push after its last checkpoint, from a leader that has not
    heard of its leaving.
    """
    found: list[bool] = []

    async def story(period: Period) -> None:
        await period.produce("orders", FIRST)
        leader, follower = period.led_by(period.where("orders"))
        log = period.replica_of(follower, period.where("orders")).log
        await period.until("it holds them", lambda: log.log_end_offset == FIRST)
        node = follower.node
        assert node is not None
        right = node.hosting.committer.checkpoint

        async def checkpoint() -> None:
            await right()
            if late:
                await period.produce("orders", LATE)
                pushed = period.replica_of(leader, period.where("orders")).log.read(
                    FIRST, FIRST + LATE, 1 << 20
                )
                batches = memoryview(b"".join(pushed.batches))
                log.append_as_follower(memoryview(pushed.stamps), batches, log.last_epoch)
                assert log.log_end_offset == FIRST + LATE

        node.hosting.committer.checkpoint = checkpoint  # type: ignore[method-assign]
        period.cluster.drain(follower)
        await period.until("it has stopped", lambda: follower.state is BrokerState.DOWN)
        assert follower.ended == "drained"
        found.append(SimDisk(follower.medium.after_cut(CutChoice())).exists(CLEAN_FILE))

    orders = topic("orders")
    settings = replace(orders.settings, durability=durability, flush_ms=60_000)
    Period(METERED, replace(orders, settings=settings)).run(story)
    (clean,) = found
    return clean


@pytest.mark.parametrize("durability", Durability)
def test_a_broker_that_took_nothing_more_leaves_its_marker(durability: Durability) -> None:
    assert marked_clean(durability, late=False)


def test_what_a_relaxed_replica_took_behind_its_last_checkpoint_is_not_vouched_for() -> None:
    assert not marked_clean(Durability.REPLICATED, late=True)


def test_what_a_strict_replica_took_behind_its_last_checkpoint_is_in_the_journal() -> None:
    assert marked_clean(Durability.FSYNC, late=True)
