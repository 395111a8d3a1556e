"""The Admin client against a real gRPC server that answers as a test says."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.dev.admin_client import AdminClient
from penstock.contract.errors import (
    AlreadyExists,
    BrokerUnavailable,
    ErrorCode,
    InvalidRequest,
    OutcomeUnknown,
    Unauthenticated,
)
from penstock.contract.methods import ERROR_CODE
from penstock.contract.topic_settings import TopicSettings

SECRET = "a-cluster-secret"
Answer = Callable[[bytes, grpc.ServicerContext], bytes]


class StandIn:
    """A broker's internal listener: `answers` by method path; `calls` keeps what was asked, in order."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {methods.DESCRIBE_CLUSTER: self._describe}
        self.calls: list[tuple[str, bytes]] = []
        self.revision = 0
        self.server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
        self.server.add_generic_rpc_handlers((_Router(self),))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
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
            if dict(context.invocation_metadata()).get(methods.CLUSTER_SECRET) != SECRET:
                context.set_trailing_metadata(((ERROR_CODE, str(int(ErrorCode.UNAUTHENTICATED))),))
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong cluster secret")
            return answer(request, context)

        return grpc.unary_unary_rpc_method_handler(serve)


@pytest.fixture
def broker() -> Iterator[StandIn]:
    stand_in = StandIn()
    yield stand_in
    stand_in.server.stop(None).wait()


@pytest.fixture
def admin(broker: StandIn) -> Iterator[AdminClient]:
    with AdminClient([broker.address], SECRET) as client:
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
    with AdminClient(["127.0.0.1:1", broker.address], SECRET) as admin:
        assert admin.describe_cluster().cluster_id == "c"


def test_when_no_broker_answers_all_addresses_are_named() -> None:
    named = r"127\.0\.0\.1:1, 127\.0\.0\.1:2"
    with (
        AdminClient(["127.0.0.1:1", "127.0.0.1:2"], SECRET) as admin,
        pytest.raises(BrokerUnavailable, match=named),
    ):
        admin.describe_cluster()


def test_without_the_cluster_secret_the_refusal_is_unauthenticated(broker: StandIn) -> None:
    with AdminClient([broker.address], "wrong") as admin, pytest.raises(Unauthenticated):
        admin.put_tenant("tn_a")


def test_creating_a_topic_carries_settings_and_assignment(broker: StandIn, admin: AdminClient) -> None:
    answer = pb.CreateTopicResponse(outcome=outcome(), topic_id=b"i" * 16)
    broker.answers[methods.CREATE_TOPIC] = lambda request, context: answer.SerializeToString()
    settings = TopicSettings(replication=2, min_insync_replicas=1)
    assert admin.create_topic("tn_a", "orders", settings, [(1, 2), (2, 1)]) == (b"i" * 16, 7)
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
    assert admin.put_tenant("tn_a") == 9
    assert broker.count(methods.PUT_TENANT) == 2


def test_a_retriable_refusal_is_retried(broker: StandIn, admin: AdminClient) -> None:
    answers = [outcome(ErrorCode.SHUTTING_DOWN, "draining"), outcome(revision=4)]
    broker.answers[methods.DELETE_TOPIC] = lambda request, context: answers.pop(0).SerializeToString()
    assert admin.delete_topic("tn_a", "orders") == 4


def test_waiting_for_a_revision_asks_the_active_brokers_until_they_have_it(
    broker: StandIn, admin: AdminClient
) -> None:
    admin.wait_until_seen(5)
    assert broker.revision == 6


def test_a_service_that_is_not_there_is_refused_and_not_retried(admin: AdminClient) -> None:
    with pytest.raises(InvalidRequest, match="UNIMPLEMENTED"):
        admin.revoke_key("k")
