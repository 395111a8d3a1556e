"""What brokers say of budgets, and the controller's answers, as frames."""

from data_plane.contract import methods
from data_plane.contract import replication_pb2 as pb
from data_plane.leases.budget_terms import (
    ENTRIES_MAX,
    BudgetAnswer,
    BudgetRequest,
    Granted,
    Want,
)
from data_plane.metadata.budget_use import BudgetKey
from data_plane.node.frame_heads import read_head
from data_plane.node.membership.controller_questions import QuestionKind
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.ids import BrokerId, TenantId


def request_frame(request: BudgetRequest) -> bytes:
    head = pb.BudgetRequestHead(
        broker_id=request.holder,
        broker_epoch=request.registration,
        controller_epoch=request.epoch,
        sequence=request.sequence,
    )
    for key, want in request.wants.items():
        head.wants.add(
            tenant=key.tenant,
            budget_id=key.budget_id,
            term=want.term,
            began_ms=want.began_ms,
            holds=want.holds,
            wants=want.wants,
            needs=want.needs,
            received=want.received,
            returned=want.returned,
            owed=want.owed,
        )
    return pack_frame(FrameKind.BUDGET_REQUEST, head.SerializeToString())


def read_request(frame: bytes) -> BudgetRequest:
    """Raises `FrameError`."""
    kind, head_bytes, _ = unpack_frame(frame)
    if kind is not FrameKind.BUDGET_REQUEST:
        raise FrameError(f"frame kind {kind.name} has no place on a stream of budgets")
    head = read_head(pb.BudgetRequestHead, kind, bytes(head_bytes))
    if len(head.wants) > ENTRIES_MAX:
        raise FrameError(f"{len(head.wants)} budgets in one request, at most {ENTRIES_MAX} allowed")
    return BudgetRequest(
        holder=BrokerId(head.broker_id),
        registration=head.broker_epoch,
        epoch=head.controller_epoch,
        sequence=head.sequence,
        wants={
            BudgetKey(TenantId(want.tenant), want.budget_id): Want(
                term=want.term,
                began_ms=want.began_ms,
                holds=want.holds,
                wants=want.wants,
                needs=want.needs,
                received=want.received,
                returned=want.returned,
                owed=want.owed,
            )
            for want in head.wants
        },
    )


def answer_frame(request: BudgetRequest, answer: BudgetAnswer | None) -> bytes:
    """`answer` None: refused."""
    head = pb.BudgetAnswerHead(sequence=request.sequence, refused=answer is None)
    if answer is not None:
        head.term = answer.term
        for key in request.wants:
            granted = answer.granted[key]
            head.grants.add(
                began_ms=granted.began_ms, ends_ms=granted.ends_ms, total=granted.total, left=granted.left
            )
    return pack_frame(FrameKind.BUDGET_ANSWER, head.SerializeToString())


def read_answer(frame: bytes, request: BudgetRequest) -> BudgetAnswer | None:
    """None: it was refused, or is no answer to this request. Raises `FrameError`."""
    kind, head_bytes, _ = unpack_frame(frame)
    if kind is not FrameKind.BUDGET_ANSWER:
        raise FrameError(f"frame kind {kind.name} is no answer to a request about budgets")
    head = read_head(pb.BudgetAnswerHead, kind, bytes(head_bytes))
    if head.refused or head.sequence != request.sequence or len(head.grants) != len(request.wants):
        return None
    return BudgetAnswer(
        term=head.term,
        granted={
            key: Granted(began_ms=one.began_ms, ends_ms=one.ends_ms, total=one.total, left=one.left)
            for key, one in zip(request.wants, head.grants, strict=True)
        },
    )


BUDGET_REQUESTS = QuestionKind(
    method=methods.BUDGETS,
    asker=lambda request: request.holder,
    question_frame=request_frame,
    read_question=read_request,
    answer_frame=answer_frame,
    read_answer=read_answer,
)
