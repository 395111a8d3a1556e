"""Real etcd, one node and three, killed and stopped under load: what clients were told stays linearizable, with every
unknown outcome kept."""

import asyncio
import itertools
import signal
import time
from collections.abc import Awaitable, Callable

import pytest

from data_plane.broker.etcd_store import EtcdStore
from data_plane.etcd.endpoints import EtcdConfig
from data_plane.metadata.port import (
    Compacted,
    Compare,
    MetaStore,
    OutcomeUnknown,
    Put,
    StoreUnavailable,
    WatchBatch,
)
from data_plane.testkit.store_history import StoreHistory
from tests.waiting import PATIENCE_S

from ..etcd_servers import EtcdServers, etcd_servers

pytestmark = [pytest.mark.processes, pytest.mark.slow]

CLIENTS = ("a", "b", "c")
CALL_S = 0.5
MORE = 20
"""Transactions applied before and after each fault."""
FAST_ELECTIONS = ("--heartbeat-interval", "50", "--election-timeout", "500")


class Load:
    """Clients that count by compare-and-set, list and watch, and what they were told."""

    def __init__(self, servers: EtcdServers) -> None:
        self._endpoints = servers.endpoints
        self.history = StoreHistory(now=time.monotonic)
        self.applied = self.unknown = self.refused = 0
        self._stopping = False
        self._advanced = asyncio.Event()
        self.stores = [
            EtcdStore(
                EtcdConfig(endpoints=rotated(servers.endpoints, n), call_s=CALL_S, progress_s=CALL_S), "cell"
            )
            for n in range(len(CLIENTS))
        ]

    async def count(self, client: str, store: MetaStore) -> None:
        for attempt in itertools.count():
            if self._stopping:
                return
            key = f"/n/{attempt % 2}"
            try:
                items = (await store.range(key)).items
                revision = items[0].mod_revision if items else 0
                put = Put(key, f"{client} {attempt}".encode())
                self.applied += (await store.txn([Compare(key, revision)], [put])).succeeded
                self._advanced.set()
            except OutcomeUnknown:
                self.unknown += 1
            except StoreUnavailable:
                self.refused += 1
                await asyncio.sleep(0.02)

    async def follow(self, store: MetaStore) -> None:
        """Watch and resume for ever; a compaction is not among the faults here."""
        position = 0
        while True:
            try:
                async for batch in store.watch("/n/", position):
                    position = batch.revision
            except StoreUnavailable:
                await asyncio.sleep(0.02)
            except Compacted as wrong:
                pytest.fail(f"nothing was compacted: {wrong}")

    async def goes_on(self) -> None:
        """Wait until something more is applied."""
        before = self.applied
        while self.applied < before + MORE:
            self._advanced.clear()
            await self._advanced.wait()

    async def verdict(self) -> list[str]:
        """Sentences about what cannot have been, over the whole history of a store that is whole again."""
        patient = EtcdStore(
            EtcdConfig(endpoints=self._endpoints, call_s=PATIENCE_S, progress_s=PATIENCE_S), "cell"
        )
        try:
            items = (await patient.range("/n/")).items
            last = max(item.mod_revision for item in items)
            witness: list[WatchBatch] = []
            async for batch in patient.watch("", 0):
                witness.append(batch)
                if batch.revision >= last:
                    break
        finally:
            await patient.close()
        return self.history.violations(witness)

    async def under(self, faults: Callable[["Load"], Awaitable[None]]) -> None:
        recording = [
            self.history.recording(store, name) for store, name in zip(self.stores, CLIENTS, strict=True)
        ]
        watching = [asyncio.create_task(self.follow(store)) for store in recording]
        counting = [
            asyncio.create_task(self.count(f"{name}{n}", store))
            for store, name in zip(recording, CLIENTS, strict=True)
            for n in range(2)
        ]
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.goes_on()
                await faults(self)
                await self.goes_on()
                self._stopping = True
                await asyncio.gather(*counting)
                for task in watching:
                    assert not task.done()
                    task.cancel()
                assert await self.verdict() == []
        finally:
            for task in [*watching, *counting]:
                task.cancel()
            await asyncio.gather(*watching, *counting, return_exceptions=True)
            for store in self.stores:
                await store.close()


def rotated(endpoints: tuple[str, ...], by: int) -> tuple[str, ...]:
    by %= len(endpoints)
    return endpoints[by:] + endpoints[:by]


async def stopped(servers: EtcdServers, node: int, load: Load) -> None:
    """Stop a node until somebody's outcome is unknown and as long as a call may take, then let it go on."""
    servers.nodes[node].signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(2 * CALL_S)
    finally:
        servers.nodes[node].signal(signal.SIGCONT)
    await load.goes_on()


async def killed(servers: EtcdServers, node: int, load: Load) -> None:
    servers.nodes[node].kill()
    if len(servers.nodes) > 1:
        await load.goes_on()
    servers.start(servers.nodes[node])
    await asyncio.to_thread(servers.wait_healthy, [servers.nodes[node]])
    await load.goes_on()


@pytest.mark.parametrize("nodes", [1, 3])
def test_etcd_killed_and_stopped_under_load_stays_linearizable(nodes: int) -> None:
    with etcd_servers(nodes, arguments=FAST_ELECTIONS) as servers:

        async def scenario() -> None:
            load = Load(servers)

            async def faults(load: Load) -> None:
                for node in range(nodes):
                    await stopped(servers, node, load)
                for node in range(2):
                    await killed(servers, node % nodes, load)

            await load.under(faults)
            assert load.unknown > 0

        asyncio.run(scenario())
