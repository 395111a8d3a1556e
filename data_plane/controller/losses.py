"""Elections that may lose what was acknowledged, and the declaration of what was lost: never silent, never by accident.

A partition whose in-sync and eligible sets are both empty is

    leaderless --all last known eligible replicas back, none damaged--> led by the longest log (RL47)
    leaderless --an operator names a replica--> led by that one, as far as it is whole (RL48)
    led by its only whole copy, damaged --an operator repairs it--> led, cut where the damage begins (RL122)

Each of these raises the partition's log generation, and one transaction holds the new record and a `LossRecord` that
says who was asked, who was chosen, and at which offset the new generation begins. Everything that the old generation
held from there on is lost, whether or not a reader ever saw it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from data_plane.controller.elections import Alive, Transition, alive_in, candidate
from data_plane.metadata import broker_records, model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import LossKind, LossRecord, PartitionRecord, TopicRecord
from data_plane.metadata.port import Compare, Put
from penstock.contract.errors import BrokerUnavailable, InvalidRequest, NotFound
from penstock.contract.ids import NO_BROKER, BrokerId, TopicPartition

ASKED_BY_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEnd:
    """What a replica has while its partition has no leader, as its broker says under `broker_epoch`."""

    broker: BrokerId
    broker_epoch: int
    last_epoch: int
    """The largest that its log has begun, -1 for an empty log."""
    log_end_offset: int
    damage: str = ""
    """Not empty: what is wrong with it. Only an operator may choose it then."""
    sound_end_offset: int = -1
    """With `damage`: it is whole up to here."""

    @property
    def end_offset(self) -> int:
        """Where its log ends if it is chosen."""
        return self.sound_end_offset if self.damage else self.log_end_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWrite:
    """Apply it. Its writer adds the comparison of its own authority."""

    compares: tuple[Compare, ...]
    changes: tuple[Put, ...]
    transition: Transition
    loss: LossRecord


# -- decisions on one record ----------------------------------------------------------------------------


def awaits_last_known(record: PartitionRecord) -> bool:
    """Can no replica lead without the risk of a loss, and is it known which to wait for (RL47)?"""
    return (
        record.leader == NO_BROKER and not record.in_sync and not record.eligible and bool(record.last_known)
    )


def all_back(record: PartitionRecord, ends: Mapping[BrokerId, ReplicaEnd]) -> bool:
    """Has every last known eligible replica said what it holds, undamaged (RL47)? One that is missing may be the only
    one that holds what was acknowledged.
    """
    return all(broker in ends and not ends[broker].damage for broker in record.last_known)


def longest(ends: Sequence[ReplicaEnd]) -> ReplicaEnd:
    """Whose log goes furthest: by the epoch of its last batch, then by its end (RL47); the first of equals.

    A higher epoch wins over a longer log: what was acknowledged last stands in the highest epoch.
    """
    return max(ends, key=lambda end: (end.last_epoch, end.log_end_offset))


def why_not(record: PartitionRecord, broker: BrokerId, alive: Alive) -> str:
    """Why an operator may not let `broker` lead now (RL48); empty if they may. A loss is never risked without need."""
    if broker not in record.replicas:
        return f"broker {broker} holds no replica; {_listed(record.replicas)} do"
    if record.leader != NO_BROKER:
        return f"broker {record.leader} leads it, there is nothing to elect"
    clean = candidate(record, alive)
    if clean != NO_BROKER:
        return f"broker {clean} is elected without any loss, no other one is needed"
    return ""


def led_after_loss(record: PartitionRecord, leader: BrokerId) -> PartitionRecord:
    """The record led by `leader` alone, in a new leader epoch and a new log generation (RL4, RL47, RL48)."""
    return record.changed(
        leader=leader,
        leader_epoch=record.leader_epoch + 1,
        in_sync=(leader,),
        eligible=(),
        last_known=(),
        log_generation=record.log_generation + 1,
        generation_epoch=record.leader_epoch + 1,
    )


def start_after_loss(record: PartitionRecord, end_offset: int) -> int:
    """Before which no log begins (RL108), once the old generation is known to end at `end_offset`: what follows is new,
    and is to be read even where the old log began later.
    """
    return min(record.log_start, end_offset)


# -- one partition of the image -------------------------------------------------------------------------


def waiting_in(image: ClusterImage) -> list[TopicPartition]:
    """Partitions whose last known eligible replicas are all alive: to be asked what they hold. In a fixed order."""
    if not image.leader_counts[NO_BROKER]:
        return []  # the ordinary case, which is asked for at every revision
    alive = alive_in(image)
    return sorted(
        TopicPartition(topic_id, record.partition)
        for topic_id, blocks in image.blocks.items()
        if topic_id in image.topics
        for block in blocks.values()
        for record in block.partitions.values()
        if awaits_last_known(record) and all(alive(broker) for broker in record.last_known)
    )


def elect_longest(
    image: ClusterImage, where: TopicPartition, ends: Sequence[ReplicaEnd], *, declared_ms: int
) -> LossWrite | None:
    """Elect the last known eligible replica whose log goes furthest, once all of them have answered (RL47).

    None while one is missing, damaged, or has been fenced since it answered. `declared_ms` is only for people.
    """
    record, topic = image.partition(where), image.topics.get(where.topic_id)
    if record is None or topic is None or not awaits_last_known(record):
        return None
    answered = {
        end.broker: end for end in ends if end.broker_epoch and end.broker_epoch == image.epoch_of(end.broker)
    }
    if not all_back(record, answered):
        return None
    asked = [answered[b] for b in record.replicas if b in record.last_known and b in answered]
    return _declared(image, topic, record, longest(asked), asked, LossKind.LONGEST, "", declared_ms)


def force_election(
    image: ClusterImage, where: TopicPartition, end: ReplicaEnd, *, asked_by: str, declared_ms: int
) -> LossWrite:
    """Let the replica that an operator names lead, whatever is lost by it (RL48).

    `end` is what it holds. Raises `NotFound`, `InvalidRequest` when it is no replica, when the partition is led, or
    when another one could be elected without a loss, `BrokerUnavailable` when its broker is fenced or draining.
    """
    topic, record, name = _named(image, where)
    broker, alive = end.broker, alive_in(image)
    why = why_not(record, broker, alive)
    if why:
        raise InvalidRequest(f"{name}: {why}")
    if not alive(broker) or end.broker_epoch != image.epoch_of(broker):
        raise BrokerUnavailable(f"{name}: broker {broker} is not active, and must be to lead")
    return _declared(image, topic, record, end, [end], LossKind.FORCED, asked_by, declared_ms)


def repair(
    image: ClusterImage, where: TopicPartition, end: ReplicaEnd, *, asked_by: str, declared_ms: int
) -> LossWrite:
    """Declare lost what the only copy of a partition holds from its first damage on (RL122).

    Raises `NotFound`, `InvalidRequest` when nothing is damaged or another copy has it whole, `BrokerUnavailable`.
    """
    topic, record, name = _named(image, where)
    if record.leader != end.broker or end.broker_epoch != image.epoch_of(end.broker):
        raise BrokerUnavailable(f"{name}: broker {end.broker} does not lead it any more; ask again")
    if record.in_sync != (end.broker,):
        raise InvalidRequest(
            f"{name}: brokers {_listed(record.in_sync)} are in sync: what is damaged is fetched from a whole copy"
        )
    if not end.damage:
        raise InvalidRequest(f"{name}: nothing of it is known to be damaged")
    return _declared(image, topic, record, end, [end], LossKind.REPAIR, asked_by, declared_ms)


def _named(image: ClusterImage, where: TopicPartition) -> tuple[TopicRecord, PartitionRecord, str]:
    record, topic = image.partition(where), image.topics.get(where.topic_id)
    if record is None or topic is None:
        raise NotFound(f"partition {where} does not exist")
    return topic, record, f"{topic.name}-{record.partition}"


def _listed(brokers: Sequence[BrokerId]) -> str:
    return ", ".join(map(str, brokers))


def _declared(
    image: ClusterImage, topic: TopicRecord, record: PartitionRecord, chosen: ReplicaEnd,
    asked: Sequence[ReplicaEnd], kind: LossKind, asked_by: str, declared_ms: int,
) -> LossWrite:  # fmt: skip
    """The block with the new record, and the loss beside it. Compares the block, and that every broker that was asked
    still has the registration under which it answered (RL35)."""
    where = TopicPartition(topic.topic_id, record.partition)
    block = image.blocks[where.topic_id][where.partition // model.PARTITIONS_PER_BLOCK]
    led = led_after_loss(record, chosen.broker)
    after = replace(led, log_start=start_after_loss(record, chosen.end_offset))
    loss = LossRecord(
        tenant=topic.tenant,
        topic=topic.name,
        kind=kind,
        log_generation=after.log_generation,
        leader=chosen.broker,
        leader_epoch=after.leader_epoch,
        offset=chosen.end_offset,
        known_end_offset=max(end.log_end_offset for end in asked),
        last_known=record.last_known or record.eligible or record.in_sync,
        ends=tuple((end.broker, end.last_epoch, end.log_end_offset) for end in asked),
        asked_by=asked_by[:ASKED_BY_LENGTH_MAX],
        declared_ms=declared_ms,
    )
    loss_key = model.loss_key(where.topic_id, where.partition, after.log_generation)
    live = {end.broker: end.broker_epoch for end in asked}
    return LossWrite(
        compares=(
            Compare(block.key, block.revision),
            Compare(loss_key, 0),
            *(Compare(broker_records.live_key(broker), live[broker]) for broker in sorted(live)),
        ),
        changes=(
            Put(block.key, model.encode_block({**block.partitions, record.partition: after})),
            Put(loss_key, loss.encode()),
        ),
        transition=Transition(topic_id=where.topic_id, before=record, after=after),
        loss=loss,
    )


def declared_here(
    image: ClusterImage, where: TopicPartition, record: PartitionRecord, *, last_epoch: int
) -> LossRecord | None:
    """The loss by which `record`'s log generation began, for a log that has not begun it: its last batch is older.

    Such a log may be truncated to where that generation begins, below its own watermark too (RL31).
    """
    if not begins_below(record, last_epoch=last_epoch):
        return None
    return image.losses.get(where, {}).get(record.log_generation)


def begins_below(record: PartitionRecord, *, last_epoch: int) -> bool:
    """Was a loss declared since the log's last batch was written (RL31)?"""
    return record.generation_epoch > last_epoch
