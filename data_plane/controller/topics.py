"""Creating, changing and deleting topics, and taking blocks of producer ids, as compare-and-set transactions.

Each function answers with what to compare and what to change, or raises the refusal (a `PenstockError`).
Any broker may do these: the caller adds no authority. A failed comparison means that the image was behind:
wait for it, ask again. No changes = the store already says so. Generations count as in `tenants`; a deleted
topic's tombstone keeps its last one, so nothing late brings it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from data_plane.controller.tenants import Transaction, outdated, unchanged
from data_plane.metadata import broker_records, model
from data_plane.metadata.features import ACCESS_LISTS
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Change, Compare, Delete, KeyValue, Put
from penstock.contract import limits
from penstock.contract.errors import AlreadyExists, BrokerUnavailable, InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT, TOPIC_ID_BYTES, BrokerId, TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.names import AUDIT_TOPIC, check_topic_name

PRODUCER_ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """Apply it (no changes: it was applied before, or `ignored`), then the topic is `record`."""

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]
    record: model.TopicRecord
    ignored: bool = False


_NOTHING = Transaction(compares=(), changes=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """Once applied, ids first <= id < end belong to the caller alone (RL64)."""

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]
    first: int
    end: int


# -- topics ---------------------------------------------------------------------------------------------


def create_topic(
    image: ClusterImage,
    topic_id: TopicId,
    tenant: TenantId,
    name: str,
    settings: TopicSettings,
    assignments: Sequence[Sequence[int]],
    *,
    generation: int = 0,
    beside: int = 0,
) -> NewTopic:
    """A new topic with these replicas; `topic_id` is 16 fresh random bytes (RL1).

    `beside`: partitions that the same transaction gives the tenant already.

    Each partition is led by its first active replica, its active replicas are in sync. The registrations of
    all of them are compared (RL35), so no replica that was fenced meanwhile is in sync. A topic that has this id
    and name already is brought to the settings and the number of partitions if the generation is higher.
    Raises `InvalidRequest`, `NotFound` (tenant), `AlreadyExists`, `LimitExceeded`, `BrokerUnavailable`.
    """
    if len(topic_id) != TOPIC_ID_BYTES:
        raise InvalidRequest(f"topic id of {len(topic_id)} bytes, {TOPIC_ID_BYTES} required")
    if tenant not in image.tenants and tenant != SYSTEM_TENANT:
        raise NotFound(f"tenant {tenant!r} does not exist")
    if name != AUDIT_TOPIC or image.level < ACCESS_LISTS:
        check_topic_name(tenant, name)
    existing = image.topics.get(topic_id)
    if existing is not None and (existing.tenant, existing.name) == (tenant, name):
        return _created_before(image, existing, settings, assignments, generation)
    buried = image.buried.get(topic_id)
    if buried is not None and 0 < generation < buried.generation:
        record = model.TopicRecord(
            topic_id=topic_id, tenant=tenant, name=name, partitions=buried.partitions, settings=settings
        )
        return NewTopic(compares=(), changes=(), record=record, ignored=True)
    if existing is not None or buried is not None:
        raise AlreadyExists(f"topic id {topic_id.hex()} was used before: a new topic needs a new id")
    if (tenant, name) in image.names:
        raise AlreadyExists(f"topic {name!r} exists")
    topic = model.TopicRecord(
        topic_id=topic_id,
        tenant=tenant,
        name=name,
        partitions=len(assignments),
        settings=settings,
        generation=generation,
    )
    _check_partitions(name, len(assignments), 1)
    within_limit = _within_limit(image, tenant, name, len(assignments), beside)
    added = _added(image, topic, 0, assignments, {})
    name_key, topic_key = model.name_key(tenant, name), model.topic_key(topic_id)
    return NewTopic(
        compares=(
            Compare(name_key, 0),
            Compare(topic_key, 0),
            Compare(model.tombstone_key(topic_id), 0),
            *within_limit.compares,
            *added.compares,
        ),
        changes=(
            Put(name_key, topic_id.hex().encode()),
            Put(topic_key, topic.encode()),
            *within_limit.changes,
            *added.changes,
        ),
        record=topic,
    )


def _created_before(
    image: ClusterImage,
    existing: model.TopicRecord,
    settings: TopicSettings,
    assignments: Sequence[Sequence[int]],
    generation: int,
) -> NewTopic:
    if generation <= existing.generation:
        ignored = outdated(generation, existing.generation)
        return NewTopic(compares=(), changes=(), record=existing, ignored=ignored)
    _check_partitions(existing.name, len(assignments), existing.partitions)
    return update_topic(
        image,
        existing.topic_id,
        existing.tenant,
        settings,
        assignments[existing.partitions :],
        generation=generation,
    )


def update_topic(
    image: ClusterImage,
    topic_id: TopicId,
    tenant: TenantId,
    settings: TopicSettings,
    added: Sequence[Sequence[int]],
    *,
    generation: int = 0,
) -> NewTopic:
    """The topic with these settings as a whole and with `added` partitions more, placed by the caller.

    A repetition of the stored generation adds none again. Another replication is what reassignments may go to from
    now on; the replicas stay until then. Durability stays: it says what was acknowledged. Raises `InvalidRequest`,
    `NotFound` (also for another tenant's topic), `LimitExceeded`, `BrokerUnavailable`.
    """
    topic = image.topics.get(topic_id)
    if topic is None or topic.tenant != tenant:
        buried = image.buried.get(topic_id)
        if buried is not None and buried.tenant == tenant and 0 < generation < buried.generation:
            record = model.TopicRecord(
                topic_id=topic_id,
                tenant=tenant,
                name=buried.name,
                partitions=buried.partitions,
                settings=settings,
            )
            return NewTopic(compares=(), changes=(), record=record, ignored=True)
        raise NotFound(f"topic id {topic_id.hex()[:32]} does not exist")
    if outdated(generation, topic.generation):
        return NewTopic(compares=(), changes=(), record=topic, ignored=True)
    if settings.durability != topic.settings.durability:
        raise InvalidRequest(
            f"{topic.name}: durability is {topic.settings.durability.name.lower()} and cannot be changed"
        )
    if generation and generation == topic.generation:
        added = ()
    after = replace(
        topic,
        settings=settings,
        partitions=topic.partitions + len(added),
        generation=max(generation, topic.generation),
    )
    if after == topic:
        return NewTopic(compares=(), changes=(), record=topic)
    _check_partitions(topic.name, after.partitions, topic.partitions)
    within_limit = _within_limit(image, tenant, topic.name, len(added), 0) if added else _NOTHING
    eased = {}
    if settings.min_insync_replicas < topic.settings.min_insync_replicas:
        eased = _eased(image, topic_id, settings.min_insync_replicas)
    grown = _added(image, after, topic.partitions, added, eased)
    topic_key = model.topic_key(topic_id)
    return NewTopic(
        compares=(
            Compare(topic_key, image.topic_revisions[topic_id]),
            *within_limit.compares,
            *grown.compares,
        ),
        changes=(Put(topic_key, after.encode()), *within_limit.changes, *grown.changes),
        record=after,
    )


def _check_partitions(name: str, wanted: int, lowest: int) -> None:
    if not lowest <= wanted <= limits.PARTITIONS_PER_TOPIC_MAX:
        raise LimitExceeded(
            f"{name}: {wanted} partitions, {lowest} to {limits.PARTITIONS_PER_TOPIC_MAX} allowed in one topic; use"
            " several topics",
            limit="PARTITIONS_PER_TOPIC_MAX",
        )


def _within_limit(image: ClusterImage, tenant: TenantId, name: str, more: int, beside: int) -> Transaction:
    """The tenant's partition limit allows `more`, and those `beside` it. Raises `LimitExceeded`.

    With a limit, every change that raises the use rewrites one key, so of two at once one must look again.
    """
    known = image.tenants.get(tenant)
    same_limit = Compare(model.tenant_key(tenant), image.tenant_revisions.get(tenant, 0))
    limit = 0 if known is None else known.quotas.partitions_max
    if limit == 0:
        return Transaction(compares=(same_limit,), changes=())
    used = image.partitions_used(tenant) + beside
    if used + more > limit:
        raise LimitExceeded(
            f"{name}: partitions_max of the tenant is {limit}, {used} are used and {more} more were asked for; delete a"
            " topic, or ask for a higher limit",
            limit="partitions_max",
        )
    use_key = model.use_key(tenant)
    return Transaction(
        compares=(same_limit, Compare(use_key, image.use_revisions.get(tenant, 0))),
        changes=(Put(use_key, model.UseRecord(partitions=used + more).encode()),),
    )


def _eased(
    image: ClusterImage, topic_id: TopicId, min_insync: int
) -> dict[int, dict[int, model.PartitionRecord]]:
    """Every block as it must be once fewer replicas in sync are demanded.

    Where there are enough now the watermark moves on, without the replicas that were electable because it stood
    still (RL43). Blocks that stay as they are count too: writing them fails what was decided under the old demand.
    """
    blocks = image.blocks.get(topic_id, {})
    return {
        number: {
            partition: record.changed(eligible=(), last_known=())
            if len(record.in_sync) >= min_insync and (record.eligible or record.last_known)
            else record
            for partition, record in blocks[number].partitions.items()
        }
        for number in sorted(blocks)
    }


def _added(
    image: ClusterImage,
    topic: model.TopicRecord,
    first: int,
    assignments: Sequence[Sequence[int]],
    changed: dict[int, dict[int, model.PartitionRecord]],
) -> Transaction:
    """New partitions from number `first` on, and blocks that are `changed` besides: the blocks, and the registrations
    of all that are in sync in new partitions.
    """
    existing = image.blocks.get(topic.topic_id, {})
    blocks = {existing[number].key: dict(changed[number]) for number in sorted(changed)}
    revisions = {existing[number].key: existing[number].revision for number in sorted(changed)}
    members: dict[int, int] = {}
    for number, brokers in enumerate(assignments, start=first):
        record = _first_record(image, f"{topic.name}-{number}", number, brokers, topic.settings)
        key = model.block_key(topic.topic_id, number)
        if key not in blocks:
            block = existing.get(number // model.PARTITIONS_PER_BLOCK)
            blocks[key] = {} if block is None else dict(block.partitions)
            revisions[key] = 0 if block is None else block.revision
        blocks[key][number] = record
        members.update({broker: image.epoch_of(broker) for broker in record.in_sync})
    return Transaction(
        compares=(
            *(Compare(key, revisions[key]) for key in sorted(blocks) if first),
            *(Compare(broker_records.live_key(broker), members[broker]) for broker in sorted(members)),
        ),
        changes=tuple(Put(key, model.encode_block(blocks[key])) for key in sorted(blocks)),
    )


def _first_record(
    image: ClusterImage, what: str, number: int, brokers: Sequence[int], settings: TopicSettings
) -> model.PartitionRecord:
    if len(brokers) != settings.replication:
        raise InvalidRequest(
            f"{what}: {len(brokers)} brokers assigned, replication is {settings.replication}"
        )
    replicas = tuple(BrokerId(broker) for broker in brokers)
    for index, broker in enumerate(replicas):
        if broker in replicas[:index]:
            raise InvalidRequest(f"{what}: broker {broker} is assigned twice")
        if broker not in image.brokers:
            raise InvalidRequest(f"{what}: broker {broker} is not known")
    in_sync = tuple(broker for broker in replicas if image.brokers[broker].active)
    if not in_sync:
        raise BrokerUnavailable(
            f"{what}: none of brokers {', '.join(map(str, replicas))} is active, 1 required"
        )
    return model.PartitionRecord(
        partition=number,
        replicas=replicas,
        replica_generations=(1,) * len(replicas),
        leader=in_sync[0],
        leader_epoch=1,
        in_sync=in_sync,
    )


def delete_topic(
    image: ClusterImage,
    tenant: TenantId,
    name: str,
    *,
    generation: int = 0,
    topic_id: TopicId | None = None,
    metered: bool = False,
) -> Transaction:
    """Delete a topic, in the recycle bin or not, and leave its tombstone, which alone lets brokers remove replicas
    (RL53). The name of one in the bin may be another topic's, and stays.

    `metered`: its partitions owe their last readings, and the tenant's next cut counts them.

    By name, or only the topic of `topic_id`. Repeating the latter changes nothing, and with a generation it
    also holds for a topic that has not come yet. Raises `NotFound`; another tenant's topic is not found.
    """
    if topic_id is None:
        topic_id = image.names.get((tenant, name))
    elif len(topic_id) != TOPIC_ID_BYTES:
        raise InvalidRequest(f"topic id of {len(topic_id)} bytes, {TOPIC_ID_BYTES} required")
    topic = None if topic_id is None else image.topics.get(topic_id)
    if topic_id is None or topic is None or topic.tenant != tenant:
        if topic_id is not None and topic is None:
            return _bury_again(image, tenant, name, topic_id, generation)
        raise NotFound(f"topic {name!r} does not exist")
    if outdated(generation, topic.generation):
        return Transaction(compares=(), changes=(), ignored=True)
    blocks = image.blocks.get(topic_id, {})
    keys = [(blocks[number].key, blocks[number].revision) for number in sorted(blocks)]
    topic_key = model.topic_key(topic_id)
    tombstone = model.Tombstone(
        name=topic.name,
        tenant=tenant,
        partitions=topic.partitions,
        generation=max(generation, topic.generation),
        metered=metered and topic.metered,
    )
    return Transaction(
        compares=(
            Compare(topic_key, image.topic_revisions[topic_id]),
            *(Compare(key, revision) for key, revision in keys),
        ),
        changes=(
            Put(model.tombstone_key(topic_id), tombstone.encode()),
            *(() if topic.binned else (Delete(model.name_key(tenant, topic.name)),)),
            Delete(topic_key),
            *(Delete(key) for key, _ in keys),
        ),
    )


def _bury_again(
    image: ClusterImage, tenant: TenantId, name: str, topic_id: TopicId, generation: int
) -> Transaction:
    """There is no such topic: it was deleted, or its deletion came before it."""
    buried = image.buried.get(topic_id)
    if buried is None and not generation:
        raise NotFound(f"topic {name!r} does not exist")
    if buried is not None and buried.tenant not in ("", tenant):
        raise NotFound(f"topic {name!r} does not exist")
    before = buried or model.Tombstone(name=name, tenant=tenant)
    if outdated(generation, before.generation):
        return Transaction(compares=(), changes=(), ignored=True)
    after = replace(before, generation=max(generation, before.generation))
    if after == buried:
        return Transaction(compares=(), changes=())
    key = model.tombstone_key(topic_id)
    return Transaction(
        compares=(Compare(key, image.tombstones.get(topic_id, 0)), Compare(model.topic_key(topic_id), 0)),
        changes=(Put(key, after.encode()),),
    )


# -- counters -------------------------------------------------------------------------------------------


def take_producer_ids(counter: KeyValue | None, count: int = limits.PRODUCER_ID_BLOCK) -> ProducerIdBlock:
    """The next block of producer ids; `counter` is /next/producer_id as just read. Raises `LimitExceeded`.

    After an unknown outcome take another block: a lost one leaves a gap, a shared one would be a fault.
    """
    first = 1 if counter is None else int(counter.value)
    if first + count > PRODUCER_ID_MAX:
        raise LimitExceeded("producer ids: all are used")
    key = model.NEXT_PRODUCER_ID_KEY
    return ProducerIdBlock(
        compares=(unchanged(key, counter),),
        changes=(Put(key, str(first + count).encode()),),
        first=first,
        end=first + count,
    )
