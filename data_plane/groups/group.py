"""One consumer group: what is known of it, and a draft of its next state, which becomes records.

States of a member, as its partitions and epochs say (RL84):

    STABLE      owns its target, in the group's epoch
    UNREVOKED   has partitions to give up and keeps its old epoch until it no longer reports them
    UNRELEASED  is in the group's epoch, and waits for partitions that others have still to give up

A group is *empty* without members, *stable* when all of them are, else *reconciling*.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from data_plane.groups.assignors import DEFAULT_ASSIGNOR, assignor
from data_plane.groups.records import (
    CommittedOffset,
    GroupRecord,
    KnownTopic,
    Member,
    Record,
    group_record,
    member_record,
)
from data_plane.groups.requests import GroupView, Topics
from penstock.contract.ids import TopicId, TopicPartition

EMPTY_GROUP = GroupRecord(epoch=0, assignor=DEFAULT_ASSIGNOR)


@dataclass(slots=True)
class Group:
    """What the records say. Changed by `Coordinator.apply` alone."""

    tenant: str
    name: str
    record: GroupRecord = EMPTY_GROUP
    members: dict[str, Member] = field(default_factory=dict)
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)

    def view(self) -> GroupView:
        return GroupView(
            group=self.name,
            state=state_of(self),
            assignor=self.record.assignor,
            epoch=self.record.epoch,
            members=tuple(self.members[member] for member in sorted(self.members)),
            offsets=dict(self.offsets),
            topics=tuple(self.record.topics[topic] for topic in sorted(self.record.topics)),
        )


def settled(member: Member, group_epoch: int) -> bool:
    """The member is STABLE."""
    return member.epoch == group_epoch and not member.revoking and len(member.assigned) == len(member.target)


def state_of(group: Group) -> str:
    """empty, reconciling or stable."""
    if not group.members:
        return "empty"
    stable = all(settled(member, group.record.epoch) for member in group.members.values())
    return "stable" if stable else "reconciling"


def reconcile(
    member: Member, group_epoch: int, owned: Sequence[TopicPartition], owners: Mapping[TopicPartition, str]
) -> Member:
    """The member's next state, now that it reports to own `owned`; `owners`: the member of each partition (RL84).

    The member first has to give up, then advances to the group's epoch, then gets what is free.
    """
    reported = frozenset(owned)
    revoking = {where: epoch for where, epoch in member.revoking.items() if where in reported}
    if revoking:
        return replace(member, revoking=revoking)
    target = frozenset(member.target)
    kept = {where: epoch for where, epoch in member.assigned.items() if where in target}
    if len(kept) < len(member.assigned):
        lost = {where: epoch for where, epoch in member.assigned.items() if where not in target}
        return replace(member, assigned=kept, revoking=lost)
    for where in member.target:
        if where not in kept and owners.get(where, member.member_id) == member.member_id:
            kept[where] = group_epoch
    return replace(
        member,
        assigned=kept,
        revoking={},
        epoch=group_epoch,
        previous_epoch=member.previous_epoch if member.epoch == group_epoch else member.epoch,
    )


class Draft:
    """The next state of a group. Nothing is changed in the group itself; `records` say what has to be."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.record = group.record
        self.members = dict(group.members)
        self.is_stale = False
        """The target must be decided again."""

    def put(self, member: Member) -> None:
        """A new member, or one whose subscription or partitions changed."""
        known = self.members.get(member.member_id)
        if known is None or known.topics != member.topics:
            self.is_stale = True
        self.members[member.member_id] = member

    def remove(self, member_id: str) -> None:
        """It left or was fenced; what it owners is free."""
        if self.members.pop(member_id, None) is not None:
            self.is_stale = True

    def succeed(self, old: Member, new: Member) -> None:
        """A static member came back under another id: it takes over from the old one (RL90)."""
        del self.members[old.member_id]
        self.is_stale = self.is_stale or old.topics != new.topics
        self.members[new.member_id] = new

    def assign_by(self, name: str) -> None:
        """The group assigns by this assignor from now on."""
        self.record = replace(self.record, assignor=name)
        self.is_stale = True

    def look_at_topics(self, topics: Topics) -> None:
        """Take in what is known of the subscribed topics. What was known before is forgotten only when the topic is
        known to be deleted or in the recycle bin: a broker that is behind moves nothing.
        """
        before = {topic.name: topic for topic in self.record.topics.values()}
        known: dict[TopicId, KnownTopic] = {}
        for name in sorted(set().union(*(member.topics for member in self.members.values()))):
            seen, former = topics.find(self.group.tenant, name), before.get(name)
            if former is not None and (seen is None or seen.topic_id == former.topic_id):
                if topics.deleted(former.topic_id) or topics.binned(former.topic_id):
                    seen = None
                elif seen is None or seen.partitions < former.partitions:
                    seen = former
            if seen is not None:
                known[seen.topic_id] = seen
        if known != self.record.topics:
            self.record = replace(self.record, topics=known)
            self.is_stale = True

    def compute_target(self) -> None:
        """If anything moved: the next group epoch and its target (RL83)."""
        if not self.is_stale:
            return
        self.is_stale = False
        self.record = replace(self.record, epoch=self.record.epoch + 1)
        ids = {topic.name: topic.topic_id for topic in self.record.topics.values()}
        ordered = sorted(self.members.values(), key=lambda m: (m.instance_id or m.member_id, m.member_id))
        target = assignor(self.record.assignor)(
            {m.member_id: tuple(sorted(filter(None, map(ids.get, m.topics)))) for m in ordered},
            {topic.topic_id: topic.partitions for topic in self.record.topics.values()},
            {m.member_id: m.target for m in ordered},
        )
        for member in ordered:
            if target[member.member_id] != member.target:
                self.members[member.member_id] = replace(member, target=target[member.member_id])

    def owners(self) -> dict[TopicPartition, str]:
        """The member of each partition: it has the partition, or has not given it up yet."""
        return {
            where: member.member_id
            for member in self.members.values()
            for partitions in (member.assigned, member.revoking)
            for where in partitions
        }

    def reconcile(self, member_id: str, owned: Sequence[TopicPartition]) -> Member:
        """Take in what the member owns; its next state."""
        member = self.members[member_id]
        if not settled(member, self.record.epoch):
            member = reconcile(member, self.record.epoch, owned, self.owners())
            self.members[member_id] = member
        return member

    def records(self) -> tuple[Record, ...]:
        """What has to be appended for the draft to become true."""
        group = self.group
        found: list[Record] = []
        if self.record != group.record:
            found.append(group_record(group.tenant, group.name, self.record))
        for member_id in sorted({*group.members, *self.members}):
            member = self.members.get(member_id)
            if member is None or member != group.members.get(member_id):
                found.append(member_record(group.tenant, group.name, member_id, member))
        return tuple(found)
