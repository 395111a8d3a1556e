"""Creating and deleting tenants, topics, keys and blocks of producer ids, as compare-and-set transactions.

Each function answers with what to compare and what to change, or raises the refusal (a `PenstockError`).
Any broker may do these: the caller adds no authority. A failed comparison means that the image was behind:
wait for it, ask again. No changes = the store already says so.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Change, Compare, Delete, KeyValue, Put
from penstock.contract import limits
from penstock.contract.errors import AlreadyExists, BrokerUnavailable, InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT, BrokerId, TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_KEY_ID = re.compile(r"[A-Za-z0-9]{12}")
INTERNAL_PREFIX = "__"
KEY_NAME_LENGTH_MAX = 100
PRINCIPAL_MAX = 2**32 - 1
"""Principal numbers are uint32 in every stamp."""
PRODUCER_ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """Apply it, then the topic is `record`."""

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]
    record: model.TopicRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """Apply it (no changes: it was applied before), then the key is `record`."""

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]
    record: model.KeyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Apply it; no changes: it was applied before."""

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """Once applied, ids first <= id < end belong to the caller alone (RL64)."""

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]
    first: int
    end: int


# -- tenants --------------------------------------------------------------------------------------------


def put_tenant(image: ClusterImage, tenant: str) -> Transaction:
    """Make a tenant known. Raises `InvalidRequest`."""
    if not _TENANT.fullmatch(tenant) and tenant != SYSTEM_TENANT:
        raise InvalidRequest(
            f"tenant {tenant!r}: 1 to 63 of A-Z a-z 0-9 _ -, beginning with a letter or digit"
        )
    if TenantId(tenant) in image.tenants:
        return Transaction(compares=(), changes=())
    key = model.tenant_key(tenant)
    record = model.TenantRecord(tenant=TenantId(tenant))
    return Transaction(compares=(Compare(key, 0),), changes=(Put(key, record.encode()),))


# -- topics ---------------------------------------------------------------------------------------------


def checked_topic_name(tenant: TenantId, name: str) -> str:
    """`name`, if a tenant may call a topic so. Raises `InvalidRequest`.

    Names that begin with `__` are the service's own; no tenant can make or take one.
    """
    if not 1 <= len(name) <= limits.TOPIC_NAME_LENGTH_MAX or not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidRequest(
            f"topic name {name[:64]!r}: 1 to {limits.TOPIC_NAME_LENGTH_MAX} of A-Z a-z 0-9 . _ -, "
            "and neither '.' nor '..'"
        )
    if name.startswith(INTERNAL_PREFIX) and tenant != SYSTEM_TENANT:
        raise InvalidRequest(
            f"topic name {name!r}: names that begin with {INTERNAL_PREFIX} are the service's own"
        )
    return name


def create_topic(
    image: ClusterImage,
    topic_id: TopicId,
    tenant: TenantId,
    name: str,
    settings: TopicSettings,
    assignments: Sequence[Sequence[int]],
) -> NewTopic:
    """A new topic with these replicas; `topic_id` is 16 fresh random bytes (RL1).

    Each partition is led by its first active replica, its active replicas are in sync. The registrations of
    all of them are compared (RL35), so nobody who was fenced meanwhile is in sync.
    Raises `InvalidRequest`, `NotFound` (tenant), `AlreadyExists`, `LimitExceeded`, `BrokerUnavailable`.
    """
    if len(topic_id) != 16:
        raise InvalidRequest(f"topic id of {len(topic_id)} bytes, 16 required")
    if tenant not in image.tenants and tenant != SYSTEM_TENANT:
        raise NotFound(f"tenant {tenant!r} does not exist")
    checked_topic_name(tenant, name)
    if (tenant, name) in image.names:
        raise AlreadyExists(f"topic {name!r} exists")
    if topic_id in image.topics or topic_id in image.tombstones:
        raise AlreadyExists(f"topic id {topic_id.hex()} was used before")
    if not 1 <= len(assignments) <= limits.PARTITIONS_PER_TOPIC_MAX:
        raise LimitExceeded(
            f"{name}: {len(assignments)} partitions, 1 to {limits.PARTITIONS_PER_TOPIC_MAX} allowed"
        )
    cells: dict[str, dict[int, model.PartitionRecord]] = {}
    members: dict[int, int] = {}
    for number, brokers in enumerate(assignments):
        record = _first_record(image, f"{name}-{number}", number, brokers, settings)
        cells.setdefault(model.cell_key(topic_id, number), {})[number] = record
        members.update({broker: image.epoch_of(broker) for broker in record.in_sync})
    topic = model.TopicRecord(
        topic_id=topic_id, tenant=tenant, name=name, partitions=len(assignments), settings=settings
    )
    name_key, topic_key = model.name_key(tenant, name), model.topic_key(topic_id)
    return NewTopic(
        compares=(
            Compare(name_key, 0),
            Compare(topic_key, 0),
            *(Compare(model.live_key(broker), members[broker]) for broker in sorted(members)),
        ),
        changes=(
            Put(name_key, topic_id.hex().encode()),
            Put(topic_key, topic.encode()),
            *(Put(key, model.encode_cell(cells[key])) for key in sorted(cells)),
        ),
        record=topic,
    )


