from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(_message.Message):
    __slots__ = ("error", "message", "revision")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    error: int
    message: str
    revision: int
    def __init__(self, error: _Optional[int] = ..., message: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class PutTenantRequest(_message.Message):
    __slots__ = ("tenant",)
    TENANT_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    def __init__(self, tenant: _Optional[str] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("tenant", "name", "settings_json", "assignments")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_JSON_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    settings_json: str
    assignments: _containers.RepeatedCompositeFieldContainer[Assignment]
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., settings_json: _Optional[str] = ..., assignments: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ...) -> None: ...

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

class DeleteTopicRequest(_message.Message):
    __slots__ = ("tenant", "name")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class PutKeyRequest(_message.Message):
    __slots__ = ("key_id", "tenant", "name", "pepper_version", "secret_hmac", "scram_json", "expires_at_ms")
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PEPPER_VERSION_FIELD_NUMBER: _ClassVar[int]
    SECRET_HMAC_FIELD_NUMBER: _ClassVar[int]
    SCRAM_JSON_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    tenant: str
    name: str
    pepper_version: int
    secret_hmac: bytes
    scram_json: str
    expires_at_ms: int
    def __init__(self, key_id: _Optional[str] = ..., tenant: _Optional[str] = ..., name: _Optional[str] = ..., pepper_version: _Optional[int] = ..., secret_hmac: _Optional[bytes] = ..., scram_json: _Optional[str] = ..., expires_at_ms: _Optional[int] = ...) -> None: ...

class PutKeyResponse(_message.Message):
    __slots__ = ("outcome", "principal")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    outcome: Outcome
    principal: int
    def __init__(self, outcome: _Optional[_Union[Outcome, _Mapping]] = ..., principal: _Optional[int] = ...) -> None: ...

class RevokeKeyRequest(_message.Message):
    __slots__ = ("key_id",)
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    key_id: str
    def __init__(self, key_id: _Optional[str] = ...) -> None: ...

class DescribeClusterRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: bool
    def __init__(self, partitions: _Optional[bool] = ...) -> None: ...

class DescribeClusterResponse(_message.Message):
    __slots__ = ("cluster_id", "controller", "brokers", "partitions", "revision")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller: int
    brokers: _containers.RepeatedCompositeFieldContainer[DescribedBroker]
    partitions: _containers.RepeatedCompositeFieldContainer[DescribedPartition]
    revision: int
    def __init__(self, cluster_id: _Optional[str] = ..., controller: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[DescribedBroker, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[DescribedPartition, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class DescribedBroker(_message.Message):
    __slots__ = ("id", "state", "broker_epoch", "client_address", "internal_address", "zone", "leaders", "replicas")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BROKER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    LEADERS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    id: int
    state: str
    broker_epoch: int
    client_address: str
    internal_address: str
    zone: str
    leaders: int
    replicas: int
    def __init__(self, id: _Optional[int] = ..., state: _Optional[str] = ..., broker_epoch: _Optional[int] = ..., client_address: _Optional[str] = ..., internal_address: _Optional[str] = ..., zone: _Optional[str] = ..., leaders: _Optional[int] = ..., replicas: _Optional[int] = ...) -> None: ...

class DescribedPartition(_message.Message):
    __slots__ = ("tenant", "topic", "topic_id", "partition", "leader", "leader_epoch", "replicas", "in_sync", "eligible")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    LEADER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    ELIGIBLE_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    topic: str
    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int
    replicas: _containers.RepeatedScalarFieldContainer[int]
    in_sync: _containers.RepeatedScalarFieldContainer[int]
    eligible: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tenant: _Optional[str] = ..., topic: _Optional[str] = ..., topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ..., leader: _Optional[int] = ..., leader_epoch: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., in_sync: _Optional[_Iterable[int]] = ..., eligible: _Optional[_Iterable[int]] = ...) -> None: ...
