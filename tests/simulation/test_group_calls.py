"""Calls of consumer groups at simulated brokers: found, joined, committed, described, and all of it again after the
coordinator's broker has stopped.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from google.protobuf.message import Message

from data_plane.node.ports import CallFailed, ConnectionLost
from data_plane.testkit.cluster import TENANT, BrokerState
from data_plane.testkit.swarm import USAGE_PLAN
from data_plane.testkit.transport import SimTransport
from penstock.contract import limits, methods
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.v1 import groups_pb2 as pb
from tests.simulation.test_client_streams import CONNECT_MS, KEPT
from tests.simulation.test_cuts import Period, topic

GROUP = "readers"
JOIN, LEAVE = 0, -1
Answer = TypeVar("Answer", bound=Message)


class Groups:
    """One client that calls coordinators."""

    def __init__(self, period: Period) -> None:
        self.period = period
        process = period.loop.process("a client of groups")
        self._transport = SimTransport(
            period.cluster.network, process, "c0", authorization=f"Bearer {period.cluster.api_key}"
        )

    async def call(self, address: str, method: str, request: Message, kind: type[Answer]) -> Answer:
        return kind.FromString(
            await self._transport.call(address, method, request.SerializeToString(), CONNECT_MS)
        )

    async def found(self, group: str = GROUP) -> pb.FindCoordinatorResponse:
        """The coordinator as any broker that runs tells it, once there is one."""
        while True:
            for broker in self.period.cluster.brokers:
                try:
                    answer = await self.call(
                        broker.client_address,
                        methods.FIND_COORDINATOR,
                        pb.FindCoordinatorRequest(group=group),
                        pb.FindCoordinatorResponse,
                    )
                except (ConnectionLost, CallFailed):
                    continue
                if not answer.error:
                    return answer
            await asyncio.sleep(0.1)

    async def found_elsewhere(self, broker_id: int) -> None:
        """Returns once another broker than this one coordinates the group."""
        while True:
            if (await self.found()).broker_id != broker_id:
                return
            await asyncio.sleep(0.1)

    async def ask(self, method: str, request: Any, kind: type[Answer]) -> Answer:
        """Of the group's coordinator, again while it is not ready."""
        while True:
            try:
                answer: Any = await self.call(
                    (await self.found(request.group)).address, method, request, kind
                )
            except (ConnectionLost, CallFailed):
                await asyncio.sleep(0.1)
                continue
            if answer.error not in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_READY):
                found: Answer = answer
                return found
            await asyncio.sleep(0.1)

    async def beat(
        self,
        member: str,
        epoch: int,
        owned: list[int] | None = None,
        *,
        group: str = GROUP,
        instance: str = "",
    ) -> pb.GroupHeartbeatResponse:
        request = pb.GroupHeartbeatRequest(
            group=group,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            topics=["orders"] if epoch == JOIN else [],
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
        )
        for number in owned or []:
            request.owned.add(topic_id=self.period.where("orders").topic_id, partition=number)
        return await self.ask(methods.GROUP_HEARTBEAT, request, pb.GroupHeartbeatResponse)

    async def commit(self, member: str, epoch: int, offset: int, group: str = GROUP) -> list[int]:
        """The errors: of the call, and of its only place when that was looked at."""
        request = pb.CommitOffsetsRequest(group=group, member_id=member, member_epoch=epoch)
        request.offsets.add(topic_id=self.period.where("orders").topic_id, partition=0, offset=offset)
        answer = await self.ask(methods.COMMIT_OFFSETS, request, pb.CommitOffsetsResponse)
        return [answer.error, *(result.error for result in answer.results)]

    async def committed(self, group: str = GROUP) -> list[tuple[int, int]]:
        """(partition, offset) of all that the group has."""
        request = pb.FetchCommittedRequest(group=group, member_epoch=-1)
        answer = await self.ask(methods.FETCH_COMMITTED, request, pb.FetchCommittedResponse)
        assert not answer.error, answer.message
        return [(place.partition, place.offset) for place in answer.offsets]

    async def described(self, group: str = GROUP) -> pb.DescribeGroupResponse:
        return await self.ask(
            methods.DESCRIBE_GROUP, pb.DescribeGroupRequest(group=group), pb.DescribeGroupResponse
        )

    async def listed(self) -> dict[str, int]:
        """Members by group, from all brokers."""
        found: dict[str, int] = {}
        for broker in self.period.cluster.brokers:
            answer = await self.call(
                broker.client_address, methods.LIST_GROUPS, pb.ListGroupsRequest(), pb.ListGroupsResponse
            )
            assert not found.keys() & {one.group for one in answer.groups}, "each has one coordinator"
            found |= {one.group: one.members for one in answer.groups}
        return found

    async def stop_coordinator(self) -> None:
        """It stops in good order, and is started again."""
        broker = self.period.cluster.broker((await self.found()).broker_id)
        self.period.cluster.drain(broker)
        await self.period.until("it has stopped", lambda: broker.state is BrokerState.DOWN)
        self.period.cluster.start(broker)
        await self.period.until("it is back", lambda: broker.ready)


