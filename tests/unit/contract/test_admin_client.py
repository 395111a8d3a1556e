"""The Admin client against a real gRPC server that answers as a test says."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from daemon.identity import identity_of_grpc
from daemon.tls import OwnIdentity
from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.contract.admin_client import AdminClient
from data_plane.contract.broker_calls import NotSupported, Outrun
from penstock.contract.errors import (
    AlreadyExists,
    BrokerUnavailable,
    ErrorCode,
    OutcomeUnknown,
    ShuttingDown,
)
from penstock.contract.methods import ERROR_CODE
from penstock.contract.topic_settings import TopicSettings
from tests.certificates import authority, identity, own, server_credentials, write
from tests.waiting import PATIENCE_S, wait_until

Answer = Callable[[bytes, grpc.ServicerContext], bytes]


class StandIn:
    """A broker's internal listener: `answers` by method path; `calls` keeps what was asked, in order."""

    def __init__(self, who: OwnIdentity | None = None, port: int = 0) -> None:
        """`who` serves; broker 1 unless given."""
        self.answers: dict[str, Answer] = {methods.DESCRIBE_CLUSTER: self._describe}
        self.calls: list[tuple[str, bytes]] = []
        self.callers: list[str] = []
        """Who asked, as its certificate said, in order."""
        self.certificates: list[bytes] = []
        self.revision = 0
        self.server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers((_Router(self),))
        credentials = server_credentials(who or identity("broker-1"))
        self.port = self.server.add_secure_port(f"127.0.0.1:{port}", credentials)
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def _describe(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        brokers = [
            pb.DescribedBroker(id=1, state="active", internal_address=self.address),
            pb.DescribedBroker(id=2, state="fenced", internal_address="127.0.0.1:1"),
        ]
        answer = pb.DescribeClusterResponse(cluster_id="c", brokers=brokers, revision=self.revision)
        self.revision += 1
        return answer.SerializeToString()

    def count(self, method: str) -> int:
        return sum(called == method for called, _ in self.calls)


class _Router(grpc.GenericRpcHandler):
    def __init__(self, stand_in: StandIn) -> None:
        self.stand_in = stand_in

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        answer = self.stand_in.answers.get(details.method)
        if answer is None:
            return None

        def serve(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.stand_in.calls.append((details.method, request))
            shown: Mapping[str, Any] = context.auth_context()
            self.stand_in.callers.append(identity_of_grpc(shown).uri)
            self.stand_in.certificates.extend(shown["x509_pem_cert"])
            return answer(request, context)

        return grpc.unary_unary_rpc_method_handler(serve)


@pytest.fixture
def broker() -> Iterator[StandIn]:
    stand_in = StandIn()
    yield stand_in
    stand_in.server.stop(None).wait()


@pytest.fixture
def admin(broker: StandIn) -> Iterator[AdminClient]:
    with AdminClient([broker.address], identity("operator")) as client:
        yield client


def lose_first(then: bytes) -> Answer:
    """Fail the first call as a connection does that breaks; answer the next."""
    lost: list[bool] = []

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        if not lost:
            lost.append(True)
            context.abort(grpc.StatusCode.UNAVAILABLE, "connection reset")
        return then

    return answer


def outcome(code: int = 0, message: str = "", revision: int = 7) -> pb.Outcome:
    return pb.Outcome(error=code, message=message, revision=revision)


def test_reading_passes_over_brokers_that_do_not_answer(broker: StandIn) -> None:
    with AdminClient(["127.0.0.1:1", broker.address], identity("operator")) as admin:
        assert admin.describe_cluster().cluster_id == "c"


def test_when_no_broker_answers_all_addresses_are_named() -> None:
    named = r"127\.0\.0\.1:[12], 127\.0\.0\.1:[12]"
    with (
        AdminClient(["127.0.0.1:1", "127.0.0.1:2"], identity("operator")) as admin,
        pytest.raises(BrokerUnavailable, match=named),
    ):
        admin.describe_cluster(timeout_s=0.5)


def test_a_call_whose_time_is_up_before_it_begins_says_so(admin: AdminClient) -> None:
    with pytest.raises(BrokerUnavailable, match="no time was left"):
        admin.describe_cluster(timeout_s=0.0)


def test_each_call_shows_who_the_caller_is(broker: StandIn, admin: AdminClient) -> None:
    broker.answers[methods.PUT_TENANT] = lambda request, context: outcome(revision=3).SerializeToString()
    admin.put_tenant("tn_a")
    assert broker.callers == ["penstock://c1/operator"]


def test_a_process_of_another_cluster_gets_no_answer(broker: StandIn) -> None:
    broker.answers[methods.PUT_TENANT] = lambda request, context: b""
    stranger = identity("operator", "another-cluster")
    with AdminClient([broker.address], stranger) as admin, pytest.raises(BrokerUnavailable):
        admin.describe_cluster(timeout_s=0.5)
    assert broker.calls == []


def test_a_changed_certificate_is_shown_by_the_next_call(broker: StandIn, tmp_path: Path) -> None:
    broker.answers[methods.PUT_TENANT] = lambda request, context: outcome(revision=3).SerializeToString()
    own_identity = own(write(tmp_path, "operator"), "operator")
    with AdminClient([broker.address], own_identity) as admin:
        admin.put_tenant("tn_a")
        write(tmp_path, "operator")
        before = own_identity.current
        wait_until(
            "it is taken up", lambda: bool(admin.put_tenant("tn_a")) and own_identity.current is not before
        )
        admin.put_tenant("tn_a")
    assert len(set(broker.certificates)) == 2


def test_each_client_of_an_identity_takes_up_what_another_one_has_seen(
    broker: StandIn, tmp_path: Path
) -> None:
    broker.answers[methods.PUT_TENANT] = lambda request, context: outcome(revision=3).SerializeToString()
    own_identity = own(write(tmp_path, "operator"), "operator")
    with AdminClient([broker.address], own_identity) as admin:
        admin.put_tenant("tn_a")
        write(tmp_path, "operator")
        assert own_identity.look(), "another client has looked"
        wait_until(
            "the client shows it",
            lambda: bool(admin.put_tenant("tn_a")) and len(set(broker.certificates)) == 2,
        )


@pytest.fixture
def serve() -> Iterator[Callable[..., StandIn]]:
    """Starts stand-ins, and stops them at the end."""
    started: list[StandIn] = []

    def start(who: OwnIdentity, port: int = 0) -> StandIn:
        started.append(StandIn(who, port))
        return started[-1]

    yield start
    for one in started:
        one.server.stop(None).wait()


@pytest.mark.parametrize("role", ["operator", "control-plane", "runner"])
def test_no_other_role_can_take_a_brokers_place(
    serve: Callable[..., StandIn], tmp_path: Path, role: str
) -> None:
    imposter = serve(own(write(tmp_path, role, any_purpose=True), role))
    with (
        AdminClient([imposter.address], identity("operator")) as admin,
        pytest.raises(
            BrokerUnavailable, match=f"is penstock://c1/{role}, and a broker of cluster c1 required"
        ),
    ):
        admin.put_tenant("tn_a", timeout_s=0.5)
    assert imposter.calls == []


def test_no_broker_of_another_cluster_with_the_same_authority_is_called(
    serve: Callable[..., StandIn], tmp_path: Path
) -> None:
    """The certificate of the other cluster is of an authority that this one believes."""
    other = own(
        write(tmp_path / "other", "broker-1", ca=authority("c2"), believed=[authority(), authority("c2")]),
        "broker-1",
    )
    own_identity = own(
        write(tmp_path / "own", "operator", believed=[authority(), authority("c2")]), "operator"
    )
    imposter = serve(other)
    with (
        AdminClient([imposter.address], own_identity) as admin,
        pytest.raises(BrokerUnavailable, match="is penstock://c2/broker/1, and a broker of cluster c1"),
    ):
        admin.describe_cluster(timeout_s=0.5)
    assert imposter.calls == []


def test_what_takes_a_brokers_place_after_it_was_looked_at_is_not_called(
    serve: Callable[..., StandIn], tmp_path: Path
) -> None:
    """To look first would prove nothing alone: the channel itself takes that one certificate."""
    broker = serve(identity("broker-1"))
    with AdminClient([broker.address], identity("operator")) as admin:
        admin.describe_cluster()
        broker.server.stop(None).wait()
        imposter = serve(own(write(tmp_path, "operator", any_purpose=True), "operator"), broker.port)
        with pytest.raises(BrokerUnavailable, match="UNAVAILABLE"):
            admin.describe_cluster(address=broker.address)
        with pytest.raises(BrokerUnavailable, match="is penstock://c1/operator"):
            admin.describe_cluster(address=broker.address)
    assert imposter.calls == []


def test_a_broker_that_comes_back_with_another_certificate_is_called_again(
    serve: Callable[..., StandIn], tmp_path: Path
) -> None:
    first = serve(identity("broker-1"))
    with AdminClient([first.address], identity("operator")) as admin:
        admin.describe_cluster()
        first.server.stop(None).wait()
        second = serve(own(write(tmp_path, "broker-2"), "broker-2"), first.port)
        admin.describe_cluster()
    assert second.count(methods.DESCRIBE_CLUSTER) == 1


def test_a_broker_hears_of_each_look_at_its_certificate_once(broker: StandIn, admin: AdminClient) -> None:
    heard: list[str] = []

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        heard.append(str(dict(context.invocation_metadata()).get(methods.LOOKS, "")))
        if len(heard) == 2:
            context.abort(grpc.StatusCode.UNAVAILABLE, "connection reset")
        return outcome(revision=3).SerializeToString()

    broker.answers[methods.PUT_TENANT] = answer
    for _ in range(3):
        admin.put_tenant("tn_a")
    assert heard == ["1", "", "1", ""]


def test_creating_a_topic_carries_settings_and_assignment(broker: StandIn, admin: AdminClient) -> None:
    answer = pb.CreateTopicResponse(outcome=outcome(), topic_id=b"i" * 16)
    broker.answers[methods.CREATE_TOPIC] = lambda request, context: answer.SerializeToString()
    settings = TopicSettings(replication=2, min_insync_replicas=1)
    assert admin.create_topic("tn_a", "orders", settings, [(1, 2), (2, 1)]) == answer
    sent = pb.CreateTopicRequest.FromString(broker.calls[-1][1])
    assert (sent.tenant, sent.name) == ("tn_a", "orders")
    assert [list(assignment.brokers) for assignment in sent.assignments] == [[1, 2], [2, 1]]
    assert '"replication": 2' in sent.settings_json


def test_a_refusal_is_raised_as_its_own_class_with_the_brokers_message(
    broker: StandIn, admin: AdminClient
) -> None:
    refused = pb.CreateTopicResponse(outcome=outcome(ErrorCode.ALREADY_EXISTS, "orders: exists"))
    broker.answers[methods.CREATE_TOPIC] = lambda request, context: refused.SerializeToString()
    with pytest.raises(AlreadyExists, match="orders: exists"):
        admin.create_topic("tn_a", "orders", TopicSettings(), [(1, 2, 3)])
    assert broker.count(methods.CREATE_TOPIC) == 1


def test_a_lost_answer_to_creating_a_topic_is_unknown_and_not_sent_again(
    broker: StandIn, admin: AdminClient
) -> None:
    broker.answers[methods.CREATE_TOPIC] = lose_first(b"")
    with pytest.raises(OutcomeUnknown, match="CreateTopic: the answer of"):
        admin.create_topic("tn_a", "orders", TopicSettings(), [(1, 2, 3)])
    assert broker.count(methods.CREATE_TOPIC) == 1


def test_a_lost_answer_to_a_harmless_change_is_asked_for_again(broker: StandIn, admin: AdminClient) -> None:
    broker.answers[methods.PUT_TENANT] = lose_first(outcome(revision=9).SerializeToString())
    assert admin.put_tenant("tn_a").revision == 9
    assert broker.count(methods.PUT_TENANT) == 2


def test_a_retriable_refusal_is_retried(broker: StandIn, admin: AdminClient) -> None:
    answers = [outcome(ErrorCode.SHUTTING_DOWN, "draining"), outcome(revision=4)]
    broker.answers[methods.DELETE_TOPIC] = lambda request, context: answers.pop(0).SerializeToString()
    assert admin.delete_topic("tn_a", "orders").revision == 4


def test_why_a_broker_refuses_is_kept_when_the_time_is_up_during_a_later_call(
    broker: StandIn, admin: AdminClient
) -> None:
    waiting = threading.Event()

    def refuse_first(request: bytes, context: grpc.ServicerContext) -> bytes:
        if broker.count(methods.PUT_TENANT) > 1:
            waiting.wait(PATIENCE_S)
        return outcome(ErrorCode.SHUTTING_DOWN, "draining").SerializeToString()

    broker.answers[methods.PUT_TENANT] = refuse_first
    with pytest.raises(ShuttingDown, match="draining"):
        admin.put_tenant("tn_a", timeout_s=3)
    waiting.set()
    assert broker.count(methods.PUT_TENANT) == 2


def test_waiting_asks_each_other_broker_once_and_passes_over_who_does_not_answer(
    broker: StandIn, admin: AdminClient
) -> None:
    admin.wait_until_seen(pb.Outcome(revision=5, other_brokers=[broker.address, "127.0.0.1:1"]))
    ((method, request),) = broker.calls
    assert method == methods.DESCRIBE_CLUSTER
    assert pb.DescribeClusterRequest.FromString(request).min_revision == 5


def test_a_broker_that_says_that_it_is_behind_is_asked_again(broker: StandIn, admin: AdminClient) -> None:
    behind = [True, True, False]

    def describe(request: bytes, context: grpc.ServicerContext) -> bytes:
        if behind.pop(0):
            context.set_trailing_metadata(((ERROR_CODE, str(int(ErrorCode.BROKER_UNAVAILABLE))),))
            context.abort(grpc.StatusCode.UNAVAILABLE, "this broker is at revision 4, 5 was asked for")
        return b""

    broker.answers[methods.DESCRIBE_CLUSTER] = describe
    admin.wait_until_seen(pb.Outcome(revision=5, other_brokers=[broker.address]))
    assert behind == []


def test_a_broker_that_stays_behind_holds_up_nobody_for_longer_than_was_said(
    broker: StandIn, admin: AdminClient
) -> None:
    waiting = threading.Event()
    broker.answers[methods.DESCRIBE_CLUSTER] = lambda request, context: bytes(waiting.wait(PATIENCE_S))
    admin.wait_until_seen(pb.Outcome(revision=5, other_brokers=[broker.address]), timeout_s=0.1)
    waiting.set()


def test_a_change_that_may_be_repeated_goes_to_the_next_broker_when_the_first_is_gone(
    broker: StandIn,
) -> None:
    broker.answers[methods.PUT_TENANT] = lambda request, context: outcome(revision=3).SerializeToString()
    with AdminClient(["127.0.0.1:1", broker.address], identity("operator")) as admin:
        assert [admin.put_tenant("tn_a").revision for _ in range(2)] == [3, 3]
    assert [method for method, _ in broker.calls] == [methods.PUT_TENANT] * 2, "without looking first"


def test_what_was_outrun_by_a_higher_generation_is_said_so_and_not_sent_again(
    broker: StandIn, admin: AdminClient
) -> None:
    answer = pb.Outcome(revision=8, ignored=True).SerializeToString()
    broker.answers[methods.PUT_TENANT] = lambda request, context: answer
    with pytest.raises(Outrun):
        admin.put_tenant("tn_a", generation=2)
    assert broker.count(methods.PUT_TENANT) == 1


def test_an_accepted_loss_whose_answer_is_lost_is_not_declared_twice(
    broker: StandIn, admin: AdminClient
) -> None:
    broker.answers[methods.DECLARE_LOSS] = lose_first(
        pb.DeclareLossResponse(declared=True).SerializeToString()
    )
    with pytest.raises(OutcomeUnknown):
        admin.declare_loss(bytes(16), 0, 2, accept=True)
    assert broker.count(methods.DECLARE_LOSS) == 1
    assert admin.declare_loss(bytes(16), 0, 2, accept=False).declared


def test_pages_of_objects_become_one_answer_as_old_as_the_oldest(broker: StandIn, admin: AdminClient) -> None:
    pages = {
        "": pb.DescribeClusterResponse(revision=9, next="topics/a", tenants=[pb.DescribedTenant(tenant="t")]),
        "topics/a": pb.DescribeClusterResponse(revision=7, topics=[pb.DescribedTopic(name="b")]),
    }

    def describe(request: bytes, context: grpc.ServicerContext) -> bytes:
        return pages[pb.DescribeClusterRequest.FromString(request).after].SerializeToString()

    broker.answers[methods.DESCRIBE_CLUSTER] = describe
    seen = admin.describe_cluster(objects=True)
    assert (seen.revision, [t.tenant for t in seen.tenants], [t.name for t in seen.topics]) == (
        7,
        ["t"],
        ["b"],
    )


def test_a_service_that_is_not_there_is_refused_and_not_retried(admin: AdminClient) -> None:
    with pytest.raises(NotSupported, match="UNIMPLEMENTED"):
        admin.revoke_key("k")
