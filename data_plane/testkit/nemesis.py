"""The nemesis: strikes with the faults of the plan at the protocol steps of the plan, within what is promised."""

import asyncio
import random

from data_plane.testkit.cluster import BrokerState, SimBroker, SimCluster
from data_plane.testkit.faults import Combination, FaultKind, ReachedTable, Step
from data_plane.testkit.promise import Promise
from data_plane.testkit.steps import Provoker, StepWatch
from data_plane.testkit.strikes import Strikes
from data_plane.testkit.watcher import Watcher

_WAIT_FOR_STEP_S = 2.5


class Nemesis:
    """`run` strikes until it is cancombinationed; what is still on then is undone by `SimCluster.heal`."""

    def __init__(self, cluster: SimCluster, watcher: Watcher, reached: ReachedTable) -> None:
        self._cluster = cluster
        self._reached = reached
        self._plan = cluster.plan
        self._rng = random.Random(f"{cluster.plan.seed}/nemesis")
        self.promise = Promise(cluster, watcher)
        self._strikes = Strikes(cluster, self.promise, self._rng)
        self._steps = StepWatch(cluster, self._rng)
        self._provoker = Provoker(
            cluster,
            self._rng,
            lambda broker: self.promise.allows(broker, FaultKind.KILL) and self._strikes.kill(broker),
            self._spares,
        )
        self.harms: dict[int, str] = {}
        """What was done to whom and when, by number; provocations count too."""
        self._harms_counted = 0
        self._back_at: dict[SimBroker, float] = {}
        """When a broker that is down may be started again."""
        self.strikes = 0
        self.missed: list[Combination] = []
        """Combinations whose step did not come about in time, or that the promise forbade."""

    @property
    def lies_met(self) -> int:
        """Power cuts of hosts whose disks had lied."""
        return self._strikes.lies_met

    def end(self) -> None:
        """No fault begins or ends any more."""
        self._strikes.over = True

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._start_what_is_down())
            group.create_task(self._strike_for_ever())

    async def _strike_for_ever(self) -> None:
        turn = 0
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / self._plan.fault_gap_s))
            combination = self._plan.combinations[turn % len(self._plan.combinations)]
            turn += 1
            if await self._meet(combination):
                self.strikes += 1
            else:
                self.missed.append(combination)

    async def _start_what_is_down(self) -> None:
        """As an init system: every broker that is down is started again after a while."""
        while True:
            now = self._cluster.loop.time()
            for broker in self._cluster.brokers:
                if broker.state is BrokerState.DOWN:
                    if broker not in self._back_at:
                        self._back_at[broker] = now + self._rng.choice((0.05, 0.5, 2.0)) * self._rng.random()
                    if self._back_at[broker] <= now:
                        del self._back_at[broker]
                        self._cluster.start(broker)
            await asyncio.sleep(0.02)

    # -- meeting a combination -------------------------------------------------------------------------------

    async def _meet(self, combination: Combination) -> bool:
        """Wait for the step, provoke it when it does not come, and strike."""
        if combination.step in (Step.ROLL, Step.TRUNCATION, Step.BOOT) and combination.fault in (
            FaultKind.KILL,
            FaultKind.POWER_CUT,
            FaultKind.ALL_POWER_CUT,
        ):
            provoking = asyncio.create_task(self._provoker.provoke(combination.step))
            met = await self._steps.strike_within(
                combination.step, lambda broker: self._strike_now(broker, combination), 2 * _WAIT_FOR_STEP_S
            )
            await provoking
            return met
        by_itself = combination.step not in (Step.BOOT, Step.TRUNCATION)
        for attempt in range(3):
            step = None if by_itself and attempt == 0 else combination.step
            provoking = asyncio.create_task(self._provoker.provoke(step))
            victim = await self._steps.wait_for(
                combination.step,
                lambda broker: self.promise.allows(broker, combination.fault),
                _WAIT_FOR_STEP_S,
            )
            met = victim is not None and self._strike_now(victim, combination)
            await provoking
            if met:
                return True
        return False

    def _strike_now(self, victim: SimBroker, combination: Combination) -> bool:
        """Strike, without an await between the look at the step and the fault."""
        if not self.promise.allows(victim, combination.fault):
            return False
        if self._spares(str(combination), victim):
            return True
        self._cluster.timeline.note(victim.host, "fault", str(combination))
        struck = self._strikes.strike(combination.fault, victim)
        if struck:
            self._reached.add(combination)
        return struck

    def _spares(self, what: str, victim: SimBroker) -> bool:
        """Count one harm; whether the plan leaves it out."""
        number = self._harms_counted
        self._harms_counted += 1
        if number in self._plan.spared:
            return True
        self.harms[number] = f"{self._cluster.loop.time():.3f} s  {victim.host}  {what}"
        return False
