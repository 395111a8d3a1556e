from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(_message.Message):
    __slots__ = ("error", "message", "revision", "ignored", "other_brokers")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    OTHER_BROKERS_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    revision: int
    ignored: bool
    other_brokers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., revision: _Optional[int] = ..., ignored: _Optional[bool] = ..., other_brokers: _Optional[_Iterable[str]] = ...) -> None: ...

class PutTenantRequest(_message.Message):
    __slots__ = ("tenant", "generation", "quotas", "suspended", "principals", "budgets")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    PRINCIPALS_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    generation: int
    quotas: TenantQuotas
    suspended: bool
    principals: _containers.RepeatedCompositeFieldContainer[PrincipalLimits]
    budgets: _containers.RepeatedCompositeFieldContainer[Budget]
    def __init__(self, tenant: _Optional[str] = ..., generation: _Optional[int] = ..., quotas: _Optional[_Union[TenantQuotas, _Mapping]] = ..., suspended: _Optional[bool] = ..., principals: _Optional[_Iterable[_Union[PrincipalLimits, _Mapping]]] = ..., budgets: _Optional[_Iterable[_Union[Budget, _Mapping]]] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("budget_id", "name", "period", "amount", "unit", "policy", "slow_bytes_per_s", "topic", "principal", "byte_in", "message_in", "byte_out", "message_out", "used_before", "first_began_ms")
    BUDGET_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    SLOW_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    BYTE_IN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_IN_FIELD_NUMBER: _ClassVar[int]
    BYTE_OUT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_OUT_FIELD_NUMBER: _ClassVar[int]
    USED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    FIRST_BEGAN_MS_FIELD_NUMBER: _ClassVar[int]
    budget_id: str
    name: str
    period: str
    amount: int
    unit: str
    policy: str
    slow_bytes_per_s: int
    topic: str
    principal: str
    byte_in: int
    message_in: int
    byte_out: int
    message_out: int
    used_before: int
    first_began_ms: int
    def __init__(self, budget_id: _Optional[str] = ..., name: _Optional[str] = ..., period: _Optional[str] = ..., amount: _Optional[int] = ..., unit: _Optional[str] = ..., policy: _Optional[str] = ..., slow_bytes_per_s: _Optional[int] = ..., topic: _Optional[str] = ..., principal: _Optional[str] = ..., byte_in: _Optional[int] = ..., message_in: _Optional[int] = ..., byte_out: _Optional[int] = ..., message_out: _Optional[int] = ..., used_before: _Optional[int] = ..., first_began_ms: _Optional[int] = ...) -> None: ...

class PrincipalLimits(_message.Message):
    __slots__ = ("principal", "produce_bytes_per_s", "consume_bytes_per_s", "requests_per_s")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    PRODUCE_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    CONSUME_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    principal: str
    produce_bytes_per_s: int
    consume_bytes_per_s: int
    requests_per_s: int
    def __init__(self, principal: _Optional[str] = ..., produce_bytes_per_s: _Optional[int] = ..., consume_bytes_per_s: _Optional[int] = ..., requests_per_s: _Optional[int] = ...) -> None: ...

class TenantQuotas(_message.Message):
    __slots__ = ("produce_bytes_per_s", "partitions_max", "consume_bytes_per_s", "connections_max", "groups_max", "requests_per_s", "connection_attempts_per_s", "rate_burst_ms", "rate_floor_percent", "storage_bytes_max", "kept_bytes_max", "broker_processor_ms_per_s")
    PRODUCE_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    CONSUME_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    GROUPS_MAX_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ATTEMPTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    RATE_BURST_MS_FIELD_NUMBER: _ClassVar[int]
    RATE_FLOOR_PERCENT_FIELD_NUMBER: _ClassVar[int]
    STORAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    KEPT_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    BROKER_PROCESSOR_MS_PER_S_FIELD_NUMBER: _ClassVar[int]
    produce_bytes_per_s: int
    partitions_max: int
    consume_bytes_per_s: int
    connections_max: int
    groups_max: int
    requests_per_s: int
    connection_attempts_per_s: int
    rate_burst_ms: int
    rate_floor_percent: int
    storage_bytes_max: int
    kept_bytes_max: int
    broker_processor_ms_per_s: int
    def __init__(self, produce_bytes_per_s: _Optional[int] = ..., partitions_max: _Optional[int] = ..., consume_bytes_per_s: _Optional[int] = ..., connections_max: _Optional[int] = ..., groups_max: _Optional[int] = ..., requests_per_s: _Optional[int] = ..., connection_attempts_per_s: _Optional[int] = ..., rate_burst_ms: _Optional[int] = ..., rate_floor_percent: _Optional[int] = ..., storage_bytes_max: _Optional[int] = ..., kept_bytes_max: _Optional[int] = ..., broker_processor_ms_per_s: _Optional[int] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("tenant", "name", "settings_json", "assignments", "generation", "topic_id")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_JSON_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    settings_json: str
    assignments: _containers.RepeatedCompositeFieldContainer[Assignment]
    generation: int
    topic_id: bytes
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., settings_json: _Optional[str] = ..., assignments: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., generation: _Optional[int] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("brokers",)
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    brokers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, brokers: _Optional[_Iterable[int]] = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("outcome", "topic_id")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    topic_id: bytes
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class CreateTopicsRequest(_message.Message):
    __slots__ = ("topics",)
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[CreateTopicRequest]
    def __init__(self, topics: _Optional[_Iterable[_Union[CreateTopicRequest, _Mapping]]] = ...) -> None: ...

class CreateTopicsResponse(_message.Message):
    __slots__ = ("outcome", "topics")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    topics: _containers.RepeatedCompositeFieldContainer[CreateTopicResponse]
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., topics: _Optional[_Iterable[_Union[CreateTopicResponse, _Mapping]]] = ...) -> None: ...

class UpdateTopicRequest(_message.Message):
    __slots__ = ("tenant", "topic_id", "settings_json", "added", "generation")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_JSON_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    topic_id: bytes
    settings_json: str
    added: _containers.RepeatedCompositeFieldContainer[Assignment]
    generation: int
    def __init__(self, tenant: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., settings_json: _Optional[str] = ..., added: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., generation: _Optional[int] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("tenant", "name", "generation", "topic_id")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    generation: int
    topic_id: bytes
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., generation: _Optional[int] = ..., topic_id: _Optional[bytes] = ...) -> None: ...

class BinTopicRequest(_message.Message):
    __slots__ = ("tenant", "topic_id", "generation")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    topic_id: bytes
    generation: int
    def __init__(self, tenant: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., generation: _Optional[int] = ...) -> None: ...

class RestoreTopicRequest(_message.Message):
    __slots__ = ("tenant", "topic_id", "name", "generation")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    topic_id: bytes
    name: str
    generation: int
    def __init__(self, tenant: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., name: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class PutKeyRequest(_message.Message):
    __slots__ = ("key_id", "tenant", "name", "pepper_version", "secret_hmac", "scram_json", "expires_at_ms", "generation", "bindings", "owner")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PEPPER_VERSION_FIELD_NUMBER: _ClassVar[int]
    SECRET_HMAC_FIELD_NUMBER: _ClassVar[int]
    SCRAM_JSON_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    tenant: str
    name: str
    pepper_version: int
    secret_hmac: bytes
    scram_json: str
    expires_at_ms: int
    generation: int
    bindings: _containers.RepeatedCompositeFieldContainer[Binding]
    owner: str
    def __init__(self, key_id: _Optional[str] = ..., tenant: _Optional[str] = ..., name: _Optional[str] = ..., pepper_version: _Optional[int] = ..., secret_hmac: _Optional[bytes] = ..., scram_json: _Optional[str] = ..., expires_at_ms: _Optional[int] = ..., generation: _Optional[int] = ..., bindings: _Optional[_Iterable[_Union[Binding, _Mapping]]] = ..., owner: _Optional[str] = ...) -> None: ...

class Binding(_message.Message):
    __slots__ = ("topic_prefix", "operations", "resource", "literal")
    TOPIC_PREFIX_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    topic_prefix: str
    operations: _containers.RepeatedScalarFieldContainer[str]
    resource: str
    literal: bool
    def __init__(self, topic_prefix: _Optional[str] = ..., operations: _Optional[_Iterable[str]] = ..., resource: _Optional[str] = ..., literal: _Optional[bool] = ...) -> None: ...

class PutKeyResponse(_message.Message):
    __slots__ = ("outcome", "principal")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    principal: int
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., principal: _Optional[int] = ...) -> None: ...

class PutAccessListRequest(_message.Message):
    __slots__ = ("tenant", "generation", "rules_json")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    RULES_JSON_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    generation: int
    rules_json: str
    def __init__(self, tenant: _Optional[str] = ..., generation: _Optional[int] = ..., rules_json: _Optional[str] = ...) -> None: ...

class RevokeKeyRequest(_message.Message):
    __slots__ = ("key_id", "generation")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    generation: int
    def __init__(self, key_id: _Optional[str] = ..., generation: _Optional[int] = ...) -> None: ...

class CutRequest(_message.Message):
    __slots__ = ("cut_id", "tenant", "end_ms", "previous_end_ms", "billing_sequence", "billing_hash", "waived")
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    END_MS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_END_MS_FIELD_NUMBER: _ClassVar[int]
    BILLING_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BILLING_HASH_FIELD_NUMBER: _ClassVar[int]
    WAIVED_FIELD_NUMBER: _ClassVar[int]
    cut_id: str
    tenant: str
    end_ms: int
    previous_end_ms: int
    billing_sequence: int
    billing_hash: str
    waived: _containers.RepeatedCompositeFieldContainer[CutPlace]
    def __init__(self, cut_id: _Optional[str] = ..., tenant: _Optional[str] = ..., end_ms: _Optional[int] = ..., previous_end_ms: _Optional[int] = ..., billing_sequence: _Optional[int] = ..., billing_hash: _Optional[str] = ..., waived: _Optional[_Iterable[_Union[CutPlace, _Mapping]]] = ...) -> None: ...

class CutPlace(_message.Message):
    __slots__ = ("topic_id", "partition")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ...) -> None: ...

