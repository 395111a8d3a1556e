"""Errors of the wire made into the SDK's exceptions, and what may be believed when several things went
wrong.
"""

from penstock.contract.errors import (
    Belief,
    BrokerUnavailable,
    ErrorCode,
    ErrorKind,
    OutcomeUnknown,
    PenstockError,
    error_class,
)

LEADERSHIP_CODES = frozenset(
    {
        ErrorCode.NOT_LEADER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NO_LEADER,
        ErrorCode.BROKER_UNAVAILABLE,
        ErrorCode.SHUTTING_DOWN,
        ErrorCode.OUTCOME_UNKNOWN,
    }
)


def refusal(code: int | None, message: str) -> PenstockError:
    """The exception of a wire code; None (the connection broke) is `BrokerUnavailable`."""
    if code is None:
        return BrokerUnavailable(message)
    return error_class(code)(message)


def metadata_may_be_newer(error: PenstockError) -> bool:
    """Another broker may lead by now; or this broker does not know yet a topic that another one knows; or the topic
    was deleted. Newer metadata shows which.
    """
    return error.code in LEADERSHIP_CODES or error.code is ErrorCode.NOT_FOUND


def final(error: PenstockError) -> bool:
    """Every broker would give the same answer again."""
    return error.kind in (ErrorKind.FATAL, ErrorKind.FENCED)


def unknown_because(label: str, error: PenstockError) -> PenstockError:
    """What a batch fails with when its last answer is `error` but an earlier copy was never answered
    (RL17).
    """
    if error.belief is Belief.UNKNOWN:
        return error
    return OutcomeUnknown(f"{label}: an earlier attempt was never answered; the last one: {error.message}")


def blocked_text(cause: PenstockError) -> str:
    """What blocks a message, for a caller that has waited long enough."""
    return f"blocked by {type(cause).__name__}: {cause.message}"
