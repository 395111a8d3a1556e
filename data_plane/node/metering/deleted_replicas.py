"""Replicas of deleted topics, which stay until their last reading is in `__usage` and in the metadata.

hold --a round writes the last reading--> READ --the metadata keeps it--> released
hold --its totals are not known any more--> released
"""

import asyncio
from collections.abc import Callable

from data_plane.contract import usage_pb2
from data_plane.metadata.model import FinalRecord
from data_plane.node.config import NodeConfig
from data_plane.node.metering.final_readings import FinalReadings
from data_plane.node.metering.usage_messages import failed_part
from data_plane.node.replicas.replica import Replica
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId, TopicPartition


class DeletedReplicas:
    """`run` runs as long as the broker does."""

    def __init__(self, config: NodeConfig, final_readings: FinalReadings) -> None:
        self._metered = config.metering
        self._tick_ms = config.timings.metering_tick_ms
        self._final_readings = final_readings
        self._waiting: dict[TopicPartition, tuple[Replica, Callable[[Replica], None]]] = {}
        """With what to call once the replica may go."""
        self._read: dict[TopicPartition, FinalRecord] = {}
        """Final readings that are in `__usage`, and are to be kept in the metadata."""

    def hold(self, replica: Replica, release: Callable[[Replica], None]) -> bool:
        """Its topic was deleted: true if the replica has to wait for its last reading. `release` is called then; not in
        this boot any more once its last words were said.
        """
        if not self._metered or not replica.topic.metered or not replica.log.usage.known:
            return False
        self._waiting[replica.where] = (replica, release)
        return True

    def waiting_replicas(self) -> list[Replica]:
        """All that wait."""
        return [replica for replica, _ in self._waiting.values()]

    def unread(self) -> list[Replica]:
        """Replicas whose last reading is not in `__usage`."""
        return [replica for replica, _ in self._waiting.values() if replica.where not in self._read]

    def still_waiting(self, tenant: TenantId) -> list[usage_pb2.PartitionCut]:
        """Errors for the tenant's partitions whose final reading here is still to be made."""
        return [
            failed_part(
                partition,
                ErrorCode.LEADER_NOT_READY,
                f"{replica.name}: was deleted, its last reading is still to be made",
            )
            for partition, (replica, _) in self._waiting.items()
            if replica.topic.tenant == tenant
        ]

    def is_owed(self, replica: Replica) -> bool:
        """True if a cut waits for its final reading."""
        return self._final_readings.owed(replica.where)

    def was_read(self, replica: Replica, final: FinalRecord) -> None:
        """Its last reading is committed in `__usage`."""
        self._read[replica.where] = final

    def let_go(self, partition: TopicPartition) -> None:
        """Nothing more is to be read of it."""
        waiting = self._waiting.pop(partition, None)
        if waiting is not None:
            replica, release = waiting
            release(replica)

    async def run(self) -> None:
        """Put final readings into the metadata, beside the rounds that write them, and let their replicas go then."""
        while True:
            await asyncio.sleep(self._tick_ms / 1000)
            read = dict(self._read)
            if read and await self._final_readings.keep(read):
                for partition in read:
                    del self._read[partition]
                    self.let_go(partition)
