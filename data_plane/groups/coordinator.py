"""The coordinator's state machine of one partition of `__groups` (RL83-RL95).

A handler takes (request, now in monotonic ms) and returns a `Decision`: the answer and the records to append. It
changes nothing but the time a member was last heard of. After appending the records the caller calls `apply` with
each, in log order, and gives the answer when they are committed (RL88). A new coordinator applies the whole log the
same way, then calls `loaded`.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from data_plane.groups import bounds
from data_plane.groups.assignors import DEFAULT_ASSIGNOR, assignor
from data_plane.groups.expiry import GROUP_RETENTION_MS, is_unused
from data_plane.groups.group import Draft, Group, settled
from data_plane.groups.records import (
    CommittedOffset,
    GroupKey,
    Key,
    Member,
    MemberKey,
    OffsetKey,
    Record,
    group_of,
    group_record,
    member_of,
    member_record,
    offset_of,
    offset_record,
    read_key,
)
from data_plane.groups.requests import (
    JOIN,
    LEAVE,
    NOT_A_MEMBER,
    Commit,
    CommitAnswer,
    Decision,
    GroupView,
    Heartbeat,
    HeartbeatAnswer,
    Topics,
)
from penstock.contract import errors, limits
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicPartition

HEARTBEAT_MS_MAX = 1_000
HEARTBEAT_MS_RECONCILING = 200
"""While a member has to give up or waits for partitions."""
TOPICS_EVERY_MS = 1_000
"""Between two looks for new partitions and deleted topics."""
OWN_PAUSE_MS = 1_000
"""A longer time without a tick was a pause of our own: it accuses no member (RL137)."""
_OFFSET_BYTES = 200
REPLACED_MAX = 16
"""Former holders of an instance id that are remembered."""

GroupName = tuple[str, str]
"""(tenant, group)."""
_MemberName = tuple[str, str, str]


class Coordinator:
    """All groups of one partition. Every method that refuses raises a `PenstockError` and changes nothing."""

    def __init__(self, retention_ms: float = GROUP_RETENTION_MS) -> None:
        """`retention_ms`: a group that was not used for so long is forgotten (RL94)."""
        self._retention_ms = retention_ms
        self._groups: dict[GroupName, Group] = {}
        self._counts: defaultdict[str, int] = defaultdict(int)
        """Groups by tenant; only of tenants that have some."""
        self._used: dict[GroupName, float] = {}
        """When each group was last written of, in monotonic ms."""
        self._kept_bytes: defaultdict[str, int] = defaultdict(int)
        """By tenant, what its committed offsets are counted as."""
        self._members: defaultdict[str, int] = defaultdict(int)
        """By tenant, of all its groups."""
        self._began_ms = 0.0
        self._heard: dict[_MemberName, float] = {}
        """When each member was last heard of, in monotonic ms."""
        self._revoking_since: dict[_MemberName, float] = {}
        self._ticked: float | None = None
        self._looked = float("-inf")
        self.commits = 0
        self.commits_back = 0
        """Commits below the offset stored before: legal, and worth a look (RL95)."""

    # -- state -------------------------------------------------------------------------------------------

    def apply(self, record: Record, now_ms: float) -> None:
        """One record of the log, old or just appended; `now_ms` is when it was. Raises `RecordUnreadable`."""
        key = read_key(record.key)
        if key is None:
            return
        name = (key.tenant, key.group)
        group = self._groups.get(name)
        if group is None:
            if record.value is None:
                return
            group = self._groups[name] = Group(key.tenant, key.group)
            self._counts[key.tenant] += 1
        self._used[name] = max(now_ms, self._used.get(name, now_ms))
        match key:
            case GroupKey():
                if record.value is None:
                    self._kept_bytes[key.tenant] -= sum(map(_kept_bytes, group.offsets.values()))
                    self._members[key.tenant] -= len(group.members)
                    del self._groups[name]
                    self._counts[key.tenant] -= 1
                    if not self._counts[key.tenant]:
                        del self._counts[key.tenant]
                    del self._used[name]
                else:
                    group.record = group_of(record)
            case MemberKey(member_id=member_id):
                self._apply_member(group, member_id, record, now_ms)
            case OffsetKey(where=where):
                self._apply_offset(group, where, record)

    def _apply_member(self, group: Group, member_id: str, record: Record, now_ms: float) -> None:
        name = (group.tenant, group.name, member_id)
        self._members[group.tenant] += (record.value is not None) - (member_id in group.members)
        if record.value is None:
            group.members.pop(member_id, None)
            self._heard.pop(name, None)
            self._revoking_since.pop(name, None)
            return
        member = group.members[member_id] = member_of(record, member_id)
        self._heard.setdefault(name, now_ms)
        if member.revoking:
            self._revoking_since.setdefault(name, now_ms)
        else:
            self._revoking_since.pop(name, None)

    def _apply_offset(self, group: Group, where: TopicPartition, record: Record) -> None:
        if record.value is None:
            self._kept_bytes[group.tenant] -= _kept_bytes(group.offsets.pop(where, None))
            return
        offset, before = offset_of(record), group.offsets.get(where)
        self._kept_bytes[group.tenant] += _kept_bytes(offset) - _kept_bytes(before)
        self.commits += 1
        if before is not None and offset.offset < before.offset:
            self.commits_back += 1
        group.offsets[where] = offset

    def loaded(self, now_ms: float) -> None:
        """The log is applied: every timer starts in full (RL89)."""
        self._heard = dict.fromkeys(self._heard, now_ms)
        self._revoking_since = dict.fromkeys(self._revoking_since, now_ms)
        self._ticked = self._began_ms = now_ms
        self.commits = self.commits_back = 0

    @property
    def tenants(self) -> list[str]:
        """Those that have groups."""
        return list(self._counts)

    def groups_count(self, tenant: str) -> int:
        """How many groups the tenant has here."""
        return self._counts.get(tenant, 0)

    def has_group(self, tenant: str, name: str) -> bool:
        return (tenant, name) in self._groups

    @property
    def size(self) -> int:
        """Records that would tell all that is kept now."""
        return sum(1 + len(group.members) + len(group.offsets) for group in self._groups.values())

    def keys(self) -> Iterator[Key]:
        """Of everything that is kept while this is read; what comes meanwhile may be left out."""
        for tenant, name in list(self._groups):
            group = self._groups.get((tenant, name))
            if group is not None:
                yield GroupKey(tenant, name)
                yield from [MemberKey(tenant, name, member) for member in group.members]
                yield from [OffsetKey(tenant, name, where) for where in group.offsets]

    def kept(self, key: Key) -> tuple[Record, float] | None:
        """The record that tells what is kept of this key, and when its group was last written of; None = nothing is."""
        name = (key.tenant, key.group)
        group = self._groups.get(name)
        if group is None:
            return None
        record: Record | None = None
        match key:
            case GroupKey():
                record = group_record(*name, group.record)
            case MemberKey(member_id=member_id):
                if member_id in group.members:
                    record = member_record(*name, member_id, group.members[member_id])
            case OffsetKey(where=where):
                if where in group.offsets:
                    record = offset_record(*name, where, group.offsets[where])
        return None if record is None else (record, self._used[name])

    # -- members -----------------------------------------------------------------------------------------

    def heartbeat(self, request: Heartbeat, topics: Topics, now_ms: float) -> Decision[HeartbeatAnswer]:
        """A member joins, shows that it lives and what it owns, or leaves.

        Raises `UnknownMember`, `FencedMemberEpoch`, `FencedInstanceId`, `LimitExceeded`, `InvalidRequest`.
        """
        name = (request.tenant, request.group)
        group = self._groups.get(name)
        if request.epoch == LEAVE:
            return self._leave(group, request, topics)
        joins = request.epoch == JOIN
        if group is None:
            if not joins:
                raise _unknown(request)
            bounds.check_groups(self.groups_count(request.tenant))
            group = Group(request.tenant, request.group)
        draft = Draft(group)
        if joins:
            member = _joined(draft, request)
            bounds.check_members_of_tenant(draft, self._members[request.tenant])
        else:
            member = _known(group, request)
            if request.topics and request.topics != member.topics:
                member = replace(member, topics=request.topics)
                draft.put(member)
        bounds.check_subscriptions(draft)
        draft.look_at_topics(topics)
        draft.compute_target()
        member = draft.reconcile(request.member_id, request.owned)
        if request.member_id in group.members:
            self._heard[(*name, request.member_id)] = now_ms
        shown = {where.topic_id: None for where in member.assigned}
        steady = settled(member, draft.record.epoch)
        answer = HeartbeatAnswer(
            epoch=member.epoch,
            heartbeat_ms=_beat_ms(member) if steady else min(HEARTBEAT_MS_RECONCILING, _beat_ms(member)),
            assigned=tuple(sorted(member.assigned)),
            topics=tuple(draft.record.topics[topic] for topic in sorted(shown)),
        )
        return Decision(answer, draft.records())

    def _leave(self, group: Group | None, request: Heartbeat, topics: Topics) -> Decision[HeartbeatAnswer]:
        if group is None or request.member_id not in group.members:
            raise _unknown(request)
        draft = Draft(group)
        draft.remove(request.member_id)
        draft.look_at_topics(topics)
        draft.compute_target()
        return Decision(HeartbeatAnswer(epoch=LEAVE, heartbeat_ms=0), draft.records())

    def tick(self, topics: Topics, now_ms: float) -> Iterator[tuple[Record, ...]]:
        """What time has done: members whose session or rebalance time is over are fenced, offsets of deleted topics
        dropped, new partitions given out, unused groups forgotten. One bundle of records for each group, most
        of them empty, to be appended before the next one is asked for: others may have their turn before that. What
        cannot be appended now comes again with the next tick.
        """
        pause = 0.0 if self._ticked is None else now_ms - self._ticked
        self._ticked = now_ms
        if pause > OWN_PAUSE_MS:
            self._heard = {name: at + pause for name, at in self._heard.items()}
            self._revoking_since = {name: at + pause for name, at in self._revoking_since.items()}
        looks = now_ms - self._looked >= TOPICS_EVERY_MS
        if looks:
            self._looked = now_ms
        for name in sorted(self._groups):
            group = self._groups.get(name)
            if group is not None:
                yield self._ticked_group(group, topics, now_ms, looks=looks)

    def _ticked_group(
        self, group: Group, topics: Topics, now_ms: float, *, looks: bool
    ) -> tuple[Record, ...]:
        if looks and self._unused(group, now_ms):
            if not any(topics.binned(where.topic_id) for where in group.offsets):
                return (_forgotten(group),)
            # Its offsets are kept for as long as the topic may come back, and then for as long as any.
            self._used[group.tenant, group.name] = now_ms
        overdue = [m for m in sorted(group.members) if self._overdue(group, group.members[m], now_ms)]
        gone = [p for p in sorted(group.offsets) if topics.deleted(p.topic_id)] if looks else []
        if not overdue and not gone and not (looks and group.members):
            return ()
        draft = Draft(group)
        for member_id in overdue:
            draft.remove(member_id)
        draft.look_at_topics(topics)
        draft.compute_target()
        dropped = (offset_record(group.tenant, group.name, where, None) for where in gone)
        return (*draft.records(), *dropped)

    def _overdue(self, group: Group, member: Member, now_ms: float) -> bool:
        name = (group.tenant, group.name, member.member_id)
        if now_ms - self._heard.get(name, now_ms) > member.session_timeout_ms:
            return True
        return now_ms - self._revoking_since.get(name, now_ms) > member.rebalance_timeout_ms

    def _unused(self, group: Group, now_ms: float) -> bool:
        return is_unused(
            members=len(group.members),
            unused_ms=now_ms - self._used[group.tenant, group.name],
            known_ms=now_ms - self._began_ms,
            retention_ms=self._retention_ms,
        )

    # -- offsets -----------------------------------------------------------------------------------------

    def commit(self, request: Commit) -> Decision[CommitAnswer]:
        """Keep offsets, each if the partition was the member's in the epoch it names (RL87).

        Raises `UnknownMember`, `FencedMemberEpoch`, `GroupNotEmpty`, `LimitExceeded`.
        """
        group = self._groups.get((request.tenant, request.group))
        if not request.member_id and request.epoch == NOT_A_MEMBER:
            if group is None:
                bounds.check_groups(self.groups_count(request.tenant))
            elif group.members:
                raise errors.GroupNotEmpty(f"group {request.group}: has members, who alone commit")
            return Decision(CommitAnswer(), self._offset_records(group, request))
        member = None if group is None else group.members.get(request.member_id)
        if member is None:
            raise errors.UnknownMember(f"group {request.group}: no member {request.member_id}")
        if request.epoch > member.epoch:
            raise errors.FencedMemberEpoch(
                f"group {request.group}: epoch {request.epoch}, now {member.epoch}"
            )
        refused: dict[TopicPartition, PenstockError] = {}
        for where in request.offsets:
            assigned_at = member.assigned.get(where, member.revoking.get(where))
            if assigned_at is None or request.epoch < assigned_at:
                refused[where] = errors.FencedMemberEpoch(
                    f"group {request.group}: {where} is not member {member.member_id}'s in epoch {request.epoch}"
                )
        kept = {where: offset for where, offset in request.offsets.items() if where not in refused}
        return Decision(
            CommitAnswer(refused=refused), self._offset_records(group, replace(request, offsets=kept))
        )

    def _offset_records(self, group: Group | None, request: Commit) -> tuple[Record, ...]:
        """Raises `LimitExceeded`."""
        known = {} if group is None else group.offsets
        more = sum(
            _kept_bytes(offset) - _kept_bytes(known.get(where)) for where, offset in request.offsets.items()
        )
        bounds.check_committed(request.group, self._kept_bytes[request.tenant], more)
        made: list[Record] = []
        if group is None:
            new = Group(request.tenant, request.group)
            made.append(group_record(new.tenant, new.name, new.record))
        made += [
            offset_record(request.tenant, request.group, where, request.offsets[where])
            for where in sorted(request.offsets)
        ]
        return tuple(made)

    def offsets(self, tenant: str, group: str) -> dict[TopicPartition, CommittedOffset]:
        """All that the group has committed; nothing when there is no such group."""
        known = self._groups.get((tenant, group))
        return {} if known is None else dict(known.offsets)

    def require_member(self, tenant: str, group: str, member_id: str) -> None:
        """Raises `UnknownMember` for a member that the group does not have."""
        known = self._groups.get((tenant, group))
        if known is None or member_id not in known.members:
            raise errors.UnknownMember(f"group {group}: no member {member_id}")

    # -- for people --------------------------------------------------------------------------------------

    def groups(self, tenant: str) -> list[GroupView]:
        """The tenant's groups by name."""
        return [self._groups[name].view() for name in sorted(self._groups) if name[0] == tenant]

    def group(self, tenant: str, name: str) -> GroupView:
        """Raises `GroupNotFound`."""
        return self._found(tenant, name).view()

    def reset(self, request: Commit) -> Decision[None]:
        """Move committed offsets of a group without members. Raises `GroupNotFound`, `GroupNotEmpty`."""
        group = self._empty(request.tenant, request.group)
        return Decision(None, self._offset_records(group, request))

    def delete(self, tenant: str, name: str) -> Decision[None]:
        """Forget a group without members and all it committed. Raises `GroupNotFound`, `GroupNotEmpty`."""
        return Decision(None, (_forgotten(self._empty(tenant, name)),))

    def _found(self, tenant: str, name: str) -> Group:
        group = self._groups.get((tenant, name))
        if group is None:
            raise errors.GroupNotFound(f"group {name[: limits.GROUP_NAME_LENGTH_MAX]}: does not exist")
        return group

    def _empty(self, tenant: str, name: str) -> Group:
        group = self._found(tenant, name)
        if group.members:
            raise errors.GroupNotEmpty(f"group {name}: {len(group.members)} members, none allowed")
        return group


