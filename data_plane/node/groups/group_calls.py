"""Calls of consumer groups on the client listener: from and to the wire, tenant and rights from the key."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from data_plane.authz.access import Operation, Principal
from data_plane.groups.coordinator import Coordinator
from data_plane.groups.records import CommittedOffset, KnownTopic, Member
from data_plane.groups.requests import (
    JOIN,
    LEAVE,
    Commit,
    CommitAnswer,
    Decision,
    GroupView,
    Heartbeat,
    HeartbeatAnswer,
)
from data_plane.metadata.model import TopicRecord
from data_plane.node.admission.gate import Gate
from data_plane.node.groups.group_coordinators import GroupCoordinators
from data_plane.node.groups.group_seats import GroupSeats
from data_plane.node.limit_refusals import LimitRefusals
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed
from data_plane.node.replicas.replica import Replica
from data_plane.node.requests import parsed
from data_plane.node.tasks import Turn
from penstock.contract import errors, limits, methods
from penstock.contract.errors import PenstockError
from penstock.contract.frames import check_few
from penstock.contract.ids import TOPIC_ID_BYTES, TopicId, TopicPartition
from penstock.contract.v1 import groups_pb2 as pb
from penstock.rules.names import check_printable_name

_BEAT_BYTES_MAX = 16 * 1024
"""The largest heartbeat that has priority over questions: 350 partitions."""
_OFFSETS_A_TURN = 200
"""Offsets that are written before others have their turn of the event loop."""


def is_beat(method: str, request: bytes) -> bool:
    """A member that has joined shows that it lives, which costs little: nothing of what it reads changes."""
    if method != methods.GROUP_HEARTBEAT or len(request) > _BEAT_BYTES_MAX:
        return False
    try:
        wanted = parsed(pb.GroupHeartbeatRequest, request)
    except CallFailed:
        return False
    return wanted.member_epoch > JOIN and not wanted.topics


class GroupCalls:
    """Refusals come in the answer's `error`; only who may not enter at all is refused by the call."""

    def __init__(
        self,
        coordinators: GroupCoordinators,
        seats: GroupSeats,
        view: MetadataView,
        gate: Gate,
        find: Callable[[TopicPartition], Replica | None],
        refusals: LimitRefusals,
        begin_turn: Callable[[], Turn],
    ) -> None:
        self._begin_turn = begin_turn
        self._seats = seats
        self._refusals = refusals
        self._coordinators = coordinators
        self._view = view
        self._gate = gate
        self._find = find

    def _enter(self, principal: Principal, operation: Operation, group: str) -> None:
        """Raises `InvalidRequest` for what is no name, `Forbidden` for what the key may not do to the group."""
        check_printable_name("group", group, limits.GROUP_NAME_LENGTH_MAX)
        try:
            self._gate.authenticator.authorize_group(principal, operation, group)
        except errors.NotFound:
            # Groups come into being when they are named, so there is nothing to hide.
            raise errors.Forbidden(
                f"group {group!r}: no scope of the key and no entry of the access list names it"
            ) from None

    def _count(self, principal: Principal, refusal: PenstockError) -> None:
        if refusal.limit:
            self._refusals.note(principal.tenant, refusal.limit)

    def _may_describe(self, principal: Principal, group: str) -> bool:
        try:
            self._enter(principal, Operation.DESCRIBE, group)
        except errors.Forbidden:
            return False
        return True

    # -- members -----------------------------------------------------------------------------------------

    async def find_coordinator(self, caller: Caller, request: bytes) -> bytes:
        """Asked of any broker."""
        principal = self._gate.admit(caller)
        wanted, response = parsed(pb.FindCoordinatorRequest, request), pb.FindCoordinatorResponse()
        try:
            self._enter(principal, Operation.DESCRIBE, wanted.group)
            response.broker_id, response.address = self._coordinators.locate(principal.tenant, wanted.group)
        except PenstockError as refusal:
            response.broker_id = -1
            response.error, response.message = refusal.code, refusal.message
        return response.SerializeToString()

    async def heartbeat(self, caller: Caller, request: bytes) -> bytes:
        principal = self._gate.admit(caller)
        wanted, response = parsed(pb.GroupHeartbeatRequest, request), pb.GroupHeartbeatResponse()
        try:
            beat = await self._heartbeat(principal, caller, wanted)
            topics = self._coordinators.topics

            def decide(core: Coordinator, now_ms: float) -> Decision[HeartbeatAnswer]:
                return core.heartbeat(beat, topics, now_ms)

            led = self._coordinators.of(beat.tenant, beat.group)
            if beat.epoch == JOIN:
                async with self._seats.seated(led, principal.tenant, beat.group):
                    answer = await led.carry_out(decide)
            else:
                answer = await led.carry_out(decide)
        except PenstockError as refusal:
            self._count(principal, refusal)
            response.error, response.message = refusal.code, refusal.message
            return response.SerializeToString()
        response.member_epoch, response.heartbeat_ms = answer.epoch, answer.heartbeat_ms
        response.has_assignment = answer.epoch != LEAVE
        async for where in self._begin_turn().through(answer.assigned):
            _put_partition(response.assigned, where)
        _put_topics(response.topics, answer.topics)
        return response.SerializeToString()

    async def _heartbeat(
        self, principal: Principal, caller: Caller, wanted: pb.GroupHeartbeatRequest
    ) -> Heartbeat:
        self._enter(principal, Operation.CONSUME, wanted.group)
        check_printable_name("member_id", wanted.member_id, limits.MEMBER_ID_LENGTH_MAX)
        for field, name in (("instance_id", wanted.instance_id), ("client_id", wanted.client_id)):
            if name:
                check_printable_name(field, name, limits.MEMBER_ID_LENGTH_MAX)
        if len(wanted.topics) > limits.GROUP_TOPICS_MAX:
            raise errors.LimitExceeded(
                f"topics: {len(wanted.topics)} of one member, at most {limits.GROUP_TOPICS_MAX} allowed;"
                " subscribe with several members or groups",
                limit="GROUP_TOPICS_MAX",
            )
        check_few(len(wanted.owned), "partitions")
        if wanted.member_epoch < LEAVE:
            raise errors.InvalidRequest(f"member_epoch: {wanted.member_epoch}, -1 or more required")
        if wanted.member_epoch == JOIN:
            if not wanted.topics:
                raise errors.InvalidRequest("topics: a member that joins names at least one")
            _check_ms("session_timeout_ms", wanted.session_timeout_ms, limits.SESSION_TIMEOUT_MS_MAX)
            _check_ms("rebalance_timeout_ms", wanted.rebalance_timeout_ms, limits.REBALANCE_TIMEOUT_MS_MAX)
        turn = self._begin_turn()
        async for name in turn.through(wanted.topics):
            self._gate.authenticator.topic(principal, Operation.CONSUME, name)
        return Heartbeat(
            tenant=principal.tenant,
            group=wanted.group,
            member_id=wanted.member_id,
            epoch=wanted.member_epoch,
            instance_id=wanted.instance_id,
            topics=tuple(dict.fromkeys(wanted.topics)),
            assignor=wanted.assignor,
            session_timeout_ms=wanted.session_timeout_ms,
            rebalance_timeout_ms=wanted.rebalance_timeout_ms,
            owned=tuple([_topic_partition(one) async for one in turn.through(wanted.owned)]),
            client_id=wanted.client_id,
            client_host=caller.peer[: limits.MEMBER_ID_LENGTH_MAX],
        )

    # -- offsets -----------------------------------------------------------------------------------------

    async def commit_offsets(self, caller: Caller, request: bytes) -> bytes:
        principal = self._gate.admit(caller)
        wanted, response = parsed(pb.CommitOffsetsRequest, request), pb.CommitOffsetsResponse()
        try:
            offsets = await self._offsets(principal, wanted.group, wanted.offsets)
            by_hand = not wanted.member_id
            refused = await self._refused_offsets(principal, wanted.offsets, by_hand=by_hand)

            def decide(part: Commit) -> Callable[[Coordinator, float], Decision[CommitAnswer]]:
                return lambda core, now_ms: core.commit(part)

            commits = _in_parts(
                Commit(
                    tenant=principal.tenant,
                    group=wanted.group,
                    member_id=wanted.member_id,
                    epoch=wanted.member_epoch,
                    offsets={where: offset for where, offset in offsets.items() if where not in refused},
                )
            )
            led = self._coordinators.of(principal.tenant, wanted.group)
            parts = [decide(part) for part in commits]
            if by_hand:
                async with self._seats.seated(led, principal.tenant, wanted.group):
                    answers = await led.carry_out_in_turns(parts)
            else:
                answers = await led.carry_out_in_turns(parts)
            for answer in answers:
                refused |= answer.refused
        except PenstockError as refusal:
            self._count(principal, refusal)
            response.error, response.message = refusal.code, refusal.message
            return response.SerializeToString()
        async for one in self._begin_turn().through(wanted.offsets):
            error = refused.get(_topic_partition(one))
            result = response.results.add()
            if error is not None:
                result.error, result.message = error.code, error.message
        return response.SerializeToString()

    async def fetch_committed(self, caller: Caller, request: bytes) -> bytes:
        principal = self._gate.admit(caller)
        wanted, response = parsed(pb.FetchCommittedRequest, request), pb.FetchCommittedResponse()
        try:
            self._enter(principal, Operation.DESCRIBE, wanted.group)
            check_few(len(wanted.partitions), "partitions")
            tenant, group, member = principal.tenant, wanted.group, wanted.member_id

            def decide(core: Coordinator, now_ms: float) -> Decision[dict[TopicPartition, CommittedOffset]]:
                if member:
                    core.require_member(tenant, group, member)
                return Decision(core.offsets(tenant, group))

            found = await self._coordinators.of(tenant, group).carry_out(decide)
        except PenstockError as refusal:
            response.error, response.message = refusal.code, refusal.message
            return response.SerializeToString()
        none = CommittedOffset(offset=-1)
        turn = self._begin_turn()
        partitions = [_topic_partition(one) async for one in turn.through(wanted.partitions)] or sorted(found)
        read = {where.topic_id async for where in turn.through(found)}
        asked: dict[TopicId, None] = {}
        async for where in turn.through(partitions):
            _put_offset(response.offsets, where, found.get(where, none))
            if where.topic_id in read:
                asked[where.topic_id] = None
        response.topics_read.extend(asked)
        return response.SerializeToString()

    async def _refused_offsets(
        self, principal: Principal, wanted: Iterable[pb.OffsetCommit], *, by_hand: bool
    ) -> dict[TopicPartition, PenstockError]:
        """Why the offsets of these partitions are refused, the first one first. A topic this broker has not heard of is
        the group's to judge, which knows what it gave to its member; without one it does not exist.
        """
        refused: dict[TopicPartition, PenstockError] = {}
        async for offset in self._begin_turn().through(wanted):
            where = TopicPartition(TopicId(offset.topic_id), offset.partition)
            try:
                topic = self._view.image.topics.get(where.topic_id)
                if by_hand:
                    topic = self._gate.authenticator.topic_by_id(principal, Operation.CONSUME, where.topic_id)
                elif topic is not None:
                    self._gate.authorize(principal, Operation.CONSUME, topic)
                self._check_offset(where, offset, topic)
            except PenstockError as refusal:
                refused[where] = refusal
        return refused

    def _check_offset(
        self, where: TopicPartition, offset: pb.OffsetCommit, topic: TopicRecord | None
    ) -> None:
        name = str(where) if topic is None else f"{topic.name}-{where.partition}"
        if len(where.topic_id) != TOPIC_ID_BYTES or (topic and where.partition >= topic.partitions):
            raise errors.NotFound(f"{name}: no such partition")
        if offset.offset < 0:
            raise errors.InvalidRequest(f"{name}: offset {offset.offset}, 0 or more required")
        if len(offset.metadata) > limits.COMMIT_METADATA_LENGTH_MAX:
            raise errors.InvalidRequest(
                f"{name}: metadata of {len(offset.metadata)} characters,"
                f" at most {limits.COMMIT_METADATA_LENGTH_MAX} allowed"
            )
        replica = self._find(where)
        leading = None if replica is None else replica.leading
        if leading is not None and leading.ready and offset.offset > leading.high_watermark:
            raise errors.OffsetOutOfRange(
                f"{name}: offset {offset.offset} is beyond the committed end {leading.high_watermark}"
            )

    async def _offsets(
        self, principal: Principal, group: str, offsets: Sequence[pb.OffsetCommit]
    ) -> dict[TopicPartition, CommittedOffset]:
        """What a request wants kept, by partition. Raises when the key may not, or when it is too much."""
        self._enter(principal, Operation.CONSUME, group)
        check_few(len(offsets), "offsets")
        return {
            TopicPartition(TopicId(o.topic_id), o.partition): CommittedOffset(
                offset=o.offset, leader_epoch=o.leader_epoch, metadata=o.metadata
            )
            async for o in self._begin_turn().through(offsets)
        }

    # -- for people --------------------------------------------------------------------------------------

    async def list_groups(self, caller: Caller, request: bytes) -> bytes:
        """What this broker coordinates of the tenant's groups."""
        principal = self._gate.admit(caller)
        parsed(pb.ListGroupsRequest, request)
        response = pb.ListGroupsResponse()
        try:
            for led in self._coordinators.serving():
                found = await led.carry_out(lambda core, _: Decision(core.groups(principal.tenant)))
                async for view in self._begin_turn().through(found):
                    if self._may_describe(principal, view.group):
                        _put_summary(response.groups.add(), view)
        except PenstockError as refusal:
            response.error, response.message = refusal.code, refusal.message
        return response.SerializeToString()

    async def describe_group(self, caller: Caller, request: bytes) -> bytes:
        principal = self._gate.admit(caller)
        wanted, response = parsed(pb.DescribeGroupRequest, request), pb.DescribeGroupResponse()
        try:
            self._enter(principal, Operation.DESCRIBE, wanted.group)
            led = self._coordinators.of(principal.tenant, wanted.group)
            view = await led.carry_out(lambda core, _: Decision(core.group(principal.tenant, wanted.group)))
        except PenstockError as refusal:
            response.error, response.message = refusal.code, refusal.message
            return response.SerializeToString()
        _put_summary(response.summary, view)
        turn = self._begin_turn()
        async for member in turn.through(view.members):
            _put_member(response.members.add(), member)
        names = {topic.topic_id: topic.name for topic in view.topics}
        async for where in turn.through(sorted(view.offsets)):
            topic = self._described(principal, where.topic_id)
            if topic is not None:
                names[where.topic_id] = topic.name
                _put_offset(response.offsets, where, view.offsets[where])
        for topic_id in sorted(names):
            response.topics.add(topic_id=topic_id, name=names[topic_id])
        return response.SerializeToString()

    def _described(self, principal: Principal, topic_id: TopicId) -> TopicRecord | None:
        try:
            return self._gate.authenticator.topic_by_id(principal, Operation.DESCRIBE, topic_id)
        except PenstockError:
            return None

    async def reset_offsets(self, caller: Caller, request: bytes) -> bytes:
        principal = self._gate.admit(caller)
        wanted = parsed(pb.ResetOffsetsRequest, request)

        async def act() -> None:
            offsets = await self._offsets(principal, wanted.group, wanted.offsets)
            for refusal in (await self._refused_offsets(principal, wanted.offsets, by_hand=True)).values():
                raise refusal
            commit = Commit(
                tenant=principal.tenant, group=wanted.group, member_id="", epoch=-1, offsets=offsets
            )

            def decide(part: Commit) -> Callable[[Coordinator, float], Decision[None]]:
                return lambda core, now_ms: core.reset(part)

            led = self._coordinators.of(commit.tenant, commit.group)
            await led.carry_out_in_turns([decide(part) for part in _in_parts(commit)])

        return await _changed(act)

    async def delete_group(self, caller: Caller, request: bytes) -> bytes:
        principal = self._gate.admit(caller)
        wanted = parsed(pb.DeleteGroupRequest, request)

        async def act() -> None:
            tenant, group = principal.tenant, wanted.group
            self._enter(principal, Operation.CONSUME, group)

            def decide(core: Coordinator, now_ms: float) -> Decision[None]:
                for where in sorted(core.group(tenant, group).offsets):
                    topic = self._view.image.topics.get(where.topic_id)
                    if topic is not None and not topic.binned:
                        self._gate.authorize(principal, Operation.CONSUME, topic)
                return core.delete(tenant, group)

            await self._coordinators.of(tenant, group).carry_out(decide)

        return await _changed(act)


