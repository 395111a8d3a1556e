from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProduceHead(_message.Message):
    __slots__ = ("acks", "batches")
    ACKS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    acks: int
    batches: _containers.RepeatedCompositeFieldContainer[ProduceBatch]
    def __init__(self, acks: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[ProduceBatch, _Mapping]]] = ...) -> None: ...

class ProduceBatch(_message.Message):
    __slots__ = ("id", "topic_id", "partition", "size", "leader_epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: int
    topic_id: bytes
    partition: int
    size: int
    leader_epoch: int
    def __init__(self, id: _Optional[int] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., size: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class ProduceAnswerHead(_message.Message):
    __slots__ = ("credit_bytes", "results")
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    credit_bytes: int
    results: _containers.RepeatedCompositeFieldContainer[ProduceResult]
    def __init__(self, credit_bytes: _Optional[int] = ..., results: _Optional[_Iterable[_Union[ProduceResult, _Mapping]]] = ...) -> None: ...

class ProduceResult(_message.Message):
    __slots__ = ("id", "error", "base_offset", "accepted_ms", "duplicate", "message", "leader_epoch", "retry_after_ms", "slow_down_ms", "throttled_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_MS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    SLOW_DOWN_MS_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_MS_FIELD_NUMBER: _ClassVar[int]
    id: int
    error: int
    base_offset: int
    accepted_ms: int
    duplicate: bool
    message: str
    leader_epoch: int
    retry_after_ms: int
    slow_down_ms: int
    throttled_ms: int
    def __init__(self, id: _Optional[int] = ..., error: _Optional[int] = ..., base_offset: _Optional[int] = ..., accepted_ms: _Optional[int] = ..., duplicate: _Optional[bool] = ..., message: _Optional[str] = ..., leader_epoch: _Optional[int] = ..., retry_after_ms: _Optional[int] = ..., slow_down_ms: _Optional[int] = ..., throttled_ms: _Optional[int] = ...) -> None: ...

class ConsumeOpenHead(_message.Message):
    __slots__ = ("partitions", "group", "zone")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ConsumeOpen]
    group: str
    zone: str
    def __init__(self, partitions: _Optional[_Iterable[_Union[ConsumeOpen, _Mapping]]] = ..., group: _Optional[str] = ..., zone: _Optional[str] = ...) -> None: ...

class ConsumeOpen(_message.Message):
    __slots__ = ("handle", "topic_id", "partition", "generation", "offset", "last_epoch", "leader_epoch", "credit_bytes", "from_follower")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    FROM_FOLLOWER_FIELD_NUMBER: _ClassVar[int]
    handle: int
    topic_id: bytes
    partition: int
    generation: int
    offset: int
    last_epoch: int
    leader_epoch: int
    credit_bytes: int
    from_follower: bool
    def __init__(self, handle: _Optional[int] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., generation: _Optional[int] = ..., offset: _Optional[int] = ..., last_epoch: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., from_follower: _Optional[bool] = ...) -> None: ...

class ConsumeCreditHead(_message.Message):
    __slots__ = ("credits",)
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    credits: _containers.RepeatedCompositeFieldContainer[ConsumeCredit]
    def __init__(self, credits: _Optional[_Iterable[_Union[ConsumeCredit, _Mapping]]] = ...) -> None: ...

class ConsumeCredit(_message.Message):
    __slots__ = ("handle", "generation", "credit_bytes")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    handle: int
    generation: int
    credit_bytes: int
    def __init__(self, handle: _Optional[int] = ..., generation: _Optional[int] = ..., credit_bytes: _Optional[int] = ...) -> None: ...

class ConsumeCloseHead(_message.Message):
    __slots__ = ("handles",)
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, handles: _Optional[_Iterable[int]] = ...) -> None: ...

class ConsumePushHead(_message.Message):
    __slots__ = ("pushes", "throttled_ms")
    PUSHES_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_MS_FIELD_NUMBER: _ClassVar[int]
    pushes: _containers.RepeatedCompositeFieldContainer[ConsumePush]
    throttled_ms: int
    def __init__(self, pushes: _Optional[_Iterable[_Union[ConsumePush, _Mapping]]] = ..., throttled_ms: _Optional[int] = ...) -> None: ...

class ConsumePush(_message.Message):
    __slots__ = ("handle", "generation", "leader_epoch", "log_start_offset", "high_watermark", "last_stable_offset", "size", "aborted", "error", "message", "divergence_offset", "beyond_end")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LAST_STABLE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DIVERGENCE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BEYOND_END_FIELD_NUMBER: _ClassVar[int]
    handle: int
    generation: int
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    size: int
    aborted: _containers.RepeatedCompositeFieldContainer[AbortedRange]
    error: int
    message: str
    divergence_offset: int
    beyond_end: bool
    def __init__(self, handle: _Optional[int] = ..., generation: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., last_stable_offset: _Optional[int] = ..., size: _Optional[int] = ..., aborted: _Optional[_Iterable[_Union[AbortedRange, _Mapping]]] = ..., error: _Optional[int] = ..., message: _Optional[str] = ..., divergence_offset: _Optional[int] = ..., beyond_end: _Optional[bool] = ...) -> None: ...

class AbortedRange(_message.Message):
    __slots__ = ("producer_id", "first_offset")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    first_offset: int
    def __init__(self, producer_id: _Optional[int] = ..., first_offset: _Optional[int] = ...) -> None: ...

class MetadataRequest(_message.Message):
    __slots__ = ("topics", "all_topics")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ALL_TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    all_topics: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., all_topics: _Optional[bool] = ...) -> None: ...

