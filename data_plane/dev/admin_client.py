"""Admin calls over grpc's blocking stack, with the cluster secret: what the server's commands are made of.

Any broker takes Admin calls. Reading asks the brokers in turn until one answers. A change is sent to a
broker that has just answered, and once only: when its answer is lost the outcome is unknown, unless
repeating the change is harmless.
"""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar, cast

import grpc
from google.protobuf.message import Message

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.metadata.model import Binding
from penstock.contract import limits
from penstock.contract.errors import (
    BrokerUnavailable,
    ErrorKind,
    InvalidRequest,
    OutcomeUnknown,
    PenstockError,
    error_class,
)
from penstock.contract.ids import TopicId
from penstock.contract.methods import ERROR_CODE
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.credentials import Credential

_CALL_S = 5.0
_CUT_S = 15.0
"""For a cut: a broker answers within 12 s, when it has waited 9 s for a silent one."""
"""Deadline of one call: several times what a metadata write takes, less than a person waits."""
_RETRY_S = 0.1
_PROBE_S = 2.0
"""Deadline of looking for a broker that answers: a paused one must not hold up the others for long."""

_OPTIONS = (("grpc.max_receive_message_length", limits.FRAME_BYTES_MAX),)
"""A description of a large cluster is above grpc's usual 4 MiB."""
_REFUSED_BY_GRPC = (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED)
"""Answers of grpc itself that repeating does not change: another service listens there, or the request is
too large.
"""


class _WithOutcome(Protocol):
    """An answer that tells beside other things how the change went."""

    @property
    def outcome(self) -> pb.Outcome: ...


@dataclass(frozen=True, slots=True)
class Objects:
    """Tenants by id, topics by topic id, keys by key id."""

    tenants: dict[str, pb.DescribedTenant]
    topics: dict[bytes, pb.DescribedTopic]
    keys: dict[str, pb.DescribedKey]


AnswerT = TypeVar("AnswerT", bound=Message)


