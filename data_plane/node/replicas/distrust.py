"""Which replicas of this broker may miss what they acknowledged: after a crash, and where data failed its checks."""

from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from data_plane.node.log_directory.boot import Booted
from data_plane.node.log_directory.directory import Directory
from data_plane.node.replicas.replica_set import ReplicaSet
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import Durability


class Distrust:
    """Of one log directory. What is listed here is given up before the broker registers (RL44, RL45, RL122)."""

    def __init__(
        self, image: ClusterImage, directory: Directory, booted: Booted, replicas: ReplicaSet
    ) -> None:
        self._image, self._clean, self._replicas = image, directory.clean, replicas
        self.damaged: dict[TopicPartition, str] = dict(booted.damaged)
        """Partitions whose data here failed its checks: unclean (RL45, RL122)."""
        self.unknown_loss: dict[TopicPartition, None] = {}
        """Those of which the journal or checkpoint cannot tell what is missing."""

    def data_lost(self, topic_id: TopicId) -> bool:
        """Whether the topic's replicas here may all miss what they acknowledged: relaxed ones after a crash (RL44)."""
        relaxed = self._image.topics[topic_id].settings.durability is not Durability.FSYNC
        return relaxed and not self._clean

    def is_damaged(self, where: TopicPartition) -> bool:
        """Whether this broker has to give up what it is trusted with there (RL45, RL122). A partition's only replica
        keeps it: it serves what is good, takes no writes, and an operator repairs it."""
        alone = where in self._replicas.by_partition and is_sole(self._image.partition(where))
        return where in self.damaged and not alone

    def forget_given_up(self) -> None:
        """Everything untrusted was given up: what took the place of a lost directory may be trusted again."""
        for where in list(self.damaged):
            replica = self._replicas.find(where)
            if replica is None or not (replica.broken or replica.writes_stopped):
                del self.damaged[where]

    def is_whole(self, where: TopicPartition) -> None:
        """What was wrong there was cut out."""
        self.unknown_loss.pop(where, None)
        self.damaged.pop(where, None)


def is_sole(record: PartitionRecord | None) -> bool:
    """Whether the partition has one replica only."""
    return record is not None and len(record.replicas) == 1