class CutResponse(_message.Message):
    __slots__ = ("outcome", "readings", "sha256")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    READINGS_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    readings: _containers.RepeatedCompositeFieldContainer[CutReading]
    sha256: str
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., readings: _Optional[_Iterable[_Union[CutReading, _Mapping]]] = ..., sha256: _Optional[str] = ...) -> None: ...

class CutReading(_message.Message):
    __slots__ = ("topic_id", "partition", "log_generation", "end_offset", "error", "message", "accepted_ms", "messages", "stored_bytes", "last")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LOG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_MS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    log_generation: int
    end_offset: int
    error: int
    message: str
    accepted_ms: int
    messages: int
    stored_bytes: int
    last: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., log_generation: _Optional[int] = ..., end_offset: _Optional[int] = ..., error: _Optional[int] = ..., message: _Optional[str] = ..., accepted_ms: _Optional[int] = ..., messages: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., last: _Optional[bool] = ...) -> None: ...

class DeclareLossRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "broker", "accept_loss", "asked_by")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_LOSS_FIELD_NUMBER: _ClassVar[int]
    ASKED_BY_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    broker: int
    accept_loss: bool
    asked_by: str
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., broker: _Optional[int] = ..., accept_loss: _Optional[bool] = ..., asked_by: _Optional[str] = ...) -> None: ...

