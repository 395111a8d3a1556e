"""Faults of whole hosts and zones, of disks and clocks of several hosts, and of certificates."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from chaos.blows import between, disk_of, lose_power
from chaos.faults import Kind, Strike
from hosts.cluster import Cluster
from hosts.etcd import Etcd
from hosts.ground import ZONES
from hosts.host import Host

_APART_MS = (60_000.0, 2_400_000.0)
_SERVES_S = 60.0
_POLL_S = 0.1


class ZoneFaults:
    """Of one run. What happens before a fault's `yield` goes on until what stands behind it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def by_kind(self) -> Mapping[Kind, Callable[[Strike], AbstractAsyncContextManager[str]]]:
        return {
            Kind.HOST_LOST: self._host_lost,
            Kind.ZONE_LOST: self._zone_lost,
            Kind.ZONE_CUT_INWARDS: self._zone_cut,
            Kind.ZONE_CUT_OUTWARDS: self._zone_cut,
            Kind.DISK_PULLED: self._disk_pulled,
            Kind.CLOCKS_APART: self._clocks_apart,
            Kind.STORE_LEADER_CUT: self._store_leader_cut,
            Kind.CERTIFICATES_RENEWED: self._certificates_renewed,
            Kind.CA_CHANGED: self._ca_changed,
        }

    def _host(self, strike: Strike) -> Host:
        hosts = self._cluster.broker_hosts
        return hosts[strike.pick % len(hosts)]

    def _zone(self, strike: Strike) -> tuple[str, Sequence[Host]]:
        zone = ZONES[strike.pick % len(ZONES)]
        return zone, self._cluster.ground.of_zone(zone)

    @asynccontextmanager
    async def _host_lost(self, strike: Strike) -> AsyncIterator[str]:
        """Every broker of a host is killed at once."""
        host = self._host(strike)
        await asyncio.to_thread(host.fail)
        yield f"host {host.name}"
        host.come_back()

    @asynccontextmanager
    async def _zone_lost(self, strike: Strike) -> AsyncIterator[str]:
        """All hosts of a zone lose their power at once: its brokers, and its node of etcd."""
        zone, hosts = self._zone(strike)
        await asyncio.to_thread(lambda: lose_power(hosts))
        yield f"{zone}: {', '.join(host.name for host in hosts)}"
        for host in hosts:
            host.come_back()

    @asynccontextmanager
    async def _zone_cut(self, strike: Strike) -> AsyncIterator[str]:
        """Clients still reach a zone that the others do not reach, or that does not reach the others."""
        zone, hosts = self._zone(strike)
        inwards, others = strike.kind is Kind.ZONE_CUT_INWARDS, self._cluster.ground.beyond(zone)
        for host in hosts:
            await asyncio.to_thread(host.wire.cut, inwards=inwards, outwards=not inwards, peers=others)
        yield zone
        for host in hosts:
            await asyncio.to_thread(host.wire.heal)

    @asynccontextmanager
    async def _disk_pulled(self, strike: Strike) -> AsyncIterator[str]:
        """Every call of a host's disk fails while its brokers run; then it is back with what it had durably."""
        host = self._host(strike)
        disk_of(host).cut_power()
        yield f"host {host.name}"
        await asyncio.to_thread(host.fail)
        await asyncio.to_thread(disk_of(host).restore)
        host.come_back()

    @asynccontextmanager
    async def _clocks_apart(self, strike: Strike) -> AsyncIterator[str]:
        """One host's clock is as far behind as another one's is ahead."""
        hosts, apart_ms = self._cluster.broker_hosts, int(between(_APART_MS, strike.strength))
        behind, ahead = hosts[strike.pick % len(hosts)], hosts[(strike.pick + 1) % len(hosts)]
        behind.step_clock(-apart_ms)
        ahead.step_clock(apart_ms)
        yield f"host {behind.name} by {-apart_ms / 1000:+.0f} s, host {ahead.name} by {apart_ms / 1000:+.0f} s"
        for host in (behind, ahead):
            host.step_clock(0)

    @asynccontextmanager
    async def _store_leader_cut(self, strike: Strike) -> AsyncIterator[str]:
        """The etcd node that leads reaches no other host."""
        etcd = self._etcd()
        leader = await asyncio.to_thread(etcd.leader) or etcd.nodes[strike.pick % len(etcd.nodes)]
        await asyncio.to_thread(leader.host.wire.cut)
        yield f"etcd node {leader.host.name}"
        await asyncio.to_thread(leader.host.wire.heal)

    @asynccontextmanager
    async def _certificates_renewed(self, strike: Strike) -> AsyncIterator[str]:
        await asyncio.to_thread(self._cluster.certificates.renew)
        yield "all processes"

    @asynccontextmanager
    async def _ca_changed(self, strike: Strike) -> AsyncIterator[str]:
        """In three steps. Our processes take each of them up by themselves, etcd its authorities at a start."""
        certificates = self._cluster.certificates
        await asyncio.to_thread(certificates.add_ca)
        await self._restart_etcd()
        await asyncio.to_thread(certificates.use_new_ca)
        yield "all processes"
        await asyncio.to_thread(certificates.drop_old_ca)
        await self._restart_etcd()

    async def _restart_etcd(self) -> None:
        """One node after the other, each once the one before serves again. Raises `TimeoutError`."""
        if self._cluster.etcd is None:
            return
        for node in self._cluster.etcd.nodes:
            node.kept_down = True
            await asyncio.to_thread(node.kill)
            node.start()
            node.kept_down = False
            deadline = time.monotonic() + _SERVES_S
            while not await asyncio.to_thread(node.serves):
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"etcd node {node.host.name} does not serve {_SERVES_S:g} s after its start"
                    )
                await asyncio.sleep(_POLL_S)

    def _etcd(self) -> Etcd:
        etcd = self._cluster.etcd
        assert etcd is not None, "such a fault is struck with etcd alone"
        return etcd
