from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReplicaOpenHead(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "partitions")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    partitions: _containers.RepeatedCompositeFieldContainer[ReplicaOpen]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[ReplicaOpen, _Mapping]]] = ...) -> None: ...

class ReplicaOpen(_message.Message):
    __slots__ = ("handle", "topic_id", "partition", "leader_epoch", "log_end_offset", "durable_end_offset", "last_epoch", "replica_generation", "log_start_offset", "no_room", "stays_out", "partition_epoch")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DURABLE_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICA_GENERATION_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NO_ROOM_FIELD_NUMBER: _ClassVar[int]
    STAYS_OUT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_EPOCH_FIELD_NUMBER: _ClassVar[int]
    handle: int
    topic_id: bytes
    partition: int
    leader_epoch: int
    log_end_offset: int
    durable_end_offset: int
    last_epoch: int
    replica_generation: int
    log_start_offset: int
    no_room: bool
    stays_out: bool
    partition_epoch: int
    def __init__(self, handle: _Optional[int] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., durable_end_offset: _Optional[int] = ..., last_epoch: _Optional[int] = ..., replica_generation: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., no_room: _Optional[bool] = ..., stays_out: _Optional[bool] = ..., partition_epoch: _Optional[int] = ...) -> None: ...

class ReplicaAnswerHead(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[ReplicaAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[ReplicaAnswer, _Mapping]]] = ...) -> None: ...

class ReplicaAnswer(_message.Message):
    __slots__ = ("handle", "leader_epoch", "error", "message", "diverging", "divergence_epoch", "divergence_end_offset", "start_over", "log_start_offset", "odometer", "producers")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DIVERGING_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCE_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCE_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    START_OVER_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ODOMETER_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    handle: int
    leader_epoch: int
    error: int
    message: str
    diverging: bool
    divergence_epoch: int
    divergence_end_offset: int
    start_over: bool
    log_start_offset: int
    odometer: bytes
    producers: bytes
    def __init__(self, handle: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., error: _Optional[int] = ..., message: _Optional[str] = ..., diverging: _Optional[bool] = ..., divergence_epoch: _Optional[int] = ..., divergence_end_offset: _Optional[int] = ..., start_over: _Optional[bool] = ..., log_start_offset: _Optional[int] = ..., odometer: _Optional[bytes] = ..., producers: _Optional[bytes] = ...) -> None: ...

class ReplicaPushHead(_message.Message):
    __slots__ = ("pushes",)
    PUSHES_FIELD_NUMBER: _ClassVar[int]
    pushes: _containers.RepeatedCompositeFieldContainer[ReplicaPush]
    def __init__(self, pushes: _Optional[_Iterable[_Union[ReplicaPush, _Mapping]]] = ...) -> None: ...

class ReplicaPush(_message.Message):
    __slots__ = ("handle", "leader_epoch", "base_offset", "stamps", "batches_bytes", "high_watermark", "log_start_offset", "metered_offset", "sealed_offset", "metered_generation")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STAMPS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_BYTES_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    METERED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SEALED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    METERED_GENERATION_FIELD_NUMBER: _ClassVar[int]
    handle: int
    leader_epoch: int
    base_offset: int
    stamps: int
    batches_bytes: int
    high_watermark: int
    log_start_offset: int
    metered_offset: int
    sealed_offset: int
    metered_generation: int
    def __init__(self, handle: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., base_offset: _Optional[int] = ..., stamps: _Optional[int] = ..., batches_bytes: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., metered_offset: _Optional[int] = ..., sealed_offset: _Optional[int] = ..., metered_generation: _Optional[int] = ...) -> None: ...

class ReplicaHeldHead(_message.Message):
    __slots__ = ("held",)
    HELD_FIELD_NUMBER: _ClassVar[int]
    held: _containers.RepeatedCompositeFieldContainer[ReplicaHeld]
    def __init__(self, held: _Optional[_Iterable[_Union[ReplicaHeld, _Mapping]]] = ...) -> None: ...

