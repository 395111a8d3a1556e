"""Every gRPC method against callers who have no business with a tenant: the rows are `penstock.contract.methods`.

A method without a row fails. What a stranger hears of a topic or group that exists is what they hear of one that does
not; what was written and committed stands in no answer to others, in no log and in no metric.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from data_plane.contract import methods as own_methods
from data_plane.contract.admin_pb2 import Binding
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import groups_pb2 as groups
from penstock.contract.v1 import log_pb2 as pb
from penstock.contract.v1 import proof_pb2 as proof
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.raw_wire import (
    ConsumeWire,
    ProduceWire,
    RawStream,
    Refused,
    batch_of,
    call,
    with_key,
)
from tests.waiting import PATIENCE_S

from .test_access import Key

pytestmark = pytest.mark.processes

CANARY = "canary-51d0"
"""In what the watched tenant writes, commits and names."""
Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a request is about."""

    address: str
    topic: str
    topic_id: bytes
    group: str


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a call came to."""

    code: ErrorCode
    text: str
    """The message and all that was answered beside it."""


_TELLS = ("topics", "partitions", "results")
"""Fields of answers whose parts may have an error each."""
Ask = Callable[[Place, Metadata], Heard]


def unary(method: str, answer: type[Message], request: Callable[[Place], Message]) -> Ask:
    def ask(place: Place, who: Metadata) -> Heard:
        got = call(place.address, method, request(place), answer, who)
        return Heard(code=_code_within(got), text=str(got))

    return ask


def _code_within(answer: Message) -> ErrorCode:
    """The answer's error, or that of the first thing it tells of."""
    told = [answer, *(value[0] for field, value in answer.ListFields() if field.name in _TELLS)]
    return next((ErrorCode(one.error) for one in told if getattr(one, "error", 0)), ErrorCode.OK)


def produce(place: Place, who: Metadata) -> Heard:
    with _Produce(place.address, who) as wire:
        result = wire.produce(place.topic_id, 0, batch_of(b"by hand"))
    return Heard(code=ErrorCode(result.error), text=result.message)


def consume(place: Place, who: Metadata) -> Heard:
    with _Consume(place.address, who) as wire:
        wire.open(place.topic_id, 0, credit=1 << 20)
        (push,), payload = wire.pushes()
    return Heard(code=ErrorCode(push.error), text=f"{push} {payload!r}")


class _Produce(ProduceWire):
    def __init__(self, address: str, who: Metadata) -> None:
        RawStream.__init__(self, address, methods.PRODUCE, who)
        self._next_id = 0


class _Consume(ConsumeWire):
    def __init__(self, address: str, who: Metadata) -> None:
        RawStream.__init__(self, address, methods.CONSUME, who)


def watch(place: Place, who: Metadata) -> Heard:
    request = pb.WatchMetadataRequest(topics=[place.topic]).SerializeToString()
    with grpc.insecure_channel(place.address) as channel:
        opened: Any = channel.unary_stream(methods.WATCH_METADATA)
        stream = opened(request, timeout=PATIENCE_S, metadata=who)
        try:
            first = pb.MetadataResponse.FromString(next(stream))
        except grpc.RpcError as error:
            trailing = {one.key: one.value for one in error.trailing_metadata() or ()}
            code = ErrorCode(int(trailing[methods.ERROR_CODE]))
            raise Refused(code=code, status=error.code(), message=error.details() or "") from None
        stream.cancel()
    return Heard(code=_code_within(first), text=str(first))


def _offsets(place: Place) -> list[groups.OffsetCommit]:
    return [groups.OffsetCommit(topic_id=place.topic_id, partition=0, offset=1, leader_epoch=-1)]


def _at_partition(
    request: Callable[..., Message], each: Callable[..., Message], **more: int
) -> Callable[[Place], Message]:
    return lambda place: request(
        partitions=[each(topic_id=place.topic_id, partition=0, leader_epoch=-1, **more)]
    )


def _joining(place: Place) -> groups.GroupHeartbeatRequest:
    return groups.GroupHeartbeatRequest(
        group=f"{place.group}-joined",
        member_id="m-1",
        topics=[place.topic],
        assignor="range",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
    )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method: how it is asked, and what the columns must hear that differ from method to method."""

    ask: Ask
    stranger: ErrorCode = ErrorCode.NOT_FOUND
    """Of another tenant, with a key that may do everything there."""
    bound_elsewhere: ErrorCode = ErrorCode.NOT_FOUND
    """A key of the tenant whose scopes name other topics and groups."""
    wrong_operation: ErrorCode = ErrorCode.FORBIDDEN
    """A key of the tenant that sees the topic and may only produce to it, or consume where the method produces."""


_OF_GROUPS = {"bound_elsewhere": ErrorCode.FORBIDDEN}
_DESCRIBED = {"wrong_operation": ErrorCode.OK}
"""Who may do something to a topic or group may have it described."""
_OF_THE_TENANT = {
    "stranger": ErrorCode.OK,
    "bound_elsewhere": ErrorCode.OK,
    "wrong_operation": ErrorCode.OK,
}
"""It is about the caller's own tenant whatever it says."""

