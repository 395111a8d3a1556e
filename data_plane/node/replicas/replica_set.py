"""The replicas of one broker by partition."""

from data_plane.node.replicas.loads import PartitionLoads
from data_plane.node.replicas.replica import Replica
from data_plane.replication.health import Sound
from data_plane.throttling.queues import SAFE_BYTES, BrokerQueues
from penstock.contract.ids import TopicId, TopicPartition


class ReplicaChanges:
    """For one who looks again and again: which replicas were written to, lost segments or got a role since
    it looked last."""

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

    def __init__(self, unanswered_bytes_safe: int = SAFE_BYTES) -> None:
        self.by_partition: dict[TopicPartition, Replica] = {}
        self._of_topic: dict[TopicId, dict[TopicPartition, None]] = {}
        self.unsound: dict[Replica, None] = {}
        """Those whose health is not `Sound`."""
        self.reassigning: dict[TopicPartition, None] = {}
        """Partitions led here whose replicas are being changed (RL52)."""
        self.loads = PartitionLoads()
        """What they take and give."""
        self.queues = BrokerQueues(unanswered_bytes_safe)
        """What the leaders among them have not answered yet."""
        self._changes: list[ReplicaChanges] = []

    def changes(self) -> ReplicaChanges:
        """From now on. Partitions at rest appear in none, so that looking costs what happens and not what there is."""
        changes = ReplicaChanges()
        self._changes.append(changes)
        return changes

    def changed(self, replica: Replica) -> None:
        """Its log has taken batches or lost segments, or it has got a role. One that has left meanwhile is in none."""
        if not self.has(replica):
            return
        for changes in self._changes:
            changes.note(replica)

    def add(self, replica: Replica) -> None:
        self.by_partition[replica.where] = replica
        self._of_topic.setdefault(replica.where.topic_id, {})[replica.where] = None

    def turned(self, replica: Replica) -> None:
        """Its health is another one now."""
        if self.has(replica) and not isinstance(replica.health, Sound):
            self.unsound[replica] = None
        else:
            self.unsound.pop(replica, None)

    def remove(self, where: TopicPartition) -> Replica:
        """The replica of this partition leaves the set."""
        replica = self.by_partition.pop(where)
        self.unsound.pop(replica, None)
        of_topic = self._of_topic[where.topic_id]
        del of_topic[where]
        if not of_topic:
            del self._of_topic[where.topic_id]
        for changes in self._changes:
            changes.forget(replica)
        return replica

    def find(self, where: TopicPartition) -> Replica | None:
        return self.by_partition.get(where)

    def of_topic(self, topic_id: TopicId) -> list[TopicPartition]:
        """Partitions of the topic that have a replica here."""
        return list(self._of_topic.get(topic_id, ()))

    def all(self) -> list[Replica]:
        return list(self.by_partition.values())

    def has(self, replica: Replica) -> bool:
        """Whether it is this very one, and not another one of the same partition."""
        return self.by_partition.get(replica.where) is replica

    def gauges(self) -> dict[str, int]:
        """By name of the metric, of all replicas in one look: there may be tens of thousands, and it is the event loop
        that looks."""
        unborn = led = under_replicated = under_min_in_sync = log_bytes = 0
        for replica in self.by_partition.values():
            log_bytes += replica.log.size_bytes
            unborn += not replica.log.born
            leading = replica.leading
            if leading is not None:
                led += 1
                in_sync = len(leading.record.in_sync)
                under_replicated += in_sync < len(leading.record.replicas)
                under_min_in_sync += in_sync < leading.min_insync
        return {
            "replicas": len(self.by_partition),
            "replicas_broken": sum(replica.stopped for replica in self.unsound),
            "replicas_unborn": unborn,
            "partitions_led": led,
            "partitions_under_replicated": under_replicated,
            "partitions_under_min_in_sync": under_min_in_sync,
            "log_bytes": log_bytes,
        }