# -- from and to the wire -------------------------------------------------------------------------------


async def _changed(act: Callable[[], Awaitable[None]]) -> bytes:
    response = pb.GroupChangeResponse()
    try:
        await act()
    except PenstockError as refusal:
        response.error, response.message = refusal.code, refusal.message
    return response.SerializeToString()


def _check_ms(field: str, value: int, most: int) -> None:
    if not limits.SESSION_TIMEOUT_MS_MIN <= value <= most:
        raise errors.InvalidRequest(
            f"{field}: {value} is not within {limits.SESSION_TIMEOUT_MS_MIN} to {most}"
        )


def _in_parts(commit: Commit) -> list[Commit]:
    """The same offsets, so many in each; one without any when there are none."""
    offsets = list(commit.offsets.items())
    parts = [
        dict(offsets[first : first + _OFFSETS_A_TURN]) for first in range(0, len(offsets), _OFFSETS_A_TURN)
    ]
    return [replace(commit, offsets=part) for part in parts or [{}]]


def _topic_partition(partition: pb.GroupPartition | pb.OffsetCommit) -> TopicPartition:
    return TopicPartition(TopicId(partition.topic_id), partition.partition)


def _put_partition(into: Any, where: TopicPartition) -> None:
    into.add(topic_id=where.topic_id, partition=where.partition)


def _put_topics(into: Any, topics: Iterable[KnownTopic]) -> None:
    for topic in topics:
        into.add(topic_id=topic.topic_id, name=topic.name)


def _put_offset(into: Any, where: TopicPartition, offset: CommittedOffset) -> None:
    into.add(
        topic_id=where.topic_id,
        partition=where.partition,
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _put_summary(into: pb.GroupSummary, view: GroupView) -> None:
    into.group, into.state, into.members = view.group, view.state, len(view.members)
    into.assignor, into.group_epoch = view.assignor, view.epoch


def _put_member(into: pb.GroupMember, member: Member) -> None:
    into.member_id, into.instance_id, into.client_id = member.member_id, member.instance_id, member.client_id
    into.client_host, into.member_epoch = member.client_host, member.epoch
    for where in sorted(member.assigned):
        _put_partition(into.assigned, where)
    for where in member.target:
        _put_partition(into.target, where)
    into.topics.extend(member.topics)
