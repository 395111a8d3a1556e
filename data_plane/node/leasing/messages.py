"""Requests for leases and their answers as frames."""

from collections.abc import Mapping

from data_plane.contract import methods
from data_plane.contract import replication_pb2 as pb
from data_plane.leases.terms import WISHES_MAX, LimitKey, Request, Wish
from data_plane.node.frame_heads import read_head
from data_plane.node.membership.controller_questions import QuestionKind
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import BrokerId, TenantId


def request_frame(request: Request) -> bytes:
    head = pb.LeaseRequestHead(
        broker_id=request.holder,
        broker_epoch=request.registration,
        controller_epoch=request.epoch,
        sequence=request.sequence,
        answered=request.answered,
        partial=request.partial,
        whole=request.whole,
    )
    for key, wish in request.wishes.items():
        head.wishes.add(
            tenant=key.tenant,
            limit=key.name,
            principal=key.principal,
            topic=key.topic,
            holds=wish.holds,
            wants=wish.wants,
        )
    return pack_frame(FrameKind.LEASE_REQUEST, head.SerializeToString())


def read_request(frame: bytes) -> Request:
    """Raises `FrameError`."""
    kind, head_bytes, _ = unpack_frame(frame)
    if kind is not FrameKind.LEASE_REQUEST:
        raise FrameError(f"frame kind {kind.name} has no place on a stream of leases")
    head = read_head(pb.LeaseRequestHead, kind, bytes(head_bytes))
    if len(head.wishes) > WISHES_MAX:
        raise FrameError(f"{len(head.wishes)} limits in one request for leases, at most {WISHES_MAX} allowed")
    return Request(
        holder=BrokerId(head.broker_id),
        registration=head.broker_epoch,
        epoch=head.controller_epoch,
        sequence=head.sequence,
        answered=head.answered,
        wishes={
            LimitKey(TenantId(wish.tenant), wish.limit, wish.principal, wish.topic): Wish(
                holds=wish.holds, wants=wish.wants
            )
            for wish in head.wishes
        },
        partial=head.partial,
        whole=head.whole,
    )


def answer_frame(request: Request, grants: Mapping[LimitKey, int] | None) -> bytes:
    """`grants` None: refused."""
    head = pb.LeaseGrantHead(sequence=request.sequence, refused=grants is None)
    if grants is not None:
        head.amounts.extend(grants[key] for key in request.wishes)
    return pack_frame(FrameKind.LEASE_GRANT, head.SerializeToString())


def read_answer(frame: bytes, request: Request) -> dict[LimitKey, int] | None:
    """What was granted; None: it was refused, or is no answer to this request. Raises `FrameError`."""
    kind, head_bytes, _ = unpack_frame(frame)
    if kind is not FrameKind.LEASE_GRANT:
        raise FrameError(f"frame kind {kind.name} is no answer to a request for leases")
    head = read_head(pb.LeaseGrantHead, kind, bytes(head_bytes))
    if head.refused or head.sequence != request.sequence or len(head.amounts) != len(request.wishes):
        return None
    return dict(zip(request.wishes, head.amounts, strict=True))


LEASE_REQUESTS = QuestionKind(
    method=methods.LEASES,
    asker=lambda request: request.holder,
    question_frame=request_frame,
    read_question=read_request,
    answer_frame=answer_frame,
    read_answer=read_answer,
)
