from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReadingKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PERIODIC: _ClassVar[ReadingKind]
    MINUTE_END: _ClassVar[ReadingKind]
    LEADER_CHANGE: _ClassVar[ReadingKind]
    HOURLY: _ClassVar[ReadingKind]
    CUT: _ClassVar[ReadingKind]
    FINAL: _ClassVar[ReadingKind]
    GENERATION_START: _ClassVar[ReadingKind]
PERIODIC: ReadingKind
MINUTE_END: ReadingKind
LEADER_CHANGE: ReadingKind
HOURLY: ReadingKind
CUT: ReadingKind
FINAL: ReadingKind
GENERATION_START: ReadingKind

class UsageRecord(_message.Message):
    __slots__ = ("broker_id", "boot_id", "sequence", "made_ms", "readings", "delivered", "requests", "seals", "boot_ends", "elapsed")
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MADE_MS_FIELD_NUMBER: _ClassVar[int]
    READINGS_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    SEALS_FIELD_NUMBER: _ClassVar[int]
    BOOT_ENDS_FIELD_NUMBER: _ClassVar[int]
    ELAPSED_FIELD_NUMBER: _ClassVar[int]
    broker_id: int
    boot_id: str
    sequence: int
    made_ms: int
    readings: _containers.RepeatedCompositeFieldContainer[Reading]
    delivered: _containers.RepeatedCompositeFieldContainer[Delivered]
    requests: _containers.RepeatedCompositeFieldContainer[Requests]
    seals: _containers.RepeatedCompositeFieldContainer[SealedSegment]
    boot_ends: bool
    elapsed: _containers.RepeatedCompositeFieldContainer[Elapsed]
    def __init__(self, broker_id: _Optional[int] = ..., boot_id: _Optional[str] = ..., sequence: _Optional[int] = ..., made_ms: _Optional[int] = ..., readings: _Optional[_Iterable[_Union[Reading, _Mapping]]] = ..., delivered: _Optional[_Iterable[_Union[Delivered, _Mapping]]] = ..., requests: _Optional[_Iterable[_Union[Requests, _Mapping]]] = ..., seals: _Optional[_Iterable[_Union[SealedSegment, _Mapping]]] = ..., boot_ends: _Optional[bool] = ..., elapsed: _Optional[_Iterable[_Union[Elapsed, _Mapping]]] = ...) -> None: ...

class Reading(_message.Message):
    __slots__ = ("tenant", "topic_id", "topic", "partition", "log_generation", "end_offset", "accepted_ms", "leader_epoch", "totals", "log_start_offset", "retained_bytes", "minute_rows", "kind", "cut_id", "cut_end_ms", "last", "retained_since", "retained_until", "retained_byte_minutes", "replicated_byte_minutes")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LOG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_MS_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RETAINED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MINUTE_ROWS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    CUT_END_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    RETAINED_SINCE_FIELD_NUMBER: _ClassVar[int]
    RETAINED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    RETAINED_BYTE_MINUTES_FIELD_NUMBER: _ClassVar[int]
    REPLICATED_BYTE_MINUTES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    topic_id: bytes
    topic: str
    partition: int
    log_generation: int
    end_offset: int
    accepted_ms: int
    leader_epoch: int
    totals: _containers.RepeatedScalarFieldContainer[int]
    log_start_offset: int
    retained_bytes: int
    minute_rows: _containers.RepeatedCompositeFieldContainer[PrincipalRow]
    kind: ReadingKind
    cut_id: str
    cut_end_ms: int
    last: bool
    retained_since: int
    retained_until: int
    retained_byte_minutes: int
    replicated_byte_minutes: int
    def __init__(self, tenant: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., log_generation: _Optional[int] = ..., end_offset: _Optional[int] = ..., accepted_ms: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., totals: _Optional[_Iterable[int]] = ..., log_start_offset: _Optional[int] = ..., retained_bytes: _Optional[int] = ..., minute_rows: _Optional[_Iterable[_Union[PrincipalRow, _Mapping]]] = ..., kind: _Optional[_Union[ReadingKind, str]] = ..., cut_id: _Optional[str] = ..., cut_end_ms: _Optional[int] = ..., last: _Optional[bool] = ..., retained_since: _Optional[int] = ..., retained_until: _Optional[int] = ..., retained_byte_minutes: _Optional[int] = ..., replicated_byte_minutes: _Optional[int] = ...) -> None: ...

