"""What the client believes of the cluster: brokers, topics, leaders; it moves only forward (RL7)."""

import json
from dataclasses import dataclass, field
from typing import Any

from penstock.client.refusals import refusal
from penstock.contract.errors import PenstockError
from penstock.contract.v1 import log_pb2

NO_LEADER = -1
UNKNOWN_EPOCH = -1
"""In place of a leader epoch."""


@dataclass(slots=True)
class PartitionView:
    """Who leads one partition; `leader` -1 = none now, `leader_epoch` -1 = unknown."""

    leader: int = NO_LEADER
    leader_epoch: int = UNKNOWN_EPOCH
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


@dataclass(slots=True)
class TopicView:
    """One topic as last described. `error` is set while the brokers refuse it (unknown, deleted,
    forbidden).
    """

    name: str
    topic_id: bytes = b""
    partitions: list[PartitionView] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    error: PenstockError | None = None
    revision: int = 0


class ClusterView:
    """Merged from answers and watches of several brokers, which may be of different age.

    A partition's leader is taken over when its leader epoch is higher than the known one, or the same in an
    answer that is not older. Everything else goes by the metadata revision that an answer reflects.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.brokers: dict[int, str] = {}
        self.domains: dict[int, tuple[str, str]] = {}
        """Host and zone of each broker."""
        self.topics: dict[str, TopicView] = {}

    def apply(self, response: log_pb2.MetadataResponse) -> list[str]:
        """Take an answer in; returns the names of the topics that changed for producers or consumers."""
        revision = response.revision
        if response.brokers and revision >= self.revision:
            self.brokers = {broker.id: broker.address for broker in response.brokers}
            self.domains = {broker.id: (broker.host, broker.zone) for broker in response.brokers}
        self.revision = max(self.revision, revision)
        return [message.name for message in response.topics if self._apply_topic(message, revision)]

    def address_of(self, broker: int) -> str | None:
        return self.brokers.get(broker)

    def nearest(self, number: int, partition: PartitionView, zone: str) -> int:
        """The broker from which a reader in `zone` (the name of a host or a zone) reads this partition: the leader, or
        a follower in sync if that one is nearer. Partitions take turns among equals. `zone` empty = the leader."""
        if not zone or partition.leader == NO_LEADER:
            return partition.leader
        for level in (0, 1):
            near = [
                broker
                for broker in sorted(partition.in_sync)
                if self.domains.get(broker, ("", ""))[level] == zone
            ]
            if partition.leader in near:
                return partition.leader
            if near:
                return near[number % len(near)]
        return partition.leader

    def forget(self, name: str) -> None:
        """No producer or consumer uses this topic any more."""
        self.topics.pop(name, None)

    def _apply_topic(self, message: log_pb2.TopicMetadata, revision: int) -> bool:
        known = self.topics.get(message.name)
        current = known is None or revision >= known.revision
        if message.error:
            if not current:
                return False
            self.topics[message.name] = TopicView(
                name=message.name, error=refusal(message.error, message.message), revision=revision
            )
            return True
        if known is None or (known.topic_id != message.topic_id and current):
            known = self.topics[message.name] = TopicView(name=message.name, topic_id=message.topic_id)
        elif known.topic_id != message.topic_id:
            return False
        changed = False
        if current:
            known.revision, known.error = revision, None
            if message.settings_json:
                settings = json.loads(message.settings_json)
                if settings != known.settings:
                    known.settings, changed = settings, True
        for partition in message.partitions:
            while len(known.partitions) <= partition.partition:
                known.partitions.append(PartitionView())
                changed = True
            changed |= _apply_partition(known.partitions[partition.partition], partition, current)
        return changed


def _apply_partition(view: PartitionView, message: log_pb2.PartitionMetadata, current: bool) -> bool:
    newer = message.leader_epoch > view.leader_epoch
    if not newer and not (current and message.leader_epoch == view.leader_epoch):
        return False
    in_sync = tuple(message.in_sync)
    moved = (view.leader, view.leader_epoch, view.in_sync) != (message.leader, message.leader_epoch, in_sync)
    view.leader, view.leader_epoch = message.leader, message.leader_epoch
    view.replicas, view.in_sync = tuple(message.replicas), in_sync
    return moved
