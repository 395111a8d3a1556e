"""A broker that has seen a metadata store before does not act on an older one (RL55)."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from data_plane.metadata import broker_records
from data_plane.metadata.lineage import LINEAGE_KEY, LineageRecord
from data_plane.metadata.port import Put, SessionLost, StoreUnavailable
from data_plane.node.membership.trusted_store import WITNESS_FILE, StoreWitness, TrustedStore
from data_plane.testkit.crash_states import explore_crashes
from data_plane.testkit.disk import DiskTiming, SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.medium import Medium
from data_plane.testkit.store import SimulatedStore
from penstock.contract.errors import BrokerUnavailable
from penstock.contract.ids import BrokerId

ME = BrokerId(1)
TTL_MS = 60_000


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    loop = SimLoop(1)
    try:
        loop.run_until_complete(scenario())
        assert loop.failures == []
    finally:
        loop.close()


class Followed:
    """A client of a simulated store that can be led to another one, as an address is to a restored server."""

    def __init__(self, revisions: int) -> None:
        self.truth = store_at(revisions)

    @property
    def client(self) -> TrustedStore:
        return self._client

    def trusted(self, store_witness: StoreWitness) -> TrustedStore:
        self._client = TrustedStore(self.truth.client("b1"), store_witness)
        return self._client

    def restore(self, revisions: int) -> None:
        self.truth = store_at(revisions)
        self._client._store = self.truth.client("b1")


def store_at(revisions: int) -> SimulatedStore:
    store = SimulatedStore(random.Random(1))
    for number in range(revisions):
        store.apply_txn([], [Put("/n", b"%d" % number)])
    return store


def witness_on(medium: Medium) -> tuple[StoreWitness, list[str]]:
    told: list[str] = []
    store_witness = StoreWitness(SimDisk(medium), told.append)
    store_witness.remember()
    return store_witness, told


def test_what_was_seen_is_remembered_over_a_restart_and_an_older_store_refused() -> None:
    async def scenario() -> None:
        medium = Medium()
        store_witness, told = witness_on(medium)
        store_witness.saw(9, registered=7)
        await store_witness.write()
        again, _ = witness_on(medium)
        await again.look(store_at(9).client("b1"), ME)
        assert again.refused == ""
        await again.look(store_at(8).client("b1"), ME)
        assert "at revision 8, and this broker has seen revision 9" in again.refused
        assert "data_plane.broker.metadata confirm" in again.refused
        assert told == []

    run(scenario)


def test_a_store_that_others_wrote_to_after_it_went_back_gives_itself_away() -> None:
    async def scenario() -> None:
        store_witness, _ = witness_on(Medium())
        store_witness.saw(9, registered=7)
        old = store_at(4)
        old.apply_txn([], [Put(broker_records.broker_key(ME), b"{}")])
        for _ in range(10):
            old.apply_txn([], [Put("/n", b"")])
        await store_witness.look(old.client("b1"), ME)
        assert "does not know this broker's registration at revision 7" in store_witness.refused

    run(scenario)


def test_a_store_that_came_as_far_again_gives_itself_away_by_what_happened_on_the_way() -> None:
    async def scenario() -> None:
        medium = Medium()
        store_witness, _ = witness_on(medium)
        followed = Followed(4)
        watch = followed.trusted(store_witness).watch("/", 0)
        for _ in range(4):
            await anext(watch)
        store_witness.saw(4)
        await store_witness.write()
        again, _ = witness_on(medium)
        await again.look(followed.truth.client("b1"), ME)
        assert again.refused == ""
        other = store_at(3)
        other.apply_txn([], [Put("/n", b"another")])
        other.apply_txn([], [Put("/n", b"and more")])
        await again.look(other.client("b1"), ME)
        assert "its revision 4 is not the one that this broker has seen" in again.refused
        other.compact(5)
        await again.look(other.client("b1"), ME)
        assert again.refused == ""

    run(scenario)


def test_a_refused_store_is_taken_once_an_operator_has_confirmed_it() -> None:
    async def scenario() -> None:
        medium = Medium()
        store_witness, told = witness_on(medium)
        store_witness.saw(9)
        await store_witness.write()
        restarted, told = witness_on(medium)
        store = store_at(3)
        await restarted.look(store.client("b1"), ME)
        assert restarted.refused
        store.apply_txn([], [Put(LINEAGE_KEY, LineageRecord(lineage_id="new", confirmed=True).encode())])
        await restarted.wait_until_trusted(store.client("b1"), ME)
        assert restarted.refused == ""
        assert told == []
        await restarted.write()
        third, _ = witness_on(medium)
        await third.look(store.client("b1"), ME)
        assert third.refused == ""

    run(scenario)


def test_an_answer_that_goes_back_is_the_last_that_is_asked_for() -> None:
    async def scenario() -> None:
        store_witness, told = witness_on(Medium())
        followed = Followed(9)
        store = followed.trusted(store_witness)
        session = await store.session(TTL_MS)
        assert (await store.range("/")).revision == 9
        followed.restore(8)
        with pytest.raises(StoreUnavailable, match="answers at revision 8 after 9"):
            await store.range("/")
        assert told == [store_witness.refused]
        followed.restore(20)
        for ask in (
            lambda: store.range("/"),
            lambda: store.txn([], [Put("/a", b"")]),
            lambda: store.session(TTL_MS),
            lambda: anext(store.watch("/", 0)),
            session.keep_alive,
        ):
            with pytest.raises(StoreUnavailable, match="went back"):
                await ask()
        assert followed.truth.revision == 20

    run(scenario)


def test_a_lost_session_is_believed_of_a_store_that_did_not_go_back_alone() -> None:
    async def scenario() -> None:
        store_witness, _ = witness_on(Medium())
        followed = Followed(9)
        store = followed.trusted(store_witness)
        first, second = await store.session(TTL_MS), await store.session(TTL_MS)
        await store.range("/")
        followed.truth.expire(first.session_id)
        with pytest.raises(SessionLost):
            await first.keep_alive()
        followed.truth.expire(second.session_id)
        followed.truth.revision = 5
        with pytest.raises(StoreUnavailable, match="went back"):
            await second.keep_alive()

    run(scenario)


def test_nothing_more_is_noted_once_the_store_went_back() -> None:
    async def scenario() -> None:
        medium = Medium()
        store_witness, _ = witness_on(medium)
        store_witness.saw(9)
        await store_witness.write()
        store_witness.went_back("it did")
        store_witness.saw(50)
        await store_witness.write()
        again, _ = witness_on(medium)
        await again.look(store_at(9).client("b1"), ME)
        assert again.refused == ""

    run(scenario)


def test_two_writes_at_a_time_are_made_one_after_the_other() -> None:
    async def scenario() -> None:
        medium = Medium()
        store_witness = StoreWitness(SimDisk(medium, timing=DiskTiming(sync_ms=5.0)), lambda reason: None)
        store_witness.saw(9)
        first = asyncio.create_task(store_witness.write())
        await asyncio.sleep(0.001)
        store_witness.saw(12)
        await store_witness.write()
        await first
        again, _ = witness_on(medium)
        assert again.seen.revision == 12

    run(scenario)


def test_a_crash_leaves_the_old_memory_or_the_new_one() -> None:
    disk = SimDisk(Medium())
    store_witness = StoreWitness(disk, lambda reason: None)
    store_witness.saw(5)
    store_witness.write_now()
    done = [False]

    def operate() -> None:
        store_witness.saw(9)
        store_witness.write_now()
        done[0] = True

    def check(left: SimDisk, at: str) -> None:
        after = StoreWitness(left, lambda reason: None)
        after.remember()
        assert after.seen.revision == 9 or (after.seen.revision == 5 and not done[0]), at

    assert explore_crashes(disk, operate, check).exhaustive
    assert disk.exists(WITNESS_FILE)


def test_a_store_that_cannot_be_asked_at_boot_is_said_and_asked_again() -> None:
    async def scenario() -> None:
        store_witness, _ = witness_on(Medium())
        store = store_at(3)
        store.cut("b1")
        waiting = asyncio.ensure_future(store_witness.wait_until_trusted(store.client("b1"), ME))
        await asyncio.sleep(10)
        assert "the metadata store cannot be asked" in store_witness.unreachable
        store.heal("b1")
        await waiting
        assert (store_witness.unreachable, store_witness.refused) == ("", "")

    run(scenario)


def test_a_store_that_went_back_ends_writing_with_its_reason_and_leaves_reading() -> None:
    store_witness, told = witness_on(Medium())
    confident = False
    may_write, may_read = store_witness.writing(lambda: confident), store_witness.reading(lambda: confident)
    assert not may_write() and not may_read()
    confident = True
    assert may_write() and may_read()
    for _ in range(2):
        store_witness.went_back("it is at revision 3, 5 was seen")
        with pytest.raises(BrokerUnavailable, match="it is at revision 3, 5 was seen"):
            may_write()
    assert len(told) == 1
    confident = False
    assert may_read()
    with pytest.raises(BrokerUnavailable):
        may_write()
