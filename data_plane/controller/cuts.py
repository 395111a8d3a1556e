"""The end of a tenant's period, and what deleted topics leave for it, as compare-and-set transactions.

A partition of a deleted topic owes a *final reading*: each broker that had a replica gives one, the furthest stays.
The first cut that finds all of them *closes* the topic: from then on they never change, that cut counts them, and no
later one knows the topic. A cut is *begun* before anything is read, so that of each tenant one is under way; one that
was answered in full is *kept* with all its ends: written once, for each tenant in the order of their ends, so that a
repetition is answered from there, whatever became of the topics.

A failed comparison means that the image was behind: wait for it, ask again. No changes = the store already says so.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from data_plane.controller.tenants import Transaction
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.kept_ends import ENDS_PER_CHUNK, KeptEnd, encode_ends
from data_plane.metadata.model import BegunCut, CutRecord, FinalRecord
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
        if kept is None or kept.position < final.position:
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


def final_end(where: TopicPartition, topic: str, final: FinalRecord, before: KeptEnd | None) -> KeptEnd:
    """A closed partition in a cut. A final reading that ends below the cut before adds nothing (every replica forgot
    what it knew to be committed): the partition ends where that cut counted it to.
    """
    if before is not None and final.position < before.position:
        return replace(before, topic=topic, last=True)
    return KeptEnd(
        where=where,
        topic=topic,
        log_generation=final.log_generation,
        end_offset=final.end_offset,
        accepted_ms=final.accepted_ms,
        totals=final.totals,
        last=True,
    )


# -- cuts -------------------------------------------------------------------------------------------------------


def begin_cut(image: ClusterImage, tenant: TenantId, cut: BegunCut) -> Transaction:
    """The cut is under way, as the tenant's only one. No changes: it is. Ask only when none is kept with its end.

    Raises `InvalidRequest` when another one is under way, or it does not begin where the newest kept one ends.
    """
    newest, begun = image.cuts.get(tenant), image.begun_cuts.get(tenant)
    if cut.end_ms <= cut.start_ms:
        raise InvalidRequest(
            f"cut {cut.cut_id}: its end, {cut.end_ms}, is not after its start, {cut.start_ms}"
        )
    if newest is not None and cut.start_ms != newest.end_ms:
        raise InvalidRequest(
            f"cut {cut.cut_id}: begins at {cut.start_ms}, the tenant's newest kept cut, {newest.cut_id}, "
            f"ends at {newest.end_ms}"
        )
    if begun == cut:
        return _NOTHING
    if begun is not None and (newest is None or begun.end_ms > newest.end_ms):
        raise InvalidRequest(
            f"cut {cut.cut_id} from {cut.start_ms} to {cut.end_ms}: cut {begun.cut_id} is under way, from "
            f"{begun.start_ms} to {begun.end_ms}"
        )
    begun_key, newest_key = model.begun_cut_key(tenant), model.cut_key(tenant)
    return Transaction(
        compares=(
            Compare(begun_key, image.begun_cut_revisions.get(tenant, 0)),
            Compare(newest_key, image.cut_revisions.get(tenant, 0)),
        ),
        changes=(Put(begun_key, cut.encode()),),
    )


def cut_end(end: KeptEnd) -> CutEnd:
    """What the cut's hash takes of it."""
    return CutEnd(
        where=end.where,
        log_generation=end.log_generation,
        end_offset=end.end_offset,
        accepted_ms=end.accepted_ms,
        messages=end.totals[0],
        bytes=end.totals[1],
        last=end.last,
    )


def keep_ends(
    image: ClusterImage, tenant: TenantId, cut: CutRecord, ends: Sequence[KeptEnd]
) -> Iterator[Transaction]:
    """The ends of a cut that is about to be kept, in transactions that every store takes. Repeating one is harmless."""
    under_way = Compare(model.begun_cut_key(tenant), image.begun_cut_revisions.get(tenant, 0))
    not_kept = Compare(model.cut_key(tenant), image.cut_revisions.get(tenant, 0))
    for chunk, at in enumerate(range(0, len(ends), ENDS_PER_CHUNK)):
        value = encode_ends(ends[at : at + ENDS_PER_CHUNK])
        key = model.cut_ends_key(tenant, cut.end_ms, chunk)
        yield Transaction(compares=(under_way, not_kept), changes=(Put(key, value),))


def keep_cut(image: ClusterImage, tenant: TenantId, cut: CutRecord) -> Transaction:
    """Keep a cut that was answered in full, its ends before. No changes: it is kept.

    Raises `InvalidRequest` when it is not the one under way, or another answer to it is kept.
    """
    newest, begun = image.cuts.get(tenant), image.begun_cuts.get(tenant)
    if newest is not None and (newest.cut_id, newest.end_ms) == (cut.cut_id, cut.end_ms):
        if newest.sha256 != cut.sha256:
            raise InvalidRequest(
                f"cut {cut.cut_id}: this answer has the hash {cut.sha256}, the one that is kept {newest.sha256}"
            )
        return _NOTHING
    if begun != BegunCut(cut_id=cut.cut_id, start_ms=cut.start_ms, end_ms=cut.end_ms):
        raise InvalidRequest(f"cut {cut.cut_id}: is not the one that is under way")
    newest_key, kept_key = model.cut_key(tenant), model.kept_cut_key(tenant, cut.end_ms)
    return Transaction(
        compares=(
            Compare(model.begun_cut_key(tenant), image.begun_cut_revisions[tenant]),
            Compare(newest_key, image.cut_revisions.get(tenant, 0)),
            Compare(kept_key, 0),
        ),
        changes=(Put(newest_key, cut.encode()), Put(kept_key, cut.encode())),
    )
