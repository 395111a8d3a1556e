"""Reports of what partitions keep, and their answers, as frames."""

from collections.abc import Sequence

from data_plane.contract import methods
from data_plane.contract import replication_pb2 as pb
from data_plane.node.frame_heads import read_head
from data_plane.node.membership.controller_questions import QuestionKind
from data_plane.storage_limits.reports import Full, Kept, Report
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import BrokerId, TenantId, TopicId, TopicPartition

KEPT_MAX = 2_000
"""Partitions in one report: some milliseconds of a turn of the controller's event loop. More are sent in several."""


def report_frame(report: Report) -> bytes:
    head = pb.StorageReportHead(
        broker_id=report.broker,
        broker_epoch=report.registration,
        controller_epoch=report.epoch,
        sequence=report.sequence,
        whole=report.whole,
        full=report.full,
    )
    for kept in report.kept:
        head.kept.add(
            topic_id=kept.where.topic_id,
            partition=kept.where.partition,
            leader_epoch=kept.leader_epoch,
            size_bytes=kept.size_bytes,
        )
    return pack_frame(FrameKind.STORAGE_REPORT, head.SerializeToString())


def read_report(frame: bytes) -> Report:
    """Raises `FrameError`."""
    kind, head_bytes, _ = unpack_frame(frame)
    if kind is not FrameKind.STORAGE_REPORT:
        raise FrameError(f"frame kind {kind.name} has no place on a stream of storage reports")
    head = read_head(pb.StorageReportHead, kind, bytes(head_bytes))
    if len(head.kept) > KEPT_MAX:
        raise FrameError(f"{len(head.kept)} partitions in one storage report, at most {KEPT_MAX} allowed")
    return Report(
        broker=BrokerId(head.broker_id),
        registration=head.broker_epoch,
        epoch=head.controller_epoch,
        sequence=head.sequence,
        kept=[
            Kept(
                TopicPartition(TopicId(kept.topic_id), kept.partition),
                kept.leader_epoch,
                kept.size_bytes,
            )
            for kept in head.kept
        ],
        whole=head.whole,
        full=[TenantId(tenant) for tenant in head.full],
    )


def answer_frame(report: Report, full: Sequence[Full] | None) -> bytes:
    """`full` None: refused."""
    head = pb.StorageAnswerHead(sequence=report.sequence, refused=full is None)
    for one in full or ():
        head.full.add(tenant=one.tenant, used_bytes=one.used_bytes)
    return pack_frame(FrameKind.STORAGE_ANSWER, head.SerializeToString())


def read_answer(frame: bytes, report: Report) -> list[Full] | None:
    """Who is full; None: the report was refused, or this is no answer to it. Raises `FrameError`."""
    kind, head_bytes, _ = unpack_frame(frame)
    if kind is not FrameKind.STORAGE_ANSWER:
        raise FrameError(f"frame kind {kind.name} is no answer to a storage report")
    head = read_head(pb.StorageAnswerHead, kind, bytes(head_bytes))
    if head.refused or head.sequence != report.sequence:
        return None
    return [Full(TenantId(one.tenant), one.used_bytes) for one in head.full]


STORAGE_REPORTS = QuestionKind(
    method=methods.STORAGE,
    asker=lambda report: report.broker,
    question_frame=report_frame,
    read_question=read_report,
    answer_frame=answer_frame,
    read_answer=read_answer,
)
