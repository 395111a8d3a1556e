"""Which protocol step a broker is in, as seen from outside, and how to bring a cluster there."""

import asyncio
import random
from collections.abc import Callable, Iterator

from data_plane.log.layout import LOG_SUFFIX, STAMPS_SUFFIX
from data_plane.node.replicas.replica import Replica
from data_plane.testkit.cluster import BrokerState, SimBroker, SimCluster
from data_plane.testkit.faults import Step
from penstock.contract.ids import NO_BROKER

_LOOK_S = (0.001, 0.004)
"""Between two looks while a step is waited for."""
_TAKEN = {Step.ROLL: 0.5, Step.TRUNCATION: 0.5, Step.BOOT: 0.1}
"""Chance that a disk operation of the step is the one struck: so that not only the first ever is."""


class StepWatch:
    """Knows what each broker is doing now. Sees rolls and cuts through the disk hook."""

    def __init__(self, cluster: SimCluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._rolled: dict[SimBroker, str] = {}
        """Brokers that created a segment's file, until its directory is synced."""
        self._armed: tuple[Step, Callable[[SimBroker], bool]] | None = None
        cluster.disk_hook = self._disk_operation

    def doing(self, broker: SimBroker, step: Step) -> bool:
        """Is the broker in this step?"""
        if broker.state is not BrokerState.UP or broker.node is None:
            return step is Step.BOOT and broker.state is BrokerState.UP
        if step is Step.BOOT:
            return not broker.node.ready
        if not broker.node.ready:
            return False
        if step is Step.ROLL:
            return broker in self._rolled
        if step is Step.IDLE:
            # That the name of a segment's file waits for the next checkpoint is no work.
            return not any(self.doing(broker, other) for other in Step if other not in (Step.IDLE, Step.ROLL))
        return any(self._replica_doing(replica, step) for replica in _replicas(broker))

    def _replica_doing(self, replica: Replica, step: Step) -> bool:
        leading, log = replica.leading, replica.log
        if step is Step.PRODUCE:
            return leading is not None and leading.high_watermark < log.log_end_offset
        if step is Step.TRUNCATION:
            return replica.busy
        if step is Step.IN_SYNC_CHANGE:
            return leading is not None and leading.maximal != leading.record.in_sync
        if step is Step.ELECTION:
            return self._without_leader(replica)
        return step is Step.CATCH_UP and (self._lags(replica) if leading is None else self._outruns(replica))

    def _without_leader(self, replica: Replica) -> bool:
        """No broker serves the partition as its leader in the epoch that this replica knows."""
        record = replica.record
        if record is None or record.leader == NO_BROKER:
            return record is not None
        leader = self._replica_on(replica, record.leader)
        return leader is None or leader.leading is None or not leader.leading.ready

    def _lags(self, replica: Replica) -> bool:
        if replica.following is None:
            return False
        leader = self._replica_on(replica, replica.following.leader)
        return leader is not None and replica.log.log_end_offset < leader.log.high_watermark

    def _outruns(self, replica: Replica) -> bool:
        """A running follower outside the in-sync set has not got everything committed yet."""
        leading = replica.leading
        if leading is None:
            return False
        followers = (broker for broker in leading.record.replicas if broker not in leading.record.in_sync)
        return any(
            (other := self._replica_on(replica, broker)) is not None
            and other.log.log_end_offset < leading.high_watermark
            for broker in followers
        )

    def _replica_on(self, replica: Replica, broker_id: int) -> Replica | None:
        """The same partition's replica on another broker."""
        node = self._cluster.broker(broker_id).node
        return None if node is None else node.replicas.by_partition.get(replica.where)

    # -- waiting for a step ---------------------------------------------------------------------------

    async def wait_for(
        self, step: Step, may: Callable[[SimBroker], bool], timeout_s: float
    ) -> SimBroker | None:
        """The first allowed broker found in the step; None when none was within the time."""
        deadline = self._cluster.loop.time() + timeout_s
        while self._cluster.loop.time() < deadline:
            brokers = [broker for broker in self._cluster.brokers if may(broker) and self.doing(broker, step)]
            if brokers:
                return self._rng.choice(brokers)
            await asyncio.sleep(self._rng.uniform(*_LOOK_S))
        return None

    async def strike_within(self, step: Step, strike: Callable[[SimBroker], bool], timeout_s: float) -> bool:
        """Arm `strike` for the disk operation that makes the step; it runs in the middle of the broker's own step.

        `strike` says whether it took that broker. False when nothing came within the time.
        """
        done = asyncio.Event()

        def struck(broker: SimBroker) -> bool:
            if strike(broker):
                done.set()
                return True
            return False

        self._armed = (step, struck)
        try:
            async with asyncio.timeout(timeout_s):
                await done.wait()
        except TimeoutError:
            return False
        finally:
            self._armed = None
        return True

    def _disk_operation(self, broker: SimBroker, kind: str, path: str) -> None:
        step: Step | None = None
        if kind == "create" and path.endswith(LOG_SUFFIX):
            step = Step.ROLL
            self._rolled[broker] = path.rpartition("/")[0]
        elif kind == "sync directory" and self._rolled.get(broker) == path:
            step = Step.ROLL
            del self._rolled[broker]
        elif kind == "truncate" and path.endswith((LOG_SUFFIX, STAMPS_SUFFIX)):
            step = Step.TRUNCATION
        elif broker.node is None or not broker.node.ready:
            step = Step.BOOT
        if step is None or self._armed is None or self._armed[0] is not step:
            return
        if self._rng.random() < _TAKEN[step] and self._armed[1](broker):
            self._armed = None


class Provoker:
    """Brings about steps that are rare by themselves, with harmless faults only: kills, pauses and cuts."""

    def __init__(
        self,
        cluster: SimCluster,
        rng: random.Random,
        kill: Callable[[SimBroker], bool],
        spares: Callable[[str, SimBroker], bool],
    ) -> None:
        """`kill` kills a broker if that is within the promise; `spares` is asked before a broker is hurt."""
        self._cluster = cluster
        self._rng = rng
        self._kill = kill
        self._spares = spares

    async def provoke(self, step: Step | None) -> None:
        """Begin what leads to the step, if one is given; it comes about soon after."""
        if step is Step.BOOT:
            await self._restart_soon()
        elif step is Step.ELECTION:
            await self._silence_a_leader()
        elif step in (Step.CATCH_UP, Step.IN_SYNC_CHANGE):
            await self._let_one_lag()
        elif step is Step.TRUNCATION:
            await self._part_a_leader()
        elif step is Step.IDLE:
            self._cluster.lull_until_s = self._cluster.loop.time() + self._rng.uniform(0.5, 1.5)

    async def _restart_soon(self) -> None:
        victim = self._pick(lambda broker: True)
        if victim is not None and not self._spares("killed and started", victim) and self._kill(victim):
            await asyncio.sleep(self._rng.uniform(0.0, 0.5))
            self._cluster.start(victim)

    async def _silence_a_leader(self) -> None:
        victim = self._pick(_leads)
        if victim is not None and not self._spares("a leader is paused", victim):
            self._cluster.pause(victim)
            self._later(self._rng.uniform(1.0, 4.0), self._cluster.resume, victim)

    async def _let_one_lag(self) -> None:
        victim = self._pick(lambda broker: True)
        if victim is not None and not self._spares("paused so that it lags", victim):
            self._cluster.pause(victim)
            lag_s = self._cluster.plan.timings.replica_lag_ms_max / 1000
            await asyncio.sleep(self._rng.choice((0.3, 1.5, min(lag_s, 4.0) + 0.5)))
            self._cluster.resume(victim)

    async def _part_a_leader(self) -> None:
        """Isolate a leader from other brokers, not from clients: what it takes meanwhile must be truncated later."""
        victim = self._pick(_leads)
        if victim is None or self._spares("a leader is isolated from the other brokers", victim):
            return
        others = [broker.host for broker in self._cluster.brokers if broker is not victim]
        for other in others:
            self._cluster.network.cut(victim.host, other)
            self._cluster.network.cut(other, victim.host)
        self._cluster.timeline.note(victim.host, "parted", "from the other brokers")
        await asyncio.sleep(self._rng.uniform(1.5, 3.0))
        for other in others:
            self._cluster.network.heal(victim.host, other)
            self._cluster.network.heal(other, victim.host)

    def _pick(self, wanted: Callable[[SimBroker], bool]) -> SimBroker | None:
        brokers = [broker for broker in self._cluster.brokers if broker.ready and wanted(broker)]
        return self._rng.choice(brokers) if brokers else None

    def _later(self, seconds: float, action: Callable[[SimBroker], None], broker: SimBroker) -> None:
        loop = self._cluster.loop
        loop.call_at(loop.time() + seconds, action, broker, context=loop.outside.context)


def _replicas(broker: SimBroker) -> Iterator[Replica]:
    return iter(()) if broker.node is None else iter(broker.node.replicas.by_partition.values())


def _leads(broker: SimBroker) -> bool:
    return any(replica.leading is not None for replica in _replicas(broker))
