"""Final readings are kept in the metadata: only those that are owed, and again while others change the same."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from data_plane.metadata import model
from data_plane.metadata.model import FinalRecord, Tombstone
from data_plane.metadata.port import Put
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.metering.final_readings import FinalReadings
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.store import SimulatedStore
from penstock.contract.ids import TopicPartition
from tests.unit.node.storage import CONFIG, topic_id_of, where

OWED, NOT_OWED, LIVE = where(1), where(2), where(3)


def final(end_offset: int) -> FinalRecord:
    return FinalRecord(
        log_generation=1, end_offset=end_offset, accepted_ms=5, totals=(end_offset, 0, 0, 0, 0, 0)
    )


class Finals:
    """A broker and the metadata store that it writes to."""

    def run(self, story: Callable[["Finals"], Awaitable[None]]) -> None:
        loop = SimLoop(1)

        async def whole() -> None:
            self.store = SimulatedStore(random.Random(1))
            for number, metered in ((1, True), (2, False)):
                buried = Tombstone(tenant="t", name="gone", partitions=1, metered=metered)
                self.put(model.tombstone_key(topic_id_of(number)), buried.encode())
            self.view = MetadataView(self.store.client("b"), CONFIG.timings)
            await self.view.load()
            watching = asyncio.create_task(self.view.run())
            self.readings = FinalReadings(CONFIG, self.view, self.store.client("b"))
            await story(self)
            watching.cancel()
            await asyncio.wait([watching])

        try:
            loop.run_until_complete(whole())
        finally:
            loop.close()

    def put(self, key: str, value: bytes) -> None:
        self.store.apply_txn((), (Put(key, value),))

    def kept(self, partition: TopicPartition = OWED) -> int | None:
        """Where the reading ends that the store has."""
        items = self.store.snapshot(model.final_key(partition.topic_id, partition.partition)).items
        return FinalRecord.decode(items[0].value).end_offset if items else None


def test_a_reading_is_owed_of_a_deleted_topic_that_is_metered_and_of_no_other() -> None:
    async def story(finals: Finals) -> None:
        assert [finals.readings.owed(each) for each in (OWED, NOT_OWED, LIVE)] == [True, False, False]

    Finals().run(story)


def test_what_is_owed_is_kept_once_and_the_rest_is_not_written() -> None:
    async def story(finals: Finals) -> None:
        readings = {OWED: final(7), NOT_OWED: final(8), LIVE: final(9)}
        assert await finals.readings.keep(readings)
        assert [finals.kept(each) for each in readings] == [7, None, None]
        revision = finals.store.revision
        assert await finals.readings.keep(readings)
        assert finals.store.revision == revision

    Finals().run(story)


@pytest.mark.parametrize(("others", "kept"), [(3, 7), (20, 20)])
def test_of_the_readings_of_several_brokers_the_one_that_ends_highest_stays(others: int, kept: int) -> None:
    async def story(finals: Finals) -> None:
        finals.put(model.final_key(OWED.topic_id, 0), final(others).encode())  # the view has not heard of it
        assert await finals.readings.keep({OWED: final(7)})
        assert finals.kept() == kept

    Finals().run(story)


def test_a_reading_is_not_said_to_be_kept_while_the_store_does_not_answer() -> None:
    async def story(finals: Finals) -> None:
        finals.store.cut("b")
        assert not await finals.readings.keep({OWED: final(7)})
        finals.store.heal("b")
        assert await finals.readings.keep({OWED: final(7)})

    Finals().run(story)


def test_a_reading_whose_answer_was_lost_is_not_said_to_be_kept() -> None:
    async def story(finals: Finals) -> None:
        finals.store.faults.answer_lost_chance = 1.0
        assert not await finals.readings.keep({OWED: final(7)})

    Finals().run(story)
