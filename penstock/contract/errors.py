"""The error table: every refusal, its code, whether a retry helps and what to believe (RL17, RL60)."""

import math
import re
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar

_FIELD = re.compile(r"([A-Za-z][A-Za-z_-]*): (.+)", re.DOTALL)


class Belief(Enum):
    """The caller may believe this of a request that was answered with an error."""

    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


class ErrorKind(Enum):
    """The SDK does this with an error."""

    RETRIABLE = "retriable"
    FENCED = "fenced"
    FATAL = "fatal"
    UNKNOWN_OUTCOME = "unknown outcome"


class ErrorCode(IntEnum):
    """Numbers on the wire. Never reused."""

    OK = 0
    INTERNAL = 1
    INVALID_REQUEST = 2
    UNAUTHENTICATED = 3
    NOT_FOUND = 4
    FORBIDDEN = 5
    ALREADY_EXISTS = 6
    LIMIT_EXCEEDED = 7
    THROTTLED = 8
    PRECONDITION_FAILED = 9
    CORRUPT_BATCH = 10
    MESSAGE_TOO_LARGE = 11
    UNSUPPORTED_COMPRESSION = 12
    TIMESTAMP_OUT_OF_RANGE = 13
    MALFORMED_BATCH = 14
    IN_USE = 15
    NOT_LEADER = 20
    FENCED_LEADER_EPOCH = 21
    UNKNOWN_LEADER_EPOCH = 22
    NOT_ENOUGH_REPLICAS = 23
    LEADER_NOT_READY = 24
    NO_LEADER = 25
    BROKER_UNAVAILABLE = 26
    OFFSET_OUT_OF_RANGE = 30
    LOG_TRUNCATED = 31
    CORRUPT_LOG = 32
    OUT_OF_ORDER_SEQUENCE = 40
    PRODUCER_FENCED = 41
    UNKNOWN_PRODUCER = 42
    DISK_FULL = 50
    SHUTTING_DOWN = 51
    OUTCOME_UNKNOWN = 60
    DELIVERY_TIMEOUT = 61
    BUFFER_FULL = 62
    CLOSED = 63
    CONFIGURATION = 64
    TIMEOUT = 65
    USED_AFTER_FORK = 66
    SERIALIZATION = 67
    RECEIPTS_NOT_WRITTEN = 68
    NOT_COORDINATOR = 70
    COORDINATOR_NOT_READY = 71
    UNKNOWN_MEMBER = 72
    FENCED_MEMBER_EPOCH = 73
    FENCED_INSTANCE_ID = 74
    GROUP_NOT_EMPTY = 75
    GROUP_NOT_FOUND = 76


