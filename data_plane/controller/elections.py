"""Elections: what a partition's record becomes when brokers come, go or drain, as compare-and-set writes.

Every function is pure and returns the successor of a record, or None when nothing has to change. A record is

    led --leader leaves--> leaderless --an in-sync or eligible replica is alive--> led

The controller only shrinks the in-sync set; the one replica it may put back is an eligible one, elected
into an empty set (RL40). `alive` means unfenced and not draining.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from data_plane.metadata import broker_records, model
from data_plane.metadata.image import BlockId, ClusterImage, PartitionBlock
from data_plane.metadata.model import PartitionRecord
from data_plane.metadata.port import Change, Compare, Delete
from data_plane.replication.eligibility import forgotten, in_order, with_in_sync
from penstock.contract.ids import NO_BROKER, BrokerId, TopicId, TopicPartition
from penstock.contract.topic_settings import Durability

Alive = Callable[[BrokerId], bool]
RecordChange = Callable[[TopicId, PartitionRecord, int], PartitionRecord | None]
"""(topic, record, min in sync) -> the record's successor, or None when it stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What changed for one partition, for the structured log."""

    topic_id: TopicId
    before: PartitionRecord
    after: PartitionRecord

    @property
    def reason(self) -> str:
        if self.after.leader == self.before.leader:
            return "in-sync set shrunk"
        if self.after.leader == NO_BROKER:
            return "leader lost, no candidate"
        if self.before.leader == NO_BROKER:
            return "leader elected"
        return "leader replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWrite:
    """One partition block with all its changes. Its writer adds the comparison of its own authority.

    `compares` hold the block at `block_revision` and the registration of every newly elected leader.
    """

    key: str
    block_revision: int
    value: bytes
    compares: tuple[Compare, ...]
    transitions: tuple[Transition, ...]


# -- decisions on one record ----------------------------------------------------------------------------


def candidate(record: PartitionRecord, alive: Alive) -> BrokerId:
    """Who may lead (RL41): the first in-sync replica that is alive; with no in-sync replica at all, the first
    eligible one that is alive; else NO_BROKER.
    """
    pool = record.in_sync or record.eligible
    return next((broker for broker in record.replicas if broker in pool and alive(broker)), NO_BROKER)


def elect(record: PartitionRecord, *, alive: Alive, min_insync: int) -> PartitionRecord | None:
    """The record with a leader, if it has none and someone may lead (RL4, RL40, RL41)."""
    if record.leader != NO_BROKER:
        return None
    leader = candidate(record, alive)
    if leader == NO_BROKER:
        return None
    led = replace(record, leader=leader, leader_epoch=record.leader_epoch + 1)
    return with_in_sync(led, record.in_sync or (leader,), min_insync)


def without(record: PartitionRecord, gone: Alive, *, min_insync: int) -> PartitionRecord | None:
    """The record after every replica that is `gone` was fenced (RL42): out of leadership and of the in-sync
    set, eligible by RL43. Those that leave in one write are all as complete as the set was.

    The last in-sync member leaves an empty set and stays eligible. A lost leader raises the leader epoch at
    once, so that whatever it still sends is fenced (RL7).
    """
    in_sync = tuple(broker for broker in record.in_sync if not gone(broker))
    led = record.leader != NO_BROKER and not gone(record.leader)
    if in_sync == record.in_sync and (led or record.leader == NO_BROKER):
        return None
    left = record if led else replace(record, leader=NO_BROKER)
    if left.leader != record.leader:
        left = replace(left, leader_epoch=record.leader_epoch + 1)
    return with_in_sync(left, in_sync, min_insync)


def without_broker(record: PartitionRecord, broker: BrokerId, *, min_insync: int) -> PartitionRecord | None:
    """The record after `broker` alone was fenced (RL42)."""
    return without(record, lambda b: b == broker, min_insync=min_insync)


