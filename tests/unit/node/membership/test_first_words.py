"""Questions of a broker to the metadata store before it registers: whose it is, and whether its id is taken."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from data_plane.metadata import broker_records
from data_plane.metadata.broker_records import LiveRecord
from data_plane.metadata.features import HIGHEST, Supported
from data_plane.metadata.port import (
    Change,
    Compare,
    KeyValue,
    OutcomeUnknown,
    StoreUnavailable,
    TxnResult,
)
from data_plane.node.membership.cluster_id import check_level, ensure_cluster
from data_plane.node.membership.only_one import IdTaken, ensure_only_one
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from penstock.contract.errors import ConfigurationError
from tests.unit.controller.setup import Store
from tests.unit.node.storage import CONFIG

pytestmark = pytest.mark.pure  # one object stands in for the store and for the view of it

INSTANT_S = 0.001
"""Less than any pause."""
SESSION_S = CONFIG.timings.session_ttl_ms / 1_000


class Meta:
    """A store, and the view of it. `failures` are raised by the next questions, and `answers` stand before them."""

    def __init__(self, brokers: Sequence[int] = ()) -> None:
        self.kept = Store(brokers)
        self.image = self.kept.image
        self.failures: list[Exception | None] = []
        self.loaded = 0

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, StoreUnavailable):
            raise failure
        applied = self.kept.txn(compares, changes)
        if failure is not None:
            raise failure
        return TxnResult(applied, self.kept.revision)

    async def load(self) -> None:
        self.loaded += 1

    async def range(self, prefix: str) -> Any:
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        items = [item for key, item in sorted(self.kept.items.items()) if key.startswith(prefix)]
        return Listing(items)


class Listing:
    def __init__(self, items: list[KeyValue]) -> None:
        self.items = items


def ensured(meta: Meta, config: Any = CONFIG) -> None:
    loop = SimLoop(1)
    try:
        loop.run_until_complete(ensure_cluster(config, cast(Any, meta), cast(Any, meta)))
    finally:
        loop.close()


@pytest.mark.parametrize("failures", [[], [StoreUnavailable("away")], [OutcomeUnknown("lost")]])
def test_the_first_broker_begins_the_cluster_at_its_highest_level_once(
    failures: list[Exception | None],
) -> None:
    meta = Meta()
    meta.failures = failures
    ensured(meta)
    assert (meta.image.cluster_id, meta.image.level) == (CONFIG.cluster_id, HIGHEST)
    revision = meta.kept.revision
    ensured(meta)
    assert meta.kept.revision == revision, "the next one only looks"


def test_a_store_of_another_cluster_or_of_another_level_is_refused() -> None:
    meta = Meta()
    ensured(meta)
    with pytest.raises(ConfigurationError, match="the metadata store belongs to 'test'"):
        ensured(meta, replace(CONFIG, cluster_id="other"))
    for lowest, highest in ((HIGHEST + 1, HIGHEST + 2), (1, HIGHEST - 1)):
        config = replace(CONFIG, supported=Supported(version="9", lowest=lowest, highest=highest))
        with pytest.raises(ConfigurationError, match=f"level {HIGHEST}"):
            ensured(meta, config)
    check_level(
        replace(CONFIG, supported=Supported(version="9", lowest=HIGHEST, highest=HIGHEST)), meta.image
    )


class Starting:
    """A broker 1 that starts with its own log directory while broker 1 is registered with `directory-1`."""

    def __init__(self, directory_id: str = "mine") -> None:
        self.meta = Meta([1])
        self.loop = SimLoop(1)
        self._directory_id = directory_id
        self.key = broker_records.live_key(CONFIG.broker_id)

    async def _ends_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        del self.meta.kept.items[self.key]

    def waited_s(
        self, *, ends_after_s: float | None = None, failures: Sequence[Exception | None] = ()
    ) -> float:
        self.meta.failures = list(failures)

        async def story() -> None:
            ending = None if ends_after_s is None else asyncio.create_task(self._ends_after(ends_after_s))
            await ensure_only_one(
                CONFIG, self._directory_id, self.meta.image, cast(Any, self.meta), SimClock(self.loop)
            )
            if ending is not None:
                await ending

        try:
            self.loop.run_until_complete(story())
            return self.loop.time()
        finally:
            self.loop.close()


def test_an_id_that_no_one_has_or_the_same_directory_has_is_taken_at_once() -> None:
    assert Starting("directory-1").waited_s() < INSTANT_S
    unknown = Starting()
    unknown.meta = Meta([2])
    assert unknown.waited_s() < INSTANT_S
    fenced = Starting()
    assert fenced.meta.kept.txn((), ())
    fenced.meta = Meta()
    fenced.meta.kept.broker(1)
    assert fenced.waited_s() < INSTANT_S


def test_a_registration_of_another_directory_is_waited_for_until_its_session_ends() -> None:
    for ends_after_s in (0.5, 1.5 * SESSION_S):
        waited_s = Starting().waited_s(ends_after_s=ends_after_s)
        assert ends_after_s <= waited_s <= ends_after_s + 2 * CONFIG.timings.heartbeat_ms / 1_000


def test_one_that_is_kept_alive_for_two_sessions_is_another_broker() -> None:
    starting = Starting()
    with pytest.raises(IdTaken, match="broker 1 runs already, with another log directory"):
        starting.waited_s(ends_after_s=2 * SESSION_S + 1)
    silent = [StoreUnavailable("away")] * 20
    assert Starting().waited_s(ends_after_s=2 * SESSION_S + 1, failures=[None, *silent]) > 2 * SESSION_S, (
        "while the store is away nothing shows that it lives"
    )


def test_a_registration_that_is_by_then_of_this_directory_is_its_own() -> None:
    starting = Starting()
    record = LiveRecord(incarnation="i", directory_id="mine").encode()
    items = starting.meta.kept.items
    items[starting.key] = replace(items[starting.key], value=record)
    assert starting.waited_s() < INSTANT_S