class MetadataResponse(_message.Message):
    __slots__ = ("cluster_id", "brokers", "topics", "revision")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    brokers: _containers.RepeatedCompositeFieldContainer[BrokerAddress]
    topics: _containers.RepeatedCompositeFieldContainer[TopicMetadata]
    revision: int
    def __init__(self, cluster_id: _Optional[str] = ..., brokers: _Optional[_Iterable[_Union[BrokerAddress, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[TopicMetadata, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class BrokerAddress(_message.Message):
    __slots__ = ("id", "address", "zone", "host")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    id: int
    address: str
    zone: str
    host: str
    def __init__(self, id: _Optional[int] = ..., address: _Optional[str] = ..., zone: _Optional[str] = ..., host: _Optional[str] = ...) -> None: ...

class TopicMetadata(_message.Message):
    __slots__ = ("name", "error", "message", "topic_id", "partitions", "settings_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    error: int
    message: str
    topic_id: bytes
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionMetadata]
    settings_json: str
    def __init__(self, name: _Optional[str] = ..., error: _Optional[int] = ..., message: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[_Union[PartitionMetadata, _Mapping]]] = ..., settings_json: _Optional[str] = ...) -> None: ...

class PartitionMetadata(_message.Message):
    __slots__ = ("partition", "leader", "leader_epoch", "replicas", "in_sync", "log_generation")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    LOG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    partition: int
    leader: int
    leader_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    in_sync: _containers.RepeatedScalarFieldContainer[int]
    log_generation: int
    def __init__(self, partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., in_sync: _Optional[_Iterable[int]] = ..., log_generation: _Optional[int] = ...) -> None: ...

class WatchMetadataRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, topics: _Optional[_Iterable[str]] = ...) -> None: ...

class ListOffsetsRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ListOffset]
    def __init__(self, partitions: _Optional[_Iterable[_Union[ListOffset, _Mapping]]] = ...) -> None: ...

class ListOffset(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "timestamp_ms")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    timestamp_ms: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class ListOffsetsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ListedOffset]
    def __init__(self, partitions: _Optional[_Iterable[_Union[ListedOffset, _Mapping]]] = ...) -> None: ...

class ListedOffset(_message.Message):
    __slots__ = ("error", "message", "offset", "leader_epoch")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    offset: int
    leader_epoch: int
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., offset: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class InitProducerRequest(_message.Message):
    __slots__ = ("producer_id", "producer_epoch")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ...) -> None: ...

class InitProducerResponse(_message.Message):
    __slots__ = ("error", "message", "producer_id", "producer_epoch")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    producer_id: int
    producer_epoch: int
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ...) -> None: ...

class ReportKeysRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[KeyReport]
    def __init__(self, partitions: _Optional[_Iterable[_Union[KeyReport, _Mapping]]] = ...) -> None: ...

class KeyReport(_message.Message):
    __slots__ = ("topic_id", "partition", "messages", "over_ms", "keys")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    OVER_MS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    messages: int
    over_ms: int
    keys: _containers.RepeatedCompositeFieldContainer[ReportedKey]
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., messages: _Optional[int] = ..., over_ms: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[ReportedKey, _Mapping]]] = ...) -> None: ...

class ReportedKey(_message.Message):
    __slots__ = ("key", "size", "messages")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    size: int
    messages: int
    def __init__(self, key: _Optional[bytes] = ..., size: _Optional[int] = ..., messages: _Optional[int] = ...) -> None: ...

class ReportKeysResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[TakenKeyReport]
    def __init__(self, partitions: _Optional[_Iterable[_Union[TakenKeyReport, _Mapping]]] = ...) -> None: ...

class TakenKeyReport(_message.Message):
    __slots__ = ("error", "message")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...

class DeleteRecordsRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[DeleteRecords]
    def __init__(self, partitions: _Optional[_Iterable[_Union[DeleteRecords, _Mapping]]] = ...) -> None: ...

class DeleteRecords(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "before_offset")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BEFORE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    before_offset: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., before_offset: _Optional[int] = ...) -> None: ...

class DeleteRecordsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[DeletedRecords]
    def __init__(self, partitions: _Optional[_Iterable[_Union[DeletedRecords, _Mapping]]] = ...) -> None: ...

class DeletedRecords(_message.Message):
    __slots__ = ("error", "message", "log_start_offset")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    log_start_offset: int
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., log_start_offset: _Optional[int] = ...) -> None: ...

class DescribeDurabilityRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[DurabilityQuestion]
    def __init__(self, partitions: _Optional[_Iterable[_Union[DurabilityQuestion, _Mapping]]] = ...) -> None: ...

class DurabilityQuestion(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ...) -> None: ...

class DescribeDurabilityResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionDurability]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionDurability, _Mapping]]] = ...) -> None: ...

class PartitionDurability(_message.Message):
    __slots__ = ("error", "message", "verified_end_offset", "verified_ms", "replicas", "log_start_offset", "high_watermark")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_MS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    verified_end_offset: int
    verified_ms: int
    replicas: int
    log_start_offset: int
    high_watermark: int
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., verified_end_offset: _Optional[int] = ..., verified_ms: _Optional[int] = ..., replicas: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ...) -> None: ...