class AdminClient:
    """Blocking client of the Admin service. Opens a channel at the first call; close it or use it in a
    `with`.
    """

    def __init__(
        self, addresses: Sequence[str], cluster_secret: str, *, root_certificates: bytes | None = None
    ) -> None:
        """`addresses` are host:port of internal listeners. `root_certificates` (PEM) turns TLS on."""
        self._addresses = list(addresses)
        self._metadata = ((methods.CLUSTER_SECRET, cluster_secret),)
        self._root_certificates = root_certificates
        self._channels: dict[str, grpc.Channel] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for address in sorted(self._channels):
            self._channels[address].close()
        self._channels.clear()

    # -- reading ---------------------------------------------------------------------------------------------

    def describe_cluster(
        self, *, partitions: bool = False, address: str | None = None, timeout_s: float = _CALL_S
    ) -> pb.DescribeClusterResponse:
        """The cluster as one broker sees it: the one at `address`, or the first that answers."""
        request = pb.DescribeClusterRequest(partitions=partitions)
        return self._ask(request, timeout_s, [address] if address else self._addresses)[1]

    def describe_objects(self, timeout_s: float = _CALL_S) -> "Objects":
        """Tenants, topics and keys as the metadata holds them, page by page from the brokers that answer.

        Pages may be of different revisions: what is made or deleted meanwhile may be there or not.
        """
        objects = Objects(tenants={}, topics={}, keys={})
        after = ""
        while True:
            request = pb.DescribeClusterRequest(objects=True, after=after)
            answer = self._ask(request, timeout_s, self._addresses)[1]
            objects.tenants.update({tenant.tenant: tenant for tenant in answer.tenants})
            objects.topics.update({topic.topic_id: topic for topic in answer.topics})
            objects.keys.update({key.key_id: key for key in answer.keys})
            after = answer.next
            if not after:
                return objects

    def wait_until_seen(self, revision: int, timeout_s: float = 5.0) -> None:
        """Wait until every active broker has seen `revision`, so that no client meets one that has not.

        A broker that does not answer in time is passed over: clients cannot meet it either.
        """
        deadline = time.monotonic() + timeout_s
        waiting = [
            broker.internal_address for broker in self.describe_cluster().brokers if broker.state == "active"
        ]
        while waiting and time.monotonic() < deadline:
            waiting = [address for address in waiting if not self._has_seen(address, revision, deadline)]
            if waiting:
                time.sleep(0.01)

    def _has_seen(self, address: str, revision: int, deadline: float) -> bool:
        """The broker itself waits for a while before it answers that it has not."""
        request = pb.DescribeClusterRequest(min_revision=revision)
        left_s = min(max(deadline - time.monotonic(), 0.1), _PROBE_S)
        try:
            return self._ask(request, left_s, [address])[1].revision >= revision
        except BrokerUnavailable:
            return False

    # -- changing --------------------------------------------------------------------------------------------

    def put_tenant(
        self,
        tenant: str,
        timeout_s: float = 15.0,
        *,
        generation: int = 0,
        produce_bytes_per_s: int | None = None,
        partitions_max: int | None = None,
        suspended: bool = False,
    ) -> int:
        """Make the tenant exist in this state; returns the metadata revision. Repeating it is harmless.

        Limits: 0 = none. Without a generation and without limits a tenant that exists keeps its own.
        """
        quotas = None
        if produce_bytes_per_s is not None or partitions_max is not None or suspended:
            quotas = pb.TenantQuotas(
                produce_bytes_per_s=produce_bytes_per_s or 0, partitions_max=partitions_max or 0
            )
        request = pb.PutTenantRequest(
            tenant=tenant, generation=generation, quotas=quotas, suspended=suspended
        )
        return self._change(methods.PUT_TENANT, request, pb.Outcome, timeout_s, repeatable=True).revision

    def put_key(
        self,
        credential: Credential,
        *,
        tenant: str,
        name: str,
        expires_at_ms: int = 0,
        generation: int = 0,
        bindings: Sequence[Binding] = (),
        timeout_s: float = 15.0,
    ) -> tuple[int, int]:
        """Make the key valid, or change it; returns (principal number, metadata revision). Repeating it is
        harmless. No bindings: everything within the tenant.
        """
        request = pb.PutKeyRequest(
            key_id=credential.key_id,
            tenant=tenant,
            name=name,
            pepper_version=credential.pepper_version,
            secret_hmac=bytes.fromhex(credential.secret_hmac),
            scram_json=json.dumps(credential.scram),
            expires_at_ms=expires_at_ms,
            generation=generation,
            bindings=[pb.Binding(topic_prefix=b.topic_prefix, operations=b.operations) for b in bindings],
        )
        answer = self._change(methods.PUT_KEY, request, pb.PutKeyResponse, timeout_s, repeatable=True)
        return answer.principal, answer.outcome.revision

    def revoke_key(self, key_id: str, timeout_s: float = 15.0, *, generation: int = 0) -> int:
        """Make the key invalid; returns the metadata revision. Repeating it is harmless."""
        request = pb.RevokeKeyRequest(key_id=key_id, generation=generation)
        return self._change(methods.REVOKE_KEY, request, pb.Outcome, timeout_s, repeatable=True).revision

    def create_topic(
        self,
        tenant: str,
        name: str,
        settings: TopicSettings,
        assignments: Sequence[Sequence[int]],
        timeout_s: float = 15.0,
        *,
        generation: int = 0,
        topic_id: bytes = b"",
    ) -> tuple[TopicId, int]:
        """Create a topic on the brokers assigned; returns (topic id, metadata revision). With a `topic_id`
        repeating it is harmless.
        """
        request = pb.CreateTopicRequest(
            tenant=tenant,
            name=name,
            settings_json=json.dumps(settings.to_dict()),
            assignments=_assignments(assignments),
            generation=generation,
            topic_id=topic_id,
        )
        answer = self._change(
            methods.CREATE_TOPIC, request, pb.CreateTopicResponse, timeout_s, repeatable=bool(topic_id)
        )
        return TopicId(answer.topic_id), answer.outcome.revision

    def update_topic(
        self,
        tenant: str,
        topic_id: bytes,
        settings: TopicSettings,
        added: Sequence[Sequence[int]] = (),
        timeout_s: float = 15.0,
        *,
        generation: int = 0,
    ) -> pb.Outcome:
        """Replace the topic's settings and add partitions on the brokers assigned. With a generation, or
        without new partitions, repeating it is harmless.
        """
        request = pb.UpdateTopicRequest(
            tenant=tenant,
            topic_id=topic_id,
            settings_json=json.dumps(settings.to_dict()),
            added=_assignments(added),
            generation=generation,
        )
        repeatable = bool(generation) or not added
        return self._change(methods.UPDATE_TOPIC, request, pb.Outcome, timeout_s, repeatable=repeatable)

    def delete_topic(
        self,
        tenant: str,
        name: str,
        timeout_s: float = 15.0,
        *,
        generation: int = 0,
        topic_id: bytes = b"",
    ) -> int:
        """Delete a topic with all of its messages; returns the metadata revision. With a `topic_id` only the
        topic of this id, and repeating it is harmless.
        """
        request = pb.DeleteTopicRequest(tenant=tenant, name=name, generation=generation, topic_id=topic_id)
        return self._change(
            methods.DELETE_TOPIC, request, pb.Outcome, timeout_s, repeatable=bool(topic_id)
        ).revision

    def cut(
        self,
        cut_id: str,
        tenant: str,
        end_ms: int,
        timeout_s: float = 30.0,
        *,
        previous_end_ms: int = 0,
        billing: tuple[int, str] = (0, ""),
        waived: Sequence[tuple[bytes, int]] = (),
    ) -> list[pb.CutReading]:
        """End a tenant's period: one reading a partition. Those with an `error` may be asked for again with the
        same id. `billing`: number and hash of the billing chain's newest entry; `waived`: (topic id, partition).
        """
        request = pb.CutRequest(
            cut_id=cut_id,
            tenant=tenant,
            end_ms=end_ms,
            previous_end_ms=previous_end_ms,
            billing_sequence=billing[0],
            billing_hash=billing[1],
            waived=[pb.CutPlace(topic_id=topic_id, partition=number) for topic_id, number in waived],
        )
        answer = self._change(methods.CUT, request, pb.CutResponse, timeout_s, repeatable=True, call_s=_CUT_S)
        return list(answer.readings)

    # -- where partitions are ----------------------------------------------------------------------------------

    def alter_replicas(
        self, topic_id: bytes, partition: int, replicas: Sequence[int] | None, timeout_s: float = 15.0
    ) -> int:
        """Change which brokers hold a partition, in order of preference; None cancels what is under way. Returns the
        metadata revision. Repeating it is harmless.
        """
        request = pb.AlterReplicasRequest(
            topic_id=topic_id, partition=partition, replicas=replicas or [], cancel=replicas is None
        )
        return self._change(methods.ALTER_REPLICAS, request, pb.Outcome, timeout_s, repeatable=True).revision

    def move_leader(self, topic_id: bytes, partition: int, broker: int, timeout_s: float = 15.0) -> int:
        """Have the leader hand over to an in-sync replica; returns the metadata revision. Repeating it is harmless."""
        request = pb.MoveLeaderRequest(topic_id=topic_id, partition=partition, broker=broker)
        return self._change(methods.MOVE_LEADER, request, pb.Outcome, timeout_s, repeatable=True).revision

    def cordon_broker(
        self, broker: int, cordoned: bool, timeout_s: float = 15.0, *, generation: int = 0
    ) -> int:
        """Take a broker out of use, or back; returns the metadata revision. Repeating it is harmless."""
        request = pb.CordonBrokerRequest(broker=broker, cordoned=cordoned, generation=generation)
        return self._change(methods.CORDON_BROKER, request, pb.Outcome, timeout_s, repeatable=True).revision

    def forget_broker(self, broker: int, timeout_s: float = 15.0) -> int:
        """Remove what the metadata knows of a broker that was drained and stopped. Repeating it is harmless."""
        request = pb.ForgetBrokerRequest(broker=broker)
        return self._change(methods.FORGET_BROKER, request, pb.Outcome, timeout_s, repeatable=True).revision

    def declare_loss(
        self,
        topic_id: bytes,
        partition: int,
        broker: int | None,
        *,
        accept: bool,
        asked_by: str = "",
        timeout_s: float = 15.0,
    ) -> pb.DeclareLossResponse:
        """Let the broker's replica lead whatever is lost by it, or (None) repair the only copy; without `accept` only
        what would be declared. Refused when a leader or a clean election is there.
        """
        request = pb.DeclareLossRequest(
            topic_id=topic_id, partition=partition, broker=broker, accept_loss=accept, asked_by=asked_by
        )
        return self._change(methods.DECLARE_LOSS, request, pb.DeclareLossResponse, timeout_s)

    def describe_moves(self, timeout_s: float = _CALL_S) -> list[pb.DescribedMove]:
        """Reassignments under way, with what is left of each."""
        address, _ = self._ask(pb.DescribeClusterRequest(), _PROBE_S, self._addresses)
        answer = self._call(
            address, methods.DESCRIBE_MOVES, pb.DescribeMovesRequest(), pb.DescribeMovesResponse, timeout_s
        )
        return list(answer.moves)

    # -- calling ---------------------------------------------------------------------------------------------

    def _ask(
        self, request: pb.DescribeClusterRequest, timeout_s: float, addresses: Sequence[str]
    ) -> tuple[str, pb.DescribeClusterResponse]:
        """The first broker that answers, with its answer."""
        lost = BrokerUnavailable("no broker addresses are known")
        for address in addresses:
            try:
                return address, self._call(
                    address, methods.DESCRIBE_CLUSTER, request, pb.DescribeClusterResponse, timeout_s
                )
            except AnswerLost as error:
                lost = BrokerUnavailable(f"no answer from {', '.join(addresses)}: {error}")
        raise lost

    def _change(
        self,
        method: str,
        request: Message,
        answer_type: type[AnswerT],
        timeout_s: float,
        *,
        repeatable: bool = False,
        call_s: float = _CALL_S,
    ) -> AnswerT:
        """Send a change until it is applied, refused for good, of unknown outcome, or the time is up."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._change_once(method, request, answer_type, call_s)
            except PenstockError as error:
                again = error.retriable or (repeatable and error.kind is ErrorKind.UNKNOWN_OUTCOME)
                if not again or time.monotonic() + _RETRY_S > deadline:
                    raise
            time.sleep(_RETRY_S)

    def _change_once(
        self, method: str, request: Message, answer_type: type[AnswerT], call_s: float
    ) -> AnswerT:
        address, _ = self._ask(pb.DescribeClusterRequest(), _PROBE_S, self._addresses)
        try:
            answer = self._call(address, method, request, answer_type, call_s)
        except AnswerLost as error:
            name = method.rpartition("/")[2]
            raise OutcomeUnknown(f"{name}: the answer of {address} was lost: {error}") from error
        outcome = answer if isinstance(answer, pb.Outcome) else cast(_WithOutcome, answer).outcome
        if outcome.error:
            raise error_class(outcome.error)(outcome.message)
        return answer

    def _call(
        self, address: str, method: str, request: Message, answer_type: type[AnswerT], timeout_s: float
    ) -> AnswerT:
        call = self._channel(address).unary_unary(
            method, request_serializer=_to_bytes, response_deserializer=answer_type.FromString
        )
        try:
            answer: AnswerT = call(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise read_failure(error) from error
        return answer

    def _channel(self, address: str) -> grpc.Channel:
        if address not in self._channels:
            if self._root_certificates is None:
                self._channels[address] = grpc.insecure_channel(address, options=_OPTIONS)
            else:
                credentials = grpc.ssl_channel_credentials(self._root_certificates)
                self._channels[address] = grpc.secure_channel(address, credentials, options=_OPTIONS)
        return self._channels[address]


class AnswerLost(BrokerUnavailable):
    """The call ended without an answer of the service."""


def _assignments(brokers: Sequence[Sequence[int]]) -> list[pb.Assignment]:
    return [pb.Assignment(brokers=each) for each in brokers]


def _to_bytes(message: Message) -> bytes:
    return message.SerializeToString()


def read_failure(error: grpc.RpcError) -> PenstockError:
    """The refusal that a failed call carries in its trailing metadata, or `AnswerLost`."""
    trailing = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    for key, value in trailing:
        if key == ERROR_CODE:
            return error_class(int(value))(error.details() or "")
    status = error.code()
    if status in _REFUSED_BY_GRPC:
        return InvalidRequest(f"{status.name}: {error.details()}")
    return AnswerLost(f"{status.name}: {error.details()}")