class PrincipalRow(_message.Message):
    __slots__ = ("minute", "principal", "messages", "bytes")
    MINUTE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    minute: int
    principal: int
    messages: int
    bytes: int
    def __init__(self, minute: _Optional[int] = ..., principal: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Delivered(_message.Message):
    __slots__ = ("tenant", "topic_id", "topic", "partition", "group", "principal", "minute", "messages", "bytes", "other_zone_messages", "other_zone_bytes")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    MINUTE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    OTHER_ZONE_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    OTHER_ZONE_BYTES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    topic_id: bytes
    topic: str
    partition: int
    group: str
    principal: int
    minute: int
    messages: int
    bytes: int
    other_zone_messages: int
    other_zone_bytes: int
    def __init__(self, tenant: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., group: _Optional[str] = ..., principal: _Optional[int] = ..., minute: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., other_zone_messages: _Optional[int] = ..., other_zone_bytes: _Optional[int] = ...) -> None: ...

class Elapsed(_message.Message):
    __slots__ = ("tenant", "topic_id", "topic", "principal", "minute", "connection_ms", "throttled_ms", "partition", "leaderless_ms")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    MINUTE_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_MS_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADERLESS_MS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    topic_id: bytes
    topic: str
    principal: int
    minute: int
    connection_ms: int
    throttled_ms: int
    partition: int
    leaderless_ms: int
    def __init__(self, tenant: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., topic: _Optional[str] = ..., principal: _Optional[int] = ..., minute: _Optional[int] = ..., connection_ms: _Optional[int] = ..., throttled_ms: _Optional[int] = ..., partition: _Optional[int] = ..., leaderless_ms: _Optional[int] = ...) -> None: ...

class Requests(_message.Message):
    __slots__ = ("tenant", "operation", "minute", "valid", "bad", "succeeded_seconds", "failed_seconds", "latency_buckets", "latency_counts")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    MINUTE_FIELD_NUMBER: _ClassVar[int]
    VALID_FIELD_NUMBER: _ClassVar[int]
    BAD_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FAILED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_COUNTS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    operation: str
    minute: int
    valid: int
    bad: int
    succeeded_seconds: int
    failed_seconds: int
    latency_buckets: _containers.RepeatedScalarFieldContainer[int]
    latency_counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tenant: _Optional[str] = ..., operation: _Optional[str] = ..., minute: _Optional[int] = ..., valid: _Optional[int] = ..., bad: _Optional[int] = ..., succeeded_seconds: _Optional[int] = ..., failed_seconds: _Optional[int] = ..., latency_buckets: _Optional[_Iterable[int]] = ..., latency_counts: _Optional[_Iterable[int]] = ...) -> None: ...

class SealedSegment(_message.Message):
    __slots__ = ("tenant", "seal")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    seal: bytes
    def __init__(self, tenant: _Optional[str] = ..., seal: _Optional[bytes] = ...) -> None: ...

class AppendUsageRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "batch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    batch: bytes
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., batch: _Optional[bytes] = ...) -> None: ...

class AppendUsageResponse(_message.Message):
    __slots__ = ("error", "message")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class CutPartitionsRequest(_message.Message):
    __slots__ = ("cut_id", "tenant", "end_ms", "revision", "partitions", "deleted")
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    cut_id: str
    tenant: str
    end_ms: int
    revision: int
    partitions: _containers.RepeatedCompositeFieldContainer[CutPartition]
    deleted: bool
    def __init__(self, cut_id: _Optional[str] = ..., tenant: _Optional[str] = ..., end_ms: _Optional[int] = ..., revision: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[CutPartition, _Mapping]]] = ..., deleted: _Optional[bool] = ...) -> None: ...

class CutPartition(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ...) -> None: ...

class CutPartitionsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionCut]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionCut, _Mapping]]] = ...) -> None: ...

class PartitionCut(_message.Message):
    __slots__ = ("topic_id", "partition", "log_generation", "end_offset", "error", "message", "accepted_ms", "totals")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LOG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_MS_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    log_generation: int
    end_offset: int
    error: int
    message: str
    accepted_ms: int
    totals: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., log_generation: _Optional[int] = ..., end_offset: _Optional[int] = ..., error: _Optional[int] = ..., message: _Optional[str] = ..., accepted_ms: _Optional[int] = ..., totals: _Optional[_Iterable[int]] = ...) -> None: ...
