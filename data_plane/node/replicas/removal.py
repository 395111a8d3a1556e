"""Removing replicas that the metadata no longer wants here, each once nothing waits for it (RL53)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from data_plane.log import layout
from data_plane.metadata.image import ClusterImage
from data_plane.node.environment import Environment
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.tasks import in_turns
from penstock.contract.ids import TopicPartition

_REMOVED_AT_ONCE = 64
"""Replicas that wait for one commit round together, and that keep checkpoints waiting."""
_REMOVED_A_TURN = 4
"""Directories removed in one turn of the event loop."""


class LastReadings(Protocol):
    """Who still has to read a deleted topic's replicas."""

    def hold(self, replica: Replica, release: Callable[[Replica], None]) -> bool:
        """Whether the replica of a deleted topic has to wait for its last reading. `release` is called after it."""
        ...

    def waiting_replicas(self) -> list[Replica]:
        """Those that wait."""
        ...


class Removal:
    """`run` beside everything else: one that takes long delays no other partition, and no other removal."""

    def __init__(
        self,
        environment: Environment,
        *,
        image: ClusterImage,
        replicas: ReplicaSet,
        due: DueWork,
        committer: Committer,
        last_readings: LastReadings,
    ) -> None:
        self._me = environment.config.broker_id
        self._disk = environment.disk
        self._image = image
        self._replicas = replicas
        self._due = due
        self._committer = committer
        self._last_readings = last_readings
        self._removing: dict[TopicPartition, None] = {}

    def under_way(self, where: TopicPartition) -> bool:
        """Whether a replica of the partition goes: a new one waits until it has gone."""
        return where in self._removing

    def of_deleted_topic(self, where: TopicPartition) -> None:
        """The metadata has a tombstone of the topic."""
        self.buried(self._leave(where))

    def of_moved_partition(self, where: TopicPartition) -> None:
        """Others hold the partition now: nothing here is waited for."""
        replica = self._leave(where)
        replica.retire("the partition was moved to other brokers")
        self._due.remove(replica)

    def buried(self, replica: Replica) -> None:
        """Its topic was deleted: take no part from now on, and go after the last reading if that is owed."""
        self._removing[replica.where] = None
        replica.retire("the topic was deleted")
        if not self._last_readings.hold(replica, self._due.remove):
            self._due.remove(replica)

    def _leave(self, where: TopicPartition) -> Replica:
        self._removing[where] = None
        self._replicas.reassigning.pop(where, None)
        return self._replicas.remove(where)

    async def run(self) -> None:
        while True:
            await self._due.removal.wait()
            self._due.removal.clear()
            while self._due.to_remove:
                some = self._due.to_remove[-_REMOVED_AT_ONCE:]
                del self._due.to_remove[-_REMOVED_AT_ONCE:]
                await self._remove(some)

    async def _remove(self, replicas: Sequence[Replica]) -> None:
        gone: list[Replica] = []
        async with self._committer.no_checkpoint:
            await asyncio.gather(*(self._committer.flushed(replica) for replica in replicas))
            async for some in in_turns(replicas, _REMOVED_A_TURN):
                for replica in some:
                    if replica.busy:
                        replica.on_settled = self._due.remove  # what changes its log ends first
                        continue
                    replica.log.close(clean=False)
                    self._disk.remove_directory(layout.partition_directory(replica.where))
                    gone.append(replica)
        for replica in gone:
            self._removing.pop(replica.where, None)
            record = self._image.partition(replica.where)
            if record is not None and self._me in record.replicas:
                self._due.make(replica.where)