def strip_unclean(record: PartitionRecord, broker: BrokerId, *, min_insync: int) -> PartitionRecord | None:
    """The record after `broker` lost data it had acknowledged (RL44): neither leader, in sync nor eligible.

    While fewer than `min_insync` are in sync it is remembered as last known.
    """
    if broker != record.leader and broker not in record.in_sync and broker not in record.eligible:
        return None
    left = without_broker(record, broker, min_insync=min_insync) or record.changed()
    if len(left.in_sync) >= min_insync:
        return left
    return replace(
        left,
        eligible=tuple(b for b in left.eligible if b != broker),
        last_known=in_order(left, lambda b: b in left.last_known or b == broker),
    )


def moved_from(record: PartitionRecord, broker: BrokerId, *, alive: Alive) -> PartitionRecord | None:
    """The record led by another in-sync member that is alive, if `broker` leads (RL50). The in-sync set
    stays as it is, and without such a member so does the leader (RL51).
    """
    if record.leader != broker:
        return None
    other = next((b for b in record.replicas if b != broker and b in record.in_sync and alive(b)), NO_BROKER)
    if other == NO_BROKER:
        return None
    return record.changed(leader=other, leader_epoch=record.leader_epoch + 1)


def successor(
    record: PartitionRecord, *, registered: Alive, alive: Alive, min_insync: int
) -> PartitionRecord | None:
    """What the record must become given who is `registered` (unfenced) and who is `alive`, as one write."""
    after = without(record, lambda broker: not registered(broker), min_insync=min_insync) or record
    after = elect(after, alive=alive, min_insync=min_insync) or after
    if after.leader != NO_BROKER and not alive(after.leader):
        after = moved_from(after, after.leader, alive=alive) or after
    return None if after is record else as_one_write(record, after)


def as_one_write(before: PartitionRecord, after: PartitionRecord) -> PartitionRecord:
    """`after` with the epochs of a single change: the partition epoch rises by one (RL5), the leader epoch
    by one if the leader changed or was lost and elected again (RL4).
    """
    leader_epoch = before.leader_epoch + (1 if after.leader_epoch != before.leader_epoch else 0)
    return replace(after, partition_epoch=before.partition_epoch + 1, leader_epoch=leader_epoch)


# -- the whole image ------------------------------------------------------------------------------------


def plan(image: ClusterImage, blocks: Iterable[BlockId]) -> list[BlockWrite]:
    """Block writes for everything in these blocks that must change given who is alive now: fenced members still in
    sync or leading, partitions without a leader that have a candidate, leaders that drain. Empty = nothing to do.

    The caller adds its controller key's revision to each write's compares. Writes are of different blocks
    and may be sent in any order or together.
    """
    registered, alive = registered_in(image), alive_in(image)

    def change(_: TopicId, record: PartitionRecord, min_insync: int) -> PartitionRecord | None:
        return successor(record, registered=registered, alive=alive, min_insync=min_insync)

    return list(_changed_blocks(image, blocks, change))


def departures(
    image: ClusterImage,
    broker: BrokerId,
    blocks: Iterable[BlockId],
    *,
    data_lost: Callable[[TopicId], bool],
    damaged: Callable[[TopicPartition], bool] = lambda where: False,
    emptied: bool = False,
) -> list[BlockWrite]:
    """Block writes that take a fenced `broker` out of everything that it led or was in sync with in these blocks
    (RL42).

    A broker applies these to itself, of all blocks, until none is left, between being fenced and registering: so
    whatever it may do under its new broker epoch was given to it under that epoch. `image` must be at least as new
    as the revision at which it was found fenced; each write compares that it still is.

    Replicas of a topic with `data_lost` (stopped without the clean marker, see `lost_by_crash`; or all of
    them, when the log directory is another one, RL54) and those `damaged` below their durable mark are
    stripped of eligibility too (RL44, RL45). With `emptied`, another log directory, no election waits for them
    either: one that may lose something must not wait for what cannot come back (RL47).
    """

    def change(topic_id: TopicId, record: PartitionRecord, min_insync: int) -> PartitionRecord | None:
        if data_lost(topic_id) or damaged(TopicPartition(topic_id, record.partition)):
            stripped = strip_unclean(record, broker, min_insync=min_insync)
            if not emptied or (stripped is None and broker not in record.last_known):
                return stripped
            return forgotten(record.changed() if stripped is None else stripped, broker)
        return without_broker(record, broker, min_insync=min_insync)

    fenced = Compare(broker_records.live_key(broker), 0)
    writes = _changed_blocks(image, blocks, change)
    return [replace(write, compares=(*write.compares, fenced)) for write in writes]


