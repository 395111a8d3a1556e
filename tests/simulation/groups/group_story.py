"""One seed of a group in simulation: brokers and members fall, are paused and cut off; then all comes to rest."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

from data_plane.testkit.cluster import SimBroker, SimCluster
from data_plane.testkit.group_readers import GroupReaders, Life
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.sealed import sealed
from data_plane.testkit.swarm import GROUPS_PLAN
from data_plane.testkit.timeline import Timeline
from penstock.asyncio import Client
from penstock.contract.errors import Belief, PenstockError
from penstock.contract.ids import SYSTEM_TENANT
from tests.simulation.plans import plan_of

PARTITIONS = 4
MEMBERS = 3
ROUNDS = 10
BOOT_S, REST_S, TIME_LIMIT_S = 60.0, 60.0, 400.0
_LOOK_S = 0.2


class GroupStory:
    def __init__(self, seed: int, rounds: int = ROUNDS) -> None:
        self._rounds = rounds
        plan = plan_of(seed, (), ())
        orders = replace(plan.topics[0], name="orders", partitions=PARTITIONS)
        self.plan = replace(plan, topics=(orders,), producers=(), consumers=0, sdk_consumers=30)
        self.loop = SimLoop(seed, put_off_chance=plan.put_off_chance, time_limit_s=TIME_LIMIT_S)
        self.timeline = Timeline(self.loop.time)
        self._rng = random.Random(f"{seed}/group story")
        self._producing = True

    def run(self) -> Life:
        """Raises `AssertionError` with the timeline's end when something does not hold."""
        try:
            with sealed():
                self.loop.run_until_complete(self._story())
            self.life.trace_hash = self.loop.trace_hash
            return self.life
        finally:
            self.loop.close()

    async def _boot(self) -> SimCluster:
        """Three brokers that serve the topic and coordinate groups."""
        cluster = self.cluster = SimCluster(self.loop, self.plan, self.timeline)
        for broker in cluster.brokers:
            cluster.start(broker)
        set_up = asyncio.create_task(cluster.set_up())
        await self._until("the boot", lambda: set_up.done() and cluster.all_ready(), BOOT_S)
        set_up.result()
        await cluster.create_topic(GROUPS_PLAN, SYSTEM_TENANT)
        await asyncio.sleep(1.0)
        self.readers = GroupReaders(cluster, "orders", PARTITIONS, self._rng)
        return cluster

    @property
    def life(self) -> Life:
        return self.readers.life

    async def _story(self) -> None:
        cluster = await self._boot()
        producing = self.readers.spawn(self._produce)
        watching = self.readers.start(MEMBERS)
        await self._until("a first message is read", lambda: bool(self.life.delivered), REST_S)
        for _ in range(self._rounds):
            await self._hurt(cluster)
            await asyncio.sleep(self._rng.uniform(0.5, 3.0))
        cluster.heal()
        for member in self.readers.members:
            self.loop.resume(member.process)
        await asyncio.sleep(5.0)
        self._producing = False
        await self._until("every acknowledged message is delivered", self._all_delivered, REST_S)
        await self._until("everything is committed", self._all_committed, REST_S)
        await self._until("everybody has his share", self.readers.shared, REST_S)
        assert producing.alive
        assert watching.alive
        nodes = [broker.node for broker in cluster.brokers if broker.node is not None]
        self.life.shortened = sum(node.stats.group_logs_shortened for node in nodes)

    async def _until(self, what: str, holds: Callable[[], bool], seconds: float) -> None:
        deadline = self.loop.time() + seconds
        while not holds():
            if self.loop.time() > deadline:
                lines = "\n".join([*self.life.faults, *self.timeline.lines()[-30:]])
                raise AssertionError(f"after {seconds:g} s still not: {what}\n{self.life}\n{lines}")
            await asyncio.sleep(_LOOK_S)

    async def _produce(self, client: Client) -> None:
        producer = client.producer(acks="all", compression="none", delivery_timeout_ms=60_000)
        number = 0
        while True:
            await asyncio.sleep(self._rng.expovariate(20.0))
            if not self._producing:
                continue
            number += 1
            try:
                delivery = await producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
                receipt = await delivery
            except PenstockError as error:
                assert error.belief in (Belief.UNKNOWN, Belief.NOT_APPLIED)
                continue
            self.life.acknowledged.setdefault(receipt.partition, set()).add(receipt.offset)

    # -- what happens to them -----------------------------------------------------------------------------

    async def _hurt(self, cluster: SimCluster) -> None:
        rng = self._rng
        broker, member = rng.choice(cluster.brokers), rng.choice(self.readers.members)
        fault = rng.choice(("kill", "pause", "cut", "member ends", "member sleeps", "member joins"))
        self.life.faults.append(f"{self.loop.time():.2f} {fault} {broker.host} {member.process}")
        for_s = rng.uniform(0.5, 5.0)
        if fault in ("kill", "pause", "cut"):
            await self._hurt_broker(cluster, broker, fault, for_s)
        else:
            await self.readers.hurt_member(member, fault, for_s)

    async def _hurt_broker(self, cluster: SimCluster, broker: SimBroker, fault: str, for_s: float) -> None:
        if fault == "kill":
            cluster.kill(broker)
        elif fault == "pause":
            cluster.pause(broker)
        else:
            cluster.isolate(broker)
        await asyncio.sleep(for_s)
        if fault == "kill":
            cluster.start(broker)
        elif fault == "pause":
            cluster.resume(broker)
        else:
            cluster.rejoin(broker)
        await self._until(f"{broker.host} is back", cluster.all_ready, REST_S)

    # -- what must hold in the end ------------------------------------------------------------------------

    def _all_delivered(self) -> bool:
        read = self.life.delivered
        return all(offsets <= read.get(number, set()) for number, offsets in self.life.acknowledged.items())

    def _all_committed(self) -> bool:
        ends = {number: max(offsets) + 1 for number, offsets in self.life.delivered.items()}
        return self.life.committed == ends