class DeclareLossResponse(_message.Message):
    __slots__ = ("outcome", "loss", "declared")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    loss: DeclaredLoss
    declared: bool
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., loss: _Optional[_Union[DeclaredLoss, _Mapping]] = ..., declared: _Optional[bool] = ...) -> None: ...

class DeclaredLoss(_message.Message):
    __slots__ = ("tenant", "topic", "topic_id", "partition", "kind", "log_generation", "leader", "leader_epoch", "offset", "known_end_offset", "asked_by", "declared_ms")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LOG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    KNOWN_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ASKED_BY_FIELD_NUMBER: _ClassVar[int]
    DECLARED_MS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    topic: str
    topic_id: bytes
    partition: int
    kind: str
    log_generation: int
    leader: int
    leader_epoch: int
    offset: int
    known_end_offset: int
    asked_by: str
    declared_ms: int
    def __init__(self, tenant: _Optional[str] = ..., topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., kind: _Optional[str] = ..., log_generation: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., offset: _Optional[int] = ..., known_end_offset: _Optional[int] = ..., asked_by: _Optional[str] = ..., declared_ms: _Optional[int] = ...) -> None: ...

class AlterReplicasRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "replicas", "cancel")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    cancel: bool
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., cancel: _Optional[bool] = ...) -> None: ...