class PenstockError(Exception):
    """Root of everything the SDK raises on purpose.

    `message` names the object, the fact and the demand; `remedy` says what to do next. `limit` is the name of the limit
    that was reached, where it was one, as the reference of limits has it; empty on the client's side. What `poll`
    raises for a partition that stands still names it in `topic` and `partition`, and in `offset` its next message,
    where it is known; elsewhere they are None.
    """

    code: ClassVar[ErrorCode] = ErrorCode.INTERNAL
    kind: ClassVar[ErrorKind] = ErrorKind.FATAL
    belief: ClassVar[Belief] = Belief.NOT_APPLIED
    remedy: ClassVar[str] = ""

    def __init__(self, message: str, *, limit: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.limit = limit
        self.topic: str | None = None
        self.partition: int | None = None
        self.offset: int | None = None

    @property
    def retriable(self) -> bool:
        return self.kind is ErrorKind.RETRIABLE


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One row of the error table."""

    code: ErrorCode
    kind: ErrorKind
    belief: Belief
    remedy: str


class InternalError(PenstockError):
    """The broker broke a promise of its own."""

    code = ErrorCode.INTERNAL
    kind = ErrorKind.UNKNOWN_OUTCOME
    belief = Belief.UNKNOWN
    remedy = "Report it with the request id; the outcome may be either."


class InvalidRequest(PenstockError):
    """The request itself is wrong."""

    code = ErrorCode.INVALID_REQUEST
    kind = ErrorKind.FATAL
    remedy = "Correct the named field."


class Unauthenticated(PenstockError):
    """No valid API key came with the request."""

    code = ErrorCode.UNAUTHENTICATED
    kind = ErrorKind.FATAL
    remedy = (
        "Check the key (PENSTOCK_API_KEY or the profile) and whether it was revoked; "
        "a person signs in again with `penstock login`."
    )


class NotFound(PenstockError):
    """No such object in this tenant."""

    code = ErrorCode.NOT_FOUND
    kind = ErrorKind.FATAL
    remedy = "Check the name, and what the access list shows you; create the object first."


class Forbidden(PenstockError):
    """The key may not do this."""

    code = ErrorCode.FORBIDDEN
    kind = ErrorKind.FATAL
    remedy = "Use credentials that have the right named."


class AlreadyExists(PenstockError):
    """The name is taken in this tenant."""

    code = ErrorCode.ALREADY_EXISTS
    kind = ErrorKind.FATAL
    remedy = "Choose another name or delete the object first."


class LimitExceeded(PenstockError):
    """A named limit would be passed."""

    code = ErrorCode.LIMIT_EXCEEDED
    kind = ErrorKind.FATAL
    remedy = "Lower the value or ask for a higher limit."


class PreconditionFailed(PenstockError):
    """The object was changed since the caller read it."""

    code = ErrorCode.PRECONDITION_FAILED
    kind = ErrorKind.FATAL
    remedy = "Read the object again, and send the change with its new ETag if it is still wanted."


class InUse(PenstockError):
    """Another object names it, so it stays."""

    code = ErrorCode.IN_USE
    kind = ErrorKind.FATAL
    remedy = "Change or delete what names it first; the message lists it."


class Throttled(PenstockError):
    """Too much at once."""

    code = ErrorCode.THROTTLED
    kind = ErrorKind.RETRIABLE
    remedy = "Wait for the time named and retry."

    def __init__(self, message: str, *, limit: str = "", retry_after_ms: int = 1000) -> None:
        """`retry_after_ms`: after which another try is worth it."""
        super().__init__(message, limit=limit)
        self.retry_after_ms = retry_after_ms

    @property
    def retry_after_s(self) -> int:
        """The same in whole seconds, as REST names it to the caller."""
        return max(1, math.ceil(self.retry_after_ms / 1000))


class CorruptBatch(PenstockError):
    """The batch's header or checksum is wrong."""

    code = ErrorCode.CORRUPT_BATCH
    kind = ErrorKind.FATAL
    remedy = "Send it again from the source; check the client's encoder."


class MalformedBatch(CorruptBatch):
    """The batch is stored as its producer sent it, and its records are not what its header says."""

    code = ErrorCode.MALFORMED_BATCH
    kind = ErrorKind.FATAL
    remedy = (
        "Seek to the offset behind it, or read with malformed='skip'; look for the producer that made it."
    )


class MessageTooLarge(PenstockError):
    """A message or batch is over its limit."""

    code = ErrorCode.MESSAGE_TOO_LARGE
    kind = ErrorKind.FATAL
    remedy = "Send less at once or raise the topic's max_message_bytes or max_batch_bytes."


class UnsupportedCompression(PenstockError):
    """The batch names a codec that is not offered."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION
    kind = ErrorKind.FATAL
    remedy = "Use none, gzip, snappy, lz4 or zstd."


class TimestampOutOfRange(PenstockError):
    """A message is stamped too far in the future."""

    code = ErrorCode.TIMESTAMP_OUT_OF_RANGE
    kind = ErrorKind.FATAL
    remedy = "Check the sender's clock."


class NotLeader(PenstockError):
    """The broker does not lead this partition."""

    code = ErrorCode.NOT_LEADER
    kind = ErrorKind.RETRIABLE
    remedy = "Refresh the metadata and ask the leader."


class FencedLeaderEpoch(PenstockError):
    """The request carries an older leader epoch."""

    code = ErrorCode.FENCED_LEADER_EPOCH
    kind = ErrorKind.RETRIABLE
    remedy = "Refresh the metadata."


class UnknownLeaderEpoch(PenstockError):
    """The request carries a leader epoch the broker has not seen yet."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH
    kind = ErrorKind.RETRIABLE
    remedy = "Retry shortly."


class NotEnoughReplicas(PenstockError):
    """Fewer replicas are in sync than the topic demands."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS
    kind = ErrorKind.RETRIABLE
    remedy = "Wait until a replica is back."


class LeaderNotReady(PenstockError):
    """A new leader has not yet confirmed its log with the in-sync set."""

    code = ErrorCode.LEADER_NOT_READY
    kind = ErrorKind.RETRIABLE
    remedy = "Retry shortly."


class NoLeader(PenstockError):
    """The partition has no leader now."""

    code = ErrorCode.NO_LEADER
    kind = ErrorKind.RETRIABLE
    remedy = "Retry; see broker status."


class BrokerUnavailable(PenstockError):
    """No broker could be reached."""

    code = ErrorCode.BROKER_UNAVAILABLE
    kind = ErrorKind.RETRIABLE
    remedy = "Check the bootstrap addresses and whether the brokers run (penstock dev status)."


class OffsetOutOfRange(PenstockError):
    """The position is before the log's start or beyond its end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE
    kind = ErrorKind.FATAL
    remedy = "Seek to beginning, end, a time, or set auto_offset_reset."

    def __init__(self, message: str, *, limit: str = "") -> None:
        super().__init__(message, limit=limit)
        self.beyond_end = False
        """True where it is beyond the log's end, False where it is before its start."""


class LogTruncated(PenstockError):
    """The log was truncated below this position after an election that lost data."""

    code = ErrorCode.LOG_TRUNCATED
    kind = ErrorKind.FATAL
    remedy = "Seek to the divergence offset named."

    def __init__(self, message: str, *, limit: str = "") -> None:
        super().__init__(message, limit=limit)
        self.divergence_offset = -1
        """Where the logs part."""


class CorruptLog(PenstockError):
    """Stored data failed its checksum and is not served."""

    code = ErrorCode.CORRUPT_LOG
    kind = ErrorKind.FATAL
    remedy = "An operator must repair the replica; other ranges stay readable."


class OutOfOrderSequence(PenstockError):
    """A batch of this producer is missing before this one."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE
    kind = ErrorKind.FATAL
    remedy = "Close the producer and open another."


class ProducerFenced(PenstockError):
    """A newer instance of this producer exists."""

    code = ErrorCode.PRODUCER_FENCED
    kind = ErrorKind.FENCED
    remedy = "Stop this instance."


class UnknownProducer(PenstockError):
    """The broker no longer knows this producer's sequence."""

    code = ErrorCode.UNKNOWN_PRODUCER
    kind = ErrorKind.RETRIABLE
    remedy = "The SDK starts a new producer epoch by itself."


class DiskFull(PenstockError):
    """The broker's disk has no space for writes; reads go on."""

    code = ErrorCode.DISK_FULL
    kind = ErrorKind.RETRIABLE
    remedy = "Free space or add a broker; the SDK retries until the delivery timeout."


class ShuttingDown(PenstockError):
    """The broker is draining."""

    code = ErrorCode.SHUTTING_DOWN
    kind = ErrorKind.RETRIABLE
    remedy = "Retry: leaders move."


class OutcomeUnknown(PenstockError):
    """The request may or may not have been applied."""

    code = ErrorCode.OUTCOME_UNKNOWN
    kind = ErrorKind.UNKNOWN_OUTCOME
    belief = Belief.UNKNOWN
    remedy = "Retry with the same producer (idempotent) or read the topic to decide."


class DeliveryTimeout(PenstockError):
    """The delivery timeout passed after the batch had been sent at least once."""

    code = ErrorCode.DELIVERY_TIMEOUT
    kind = ErrorKind.UNKNOWN_OUTCOME
    belief = Belief.UNKNOWN
    remedy = "Read the topic to decide, or raise delivery_timeout_ms."


class BufferFull(PenstockError):
    """The producer's buffer is full."""

    code = ErrorCode.BUFFER_FULL
    kind = ErrorKind.FATAL
    remedy = "Send slower, raise buffer_bytes, or use on_full='block'."


class Closed(PenstockError):
    """The object was closed."""

    code = ErrorCode.CLOSED
    kind = ErrorKind.FATAL
    remedy = "Open a new one."


class ConfigurationError(PenstockError):
    """A setting is missing or wrong."""

    code = ErrorCode.CONFIGURATION
    kind = ErrorKind.FATAL
    remedy = "Correct the named setting."


class TimedOut(PenstockError):
    """No answer within the timeout."""

    code = ErrorCode.TIMEOUT
    kind = ErrorKind.RETRIABLE
    remedy = "Retry or raise the timeout."


class UsedAfterFork(PenstockError):
    """A client that was used before os.fork() was used in the child."""

    code = ErrorCode.USED_AFTER_FORK
    kind = ErrorKind.FATAL
    remedy = "Start the process by spawn, or fork before the first use of any client."


class SerializationFailed(PenstockError):
    """A serializer could not make bytes of a value, or a value of stored bytes."""

    code = ErrorCode.SERIALIZATION
    kind = ErrorKind.FATAL
    remedy = "Send what the serializer takes; read with the one that wrote it, seek past it, or set on_undecodable."


class ReceiptsNotWritten(PenstockError):
    """Receipts of acknowledged messages could not be written to their file; the messages themselves are safe."""

    code = ErrorCode.RECEIPTS_NOT_WRITTEN
    kind = ErrorKind.FATAL
    remedy = "Free space where the receipts file is; the brokers hold the messages, do not send them again."


class NotCoordinator(PenstockError):
    """The broker does not coordinate this consumer group."""

    code = ErrorCode.NOT_COORDINATOR
    kind = ErrorKind.RETRIABLE
    remedy = "Find the coordinator again and ask it."


class CoordinatorNotReady(PenstockError):
    """The group's coordinator is being elected or reads its log."""

    code = ErrorCode.COORDINATOR_NOT_READY
    kind = ErrorKind.RETRIABLE
    remedy = "Retry shortly."


class UnknownMember(PenstockError):
    """The group has no such member: it left, or its session ended."""

    code = ErrorCode.UNKNOWN_MEMBER
    kind = ErrorKind.FENCED
    remedy = "Join again; poll more often or raise session_timeout_ms and max_poll_interval_ms."


class FencedMemberEpoch(PenstockError):
    """The member's epoch is not the one the coordinator gave it, or the partition is not its own."""

    code = ErrorCode.FENCED_MEMBER_EPOCH
    kind = ErrorKind.FENCED
    remedy = "Drop the partition: another member may own it; the SDK joins again by itself."


class FencedInstanceId(PenstockError):
    """A newer member holds this instance id."""

    code = ErrorCode.FENCED_INSTANCE_ID
    kind = ErrorKind.FENCED
    remedy = "Stop this instance, or give each its own instance_id."


class GroupNotEmpty(PenstockError):
    """The consumer group has members."""

    code = ErrorCode.GROUP_NOT_EMPTY
    kind = ErrorKind.FATAL
    remedy = "Stop its members first."


class GroupNotFound(PenstockError):
    """No such consumer group in this tenant."""

    code = ErrorCode.GROUP_NOT_FOUND
    kind = ErrorKind.FATAL
    remedy = "Check the name (penstock group list)."


def split_message(message: str) -> tuple[str, str]:
    """(field, text) of a refusal such as `partitions: 0 is not within 1 to 10000`; an empty field if it names none."""
    match = _FIELD.fullmatch(message)
    return (match[1], match[2]) if match else ("", message)


def _with_subclasses(cls: type[PenstockError]) -> list[type[PenstockError]]:
    return [cls, *(each for narrower in cls.__subclasses__() for each in _with_subclasses(narrower))]


for _class in _with_subclasses(PenstockError):
    _class.__module__ = "penstock"  # applications import it from there; tracebacks and pickles name it so

_TABLE: dict[ErrorCode, type[PenstockError]] = {cls.code: cls for cls in _with_subclasses(PenstockError)[1:]}


def error_class(code: int) -> type[PenstockError]:
    """The exception class of a wire code; an unknown code is an `InternalError` (outcome unknown)."""
    try:
        return _TABLE[ErrorCode(code)]
    except (ValueError, KeyError):
        return InternalError


def error_table() -> tuple[ErrorRow, ...]:
    """All rows by code, for the reference and for tests."""
    return tuple(ErrorRow(code, cls.kind, cls.belief, cls.remedy) for code, cls in sorted(_TABLE.items()))
