from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ReadStampedRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "offset", "bytes_max", "end_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    offset: int
    bytes_max: int
    end_offset: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., bytes_max: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class ReadStampedResponse(_message.Message):
    __slots__ = ("error", "message", "stamps", "batches", "log_start_offset", "high_watermark", "log_generation")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STAMPS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    stamps: bytes
    batches: bytes
    log_start_offset: int
    high_watermark: int
    log_generation: int
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., stamps: _Optional[bytes] = ..., batches: _Optional[bytes] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_generation: _Optional[int] = ...) -> None: ...
