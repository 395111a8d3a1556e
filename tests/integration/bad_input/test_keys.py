"""Keys and secrets that are wrong, missing, revoked, or presented at the wrong door."""

from collections.abc import Callable

import grpc
import pytest

from data_plane.broker.peer_wire import Form
from data_plane.contract import admin_pb2
from data_plane.contract import methods as internal
from data_plane.contract import replication_pb2 as replication
from local.provisioning import new_key
from penstock import OutcomeUnknown, Unauthenticated
from penstock.contract import methods
from penstock.contract.api_keys import ApiKey, parse_api_key
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.v1 import log_pb2 as pb
from tests.certificates import authority, own, write
from tests.integration.brokers import Brokers, Tenant
from tests.integration.raw_wire import (
    ConsumeWire,
    ProduceWire,
    RawPeer,
    RawStream,
    Refused,
    Who,
    batch_of,
    call,
    with_key,
)
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("unharmed")]


def with_wrong_secret(tenant: Tenant) -> str:
    """The tenant's key with another secret and a checksum that holds."""
    right, other = parse_api_key(tenant.api_key), new_key()
    return ApiKey(env=right.env, key_id=right.key_id, secret=other.secret).reveal()


WRONG_KEYS: dict[str, tuple[Callable[[Tenant], str], str]] = {
    "unknown id": (lambda tenant: new_key().reveal(), "the API key is not valid"),
    "wrong secret": (with_wrong_secret, "the API key is not valid"),
    "cut": (lambda tenant: tenant.api_key[:-7], "not of the form penstock_<env>_<id>_<secret>"),
    "mistyped": (lambda tenant: tenant.api_key.swapcase().replace("PENSTOCK_DEV", "penstock_dev"), "checksum is wrong"),
    "no key": (lambda tenant: "hunter2", "not of the form penstock_<env>_<id>_<secret>"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG_KEYS)
def test_a_wrong_key_is_refused_everywhere_and_never_repeated(
    cluster: Brokers, tenant: Tenant, kind: str
) -> None:
    make, reason = WRONG_KEYS[kind]
    wrong = make(tenant)
    address = cluster.bootstrap[0]
    refusals: list[Refused] = []
    with pytest.raises(Refused) as refused:
        call(address, methods.METADATA, b"", pb.MetadataResponse, with_key(wrong))
    refusals.append(refused.value)
    for wire in (ProduceWire(address, wrong), ConsumeWire(address, wrong)):
        with wire:
            refusals.append(wire.end())
    for refusal in refusals:
        assert (refusal.code, refusal.status) == (
            ErrorCode.UNAUTHENTICATED,
            grpc.StatusCode.UNAUTHENTICATED,
        )
        assert reason in refusal.message
        assert wrong not in refusal.message
    impostor = Tenant(name=tenant.name, api_key=wrong)
    with cluster.client(impostor) as client, pytest.raises(Unauthenticated, match=reason) as raised:
        client.topics()
    assert "PENSTOCK_API_KEY" in raised.value.remedy
    with cluster.client(impostor) as client, client.producer() as producer:
        with pytest.raises(Unauthenticated, match=reason):
            producer.send("orders", b"x").result(PATIENCE_S)
        with client.consumer(["orders"]) as consumer, pytest.raises(Unauthenticated, match=reason):
            consumer.poll(timeout=PATIENCE_S)


def test_a_call_without_a_key_is_refused(cluster: Brokers) -> None:
    basic = ((methods.AUTHORIZATION, "Basic dXNlcjpwYXNz"),)
    for metadata, said in (((), "no API key was sent"), (basic, "no 'Bearer <api key>' was sent")):
        with pytest.raises(Refused, match=said) as refused:
            call(cluster.bootstrap[0], methods.METADATA, b"", pb.MetadataResponse, metadata)
        assert refused.value.code == ErrorCode.UNAUTHENTICATED


def test_a_key_that_is_revoked_is_refused_on_open_streams(cluster: Brokers, tenant: Tenant) -> None:
    doomed = cluster.another_key(tenant.name)
    topic_id = cluster.create_topic(tenant, "revoked")
    address = cluster.spec.broker(cluster.leader(topic_id)).client_address
    with ProduceWire(address, doomed.api_key) as producing, ConsumeWire(address, doomed.api_key) as consuming:
        assert producing.produce(topic_id, 0, batch_of(b"before")).error == ErrorCode.OK
        consuming.open(topic_id, 0, credit=1 << 20)
        (push,), _ = consuming.pushes()
        assert push.error == ErrorCode.OK
        cluster.revoke(doomed)
        ended = consuming.end()
        producing.put([(topic_id, 0, batch_of(b"after"))])
        refused = producing.end()
    for refusal in (ended, refused):
        assert refusal.code == ErrorCode.UNAUTHENTICATED
        assert refusal.message == "the API key was revoked or has expired"
    with cluster.client(tenant) as client, client.consumer(["revoked"]) as consumer:
        assert [message.value for message in consumer.poll(timeout=PATIENCE_S)] == [b"before"]
        assert consumer.end_offsets() == {("revoked", 0): 1}


def test_the_sdk_tells_a_producer_and_a_consumer_that_their_key_was_revoked(
    cluster: Brokers, tenant: Tenant
) -> None:
    doomed = cluster.another_key(tenant.name)
    cluster.create_topic(tenant, "revoked-sdk")
    with cluster.client(doomed) as client:
        producer, consumer = client.producer(linger_ms=0), client.consumer(["revoked-sdk"])
        producer.send("revoked-sdk", b"before").result(PATIENCE_S)
        assert [message.value for message in consumer.poll(timeout=PATIENCE_S)] == [b"before"]
        cluster.revoke(doomed)
        # What is on its way when a stream ends may have been applied, so the first may only be called unknown.
        with pytest.raises((Unauthenticated, OutcomeUnknown), match="revoked"):
            producer.send("revoked-sdk", b"after").result(PATIENCE_S)
        with pytest.raises(Unauthenticated, match="revoked"):
            producer.send("revoked-sdk", b"after").result(PATIENCE_S)
        with pytest.raises(Unauthenticated, match="revoked"):
            consumer.poll(timeout=PATIENCE_S)
        with pytest.raises(Unauthenticated, match="was revoked"):
            client.topics()
    with cluster.client(tenant) as client:
        client.producer().send("revoked-sdk", b"another key of the tenant").result(PATIENCE_S)


INTERNAL_CALLS = sorted(path for path in vars(internal).values() if ".Admin/" in str(path))
PASSED_ON = {
    internal.DESCRIBE_MOVES,
    internal.DESCRIBE_KEY_USE,
    internal.DESCRIBE_TENANT_USE,
    internal.TOPIC_DURABILITY,
}
"""Calls that brokers take from one another too."""
PEER_STREAMS = [internal.REPLICATE, internal.CONTROL, internal.LEASES, internal.STORAGE, internal.BUDGETS]
PEER_CALLS = [internal.HAND_OVER, internal.REPLICA_ENDS, internal.APPEND_USAGE, internal.CUT_PARTITIONS]


def intruders(cluster: Brokers, tenant: Tenant) -> dict[str, tuple[Who, str]]:
    """Who has no business within the cluster, by name, and what they hear."""
    folder = cluster.directory.path / "intruders"
    other = write(folder / "of-another-cluster", "operator", ca=authority("another-cluster"))
    return {
        "nobody": ((), ""),
        "a tenant": (with_key(tenant.api_key), ""),
        "another cluster's operator": (own(other, "operator"), ""),
        "the runner": (cluster.issued("runner"), "runner may not call"),
        "a broker": (cluster.as_broker(1), "broker-1 may not call"),
    }


def beat() -> bytes:
    """What a controller would say, with an epoch above all others."""
    head = replication.BeatHead(broker_id=1, broker_epoch=2**62, controller_epoch=2**62)
    return pack_frame(FrameKind.BEAT, head.SerializeToString())


@pytest.mark.parametrize(
    "name", ["nobody", "a tenant", "another cluster's operator", "the runner", "a broker"]
)
def test_the_internal_listener_refuses_those_whom_the_table_does_not_name(
    cluster: Brokers, tenant: Tenant, name: str
) -> None:
    who, said = intruders(cluster, tenant)[name]
    request = admin_pb2.PutTenantRequest(tenant="tn_intruder")
    for broker in cluster.spec.brokers:
        for method in sorted({*INTERNAL_CALLS} - PASSED_ON):
            with pytest.raises(Refused) as refused:
                call(broker.internal_address, method, request, admin_pb2.Outcome, who)
            if said:
                assert refused.value.code == ErrorCode.UNAUTHENTICATED
                assert refused.value.message.startswith(said)
            else:
                assert refused.value.status is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("role", ["runner", "operator", "control-plane"])
def test_the_peer_listener_takes_streams_of_brokers_alone(cluster: Brokers, role: str) -> None:
    for broker in cluster.spec.brokers:
        for method in PEER_STREAMS:
            with RawPeer(broker.peer_address, method, cluster.issued(role)) as stream:
                stream.send(beat())
                ended = stream.end()
            assert ended.code == ErrorCode.UNAUTHENTICATED
            assert ended.message == f"{role} may not call {method}: broker required"


def test_what_only_brokers_ask_is_not_offered_by_the_internal_listener(
    cluster: Brokers, tenant: Tenant
) -> None:
    address = cluster.spec.brokers[0].internal_address
    for method in PEER_STREAMS:
        with RawStream(address, method, cluster.as_broker(2)) as stream:
            stream.send(beat())
            assert stream.end().status is grpc.StatusCode.UNIMPLEMENTED
    for method in PEER_CALLS:
        with pytest.raises(Refused) as refused:
            call(address, method, b"", admin_pb2.Outcome, cluster.as_broker(2))
        assert refused.value.status is grpc.StatusCode.UNIMPLEMENTED


def test_admin_calls_are_not_offered_by_the_peer_listener(cluster: Brokers, tenant: Tenant) -> None:
    who = cluster.issued("control-plane")
    for method in sorted({*INTERNAL_CALLS} - PASSED_ON):
        with RawPeer(cluster.spec.brokers[0].peer_address, method, who, form=Form.CALL) as asked:
            asked.send(admin_pb2.PutTenantRequest(tenant="tn_intruder").SerializeToString())
            ended = asked.end()
        assert (ended.code, ended.message) == (ErrorCode.INVALID_REQUEST, f"{method}: no such call")


def test_clients_methods_are_not_offered_by_the_internal_listener(cluster: Brokers, tenant: Tenant) -> None:
    for method in (methods.METADATA, methods.LIST_OFFSETS, methods.INIT_PRODUCER):
        with pytest.raises(Refused) as refused:
            call(cluster.spec.brokers[0].internal_address, method, b"", pb.MetadataResponse, cluster.operator)
        assert refused.value.status is grpc.StatusCode.UNIMPLEMENTED


def test_internal_methods_are_not_offered_by_the_client_listener(cluster: Brokers, tenant: Tenant) -> None:
    both = with_key(tenant.api_key)
    for method in INTERNAL_CALLS:
        with pytest.raises(Refused) as refused:
            call(cluster.bootstrap[0], method, b"", admin_pb2.Outcome, both)
        assert refused.value.status is grpc.StatusCode.UNIMPLEMENTED
    for method in PEER_STREAMS:
        with RawStream(cluster.bootstrap[0], method, both) as stream:
            stream.send(beat())
            assert stream.end().status is grpc.StatusCode.UNIMPLEMENTED
