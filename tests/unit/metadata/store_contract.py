"""What every MetaStore promises, as tests: run by each adapter with a `StoreWorld` of its own."""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

import pytest

from data_plane.metadata.port import (
    CHANGES_PER_TXN_MAX,
    Compacted,
    Compare,
    Delete,
    Event,
    KeyValue,
    MetaStore,
    OutcomeUnknown,
    Put,
    SessionLost,
    StoreUnavailable,
    TxnResult,
    WatchBatch,
)
from data_plane.testkit.store_history import StoreHistory
from penstock.contract.invariant import InvariantBroken


class StoreWorld(ABC):
    """One store, empty at first, and the clock that its sessions go by."""

    ttl_ms = 10_000
    """Of the sessions."""
    prolongations = 5
    """How often a session is kept alive to show that it can be."""
    increments = 40
    """By each of six clients that count together."""

    @abstractmethod
    def run(self, scenario: Awaitable[None]) -> None:
        """Run to the end, within `PATIENCE_S`, and close everything."""

    @abstractmethod
    async def open(self, client: str = "a") -> MetaStore:
        """The store as one more process sees it."""

    @abstractmethod
    async def pass_ms(self, ms: int) -> None:
        """Let that much of the sessions' time pass."""

    @abstractmethod
    async def forget_history(self, store: MetaStore) -> None:
        """Have the events so far compacted away; may write keys below /filler."""


Scenario = Callable[[StoreWorld], Awaitable[None]]