def run_story(story: Callable[[Groups], Coroutine[Any, Any, None]]) -> None:
    """The story at three brokers that coordinate groups; it must end within some simulated minutes."""

    async def with_groups(period: Period) -> None:
        await period.cluster.create_topic(replace(USAGE_PLAN, name="__groups", partitions=2), SYSTEM_TENANT)
        await period.produce("orders", 40, partitions=4)
        async with asyncio.timeout(200):
            await story(Groups(period))

    Period(KEPT, topic("orders", 4)).run(with_groups)


def partitions(answer: pb.GroupHeartbeatResponse) -> list[int]:
    return [place.partition for place in answer.assigned]


def test_two_members_share_what_one_had_and_the_one_that_stays_gets_it_back() -> None:
    async def story(groups: Groups) -> None:
        alone = await groups.beat("a", JOIN)
        assert (alone.error, partitions(alone)) == (0, [0, 1, 2, 3])
        second = await groups.beat("b", JOIN)
        assert partitions(second) == []
        told_to_give = await groups.beat("a", 1, [0, 1, 2, 3])
        kept = partitions(told_to_give)
        assert len(kept) == 2
        assert (await groups.beat("a", 1, kept)).member_epoch == 2
        gained = await groups.beat("b", second.member_epoch)
        assert sorted(kept + partitions(gained)) == [0, 1, 2, 3]
        described = await groups.described()
        assert (described.summary.members, described.summary.group_epoch) == (2, 2)
        assert [member.member_id for member in described.members] == ["a", "b"]
        assert (await groups.beat("b", LEAVE)).error == 0
        assert partitions(await groups.beat("a", 2, kept)) == [0, 1, 2, 3]
        assert (await groups.beat("b", 2)).error == ErrorCode.UNKNOWN_MEMBER

    run_story(story)


def test_a_commit_is_what_was_answered_and_the_second_takes_the_place_of_the_first() -> None:
    async def story(groups: Groups) -> None:
        await groups.beat("a", JOIN)
        assert await groups.committed() == []
        for offset in (5, 9, 7):
            assert await groups.commit("a", 1, offset) == [0, 0]
            assert await groups.committed() == [(0, offset)]
        assert (await groups.commit("nobody", 1, 8))[0] == ErrorCode.UNKNOWN_MEMBER
        assert (await groups.commit("a", 2, 8))[0] == ErrorCode.FENCED_MEMBER_EPOCH
        assert (await groups.commit("", -1, 8))[0] == ErrorCode.GROUP_NOT_EMPTY
        assert await groups.committed() == [(0, 7)]

    run_story(story)


def test_commits_are_counted_and_those_that_go_back_as_well() -> None:
    async def story(groups: Groups) -> None:
        await groups.beat("a", JOIN)
        node = groups.period.cluster.broker((await groups.found()).broker_id).node
        assert node is not None
        counted = []
        for offset in (5, 8, 3, 2, 9):
            assert await groups.commit("a", 1, offset) == [0, 0]
            counted.append((node.stats.group_offsets_committed, node.stats.group_offsets_committed_back))
        assert counted == [(1, 0), (2, 0), (3, 1), (4, 2), (5, 2)]

    run_story(story)


