"""Which partitions of `__groups` this broker coordinates: found by leadership, loaded, kept up with the time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from data_plane.disk.port import Disk
from data_plane.groups.records import KnownTopic
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import TopicRecord
from data_plane.metadata.port import WatchBatch
from data_plane.node.groups.group_partition import GroupPartition
from data_plane.node.groups.group_seats import GroupSeats
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Clock
from data_plane.node.replicas.replica import Replica
from data_plane.node.stats import NodeStats
from data_plane.node.tasks import Turn
from penstock.contract import errors
from penstock.contract.ids import SYSTEM_TENANT, BrokerId, TenantId, TopicId, TopicPartition
from penstock.rules.partitioner import partition_of

GROUPS_TOPIC = "__groups"
_TICK_S = 0.1
"""A lost or gained leadership is noticed by metadata events, else within this time."""


@dataclass(frozen=True, slots=True)
class ImageTopics:
    """Keeps `data_plane.groups.requests.Topics` over this broker's image."""

    image: ClusterImage

    def find(self, tenant: str, name: str) -> KnownTopic | None:
        topic_id = self.image.names.get((TenantId(tenant), name))
        topic = None if topic_id is None else self.image.topics.get(topic_id)
        if topic is None:
            return None
        return KnownTopic(topic_id=topic.topic_id, name=name, partitions=topic.partitions)

    def deleted(self, topic_id: TopicId) -> bool:
        return topic_id in self.image.tombstones

    def binned(self, topic_id: TopicId) -> bool:
        topic = self.image.topics.get(topic_id)
        return topic is not None and topic.binned


class GroupCoordinators:
    """All that this broker leads of `__groups`. Idle, without timers, until that topic exists."""

    def __init__(
        self,
        view: MetadataView,
        find: Callable[[TopicPartition], Replica | None],
        disk: Disk,
        clock: Clock,
        stats: NodeStats,
        confident: Callable[[], bool],
        seats: GroupSeats,
        *,
        retention_ms: int,
        advance: Callable[[Replica, int], bool],
        begin_turn: Callable[[], Turn],
    ) -> None:
        """`advance` lets the log of a replica begin at an offset, step by step, and says whether it does."""
        self._begin_turn = begin_turn
        self._advance = advance
        self._seats = seats
        self._view = view
        self._find = find
        self._retention_ms = retention_ms
        self._disk = disk
        self._clock = clock
        self._stats = stats
        self._confident = confident
        self._led: dict[TopicPartition, GroupPartition] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._topic_known = asyncio.Event()
        self.topics = ImageTopics(view.image)
        view.listen(self._observe)
        self._observe(None)

    def _observe(self, batch: WatchBatch | None) -> None:
        if self.topic is not None:
            self._topic_known.set()
        if self._tasks is not None:
            self._look()

    async def run(self) -> None:
        await self._topic_known.wait()
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._seats.run(self.serving))
            while True:
                self._look()
                for led in list(self._led.values()):
                    await led.tick(self.topics, self._begin_turn())
                await asyncio.sleep(_TICK_S)

    @property
    def topic(self) -> TopicRecord | None:
        """The topic `__groups`, once it exists."""
        image = self._view.image
        topic_id = image.names.get((SYSTEM_TENANT, GROUPS_TOPIC))
        return None if topic_id is None else image.topics.get(topic_id)

    def _look(self) -> None:
        """Drop what is not led any more, load what is led newly."""
        topic = self.topic
        for where, led in list(self._led.items()):
            if not led.current or topic is None or where.topic_id != topic.topic_id:
                led.drop()
                del self._led[where]
        if topic is None:
            return
        for number in range(topic.partitions):
            where = TopicPartition(topic.topic_id, number)
            replica = self._find(where)
            if replica is None or replica.leading is None or where in self._led:
                continue
            led = GroupPartition(
                replica,
                replica.leading,
                self._disk,
                self._clock,
                self._stats,
                self._confident,
                self._retention_ms,
                self._advance,
            )
            self._led[where] = led
            if self._tasks is not None:
                self._tasks.create_task(led.load())

    # -- finding -----------------------------------------------------------------------------------------

    def partition(self, tenant: str, group: str) -> TopicPartition:
        """Where the group lives. Raises `CoordinatorNotReady` while there is no such topic."""
        topic = self.topic
        if topic is None:
            raise errors.CoordinatorNotReady("consumer groups: the service is being set up, try again")
        return TopicPartition(topic.topic_id, partition_of(f"{tenant}/{group}".encode(), topic.partitions))

    def locate(self, tenant: str, group: str) -> tuple[BrokerId, str]:
        """(id, client address) of the group's coordinator. Raises `CoordinatorNotReady` while it has none."""
        where = self.partition(tenant, group)
        record = self._view.image.partition(where)
        broker = None if record is None else self._view.image.brokers.get(record.leader)
        if broker is None or not broker.epoch:
            raise errors.CoordinatorNotReady(f"group {group}: its coordinator is being elected")
        return broker.record.broker_id, broker.record.client_address

    def of(self, tenant: str, group: str) -> GroupPartition:
        """The group's coordinator here. Raises `NotCoordinator`, `CoordinatorNotReady`."""
        where = self.partition(tenant, group)
        led = self._led.get(where)
        if led is None or not led.current:
            if self._tasks is not None:
                self._look()
            led = self._led.get(where)
        if led is None:
            raise errors.NotCoordinator(f"group {group}: this broker does not coordinate it")
        led.require_ready()
        return led

    def groups_of(self, tenant: str) -> int | None:
        """Groups of the tenant that are coordinated here; None while some partition is being loaded."""
        led = [one for one in self._led.values() if one.current]
        if not all(one.serving for one in led):
            return None
        return sum(one.core.groups_count(tenant) for one in led)

    def serving(self) -> list[GroupPartition]:
        """Every partition that is coordinated here and loaded."""
        return [self._led[where] for where in sorted(self._led) if self._led[where].serving]