class StoreContract:
    """Tests of the promise. A subclass gives the fixture `world`."""

    def test_a_missing_key_compares_as_revision_zero(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            assert (await store.txn([Compare("/a", 0)], [Put("/a", b"1")])).succeeded
            assert not (await store.txn([Compare("/a", 0)], [Put("/a", b"2")])).succeeded
            assert (await store.range("/a")).items[0].value == b"1"

        world.run(scenario())

    def test_all_changes_of_a_transaction_get_one_revision(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            first = await store.txn([], [Put("/x", b"0")])
            result = await store.txn([], [Put("/a", b"1"), Put("/b", b"2"), Delete("/x")])
            assert result == TxnResult(True, first.revision + 1)
            assert await store.range("/") == await store.range("")
            assert (await store.range("/")).items == (
                KeyValue("/a", b"1", result.revision),
                KeyValue("/b", b"2", result.revision),
            )

        world.run(scenario())

    def test_a_failed_compare_changes_nothing(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            before = await store.txn([], [Put("/a", b"1"), Put("/b", b"1")])
            right, wrong = Compare("/a", before.revision), Compare("/b", before.revision + 1)
            result = await store.txn([right, wrong], [Put("/a", b"2"), Delete("/b")])
            assert result == TxnResult(False, before.revision)
            assert [item.value for item in (await store.range("/")).items] == [b"1", b"1"]

        world.run(scenario())

    def test_a_changed_key_has_a_new_revision_and_the_old_one_compares_false(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            first = await store.txn([], [Put("/a", b"1")])
            second = await store.txn([Compare("/a", first.revision)], [Put("/a", b"2")])
            assert second.succeeded
            assert second.revision > first.revision
            assert not (await store.txn([Compare("/a", first.revision)], [Put("/a", b"3")])).succeeded

        world.run(scenario())

    def test_a_deleted_key_compares_as_absent_and_comes_back_with_a_new_revision(
        self, world: StoreWorld
    ) -> None:
        async def scenario() -> None:
            store = await world.open()
            first = await store.txn([], [Put("/a", b"1")])
            assert (await store.txn([Compare("/a", first.revision)], [Delete("/a")])).succeeded
            again = await store.txn([Compare("/a", 0)], [Put("/a", b"1")])
            assert again == TxnResult(True, first.revision + 2)

        world.run(scenario())

    def test_deleting_what_is_not_there_is_no_revision(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            before = await store.txn([], [Put("/a", b"1")])
            assert await store.txn([], [Delete("/b")]) == before
            assert await store.txn([Compare("/a", before.revision)], []) == before
            after = await store.txn([], [Delete("/b"), Put("/a", b"2")])
            watch = store.watch("/", before.revision)
            assert await anext(watch) == WatchBatch(after.revision, (Event("/a", b"2", after.revision),))

        world.run(scenario())

    def test_a_key_may_stand_in_one_change_only(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            with pytest.raises(InvariantBroken):
                await store.txn([], [Put("/a", b"1"), Delete("/a")])
            assert (await store.range("/")).items == ()

        world.run(scenario())

    def test_a_listing_holds_the_keys_of_its_prefix_in_order_and_no_neighbour(
        self, world: StoreWorld
    ) -> None:
        async def scenario() -> None:
            store = await world.open()
            keys = ["/topics/b", "/topics/a", "/topic", "/topicsx", "/topics/é", "/topics/a/1", "/uopics/a"]
            for key in keys:
                await store.txn([], [Put(key, key.encode())])
            listing = await store.range("/topics/")
            assert [item.key for item in listing.items] == [
                "/topics/a",
                "/topics/a/1",
                "/topics/b",
                "/topics/é",
            ]
            assert listing.revision == len(keys)
            assert (await store.range("/nothing")).items == ()

        world.run(scenario())

    def test_values_are_any_bytes(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            values = [b"", b"\0", bytes(range(256)), b"'; DROP TABLE kv; --", b"x" * 200_000]
            for index, value in enumerate(values):
                await store.txn([], [Put(f"/v/{index}", value)])
            assert [item.value for item in (await store.range("/v/")).items] == values
            watch = store.watch("/v/", 0)
            assert [(await anext(watch)).events[0].value for _ in values] == values

        world.run(scenario())

    def test_what_one_client_was_answered_another_lists(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            one, other = await world.open("a"), await world.open("b")
            for number in range(20):
                result = await one.txn([], [Put("/n", str(number).encode())])
                listing = await other.range("/n")
                assert listing.revision >= result.revision
                assert listing.items[0].value == str(number).encode()
                one, other = other, one

        world.run(scenario())

    def test_a_transaction_of_as_many_keys_as_may_be_is_one_batch_of_the_watch(
        self, world: StoreWorld
    ) -> None:
        async def scenario() -> None:
            store = await world.open()
            watch = store.watch("/cells/", 0)
            result = await store.txn([], [Put(f"/cells/{n:03d}", b"1") for n in range(CHANGES_PER_TXN_MAX)])
            batch = await anext(watch)
            assert batch.revision == result.revision
            assert [event.key for event in batch.events] == [
                f"/cells/{n:03d}" for n in range(CHANGES_PER_TXN_MAX)
            ]

        world.run(scenario())

    # -- watches ---------------------------------------------------------------------------------------

    def test_a_watch_brings_history_then_news_without_a_gap(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store, other = await world.open("a"), await world.open("b")
            for number in range(1, 6):
                await store.txn([], [Put("/n", b"%d" % number)])
            watch = store.watch("/", 2)
            seen = [await anext(watch) for _ in range(3)]
            for number in range(6, 9):
                await (store if number % 2 else other).txn([], [Put("/n", b"%d" % number)])
            seen += [await anext(watch) for _ in range(3)]
            assert seen == [
                WatchBatch(number, (Event("/n", b"%d" % number, number),)) for number in range(3, 9)
            ]

        world.run(scenario())

    def test_a_watch_shows_only_its_prefix(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            watch = store.watch("/live/", 0)
            await store.txn([], [Put("/keys/a", b"1")])
            await store.txn([], [Put("/keys/b", b"1"), Put("/live/1", b"2"), Put("/livex", b"3")])
            await store.txn([], [Delete("/keys/a")])
            await store.txn([], [Delete("/live/1")])
            assert await anext(watch) == WatchBatch(2, (Event("/live/1", b"2", 2),))
            assert await anext(watch) == WatchBatch(4, (Event("/live/1", None, 4),))

        world.run(scenario())

    def test_a_watch_of_a_compacted_past_is_told_so_and_listing_anew_goes_on(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            await store.txn([], [Put("/a", b"1")])
            await world.forget_history(store)
            with pytest.raises(Compacted):
                await anext(store.watch("/", 0))
            listing = await store.range("/a")
            assert [item.value for item in listing.items] == [b"1"]
            watch = store.watch("/a", listing.revision)
            await store.txn([], [Put("/a", b"2")])
            assert (await anext(watch)).events[0].value == b"2"

        world.run(scenario())

    def test_a_watch_that_has_ended_stays_ended(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            watch = store.watch("/", 0)
            waiting = asyncio.ensure_future(anext(watch))
            await world.pass_ms(1)
            await store.close()
            with pytest.raises(StoreUnavailable):
                await waiting
            with pytest.raises(StoreUnavailable):
                await anext(watch)
            with pytest.raises(StoreUnavailable):
                await anext(store.watch("/", 0))

        world.run(scenario())

    def test_giving_up_waiting_for_a_watch_loses_nothing(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            watch = store.watch("/", 0)
            waiting = asyncio.ensure_future(anext(watch))
            await world.pass_ms(1)
            waiting.cancel()
            await store.txn([], [Put("/a", b"1")])
            assert (await anext(watch)).revision == 1

        world.run(scenario())

    # -- sessions --------------------------------------------------------------------------------------

    def test_the_end_of_a_session_deletes_its_keys_in_one_revision(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            session = await store.session(world.ttl_ms)
            await store.txn([], [Put("/live/2", b"x", session.session_id), Put("/other", b"x")])
            put = await store.txn([], [Put("/live/1", b"x", session.session_id)])
            assert (await store.range("/live/1")).items == (
                KeyValue("/live/1", b"x", put.revision, session.session_id),
            )
            await session.end()
            await session.end()
            gone = put.revision + 1
            watch = store.watch("/", put.revision)
            assert await anext(watch) == WatchBatch(
                gone, (Event("/live/1", None, gone), Event("/live/2", None, gone))
            )
            assert [item.key for item in (await store.range("/")).items] == ["/other"]

        world.run(scenario())

    def test_a_session_nobody_keeps_alive_expires_with_its_keys(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store, other = await world.open("a"), await world.open("b")
            session = await store.session(world.ttl_ms)
            registered = await store.txn([], [Put("/live/1", b"x", session.session_id)])
            watch = other.watch("/live/", registered.revision)
            await world.pass_ms(world.ttl_ms + 1)
            batch = await anext(watch)
            assert batch.events == (Event("/live/1", None, batch.revision),)
            assert not (
                await other.txn([Compare("/live/1", registered.revision)], [Put("/o", b"")])
            ).succeeded
            with pytest.raises(SessionLost):
                await session.keep_alive()

        world.run(scenario())

    def test_keeping_alive_prolongs_a_session_by_its_whole_time(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            session = await store.session(world.ttl_ms)
            await store.txn([], [Put("/live/1", b"x", session.session_id)])
            for _ in range(world.prolongations):
                await world.pass_ms(world.ttl_ms // 2)
                await session.keep_alive()
            assert len((await store.range("/live/")).items) == 1

        world.run(scenario())

    def test_a_lost_session_can_bind_nothing(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            session = await store.session(world.ttl_ms)
            await session.end()
            with pytest.raises(SessionLost):
                await store.txn([], [Put("/a", b"1"), Put("/live/1", b"x", session.session_id)])
            assert await store.range("/") == await store.range("/nothing")

        world.run(scenario())

    def test_a_failed_compare_is_told_before_a_lost_session(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            session = await store.session(world.ttl_ms)
            await session.end()
            result = await store.txn([Compare("/a", 7)], [Put("/a", b"1", session.session_id)])
            assert result == TxnResult(False, 0)

        world.run(scenario())

    def test_a_key_that_was_bound_anew_outlives_its_first_session(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            first, second = await store.session(world.ttl_ms), await store.session(world.ttl_ms)
            assert first.session_id != second.session_id
            for key in ("/freed", "/moved", "/kept"):
                await store.txn([], [Put(key, b"1", first.session_id)])
            await store.txn([], [Put("/freed", b"2")])
            await store.txn([], [Put("/moved", b"2", second.session_id)])
            await first.end()
            assert [item.key for item in (await store.range("/")).items] == ["/freed", "/moved"]
            await second.end()
            assert [item.key for item in (await store.range("/")).items] == ["/freed"]

        world.run(scenario())

    def test_one_session_ending_leaves_the_others(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store, other = await world.open("a"), await world.open("b")
            mine, theirs = await store.session(world.ttl_ms), await other.session(2 * world.ttl_ms)
            await store.txn([], [Put("/live/1", b"x", mine.session_id)])
            registered = await other.txn([], [Put("/live/2", b"x", theirs.session_id)])
            watch = other.watch("/live/1", registered.revision)
            await world.pass_ms(world.ttl_ms + 1)
            await anext(watch)
            await theirs.keep_alive()
            assert [item.key for item in (await store.range("/live/")).items] == ["/live/2"]

        world.run(scenario())

    # -- several clients -------------------------------------------------------------------------------

    def test_of_many_who_take_a_key_at_once_one_gets_it(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            stores = [await world.open(name) for name in "abc"]
            results = await asyncio.gather(
                *(
                    stores[n % 3].txn([Compare("/controller", 0)], [Put("/controller", b"%d" % n)])
                    for n in range(30)
                )
            )
            winners = [n for n, result in enumerate(results) if result.succeeded]
            assert len(winners) == 1
            assert (await stores[0].range("/controller")).items[0].value == b"%d" % winners[0]

        world.run(scenario())

    def test_concurrent_clients_see_a_linearizable_store(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            clock = itertools.count()
            history = StoreHistory(now=lambda: float(next(clock)))
            stores = [await world.open(name) for name in "abc"]
            clients = [history.recording(store, name) for store, name in zip(stores, "abc", strict=True)]
            total = 6 * world.increments
            watching = [asyncio.create_task(_follow(client, "/n", total)) for client in clients]
            await asyncio.gather(
                *(_increment(client, name, world.increments) for client in clients for name in "xy")
            )
            witness = await _collect(stores[0], total)
            for task in watching:
                await task
            assert int((await clients[2].range("/n")).items[0].value.split(b" ")[0]) == total
            assert history.violations(witness) == []
            assert len(witness) == total

        world.run(scenario())

    def test_closing_refuses_what_comes_later_and_leaves_the_other_clients_alone(
        self, world: StoreWorld
    ) -> None:
        async def scenario() -> None:
            store, other = await world.open("a"), await world.open("b")
            await store.txn([], [Put("/a", b"1")])
            session = await store.session(world.ttl_ms)
            await store.close()
            await store.close()
            for asked in (
                store.txn([], [Put("/a", b"2")]),
                store.range("/"),
                store.session(world.ttl_ms),
                session.end(),
            ):
                with pytest.raises(StoreUnavailable):
                    await asked
            assert (await other.range("/a")).items[0].value == b"1"

        world.run(scenario())

    def test_a_caller_who_gives_up_does_not_take_the_transaction_back(self, world: StoreWorld) -> None:
        async def scenario() -> None:
            store = await world.open()
            began = asyncio.Event()

            async def ask() -> None:
                began.set()
                await store.txn([], [Put("/a", b"1")])

            asked = asyncio.ensure_future(ask())
            await began.wait()
            asked.cancel()
            watch = store.watch("/", 0)
            assert (await anext(watch)).events[0].key == "/a"

        world.run(scenario())


async def _increment(store: MetaStore, name: str, times: int) -> None:
    """Add one to a counter `times` times by compare-and-set; every value is unique."""
    done = 0
    attempt = 0
    while done < times:
        attempt += 1
        items = (await store.range("/n")).items
        count, revision = (int(items[0].value.split(b" ")[0]), items[0].mod_revision) if items else (0, 0)
        value = f"{count + 1} {name} {done} {attempt}".encode()
        try:
            done += (await store.txn([Compare("/n", revision)], [Put("/n", value)])).succeeded
        except OutcomeUnknown:
            raise AssertionError("no fault was asked for") from None


async def _follow(store: MetaStore, prefix: str, count: int) -> None:
    watch = store.watch(prefix, 0)
    for _ in range(count):
        await anext(watch)


async def _collect(store: MetaStore, count: int) -> list[WatchBatch]:
    watch = store.watch("", 0)
    return [await anext(watch) for _ in range(count)]