ROWS = {
    methods.PRODUCE: Row(ask=produce),
    methods.CONSUME: Row(ask=consume),
    methods.WATCH_METADATA: Row(ask=watch, wrong_operation=ErrorCode.OK),
    methods.METADATA: Row(
        ask=unary(
            methods.METADATA, pb.MetadataResponse, lambda place: pb.MetadataRequest(topics=[place.topic])
        ),
        wrong_operation=ErrorCode.OK,
    ),
    methods.LIST_OFFSETS: Row(
        ask=unary(
            methods.LIST_OFFSETS,
            pb.ListOffsetsResponse,
            _at_partition(pb.ListOffsetsRequest, pb.ListOffset, timestamp_ms=-1),
        )
    ),
    methods.INIT_PRODUCER: Row(
        ask=unary(
            methods.INIT_PRODUCER,
            pb.InitProducerResponse,
            lambda _: pb.InitProducerRequest(producer_id=-1, producer_epoch=-1),
        ),
        **_OF_THE_TENANT,
    ),
    methods.REPORT_KEYS: Row(
        ask=unary(
            methods.REPORT_KEYS,
            pb.ReportKeysResponse,
            lambda place: pb.ReportKeysRequest(partitions=[pb.KeyReport(topic_id=place.topic_id)]),
        )
    ),
    methods.DELETE_RECORDS: Row(
        ask=unary(
            methods.DELETE_RECORDS,
            pb.DeleteRecordsResponse,
            _at_partition(pb.DeleteRecordsRequest, pb.DeleteRecords, before_offset=0),
        )
    ),
    methods.DESCRIBE_DURABILITY: Row(
        ask=unary(
            methods.DESCRIBE_DURABILITY,
            pb.DescribeDurabilityResponse,
            _at_partition(pb.DescribeDurabilityRequest, pb.DurabilityQuestion),
        ),
        **_DESCRIBED,
    ),
    methods.FIND_COORDINATOR: Row(
        ask=unary(
            methods.FIND_COORDINATOR,
            groups.FindCoordinatorResponse,
            lambda place: groups.FindCoordinatorRequest(group=place.group),
        ),
        stranger=ErrorCode.OK,
        **_OF_GROUPS,
        **_DESCRIBED,
    ),
    methods.GROUP_HEARTBEAT: Row(
        ask=unary(methods.GROUP_HEARTBEAT, groups.GroupHeartbeatResponse, _joining), **_OF_GROUPS
    ),
    methods.COMMIT_OFFSETS: Row(
        ask=unary(
            methods.COMMIT_OFFSETS,
            groups.CommitOffsetsResponse,
            lambda place: groups.CommitOffsetsRequest(
                group=place.group, member_epoch=-1, offsets=_offsets(place)
            ),
        ),
        **_OF_GROUPS,
    ),
    methods.FETCH_COMMITTED: Row(
        ask=unary(
            methods.FETCH_COMMITTED,
            groups.FetchCommittedResponse,
            lambda place: groups.FetchCommittedRequest(
                group=place.group,
                member_epoch=-1,
                partitions=[groups.GroupPartition(topic_id=place.topic_id, partition=0)],
            ),
        ),
        stranger=ErrorCode.OK,
        **_OF_GROUPS,
        **_DESCRIBED,
    ),
    methods.LIST_GROUPS: Row(
        ask=unary(methods.LIST_GROUPS, groups.ListGroupsResponse, lambda _: groups.ListGroupsRequest()),
        **_OF_THE_TENANT,
    ),
    methods.DESCRIBE_GROUP: Row(
        ask=unary(
            methods.DESCRIBE_GROUP,
            groups.DescribeGroupResponse,
            lambda place: groups.DescribeGroupRequest(group=f"{place.group}-described"),
        ),
        stranger=ErrorCode.GROUP_NOT_FOUND,
        **_OF_GROUPS,
        **_DESCRIBED,
    ),
    methods.RESET_OFFSETS: Row(
        ask=unary(
            methods.RESET_OFFSETS,
            groups.GroupChangeResponse,
            lambda place: groups.ResetOffsetsRequest(group=place.group, offsets=_offsets(place)),
        ),
        **_OF_GROUPS,
    ),
    methods.DELETE_GROUP: Row(
        ask=unary(
            methods.DELETE_GROUP,
            groups.GroupChangeResponse,
            lambda place: groups.DeleteGroupRequest(group=f"{place.group}-doomed"),
        ),
        stranger=ErrorCode.GROUP_NOT_FOUND,
        **_OF_GROUPS,
    ),
    methods.READ_STAMPED: Row(
        ask=unary(
            methods.READ_STAMPED,
            proof.ReadStampedResponse,
            lambda place: proof.ReadStampedRequest(
                topic_id=place.topic_id, partition=0, offset=0, bytes_max=1 << 16
            ),
        )
    ),
    methods.READ_SEALS: Row(
        ask=unary(
            methods.READ_SEALS,
            proof.ReadSealsResponse,
            lambda place: proof.ReadSealsRequest(topic_id=place.topic_id, partition=0, above_offset=-1),
        )
    ),
    methods.READ_COMMITMENTS: Row(
        ask=unary(
            methods.READ_COMMITMENTS, proof.ReadCommitmentsResponse, lambda _: proof.ReadCommitmentsRequest()
        ),
        **_OF_THE_TENANT,
    ),
}


