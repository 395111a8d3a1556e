"""Reassignment of a partition's replicas: grow, catch up, shrink (RL52), as compare-and-set writes of its record.

    settled --retargeted--> growing: replicas = those before and the added ones, `target` = those that must remain
    growing --every added replica in the target in sync, enough of the target in sync--> settled on the target
    growing --retargeted to the replicas before--> shrinking back, by the same bound: a cancel

The broker that takes the change puts the first write; the partition's leader puts the last one, once nothing of it is
unanswered, so that no client hears of an unknown outcome. Nothing is kept anywhere but in the record: whichever
broker leads next goes on. Each write raises the partition epoch (RL5), the last one the leader epoch (RL4).
"""

from collections.abc import Sequence
from dataclasses import replace

from data_plane.controller.elections import Alive
from data_plane.controller.tenants import Transaction
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from data_plane.metadata.port import Compare, Put
from data_plane.replication.eligibility import with_in_sync
from penstock.contract.errors import BrokerUnavailable, InvalidRequest, NotFound
from penstock.contract.ids import NO_BROKER, BrokerId, TopicPartition

_NOTHING = Transaction(compares=(), changes=())


# -- decisions on one record ----------------------------------------------------------------------------


def new_generation(record: PartitionRecord) -> int:
    """The generation of a replica that the next write adds: one that no replica of this partition ever had (RL39)."""
    return record.partition_epoch + 1


def retargeted(record: PartitionRecord, target: tuple[BrokerId, ...]) -> PartitionRecord | None:
    """The record on its way to `target`, or None when that is where it is or goes already.

    Going back to the replicas before is the cancel. Another order of the same replicas is settled at once.
    """
    if target == (record.target or record.replicas):
        return None
    settled = record.settled_replicas
    if not record.adding and sorted(target) == sorted(record.replicas):
        return _kept_only(record.changed(target=(), adding=()), target)
    replicas = record.replicas + tuple(b for b in target if b not in record.replicas)
    generations = record.replica_generations + (new_generation(record),) * (
        len(replicas) - len(record.replicas)
    )
    return record.changed(
        replicas=replicas,
        replica_generations=generations,
        target=target,
        adding=tuple(b for b in replicas if b not in settled),
    )


def may_finish(record: PartitionRecord, min_insync: int) -> bool:
    """Are the added replicas that are to stay in sync, and enough of all that stay (RL52)? A cancel obeys it too."""
    if not record.target:
        return False
    in_sync = [broker for broker in record.target if broker in record.in_sync]
    added_in_sync = all(broker in record.in_sync for broker in record.adding if broker in record.target)
    return added_in_sync and len(in_sync) >= max(min_insync, 1)


def finished(record: PartitionRecord, *, alive: Alive, min_insync: int) -> PartitionRecord | None:
    """The record settled on its target, in the next leader epoch. Its leader leads on if it stays.

    None: not yet, or no replica of the target is both in sync and alive.
    """
    if record.leader == NO_BROKER or not may_finish(record, min_insync):
        return None
    able = [b for b in (record.leader, *record.target) if b in record.target and b in record.in_sync]
    leader = next((broker for broker in able if alive(broker)), NO_BROKER)
    if leader == NO_BROKER:
        return None
    settled = _kept_only(replace(record, target=(), adding=()), record.target)
    led = replace(settled, leader=leader, leader_epoch=record.leader_epoch + 1)
    return with_in_sync(led, led.in_sync, min_insync)


def _kept_only(record: PartitionRecord, target: tuple[BrokerId, ...]) -> PartitionRecord:
    """Only these replicas, in this order, each with what it was."""
    return replace(
        record,
        replicas=target,
        replica_generations=tuple(record.generation_of(broker) for broker in target),
        in_sync=tuple(b for b in target if b in record.in_sync),
        eligible=tuple(b for b in target if b in record.eligible),
        last_known=tuple(b for b in target if b in record.last_known),
    )


# -- what an operator asks for ----------------------------------------------------------------------------


def alter_replicas(image: ClusterImage, where: TopicPartition, target: Sequence[int] | None) -> Transaction:
    """Begin, change or (None) cancel a reassignment. No changes = the record says so already.

    Raises `NotFound`, `InvalidRequest`, `BrokerUnavailable` (a broker to be added is not active).
    """
    topic, block = image.topics.get(where.topic_id), image.block_of(where)
    record = image.partition(where)
    if topic is None or block is None or record is None:
        raise NotFound(f"partition {where} does not exist")
    what = f"{topic.name}-{where.partition}"
    if target is None:
        wanted = record.settled_replicas if record.target else record.replicas
    else:
        wanted = _checked_target(image, what, target, topic.settings.replication, record)
    after = retargeted(record, wanted)
    if after is None:
        return _NOTHING
    topic_key = model.topic_key(where.topic_id)
    return Transaction(
        compares=(
            Compare(block.key, block.revision),
            Compare(topic_key, image.topic_revisions[where.topic_id]),
        ),
        changes=(Put(block.key, model.encode_block({**block.partitions, where.partition: after})),),
    )


def _checked_target(
    image: ClusterImage, what: str, target: Sequence[int], replication: int, record: PartitionRecord
) -> tuple[BrokerId, ...]:
    count = len(record.settled_replicas)
    if not min(count, replication) <= len(target) <= max(count, replication):
        raise InvalidRequest(
            f"{what}: {len(target)} replicas named, replication is {replication}"
            + (f" and there are {count}" if count != replication else "")
        )
    wanted = tuple(BrokerId(broker) for broker in target)
    for index, broker in enumerate(wanted):
        if broker in wanted[:index]:
            raise InvalidRequest(f"{what}: broker {broker} is named twice")
        if broker not in image.brokers:
            raise InvalidRequest(f"{what}: broker {broker} is not known")
        if broker in record.replicas:
            continue
        if not image.brokers[broker].active:
            raise BrokerUnavailable(f"{what}: broker {broker} is not active, it cannot take a replica now")
        if image.cordoned(broker):
            raise InvalidRequest(f"{what}: broker {broker} is being drained, it takes no replicas")
    return wanted
