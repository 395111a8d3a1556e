"""The store on etcd keeps the MetaStore contract."""

import asyncio
from collections.abc import Awaitable, Iterator
from itertools import count

import pytest

from data_plane.broker.etcd_store import EtcdStore
from data_plane.etcd.endpoints import EtcdConfig
from data_plane.metadata.port import MetaStore
from tests.unit.metadata.store_contract import StoreContract, StoreWorld
from tests.waiting import PATIENCE_S

from ..etcd_servers import EtcdServers, etcd_servers

pytestmark = pytest.mark.processes

_namespaces = count()


class EtcdWorld(StoreWorld):
    ttl_ms = 2_000
    prolongations = 3
    increments = 10

    def __init__(self, endpoints: tuple[str, ...]) -> None:
        self._endpoints = endpoints
        self._namespace = f"contract-{next(_namespaces)}"
        self._stores: list[EtcdStore] = []

    def run(self, scenario: Awaitable[None]) -> None:
        async def whole() -> None:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await scenario
            finally:
                await self._end_sessions()
                for store in self._stores:
                    await store.close()

        asyncio.run(whole())

    async def open(self, client: str = "a") -> MetaStore:
        store = EtcdStore(EtcdConfig(endpoints=self._endpoints), self._namespace)
        self._stores.append(store)
        return store

    async def pass_ms(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def forget_history(self, store: MetaStore) -> None:
        assert isinstance(store, EtcdStore)
        await store.client.compact((await store.client.get(b"-"))[1])

    async def _end_sessions(self) -> None:
        """Expiring later they would raise the revision under another test."""
        store = EtcdStore(EtcdConfig(endpoints=self._endpoints), self._namespace)
        self._stores.append(store)
        sessions = {item.session_id: None for item in (await store.range("")).items if item.session_id}
        for lease in sessions:
            await store.client.revoke(lease)


@pytest.fixture(scope="module")
def servers() -> Iterator[EtcdServers]:
    with etcd_servers() as running:
        yield running


class TestEtcdStore(StoreContract):
    @pytest.fixture
    def world(self, servers: EtcdServers) -> StoreWorld:
        return EtcdWorld(servers.endpoints)