class MoveLeaderRequest(_message.Message):
    __slots__ = ("topic_id", "partition", "broker")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    broker: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., broker: _Optional[int] = ...) -> None: ...

class HandOverRequest(_message.Message):
    __slots__ = ("moves",)
    MOVES_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[HandOver]
    def __init__(self, moves: _Optional[_Iterable[_Union[HandOver, _Mapping]]] = ...) -> None: ...

class HandOver(_message.Message):
    __slots__ = ("topic_id", "partition", "leader_epoch", "to")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leader_epoch: int
    to: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., to: _Optional[int] = ...) -> None: ...

class HandOverResponse(_message.Message):
    __slots__ = ("reasons", "revision")
    REASONS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    reasons: _containers.RepeatedScalarFieldContainer[str]
    revision: int
    def __init__(self, reasons: _Optional[_Iterable[str]] = ..., revision: _Optional[int] = ...) -> None: ...

class CordonBrokerRequest(_message.Message):
    __slots__ = ("broker", "cordoned", "generation")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    broker: int
    cordoned: bool
    generation: int
    def __init__(self, broker: _Optional[int] = ..., cordoned: _Optional[bool] = ..., generation: _Optional[int] = ...) -> None: ...

class ForgetBrokerRequest(_message.Message):
    __slots__ = ("broker",)
    BROKER_FIELD_NUMBER: _ClassVar[int]
    broker: int
    def __init__(self, broker: _Optional[int] = ...) -> None: ...

class DescribeMovesRequest(_message.Message):
    __slots__ = ("local",)
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    local: bool
    def __init__(self, local: _Optional[bool] = ...) -> None: ...

class DescribeMovesResponse(_message.Message):
    __slots__ = ("moves",)
    MOVES_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[DescribedMove]
    def __init__(self, moves: _Optional[_Iterable[_Union[DescribedMove, _Mapping]]] = ...) -> None: ...

class DescribedMove(_message.Message):
    __slots__ = ("tenant", "topic", "topic_id", "partition", "leader", "replicas", "target", "adding", "removing", "in_sync", "progress")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ADDING_FIELD_NUMBER: _ClassVar[int]
    REMOVING_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    topic: str
    topic_id: bytes
    partition: int
    leader: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    target: _containers.RepeatedScalarFieldContainer[int]
    adding: _containers.RepeatedScalarFieldContainer[int]
    removing: _containers.RepeatedScalarFieldContainer[int]
    in_sync: _containers.RepeatedScalarFieldContainer[int]
    progress: _containers.RepeatedCompositeFieldContainer[MoveProgress]
    def __init__(self, tenant: _Optional[str] = ..., topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., target: _Optional[_Iterable[int]] = ..., adding: _Optional[_Iterable[int]] = ..., removing: _Optional[_Iterable[int]] = ..., in_sync: _Optional[_Iterable[int]] = ..., progress: _Optional[_Iterable[_Union[MoveProgress, _Mapping]]] = ...) -> None: ...

class MoveProgress(_message.Message):
    __slots__ = ("broker", "in_sync", "offsets_left", "bytes_left")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_LEFT_FIELD_NUMBER: _ClassVar[int]
    BYTES_LEFT_FIELD_NUMBER: _ClassVar[int]
    broker: int
    in_sync: bool
    offsets_left: int
    bytes_left: int
    def __init__(self, broker: _Optional[int] = ..., in_sync: _Optional[bool] = ..., offsets_left: _Optional[int] = ..., bytes_left: _Optional[int] = ...) -> None: ...

class DescribeLoadRequest(_message.Message):
    __slots__ = ("partitions_max",)
    PARTITIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    partitions_max: int
    def __init__(self, partitions_max: _Optional[int] = ...) -> None: ...

