"""Which replicas of this broker may miss what they acknowledged: after a crash, and where data failed its checks."""

from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from data_plane.node.log_directory.boot import Booted
from data_plane.node.log_directory.directory import Directory
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.replication.health import Sound
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.topic_settings import Durability


class Distrust:
    """Of one log directory. What is listed here is given up before the broker registers (RL44, RL45, RL122)."""

    def __init__(
        self, image: ClusterImage, directory: Directory, booted: Booted, replicas: ReplicaSet
    ) -> None:
        self._image = image
        self._clean = directory.clean
        self._replicas = replicas
        opened = {one.where: None for one in booted.opened}
        self._gone = {where: None for where in booted.damaged if where not in opened}
        """Partitions of which nothing could be opened: what takes their place is not trusted with what they had."""

    def data_lost(self, topic_id: TopicId) -> bool:
        """Whether the topic's replicas here may all miss what they acknowledged: relaxed ones after a crash (RL44)."""
        relaxed = self._image.topics[topic_id].settings.durability is not Durability.FSYNC
        return relaxed and not self._clean

    def is_damaged(self, where: TopicPartition) -> bool:
        """Whether this broker has to give up what it is trusted with there (RL45, RL122). A partition's only replica
        keeps it: it serves what is good, takes no writes, and an operator repairs it."""
        replica = self._replicas.find(where)
        if replica is None:
            return where in self._gone
        bad = where in self._gone or not isinstance(replica.health, Sound)
        return bad and not is_sole(self._image.partition(where))

    def gave_up(self) -> None:
        """Everything damaged was given up, and this broker is registered: from now on what took the place of a lost
        directory may be trusted."""
        self._gone.clear()
        for replica in self._replicas.all():
            replica.given_up()


def is_sole(record: PartitionRecord | None) -> bool:
    """Whether the partition has one replica only."""
    return record is not None and len(record.replicas) == 1