def test_groups_outlive_their_coordinator_each_time_it_stops() -> None:
    async def story(groups: Groups) -> None:
        await groups.beat("a", JOIN, instance="one")
        await groups.beat("a2", JOIN, instance="one")
        for offset in (5, 6):
            assert await groups.commit("a2", 1, offset) == [0, 0]
            await groups.stop_coordinator()
            assert await groups.committed() == [(0, offset)]
            assert (await groups.beat("a", 1, instance="one")).error == ErrorCode.FENCED_INSTANCE_ID
            beaten = await groups.beat("a2", 1, [0, 1, 2, 3])
            assert (beaten.error, partitions(beaten)) == (0, [0, 1, 2, 3])

    run_story(story)


def test_a_broker_that_coordinates_again_knows_what_others_have_committed_meanwhile() -> None:
    async def story(groups: Groups) -> None:
        period = groups.period
        await groups.beat("a", JOIN)
        first = period.cluster.broker((await groups.found()).broker_id)
        for offset in (5, 7):
            assert await groups.commit("a", 1, offset) == [0, 0]
            period.cluster.pause(first)
            await groups.found_elsewhere(first.broker_id)
            assert await groups.commit("a", 1, offset + 1) == [0, 0]
            period.cluster.resume(first)
            await period.until("it is back", lambda: first.ready)
            while (await groups.found()).broker_id != first.broker_id:
                await groups.stop_coordinator()
            assert await groups.committed() == [(0, offset + 1)]
            assert (await groups.beat("a", 1, [0, 1, 2, 3])).error == 0

    run_story(story)


def test_a_member_that_falls_silent_is_fenced_and_the_other_is_not() -> None:
    async def story(groups: Groups) -> None:
        await groups.beat("a", JOIN)
        epoch = (await groups.beat("b", JOIN)).member_epoch
        held = partitions(await groups.beat("a", 1, [0, 1, 2, 3]))
        await groups.beat("a", 1, held)
        for _ in range(15):
            await asyncio.sleep(1)
            held = partitions(await groups.beat("a", 2 if epoch == 2 else 1, held))
            if len(held) == 4:
                break
        described = await groups.described()
        assert [member.member_id for member in described.members] == ["a"]

    run_story(story)


def test_a_group_is_reset_and_deleted_only_while_it_is_empty_and_others_stay() -> None:
    async def story(groups: Groups) -> None:
        for name in ("readers", "readers2", "read"):
            assert await groups.commit("", -1, 5, group=name) == [0, 0]
        await groups.beat("a", JOIN)
        reset = pb.ResetOffsetsRequest(group=GROUP)
        reset.offsets.add(topic_id=groups.period.where("orders").topic_id, partition=0, offset=1)

        async def changed(method: str, request: Message) -> int:
            return (await groups.ask(method, request, pb.GroupChangeResponse)).error

        delete = pb.DeleteGroupRequest(group=GROUP)
        assert await changed(methods.RESET_OFFSETS, reset) == ErrorCode.GROUP_NOT_EMPTY
        assert await changed(methods.DELETE_GROUP, delete) == ErrorCode.GROUP_NOT_EMPTY
        await groups.beat("a", LEAVE)
        assert await changed(methods.RESET_OFFSETS, reset) == 0
        assert await groups.committed() == [(0, 1)]
        assert await groups.listed() == {"readers": 0, "readers2": 0, "read": 0}
        assert await changed(methods.DELETE_GROUP, delete) == 0
        assert await changed(methods.DELETE_GROUP, delete) == ErrorCode.GROUP_NOT_FOUND
        assert await groups.listed() == {"readers2": 0, "read": 0}
        assert await groups.committed("readers2") == [(0, 5)]

    run_story(story)


