"""Consumer groups with their lag, as the brokers report it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock import Client, GroupDescription
from penstock.contract.errors import GroupNotFound, NotFound
from web.live import TIMEOUT_S, TopicNow, topics_now

GROUPS_MAX = 100
"""A page asks for the lag of at most this many groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How far a group has read one partition. `committed` None = nothing is committed yet."""

    topic: str
    partition: int
    begin: int
    end: int
    committed: int | None
    member: str

    @property
    def lag(self) -> int:
        """Messages from the committed offset to the end, without deleted ones."""
        at = self.begin if self.committed is None else max(self.committed, self.begin)
        return max(0, self.end - at)

    @property
    def done(self) -> int:
        return self.end - self.begin - self.lag


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNow:
    description: GroupDescription
    partitions: tuple[PartitionLag, ...]

    @property
    def name(self) -> str:
        return self.description.group

    @property
    def lag(self) -> int:
        return sum(part.lag for part in self.partitions)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.topic for part in self.partitions))


def groups_now(client: Client, topics: Mapping[str, TopicNow], names: Sequence[str]) -> list[GroupNow]:
    """These groups with their lag in `topics`, without groups that no longer exist."""
    found = []
    for name in names[:GROUPS_MAX]:
        try:
            found.append(with_lag(client.group(name, TIMEOUT_S), topics))
        except GroupNotFound:
            continue
    return found


def group_now(client: Client, name: str) -> GroupNow:
    """One group with its lag. Raises `GroupNotFound`."""
    description = client.group(name, TIMEOUT_S)
    named = {topic for topic, _ in description.offsets}
    for member in description.members:
        named.update(member.topics)
        named.update(topic for topic, _ in member.assigned)
    described = []
    for topic in sorted(filter(None, named)):
        try:
            described.append(client.topic(topic, TIMEOUT_S))
        except NotFound:
            continue  # deleted; its offsets have no meaning
    return with_lag(description, {topic.name: topic for topic in topics_now(client, described)})


def with_lag(description: GroupDescription, topics: Mapping[str, TopicNow]) -> GroupNow:
    """The group with every partition that it has read or owns."""
    owners = {
        topic_partition: member.client_id or member.member_id
        for member in description.members
        for topic_partition in member.assigned
    }
    parts = []
    for topic, partition in sorted({*description.offsets, *owners}):
        now = topics.get(topic)
        if now is None or partition >= len(now.partitions):
            continue
        there = now.partitions[partition]
        parts.append(
            PartitionLag(
                topic=topic,
                partition=partition,
                begin=there.begin,
                end=there.end,
                committed=description.offsets.get((topic, partition)),
                member=owners.get((topic, partition), ""),
            )
        )
    return GroupNow(description=description, partitions=tuple(parts))
