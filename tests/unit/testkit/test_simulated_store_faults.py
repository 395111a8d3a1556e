"""Faults of the simulated metadata store: each happens, is counted, and tells the client no lie."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable

import pytest

from data_plane.metadata.port import (
    Compacted,
    Compare,
    MetaStore,
    OutcomeUnknown,
    Put,
    SessionLost,
    StoreUnavailable,
)
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.store import SimulatedStore
from data_plane.testkit.store_faults import StoreFaultKind, StoreFaults
from data_plane.testkit.store_history import StoreHistory

TTL_MS = 6_000


def simulate(
    scenario: Callable[[SimulatedStore], Awaitable[None]], *, seed: int = 1, **faults: float
) -> SimulatedStore:
    """Run `scenario` in virtual time; the store, for a look at it afterwards."""
    loop = SimLoop(seed, put_off_chance=0.1)

    async def whole() -> SimulatedStore:
        store = SimulatedStore(random.Random(seed), StoreFaults(**faults))  # type: ignore[arg-type]
        async with asyncio.timeout(3600):
            await scenario(store)
        return store

    try:
        store = loop.run_until_complete(whole())
        assert loop.failures == []
        return store
    finally:
        loop.close()


def test_a_lost_answer_is_an_unknown_outcome_that_was_applied() -> None:
    async def scenario(store: SimulatedStore) -> None:
        with pytest.raises(OutcomeUnknown):
            await store.client("a").txn([], [Put("/a", b"1")])
        assert store.snapshot("/a").items[0].value == b"1"

    assert simulate(scenario, answer_lost_chance=1).reached[StoreFaultKind.ANSWER_LOST] == 1


def test_a_lost_request_is_an_unknown_outcome_that_was_not_applied() -> None:
    async def scenario(store: SimulatedStore) -> None:
        with pytest.raises(OutcomeUnknown):
            await store.client("a").txn([], [Put("/a", b"1")])
        assert store.revision == 0

    assert simulate(scenario, request_lost_chance=1).reached[StoreFaultKind.REQUEST_LOST] == 1


def test_a_lost_listing_is_merely_unavailable() -> None:
    async def scenario(store: SimulatedStore) -> None:
        with pytest.raises(StoreUnavailable):
            await store.client("a").range("/")

    simulate(scenario, answer_lost_chance=1)


def test_a_refused_request_is_not_applied() -> None:
    async def scenario(store: SimulatedStore) -> None:
        with pytest.raises(StoreUnavailable):
            await store.client("a").txn([], [Put("/a", b"1")])
        assert store.revision == 0

    assert simulate(scenario, refused_chance=1).reached[StoreFaultKind.REFUSED] == 1


def test_a_cut_node_cannot_ask_while_the_others_can() -> None:
    async def scenario(store: SimulatedStore) -> None:
        cut, other = store.client("a"), store.client("b")
        store.cut("a")
        with pytest.raises(StoreUnavailable):
            await cut.txn([], [Put("/a", b"1")])
        assert (await other.range("/")).items == ()
        store.heal("a")
        assert (await cut.txn([], [Put("/a", b"1")])).succeeded

    assert simulate(scenario).reached[StoreFaultKind.ASKED_WHILE_CUT] == 1


def test_a_cut_before_the_answer_leaves_the_outcome_unknown() -> None:
    async def scenario(store: SimulatedStore) -> None:
        asked = asyncio.ensure_future(store.client("a").txn([], [Put("/a", b"1")]))
        await _until(lambda: store.revision > 0)
        store.cut("a")
        with pytest.raises(OutcomeUnknown):
            await asked

    simulate(scenario)


def test_a_cut_before_the_arrival_leaves_the_outcome_unknown_too() -> None:
    async def scenario(store: SimulatedStore) -> None:
        asked = asyncio.ensure_future(store.client("a").txn([], [Put("/a", b"1")]))
        await asyncio.sleep(0.05)
        store.cut("a")
        with pytest.raises(OutcomeUnknown):
            await asked
        assert store.revision == 0

    simulate(scenario, slow_chance=1, slow_ms=10_000)


def test_a_cut_breaks_the_watch_and_resuming_brings_what_was_missed() -> None:
    async def scenario(store: SimulatedStore) -> None:
        node, other = store.client("a"), store.client("b")
        watch = node.watch("/", 0)
        await other.txn([], [Put("/n", b"1")])
        assert (await anext(watch)).revision == 1
        store.cut("a")
        await other.txn([], [Put("/n", b"2")])
        store.heal("a")
        await other.txn([], [Put("/n", b"3")])
        with pytest.raises(StoreUnavailable):
            await anext(watch)
        resumed = node.watch("/", 1)
        assert [(await anext(resumed)).revision for _ in range(2)] == [2, 3]

    simulate(scenario)


def test_nothing_follows_what_a_cut_took_from_a_watch() -> None:
    """A short cut loses a push on its way; a later push of the same watch would make a gap."""

    async def scenario(store: SimulatedStore) -> None:
        for _ in range(50):
            watch = store.client("a").watch("/", store.revision)
            seen: list[int] = []
            follower = asyncio.ensure_future(_drain(watch, seen))
            await asyncio.sleep(0.01)
            start = store.revision
            other = store.client("b")
            for _ in range(3):
                await other.txn([], [Put("/n", b"")])
            store.cut("a")
            store.heal("a")
            await other.txn([], [Put("/n", b"")])
            with pytest.raises(StoreUnavailable):
                await follower
            assert seen == list(range(start + 1, start + 1 + len(seen)))

    simulate(scenario, latency_ms=(0.1, 5.0))  # type: ignore[arg-type]


def test_a_cut_watch_resumes_without_a_gap() -> None:
    async def scenario(store: SimulatedStore) -> None:
        client = store.client("a")
        writing = asyncio.ensure_future(_write(store.client("b"), 200))
        seen: list[int] = []
        while len(seen) < 200:
            try:
                await _drain(client.watch("/", seen[-1] if seen else 0), seen, 200)
            except StoreUnavailable:
                continue
        await writing
        assert seen == list(range(1, 201))

    assert simulate(scenario, watch_cut_chance=0.1).reached[StoreFaultKind.WATCH_CUT] > 5


def test_a_delayed_watch_keeps_its_order() -> None:
    async def scenario(store: SimulatedStore) -> None:
        seen: list[int] = []
        following = asyncio.ensure_future(_drain(store.client("a").watch("/", 0), seen, 100))
        await _write(store.client("b"), 100)
        await following
        assert seen == list(range(1, 101))

    assert simulate(scenario, watch_delayed_chance=0.3).reached[StoreFaultKind.WATCH_DELAYED] > 10


def test_a_watch_that_resumes_may_find_its_past_compacted() -> None:
    async def scenario(store: SimulatedStore) -> None:
        await _write(store.client("a"), 5)
        with pytest.raises(Compacted):
            await anext(store.client("a").watch("/", 2))
        store.faults.compacted_chance = 0
        watch = store.client("a").watch("/", 5)
        await _write(store.client("a"), 1)
        assert (await anext(watch)).revision == 6

    assert simulate(scenario, compacted_chance=1).reached[StoreFaultKind.COMPACTED] == 1


def test_a_session_may_expire_early_although_it_is_kept_alive() -> None:
    async def scenario(store: SimulatedStore) -> None:
        session = await store.client("a").session(TTL_MS)
        with pytest.raises(SessionLost):
            while True:
                await session.keep_alive()
                await asyncio.sleep(TTL_MS / 3000)
        assert store.session_ids == ()

    assert simulate(scenario, session_early_chance=0.2).reached[StoreFaultKind.SESSION_EARLY] == 1


def test_a_session_may_expire_late_but_does() -> None:
    async def scenario(store: SimulatedStore) -> None:
        client = store.client("a")
        session = await client.session(TTL_MS)
        await client.txn([], [Put("/live", b"", session.session_id)])
        began = asyncio.get_running_loop().time()
        await _until(lambda: not store.session_ids)
        assert asyncio.get_running_loop().time() - began > TTL_MS / 1000 + 0.2
        assert store.snapshot("/live").items == ()

    assert simulate(scenario, session_late_ms=20_000).reached[StoreFaultKind.SESSION_LATE] == 1


def test_a_crashed_nodes_request_still_arrives_and_its_session_lives_out_its_time() -> None:
    loop = SimLoop(3)

    async def whole() -> None:
        store = SimulatedStore(random.Random(1))
        process = loop.process("a")

        async def live() -> None:
            client = store.client("a")
            session = await client.session(TTL_MS)
            await client.txn([], [Put("/live", b"", session.session_id)])
            await client.txn([], [Put("/last", b"")])

        loop.spawn(process, live())
        await _until(lambda: store.revision > 0)
        loop.crash(process)
        store.crashed("a")
        await asyncio.sleep(TTL_MS / 2000)
        assert store.session_ids != ()
        await asyncio.sleep(TTL_MS / 1000)
        assert store.session_ids == ()
        assert "/live" not in [item.key for item in store.snapshot().items]

    loop.run_until_complete(whole())
    loop.close()


def test_a_paused_node_gets_its_answer_when_it_goes_on() -> None:
    loop = SimLoop(3)

    async def whole() -> None:
        store = SimulatedStore(random.Random(1))
        process = loop.process("a")
        asked = loop.spawn(process, store.client("a").txn([], [Put("/a", b"1")]))
        await asyncio.sleep(0.00005)
        loop.pause(process)
        await asyncio.sleep(5)
        assert store.revision == 1
        assert not asked.done()
        loop.resume(process)
        assert (await asked).succeeded

    loop.run_until_complete(whole())
    loop.close()


def test_under_all_faults_at_once_the_store_stays_linearizable() -> None:
    reached = dict.fromkeys(StoreFaultKind, 0)
    for seed in range(8):
        for kind, count in contended_history(seed).reached.items():
            reached[kind] += count
    assert [kind for kind, count in reached.items() if count == 0] == []


def contended_history(seed: int) -> SimulatedStore:
    """Three nodes that contend under every fault; checked against I16."""
    clock = itertools.count()
    history = StoreHistory(now=lambda: float(next(clock)))

    async def scenario(store: SimulatedStore) -> None:
        async with asyncio.TaskGroup() as group:
            for node in "abc":
                client = history.recording(store.client(node), node)
                group.create_task(_contend(client, node))
                group.create_task(_follow(client))
            group.create_task(_disturb(store))
        assert history.violations(store.history) == [], f"seed {seed}"
        assert store.revision > 60
        assert sum(len(watch.batches) for watch in history.watches) > 60

    return simulate(
        scenario,
        seed=seed,
        slow_chance=0.05,
        refused_chance=0.05,
        request_lost_chance=0.05,
        answer_lost_chance=0.05,
        watch_delayed_chance=0.1,
        watch_cut_chance=0.05,
        compacted_chance=0.2,
        session_early_chance=0.05,
        session_late_ms=5_000,
    )


def test_one_seed_gives_one_history() -> None:
    def trace(seed: int) -> object:
        async def scenario(store: SimulatedStore) -> None:
            async with asyncio.TaskGroup() as group:
                for node in "abc":
                    group.create_task(_contend(store.client(node), node))
                group.create_task(_disturb(store))

        store = simulate(scenario, seed=seed, answer_lost_chance=0.1, slow_chance=0.1)
        return store.history, store.reached

    assert trace(5) == trace(5)
    assert trace(5) != trace(6)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - the time is virtual
        await asyncio.sleep(0.0001)


async def _write(client: MetaStore, times: int) -> None:
    for number in range(times):
        await client.txn([], [Put("/n", b"%d" % number)])


async def _drain(watch: object, seen: list[int], count: int = 10**9) -> None:
    while len(seen) < count:
        seen.append((await anext(watch)).revision)  # type: ignore[call-overload]


async def _contend(client: MetaStore, node: str) -> None:
    """Take, hold and lose a key bound to a session, and count by compare-and-set, whatever goes wrong."""
    session = None
    for attempt in range(60):
        try:
            if session is None:
                session = await client.session(TTL_MS)
            await session.keep_alive()
            held = {item.key: item.mod_revision for item in (await client.range("/")).items}
            value = f"{node} {attempt}".encode()
            await client.txn([Compare("/lock", 0)], [Put("/lock", value, session.session_id)])
            await client.txn(
                [Compare("/n", held.get("/n", 0))], [Put("/n", value), Put(f"/of/{node}", value)]
            )
        except SessionLost:
            session = None
        except (StoreUnavailable, OutcomeUnknown):
            pass
        await asyncio.sleep(0.2)


async def _follow(client: MetaStore) -> None:
    revision, stop_at = 0, asyncio.get_running_loop().time() + 30
    while asyncio.get_running_loop().time() < stop_at:
        try:
            async with asyncio.timeout(2):
                async for batch in client.watch("/", revision):
                    revision = batch.revision
        except (StoreUnavailable, TimeoutError):
            continue
        except Compacted:
            try:
                revision = (await client.range("/")).revision
            except StoreUnavailable:
                continue


async def _disturb(store: SimulatedStore) -> None:
    for node in "abcab":
        await asyncio.sleep(3)
        store.cut(node)
        await asyncio.sleep(1)
        store.heal(node)
