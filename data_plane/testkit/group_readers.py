"""A consumer group of the SDK's consumers in simulation: members come, go and fall asleep, and a watcher of commits."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from data_plane.node.groups.group_coordinators import GROUPS_TOPIC
from data_plane.testkit.activities import Activity, wait_unless
from data_plane.testkit.clock import SimClock
from data_plane.testkit.cluster import TENANT, SimCluster
from data_plane.testkit.faults import FaultKind
from data_plane.testkit.loop import Process
from data_plane.testkit.sdk_clients import SdkTransport
from data_plane.testkit.transport import SimTransport
from penstock.asyncio import Client
from penstock.asyncio.consumer import Consumer
from penstock.client.consuming.consumer import ConsumerCore
from penstock.client.groups.assignment import AssignedPosition
from penstock.contract.errors import CorruptLog, PenstockError
from penstock.contract.ids import NamedPartition, TopicPartition

GROUP = "readers"
_BETWEEN_S = (0.5, 4.0)
_ASLEEP_S = (0.5, 5.0)
MEMBERS = 2
_FAULTS = ("member ends", "member sleeps", "member joins")
_DAMAGING = frozenset({FaultKind.BIT_FLIP, FaultKind.READ_ERROR, FaultKind.MISDIRECTED_WRITE})
"""Faults after which a reader may hear that a log is corrupt, before its leader gives itself up."""


@dataclass
class Life:
    """What one seed saw of a group."""

    acknowledged: dict[int, set[int]] = field(default_factory=dict)
    delivered: dict[int, set[int]] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    back: list[tuple[int, int, int]] = field(default_factory=list)
    """(partition, offset committed before, lower one seen later)."""
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    """(partition, offset seen committed) where a member got the answer that nothing is committed."""
    faults: list[str] = field(default_factory=list)
    shares: list[list[int]] = field(default_factory=list)
    moved: int = 0
    shortened: int = 0
    """How often brokers that lived to the end wrote a log of `__groups` again."""
    trace_hash: str = ""


@dataclass(eq=False)
class Member:
    """One consuming process."""

    process: Process
    consumer: Consumer | None = None


class GroupReaders:
    """The group's processes. `hurt_member` and `join` are the story's to call, or `run` calls them."""

    def __init__(
        self, cluster: SimCluster, topic: str, partitions: int, rng: random.Random, *, first_host: int = 0
    ) -> None:
        self._cluster = cluster
        self._loop = cluster.loop
        self._rng = rng
        self._topic = topic
        self._partitions = partitions
        self._clients = 0
        self._first_host = first_host
        self.members: list[Member] = []
        self.life = Life()
        self.reached: Counter[Activity] = Counter()
        self._deposed: dict[tuple[TopicPartition, int], tuple[float, float]] = {}
        """Partition and epoch of a coordinator that was deposed: when it was first and last seen to go on."""
        self.over = asyncio.Event()

    def start(self, members: int) -> Process:
        """Members and the watcher; the watcher's process is returned."""
        watching = self.spawn(self._watch)
        for _ in range(members):
            self.join()
        return watching

    async def run(self) -> None:
        """Members fall and come back for as long as faults happen."""
        self.start(MEMBERS)
        while not self.over.is_set():
            await wait_unless(self.over, self._rng.uniform(*_BETWEEN_S))
            if not self.over.is_set():
                fault, member = self._rng.choice(_FAULTS), self._rng.choice(self.members)
                await self.hurt_member(member, fault, self._rng.uniform(*_ASLEEP_S))

    async def hurt_member(self, member: Member, fault: str, for_s: float) -> None:
        """One of the faults that only members know."""
        if fault == "member ends":
            self._loop.crash(member.process)
            self._cluster.network.process_ended(member.process)
            self.members.remove(member)
            self.join()
        elif fault == "member sleeps":
            self._loop.pause(member.process)
            await asyncio.sleep(for_s)
            self._loop.resume(member.process)
        elif len(self.members) <= self._partitions:
            self.join()

    # -- who takes part -----------------------------------------------------------------------------------

    def spawn(
        self, work: Callable[[Client], Coroutine[Any, Any, None]], member: Member | None = None
    ) -> Process:
        """A process of its own with a client of the SDK."""
        number, self._clients = self._clients, self._clients + 1
        cluster = self._cluster
        process = self._loop.process(f"g{number}")
        transport = SimTransport(
            cluster.network,
            process,
            f"c{self._first_host + number}",
            authorization=f"Bearer {cluster.api_key}",
        )
        client = Client.over(
            SdkTransport(transport),
            bootstrap=tuple(broker.client_address for broker in cluster.brokers),
            random=random.Random(f"{cluster.plan.seed}/g{number}"),
            wall_ms=SimClock(self._loop).now_ms,
        )
        if member is not None:
            member.process = process
        self._loop.spawn(process, work(client))
        return process

    def join(self) -> None:
        """One more member."""
        member = Member(process=self._loop.outside)
        self.members.append(member)

        async def live(client: Client) -> None:
            await self._consume(client, member)

        self.spawn(live, member)

    async def _consume(self, client: Client, member: Member) -> None:
        while True:
            consumer = member.consumer = client.consumer(
                self._topic,
                group=GROUP,
                auto_commit_interval_ms=200,
                session_timeout_ms=3_000,
                rebalance_timeout_ms=5_000,
                on_revoked=self._revoked,
            )
            self._look_at_positions(consumer)
            try:
                await self._read(consumer)
            except CorruptLog:
                # Its leader has met what a fault damaged, and gives itself up: an application begins again.
                await consumer.close()

    async def _read(self, consumer: Consumer) -> None:
        """Runs until it is refused for good."""
        while True:
            try:
                messages = await consumer.poll(max_messages=20, timeout=0.3)
            except CorruptLog as error:
                faults = {combination.fault for combination in self._cluster.plan.combinations}
                assert faults & _DAMAGING, error
                raise
            except PenstockError as error:
                assert error.retriable, error
                continue
            for message in messages:
                self.life.delivered.setdefault(message.partition, set()).add(message.offset)

    def _look_at_positions(self, consumer: Consumer) -> None:
        """A member that gets a partition goes on where the group has committed."""
        core = consumer._core
        assert core.member is not None
        core.member._consumer = _WatchedPartitions(core, self.life)

    def _revoked(self, places: list[tuple[str, int]]) -> None:
        self.life.moved += len(places)

    async def _watch(self, client: Client) -> None:
        """What is committed never goes back, with any coordinator. A coordinator that has not yet heard that it was
        deposed may tell what was committed before, for as long as its session would have lived (RL10)."""
        while True:
            await asyncio.sleep(0.1)
            before_s = self._loop.time()
            self._see_deposed()
            try:
                described = await client.group(GROUP, timeout=3)
            except PenstockError:
                continue
            self._see_deposed()
            may_be_old = self._deposed_since(before_s)
            for (_, partition), offset in described.offsets.items():
                before = self.life.committed.get(partition, 0)
                if offset < before and not may_be_old:
                    self.life.back.append((partition, before, offset))
                self.reached[Activity.COMMITTED] += offset > before
                self.life.committed[partition] = max(before, offset)

    def _see_deposed(self) -> None:
        """Who leads the group's partition of `__groups`, which another broker leads in a later epoch."""
        leading = [
            (replica.where, replica.leading.leader_epoch)
            for broker in self._cluster.brokers
            if broker.node is not None
            for replica in broker.node.replicas.all()
            if replica.topic.name == GROUPS_TOPIC
            and replica.leading is not None
            and replica.where == broker.node.serving.groups.coordinators.partition(TENANT, GROUP)
        ]
        newest: dict[TopicPartition, int] = {}
        for where, epoch in leading:
            newest[where] = max(epoch, newest.get(where, epoch))
        now_s = self._loop.time()
        for where, epoch in leading:
            if epoch < newest[where]:
                first_s, _ = self._deposed.get((where, epoch), (now_s, now_s))
                self._deposed[where, epoch] = (first_s, now_s)

    def _deposed_since(self, moment_s: float) -> bool:
        """Whether one that was deposed not long before may have answered since then."""
        session_s = self._cluster.plan.timings.session_ttl_ms / 1000
        return any(
            last_s >= moment_s and last_s - first_s <= session_s for first_s, last_s in self._deposed.values()
        )

    # -- what must hold in the end ------------------------------------------------------------------------

    def wrong(self) -> str:
        """What must never have happened; empty when it has not."""
        if self.life.back or self.life.forgotten:
            return f"commits went back {self.life.back} or were forgotten {self.life.forgotten}"
        return ""

    def unfinished(self, bounds: Mapping[int, tuple[int, int]]) -> str:
        """What is still to come about when all is healed; empty when nothing is. `bounds`: where each partition's log
        begins and ends.
        """
        for partition, (start, end) in bounds.items():
            committed = self.life.committed.get(partition, 0)
            if end > start and committed != end:
                return f"offset {committed} of partition {partition} is committed, its log ends at {end}"
        return "" if self.shared() else f"shares are {self.life.shares}"

    def shared(self) -> bool:
        """Each partition has one owner, and no member has two more than another."""
        self.life.shares = [
            [partition for _, partition in member.consumer._core.assignment()]
            for member in self.members
            if member.consumer is not None
        ]
        loads = [len(share) for share in self.life.shares]
        owned = sorted(partition for share in self.life.shares for partition in share)
        return owned == list(range(self._partitions)) and max(loads) - min(loads) <= 1


class _WatchedPartitions:
    """The partitions of a member's consumer; notes where one is read again from its beginning."""

    def __init__(self, consumer: ConsumerCore, life: Life) -> None:
        self._consumer = consumer
        self._life = life

    @property
    def topics(self) -> tuple[str, ...]:
        return self._consumer.topics

    @property
    def positions(self) -> Mapping[NamedPartition, AssignedPosition]:
        return self._consumer.positions

    def add_partition(self, tp: NamedPartition, offset: int, epoch: int, *, new: bool) -> None:
        seen = self._life.committed.get(tp[1], 0)
        if offset < 0 and seen > 0:
            self._life.forgotten.append((tp[1], seen))
        self._consumer.add_partition(tp, offset, epoch, new=new)

    def deliver_partition(self, tp: NamedPartition) -> None:
        self._consumer.deliver_partition(tp)

    def hold_partition(self, tp: NamedPartition) -> None:
        self._consumer.hold_partition(tp)

    def remove_partition(self, tp: NamedPartition) -> None:
        self._consumer.remove_partition(tp)