@dataclass(frozen=True, kw_only=True)
class World:
    """A cluster with a watched tenant whose topic and group are full of canaries, and a stranger."""

    cluster: Brokers
    owner: Tenant
    stranger: Tenant
    real: Place
    nothing: Place
    """No tenant has it."""
    bound_elsewhere: str
    may_consume: str
    may_produce: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with brokers(tmp_path_factory.mktemp("cluster"), 1, internal_topics=True) as cluster:
        owner, stranger = cluster.tenant("tn_watched"), cluster.tenant("tn_stranger")
        topic = f"{CANARY}.orders"
        topic_id = cluster.create_topic(owner, topic)
        cluster.create_topic(stranger, "elsewhere")
        address = cluster.spec.brokers[0].client_address
        real = Place(address=address, topic=topic, topic_id=topic_id, group=f"{CANARY}-readers")
        nothing = Place(
            address=address,
            topic=topic[:-3] + "zzz",
            topic_id=secrets.token_bytes(len(topic_id)),
            group=real.group[:-3] + "zzz",
        )
        _fill(cluster, owner, real)
        yield World(
            cluster=cluster,
            owner=owner,
            stranger=stranger,
            real=real,
            nothing=nothing,
            bound_elsewhere=_bound(cluster, owner, "elsewhere"),
            may_consume=_bound(cluster, owner, CANARY, "consume"),
            may_produce=_bound(cluster, owner, CANARY, "produce"),
        )


def _fill(cluster: Brokers, owner: Tenant, place: Place) -> None:
    with cluster.client(owner) as client:
        producer = client.producer(linger_ms=0)
        for number in range(10):
            producer.send(place.topic, f"{CANARY} {number}".encode(), key=CANARY.encode()).result(PATIENCE_S)
    commit = groups.OffsetCommit(
        topic_id=place.topic_id, partition=0, offset=5, leader_epoch=-1, metadata=f"{CANARY} metadata"
    )
    for group in (place.group, f"{place.group}-doomed", f"{place.group}-described"):
        request = groups.CommitOffsetsRequest(group=group, member_epoch=-1, offsets=[commit])
        answer = call(
            place.address,
            methods.COMMIT_OFFSETS,
            request,
            groups.CommitOffsetsResponse,
            with_key(owner.api_key),
        )
        assert _code_within(answer) == ErrorCode.OK, answer


def _bound(cluster: Brokers, tenant: Tenant, prefix: str, *operations: str) -> str:
    key = Key(cluster, tenant)
    key.put(
        generation=1,
        bindings=[
            Binding(topic_prefix=prefix, operations=operations),
        ],
    )
    return key.holder.api_key


def heard(row: Row, place: Place, who: Metadata) -> Heard:
    """As `row.ask`, also where the whole call or stream is refused."""
    try:
        return row.ask(place, who)
    except Refused as refused:
        assert refused.code is not None, refused
        return Heard(code=refused.code, text=refused.message)


def test_every_method_has_a_row() -> None:
    assert {value for value in vars(methods).values() if str(value).startswith("/penstock.")} == ROWS.keys()


