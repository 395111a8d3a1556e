"""The verifier's way to the brokers: where partitions lead, batches with their stamps, seals, and kept commitments."""

import random
import time
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc

from penstock.blocking.channels import Channels
from penstock.client.settings import ConnectionSettings
from penstock.contract import methods
from penstock.contract.errors import (
    BrokerUnavailable,
    CorruptLog,
    ErrorCode,
    NotFound,
    PenstockError,
    Throttled,
    error_class,
)
from penstock.contract.ids import TopicId, TopicPartition
from penstock.contract.limits import BATCH_BYTES_MAX_LIMIT
from penstock.contract.v1 import log_pb2, proof_pb2
from penstock.records.seal import Seal, SealCorrupt, unpack_seal
from penstock.transport.grpc_terms import REQUEST_ID_BYTES, code_of, describe
from penstock.verification.commitments import ChainPoint, Commitments, KeptCut, KeptLoss

_Answer = TypeVar("_Answer", proof_pb2.ReadStampedResponse, proof_pb2.ReadSealsResponse)
READ_BYTES = 4 * 1024 * 1024
"""Bytes of batches asked for at once. One answer holds at least a batch, so up to `BATCH_BYTES_MAX_LIMIT` more."""
_CALL_MS = 20_000
REACH_S = 6.0
"""So long no broker may answer at all before that is reported; each one of them is waited for half as long."""
_PAUSE_S_FIRST, _PAUSE_S_LONGEST = 0.05, 1.0
_ELSEWHERE = (
    ErrorCode.NOT_LEADER,
    ErrorCode.NO_LEADER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.BROKER_UNAVAILABLE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTopic:
    """A topic as the brokers know it now."""

    name: str
    topic_id: bytes
    leaders: tuple[int, ...]
    """Broker of each partition, -1 = none now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedBatches:
    """One answer of a leader. `error` 0 = batches; else why not, for good."""

    error: int
    message: str
    stamps: bytes
    batches: bytes
    log_start_offset: int
    high_watermark: int
    headers_only: bool = False
    """The key may not read records: of each batch its header stands in `batches`."""


class StampedReads:
    """Reads as one key. Retries while leaders move or the broker asks to slow down, at most `patience_s` a read. Until
    a broker has answered, at most `reach_s`: where there is none, that is reported soon.
    """

    def __init__(
        self, settings: ConnectionSettings, patience_s: float = 60.0, *, reach_s: float = REACH_S
    ) -> None:
        self._channels = Channels(settings)
        self._bootstrap = list(settings.bootstrap)
        self._patience_s = patience_s
        self._reach_s = reach_s
        self._has_answered = False
        self._addresses: dict[int, str] = {}
        self._topics: dict[bytes, LiveTopic] = {}
        self._headers_only: set[bytes] = set()
        """Topics whose records the key may not read."""

    def __enter__(self) -> "StampedReads":
        return self

    def __exit__(self, *_: object) -> None:
        self._channels.close()

    def topics(self) -> dict[bytes, LiveTopic]:
        """The topics that the key sees, by id. Raises `BrokerUnavailable` and whatever a broker refuses with."""
        raw = self._ask_any(methods.METADATA, log_pb2.MetadataRequest(all_topics=True).SerializeToString())
        answer = log_pb2.MetadataResponse.FromString(raw)
        self._addresses = {broker.id: broker.address for broker in answer.brokers}
        self._topics = {
            topic.topic_id: LiveTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                leaders=tuple(
                    p.leader for p in sorted(topic.partitions, key=lambda described: described.partition)
                ),
            )
            for topic in answer.topics
            if not topic.error
        }
        return self._topics

    def commitments(self) -> Commitments:
        """What the brokers keep of the key's tenant. Raises as `topics` does."""
        raw = self._ask_any(methods.READ_COMMITMENTS, proof_pb2.ReadCommitmentsRequest().SerializeToString())
        answer = proof_pb2.ReadCommitmentsResponse.FromString(raw)
        return Commitments(
            tenant=answer.tenant,
            cuts=tuple(
                KeptCut(
                    cut_id=cut.cut_id,
                    start_ms=cut.start_ms,
                    end_ms=cut.end_ms,
                    sha256=cut.sha256,
                    kept_ms=cut.kept_ms,
                    billing=ChainPoint(sequence=cut.billing_sequence, hash=cut.billing_hash)
                    if cut.billing_sequence
                    else None,
                )
                for cut in answer.cuts
            ),
            losses=tuple(
                KeptLoss(
                    where=TopicPartition(TopicId(loss.topic_id), loss.partition),
                    log_generation=loss.log_generation,
                    offset=loss.offset,
                )
                for loss in answer.losses
            ),
        )

    def _ask_any(self, method: str, request: bytes) -> bytes:
        """The answer of the first broker that gives one. Raises `BrokerUnavailable`, `Throttled`."""
        failures: list[PenstockError] = []
        patience_s = self._patience_s if self._has_answered else min(self._patience_s, self._reach_s)
        deadline = time.monotonic() + patience_s
        pause = _PAUSE_S_FIRST
        while True:
            for address in dict.fromkeys([*self._addresses.values(), *self._bootstrap]):
                try:
                    return self._call(address, method, request)
                except PenstockError as error:
                    if not error.retriable:
                        raise
                    failures.append(error)
            if time.monotonic() + pause > deadline:
                last = failures[-3:]
                said = "; ".join(dict.fromkeys(error.message for error in last))
                throttled = any(isinstance(error, Throttled) for error in last)
                raise (Throttled if throttled else BrokerUnavailable)(
                    f"no broker answered within {patience_s:g} s: {said}"
                )
            pause = self._wait(pause)

    def seals(self, where: TopicPartition) -> list[Seal]:
        """The seals that the leader keeps of a partition, by base offset. Raises as `read` does, and `CorruptLog` when
        they cannot be read.
        """
        seals: list[Seal] = []
        above = -1
        while True:
            request = proof_pb2.ReadSealsRequest(
                topic_id=where.topic_id, partition=where.partition, above_offset=above
            ).SerializeToString()
            answer = self._ask_leader(
                where, methods.READ_SEALS, request, proof_pb2.ReadSealsResponse, f"seals above {above}"
            )
            if answer.error:
                raise error_class(answer.error)(f"{where}: {answer.message}")
            at = 0
            try:
                while at < len(answer.seals):
                    seal, at = unpack_seal(answer.seals, at)
                    if seal.where != where or seal.end_offset <= above:
                        raise SealCorrupt(f"seal of {seal.where} up to {seal.end_offset}")
                    seals.append(seal)
                    above = seal.end_offset
            except SealCorrupt as error:
                raise CorruptLog(f"{where}: a seal that its leader keeps cannot be read: {error}") from None
            if not answer.more or not answer.seals:
                return seals

    def read(
        self, where: TopicPartition, offset: int, end_offset: int, bytes_max: int = READ_BYTES
    ) -> StampedBatches:
        """Batches from the one that holds `offset` on; their headers where the key may verify and not consume. Raises
        `NotFound` for a topic that is not there, and `BrokerUnavailable` or `Throttled` after `patience_s`.
        """

        def ask(headers_only: bool) -> proof_pb2.ReadStampedResponse:
            request = proof_pb2.ReadStampedRequest(
                topic_id=where.topic_id,
                partition=where.partition,
                offset=offset,
                bytes_max=min(bytes_max, BATCH_BYTES_MAX_LIMIT),
                end_offset=end_offset,
                headers_only=headers_only,
            ).SerializeToString()
            return self._ask_leader(
                where, methods.READ_STAMPED, request, proof_pb2.ReadStampedResponse, f"offset {offset}"
            )

        answer = ask(where.topic_id in self._headers_only)
        if answer.error == ErrorCode.FORBIDDEN and where.topic_id not in self._headers_only:
            headers = ask(headers_only=True)
            # A broker of the release before knows no headers alone, and refuses as it did.
            if headers.headers_only:
                self._headers_only.add(where.topic_id)
                answer = headers
        return StampedBatches(
            error=answer.error,
            message=answer.message,
            stamps=answer.stamps,
            batches=answer.batches,
            log_start_offset=answer.log_start_offset,
            high_watermark=answer.high_watermark,
            headers_only=answer.headers_only,
        )

    def _ask_leader(
        self, where: TopicPartition, method: str, request: bytes, kind: type[_Answer], what: str
    ) -> _Answer:
        """The leader's answer, whose error, if it has one, is for good. Raises `NotFound`, `BrokerUnavailable`,
        `Throttled`.
        """
        deadline = time.monotonic() + self._patience_s
        pause = _PAUSE_S_FIRST
        fresh = bool(self._topics)
        failure = ""
        while True:
            if not fresh:
                self.topics()
            fresh = True
            address = self._leader_address(where)
            if address is not None:
                answer: _Answer | None = None
                try:
                    answer = kind.FromString(self._call(address, method, request))
                    error = answer.error
                    failure = f"{address}: {answer.message or error}"
                    retriable = bool(error) and error_class(error)("").retriable
                except PenstockError as refused:
                    if not refused.retriable:
                        raise
                    error, failure, retriable = int(refused.code), refused.message, True
                if answer is not None and not retriable:
                    return answer
                fresh = error not in _ELSEWHERE
            else:
                error, failure, fresh = 0, f"{where}: no leader now", False
            if time.monotonic() + pause > deadline:
                throttled = error == ErrorCode.THROTTLED
                raise (Throttled if throttled else BrokerUnavailable)(f"{where}, {what}: {failure}")
            pause = self._wait(pause)

    def _leader_address(self, where: TopicPartition) -> str | None:
        topic = self._topics.get(where.topic_id)
        if topic is None or where.partition >= len(topic.leaders):
            raise NotFound(f"{where}: the brokers know no such partition for this key")
        return self._addresses.get(topic.leaders[where.partition])

    def _wait(self, pause: float) -> float:
        time.sleep(pause * random.uniform(0.8, 1.2))
        return min(2 * pause, _PAUSE_S_LONGEST)

    def _call(self, address: str, method: str, request: bytes) -> bytes:
        request_id = f"{random.getrandbits(8 * REQUEST_ID_BYTES):0{2 * REQUEST_ID_BYTES}x}"
        call_ms = _CALL_MS if self._has_answered else int(self._reach_s * 500)
        call: Any = self._channels.call(address, method, request, call_ms, request_id)
        try:
            answer: bytes = call.result()
            self._has_answered = True
        except grpc.RpcError as error:
            status: Any = error
            code = code_of(status.code(), status.trailing_metadata())
            self._has_answered |= any(
                name == methods.ERROR_CODE for name, _ in status.trailing_metadata() or ()
            )
            described = describe(address, status.code(), status.details(), request_id)
            raise (BrokerUnavailable if code is None else error_class(code))(described) from error
        return answer
