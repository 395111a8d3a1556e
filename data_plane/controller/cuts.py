"""The end of a tenant's period, and what deleted topics leave for it, as compare-and-set transactions.

A partition of a deleted topic owes a *final reading*: each broker that had a replica gives one, and the one that ends
highest stays. The first cut that finds all of them *closes* the topic: from then on they never change, that cut counts
them, and no later one knows the topic. A cut that was answered in full is *kept*: written once, for each tenant in the
order of their ends, so that neither a repetition nor a restart can answer otherwise.

A failed comparison means that the image was behind: wait for it, ask again. No changes = the store already says so.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from data_plane.controller.tenants import Transaction
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import CutRecord, FinalRecord
from data_plane.metadata.port import CHANGES_PER_TXN_MAX, Compare, Put
from penstock.contract.errors import InvalidRequest
from penstock.contract.ids import TenantId, TopicId, TopicPartition
from penstock.records.cut import CutEnd

_FINALS_PER_TXN = CHANGES_PER_TXN_MAX - 1
_NOTHING = Transaction(compares=(), changes=())


def raise_floor(image: ClusterImage, topic_id: TopicId, end_ms: int) -> Transaction:
    """Every leader of the topic, present and to come, stamps at `end_ms` or later. No changes: so it is, or the topic
    is gone."""
    topic = image.topics.get(topic_id)
    if topic is None or topic.accepted_floor_ms >= end_ms:
        return _NOTHING
    key = model.topic_key(topic_id)
    return Transaction(
        compares=(Compare(key, image.topic_revisions[topic_id]),),
        changes=(Put(key, replace(topic, accepted_floor_ms=end_ms).encode()),),
    )


# -- deleted topics ---------------------------------------------------------------------------------------------


def keep_finals(image: ClusterImage, finals: Mapping[TopicPartition, FinalRecord]) -> Iterator[Transaction]:
    """Final readings of one broker, those left out that are not wanted: of topics that a cut has closed or that owe
    none, and where one that ends as high is kept.
    """
    by_topic: dict[TopicId, list[TopicPartition]] = {}
    for where, final in finals.items():
        buried, kept = image.buried.get(where.topic_id), image.finals.get(where)
        if buried is None or not buried.metered or buried.closed_by:
            continue
        if kept is None or kept.place < final.place:
            by_topic.setdefault(where.topic_id, []).append(where)
    for topic_id, places in by_topic.items():
        # Who closes the topic rewrites its tombstone: a reading that comes too late fails here.
        open_still = Compare(model.tombstone_key(topic_id), image.tombstones[topic_id])
        for at in range(0, len(places), _FINALS_PER_TXN):
            some = [
                (model.final_key(topic_id, where.partition), where)
                for where in places[at : at + _FINALS_PER_TXN]
            ]
            yield Transaction(
                compares=(
                    open_still,
                    *(Compare(key, image.final_revisions.get(where, 0)) for key, where in some),
                ),
                changes=tuple(Put(key, finals[where].encode()) for key, where in some),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedParts:
    """Partitions of a tenant's deleted topics that belong to a cut."""

    ends: Mapping[TopicPartition, FinalRecord]
    missing: tuple[TopicPartition, ...]
    """Their final readings are still to be made."""


def deleted_parts(
    image: ClusterImage, tenant: TenantId, cut_id: str, waived: Collection[TopicPartition]
) -> DeletedParts:
    """Those of topics that no cut has closed yet, and of those that this one has; not the waived ones."""
    ends: dict[TopicPartition, FinalRecord] = {}
    missing: list[TopicPartition] = []
    of_tenant = image.deleted_of.get(tenant, {})
    for closed_by in ("", cut_id):
        for topic_id in of_tenant.get(closed_by, {}):
            for partition in range(image.buried[topic_id].partitions):
                where = TopicPartition(topic_id, partition)
                final = image.finals.get(where)
                if where in waived:
                    continue
                if final is None:
                    missing.append(where)
                else:
                    ends[where] = final
    return DeletedParts(ends=ends, missing=tuple(missing))


