"""The embedded store keeps the MetaStore contract."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from data_plane.broker.sqlite_store import SqliteStore
from data_plane.metadata.port import MetaStore, Put
from tests.waiting import PATIENCE_S

from .store_contract import StoreContract, StoreWorld

RETAINED = 1_000
_PATIENCE_MS = 60_000
"""On a busy machine three stores are in each other's way for longer than a broker waits."""


class SqliteWorld(StoreWorld):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._now_ms = 1_000_000
        self._stores: list[SqliteStore] = []

    def run(self, scenario: Awaitable[None]) -> None:
        async def whole() -> None:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await scenario
            finally:
                for store in self._stores:
                    await store.close()

        asyncio.run(whole())

    async def open(self, client: str = "a") -> MetaStore:
        store = await SqliteStore.open(
            self._path,
            monotonic_ms=lambda: self._now_ms,
            boot_id="boot",
            retained_revisions=RETAINED,
            busy_ms=_PATIENCE_MS,
        )
        self._stores.append(store)
        return store

    async def pass_ms(self, ms: int) -> None:
        self._now_ms += ms

    async def forget_history(self, store: MetaStore) -> None:
        async def fill(number: int) -> None:
            await store.txn([], [Put(f"/filler/{number}", b"")])

        for _ in range(3):
            await asyncio.gather(*(fill(number) for number in range(RETAINED)))


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> StoreWorld:
        return SqliteWorld(tmp_path / "metadata.db")
