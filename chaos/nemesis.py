"""Strikes with one fault after the other, within what is promised, and repairs what it did.

What it knows of the promise: a topic that syncs bears everything here; a `replicated` one bears that one broker loses
what it has not synced while all other replicas are in sync, and does not bear that all lose it at once. So before a
fault of the first kind every replica must be in sync, and those of the second kind come when no such topic is written
to any more.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace

from chaos.blows import between, disk_of, lose_power
from chaos.faults import ALL_UNSYNCED_LOST, UNSYNCED_LOST, Aim, Kind, Strike
from chaos.recording import Recorder
from chaos.workload import Workload
from chaos.zone_faults import ZoneFaults
from data_plane.contract.admin_client import AdminClient
from hosts.broker import Broker
from hosts.cluster import TENANT, Cluster
from hosts.etcd import EtcdNode
from hosts.host import Host

STUCK_S = 90.0
"""Far beyond every goal: what does not go on by then, with nothing wrong any more, is stuck."""
_POLL_S = 0.1
_QUIET_S = 0.3
_DISK_LEFT = 8 * 1024
_LOSS = (0.05, 0.3)
_SLOW_US = (50_000, 1_500_000)
_CLOCK_MS = (-3_600_000.0, 3_600_000.0)


class Stuck(Exception):
    """Something does not go on though nothing is wrong any more."""


class Nemesis:
    """Of one run. `strike` returns when the cluster has got over it."""

    def __init__(
        self, cluster: Cluster, workload: Workload, recorder: Recorder, topics: Callable[[], Sequence[str]]
    ) -> None:
        self._cluster = cluster
        self._workload = workload
        self._recorder = recorder
        self._topics = topics
        self._faults: dict[Kind, Callable[[Strike], AbstractAsyncContextManager[str]]] = {
            Kind.KILL: self._kill,
            Kind.PAUSE: self._pause,
            Kind.BOOT_KILL: self._boot_kill,
            Kind.ALL_KILL: self._all_kill,
            Kind.ALL_PAUSE: self._all_pause,
            Kind.CUT: self._cut,
            Kind.CUT_INWARDS: self._cut,
            Kind.CUT_OUTWARDS: self._cut,
            Kind.LEADER_CUT: self._leader_cut,
            Kind.LOSS: self._loss,
            Kind.DISK_FULL: self._disk_full,
            Kind.SYNC_ERROR: self._sync_error,
            Kind.SLOW_DISK: self._slow_disk,
            Kind.POWER_CUT_EXT4: self._power_cut,
            Kind.POWER_CUT_XFS: self._power_cut,
            Kind.ALL_POWER_CUT: self._all_power_cut,
            Kind.CLOCK_STEP: self._clock_step,
            Kind.STORE_CUT: self._store_cut,
            Kind.STORE_KILL: self._store_kill,
            Kind.STORE_PAUSE: self._store_pause,
            Kind.ALL_STORE_KILL: self._all_store_kill,
            **ZoneFaults(cluster).by_kind,
        }

    async def strike(self, strike: Strike) -> None:
        """Raises `Stuck`."""
        if strike.kind in (*UNSYNCED_LOST, *ALL_UNSYNCED_LOST):
            await self._whole("before " + strike.kind.value)
        together = [strike]
        if strike.companion is not None:
            together.append(
                replace(strike, kind=strike.companion, number=-strike.number, pick=strike.pick + 1)
            )
        async with AsyncExitStack() as stack:
            for one in together:
                self._recorder.note(
                    "fault", number=one.number, kind=one.kind.value, aim=one.aim.value, seconds=one.seconds
                )
                whom = await stack.enter_async_context(self._faults[one.kind](one))
                self._recorder.note("struck", number=one.number, whom=whom)
            await asyncio.sleep(strike.seconds)
        healed = self._recorder.note("repaired", number=strike.number)
        await self.writing(f"after {strike}", healed)
        for one in together:
            self._recorder.note("fault over", number=one.number)
        if strike.patient:
            await self._whole(f"after {strike}")
        await asyncio.sleep(_QUIET_S)

    async def writing(self, when: str, since_s: float) -> None:
        """Wait until every partition has acknowledged something that was sent after `since_s`."""
        await self._await(lambda: self._workload.silent_since(since_s), f"no acknowledgement {when}")

    async def _whole(self, when: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STUCK_S
        while found := await self._cluster.desk.ask(
            lambda admin: self._cluster.not_whole(admin, self._topics())
        ):
            if loop.time() > deadline:
                raise Stuck(f"not whole {when} within {STUCK_S:g} s: {'; '.join(found)}")
            await asyncio.sleep(_POLL_S)

    async def whole(self, when: str) -> None:
        """Wait until every replica is in sync. Raises `Stuck`."""
        await self._whole(when)

    async def _await(self, missing: Callable[[], list[str]], otherwise: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STUCK_S
        while found := missing():
            if loop.time() > deadline:
                raise Stuck(f"{otherwise} within {STUCK_S:g} s: {', '.join(found)}")
            await asyncio.sleep(_POLL_S)

    # -- whom --------------------------------------------------------------------------------------------------------

    async def _victim(self, strike: Strike) -> Broker:
        """The broker that fits the aim now."""
        brokers = self._cluster.brokers
        numbers = sorted(brokers)
        if strike.aim is not Aim.ANY:
            numbers = await self._cluster.desk.ask(lambda admin: self._aimed(admin, strike.aim)) or numbers
        return brokers[numbers[strike.pick % len(numbers)]]

    def _aimed(self, admin: AdminClient, aim: Aim) -> list[int]:
        described = self._cluster.describe(admin)
        if described is None:
            return []
        if aim is Aim.CONTROLLER:
            return [described.controller] if described.controller in self._cluster.brokers else []
        own = [p for p in described.partitions if p.tenant == TENANT and p.topic in self._topics()]
        if aim is Aim.LEADER:
            return sorted({p.leader for p in own if p.leader in self._cluster.brokers})
        return sorted({broker for p in own for broker in p.replicas if broker != p.leader})

    def _with_disk(self, strike: Strike, kind: str) -> Host:
        hosts = self._cluster.broker_hosts
        fitting = [host for host in hosts if host.disk is not None and host.disk.kind == kind]
        return fitting[strike.pick % len(fitting)]

    # -- the faults: what happens before `yield` goes on until what stands behind it -----------------------------------

    @asynccontextmanager
    async def _kill(self, strike: Strike) -> AsyncIterator[str]:
        broker = await self._victim(strike)
        broker.kept_down = True
        await asyncio.to_thread(broker.kill)
        yield f"broker {broker.number}"
        self._start(broker)

    def _start(self, *brokers: Broker) -> None:
        for broker in brokers:
            broker.start()
            broker.kept_down = False

    @asynccontextmanager
    async def _pause(self, strike: Strike) -> AsyncIterator[str]:
        broker = await self._victim(strike)
        broker.signal(signal.SIGSTOP)
        yield f"broker {broker.number}"
        broker.signal(signal.SIGCONT)

    @asynccontextmanager
    async def _boot_kill(self, strike: Strike) -> AsyncIterator[str]:
        """Killed, started, killed again at a moment of its boot, and started."""
        broker = await self._victim(strike)
        broker.kept_down = True
        await asyncio.to_thread(broker.kill)
        broker.start()
        yield f"broker {broker.number}"
        await asyncio.to_thread(broker.kill)
        self._start(broker)

    @asynccontextmanager
    async def _all_kill(self, strike: Strike) -> AsyncIterator[str]:
        brokers = list(self._cluster.brokers.values())
        for broker in brokers:
            broker.kept_down = True
            broker.kill_soon()
        for broker in brokers:
            await asyncio.to_thread(broker.wait_gone)
        yield "all brokers"
        self._start(*brokers)

    @asynccontextmanager
    async def _all_pause(self, strike: Strike) -> AsyncIterator[str]:
        brokers = list(self._cluster.brokers.values())
        for broker in brokers:
            broker.signal(signal.SIGSTOP)
        yield "all brokers"
        for broker in brokers:
            broker.signal(signal.SIGCONT)

    @asynccontextmanager
    async def _cut(self, strike: Strike) -> AsyncIterator[str]:
        wire = (await self._victim(strike)).host.wire
        inwards, outwards = strike.kind is not Kind.CUT_OUTWARDS, strike.kind is not Kind.CUT_INWARDS
        await asyncio.to_thread(lambda: wire.cut(inwards=inwards, outwards=outwards))
        yield f"host {wire.name}"
        await asyncio.to_thread(wire.heal)

    @asynccontextmanager
    async def _leader_cut(self, strike: Strike) -> AsyncIterator[str]:
        """Clients and the metadata store still reach its host, brokers of other hosts do not."""
        leaders = await self._cluster.desk.ask(lambda admin: self._aimed(admin, Aim.LEADER)) or sorted(
            self._cluster.brokers
        )
        number = leaders[strike.pick % len(leaders)]
        wire = self._cluster.brokers[number].host.wire
        others = [host.address for host in self._cluster.broker_hosts if host.wire is not wire]
        await asyncio.to_thread(lambda: wire.cut(peers=others))
        yield f"host {wire.name} of broker {number}"
        await asyncio.to_thread(wire.heal)

    @asynccontextmanager
    async def _loss(self, strike: Strike) -> AsyncIterator[str]:
        wire, share = (await self._victim(strike)).host.wire, between(_LOSS, strike.strength)
        await asyncio.to_thread(lambda: wire.lose(share))
        yield f"{share:.0%} of what comes in to {wire.name}"
        await asyncio.to_thread(wire.heal)

    @asynccontextmanager
    async def _disk_full(self, strike: Strike) -> AsyncIterator[str]:
        disk = disk_of((await self._victim(strike)).host)
        await asyncio.to_thread(lambda: disk.fill(_DISK_LEFT))
        yield f"{disk.point}"
        await asyncio.to_thread(disk.drain)

    @asynccontextmanager
    async def _sync_error(self, strike: Strike) -> AsyncIterator[str]:
        """Every sync of one broker fails, which ends it; started again it syncs as ever."""
        broker = await self._victim(strike)
        await asyncio.to_thread(lambda: broker.trace("error=EIO"))
        yield f"broker {broker.number}"
        await asyncio.to_thread(broker.detach)

    @asynccontextmanager
    async def _slow_disk(self, strike: Strike) -> AsyncIterator[str]:
        broker, delay_us = await self._victim(strike), int(between(_SLOW_US, strike.strength**2))
        await asyncio.to_thread(lambda: broker.trace(f"delay_enter={delay_us}"))
        yield f"broker {broker.number}, each sync {delay_us // 1000} ms later"
        await asyncio.to_thread(broker.detach)

    @asynccontextmanager
    async def _power_cut(self, strike: Strike) -> AsyncIterator[str]:
        host = self._with_disk(strike, "ext4" if strike.kind is Kind.POWER_CUT_EXT4 else "xfs")
        await asyncio.to_thread(lambda: lose_power([host]))
        yield f"host {host.name}"
        host.come_back()

    @asynccontextmanager
    async def _all_power_cut(self, strike: Strike) -> AsyncIterator[str]:
        hosts = self._cluster.broker_hosts
        await asyncio.to_thread(lambda: lose_power(hosts))
        yield "all hosts of brokers"
        for host in hosts:
            host.come_back()

    @asynccontextmanager
    async def _clock_step(self, strike: Strike) -> AsyncIterator[str]:
        host, milliseconds = (await self._victim(strike)).host, int(between(_CLOCK_MS, strike.strength))
        host.step_clock(milliseconds)
        yield f"host {host.name} by {milliseconds / 1000:+.0f} s"
        host.step_clock(0)

    # -- those of etcd -------------------------------------------------------------------------------------------------

    def _node(self, strike: Strike) -> EtcdNode:
        nodes = self._nodes()
        return nodes[strike.pick % len(nodes)]

    def _nodes(self) -> list[EtcdNode]:
        return [] if self._cluster.etcd is None else self._cluster.etcd.nodes

    @asynccontextmanager
    async def _store_cut(self, strike: Strike) -> AsyncIterator[str]:
        """Brokers and clients still reach the broker, no node of etcd does."""
        wire = (await self._victim(strike)).host.wire
        addresses = [node.host.address for node in self._nodes()]
        await asyncio.to_thread(lambda: wire.cut(peers=addresses))
        yield f"host {wire.name}"
        await asyncio.to_thread(wire.heal)

    @asynccontextmanager
    async def _store_kill(self, strike: Strike) -> AsyncIterator[str]:
        node = self._node(strike)
        node.kept_down = True
        await asyncio.to_thread(node.kill)
        yield f"etcd node {node.host.name}"
        node.start()
        node.kept_down = False

    @asynccontextmanager
    async def _store_pause(self, strike: Strike) -> AsyncIterator[str]:
        node = self._node(strike)
        node.signal(signal.SIGSTOP)
        yield f"etcd node {node.host.name}"
        node.signal(signal.SIGCONT)

    @asynccontextmanager
    async def _all_store_kill(self, strike: Strike) -> AsyncIterator[str]:
        for node in self._nodes():
            node.kept_down = True
            node.kill_soon()
        for node in self._nodes():
            await asyncio.to_thread(node.wait_gone)
        yield "all etcd nodes"
        for node in self._nodes():
            node.start()
            node.kept_down = False
