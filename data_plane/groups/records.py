"""The records of `__groups`: what they are called, what they hold, and their frozen encoding.

Key and value are JSON in UTF-8 without spaces, the value's members sorted. The key is an array whose first word names
the kind; a value of None deletes. Values carry `"v": 1`; members that a reader does not know are ignored, kinds that
it does not know are skipped.

    ["group", tenant, group]                      epoch, assignor, topics {id: [name, partitions]}
    ["member", tenant, group, member id]          epochs, subscription, timeouts, assigned, revoking, target
    ["offset", tenant, group, topic id, partition]  offset, leader epoch, metadata

Places are written {topic id: [partition, ...]}, with the epoch of assignment {topic id: [[partition, epoch], ...]}.
Topic ids are hexadecimal.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.contract.ids import TopicId, TopicPartition

VERSION = 1


class RecordUnreadable(Exception):
    """A record of `__groups` that no coordinator can have written."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it is appended; `value` None deletes what `key` names."""

    key: bytes
    value: bytes | None
    meaning: "GroupRecord | Member | CommittedOffset | None" = field(default=None, compare=False, repr=False)
    """What `value` says; None = it has still to be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopic:
    """A subscribed topic as the coordinator last saw it."""

    topic_id: TopicId
    name: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """What holds for the group as a whole. `topics` by id."""

    epoch: int
    assignor: str
    topics: Mapping[TopicId, KnownTopic] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member. `assigned` and `revoking` give each where with the epoch at which it was assigned (RL87)."""

    member_id: str
    instance_id: str = ""
    """Not empty: a static member (RL90)."""
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    session_timeout_ms: int
    rebalance_timeout_ms: int
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Mapping[TopicPartition, int] = field(default_factory=dict)
    revoking: Mapping[TopicPartition, int] = field(default_factory=dict)
    """No longer its own, and not yet reported as given up (RL84)."""
    target: tuple[TopicPartition, ...] = ()
    """What it is to own, in order."""
    replaced: tuple[str, ...] = ()
    """Members that held this instance id before: fenced permanently (RL90)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The next offset to be read, and the leader epoch of the record before it (RL56)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupKey:
    tenant: str
    group: str


@dataclass(frozen=True, slots=True)
class MemberKey:
    tenant: str
    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class OffsetKey:
    tenant: str
    group: str
    where: TopicPartition


Key = GroupKey | MemberKey | OffsetKey


# -- writing --------------------------------------------------------------------------------------------


def group_record(tenant: str, group: str, value: GroupRecord | None) -> Record:
    """`value` None = the group is no more."""
    body = None
    if value is not None:
        topics = {topic.topic_id.hex(): [topic.name, topic.partitions] for topic in value.topics.values()}
        body = {"epoch": value.epoch, "assignor": value.assignor, "topics": topics}
    return _record(["group", tenant, group], body, value)


def member_record(tenant: str, group: str, member_id: str, value: Member | None) -> Record:
    """`value` None = the member left or was removed."""
    body = None
    if value is not None:
        body = {
            "instance": value.instance_id,
            "client": value.client_id,
            "host": value.client_host,
            "topics": list(value.topics),
            "session_ms": value.session_timeout_ms,
            "rebalance_ms": value.rebalance_timeout_ms,
            "epoch": value.epoch,
            "previous": value.previous_epoch,
            "assigned": _with_epochs(value.assigned),
            "revoking": _with_epochs(value.revoking),
            "target": _by_topic(value.target),
            "replaced": list(value.replaced),
        }
    return _record(["member", tenant, group, member_id], body, value)


def offset_record(tenant: str, group: str, where: TopicPartition, value: CommittedOffset | None) -> Record:
    """`value` None = nothing is committed any more."""
    body: dict[str, Any] | None = None
    if value is not None:
        body = {"offset": value.offset, "epoch": value.leader_epoch}
        if value.metadata:
            body["metadata"] = value.metadata
    return _record(["offset", tenant, group, where.topic_id.hex(), where.partition], body, value)


def _record(
    key: list[Any], body: dict[str, Any] | None, meaning: GroupRecord | Member | CommittedOffset | None
) -> Record:
    return Record(_json(key), None if body is None else _json({"v": VERSION, **body}), meaning)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def _by_topic(partitions: tuple[TopicPartition, ...]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for where in sorted(partitions):
        found.setdefault(where.topic_id.hex(), []).append(where.partition)
    return found


def _with_epochs(partitions: Mapping[TopicPartition, int]) -> dict[str, list[list[int]]]:
    found: dict[str, list[list[int]]] = {}
    for where in sorted(partitions):
        found.setdefault(where.topic_id.hex(), []).append([where.partition, partitions[where]])
    return found


# -- reading --------------------------------------------------------------------------------------------


def read_key(key: bytes | None) -> Key | None:
    """What a record is about; None = a kind of a later version. Raises `RecordUnreadable`."""
    try:
        parts = json.loads(key or b"")
        match parts:
            case ["group", str(tenant), str(group)]:
                return GroupKey(tenant, group)
            case ["member", str(tenant), str(group), str(member_id)]:
                return MemberKey(tenant, group, member_id)
            case ["offset", str(tenant), str(group), str(topic), int(partition)]:
                return OffsetKey(tenant, group, TopicPartition(TopicId(bytes.fromhex(topic)), partition))
            case [str(), *_] if parts[0] not in ("group", "member", "offset"):
                return None
    except ValueError:
        pass
    raise RecordUnreadable(f"key {(key or b'')[:200]!r}")


def group_of(record: Record) -> GroupRecord:
    """What the record of a group that is there says. Raises `RecordUnreadable`."""
    return record.meaning if isinstance(record.meaning, GroupRecord) else read_group(record.value or b"")


def member_of(record: Record, member_id: str) -> Member:
    """The same of a member."""
    known = record.meaning
    return known if isinstance(known, Member) else read_member(member_id, record.value or b"")


def offset_of(record: Record) -> CommittedOffset:
    """The same of an offset."""
    return record.meaning if isinstance(record.meaning, CommittedOffset) else read_offset(record.value or b"")


def read_group(value: bytes) -> GroupRecord:
    """Raises `RecordUnreadable`."""
    try:
        body = json.loads(value)
        topics = {
            TopicId(bytes.fromhex(topic)): KnownTopic(
                topic_id=TopicId(bytes.fromhex(topic)), name=str(name), partitions=int(partitions)
            )
            for topic, (name, partitions) in body["topics"].items()
        }
        return GroupRecord(epoch=int(body["epoch"]), assignor=str(body["assignor"]), topics=topics)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordUnreadable(f"group {value[:200]!r}: {error!r}") from None


def read_member(member_id: str, value: bytes) -> Member:
    """Raises `RecordUnreadable`."""
    try:
        body = json.loads(value)
        return Member(
            member_id=member_id,
            instance_id=str(body["instance"]),
            client_id=str(body["client"]),
            client_host=str(body["host"]),
            topics=tuple(map(str, body["topics"])),
            session_timeout_ms=int(body["session_ms"]),
            rebalance_timeout_ms=int(body["rebalance_ms"]),
            epoch=int(body["epoch"]),
            previous_epoch=int(body["previous"]),
            assigned=_read_with_epochs(body["assigned"]),
            revoking=_read_with_epochs(body["revoking"]),
            target=tuple(
                TopicPartition(TopicId(bytes.fromhex(topic)), int(number))
                for topic, numbers in body["target"].items()
                for number in numbers
            ),
            replaced=tuple(map(str, body["replaced"])),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordUnreadable(f"member {value[:200]!r}: {error!r}") from None


def read_offset(value: bytes) -> CommittedOffset:
    """Raises `RecordUnreadable`."""
    try:
        body = json.loads(value)
        return CommittedOffset(
            offset=int(body["offset"]),
            leader_epoch=int(body["epoch"]),
            metadata=str(body.get("metadata", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordUnreadable(f"offset {value[:200]!r}: {error!r}") from None


def _read_with_epochs(partitions: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(TopicId(bytes.fromhex(topic)), int(number)): int(epoch)
        for topic, pairs in partitions.items()
        for number, epoch in pairs
    }