class DescribeLoadResponse(_message.Message):
    __slots__ = ("broker", "bytes_in_per_s", "bytes_out_per_s", "connections", "leaders", "replicas", "log_bytes", "disk_used_bytes", "disk_total_bytes", "led_log_bytes", "partitions")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_PER_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_PER_S_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    LEADERS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    LED_LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    broker: int
    bytes_in_per_s: int
    bytes_out_per_s: int
    connections: int
    leaders: int
    replicas: int
    log_bytes: int
    disk_used_bytes: int
    disk_total_bytes: int
    led_log_bytes: int
    partitions: _containers.RepeatedCompositeFieldContainer[DescribedLoad]
    def __init__(self, broker: _Optional[int] = ..., bytes_in_per_s: _Optional[int] = ..., bytes_out_per_s: _Optional[int] = ..., connections: _Optional[int] = ..., leaders: _Optional[int] = ..., replicas: _Optional[int] = ..., log_bytes: _Optional[int] = ..., disk_used_bytes: _Optional[int] = ..., disk_total_bytes: _Optional[int] = ..., led_log_bytes: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[DescribedLoad, _Mapping]]] = ...) -> None: ...

class DescribedLoad(_message.Message):
    __slots__ = ("topic_id", "partition", "leads", "log_bytes", "bytes_in_per_s", "bytes_out_per_s", "batches_per_1000_s", "slow_downs_per_1000_s", "hot_key_percent")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_PER_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_PER_S_FIELD_NUMBER: _ClassVar[int]
    BATCHES_PER_1000_S_FIELD_NUMBER: _ClassVar[int]
    SLOW_DOWNS_PER_1000_S_FIELD_NUMBER: _ClassVar[int]
    HOT_KEY_PERCENT_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partition: int
    leads: bool
    log_bytes: int
    bytes_in_per_s: int
    bytes_out_per_s: int
    batches_per_1000_s: int
    slow_downs_per_1000_s: int
    hot_key_percent: int
    def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leads: _Optional[bool] = ..., log_bytes: _Optional[int] = ..., bytes_in_per_s: _Optional[int] = ..., bytes_out_per_s: _Optional[int] = ..., batches_per_1000_s: _Optional[int] = ..., slow_downs_per_1000_s: _Optional[int] = ..., hot_key_percent: _Optional[int] = ...) -> None: ...

class DescribeHotKeysRequest(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    def __init__(self, topic_id: _Optional[bytes] = ...) -> None: ...

class DescribeHotKeysResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[DescribedHotKeys]
    def __init__(self, partitions: _Optional[_Iterable[_Union[DescribedHotKeys, _Mapping]]] = ...) -> None: ...

class DescribedHotKeys(_message.Message):
    __slots__ = ("partition", "messages", "keys")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    messages: int
    keys: _containers.RepeatedCompositeFieldContainer[DescribedHotKey]
    def __init__(self, partition: _Optional[int] = ..., messages: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[DescribedHotKey, _Mapping]]] = ...) -> None: ...

class DescribedHotKey(_message.Message):
    __slots__ = ("key", "size", "messages")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    size: int
    messages: int
    def __init__(self, key: _Optional[bytes] = ..., size: _Optional[int] = ..., messages: _Optional[int] = ...) -> None: ...

class DescribeTenantUseRequest(_message.Message):
    __slots__ = ("tenant", "local")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    local: bool
    def __init__(self, tenant: _Optional[str] = ..., local: _Optional[bool] = ...) -> None: ...

class DescribeTenantUseResponse(_message.Message):
    __slots__ = ("connections", "groups", "storage_bytes", "silent", "leaderless")
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    STORAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    LEADERLESS_FIELD_NUMBER: _ClassVar[int]
    connections: int
    groups: int
    storage_bytes: int
    silent: _containers.RepeatedScalarFieldContainer[int]
    leaderless: int
    def __init__(self, connections: _Optional[int] = ..., groups: _Optional[int] = ..., storage_bytes: _Optional[int] = ..., silent: _Optional[_Iterable[int]] = ..., leaderless: _Optional[int] = ...) -> None: ...

class DescribeBudgetsRequest(_message.Message):
    __slots__ = ("tenants",)
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    tenants: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tenants: _Optional[_Iterable[str]] = ...) -> None: ...

