"""Both stores do what a dictionary with a revision counter does, whatever is asked of them in one order."""

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.broker.sqlite_store import SqliteStore
from data_plane.metadata.port import (
    Compare,
    Delete,
    Event,
    KeyValue,
    MetaStore,
    Put,
    RangeResult,
    Session,
    SessionLost,
    TxnResult,
    WatchBatch,
)
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.store import SimulatedStore

KEYS = ("/a", "/a/1", "/b", "/live/1", "/é")
SESSIONS = 3


@dataclass(frozen=True)
class Write:
    """Changes of some keys: (value or None to delete, session slot or -1), under compares that hold or
    not."""

    changes: tuple[tuple[str, bytes | None, int], ...]
    compared: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class List:
    prefix: str


@dataclass(frozen=True)
class EndSession:
    slot: int


values = st.binary(max_size=8)
changes = st.lists(
    st.tuples(st.sampled_from(KEYS), st.none() | values, st.integers(-1, SESSIONS - 1)),
    max_size=4,
    unique_by=lambda change: change[0],
)
compared = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([True, True, True, False])), max_size=2)
steps = st.lists(
    st.builds(Write, changes.map(tuple), compared.map(tuple))
    | st.builds(List, st.sampled_from(["", "/", "/a", "/live/", "/none"]))
    | st.builds(EndSession, st.integers(0, SESSIONS - 1)),
    max_size=25,
)
Step = Write | List | EndSession


@dataclass
class Model:
    """The truth. `items`: key to (value, mod_revision, session slot)."""

    revision: int = 0
    items: dict[str, tuple[bytes, int, int]] = field(default_factory=dict)
    ended: dict[int, bool] = field(default_factory=dict)
    history: list[WatchBatch] = field(default_factory=list)

    def mod_revision(self, key: str) -> int:
        return self.items[key][1] if key in self.items else 0

    def write(self, step: Write) -> TxnResult | None:
        """None: a session is lost."""
        if not all(right for _, right in step.compared):
            return TxnResult(False, self.revision)
        if any(value is not None and self.ended.get(slot, False) for _, value, slot in step.changes):
            return None
        self.commit([c for c in step.changes if c[1] is not None or c[0] in self.items])
        return TxnResult(True, self.revision)

    def end(self, slot: int) -> None:
        self.ended[slot] = True
        self.commit([(key, None, -1) for key in sorted(self.items) if self.items[key][2] == slot])

    def commit(self, effective: list[tuple[str, bytes | None, int]]) -> None:
        if not effective:
            return
        self.revision += 1
        for key, value, slot in effective:
            if value is None:
                del self.items[key]
            else:
                self.items[key] = (value, self.revision, slot)
        events = tuple(Event(key, value, self.revision) for key, value, _ in effective)
        self.history.append(WatchBatch(self.revision, events))


async def follow_the_model(store: MetaStore, asked: list[Step]) -> None:
    model = Model()
    sessions: list[Session] = [await store.session(60_000) for _ in range(SESSIONS)]
    watch = store.watch("/", 0)
    for step in asked:
        if isinstance(step, Write):
            compares = [Compare(k, model.mod_revision(k) if right else 10**6) for k, right in step.compared]
            expected = model.write(step)
            try:
                result = await store.txn(
                    compares,
                    [
                        Delete(key)
                        if value is None
                        else Put(key, value, sessions[slot].session_id if slot >= 0 else 0)
                        for key, value, slot in step.changes
                    ],
                )
            except SessionLost:
                result = None
            assert result == expected
        elif isinstance(step, EndSession):
            model.end(step.slot)
            await sessions[step.slot].end()
        else:
            items = tuple(
                KeyValue(key, value, revision, sessions[slot].session_id if slot >= 0 else 0)
                for key, (value, revision, slot) in sorted(model.items.items())
                if key.startswith(step.prefix)
            )
            assert await store.range(step.prefix) == RangeResult(model.revision, items)
    assert [await anext(watch) for _ in model.history] == model.history


@given(steps, st.integers(0, 1000))
def test_the_simulated_store_follows_the_model(asked: list[Step], seed: int) -> None:
    loop = SimLoop(seed, put_off_chance=0.1)

    async def whole() -> None:
        await follow_the_model(SimulatedStore(random.Random(seed)).client("a"), asked)

    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()


@settings(max_examples=40)
@given(steps)
def test_the_sqlite_store_follows_the_model(asked: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(with_sqlite(Path(directory) / "m.db", lambda store: follow_the_model(store, asked)))


async def with_sqlite(path: Path, scenario: Callable[[MetaStore], Awaitable[None]]) -> None:
    store = await SqliteStore.open(path)
    try:
        async with asyncio.timeout(60):
            await scenario(store)
    finally:
        await store.close()


@settings(max_examples=20)
@given(st.lists(steps.map(lambda asked: [s for s in asked if isinstance(s, Write)]), min_size=2, max_size=3))
def test_a_group_committed_together_is_the_same_as_one_after_the_other(asked: list[list[Write]]) -> None:
    """Everything is submitted at once, so that it shares commits; one client's own order is kept."""

    async def scenario(store: MetaStore) -> None:
        flat = [step for writes in asked for step in writes]
        model = Model()
        expected = [model.write(step) for step in flat if all(slot < 0 for _, _, slot in step.changes)]
        # Compares are made against the model beforehand, so the outcome of each is known before any is sent.
        model = Model()
        transactions = []
        for step in flat:
            if all(slot < 0 for _, _, slot in step.changes):
                compares = [
                    Compare(k, model.mod_revision(k) if right else 10**6) for k, right in step.compared
                ]
                changes = [
                    Delete(key) if value is None else Put(key, value) for key, value, _ in step.changes
                ]
                transactions.append(store.txn(compares, changes))
                model.write(step)
        assert await asyncio.gather(*transactions) == expected
        assert [(i.key, i.value, i.mod_revision) for i in (await store.range("")).items] == [
            (key, value, revision) for key, (value, revision, _) in sorted(model.items.items())
        ]

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(with_sqlite(Path(directory) / "m.db", scenario))