def strip_replica(image: ClusterImage, broker: BrokerId, where: TopicPartition) -> BlockWrite | None:
    """The write by which a registered broker gives up one damaged replica of its own (RL122, RL126): out of
    leadership, the in-sync set and eligibility. It compares the broker's registration. One that is out of them already
    is written on all the same: no leader can have taken it in meanwhile, nor can by what was known before. None = there
    is no such replica.
    """
    block = image.block_of(where)
    if block is None or where.topic_id not in image.topics:
        return None

    def change(_: TopicId, record: PartitionRecord, min_insync: int) -> PartitionRecord | None:
        if record.partition != where.partition or broker not in record.replicas:
            return None
        return strip_unclean(record, broker, min_insync=min_insync) or record.changed()

    write = rewritten_block(image, where.topic_id, block, change)
    if write is None:
        return None
    return replace(
        write, compares=(*write.compares, Compare(broker_records.live_key(broker), image.epoch_of(broker)))
    )


def lost_by_crash(image: ClusterImage, topic_id: TopicId) -> bool:
    """Does a stop without the clean marker make replicas of this topic unclean (RL44)? Strict ones stay
    clean (RL45).
    """
    return image.topics[topic_id].settings.durability is not Durability.FSYNC


def alive_in(image: ClusterImage) -> Alive:
    """Unfenced and not draining, by this image."""

    def alive(broker: BrokerId) -> bool:
        known = image.brokers.get(broker)
        return known is not None and known.active

    return alive


def registered_in(image: ClusterImage) -> Alive:
    """Unfenced, draining or not, by this image."""
    return lambda broker: image.epoch_of(broker) != 0


def fence_changes(
    image: ClusterImage, broker: BrokerId
) -> tuple[tuple[Compare, ...], tuple[Change, ...]] | None:
    """Fence a suspected broker: its registration is deleted if it is still the one this image knows. None =
    it is fenced.

    The caller adds its own authority. What the broker led is taken from it by the next `plan` (RL42).
    """
    epoch = image.epoch_of(broker)
    if epoch == 0:
        return None
    key = broker_records.live_key(broker)
    return (Compare(key, epoch),), (Delete(key),)


def rewritten_block(
    image: ClusterImage, topic_id: TopicId, block: PartitionBlock, change: RecordChange
) -> BlockWrite | None:
    """The block with `change` applied to each of its partitions, or None if it leaves all as they are."""
    min_insync = image.topics[topic_id].settings.min_insync_replicas
    records = dict(block.partitions)
    transitions: list[Transition] = []
    elected: dict[BrokerId, int] = {}
    for number in sorted(records):
        before = records[number]
        after = change(topic_id, before, min_insync)
        if after is None:
            continue
        records[number] = after
        transitions.append(Transition(topic_id=topic_id, before=before, after=after))
        if after.leader not in (NO_BROKER, before.leader):
            elected[after.leader] = image.epoch_of(after.leader)
    if not transitions:
        return None
    registrations = tuple(Compare(broker_records.live_key(b), elected[b]) for b in sorted(elected))
    return BlockWrite(
        key=block.key,
        block_revision=block.revision,
        value=model.encode_block(records),
        compares=(Compare(block.key, block.revision), *registrations),
        transitions=tuple(transitions),
    )


def _changed_blocks(
    image: ClusterImage, blocks: Iterable[BlockId], change: RecordChange
) -> Iterator[BlockWrite]:
    """Writes of those blocks of topics that exist, in their order, leaving out those that stay as they are."""
    for topic_id, number in blocks:
        block = image.blocks.get(topic_id, {}).get(number)
        if block is None or topic_id not in image.topics:
            continue
        write = rewritten_block(image, topic_id, block, change)
        if write is not None:
            yield write
