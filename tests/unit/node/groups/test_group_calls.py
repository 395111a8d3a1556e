"""Calls of consumer groups at one broker, as clients with different keys make them: rights, bounds, and the answers."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from google.protobuf.message import Message

from data_plane.contract import admin_pb2
from data_plane.contract import methods as own_methods
from data_plane.node.groups.group_calls import is_beat
from data_plane.node.groups.group_coordinators import GROUPS_TOPIC
from data_plane.node.ports import Caller
from data_plane.testkit.cluster import PEPPER, TENANT
from penstock.contract import limits, methods
from penstock.contract.api_keys import RANDOM_BYTES, make_api_key
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.v1 import groups_pb2 as pb
from penstock.rules.credentials import SCRAM_SALT_BYTES, make_credential
from tests.unit.log.batches import made_batch
from tests.unit.node.brokers import SOON_S, Brokers, topic

Answer = TypeVar("Answer", bound=Message)
JOIN, LEAVE, BY_HAND = 0, -1, -1
READERS = "readers"
UNKNOWN = b"?" * 16
ANSWERS: dict[str, Any] = {
    methods.FIND_COORDINATOR: pb.FindCoordinatorResponse,
    methods.GROUP_HEARTBEAT: pb.GroupHeartbeatResponse,
    methods.COMMIT_OFFSETS: pb.CommitOffsetsResponse,
    methods.FETCH_COMMITTED: pb.FetchCommittedResponse,
    methods.LIST_GROUPS: pb.ListGroupsResponse,
    methods.DESCRIBE_GROUP: pb.DescribeGroupResponse,
    methods.RESET_OFFSETS: pb.GroupChangeResponse,
    methods.DELETE_GROUP: pb.GroupChangeResponse,
}


class Groups:
    """A client of one broker, with a key for everything, or with another one that `key` has made."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self._keys = {"": brokers.cluster.api_key}

    async def key(self, name: str, *bindings: admin_pb2.Binding) -> None:
        """A key of the tenant that has only these."""
        made = make_api_key(name, bytes([len(self._keys)]) * RANDOM_BYTES)
        salts = bytes(2 * SCRAM_SALT_BYTES)
        credential = make_credential(made, pepper_version=1, pepper=PEPPER, salts=salts)
        request = admin_pb2.PutKeyRequest(
            key_id=credential.key_id, tenant=TENANT, name=name, pepper_version=1, bindings=bindings,
            secret_hmac=bytes.fromhex(credential.secret_hmac), scram_json=json.dumps(credential.scram),
        )  # fmt: skip
        await self.brokers.cluster.admin_call(own_methods.PUT_KEY, request.SerializeToString())
        await asyncio.sleep(SOON_S)
        self._keys[name] = made.reveal()

    async def call(self, method: str, request: Message, key: str = "") -> Any:
        caller = Caller(peer="10.0.0.7", authorization=f"Bearer {self._keys[key]}", identity=None)
        answer = await self.brokers.node().client_service.calls[method](caller, request.SerializeToString())
        return ANSWERS[method].FromString(answer)

    async def beat(self, member: str = "a", epoch: int = JOIN, *, key: str = "", **fields: Any) -> Any:
        values: dict[str, Any] = {"group": READERS, "member_id": member, "member_epoch": epoch}
        if epoch == JOIN:
            values |= {"topics": ["orders"], "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000}
        return await self.call(methods.GROUP_HEARTBEAT, pb.GroupHeartbeatRequest(**values | fields), key)

    def place(self, offset: int, partition: int = 0, name: str = "orders", **fields: Any) -> pb.OffsetCommit:
        values: dict[str, Any] = {"topic_id": self.brokers.where(name).topic_id, "partition": partition}
        return pb.OffsetCommit(**values | {"offset": offset} | fields)

    async def commit(
        self,
        *offsets: pb.OffsetCommit,
        member: str = "",
        epoch: int = BY_HAND,
        key: str = "",
        group: str = READERS,
    ) -> Any:
        request = pb.CommitOffsetsRequest(group=group, member_id=member, member_epoch=epoch, offsets=offsets)
        return await self.call(methods.COMMIT_OFFSETS, request, key)

    async def fetch(self, *partitions: int, key: str = "", **fields: Any) -> Any:
        values: dict[str, Any] = {"group": READERS, "member_epoch": -1}
        request = pb.FetchCommittedRequest(**values | fields)
        for partition in partitions:
            request.partitions.add(topic_id=self.brokers.where().topic_id, partition=partition)
        return await self.call(methods.FETCH_COMMITTED, request, key)

    async def describe(self, group: str = READERS, key: str = "") -> Any:
        return await self.call(methods.DESCRIBE_GROUP, pb.DescribeGroupRequest(group=group), key)

    async def listed(self, key: str = "") -> list[tuple[str, str, int]]:
        answer = await self.call(methods.LIST_GROUPS, pb.ListGroupsRequest(), key)
        assert not answer.error
        return sorted((entry.group, entry.state, entry.members) for entry in answer.groups)


def run(story: Callable[[Groups], Any], *, coordinated: bool = True) -> None:
    async def whole(brokers: Brokers) -> None:
        if coordinated:
            groups = replace(topic(GROUPS_TOPIC), partitions=2)
            await brokers.cluster.create_topic(groups, SYSTEM_TENANT)
            await brokers.until(lambda: brokers.node().gauges()["group_partitions_coordinated"] == 2)
        await story(Groups(brokers))

    Brokers(1, replace(topic(), partitions=3), topic("others")).run(whole)


def grant(prefix: str, resource: str, *operations: str) -> admin_pb2.Binding:
    return admin_pb2.Binding(topic_prefix=prefix, resource=resource, operations=operations)


# -- finding ------------------------------------------------------------------------------------------------


def test_any_broker_says_who_coordinates_a_group_or_why_it_cannot() -> None:
    async def story(groups: Groups) -> None:
        answer = await groups.call(methods.FIND_COORDINATOR, pb.FindCoordinatorRequest(group=READERS))
        assert (answer.error, answer.broker_id, answer.address) == (0, 0, "b0:9092")
        answer = await groups.call(methods.FIND_COORDINATOR, pb.FindCoordinatorRequest(group="two\nlines"))
        assert (answer.error, answer.broker_id, answer.address) == (ErrorCode.INVALID_REQUEST, -1, "")

    run(story)


def test_before_the_service_is_set_up_each_call_is_to_be_tried_again() -> None:
    async def story(groups: Groups) -> None:
        not_ready = ErrorCode.COORDINATOR_NOT_READY
        answer = await groups.call(methods.FIND_COORDINATOR, pb.FindCoordinatorRequest(group=READERS))
        assert (answer.error, answer.broker_id) == (not_ready, -1)
        assert (await groups.beat()).error == not_ready
        assert (await groups.commit(groups.place(0))).error == not_ready
        assert (await groups.fetch()).error == (await groups.describe()).error == not_ready
        delete = await groups.call(methods.DELETE_GROUP, pb.DeleteGroupRequest(group=READERS))
        assert delete.error == not_ready and "being set up" in delete.message
        assert await groups.listed() == []

    run(story, coordinated=False)


# -- rights -------------------------------------------------------------------------------------------------


def test_a_key_does_to_groups_and_topics_what_it_is_granted_and_no_more() -> None:
    async def story(groups: Groups) -> None:
        await groups.key("reader", grant("read", "group"), grant("orders", "topic"))
        await groups.key("watcher", grant("read", "group", "describe"), grant("orders", "topic", "describe"))
        await groups.key("stranger", grant("other", "group"), grant("orders", "topic"))
        await groups.key("peeker", grant("read", "group"), grant("orders", "topic", "describe"))
        await groups.key("topicless", grant("read", "group"), grant("others", "topic"))
        assert not (await groups.beat(key="reader")).error
        expected: dict[str, int] = {
            "watcher": ErrorCode.FORBIDDEN,
            "stranger": ErrorCode.FORBIDDEN,
            "peeker": ErrorCode.FORBIDDEN,
            "topicless": ErrorCode.NOT_FOUND,
        }
        for key, error in expected.items():
            assert (await groups.beat("b", key=key)).error == error, key
        for key, error in {"reader": 0, "watcher": 0, "stranger": ErrorCode.FORBIDDEN}.items():
            assert (await groups.describe(key=key)).error == error, key
            assert (await groups.fetch(key=key)).error == error, key
            request = pb.FindCoordinatorRequest(group=READERS)
            assert (await groups.call(methods.FIND_COORDINATOR, request, key)).error == error, key
            assert (await groups.listed(key)) == ([] if error else [(READERS, "stable", 1)]), key
        strange = await groups.describe(key="stranger")
        assert (
            strange.message == "group 'readers': no scope of the key and no entry of the access list names it"
        )
        for key in ("watcher", "stranger"):
            assert (await groups.commit(groups.place(0), key=key)).error == ErrorCode.FORBIDDEN
            reset = pb.ResetOffsetsRequest(group=READERS, offsets=[groups.place(0)])
            assert (await groups.call(methods.RESET_OFFSETS, reset, key)).error == ErrorCode.FORBIDDEN
            delete = pb.DeleteGroupRequest(group=READERS)
            assert (await groups.call(methods.DELETE_GROUP, delete, key)).error == ErrorCode.FORBIDDEN

    run(story)


def test_offsets_of_topics_that_a_key_may_not_read_are_neither_committed_nor_shown_nor_deleted() -> None:
    async def story(groups: Groups) -> None:
        await groups.key("reader", grant("", "group"), grant("orders", "topic"))
        mixed = (groups.place(0), groups.place(0, name="others"))
        answer = await groups.commit(*mixed, key="reader")
        assert (answer.error, [entry.error for entry in answer.results]) == (0, [0, ErrorCode.NOT_FOUND])
        assert [entry.error for entry in (await groups.commit(*mixed)).results] == [0, 0]
        orders, others = (groups.brokers.where(name).topic_id for name in ("orders", "others"))
        whole, part = await groups.describe(), await groups.describe(key="reader")
        assert {entry.topic_id for entry in whole.offsets} == {orders, others}
        assert [entry.topic_id for entry in part.offsets] == [orders]
        assert {(entry.topic_id, entry.name) for entry in whole.topics} == {
            (orders, "orders"),
            (others, "others"),
        }
        assert [(entry.topic_id, entry.name) for entry in part.topics] == [(orders, "orders")]
        reset = pb.ResetOffsetsRequest(group=READERS, offsets=mixed)
        assert (await groups.call(methods.RESET_OFFSETS, reset, "reader")).error == ErrorCode.NOT_FOUND
        delete = pb.DeleteGroupRequest(group=READERS)
        assert (await groups.call(methods.DELETE_GROUP, delete, "reader")).error
        assert [entry[0] for entry in await groups.listed()] == [READERS]
        assert not (await groups.call(methods.DELETE_GROUP, delete)).error
        assert await groups.listed() == []

    run(story)


# -- members ------------------------------------------------------------------------------------------------


def test_a_member_is_described_as_it_joined_with_what_it_has() -> None:
    async def story(groups: Groups) -> None:
        joined = await groups.beat(
            instance_id="i1", client_id="c1", topics=["orders", "others", "orders"], assignor="range"
        )
        assert (joined.error, joined.member_epoch, joined.has_assignment) == (0, 1, True)
        assert joined.heartbeat_ms > 0
        orders, others = (groups.brokers.where(name).topic_id for name in ("orders", "others"))
        places = [(orders, 0), (orders, 1), (orders, 2), (others, 0)]
        assert sorted((entry.topic_id, entry.partition) for entry in joined.assigned) == sorted(places)
        assert {(entry.topic_id, entry.name) for entry in joined.topics} == {
            (orders, "orders"),
            (others, "others"),
        }
        described = await groups.describe()
        summary = described.summary
        assert (summary.group, summary.state, summary.members, summary.assignor) == (
            READERS,
            "stable",
            1,
            "range",
        )
        assert summary.group_epoch == 1
        (member,) = described.members
        assert (member.member_id, member.instance_id, member.client_id) == ("a", "i1", "c1")
        assert (member.client_host, member.member_epoch, list(member.topics)) == (
            "10.0.0.7",
            1,
            ["orders", "others"],
        )
        for told in (member.assigned, member.target):
            assert sorted((entry.topic_id, entry.partition) for entry in told) == sorted(places)
        left = await groups.beat(epoch=LEAVE)
        assert (left.error, left.has_assignment, len(left.assigned)) == (0, False, 0)
        assert (await groups.describe()).summary.members == 0

    run(story)


def test_a_member_gives_up_what_another_gets_and_says_so_by_what_it_owns() -> None:
    async def story(groups: Groups) -> None:
        first = await groups.beat()
        assert len(first.assigned) == 3
        assert (await groups.beat("b")).assigned == []
        told = {entry.member_id: entry for entry in (await groups.describe()).members}
        assert [len(told[name].assigned) for name in "ab"] == [3, 0], "what they have"
        assert sorted(len(told[name].target) for name in "ab") == [1, 2], "what they are to have"
        owned = [
            pb.GroupPartition(topic_id=entry.topic_id, partition=entry.partition) for entry in first.assigned
        ]
        kept = await groups.beat(epoch=first.member_epoch, owned=owned)
        assert 1 <= len(kept.assigned) < 3
        waiting = await groups.beat("b", 2)
        assert len(waiting.assigned) + len(kept.assigned) < 3, "not before the first has let go"
        await groups.beat(epoch=first.member_epoch, owned=list(kept.assigned))
        assigned = await groups.beat("b", 2)
        assert len(assigned.assigned) + len(kept.assigned) == 3

    run(story)


LONG = "x" * (limits.MEMBER_ID_LENGTH_MAX + 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"group": ""}, {"group": "x" * (limits.GROUP_NAME_LENGTH_MAX + 1)}, {"member_id": ""}, {"member_id": LONG},
        {"instance_id": LONG}, {"client_id": LONG}, {"client_id": "two\nlines"}, {"member_epoch": -2}, {"topics": []},
        {"session_timeout_ms": limits.SESSION_TIMEOUT_MS_MIN - 1},
        {"session_timeout_ms": limits.SESSION_TIMEOUT_MS_MAX + 1},
        {"rebalance_timeout_ms": limits.SESSION_TIMEOUT_MS_MIN - 1},
        {"rebalance_timeout_ms": limits.REBALANCE_TIMEOUT_MS_MAX + 1},
    ],
    ids=lambda fields: f"{next(iter(fields))} {str(next(iter(fields.values())))[:8]!r}",
)  # fmt: skip
def test_a_heartbeat_that_cannot_be_is_refused_and_makes_no_group(fields: dict[str, Any]) -> None:
    async def story(groups: Groups) -> None:
        answer = await groups.beat(**fields)
        assert (answer.error, answer.has_assignment) == (ErrorCode.INVALID_REQUEST, False)
        assert next(iter(fields)) in answer.message
        assert await groups.listed() == []

    run(story)


