"""The replicas of one broker by partition."""

from data_plane.node.replicas.replica import Replica
from penstock.contract.ids import TopicPartition


class ReplicaChanges:
    """For one who looks again and again: which replicas were written to or got a role since it looked last."""

    def __init__(self) -> None:
        self._changed: dict[Replica, None] = {}

    def note(self, replica: Replica) -> None:
        self._changed[replica] = None

    def forget(self, replica: Replica) -> None:
        self._changed.pop(replica, None)

    def take(self) -> dict[Replica, None]:
        """Those since the last call, in order. One may have left the set meanwhile."""
        taken, self._changed = self._changed, {}
        return taken


class ReplicaSet:
    """Those that the metadata wants here, whatever their role. One that is to be removed has left the set."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, Replica] = {}
        self.reassigning: dict[TopicPartition, None] = {}
        """Partitions led here whose replicas are being changed (RL52)."""
        self._changes: list[ReplicaChanges] = []

    def changes(self) -> ReplicaChanges:
        """From now on. Partitions at rest appear in none, so that looking costs what happens and not what there is."""
        changes = ReplicaChanges()
        self._changes.append(changes)
        return changes

    def changed(self, replica: Replica) -> None:
        """Its log has taken batches, or it has got a role."""
        for changes in self._changes:
            changes.note(replica)

    def remove(self, where: TopicPartition) -> Replica:
        """The replica of this partition leaves the set."""
        replica = self.by_partition.pop(where)
        for changes in self._changes:
            changes.forget(replica)
        return replica

    def find(self, where: TopicPartition) -> Replica | None:
        return self.by_partition.get(where)

    def all(self) -> list[Replica]:
        return list(self.by_partition.values())

    def has(self, replica: Replica) -> bool:
        """Whether it is this very one, and not another one of the same partition."""
        return self.by_partition.get(replica.where) is replica
