"""Groups belong to their tenant and keys; what a coordinator is asked wrongly is refused by name."""

import grpc
import pytest

import penstock
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import groups_pb2 as pb
from tests.integration.brokers import Brokers, Tenant
from tests.integration.groups.watching import coordinator_of
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes


def asked(cluster: Brokers, tenant: Tenant, broker: int, method: str, request: bytes) -> bytes:
    with grpc.insecure_channel(cluster.spec.broker(broker).client_address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        return call(request, timeout=PATIENCE_S, metadata=(("authorization", f"Bearer {tenant.api_key}"),))


def beat(group: str = "readers", **more: object) -> bytes:
    fields: dict[str, object] = {
        "member_id": "m-1",
        "topics": ["orders"],
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        **more,
    }
    return pb.GroupHeartbeatRequest(group=group, **fields).SerializeToString()  # type: ignore[arg-type]


def test_the_same_name_in_two_tenants_is_two_groups(cluster: Brokers) -> None:
    anna, bert = cluster.tenant("anna"), cluster.tenant("bert")
    for tenant in (anna, bert):
        cluster.create_topic(tenant, "orders", 1)
    with cluster.client(anna) as client:
        with client.producer() as producer:
            producer.send("orders", b"hers").result(PATIENCE_S)
        with client.consumer("orders", group="readers") as consumer:
            assert len(consumer.poll(timeout=PATIENCE_S)) == 1
        assert client.group("readers").offsets == {("orders", 0): 1}
    with cluster.client(bert) as client:
        assert client.groups() == []
        with pytest.raises(penstock.GroupNotFound):
            client.group("readers")
        with pytest.raises(penstock.GroupNotFound):
            client.reset_group("readers", {("orders", 0): 0})
        with client.consumer("orders", group="readers") as consumer:
            assert consumer.poll(timeout=1) == []
            assert consumer.committed(timeout=PATIENCE_S) in ({}, {("orders", 0): 0})


def test_offsets_of_another_tenants_topic_are_not_kept(cluster: Brokers) -> None:
    anna, bert = cluster.tenant("anna-two"), cluster.tenant("bert-two")
    hers = cluster.create_topic(anna, "orders", 1)
    request = pb.CommitOffsetsRequest(group="spy", member_epoch=-1)
    request.offsets.add(topic_id=hers, partition=0, offset=0)
    broker = coordinator_of(cluster, bert.name, "spy")
    answer = pb.CommitOffsetsResponse.FromString(
        asked(cluster, bert, broker, methods.COMMIT_OFFSETS, request.SerializeToString())
    )
    assert [result.error for result in answer.results] == [ErrorCode.NOT_FOUND]
    assert "orders" not in answer.results[0].message


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"group": ""}, ErrorCode.INVALID_REQUEST, "group: ''"),
        ({"group": "a" * 250}, ErrorCode.INVALID_REQUEST, "1 to 249 printable"),
        ({"group": "a\nb"}, ErrorCode.INVALID_REQUEST, "printable"),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST, "member_id"),
        ({"topics": []}, ErrorCode.INVALID_REQUEST, "topics"),
        ({"topics": ["nothing"]}, ErrorCode.NOT_FOUND, "'nothing' does not exist"),
        ({"session_timeout_ms": 5}, ErrorCode.INVALID_REQUEST, "session_timeout_ms: 5 is not within"),
        ({"rebalance_timeout_ms": 0}, ErrorCode.INVALID_REQUEST, "rebalance_timeout_ms: 0"),
        ({"assignor": "fair"}, ErrorCode.INVALID_REQUEST, "assignor: 'fair'"),
        ({"member_epoch": -7}, ErrorCode.INVALID_REQUEST, "member_epoch: -7"),
        ({"member_epoch": 4}, ErrorCode.UNKNOWN_MEMBER, "no member m-1"),
        ({"member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER, "no member m-1"),
    ],
)
def test_a_wrong_heartbeat_is_refused_by_name(
    cluster: Brokers, changes: dict[str, object], code: ErrorCode, message: str
) -> None:
    tenant = cluster.tenant("wrong")
    if not _topics(cluster, tenant):
        cluster.create_topic(tenant, "orders", 1)
    broker = coordinator_of(cluster, tenant.name, str(changes.get("group", "readers")))
    answer = pb.GroupHeartbeatResponse.FromString(
        asked(cluster, tenant, broker, methods.GROUP_HEARTBEAT, beat(**changes))  # type: ignore[arg-type]
    )
    assert (answer.error, message in answer.message) == (code, True), answer


def _topics(cluster: Brokers, tenant: Tenant) -> list[penstock.TopicDescription]:
    with cluster.client(tenant) as client:
        return client.topics()


def test_a_broker_that_does_not_coordinate_says_so(cluster: Brokers) -> None:
    tenant = cluster.tenant("elsewhere")
    cluster.create_topic(tenant, "orders", 1)
    right = coordinator_of(cluster, tenant.name, "readers")
    wrong = next(number for number in cluster.ids if number != right)
    answer = pb.GroupHeartbeatResponse.FromString(
        asked(cluster, tenant, wrong, methods.GROUP_HEARTBEAT, beat())
    )
    assert answer.error == ErrorCode.NOT_COORDINATOR
    found = pb.FindCoordinatorResponse.FromString(
        asked(
            cluster,
            tenant,
            wrong,
            methods.FIND_COORDINATOR,
            pb.FindCoordinatorRequest(group="readers").SerializeToString(),
        )
    )
    assert (found.broker_id, found.address) == (right, cluster.spec.broker(right).client_address)


def test_a_revoked_key_ends_its_membership(cluster: Brokers) -> None:
    tenant = cluster.tenant("revoked")
    cluster.create_topic(tenant, "orders", 1)
    other = cluster.another_key(tenant.name)
    with cluster.client(other) as client, client.consumer("orders", group="readers") as consumer:

        def assigned() -> bool:
            consumer.poll(timeout=0.2)
            return consumer.assignment() == [("orders", 0)]

        wait_until("it is a member", assigned)
        cluster.revoke(other)
        with pytest.raises(penstock.Unauthenticated):
            wait_until("it is refused", lambda: bool(consumer.poll(timeout=0.2)))


def test_clients_cannot_write_the_coordinators_log(cluster: Brokers) -> None:
    system = cluster.another_key("_system")
    with cluster.client(system) as client, client.producer() as producer:
        delivery = producer.send("__groups", b"forged", key=b"[]")
        with pytest.raises(penstock.Forbidden, match="only the coordinators of groups write it"):
            delivery.result(PATIENCE_S)