@pytest.mark.parametrize(
    "fields",
    [
        {
            "session_timeout_ms": limits.SESSION_TIMEOUT_MS_MIN,
            "rebalance_timeout_ms": limits.SESSION_TIMEOUT_MS_MIN,
        },
        {
            "session_timeout_ms": limits.SESSION_TIMEOUT_MS_MAX,
            "rebalance_timeout_ms": limits.REBALANCE_TIMEOUT_MS_MAX,
        },
        {"member_id": LONG[1:], "instance_id": LONG[1:], "client_id": LONG[1:]},
        {"group": "x" * limits.GROUP_NAME_LENGTH_MAX},
    ],
    ids=["shortest times", "longest times", "longest names", "longest group"],
)
def test_a_heartbeat_at_its_bounds_is_taken(fields: dict[str, Any]) -> None:
    async def story(groups: Groups) -> None:
        assert (await groups.beat(**fields)).error == 0

    run(story)


def test_a_member_reads_so_many_topics_and_a_refusal_for_it_is_counted() -> None:
    async def story(groups: Groups) -> None:
        refusals = groups.brokers.node().stats.limit_refusals
        many = ["orders"] * limits.GROUP_TOPICS_MAX
        assert (await groups.beat(topics=many)).error == 0
        assert refusals.of(TENANT, "GROUP_TOPICS_MAX") == 0
        answer = await groups.beat("b", topics=[*many, "orders"])
        assert (answer.error, answer.message[:12]) == (ErrorCode.LIMIT_EXCEEDED, "topics: 1001")
        assert refusals.of(TENANT, "GROUP_TOPICS_MAX") == 1
        owned = [
            pb.GroupPartition(topic_id=UNKNOWN, partition=n) for n in range(limits.FRAME_ENTRIES_MAX + 1)
        ]
        assert (await groups.beat(epoch=1, owned=owned)).error == ErrorCode.LIMIT_EXCEEDED
        assert refusals.of(TENANT, "FRAME_ENTRIES_MAX") == 1
        assert (await groups.fetch(*range(limits.FRAME_ENTRIES_MAX + 1))).error == ErrorCode.LIMIT_EXCEEDED

    run(story)