def test_names_and_times_that_cannot_be_are_refused_and_make_no_group() -> None:
    async def story(groups: Groups) -> None:
        await groups.beat("a", JOIN)

        async def refused(**changed: Any) -> int:
            given: dict[str, Any] = {
                "group": GROUP,
                "member_id": "b",
                "topics": ["orders"],
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 60_000,
                **changed,
            }
            coordinator = await groups.found()
            return (
                await groups.call(
                    coordinator.address,
                    methods.GROUP_HEARTBEAT,
                    pb.GroupHeartbeatRequest(**given),
                    pb.GroupHeartbeatResponse,
                )
            ).error

        too_long = "x" * (limits.GROUP_NAME_LENGTH_MAX + 1)
        for changed in (
            {"group": ""},
            {"group": too_long},
            {"group": "two\nlines"},
            {"member_id": ""},
            {"member_id": "\0"},
            {"instance_id": "two\nlines"},
            {"session_timeout_ms": limits.SESSION_TIMEOUT_MS_MIN - 1},
            {"session_timeout_ms": limits.SESSION_TIMEOUT_MS_MAX + 1},
            {"rebalance_timeout_ms": limits.REBALANCE_TIMEOUT_MS_MAX + 1},
            {"rebalance_timeout_ms": -1},
        ):
            assert await refused(**changed) == ErrorCode.INVALID_REQUEST, changed
        assert await groups.listed() == {GROUP: 1}

    run_story(story)


def test_too_many_topics_and_too_long_notes_are_refused_with_the_limit() -> None:
    async def story(groups: Groups) -> None:
        await groups.beat("a", JOIN)
        request = pb.GroupHeartbeatRequest(group=GROUP, member_id="b", member_epoch=JOIN)
        request.topics.extend(f"t{number}" for number in range(limits.GROUP_TOPICS_MAX + 1))
        many = await groups.ask(methods.GROUP_HEARTBEAT, request, pb.GroupHeartbeatResponse)
        assert many.error == ErrorCode.LIMIT_EXCEEDED
        assert many.message.startswith(
            "topics: 1001 of one member, at most 1000 allowed; subscribe with several"
        )
        commit = pb.CommitOffsetsRequest(group=GROUP, member_id="a", member_epoch=1)
        place, note = groups.period.where("orders"), "n" * (limits.COMMIT_METADATA_LENGTH_MAX + 1)
        commit.offsets.add(topic_id=place.topic_id, partition=0, offset=1, metadata=note)
        (long,) = (await groups.ask(methods.COMMIT_OFFSETS, commit, pb.CommitOffsetsResponse)).results
        assert long.error == ErrorCode.INVALID_REQUEST
        assert long.message == "orders-0: metadata of 4097 characters, at most 4096 allowed"
        node = groups.period.cluster.broker((await groups.found()).broker_id).node
        assert node is not None and node.stats.limit_refusals.of(TENANT, "GROUP_TOPICS_MAX") == 1

    run_story(story)


def test_a_member_commits_what_its_broker_has_not_heard_of_and_nobody_does_by_hand() -> None:
    async def story(groups: Groups) -> None:
        def request(member: str, epoch: int, **place: Any) -> pb.CommitOffsetsRequest:
            made = pb.CommitOffsetsRequest(group=GROUP, member_id=member, member_epoch=epoch)
            where = groups.period.where("orders")
            made.offsets.add(**{"topic_id": where.topic_id, "partition": 0, "offset": 1, **place})
            return made

        async def errors(made: pb.CommitOffsetsRequest) -> list[int]:
            answer = await groups.ask(methods.COMMIT_OFFSETS, made, pb.CommitOffsetsResponse)
            return [answer.error, *(result.error for result in answer.results)]

        unknown = b"?" * 16
        assert await errors(request("", -1, topic_id=unknown)) == [0, ErrorCode.NOT_FOUND]
        assert await errors(request("", -1, partition=4)) == [0, ErrorCode.NOT_FOUND]
        assert await errors(request("", -1, offset=-1)) == [0, ErrorCode.INVALID_REQUEST]
        assert await groups.committed() == []
        assert await errors(request("", -1, partition=3)) == [0, 0]
        await groups.beat("a", JOIN)
        assert await errors(request("a", 1, topic_id=unknown)) == [0, ErrorCode.FENCED_MEMBER_EPOCH]
        assert await errors(request("a", 1)) == [0, 0]

    run_story(story)