class DescribeBudgetsResponse(_message.Message):
    __slots__ = ("budgets",)
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    budgets: _containers.RepeatedCompositeFieldContainer[BudgetUsed]
    def __init__(self, budgets: _Optional[_Iterable[_Union[BudgetUsed, _Mapping]]] = ...) -> None: ...

class BudgetUsed(_message.Message):
    __slots__ = ("tenant", "budget_id", "began_ms", "ends_ms", "used", "unused", "spent")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    BUDGET_ID_FIELD_NUMBER: _ClassVar[int]
    BEGAN_MS_FIELD_NUMBER: _ClassVar[int]
    ENDS_MS_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    budget_id: str
    began_ms: int
    ends_ms: int
    used: int
    unused: int
    spent: bool
    def __init__(self, tenant: _Optional[str] = ..., budget_id: _Optional[str] = ..., began_ms: _Optional[int] = ..., ends_ms: _Optional[int] = ..., used: _Optional[int] = ..., unused: _Optional[int] = ..., spent: _Optional[bool] = ...) -> None: ...

class TopicDurabilityRequest(_message.Message):
    __slots__ = ("topic_id", "partitions")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic_id: _Optional[bytes] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class TopicDurabilityResponse(_message.Message):
    __slots__ = ("outcome", "partitions")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    partitions: _containers.RepeatedCompositeFieldContainer[DescribedDurability]
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., partitions: _Optional[_Iterable[_Union[DescribedDurability, _Mapping]]] = ...) -> None: ...

class DescribedDurability(_message.Message):
    __slots__ = ("partition", "error", "message", "log_start_offset", "verified_end_offset", "high_watermark", "replicas", "verified_ms")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_MS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    error: int
    message: str
    log_start_offset: int
    verified_end_offset: int
    high_watermark: int
    replicas: int
    verified_ms: int
    def __init__(self, partition: _Optional[int] = ..., error: _Optional[int] = ..., message: _Optional[str] = ..., log_start_offset: _Optional[int] = ..., verified_end_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., replicas: _Optional[int] = ..., verified_ms: _Optional[int] = ...) -> None: ...

class DescribeClusterRequest(_message.Message):
    __slots__ = ("partitions", "objects", "after", "min_revision")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    partitions: bool
    objects: bool
    after: str
    min_revision: int
    def __init__(self, partitions: _Optional[bool] = ..., objects: _Optional[bool] = ..., after: _Optional[str] = ..., min_revision: _Optional[int] = ...) -> None: ...

class DescribeClusterResponse(_message.Message):
    __slots__ = ("cluster_id", "controller", "brokers", "partitions", "revision", "tenants", "topics", "keys", "next", "losses", "feature_level", "objects_revision", "levels")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_REVISION_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller: int
    brokers: _containers.RepeatedCompositeFieldContainer[DescribedBroker]
    partitions: _containers.RepeatedCompositeFieldContainer[DescribedPartition]
    revision: int
    tenants: _containers.RepeatedCompositeFieldContainer[DescribedTenant]
    topics: _containers.RepeatedCompositeFieldContainer[DescribedTopic]
    keys: _containers.RepeatedCompositeFieldContainer[DescribedKey]
    next: str
    losses: _containers.RepeatedCompositeFieldContainer[DeclaredLoss]
    feature_level: int
    objects_revision: int
    levels: _containers.RepeatedCompositeFieldContainer[DescribedLevel]
    def __init__(self, cluster_id: _Optional[str] = ..., controller: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[DescribedBroker, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[DescribedPartition, _Mapping]]] = ..., revision: _Optional[int] = ..., tenants: _Optional[_Iterable[_Union[DescribedTenant, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[DescribedTopic, _Mapping]]] = ..., keys: _Optional[_Iterable[_Union[DescribedKey, _Mapping]]] = ..., next: _Optional[str] = ..., losses: _Optional[_Iterable[_Union[DeclaredLoss, _Mapping]]] = ..., feature_level: _Optional[int] = ..., objects_revision: _Optional[int] = ..., levels: _Optional[_Iterable[_Union[DescribedLevel, _Mapping]]] = ...) -> None: ...

