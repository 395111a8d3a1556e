"""Penstock's SDK: `Client` and what it makes, receipts and messages, and one tree of errors under `PenstockError`.

    with penstock.Client(profile="dev") as client:
        with client.producer() as producer:
            producer.send("orders", b"one book", key=b"anna").result(timeout=10)

The same names, to be awaited, are in `penstock.asyncio`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from penstock.admin.objects import NewTopic, TopicOutcome
    from penstock.blocking.client import Client
    from penstock.blocking.consumer import Consumer
    from penstock.blocking.delivery import Delivery
    from penstock.blocking.producer import Producer
    from penstock.client.consuming.malformed import SkippedBatch
    from penstock.client.descriptions import BrokerDescription, PartitionDescription, TopicDescription
    from penstock.client.groups.descriptions import GroupDescription, GroupMemberDescription, GroupSummary
    from penstock.client.messages import Message, MessageBatch
    from penstock.client.producing.delivery import Receipt
    from penstock.client.producing.statistics import HotKey, PartitionStats, ProducerStats
    from penstock.client.record_safety import PartitionDurability
    from penstock.contract.errors import (
        AlreadyExists,
        Belief,
        BrokerUnavailable,
        BufferFull,
        Closed,
        ConfigurationError,
        CoordinatorNotReady,
        CorruptBatch,
        CorruptLog,
        DeliveryTimeout,
        DiskFull,
        ErrorCode,
        ErrorKind,
        FencedInstanceId,
        FencedLeaderEpoch,
        FencedMemberEpoch,
        Forbidden,
        GroupNotEmpty,
        GroupNotFound,
        InternalError,
        InUse,
        InvalidRequest,
        LeaderNotReady,
        LimitExceeded,
        LogTruncated,
        MalformedBatch,
        MessageTooLarge,
        NoLeader,
        NotCoordinator,
        NotEnoughReplicas,
        NotFound,
        NotLeader,
        OffsetOutOfRange,
        OutcomeUnknown,
        OutOfOrderSequence,
        PenstockError,
        PreconditionFailed,
        ProducerFenced,
        ReceiptsNotWritten,
        SerializationFailed,
        ShuttingDown,
        Throttled,
        TimedOut,
        TimestampOutOfRange,
        Unauthenticated,
        UnknownLeaderEpoch,
        UnknownMember,
        UnknownProducer,
        UnsupportedCompression,
        UsedAfterFork,
    )

_ERRORS = "penstock.contract.errors"
_HOME = {
    "Client": "penstock.blocking.client",
    "Consumer": "penstock.blocking.consumer",
    "Delivery": "penstock.blocking.delivery",
    "Producer": "penstock.blocking.producer",
    "NewTopic": "penstock.admin.objects",
    "TopicOutcome": "penstock.admin.objects",
    "BrokerDescription": "penstock.client.descriptions",
    "PartitionDescription": "penstock.client.descriptions",
    "PartitionDurability": "penstock.client.record_safety",
    "TopicDescription": "penstock.client.descriptions",
    "GroupDescription": "penstock.client.groups.descriptions",
    "GroupMemberDescription": "penstock.client.groups.descriptions",
    "GroupSummary": "penstock.client.groups.descriptions",
    "Message": "penstock.client.messages",
    "MessageBatch": "penstock.client.messages",
    "SkippedBatch": "penstock.client.consuming.malformed",
    "Receipt": "penstock.client.producing.delivery",
    "ProducerStats": "penstock.client.producing.statistics",
    "PartitionStats": "penstock.client.producing.statistics",
    "HotKey": "penstock.client.producing.statistics",
}
"""Where a public name lives. Loaded when first asked for: brokers import `penstock.contract` without the SDK's
machinery, and a program patched by gevent imports grpc after the patch."""

__all__ = [  # noqa: RUF022 -- the SDK's own first, then the errors
    "Client",
    "Producer",
    "Delivery",
    "Receipt",
    "ProducerStats",
    "PartitionStats",
    "HotKey",
    "Consumer",
    "Message",
    "MessageBatch",
    "SkippedBatch",
    "TopicDescription",
    "PartitionDescription",
    "PartitionDurability",
    "BrokerDescription",
    "NewTopic",
    "TopicOutcome",
    "GroupSummary",
    "GroupDescription",
    "GroupMemberDescription",
    "PenstockError",
    "Belief",
    "ErrorCode",
    "ErrorKind",
    "AlreadyExists",
    "BrokerUnavailable",
    "BufferFull",
    "Closed",
    "ConfigurationError",
    "CoordinatorNotReady",
    "CorruptBatch",
    "CorruptLog",
    "DeliveryTimeout",
    "DiskFull",
    "FencedInstanceId",
    "FencedLeaderEpoch",
    "FencedMemberEpoch",
    "Forbidden",
    "GroupNotEmpty",
    "GroupNotFound",
    "InternalError",
    "InUse",
    "InvalidRequest",
    "LeaderNotReady",
    "LimitExceeded",
    "LogTruncated",
    "MalformedBatch",
    "MessageTooLarge",
    "NoLeader",
    "NotCoordinator",
    "NotEnoughReplicas",
    "NotFound",
    "NotLeader",
    "OffsetOutOfRange",
    "OutOfOrderSequence",
    "PreconditionFailed",
    "OutcomeUnknown",
    "ProducerFenced",
    "ReceiptsNotWritten",
    "SerializationFailed",
    "ShuttingDown",
    "Throttled",
    "TimedOut",
    "TimestampOutOfRange",
    "Unauthenticated",
    "UnknownLeaderEpoch",
    "UnknownMember",
    "UnknownProducer",
    "UnsupportedCompression",
    "UsedAfterFork",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value = getattr(import_module(_HOME.get(name, _ERRORS)), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