class ReplicaHeld(_message.Message):
    __slots__ = ("handle", "leader_epoch", "durable_end_offset", "written_end_offset", "log_start_offset")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    DURABLE_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    handle: int
    leader_epoch: int
    durable_end_offset: int
    written_end_offset: int
    log_start_offset: int
    def __init__(self, handle: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., durable_end_offset: _Optional[int] = ..., written_end_offset: _Optional[int] = ..., log_start_offset: _Optional[int] = ...) -> None: ...

class ReplicaCloseHead(_message.Message):
    __slots__ = ("handles",)
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ...) -> None: ...

class ReplicaEndsRequest(_message.Message):
    __slots__ = ("revision", "partitions")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    partitions: _containers.RepeatedCompositeFieldContainer[EndOfReplica]
    def __init__(self, revision: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[EndOfReplica, _Mapping]]] = ...) -> None: ...

class ReplicaEndsResponse(_message.Message):
    __slots__ = ("broker_epoch", "ends")
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    broker_epoch: int
    ends: _containers.RepeatedCompositeFieldContainer[EndOfReplica]
    def __init__(self, broker_epoch: _Optional[int] = ..., ends: _Optional[_Iterable[_Union[EndOfReplica, _Mapping]]] = ...) -> None: ...

class EndOfReplica(_message.Message):
    __slots__ = ("topic_id", "partition", "last_epoch", "log_end_offset", "damage", "sound_end_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_FIELD_NUMBER: _ClassVar[int]
    SOUND_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    last_epoch: int
    log_end_offset: int
    damage: str
    sound_end_offset: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., last_epoch: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., damage: _Optional[str] = ..., sound_end_offset: _Optional[int] = ...) -> None: ...

class BeatHead(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "controller_epoch", "sequence", "wall_ms", "clock_off_ms", "asked_ms", "answered_ms")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFF_MS_FIELD_NUMBER: _ClassVar[int]
    ASKED_MS_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_MS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    controller_epoch: int
    sequence: int
    wall_ms: int
    clock_off_ms: int
    asked_ms: float
    answered_ms: float
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., wall_ms: _Optional[int] = ..., clock_off_ms: _Optional[int] = ..., asked_ms: _Optional[float] = ..., answered_ms: _Optional[float] = ...) -> None: ...

class CompareSegmentsRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "segments", "agreed")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    AGREED_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    segments: _containers.RepeatedCompositeFieldContainer[ScrubbedSegment]
    agreed: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[ScrubbedSegment, _Mapping]]] = ..., agreed: _Optional[bool] = ...) -> None: ...

class ScrubbedSegment(_message.Message):
    __slots__ = ("base_offset", "end_offset", "digest", "verified_ms")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_MS_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    end_offset: int
    digest: bytes
    verified_ms: int
    def __init__(self, base_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., digest: _Optional[bytes] = ..., verified_ms: _Optional[int] = ...) -> None: ...

class CompareSegmentsResponse(_message.Message):
    __slots__ = ("error", "message", "segments")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    segments: _containers.RepeatedCompositeFieldContainer[ScrubbedSegment]
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., segments: _Optional[_Iterable[_Union[ScrubbedSegment, _Mapping]]] = ...) -> None: ...

class LeaseRequestHead(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "controller_epoch", "sequence", "answered", "wishes", "partial", "whole")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    WISHES_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    controller_epoch: int
    sequence: int
    answered: int
    wishes: _containers.RepeatedCompositeFieldContainer[LeaseWish]
    partial: bool
    whole: bool
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., answered: _Optional[int] = ..., wishes: _Optional[_Iterable[_Union[LeaseWish, _Mapping]]] = ..., partial: _Optional[bool] = ..., whole: _Optional[bool] = ...) -> None: ...

class LeaseWish(_message.Message):
    __slots__ = ("tenant", "limit", "holds", "wants", "principal", "topic")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    WANTS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    limit: str
    holds: int
    wants: int
    principal: str
    topic: str
    def __init__(self, tenant: _Optional[str] = ..., limit: _Optional[str] = ..., holds: _Optional[int] = ..., wants: _Optional[int] = ..., principal: _Optional[str] = ..., topic: _Optional[str] = ...) -> None: ...