class SetFeatureLevelRequest(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: int
    def __init__(self, level: _Optional[int] = ...) -> None: ...

class DescribedLevel(_message.Message):
    __slots__ = ("level", "release", "brings")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    BRINGS_FIELD_NUMBER: _ClassVar[int]
    level: int
    release: str
    brings: str
    def __init__(self, level: _Optional[int] = ..., release: _Optional[str] = ..., brings: _Optional[str] = ...) -> None: ...

class DescribeTopicRequest(_message.Message):
    __slots__ = ("topic_id", "tenant", "name")
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    topic_id: bytes
    tenant: str
    name: str
    def __init__(self, topic_id: _Optional[bytes] = ..., tenant: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class DescribeTopicResponse(_message.Message):
    __slots__ = ("outcome", "topic")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    topic: DescribedTopic
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., topic: _Optional[_Union[DescribedTopic, _Mapping]] = ...) -> None: ...

class DescribedTenant(_message.Message):
    __slots__ = ("tenant", "generation", "quotas", "suspended", "access_list_generation", "access_list_digest", "principal_limits_digest", "budgets_digest")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    ACCESS_LIST_GENERATION_FIELD_NUMBER: _ClassVar[int]
    ACCESS_LIST_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_LIMITS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    generation: int
    quotas: TenantQuotas
    suspended: bool
    access_list_generation: int
    access_list_digest: str
    principal_limits_digest: str
    budgets_digest: str
    def __init__(self, tenant: _Optional[str] = ..., generation: _Optional[int] = ..., quotas: _Optional[_Union[TenantQuotas, _Mapping]] = ..., suspended: _Optional[bool] = ..., access_list_generation: _Optional[int] = ..., access_list_digest: _Optional[str] = ..., principal_limits_digest: _Optional[str] = ..., budgets_digest: _Optional[str] = ...) -> None: ...

class DescribedTopic(_message.Message):
    __slots__ = ("tenant", "name", "topic_id", "partitions", "settings_json", "generation", "copies_in_one_zone", "copies_on_one_host", "binned")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_JSON_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    COPIES_IN_ONE_ZONE_FIELD_NUMBER: _ClassVar[int]
    COPIES_ON_ONE_HOST_FIELD_NUMBER: _ClassVar[int]
    BINNED_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    topic_id: bytes
    partitions: int
    settings_json: str
    generation: int
    copies_in_one_zone: int
    copies_on_one_host: int
    binned: bool
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partitions: _Optional[int] = ..., settings_json: _Optional[str] = ..., generation: _Optional[int] = ..., copies_in_one_zone: _Optional[int] = ..., copies_on_one_host: _Optional[int] = ..., binned: _Optional[bool] = ...) -> None: ...

class DescribedKey(_message.Message):
    __slots__ = ("key_id", "tenant", "principal", "revoked", "expires_at_ms", "generation", "bindings", "owner")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    BINDINGS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    tenant: str
    principal: int
    revoked: bool
    expires_at_ms: int
    generation: int
    bindings: _containers.RepeatedCompositeFieldContainer[Binding]
    owner: str
    def __init__(self, key_id: _Optional[str] = ..., tenant: _Optional[str] = ..., principal: _Optional[int] = ..., revoked: _Optional[bool] = ..., expires_at_ms: _Optional[int] = ..., generation: _Optional[int] = ..., bindings: _Optional[_Iterable[_Union[Binding, _Mapping]]] = ..., owner: _Optional[str] = ...) -> None: ...

class DescribedBroker(_message.Message):
    __slots__ = ("id", "state", "broker_epoch", "client_address", "internal_address", "zone", "leaders", "replicas", "cordoned", "version", "level_min", "level_max", "host")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    LEADERS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    CORDONED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEVEL_MIN_FIELD_NUMBER: _ClassVar[int]
    LEVEL_MAX_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    id: int
    state: str
    broker_epoch: int
    client_address: str
    internal_address: str
    zone: str
    leaders: int
    replicas: int
    cordoned: bool
    version: str
    level_min: int
    level_max: int
    host: str
    def __init__(self, id: _Optional[int] = ..., state: _Optional[str] = ..., broker_epoch: _Optional[int] = ..., client_address: _Optional[str] = ..., internal_address: _Optional[str] = ..., zone: _Optional[str] = ..., leaders: _Optional[int] = ..., replicas: _Optional[int] = ..., cordoned: _Optional[bool] = ..., version: _Optional[str] = ..., level_min: _Optional[int] = ..., level_max: _Optional[int] = ..., host: _Optional[str] = ...) -> None: ...