def test_a_topic_that_does_not_exist_cannot_be_joined_for() -> None:
    async def story(groups: Groups) -> None:
        answer = await groups.beat(topics=["orders", "nowhere"])
        assert answer.error == ErrorCode.NOT_FOUND and await groups.listed() == []

    run(story)


@pytest.mark.parametrize(
    ("method", "fields", "beats"),
    [
        (methods.GROUP_HEARTBEAT, {"member_epoch": 3}, True),
        (methods.GROUP_HEARTBEAT, {"member_epoch": 1}, True),
        (methods.GROUP_HEARTBEAT, {"member_epoch": JOIN}, False),
        (methods.GROUP_HEARTBEAT, {"member_epoch": LEAVE}, False),
        (methods.GROUP_HEARTBEAT, {"member_epoch": 3, "topics": ["orders"]}, False),
        (methods.GROUP_HEARTBEAT, {"member_epoch": 3, "client_id": "x" * 17_000}, False),
        (methods.COMMIT_OFFSETS, {"member_epoch": 3}, False),
    ],
)
def test_a_beat_of_a_member_that_has_joined_goes_before_questions(
    method: str, fields: dict[str, Any], beats: bool
) -> None:
    assert is_beat(method, pb.GroupHeartbeatRequest(**fields).SerializeToString()) is beats
    assert not is_beat(method, b"\xff\xff")


