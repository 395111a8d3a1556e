"""Calls of the brokers' Admin service over grpc's blocking stack: to whom, how long, how often, and what refused them.

A call that may be repeated goes to the next broker when an answer is lost, within the time of the whole. Any other
is sent to a broker that has just answered, and once only: when its answer is lost its outcome is unknown.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Protocol, TypeVar, cast

import grpc
from google.protobuf.message import Message

from daemon.tls import OwnIdentity
from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.contract.broker_addresses import BrokerAddresses
from data_plane.contract.broker_channels import BrokerChannels, NoBroker
from penstock.contract.errors import (
    BrokerUnavailable,
    ErrorKind,
    InvalidRequest,
    OutcomeUnknown,
    PenstockError,
    error_class,
)
from penstock.contract.methods import ERROR_CODE

CALL_S = 4.0
"""Deadline of one call: several times what a metadata write takes."""
_PROBE_S = 2.0
"""Deadline of looking for a broker that answers: a paused one must not hold up the others for long."""
_RETRY_S = 0.1
_LOOK_S_MIN = 0.001
"""For looking who is there: a socket with no time at all would not block."""

AnswerT = TypeVar("AnswerT", bound=Message)


class NotSupported(BrokerUnavailable):
    """The brokers do not know this call."""

    remedy = "Bring the brokers to the control plane's version."


class Outrun(BrokerUnavailable):
    """The brokers hold a higher generation than the one that was sent; nothing was changed."""

    remedy = "Reconciliation counts the generation up and sends them again."


class AnswerLost(BrokerUnavailable):
    """The call ended without an answer of the service."""


_deadline: ContextVar[float] = ContextVar("admin_deadline", default=math.inf)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """In the block every call ends by then, whatever time it would take by itself."""
    mark = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(mark)


def is_time_up() -> bool:
    """Whether the time of the block around this is over."""
    return time.monotonic() >= _deadline.get()


def ends_at(timeout_s: float) -> float:
    """When a call of so many seconds ends (monotonic)."""
    return min(_deadline.get(), time.monotonic() + timeout_s)


class _WithOutcome(Protocol):
    """An answer that says beside other things how the change went."""

    @property
    def outcome(self) -> pb.Outcome: ...


class BrokerCalls:
    """One process's channels to the brokers. Raises `PenstockError` subclasses. Safe between threads."""

    def __init__(
        self, addresses: Sequence[str], identity: OwnIdentity, remembered: Callable[[], Sequence[str]]
    ) -> None:
        """`addresses` are host:port of internal listeners; `remembered` gives more that were seen before. Each call
        shows the `identity` as its files hold it by then."""
        self.addresses = BrokerAddresses(addresses, remembered)
        self.sent: Counter[str] = Counter()
        """How many were sent, by the name of the call."""
        self._channels = BrokerChannels(identity)
        self._counting = threading.Lock()

    def close(self) -> None:
        self._channels.close()

    def wait_for_revision(
        self, addresses: Sequence[str], revision: int, timeout_s: float
    ) -> pb.DescribeClusterResponse | None:
        """Ask all of them at once; each answers when it has seen the revision. Who does not in time is passed over.

        The newest answer; None when there is none.
        """
        deadline = ends_at(timeout_s)
        newest: pb.DescribeClusterResponse | None = None
        waiting = list(addresses)
        with ThreadPoolExecutor(max(1, len(waiting)), thread_name_prefix="broker-calls") as threads:
            while waiting and (left_s := deadline - time.monotonic()) > 0:
                behind = []
                ask = partial(self._describe_from, revision=revision, timeout_s=left_s)
                for address, answer in zip(waiting, threads.map(ask, waiting), strict=True):
                    # It says that it has not seen the revision yet, or it does not answer at all.
                    if type(answer) is BrokerUnavailable:
                        behind.append(address)
                    elif isinstance(answer, pb.DescribeClusterResponse) and (
                        newest is None or answer.revision > newest.revision
                    ):
                        newest = answer
                waiting = behind
                if (
                    waiting
                ):  # one that refuses at once, because it has just started, is not asked without a pause
                    time.sleep(min(_RETRY_S, max(0.0, deadline - time.monotonic())))
        return newest

    def _describe_from(
        self, address: str, *, revision: int, timeout_s: float
    ) -> pb.DescribeClusterResponse | PenstockError:
        request = pb.DescribeClusterRequest(min_revision=revision)
        try:
            return self.call(
                address, methods.DESCRIBE_CLUSTER, request, pb.DescribeClusterResponse, timeout_s
            )
        except PenstockError as failure:
            return failure

    def change(
        self,
        method: str,
        request: Message,
        answer_type: type[AnswerT],
        timeout_s: float,
        *,
        repeatable: bool,
        call_s: float = CALL_S,
    ) -> AnswerT:
        """Send a change until it is applied, refused for good, of unknown outcome, or the time is up."""
        if repeatable:
            return self.ask(method, request, answer_type, timeout_s, call_s)
        deadline = ends_at(timeout_s)
        while True:
            try:
                return self._send_once(method, request, answer_type, call_s)
            except (NotSupported, OutcomeUnknown):
                raise
            except PenstockError as refusal:
                if not refusal.retriable or time.monotonic() + _RETRY_S > deadline:
                    raise
            time.sleep(_RETRY_S)

    def _send_once(self, method: str, request: Message, answer_type: type[AnswerT], call_s: float) -> AnswerT:
        address = self._one_that_answers()
        try:
            return _applied(self.call(address, method, request, answer_type, call_s))
        except AnswerLost as error:
            name = method.rpartition("/")[2]
            raise OutcomeUnknown(f"{name}: the answer of {address} was lost: {error}") from error

    def _one_that_answers(self) -> str:
        lost = BrokerUnavailable("no broker addresses are known")
        for address in self.addresses.in_turn():
            try:
                request = pb.DescribeClusterRequest()
                self.call(address, methods.DESCRIBE_CLUSTER, request, pb.DescribeClusterResponse, _PROBE_S)
            except AnswerLost as error:
                lost = BrokerUnavailable(f"no answer from {self.addresses}: {error}")
            else:
                return address
        raise lost

    def ask(
        self,
        method: str,
        request: Message,
        answer_type: type[AnswerT],
        timeout_s: float,
        call_s: float = CALL_S,
    ) -> AnswerT:
        """Ask the brokers in turn until one answers with anything but a passing refusal, or the time is up."""
        deadline = ends_at(timeout_s)
        failure: PenstockError | None = None
        refused = False
        while True:
            for address in self.addresses.in_turn():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise failure or BrokerUnavailable(f"no time was left to ask {self.addresses}")
                try:
                    answer = _applied(self.call(address, method, request, answer_type, min(call_s, left_s)))
                except AnswerLost as error:
                    # A call that ended with our own deadline says nothing against what was answered before.
                    if left_s >= call_s or not refused:
                        failure = BrokerUnavailable(f"no answer from {self.addresses}: {error}")
                    self.addresses.lost(address)
                except (NotSupported, Outrun):
                    raise
                except PenstockError as refusal:
                    if refusal.kind not in (ErrorKind.RETRIABLE, ErrorKind.UNKNOWN_OUTCOME):
                        raise
                    failure, refused = refusal, True
                else:
                    self.addresses.answered(address)
                    return answer
            if time.monotonic() + _RETRY_S > deadline:
                raise failure or BrokerUnavailable("no broker addresses are known")
            time.sleep(_RETRY_S)
            self.addresses.remember()

    def call(
        self, address: str, method: str, request: Message, answer_type: type[AnswerT], timeout_s: float
    ) -> AnswerT:
        """One call to one broker. Raises `AnswerLost` when nothing there answers, or what answers is no broker."""
        ends = ends_at(timeout_s)
        self._count(method)
        try:
            channel, metadata = self._channels.to(address, max(_LOOK_S_MIN, ends - time.monotonic()))
        except NoBroker as error:
            raise AnswerLost(str(error)) from error
        call = channel.unary_unary(
            method, request_serializer=_to_bytes, response_deserializer=answer_type.FromString
        )
        try:
            left_s = max(0.0, ends - time.monotonic())
            answer: AnswerT = call(request, timeout=left_s, metadata=metadata)
        except grpc.RpcError as error:
            failure = read_failure(error, address)
            if isinstance(failure, AnswerLost) and error.code() is grpc.StatusCode.UNAVAILABLE:
                self._channels.doubt(address)
            raise failure from error
        return answer

    def _count(self, method: str) -> None:
        with self._counting:
            self.sent[method.rpartition("/")[2]] += 1


def read_failure(error: grpc.RpcError, address: str) -> PenstockError:
    """The refusal that a failed call carries in its trailing metadata, or `AnswerLost`."""
    trailing = cast("Iterable[tuple[str, str | bytes]]", error.trailing_metadata() or ())
    for key, value in trailing:
        if key == ERROR_CODE:
            return error_class(int(value))(error.details() or "")
    status = error.code()
    said = f"{address}: {status.name}: {error.details()}"
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return NotSupported(said)
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return InvalidRequest(said)
    return AnswerLost(said)


def _applied(answer: AnswerT) -> AnswerT:
    """The answer, when it carries no refusal. Raises what the service refused with, or `Outrun`."""
    if isinstance(answer, pb.Outcome):
        outcome: pb.Outcome = answer
    elif "outcome" in answer.DESCRIPTOR.fields_by_name:
        outcome = cast(_WithOutcome, answer).outcome
    else:
        return answer
    if outcome.error:
        raise error_class(outcome.error)(outcome.message)
    if outcome.ignored:
        raise Outrun("the brokers hold a higher generation")
    return answer


def _to_bytes(message: Message) -> bytes:
    return message.SerializeToString()