def close_topic(image: ClusterImage, topic_id: TopicId, cut_id: str) -> Transaction:
    """The deleted topic belongs to this cut, with the final readings that are kept now. No changes: so it is.

    Raises `InvalidRequest` when it belongs to another one.
    """
    tombstone = image.buried[topic_id]
    if tombstone.closed_by == cut_id:
        return _NOTHING
    if tombstone.closed_by:
        raise InvalidRequest(f"{tombstone.name}: cut {tombstone.closed_by} has counted it")
    key = model.tombstone_key(topic_id)
    return Transaction(
        compares=(Compare(key, image.tombstones[topic_id]),),
        changes=(Put(key, replace(tombstone, closed_by=cut_id).encode()),),
    )


def final_end(where: TopicPartition, final: FinalRecord) -> CutEnd:
    """A closed partition in a cut."""
    return CutEnd(
        where=where,
        log_generation=final.log_generation,
        end_offset=final.end_offset,
        accepted_ms=final.accepted_ms,
        messages=final.totals[0],
        bytes=final.totals[1],
        last=True,
    )


# -- kept cuts --------------------------------------------------------------------------------------------------


def check_order(image: ClusterImage, tenant: TenantId, cut_id: str, start_ms: int, end_ms: int) -> None:
    """A tenant's cuts follow one another without a gap. Raises `InvalidRequest`, before anything is read.

    An earlier cut may be asked for again; whether it is the same shows when it is compared with the kept one.
    """
    newest = image.cuts.get(tenant)
    if end_ms <= start_ms:
        raise InvalidRequest(f"cut {cut_id}: its end, {end_ms}, is not after its start, {start_ms}")
    if newest is None or end_ms < newest.end_ms:
        return
    if newest.cut_id == cut_id:
        if (newest.start_ms, newest.end_ms) != (start_ms, end_ms):
            raise InvalidRequest(
                f"cut {cut_id}: is kept from {newest.start_ms} to {newest.end_ms}, not {start_ms} to {end_ms}"
            )
    elif start_ms != newest.end_ms:
        raise InvalidRequest(
            f"cut {cut_id}: begins at {start_ms}, the tenant's newest kept cut, {newest.cut_id}, "
            f"ends at {newest.end_ms}"
        )


def keep_cut(
    image: ClusterImage, tenant: TenantId, cut: CutRecord, earlier: CutRecord | None = None
) -> Transaction:
    """Keep a cut that was answered in full. No changes: it is kept. `earlier`: what is kept with this end, when it is
    not the newest.

    Raises `InvalidRequest` when the brokers keep another answer to it, or it does not follow the newest one.
    """
    check_order(image, tenant, cut.cut_id, cut.start_ms, cut.end_ms)
    newest = image.cuts.get(tenant)
    kept = newest if newest is not None and newest.end_ms == cut.end_ms else earlier
    if kept is not None or (newest is not None and cut.end_ms < newest.end_ms):
        if kept is None or (kept.cut_id, kept.start_ms) != (cut.cut_id, cut.start_ms):
            raise InvalidRequest(
                f"cut {cut.cut_id}: the brokers keep another cut, or none, up to {cut.end_ms}"
            )
        if kept.sha256 != cut.sha256:
            raise InvalidRequest(
                f"cut {cut.cut_id}: this answer has the hash {cut.sha256}, the one that is kept {kept.sha256}"
            )
        return _NOTHING
    newest_key, kept_key = model.cut_key(tenant), model.kept_cut_key(tenant, cut.end_ms)
    return Transaction(
        compares=(Compare(newest_key, image.cut_revisions.get(tenant, 0)), Compare(kept_key, 0)),
        changes=(Put(newest_key, cut.encode()), Put(kept_key, cut.encode())),
    )