class DescribedPartition(_message.Message):
    __slots__ = ("tenant", "topic", "topic_id", "partition", "leader", "leader_epoch", "replicas", "in_sync", "eligible", "last_known", "log_generation", "target", "adding")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_FIELD_NUMBER: _ClassVar[int]
    LAST_KNOWN_FIELD_NUMBER: _ClassVar[int]
    LOG_GENERATION_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    ADDING_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    topic: str
    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    in_sync: _containers.RepeatedScalarFieldContainer[int]
    eligible: _containers.RepeatedScalarFieldContainer[int]
    last_known: _containers.RepeatedScalarFieldContainer[int]
    log_generation: int
    target: _containers.RepeatedScalarFieldContainer[int]
    adding: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tenant: _Optional[str] = ..., topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., in_sync: _Optional[_Iterable[int]] = ..., eligible: _Optional[_Iterable[int]] = ..., last_known: _Optional[_Iterable[int]] = ..., log_generation: _Optional[int] = ..., target: _Optional[_Iterable[int]] = ..., adding: _Optional[_Iterable[int]] = ...) -> None: ...

class DescribeKeyUseRequest(_message.Message):
    __slots__ = ("local", "within_ms", "after", "pepper_version")
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PEPPER_VERSION_FIELD_NUMBER: _ClassVar[int]
    local: bool
    within_ms: int
    after: str
    pepper_version: int
    def __init__(self, local: _Optional[bool] = ..., within_ms: _Optional[int] = ..., after: _Optional[str] = ..., pepper_version: _Optional[int] = ...) -> None: ...

class DescribeKeyUseResponse(_message.Message):
    __slots__ = ("keys", "more", "peppers", "peppers_used", "silent", "near_storage")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    PEPPERS_FIELD_NUMBER: _ClassVar[int]
    PEPPERS_USED_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    NEAR_STORAGE_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[KeyUse]
    more: bool
    peppers: _containers.RepeatedCompositeFieldContainer[KnownPepper]
    peppers_used: _containers.RepeatedScalarFieldContainer[int]
    silent: _containers.RepeatedScalarFieldContainer[int]
    near_storage: NearStorage
    def __init__(self, keys: _Optional[_Iterable[_Union[KeyUse, _Mapping]]] = ..., more: _Optional[bool] = ..., peppers: _Optional[_Iterable[_Union[KnownPepper, _Mapping]]] = ..., peppers_used: _Optional[_Iterable[int]] = ..., silent: _Optional[_Iterable[int]] = ..., near_storage: _Optional[_Union[NearStorage, _Mapping]] = ...) -> None: ...

class NearStorage(_message.Message):
    __slots__ = ("tenants", "whole")
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    tenants: _containers.RepeatedCompositeFieldContainer[StorageUse]
    whole: bool
    def __init__(self, tenants: _Optional[_Iterable[_Union[StorageUse, _Mapping]]] = ..., whole: _Optional[bool] = ...) -> None: ...

class StorageUse(_message.Message):
    __slots__ = ("tenant", "used_bytes", "limit_bytes")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    used_bytes: int
    limit_bytes: int
    def __init__(self, tenant: _Optional[str] = ..., used_bytes: _Optional[int] = ..., limit_bytes: _Optional[int] = ...) -> None: ...

class KnownPepper(_message.Message):
    __slots__ = ("version", "fingerprint")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    version: int
    fingerprint: bytes
    def __init__(self, version: _Optional[int] = ..., fingerprint: _Optional[bytes] = ...) -> None: ...

class KeyUse(_message.Message):
    __slots__ = ("key_id", "age_ms", "secret_hmac")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    SECRET_HMAC_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    age_ms: int
    secret_hmac: bytes
    def __init__(self, key_id: _Optional[str] = ..., age_ms: _Optional[int] = ..., secret_hmac: _Optional[bytes] = ...) -> None: ...
