from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReadStampedRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "offset", "bytes_max", "end_offset", "headers_only")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HEADERS_ONLY_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    offset: int
    bytes_max: int
    end_offset: int
    headers_only: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., bytes_max: _Optional[int] = ..., end_offset: _Optional[int] = ..., headers_only: _Optional[bool] = ...) -> None: ...

class ReadStampedResponse(_message.Message):
    __slots__ = ("error", "message", "stamps", "batches", "log_start_offset", "high_watermark", "log_generation", "headers_only")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STAMPS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    HEADERS_ONLY_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    stamps: bytes
    batches: bytes
    log_start_offset: int
    high_watermark: int
    log_generation: int
    headers_only: bool
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., stamps: _Optional[bytes] = ..., batches: _Optional[bytes] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_generation: _Optional[int] = ..., headers_only: _Optional[bool] = ...) -> None: ...

class ReadSealsRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "above_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ABOVE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    above_offset: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., above_offset: _Optional[int] = ...) -> None: ...

class ReadSealsResponse(_message.Message):
    __slots__ = ("error", "message", "seals", "more", "log_generation")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SEALS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    LOG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    seals: bytes
    more: bool
    log_generation: int
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., seals: _Optional[bytes] = ..., more: _Optional[bool] = ..., log_generation: _Optional[int] = ...) -> None: ...

class ReadCommitmentsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReadCommitmentsResponse(_message.Message):
    __slots__ = ("tenant", "cuts", "losses")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CUTS_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    cuts: _containers.RepeatedCompositeFieldContainer[KeptCut]
    losses: _containers.RepeatedCompositeFieldContainer[KeptLoss]
    def __init__(self, tenant: _Optional[str] = ..., cuts: _Optional[_Iterable[_Union[KeptCut, _Mapping]]] = ..., losses: _Optional[_Iterable[_Union[KeptLoss, _Mapping]]] = ...) -> None: ...

class KeptCut(_message.Message):
    __slots__ = ("cut_id", "start_ms", "end_ms", "sha256", "billing_sequence", "billing_hash", "kept_ms")
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    BILLING_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BILLING_HASH_FIELD_NUMBER: _ClassVar[int]
    KEPT_MS_FIELD_NUMBER: _ClassVar[int]
    cut_id: str
    start_ms: int
    end_ms: int
    sha256: str
    billing_sequence: int
    billing_hash: str
    kept_ms: int
    def __init__(self, cut_id: _Optional[str] = ..., start_ms: _Optional[int] = ..., end_ms: _Optional[int] = ..., sha256: _Optional[str] = ..., billing_sequence: _Optional[int] = ..., billing_hash: _Optional[str] = ..., kept_ms: _Optional[int] = ...) -> None: ...

class KeptLoss(_message.Message):
    __slots__ = ("topic_id", "partition", "log_generation", "offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LOG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    log_generation: int
    offset: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., log_generation: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...