# -- offsets ------------------------------------------------------------------------------------------------


async def produced(groups: Groups, batches: int) -> None:
    """So many batches of two records in `orders-0`."""
    producing = await groups.brokers.producing()
    for _ in range(batches):
        assert (await producing.send(made_batch(2, 40))).error == 0


def test_each_offset_is_judged_for_itself_and_in_its_place() -> None:
    async def story(groups: Groups) -> None:
        await produced(groups, 2)
        note = "n" * limits.COMMIT_METADATA_LENGTH_MAX
        answer = await groups.commit(
            groups.place(4, metadata=note, leader_epoch=1),
            groups.place(0, 3),
            groups.place(-1, 1),
            groups.place(0, topic_id=UNKNOWN),
            groups.place(0, 2, metadata=note + "n"),
            groups.place(0, topic_id=b"short"),
        )
        errors = [
            0,
            ErrorCode.NOT_FOUND,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NOT_FOUND,
            ErrorCode.INVALID_REQUEST,
        ]
        assert [entry.error for entry in answer.results][:5] == errors and answer.results[5].error
        texts = [entry.message for entry in answer.results]
        assert (
            texts[1] == "orders-3: no such partition"
            and texts[2] == "orders-1: offset -1, 0 or more required"
        )
        beyond = await groups.commit(groups.place(5))
        assert beyond.results[0].error == ErrorCode.OFFSET_OUT_OF_RANGE
        assert beyond.results[0].message == "orders-0: offset 5 is beyond the committed end 4"
        ((kept,), topics) = ((await groups.fetch()).offsets, (await groups.fetch()).topics_read)
        assert (kept.partition, kept.offset, kept.leader_epoch, kept.metadata) == (0, 4, 1, note)
        assert list(topics) == [groups.brokers.where().topic_id]

    run(story)