# -- decisions ------------------------------------------------------------------------------------------


def _kept_bytes(offset: CommittedOffset | None) -> int:
    """What one committed offset counts as, in memory and in the log."""
    return 0 if offset is None else _OFFSET_BYTES + len(offset.metadata.encode())


def _forgotten(group: Group) -> Record:
    """What a group without members is taken away by, with all that it committed."""
    return group_record(group.tenant, group.name, None)


def _unknown(request: Heartbeat) -> errors.UnknownMember:
    return errors.UnknownMember(f"group {request.group}: no member {request.member_id}")


def _beat_ms(member: Member) -> int:
    """Several beats fit into a session."""
    return min(HEARTBEAT_MS_MAX, member.session_timeout_ms // 5)


def _known(group: Group, request: Heartbeat) -> Member:
    """The member that a heartbeat is of, or a refusal. The epoch before the last one is accepted when the answer
    that named the new one was lost, which shows in what the member owns (RL86).
    """
    member = group.members.get(request.member_id)
    if member is None:
        holders = [
            m for m in group.members.values() if m.instance_id and m.instance_id == request.instance_id
        ]
        if holders and request.member_id in holders[0].replaced:
            raise _replaced(request)
        raise _unknown(request)
    if request.epoch == member.epoch:
        return member
    holds = {*member.assigned, *member.revoking}
    if request.epoch == member.previous_epoch and holds.issuperset(request.owned):
        return member
    raise errors.FencedMemberEpoch(
        f"group {request.group}: member {request.member_id} is in epoch {member.epoch}, not {request.epoch}"
    )


def _replaced(request: Heartbeat) -> errors.FencedInstanceId:
    return errors.FencedInstanceId(
        f"group {request.group}: a newer member holds instance id {request.instance_id!r}"
    )


def _joined(draft: Draft, request: Heartbeat) -> Member:
    """Put the member into the draft: a new one, one that dropped everything and joins again (RL85), or a static one
    that came back (RL90).
    """
    joining = Member(
        member_id=request.member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=tuple(dict.fromkeys(request.topics)),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
    )
    known = draft.members.get(request.member_id)
    holder = None
    if request.instance_id:
        for member in draft.members.values():
            if member.instance_id == request.instance_id and member is not known:
                holder = member
    if holder is not None and request.member_id in holder.replaced:
        raise _replaced(request)
    wanted = request.assignor or DEFAULT_ASSIGNOR
    assignor(wanted)
    if wanted != draft.record.assignor:
        if [member for member in draft.members.values() if member is not known and member is not holder]:
            raise errors.InvalidRequest(
                f"group {request.group}: assigns by {draft.record.assignor}, so its members cannot ask for {wanted}"
            )
        draft.assign_by(wanted)
    if known is not None:
        joining = replace(joining, target=known.target, epoch=known.epoch, replaced=known.replaced)
    if holder is not None:
        replaced = (*holder.replaced, holder.member_id)[-REPLACED_MAX:]
        joining = replace(joining, target=holder.target, epoch=holder.epoch, replaced=replaced)
        draft.succeed(holder, joining)
        return joining
    if known is None:
        bounds.check_one_more_member(draft)
    draft.put(joining)
    return joining
