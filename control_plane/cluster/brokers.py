"""The control plane's client of the brokers' Admin service: blocking gRPC with the cluster secret.

Any broker takes Admin calls. Everything that is told here may be repeated: changes carry a generation, and topics
their id. So a call whose answer is lost goes to the next broker, within the time of the whole.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import grpc
from django.db import DatabaseError
from google.protobuf.message import Message

from control_plane import config
from control_plane.cluster import queries, reading_answers, view
from control_plane.cluster.addresses import Addresses
from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from penstock.contract.errors import BrokerUnavailable, InvalidRequest, PenstockError, error_class
from penstock.contract.methods import ERROR_CODE
from penstock.contract.topic_settings import TopicSettings

CALL_S = 4.0
"""Deadline of one call: several times what a metadata write takes."""
BUDGET_S = 10.0
"""Of one change with all its attempts; below the lease of a delivery."""
_RETRY_S = 0.1
_PROBE_S = 1.0
"""For a question that somebody waits for, and may ask again."""
_SEEN_S = 1.0
_MESSAGE_BYTES_MAX = 256 * 1024 * 1024
"""A description of every object of a large cluster."""

AnswerT = TypeVar("AnswerT", bound=Message)


class NotSupported(InvalidRequest):
    """The brokers do not know this call."""

    remedy = "Bring the brokers to the control plane's version."


class Outrun(BrokerUnavailable):
    """The brokers hold a higher generation than the one that was told."""

    remedy = "Reconciliation counts the generation up and tells them anew."


class _AnswerLost(BrokerUnavailable):
    """The call ended without an answer of the service."""


class Brokers:
    """One process's channels to the brokers. Raises `PenstockError` subclasses. Safe between threads."""

    def __init__(
        self,
        addresses: Sequence[str],
        cluster_secret: str,
        remembered: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """`addresses` are host:port of internal listeners; `remembered` tells of more that were seen before."""
        self._addresses = Addresses(addresses, remembered)
        self._metadata = ((methods.CLUSTER_SECRET, cluster_secret),)
        self._channels: dict[str, grpc.Channel] = {}

    def close(self) -> None:
        for address in sorted(self._channels):
            self._channels[address].close()
        self._channels.clear()

    # -- reading ---------------------------------------------------------------------------------------------

    def describe(
        self, *, partitions: bool = False, objects: bool = False, timeout_s: float = BUDGET_S
    ) -> view.ClusterView:
        """The cluster as the first broker sees it that answers. Raises `BrokerUnavailable`.

        Objects come in pages: the view is only as new as the oldest of them.
        """
        request = pb.DescribeClusterRequest(partitions=partitions, objects=objects)
        answer = self._tell(methods.DESCRIBE_CLUSTER, request, pb.DescribeClusterResponse, timeout_s)
        after = answer.next
        while after:
            request = pb.DescribeClusterRequest(objects=True, after=after)
            page = self._tell(methods.DESCRIBE_CLUSTER, request, pb.DescribeClusterResponse, timeout_s)
            answer.tenants.extend(page.tenants)
            answer.topics.extend(page.topics)
            answer.keys.extend(page.keys)
            answer.revision = min(answer.revision, page.revision)
            after = page.next
        seen = reading_answers.cluster_view(answer)
        self._addresses.learn(
            [broker.internal_address for broker in seen.brokers if broker.state == "active"]
        )
        return seen

    def wait_until_seen(self, revision: int, timeout_s: float = _SEEN_S) -> None:
        """Wait until every active broker has seen `revision`, so that no client meets one that has not.

        One that does not answer in time is passed over.
        """
        deadline = time.monotonic() + timeout_s
        waiting = [b.internal_address for b in self.describe().brokers if b.state == "active"]
        while waiting and time.monotonic() < deadline:
            waiting = [address for address in waiting if not self._has_seen(address, revision, deadline)]
            if waiting:
                time.sleep(0.01)

    def _has_seen(self, address: str, revision: int, deadline: float) -> bool:
        left = max(0.05, deadline - time.monotonic())
        request = pb.DescribeClusterRequest()
        try:
            answer = self._call(
                address, methods.DESCRIBE_CLUSTER, request, pb.DescribeClusterResponse, min(left, 0.5)
            )
        except PenstockError:
            return False
        return answer.revision >= revision

    def topic_durability(self, topic_id: str, timeout_s: float = _PROBE_S) -> list[view.DurabilitySeen]:
        """All partitions by number, as their leaders tell. Raises `NotFound`, `BrokerUnavailable`."""
        request = pb.TopicDurabilityRequest(topic_id=bytes.fromhex(topic_id))
        answer = self._tell(methods.TOPIC_DURABILITY, request, pb.TopicDurabilityResponse, timeout_s)
        _applied(answer.outcome, f"topic {topic_id}", 0)
        return [
            view.DurabilitySeen(
                partition=p.partition,
                log_start_offset=p.log_start_offset,
                verified_end_offset=p.verified_end_offset,
                high_watermark=p.high_watermark,
                replicas=p.replicas,
                verified_ms=p.verified_ms if p.verified_ms >= 0 else None,
                error=p.message if p.error else "",
            )
            for p in answer.partitions
        ]

    # -- changing --------------------------------------------------------------------------------------------

    def put_tenant(
        self,
        tenant: str,
        generation: int,
        *,
        produce_bytes_per_s: int,
        partitions_max: int,
        suspended: bool,
    ) -> int:
        """Returns the metadata revision that holds it, as every change does."""
        quotas = pb.TenantQuotas(produce_bytes_per_s=produce_bytes_per_s, partitions_max=partitions_max)
        request = pb.PutTenantRequest(
            tenant=tenant, generation=generation, quotas=quotas, suspended=suspended
        )
        return _applied(self._tell(methods.PUT_TENANT, request, pb.Outcome), tenant, generation)

    def put_key(
        self,
        *,
        key_id: str,
        tenant: str,
        name: str,
        pepper_version: int,
        secret_hmac: str,
        scram: dict[str, Any],
        expires_at_ms: int,
        bindings: Sequence[view.BindingSeen],
        generation: int,
    ) -> int:
        request = pb.PutKeyRequest(
            key_id=key_id,
            tenant=tenant,
            name=name,
            pepper_version=pepper_version,
            secret_hmac=bytes.fromhex(secret_hmac),
            scram_json=json.dumps(scram),
            expires_at_ms=expires_at_ms,
            generation=generation,
            bindings=[pb.Binding(topic_prefix=b.topic_prefix, operations=b.operations) for b in bindings],
        )
        answer = self._tell(methods.PUT_KEY, request, pb.PutKeyResponse)
        return _applied(answer.outcome, f"key {key_id}", generation)

    def revoke_key(self, key_id: str, generation: int) -> int:
        request = pb.RevokeKeyRequest(key_id=key_id, generation=generation)
        return _applied(self._tell(methods.REVOKE_KEY, request, pb.Outcome), f"key {key_id}", generation)

    def create_topic(
        self,
        *,
        tenant: str,
        name: str,
        topic_id: str,
        settings: TopicSettings,
        assignments: Sequence[Sequence[int]],
        generation: int,
    ) -> tuple[str, int]:
        """Returns (topic id, revision)."""
        request = pb.CreateTopicRequest(
            tenant=tenant,
            name=name,
            topic_id=bytes.fromhex(topic_id),
            settings_json=json.dumps(settings.to_dict()),
            assignments=[pb.Assignment(brokers=brokers) for brokers in assignments],
            generation=generation,
        )
        answer = self._tell(methods.CREATE_TOPIC, request, pb.CreateTopicResponse)
        revision = _applied(answer.outcome, f"topic {name}", generation)
        return answer.topic_id.hex() or topic_id, revision

    def update_topic(
        self,
        *,
        tenant: str,
        topic_id: str,
        settings: TopicSettings,
        added: Sequence[Sequence[int]],
        generation: int,
    ) -> int:
        request = pb.UpdateTopicRequest(
            tenant=tenant,
            topic_id=bytes.fromhex(topic_id),
            settings_json=json.dumps(settings.to_dict()),
            added=[pb.Assignment(brokers=brokers) for brokers in added],
            generation=generation,
        )
        answer = self._tell(methods.UPDATE_TOPIC, request, pb.Outcome)
        return _applied(answer, f"topic {topic_id}", generation)

    def delete_topic(self, *, tenant: str, name: str, topic_id: str, generation: int) -> int:
        request = pb.DeleteTopicRequest(
            tenant=tenant, name=name, topic_id=bytes.fromhex(topic_id), generation=generation
        )
        return _applied(self._tell(methods.DELETE_TOPIC, request, pb.Outcome), f"topic {name}", generation)

    def declare_loss(
        self, topic_id: str, partition: int, broker: int | None, *, accept: bool, asked_by: str
    ) -> tuple[view.LossSeen, bool]:
        """(what would be declared or was, whether it was). `broker` None: the only copy is repaired."""
        request = pb.DeclareLossRequest(
            topic_id=bytes.fromhex(topic_id),
            partition=partition,
            broker=broker,
            accept_loss=accept,
            asked_by=asked_by,
        )
        budget_s = BUDGET_S if accept else _PROBE_S
        answer = self._tell(methods.DECLARE_LOSS, request, pb.DeclareLossResponse, budget_s)
        _applied(answer.outcome, f"{topic_id}-{partition}", 0)
        return reading_answers.loss_seen(answer.loss), answer.declared

    def cut(
        self,
        cut_id: str,
        tenant: str,
        end_ms: int,
        *,
        previous_end_ms: int,
        billing_sequence: int,
        billing_hash: str,
        waived: Sequence[tuple[str, int]] = (),
        timeout_s: float = 30.0,
    ) -> view.CutAnswer:
        """One more reading of each partition of the tenant, at the last batch before `end_ms`.

        `previous_end_ms` is where the tenant's cut before ended, 0 for the first. The brokers keep the newest entry of
        the billing chain with the cut. `waived` are (topic id, partition) that no cut has any more.
        """
        request = pb.CutRequest(
            cut_id=cut_id,
            tenant=tenant,
            end_ms=end_ms,
            previous_end_ms=previous_end_ms,
            billing_sequence=billing_sequence,
            billing_hash=billing_hash,
            waived=[
                pb.CutPlace(topic_id=bytes.fromhex(topic_id), partition=partition)
                for topic_id, partition in waived
            ],
        )
        answer = self._tell(methods.CUT, request, pb.CutResponse, timeout_s, call_s=timeout_s)
        _applied(answer.outcome, f"cut {cut_id}", 0)
        return reading_answers.cut_answer(answer)

    # -- where partitions are --------------------------------------------------------------------------------

    def cordon_broker(self, broker: int, cordoned: bool, generation: int) -> int:
        request = pb.CordonBrokerRequest(broker=broker, cordoned=cordoned, generation=generation)
        answer = self._tell(methods.CORDON_BROKER, request, pb.Outcome)
        return _applied(answer, f"broker {broker}", generation)

    def forget_broker(self, broker: int) -> int:
        request = pb.ForgetBrokerRequest(broker=broker)
        return _applied(self._tell(methods.FORGET_BROKER, request, pb.Outcome), f"broker {broker}", 0)

    def alter_replicas(self, topic_id: str, partition: int, replicas: Sequence[int] | None) -> int:
        """None takes back what is under way."""
        request = pb.AlterReplicasRequest(
            topic_id=bytes.fromhex(topic_id),
            partition=partition,
            replicas=replicas or [],
            cancel=replicas is None,
        )
        answer = self._tell(methods.ALTER_REPLICAS, request, pb.Outcome)
        return _applied(answer, f"partition {partition} of {topic_id}", 0)

    def move_leader(self, topic_id: str, partition: int, broker: int, timeout_s: float = BUDGET_S) -> int:
        """The leader hands over to an in-sync replica."""
        request = pb.MoveLeaderRequest(topic_id=bytes.fromhex(topic_id), partition=partition, broker=broker)
        answer = self._tell(methods.MOVE_LEADER, request, pb.Outcome, timeout_s)
        return _applied(answer, f"partition {partition} of {topic_id}", 0)

    def describe_moves(self, timeout_s: float = CALL_S) -> list[view.MoveSeen]:
        """Partitions on their way to other brokers, with what is left of each."""
        answer = self._tell(
            methods.DESCRIBE_MOVES, pb.DescribeMovesRequest(), pb.DescribeMovesResponse, timeout_s
        )
        return [
            view.MoveSeen(
                tenant=m.tenant,
                topic=m.topic,
                topic_id=m.topic_id.hex(),
                partition=m.partition,
                leader=m.leader,
                replicas=tuple(m.replicas),
                target=tuple(m.target),
                adding=tuple(m.adding),
                removing=tuple(m.removing),
                in_sync=tuple(m.in_sync),
                progress=tuple(
                    view.MoveProgress(
                        broker=p.broker,
                        in_sync=p.in_sync,
                        offsets_left=p.offsets_left,
                        bytes_left=p.bytes_left,
                    )
                    for p in m.progress
                ),
            )
            for m in answer.moves
        ]

    # -- calling ---------------------------------------------------------------------------------------------

    def _tell(
        self,
        method: str,
        request: Message,
        answer_type: type[AnswerT],
        budget_s: float = BUDGET_S,
        call_s: float = CALL_S,
    ) -> AnswerT:
        """Ask the brokers in turn until one answers with anything but a passing refusal, or the time is up."""
        deadline = time.monotonic() + budget_s
        failure: PenstockError = BrokerUnavailable("no broker addresses are configured")
        while True:
            for address in self._addresses.in_turn():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise failure
                try:
                    answer = self._call(address, method, request, answer_type, min(call_s, left))
                except _AnswerLost as error:
                    failure = BrokerUnavailable(f"no answer from {self._addresses}: {error}")
                    self._addresses.lost(address)
                    continue
                self._addresses.answered(address)
                refusal = _refusal(answer)
                if refusal is None or not refusal.retriable:
                    return answer
                failure = refusal
            if time.monotonic() + _RETRY_S > deadline:
                raise failure
            time.sleep(_RETRY_S)
            self._addresses.remember()

    def _call(
        self, address: str, method: str, request: Message, answer_type: type[AnswerT], timeout_s: float
    ) -> AnswerT:
        call = self._channel(address).unary_unary(
            method, request_serializer=_to_bytes, response_deserializer=answer_type.FromString
        )
        try:
            answer: AnswerT = call(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise _failure(error, address) from error
        return answer

    def _channel(self, address: str) -> grpc.Channel:
        if address not in self._channels:
            self._channels[address] = grpc.insecure_channel(
                address,
                options=[
                    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
                    # A broker that comes back is found at once.
                    ("grpc.max_reconnect_backoff_ms", 1_000),
                    ("grpc.use_local_subchannel_pool", 1),
                ],
            )
        return self._channels[address]


_clients: dict[int, Brokers] = {}


def client() -> Brokers:
    """This process's client. A forked process makes its own: channels do not survive a fork."""
    pid = os.getpid()
    if pid not in _clients:
        brokers = config.current().brokers
        secret = brokers.cluster_secret_file.read_text(encoding="ascii").strip()
        _clients.clear()
        _clients[pid] = Brokers(brokers.internal, secret, _remembered)
    return _clients[pid]


def _remembered() -> Sequence[str]:
    try:
        return queries.broker_addresses()
    except DatabaseError:
        return ()  # the configured ones will do, or nothing does


# -- reading answers ------------------------------------------------------------------------------------


def _outcome(answer: Message) -> pb.Outcome | None:
    if isinstance(answer, pb.Outcome):
        return answer
    return cast("pb.Outcome | None", getattr(answer, "outcome", None))


def _refusal(answer: Message) -> PenstockError | None:
    outcome = _outcome(answer)
    return None if outcome is None or not outcome.error else error_class(outcome.error)(outcome.message)


def _applied(outcome: pb.Outcome, what: str, generation: int) -> int:
    if outcome.error:
        raise error_class(outcome.error)(outcome.message)
    if outcome.ignored:
        raise Outrun(f"{what}: generation {generation} was told, the brokers hold a higher one")
    return outcome.revision


def _to_bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _failure(error: grpc.RpcError, address: str) -> PenstockError:
    trailing = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    for key, value in trailing:
        if key == ERROR_CODE:
            return error_class(int(value))(error.details() or "")
    status = error.code()
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return NotSupported(f"{address}: {error.details()}")
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return InvalidRequest(f"{address}: {error.details()}")
    return _AnswerLost(f"{address}: {status.name}: {error.details()}")
