"""The simulated store keeps the MetaStore contract."""

import asyncio
import random
from collections.abc import Awaitable, Iterator

import pytest

from data_plane.metadata.port import MetaStore
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.store import SimulatedMetaStore, SimulatedStore

from .store_contract import StoreContract, StoreWorld

VIRTUAL_S = 600


class SimulatedWorld(StoreWorld):
    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._store: SimulatedStore | None = None

    def run(self, scenario: Awaitable[None]) -> None:
        async def whole() -> None:
            self._store = SimulatedStore(random.Random(1))
            async with asyncio.timeout(VIRTUAL_S):
                await scenario

        self._loop.run_until_complete(whole())
        assert self._loop.failures == []

    @property
    def store(self) -> SimulatedStore:
        assert self._store is not None
        return self._store

    async def open(self, client: str = "a") -> SimulatedMetaStore:
        return self.store.client(client)

    async def pass_ms(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def forget_history(self, store: MetaStore) -> None:
        self.store.compact(self.store.revision)


class TestSimulatedStore(StoreContract):
    @pytest.fixture(params=range(3), ids=lambda seed: f"seed{seed}")
    def world(self, request: pytest.FixtureRequest) -> Iterator[StoreWorld]:
        loop = SimLoop(request.param, put_off_chance=0.1)
        yield SimulatedWorld(loop)
        loop.close()
