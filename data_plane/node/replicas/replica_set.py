"""The replicas of one broker by partition."""

from data_plane.node.replicas.replica import Replica
from penstock.contract.ids import TopicPartition


class ReplicaSet:
    """Those that the metadata wants here, whatever their role. One that is to be removed has left the set."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, Replica] = {}
        self.reassigning: dict[TopicPartition, None] = {}
        """Partitions led here whose replicas are being changed (RL52)."""

    def find(self, where: TopicPartition) -> Replica | None:
        return self.by_partition.get(where)

    def all(self) -> list[Replica]:
        return list(self.by_partition.values())

    def has(self, replica: Replica) -> bool:
        """Whether it is this very one, and not another one of the same partition."""
        return self.by_partition.get(replica.where) is replica
