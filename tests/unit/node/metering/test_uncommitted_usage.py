"""Usage is read at what is written, and told once that is committed; the last reading tells what is committed."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from data_plane.node.metering.cut_calls import CutCalls
from data_plane.testkit.loop import SimLoop
from penstock.records.usage import MINUTE_MS
from tests.unit.log.batches import made_batch, with_header
from tests.unit.node.metering.test_last_readings import bury
from tests.unit.node.metering.test_rounds import Metered
from tests.unit.node.replicas.test_follower_stream import held_by_other
from tests.unit.node.storage import CONFIG

pytestmark = pytest.mark.pure  # stand-ins for what mypyc gives a type

NOTHING: Any = None


class Lagging(Metered):
    """Its follower has what a test says."""

    def write(self) -> None:
        """One batch that is durable here and that the follower has not."""
        batch, header = with_header(made_batch(1, 40))
        self.replica.produce(batch, header, acks=0, claimed_epoch=1, principal=5, answer=lambda outcome: None)
        self.storage.commit(raise_watermark=False)
        self.replica.became_durable()

    def commit(self, end_offset: int) -> None:
        held_by_other(self.replica, end_offset)
        self.replicas.changed(self.replica)


@pytest.fixture
def lagging() -> Iterator[Lagging]:
    made = Lagging()
    with made.usage:
        yield made


def test_a_reading_is_made_when_it_is_due_and_told_when_it_is_committed(lagging: Lagging) -> None:
    assert lagging.round_after(0) == [("LEADER_CHANGE", 0)]
    lagging.write()
    assert lagging.round_after(10_000) == [], "it is not committed"
    lagging.write()
    lagging.commit(1)
    assert lagging.round_after(1_000) == [("PERIODIC", 1)], "what was written when it was due"
    assert lagging.round_after(8_000) == []
    lagging.commit(2)
    assert lagging.round_after(2_000) == [("PERIODIC", 2)]


def test_a_partition_is_put_aside_though_nothing_of_it_is_committed(lagging: Lagging) -> None:
    lagging.round_after(0)
    lagging.write()
    assert lagging.metering.readings.is_early(lagging.replica, lagging.clock.monotonic_ms(), 0)
    assert lagging.round_after(1_000) == [] and lagging.looks_at == 1
    assert lagging.round_after(1_000) == [] and lagging.looks_at == 1, "it does not rest"


def test_the_last_reading_is_made_where_what_is_committed_ends(lagging: Lagging) -> None:
    lagging.produce()
    lagging.write()
    bury(lagging, [])
    assert lagging.round_after(0) == [("FINAL", 1)]


def test_a_minute_that_only_an_uncommitted_batch_has_ended_is_not_told_before_the_last_reading(
    lagging: Lagging,
) -> None:
    lagging.produce()
    lagging.clock.passed_ms += MINUTE_MS
    lagging.write()
    bury(lagging, [])
    assert lagging.round_after(0) == [("FINAL", 1)]


def cut_at(lagging: Lagging, end_ms: int) -> int | None:
    """Where a cut at `end_ms` ends; None while it waits."""
    lagging.replica.topic = replace(lagging.replica.topic, accepted_floor_ms=end_ms)
    calls = CutCalls(
        CONFIG, NOTHING, NOTHING, NOTHING, lagging.clock, NOTHING, lambda: True, lagging.metering
    )
    loop = SimLoop(1)

    async def story() -> int | None:
        try:
            async with asyncio.timeout(1):
                return (await calls._mark(lagging.replica, end_ms)).end_offset
        except TimeoutError:
            return None

    try:
        return loop.run_until_complete(story())
    finally:
        loop.close()


def test_a_cut_waits_until_what_was_accepted_before_its_end_is_committed(lagging: Lagging) -> None:
    lagging.write()
    assert cut_at(lagging, MINUTE_MS) is None
    lagging.commit(1)
    assert cut_at(lagging, MINUTE_MS) == 1


def test_a_cut_ends_before_what_was_written_after_its_end(lagging: Lagging) -> None:
    lagging.produce()
    lagging.clock.passed_ms += MINUTE_MS
    lagging.write()
    assert cut_at(lagging, MINUTE_MS) == 1, "nothing else is committed, and more is written"
