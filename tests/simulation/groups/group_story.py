"""One seed of a group in simulation: brokers and members fall, are paused and cut off; then all comes to rest."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from data_plane.testkit.clock import SimClock
from data_plane.testkit.cluster import SimBroker, SimCluster
from data_plane.testkit.loop import Process, SimLoop
from data_plane.testkit.sdk_clients import SdkTransport
from data_plane.testkit.sealed import sealed
from data_plane.testkit.swarm import USAGE_PLAN
from data_plane.testkit.timeline import Timeline
from data_plane.testkit.transport import SimTransport
from penstock.asyncio import Client
from penstock.asyncio.consumer import Consumer
from penstock.contract.errors import Belief, PenstockError
from penstock.contract.ids import SYSTEM_TENANT
from tests.simulation.plans import plan_of

PARTITIONS = 4
MEMBERS = 3
ROUNDS = 10
BOOT_S, REST_S, TIME_LIMIT_S = 60.0, 60.0, 400.0
_LOOK_S = 0.2


@dataclass
class Life:
    """What one seed saw."""

    acknowledged: dict[int, set[int]] = field(default_factory=dict)
    delivered: dict[int, set[int]] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    back: list[tuple[int, int, int]] = field(default_factory=list)
    """(partition, offset committed before, lower one seen later)."""
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    """(partition, offset seen committed) where a member was told that nothing is committed."""
    faults: list[str] = field(default_factory=list)
    shares: list[list[int]] = field(default_factory=list)
    moved: int = 0
    shortened: int = 0
    """How often brokers that lived to the end wrote a log of `__groups` anew."""
    trace_hash: str = ""


@dataclass(eq=False)
class _Member:
    process: Process
    consumer: Consumer | None = None


class GroupStory:
    def __init__(self, seed: int, rounds: int = ROUNDS) -> None:
        self._rounds = rounds
        plan = plan_of(seed, (), ())
        orders = replace(plan.topics[0], name="orders", partitions=PARTITIONS)
        self.plan = replace(plan, topics=(orders,), producers=(), consumers=0, sdk_consumers=30)
        self.loop = SimLoop(seed, put_off_chance=plan.put_off_chance, time_limit_s=TIME_LIMIT_S)
        self.timeline = Timeline(self.loop.time)
        self.life = Life()
        self._rng = random.Random(f"{seed}/group story")
        self._clients = 0
        self._members: list[_Member] = []
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
        await cluster._create_topic(replace(USAGE_PLAN, name="__groups", partitions=2), SYSTEM_TENANT)
        await asyncio.sleep(1.0)
        return cluster

    async def _story(self) -> None:
        cluster = await self._boot()
        producing = self._spawn(self._produce)
        watching = self._spawn(self._watch)
        for _ in range(MEMBERS):
            self._join()
        await self._until("a first message is read", lambda: bool(self.life.delivered), REST_S)
        for _ in range(self._rounds):
            await self._hurt(cluster)
            await asyncio.sleep(self._rng.uniform(0.5, 3.0))
        cluster.heal()
        for member in self._members:
            self.loop.resume(member.process)
        await asyncio.sleep(5.0)
        self._producing = False
        await self._until("every acknowledged message is delivered", self._all_delivered, REST_S)
        await self._until("everything is committed", self._all_committed, REST_S)
        await self._until("everybody has his share", self._shared, REST_S)
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

    # -- who takes part -----------------------------------------------------------------------------------

    def _spawn(
        self, work: Callable[[Client], Coroutine[Any, Any, None]], member: _Member | None = None
    ) -> Process:
        number, self._clients = self._clients, self._clients + 1
        process = self.loop.process(f"g{number}")
        transport = SimTransport(
            self.cluster.network, process, f"c{number}", authorization=f"Bearer {self.cluster.api_key}"
        )
        client = Client.over(
            SdkTransport(transport),
            bootstrap=tuple(broker.client_address for broker in self.cluster.brokers),
            random=random.Random(f"{self.plan.seed}/g{number}"),
            wall_ms=SimClock(self.loop).now_ms,
        )
        if member is not None:
            member.process = process
        self.loop.spawn(process, work(client))
        return process

    def _join(self) -> None:
        member = _Member(process=self.loop.outside)
        self._members.append(member)

        async def live(client: Client) -> None:
            await self._consume(client, member)

        self._spawn(live, member)

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

    async def _consume(self, client: Client, member: _Member) -> None:
        consumer = member.consumer = client.consumer(
            "orders",
            group="readers",
            auto_commit_interval_ms=200,
            session_timeout_ms=3_000,
            rebalance_timeout_ms=5_000,
            on_revoked=self._revoked,
        )
        self._look_at_positions(consumer)
        while True:
            try:
                messages = await consumer.poll(max_messages=20, timeout=0.3)
            except PenstockError as error:
                assert error.retriable, error
                continue
            for message in messages:
                self.life.delivered.setdefault(message.partition, set()).add(message.offset)

    def _look_at_positions(self, consumer: Consumer) -> None:
        """Whoever gets a partition goes on where the group has committed."""
        adopt = consumer._core.adopt

        def watched(place: tuple[str, int], offset: int, epoch: int, *, new: bool) -> None:
            seen = self.life.committed.get(place[1], 0)
            if offset < 0 and seen > 0:
                self.life.forgotten.append((place[1], seen))
            adopt(place, offset, epoch, new=new)

        consumer._core.adopt = watched  # type: ignore[method-assign]

    def _revoked(self, places: list[tuple[str, int]]) -> None:
        self.life.moved += len(places)

    async def _watch(self, client: Client) -> None:
        """What is committed never goes back, whoever coordinates."""
        while True:
            await asyncio.sleep(0.1)
            try:
                described = await client.group("readers", timeout=3)
            except PenstockError:
                continue
            for (_, partition), offset in described.offsets.items():
                before = self.life.committed.get(partition, 0)
                if offset < before:
                    self.life.back.append((partition, before, offset))
                self.life.committed[partition] = max(before, offset)

    # -- what happens to them -----------------------------------------------------------------------------

    async def _hurt(self, cluster: SimCluster) -> None:
        rng = self._rng
        broker, member = rng.choice(cluster.brokers), rng.choice(self._members)
        fault = rng.choice(("kill", "pause", "cut", "member ends", "member sleeps", "member joins"))
        self.life.faults.append(f"{self.loop.time():.2f} {fault} {broker.host} {member.process}")
        for_s = rng.uniform(0.5, 5.0)
        if fault in ("kill", "pause", "cut"):
            await self._hurt_broker(cluster, broker, fault, for_s)
        elif fault == "member ends":
            self.loop.crash(member.process)
            self.cluster.network.process_ended(member.process)
            self._members.remove(member)
            self._join()
        elif fault == "member sleeps":
            self.loop.pause(member.process)
            await asyncio.sleep(for_s)
            self.loop.resume(member.process)
        elif len(self._members) <= PARTITIONS:
            self._join()

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

    def _shared(self) -> bool:
        self.life.shares = [
            [partition for _, partition in member.consumer._core.assignment()]
            for member in self._members
            if member.consumer is not None
        ]
        loads = [len(share) for share in self.life.shares]
        owned = sorted(partition for share in self.life.shares for partition in share)
        return owned == list(range(PARTITIONS)) and max(loads) - min(loads) <= 1
