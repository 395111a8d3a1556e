"""Following the metadata: which replicas are here, and which role each of them has."""

from data_plane.controller.losses import declared_here
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from data_plane.metadata.port import WatchBatch
from data_plane.node.membership.registration import Registration
from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.leader_links import LeaderLinks
from data_plane.node.replicas.removal import Removal
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.replication.health import Remedy, Sound, remedy
from penstock.contract.ids import NO_BROKER, BrokerId, TopicId, TopicPartition


class Assignment:
    """Never awaits: what needs an await is noted as due work."""

    def __init__(
        self,
        me: BrokerId,
        *,
        image: ClusterImage,
        registration: Registration,
        replicas: ReplicaSet,
        due: DueWork,
        links: LeaderLinks,
        removal: Removal,
    ) -> None:
        self._me = me
        self._image = image
        self._registration = registration
        self._replicas = replicas
        self._due = due
        self._links = links
        self._removal = removal

    def observe(self, batch: WatchBatch | None) -> None:
        """The image moved: look at what the batch touched, or at everything."""
        if batch is None:
            self.look_at_all()
            return
        for event in batch.events:
            kind, _, rest = event.key[1:].partition("/")
            if kind == "partitions":
                topic_hex, _, block = rest.partition("/")
                self._look_at_block(TopicId(bytes.fromhex(topic_hex)), int(block))
            elif kind in ("topics", "tombstones"):
                self._look_at_topic(TopicId(bytes.fromhex(rest)))

    def look_at_all(self) -> None:
        """Every partition takes the role that the image gives it now."""
        for topic_id in list(self._image.topics):
            self._look_at_topic(topic_id)
        for where in list(self._replicas.by_partition):
            if where.topic_id not in self._image.topics:
                self._look_at_topic(where.topic_id)

    def _look_at_topic(self, topic_id: TopicId) -> None:
        if topic_id in self._image.topics:
            for block in sorted(self._image.blocks.get(topic_id, {})):
                self._look_at_block(topic_id, block)
        elif topic_id in self._image.tombstones:
            for where in self._replicas.of_topic(topic_id):
                self._removal.of_deleted_topic(where)

    def _look_at_block(self, topic_id: TopicId, number: int) -> None:
        topic = self._image.topics.get(topic_id)
        block = self._image.blocks.get(topic_id, {}).get(number)
        if topic is None or block is None:
            return
        for partition in sorted(block.partitions):
            record = block.partitions[partition]
            where = TopicPartition(topic_id, partition)
            replica = self._replicas.find(where)
            if replica is not None and not self._still_mine(record, replica):
                self._removal.of_moved_partition(where)
                replica = None
            if self._me not in record.replicas:
                continue
            if replica is None:
                self._due.make(where)
            else:
                replica.topic = topic
                replica.log.settings = topic.log_settings
                if replica.leading is not None:
                    replica.leading.require_in_sync(topic.settings.min_insync_replicas)
                    replica.carry_out()
                self.give_role(replica)

    def _still_mine(self, record: PartitionRecord, replica: Replica) -> bool:
        """Does the record count this very replica, or say nothing newer than what it knows (RL39, RL53)?"""
        known = replica.record
        if known is not None and record.partition_epoch <= known.partition_epoch:
            return True
        return (
            self._me in record.replicas and record.generation_of(self._me) == replica.log.replica_generation
        )

    def give_role(self, replica: Replica) -> None:
        """Lead, follow or rest, as the image says now; later if the replica is busy. What was given under an earlier
        registration ends at once all the same: a follower opens again under the new one (RL3, RL34)."""
        before = replica.following
        if replica.busy:
            replica.on_settled = self.give_role
            if not self._registration.in_force():
                replica.rest()
                if before is not None:
                    self._links.leave(replica, before)
            return
        record = self._image.partition(replica.where)
        if record is not None:
            replica.in_generation(record.log_generation)
        if record is not None and record.target and record.leader == self._me:
            self._replicas.reassigning[replica.where] = None
        else:
            self._replicas.reassigning.pop(replica.where, None)
        if record is None or not self._registration.in_force():
            replica.rest()
        elif self._remedy(replica, record) is not Remedy.NONE:
            replica.rest()
            self._due.heal(replica.where)
        elif replica.stopped:
            replica.rest()
        elif record.leader == self._me:
            replica.lead(record)
            self._replicas.changed(replica)
            due = replica.log_start_due
            if due is not None:
                self._due.trim(replica, due)
        elif record.leader == NO_BROKER:
            replica.rest()
        else:
            replica.follow(record)
        if replica.following != before:
            if before is not None:
                self._links.leave(replica, before)
            if replica.following is not None:
                self._links.follow(replica, replica.following)

    def remedy(self, replica: Replica) -> Remedy:
        """What is to be done now for the replica's health."""
        record = self._image.partition(replica.where)
        if record is None or not self._registration.in_force() or not self._replicas.has(replica):
            return Remedy.NONE
        return self._remedy(replica, record)

    def _remedy(self, replica: Replica, record: PartitionRecord) -> Remedy:
        if isinstance(replica.health, Sound):
            return Remedy.NONE  # the ordinary case, whenever the metadata moves
        return remedy(
            replica.health,
            loss_declared=self._given_as_it_is(replica, record),
            counted_on=self._counted_on(record),
            led=record.leader != NO_BROKER,
            damage_named=bool(replica.log.damage),
        )

    def _counted_on(self, record: PartitionRecord) -> bool:
        """Whether this replica leads or may lead next: only what no broker counts on may be fetched again from
        another one that leads (RL122)."""
        return self._me == record.leader or self._me in record.in_sync or self._me in record.eligible

    def _given_as_it_is(self, replica: Replica, record: PartitionRecord) -> bool:
        """An operator chose this replica as it is: a loss was declared that covers all that is wrong with it."""
        if record.leader != self._me:
            return False
        loss = declared_here(self._image, replica.where, record, last_epoch=replica.log.last_epoch)
        return loss is not None and replica.sound_end_offset >= loss.offset