def _first_record(
    image: ClusterImage, what: str, number: int, brokers: Sequence[int], settings: TopicSettings
) -> model.PartitionRecord:
    if len(brokers) != settings.replication:
        raise InvalidRequest(
            f"{what}: {len(brokers)} brokers assigned, replication is {settings.replication}"
        )
    replicas = tuple(BrokerId(broker) for broker in brokers)
    for index, broker in enumerate(replicas):
        if broker in replicas[:index]:
            raise InvalidRequest(f"{what}: broker {broker} is assigned twice")
        if broker not in image.brokers:
            raise InvalidRequest(f"{what}: broker {broker} is not known")
    in_sync = tuple(broker for broker in replicas if image.brokers[broker].active)
    if not in_sync:
        raise BrokerUnavailable(
            f"{what}: none of brokers {', '.join(map(str, replicas))} is active, 1 required"
        )
    return model.PartitionRecord(
        partition=number,
        replicas=replicas,
        replica_generations=(1,) * len(replicas),
        leader=in_sync[0],
        leader_epoch=1,
        in_sync=in_sync,
    )


def delete_topic(image: ClusterImage, tenant: TenantId, name: str) -> Transaction:
    """Delete a topic and leave its tombstone, which alone lets brokers remove replicas (RL53).

    Raises `NotFound`; another tenant's topic is not found.
    """
    topic_id = image.names.get((tenant, name))
    if topic_id is None or topic_id not in image.topics:
        raise NotFound(f"topic {name!r} does not exist")
    cells = image.cells.get(topic_id, {})
    keys = [(cells[number].key, cells[number].revision) for number in sorted(cells)]
    topic_key = model.topic_key(topic_id)
    return Transaction(
        compares=(
            Compare(topic_key, image.topic_revisions[topic_id]),
            *(Compare(key, revision) for key, revision in keys),
        ),
        changes=(
            Put(model.tombstone_key(topic_id), name.encode()),
            Delete(model.name_key(tenant, name)),
            Delete(topic_key),
            *(Delete(key) for key, _ in keys),
        ),
    )


# -- keys -----------------------------------------------------------------------------------------------


def put_key(
    image: ClusterImage,
    counter: KeyValue | None,
    *,
    key_id: str,
    tenant: TenantId,
    name: str,
    pepper_version: int,
    secret_hmac: str,
    scram: dict[str, Any],
    expires_at_ms: int = 0,
) -> NewKey:
    """A credential made elsewhere. It gets the next principal number.

    `counter` is /next/principal as just read.

    The same credential again is a retry and changes nothing. `secret_hmac` is hex. Raises `InvalidRequest`,
    `NotFound` (tenant), `AlreadyExists` (another credential under this id), `LimitExceeded` (principal
    numbers used up).
    """
    if not _KEY_ID.fullmatch(key_id):
        raise InvalidRequest(f"key id {key_id[:32]!r}: 12 letters and digits required")
    if len(name) > KEY_NAME_LENGTH_MAX:
        raise InvalidRequest(f"key name of {len(name)} characters, at most {KEY_NAME_LENGTH_MAX} allowed")
    if not re.fullmatch(r"[0-9a-f]{64}", secret_hmac):
        raise InvalidRequest("secret_hmac: 64 hex digits of an HMAC-SHA-256 required")
    if pepper_version < 1 or expires_at_ms < 0:
        raise InvalidRequest("pepper_version is at least 1 and expires_at_ms at least 0")
    if tenant not in image.tenants:
        raise NotFound(f"tenant {tenant!r} does not exist")
    number = 1 if counter is None else int(counter.value)
    record = model.KeyRecord(
        key_id=key_id, tenant=tenant, name=name, principal=number, pepper_version=pepper_version,
        secret_hmac=secret_hmac, scram=scram, expires_at_ms=expires_at_ms,
    )  # fmt: skip
    existing = image.keys.get(key_id)
    if existing is not None:
        if replace(existing, principal=number, revoked=False) != record:
            raise AlreadyExists(f"key {key_id}: another credential has this id")
        return NewKey(compares=(), changes=(), record=existing)
    if number > PRINCIPAL_MAX:
        raise LimitExceeded(f"principal numbers: all {PRINCIPAL_MAX} are used")
    key = model.credential_key(key_id)
    return NewKey(
        compares=(Compare(key, 0), _unchanged(model.NEXT_PRINCIPAL_KEY, counter)),
        changes=(Put(key, record.encode()), Put(model.NEXT_PRINCIPAL_KEY, str(number + 1).encode())),
        record=record,
    )


def revoke_key(image: ClusterImage, key_id: str) -> Transaction:
    """Refuse a key from now on, on streams that are open too. Raises `NotFound`."""
    record = image.keys.get(key_id)
    if record is None:
        raise NotFound(f"key {key_id[:32]!r} does not exist")
    if record.revoked:
        return Transaction(compares=(), changes=())
    key = model.credential_key(key_id)
    return Transaction(
        compares=(Compare(key, image.key_revisions[key_id]),),
        changes=(Put(key, replace(record, revoked=True).encode()),),
    )


# -- counters -------------------------------------------------------------------------------------------


def take_producer_ids(counter: KeyValue | None, count: int = limits.PRODUCER_ID_BLOCK) -> ProducerIdBlock:
    """The next block of producer ids; `counter` is /next/producer_id as just read. Raises `LimitExceeded`.

    After an unknown outcome take another block: a lost one leaves a gap, a shared one would be a fault.
    """
    first = 1 if counter is None else int(counter.value)
    if first + count > PRODUCER_ID_MAX:
        raise LimitExceeded("producer ids: all are used")
    key = model.NEXT_PRODUCER_ID_KEY
    return ProducerIdBlock(
        compares=(_unchanged(key, counter),),
        changes=(Put(key, str(first + count).encode()),),
        first=first,
        end=first + count,
    )


def _unchanged(key: str, read: KeyValue | None) -> Compare:
    return Compare(key, 0 if read is None else read.mod_revision)