class StorageReportHead(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "controller_epoch", "sequence", "kept", "whole", "full")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    controller_epoch: int
    sequence: int
    kept: _containers.RepeatedCompositeFieldContainer[PartitionKept]
    whole: bool
    full: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., kept: _Optional[_Iterable[_Union[PartitionKept, _Mapping]]] = ..., whole: _Optional[bool] = ..., full: _Optional[_Iterable[str]] = ...) -> None: ...

class PartitionKept(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "size_bytes")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    size_bytes: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class StorageAnswerHead(_message.Message):
    __slots__ = ("sequence", "refused", "full")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    refused: bool
    full: _containers.RepeatedCompositeFieldContainer[TenantFull]
    def __init__(self, sequence: _Optional[int] = ..., refused: _Optional[bool] = ..., full: _Optional[_Iterable[_Union[TenantFull, _Mapping]]] = ...) -> None: ...

class TenantFull(_message.Message):
    __slots__ = ("tenant", "used_bytes")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    used_bytes: int
    def __init__(self, tenant: _Optional[str] = ..., used_bytes: _Optional[int] = ...) -> None: ...

class BudgetRequestHead(_message.Message):
    __slots__ = ("broker_id", "broker_epoch", "controller_epoch", "sequence", "wants")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WANTS_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    broker_epoch: int
    controller_epoch: int
    sequence: int
    wants: _containers.RepeatedCompositeFieldContainer[BudgetWant]
    def __init__(self, broker_id: _Optional[int] = ..., broker_epoch: _Optional[int] = ..., controller_epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., wants: _Optional[_Iterable[_Union[BudgetWant, _Mapping]]] = ...) -> None: ...

class BudgetWant(_message.Message):
    __slots__ = ("tenant", "budget_id", "term", "began_ms", "holds", "wants", "needs", "received", "returned", "owed")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    BUDGET_ID_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    BEGAN_MS_FIELD_NUMBER: _ClassVar[int]
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    WANTS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    OWED_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    budget_id: str
    term: int
    began_ms: int
    holds: int
    wants: int
    needs: int
    received: int
    returned: int
    owed: int
    def __init__(self, tenant: _Optional[str] = ..., budget_id: _Optional[str] = ..., term: _Optional[int] = ..., began_ms: _Optional[int] = ..., holds: _Optional[int] = ..., wants: _Optional[int] = ..., needs: _Optional[int] = ..., received: _Optional[int] = ..., returned: _Optional[int] = ..., owed: _Optional[int] = ...) -> None: ...

class BudgetAnswerHead(_message.Message):
    __slots__ = ("sequence", "refused", "term", "grants")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    refused: bool
    term: int
    grants: _containers.RepeatedCompositeFieldContainer[BudgetGrant]
    def __init__(self, sequence: _Optional[int] = ..., refused: _Optional[bool] = ..., term: _Optional[int] = ..., grants: _Optional[_Iterable[_Union[BudgetGrant, _Mapping]]] = ...) -> None: ...

class BudgetGrant(_message.Message):
    __slots__ = ("began_ms", "ends_ms", "total", "left")
    BEGAN_MS_FIELD_NUMBER: _ClassVar[int]
    ENDS_MS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    began_ms: int
    ends_ms: int
    total: int
    left: int
    def __init__(self, began_ms: _Optional[int] = ..., ends_ms: _Optional[int] = ..., total: _Optional[int] = ..., left: _Optional[int] = ...) -> None: ...

class LeaseGrantHead(_message.Message):
    __slots__ = ("sequence", "refused", "amounts")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    AMOUNTS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    refused: bool
    amounts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sequence: _Optional[int] = ..., refused: _Optional[bool] = ..., amounts: _Optional[_Iterable[int]] = ...) -> None: ...