def test_offsets_are_told_for_what_is_asked_or_all_and_what_has_none_as_that() -> None:
    async def story(groups: Groups) -> None:
        await groups.commit(groups.place(0, 2), groups.place(0, 1), groups.place(0, name="others"))
        told = [(entry.partition, entry.offset) for entry in (await groups.fetch(0, 2)).offsets]
        assert told == [(0, -1), (2, 0)]
        whole = await groups.fetch()
        assert sorted((entry.topic_id, entry.partition) for entry in whole.offsets) == [
            (entry.topic_id, entry.partition) for entry in whole.offsets
        ]
        assert len(whole.offsets) == 3 and len(whole.topics_read) == 2
        nothing = await groups.fetch(0, group="others")
        assert [(entry.offset, entry.metadata) for entry in nothing.offsets] == [(-1, "")]
        assert list(nothing.topics_read) == []

    run(story)


def test_a_member_that_is_none_is_told_no_offsets_and_commits_none() -> None:
    async def story(groups: Groups) -> None:
        await groups.beat()
        assert [
            entry.error for entry in (await groups.commit(groups.place(0), member="a", epoch=1)).results
        ] == [0]
        assert (await groups.fetch(member_id="a", member_epoch=1)).error == 0
        assert (await groups.fetch(member_id="b", member_epoch=1)).error == ErrorCode.UNKNOWN_MEMBER
        assert (await groups.commit(groups.place(0), member="b", epoch=1)).error == ErrorCode.UNKNOWN_MEMBER
        by_hand = await groups.commit(groups.place(0))
        assert by_hand.error == ErrorCode.GROUP_NOT_EMPTY

    run(story)


