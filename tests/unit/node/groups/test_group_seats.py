"""Seats of groups as a coordinator takes and gives them back: what it writes, and when it makes no group."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from data_plane.metadata import model
from data_plane.metadata.group_seats import GroupSeatsRecord, group_seats_key
from data_plane.metadata.port import Delete, Put
from data_plane.node.groups.group_seats import COUNTED_EVERY_MS, GroupSeats
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.tasks import Turn
from data_plane.testkit.rng import Chances, SimRng
from data_plane.testkit.store import SimulatedStore
from penstock.contract import errors
from penstock.contract.ids import TenantId
from tests.unit.groups import setup
from tests.unit.node.storage import CONFIG

from .test_group_partition import Coordinating, some_turns

TENANT = TenantId(setup.TENANT)
CALL_MS = 3_000
SOON_S = 0.1
"""The store has answered, and its watch has brought the change."""


class Seating(Coordinating):
    """A coordinator of `__groups-0` beside a metadata store."""

    def play_with_limit(self, groups_max: int, story: Callable[[], Awaitable[None]]) -> None:
        async def whole() -> None:
            self.store = SimulatedStore(random.Random(1))
            self.view = MetadataView(self.store.client("broker"), CONFIG.timings)
            self.seats = GroupSeats(
                self.view,
                self.store.client("broker"),
                CALL_MS,
                lambda: Turn(self.clock, SimRng(1, Chances(1))),
            )
            self.limit(groups_max)
            await self.view.load()
            counting = asyncio.create_task(self.seats.run(lambda: [self.partition]))
            watching = asyncio.create_task(self.view.run())
            await story()
            for task in (counting, watching):
                task.cancel()
            await asyncio.wait([counting, watching])
            assert counting.cancelled() and watching.cancelled(), "they run without an end"

        self.play(whole)

    def limit(self, groups_max: int) -> None:
        tenant = model.TenantRecord(tenant=TENANT, quotas=model.TenantQuotas(groups_max=groups_max))
        self.store.apply_txn((), (Put(model.tenant_key(TENANT), tenant.encode()),))

    def taken_elsewhere(self, count: int) -> None:
        """Another coordinator has so many groups of the tenant; this one has none on record."""
        record = GroupSeatsRecord().counted(1, 1, count) if count else GroupSeatsRecord()
        self.store.apply_txn((), (Put(group_seats_key(TENANT), record.encode()),))

    @property
    def counts(self) -> dict[int, int] | None:
        """Seats by partition, as they are stored; None: there is no record."""
        items = self.store.snapshot(group_seats_key(TENANT)).items
        return (
            {seats.partition: seats.count for seats in GroupSeatsRecord.decode(items[0].value).seats}
            if items
            else None
        )

    async def make(self, group: str = "readers") -> None:
        """The group with one member, committed."""
        async with self.seats.seated(self.partition, TENANT, group):
            joined = self.join("a")
            await some_turns()
            self.hold(self.written)
            await joined

    async def after_a_count(self) -> None:
        await asyncio.sleep(COUNTED_EVERY_MS / 1_000 + SOON_S)


def test_without_the_limit_nothing_is_written() -> None:
    seating = Seating()

    async def story() -> None:
        revision = seating.store.revision
        await seating.make()
        await seating.after_a_count()
        assert seating.store.revision == revision

    seating.play_with_limit(0, story)


def test_a_group_takes_one_seat_however_often_it_is_asked_for_and_keeps_it() -> None:
    seating = Seating()

    async def story() -> None:
        await seating.make()
        revision = seating.store.revision
        await seating.make()
        assert seating.counts == {0: 1}
        await seating.after_a_count()
        assert seating.store.revision == revision, "nothing is written again"

    seating.play_with_limit(1, story)


@pytest.mark.parametrize(("leader_epoch", "count", "written"), [(0, 1, False), (0, 2, True), (1, 0, True)])
def test_a_coordinator_writes_what_it_counts_only_where_the_record_says_another_number(
    leader_epoch: int, count: int, written: bool
) -> None:
    seating = Seating()

    async def story() -> None:
        await seating.make()
        record = GroupSeatsRecord().counted(0, leader_epoch, count)
        seating.store.apply_txn((), (Put(group_seats_key(TENANT), record.encode()),))
        revision = seating.store.revision
        for _ in range(2):
            await seating.after_a_count()
            assert seating.store.revision == revision + written
        assert seating.counts == {0: 1}

    seating.play_with_limit(3, story)


def test_a_seat_is_free_again_when_no_group_was_made_after_all() -> None:
    seating = Seating()

    async def story() -> None:
        with pytest.raises(errors.InvalidRequest):
            async with seating.seats.seated(seating.partition, TENANT, "readers"):
                assert seating.counts == {0: 1}
                await seating.after_a_count()
                assert seating.counts == {0: 1}, "a call makes it now"
                raise errors.InvalidRequest("no")
        await seating.after_a_count()
        assert seating.counts == {0: 0}

    seating.play_with_limit(1, story)


def test_two_calls_that_make_one_group_take_one_seat_and_another_group_the_next() -> None:
    seating = Seating()

    async def story() -> None:
        seats, led = seating.seats, seating.partition
        async with seats.seated(led, TENANT, "a"):
            async with seats.seated(led, TENANT, "a"):
                assert seating.counts == {0: 1}
                revision = seating.store.revision
            assert seating.store.revision == revision
            async with seats.seated(led, TENANT, "b"):
                assert seating.counts == {0: 2}
                with pytest.raises(errors.LimitExceeded, match="has 2 consumer groups, at most 2"):
                    async with seats.seated(led, TENANT, "c"):
                        pytest.fail("there is no seat")
                await seating.after_a_count()
                assert seating.counts == {0: 2}
            await seating.after_a_count()
            assert seating.counts == {0: 1}, "b was not made"
        await seating.after_a_count()
        assert seating.counts == {0: 0}

    seating.play_with_limit(2, story)


def test_groups_that_were_there_before_the_limit_take_their_seats_and_none_once_it_is_lifted() -> None:
    seating = Seating()

    async def story() -> None:
        await seating.make()
        seating.limit(5)
        await seating.after_a_count()
        assert seating.counts == {0: 1}
        seating.limit(0)
        seating.store.cut("broker")
        await seating.after_a_count()
        assert seating.counts == {0: 1}
        seating.store.heal("broker")
        await asyncio.sleep(5 * COUNTED_EVERY_MS / 1_000)
        assert seating.counts is None

    seating.play_with_limit(0, story)


def test_a_tenant_that_is_gone_leaves_no_record() -> None:
    seating = Seating()

    async def story() -> None:
        seating.taken_elsewhere(2)
        seating.store.apply_txn((), (Delete(model.tenant_key(TENANT)),))
        await seating.after_a_count()
        assert seating.counts is None

    seating.play_with_limit(3, story)


def test_a_seat_that_another_coordinator_gave_back_is_taken_before_the_watch_has_brought_it() -> None:
    seating = Seating()

    async def story() -> None:
        seating.taken_elsewhere(1)
        await asyncio.sleep(SOON_S)
        with pytest.raises(errors.LimitExceeded):
            async with seating.seats.seated(seating.partition, TENANT, "readers"):
                pytest.fail("there is no seat")
        seating.taken_elsewhere(0)
        async with seating.seats.seated(seating.partition, TENANT, "readers"):
            assert seating.counts == {0: 1}

    seating.play_with_limit(1, story)


def test_while_the_store_does_not_answer_no_group_is_made_under_a_limit() -> None:
    seating = Seating()

    async def story() -> None:
        seating.store.cut("broker")
        with pytest.raises(errors.CoordinatorNotReady, match="the metadata store does not answer"):
            async with seating.seats.seated(seating.partition, TENANT, "readers"):
                pytest.fail("it is not counted")
        seating.store.heal("broker")
        await seating.make()
        assert seating.counts == {0: 1}

    seating.play_with_limit(1, story)


def test_a_full_tenant_is_not_refused_for_good_by_a_broker_that_may_be_behind() -> None:
    seating = Seating()

    async def story() -> None:
        seating.taken_elsewhere(1)
        await asyncio.sleep(SOON_S)
        seating.store.cut("broker")
        with pytest.raises(
            errors.CoordinatorNotReady, match="group readers: the metadata store does not answer"
        ):
            async with seating.seats.seated(seating.partition, TENANT, "readers"):
                pytest.fail("it is not counted")

    seating.play_with_limit(1, story)


@pytest.mark.parametrize("lost", ["request_lost_chance", "answer_lost_chance"])
def test_a_seat_is_taken_once_when_the_store_lost_the_request_or_its_answer(lost: str) -> None:
    seating = Seating()

    async def story() -> None:
        setattr(seating.store.faults, lost, 1.0)

        async def found_again() -> None:
            await asyncio.sleep(0.01)
            setattr(seating.store.faults, lost, 0.0)

        revision = seating.store.revision
        await asyncio.gather(found_again(), seating.make())
        assert seating.counts == {0: 1} and seating.store.revision == revision + 1

    seating.play_with_limit(1, story)


def test_a_coordinator_that_lost_its_partition_takes_no_seat() -> None:
    seating = Seating()

    async def story() -> None:
        seating.lead_again()
        with pytest.raises(errors.NotCoordinator):
            async with seating.seats.seated(seating.partition, TENANT, "readers"):
                pytest.fail("another one decides")
        assert seating.counts is None

    seating.play_with_limit(1, story)
