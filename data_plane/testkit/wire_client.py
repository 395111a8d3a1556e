"""What the workload's clients share: where the brokers are, who leads what, and how to call them.

These clients speak the public wire contract by themselves. They keep exact accounts of every attempt and do
on purpose what an SDK would not, so that the evidence does not depend on another program's opinion.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from data_plane.node.ports import CallFailed, ConnectionLost
from data_plane.testkit.clock import SimClock
from data_plane.testkit.history import History
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.transport import SimTransport
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.v1 import log_pb2 as pb

CALL_MS = 2_000
_WAIT_S_MAX = 0.3


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads a partition, as a broker said."""

    broker: int
    address: str
    epoch: int


@dataclass(slots=True)
class WireClient:
    """One client process's view of the cluster."""

    name: str
    loop: SimLoop
    transport: SimTransport
    clock: SimClock
    rng: random.Random
    history: History
    bootstrap: tuple[str, ...]
    topic: str
    topic_id: TopicId
    deletes: bool
    """The topic's retention may delete within the simulation."""
    resting: Callable[[], bool]
    """Whether there is nothing new to send now."""
    leaders: dict[int, Leader] = field(default_factory=dict)

    def where(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic_id, partition)

    async def pause(self) -> None:
        """A short random wait between tries."""
        await asyncio.sleep(self.rng.uniform(0.01, _WAIT_S_MAX))

    async def leader(self, partition: int, *, refresh: bool) -> Leader | None:
        """The leader, or None when there is none or no broker answers now."""
        if refresh or partition not in self.leaders:
            await self._refresh()
        return self.leaders.get(partition)

    async def _refresh(self) -> None:
        request = pb.MetadataRequest(topics=[self.topic]).SerializeToString()
        try:
            answer = await self.transport.call(
                self.rng.choice(self.bootstrap), methods.METADATA, request, CALL_MS
            )
        except ConnectionLost:
            return
        except CallFailed as refusal:
            self.note_refusal(refusal.code)
            return
        response = pb.MetadataResponse.FromString(answer)
        addresses = {broker.id: broker.address for broker in response.brokers}
        for topic in response.topics:
            if topic.topic_id != self.topic_id:
                continue  # a broker that is behind: another topic had the name before, and higher epochs
            for partition in topic.partitions:
                known = self.leaders.get(partition.partition)
                if known is not None and known.epoch > partition.leader_epoch:
                    continue
                if partition.leader in addresses:
                    self.leaders[partition.partition] = Leader(
                        partition.leader, addresses[partition.leader], partition.leader_epoch
                    )

    async def call(self, address: str, method: str, request: bytes) -> bytes | None:
        """A unary call; None when it was refused or lost."""
        try:
            return await self.transport.call(address, method, request, CALL_MS)
        except ConnectionLost:
            return None
        except CallFailed as refusal:
            self.note_refusal(refusal.code)
            return None

    def note_refusal(self, code: int) -> None:
        """Count an error answer by its name."""
        try:
            self.history.refused(ErrorCode(code).name)
        except ValueError:
            self.history.refused(str(code))
