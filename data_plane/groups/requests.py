"""What is asked of a coordinator, and what it answers: plain values, whatever the wire."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from data_plane.groups.records import CommittedOffset, KnownTopic, Member, Record
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicId, TopicPartition

JOIN, LEAVE = 0, -1
"""Member epochs of a request that joins (again), and of one that leaves."""
NOT_A_MEMBER = -1

T = TypeVar("T")


class Topics(Protocol):
    """The topics of all tenants as this broker knows them now."""

    def find(self, tenant: str, name: str) -> KnownTopic | None:
        """None: there is none, or the broker has not heard of it yet."""

    def deleted(self, topic_id: TopicId) -> bool:
        """The topic is known to have been deleted."""

    def binned(self, topic_id: TopicId) -> bool:
        """The topic is known to lie in the recycle bin: it may come back, and what was committed in it counts then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member's join, sign of life or leave. `topics` empty = unchanged."""

    tenant: str
    group: str
    member_id: str
    epoch: int
    instance_id: str = ""
    topics: tuple[str, ...] = ()
    assignor: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0
    owned: tuple[TopicPartition, ...] = ()
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """`assigned` is all that the member may own now; everything else it must give up."""

    epoch: int
    heartbeat_ms: int
    assigned: tuple[TopicPartition, ...] = ()
    topics: tuple[KnownTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Offsets to be kept. `member_id` empty and epoch -1: kept by hand, while the group has no members."""

    tenant: str
    group: str
    member_id: str
    epoch: int
    offsets: Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAnswer:
    """What was refused, by where; everything else is committed."""

    refused: Mapping[TopicPartition, PenstockError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group as it stands. `state` is empty, reconciling or stable."""

    group: str
    state: str
    assignor: str
    epoch: int
    members: tuple[Member, ...]
    offsets: Mapping[TopicPartition, CommittedOffset]
    topics: tuple[KnownTopic, ...]


class Decision(NamedTuple, Generic[T]):
    """The answer, true once `records` are appended and committed; then they are to be applied as well."""

    answer: T
    records: tuple[Record, ...] = ()