@pytest.mark.parametrize("method", ROWS)
def test_no_credential_that_does_not_hold_is_let_in(method: str, world: World) -> None:
    row = ROWS[method]
    malformed = [
        (),
        *(
            ((methods.AUTHORIZATION, text),)
            for text in (
                "",
                "Bearer",
                "Bearer ",
                "Basic b3duZXI=",
                "Bearer penstock_dev_x",
                "Bearer " + "x" * 4_000,
            )
        ),
        ((methods.AUTHORIZATION, f"Bearer {world.owner.api_key[:-1]}"),),
        ((methods.AUTHORIZATION, world.owner.api_key),),
    ]
    for who in [*malformed, *(with_key(key) for key in _ended(world))]:
        got = heard(row, world.real, who)
        # Who fails often from one address hears that instead.
        often = got.code == ErrorCode.THROTTLED and "too many failed authentications" in got.text
        assert often or got.code == ErrorCode.UNAUTHENTICATED, (who, got)
        assert CANARY not in got.text
    got = heard(row, world.real, with_key(_suspended(world)))
    assert got.code == ErrorCode.FORBIDDEN and "is suspended" in got.text, got


_MADE: dict[str, list[str] | str] = {}


def _ended(world: World) -> list[str]:
    """A revoked key and an expired one."""
    if "ended" not in _MADE:
        revoked = world.cluster.another_key(world.owner.name)
        world.cluster.revoke(revoked)
        expired = Key(world.cluster, world.owner)
        expired.put(generation=1, expires_at_ms=int(time.time() * 1000) - 1)
        _MADE["ended"] = [revoked.api_key, expired.holder.api_key]
    return list(_MADE["ended"])


def _suspended(world: World) -> str:
    """A key of a tenant that is suspended."""
    if "suspended" not in _MADE:
        asleep = world.cluster.tenant("tn_asleep")
        world.cluster.admin.wait_until_seen(
            world.cluster.admin.put_tenant(asleep.name, generation=2, suspended=True)
        )
        _MADE["suspended"] = asleep.api_key
    return str(_MADE["suspended"])


@pytest.mark.parametrize("method", ROWS)
def test_strangers_hear_what_they_would_of_what_is_not_there(method: str, world: World) -> None:
    row = ROWS[method]
    columns = [
        ("stranger", world.stranger.api_key, row.stranger),
        ("bound elsewhere", world.bound_elsewhere, row.bound_elsewhere),
    ]
    for column, api_key, expected in columns:
        there, absent = (heard(row, place, with_key(api_key)) for place in (world.real, world.nothing))
        assert there.code == expected, (column, there)
        # What is about the caller's own tenant says something new each time.
        if row.stranger != ErrorCode.OK:
            assert (there.code, _blind(there.text, world)) == (absent.code, _blind(absent.text, world)), (
                column
            )
        assert CANARY not in _blind(there.text, world), column


def _blind(text: str, world: World) -> str:
    """Without what the question named, and without numbers that are given anew each time."""
    for place in (world.real, world.nothing):
        for named in (place.topic, place.group, place.topic_id.hex(), repr(place.topic_id)[2:-1]):
            text = text.replace(named, "…")
    return text


@pytest.mark.parametrize("method", ROWS)
def test_a_key_does_only_what_its_scopes_grant(method: str, world: World) -> None:
    row = ROWS[method]
    key = world.may_consume if method in (methods.PRODUCE, methods.REPORT_KEYS) else world.may_produce
    got = heard(row, world.real, with_key(key))
    assert got.code == row.wrong_operation, got
    assert got.code == ErrorCode.OK or f"{CANARY} " not in got.text


@pytest.mark.parametrize("method", ROWS)
def test_the_tenants_own_key_is_served(method: str, world: World) -> None:
    """Without this row, a matrix whose requests were wrong would hold."""
    got = heard(ROWS[method], world.real, with_key(world.owner.api_key))
    assert got.code == ErrorCode.OK, got


def test_methods_of_the_service_are_not_there_for_clients(world: World) -> None:
    inner = [value for value in vars(own_methods).values() if str(value).startswith("/penstock.")]
    assert len(inner) > 20
    for method in inner:
        for who in ((), with_key(world.owner.api_key)):
            with pytest.raises(Refused) as refused:
                call(world.real.address, method, b"", pb.MetadataResponse, who)
            assert refused.value.status in (
                grpc.StatusCode.UNIMPLEMENTED,
                grpc.StatusCode.UNAUTHENTICATED,
            ), (method, refused.value)


def test_what_was_written_is_in_no_log_and_no_metric(world: World) -> None:
    for path in ("/metrics", "/healthz", "/readyz"):
        assert f"{CANARY} " not in world.cluster.http(1, path)[1]
    assert f"{CANARY} " not in world.cluster.output(1)