def test_more_offsets_than_one_turn_takes_are_all_committed_and_reset() -> None:
    async def story(groups: Groups) -> None:
        wide = replace(topic("wide"), partitions=450)
        await groups.brokers.cluster.create_topic(wide)
        await asyncio.sleep(SOON_S)
        places: Sequence[pb.OffsetCommit] = [groups.place(0, n, "wide") for n in range(450)]
        answer = await groups.commit(*places)
        assert {entry.error for entry in answer.results} == {0} and len(answer.results) == 450
        assert [entry.partition for entry in (await groups.fetch()).offsets] == list(range(450))
        marked = [groups.place(0, n, "wide", metadata="again") for n in range(450)]
        request = pb.ResetOffsetsRequest(group=READERS, offsets=marked)
        assert (await groups.call(methods.RESET_OFFSETS, request)).error == 0
        assert {entry.metadata for entry in (await groups.fetch()).offsets} == {"again"}

    run(story)


def test_a_group_is_reset_and_deleted_while_it_has_no_member_and_its_binned_topics_do_not_matter() -> None:
    async def story(groups: Groups) -> None:
        reset = pb.ResetOffsetsRequest(group=READERS, offsets=[groups.place(0)])
        delete = pb.DeleteGroupRequest(group=READERS)
        assert (await groups.call(methods.DELETE_GROUP, delete)).error == ErrorCode.GROUP_NOT_FOUND
        await groups.beat()
        for method, request in ((methods.RESET_OFFSETS, reset), (methods.DELETE_GROUP, delete)):
            assert (await groups.call(method, request)).error == ErrorCode.GROUP_NOT_EMPTY
        await groups.beat(epoch=LEAVE)
        assert (await groups.call(methods.RESET_OFFSETS, reset)).error == 0
        beyond = pb.ResetOffsetsRequest(group=READERS, offsets=[groups.place(0, 1), groups.place(9)])
        assert (await groups.call(methods.RESET_OFFSETS, beyond)).error == ErrorCode.OFFSET_OUT_OF_RANGE
        assert [(entry.partition, entry.offset) for entry in (await groups.fetch()).offsets] == [(0, 0)]
        binned = admin_pb2.BinTopicRequest(
            topic_id=groups.brokers.where().topic_id, tenant=TENANT, generation=9
        )
        await groups.brokers.cluster.admin_call(own_methods.BIN_TOPIC, binned.SerializeToString())
        await asyncio.sleep(SOON_S)
        await groups.key("reader", grant("", "group"), grant("others", "topic"))
        assert (await groups.call(methods.DELETE_GROUP, delete, "reader")).error == 0
        assert (await groups.describe()).error == ErrorCode.GROUP_NOT_FOUND

    run(story)


def test_a_group_that_begins_takes_one_of_the_tenants_seats_however_it_begins() -> None:
    async def story(groups: Groups) -> None:
        await groups.brokers.put_tenant(quotas=admin_pb2.TenantQuotas(groups_max=2))
        assert [entry.error for entry in (await groups.commit(groups.place(0), group="by hand")).results] == [
            0
        ]
        assert not (await groups.beat()).error
        assert not (await groups.commit(groups.place(0), member="a", epoch=1)).error
        refused = await groups.commit(groups.place(0), group="third")
        assert refused.error == ErrorCode.LIMIT_EXCEEDED and "2" in refused.message
        assert (await groups.beat(group="third")).error == ErrorCode.LIMIT_EXCEEDED
        refusals = groups.brokers.node().stats.limit_refusals
        assert refusals.of(TENANT, "groups_max") == 2
        assert not (await groups.commit(groups.place(0), group="by hand")).error, "it has its seat"
        assert [entry[0] for entry in await groups.listed()] == ["by hand", READERS]

    run(story)
