"""A cluster without replication or I/O that keeps the client protocol: credit, sequences, generations, epochs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.contract import limits
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.v1 import log_pb2
from penstock.records.batch import check_batch, placed, read_header
from penstock.records.parse import records_of

WINDOW = 5


class Refused(Exception):
    """A call answered with an error."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True)
class ProducerState:
    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """(first sequence, count, base offset) of the last five."""

    @property
    def next_sequence(self) -> int:
        first, count, _ = self.batches[-1]
        return (first + count) % 2**31


@dataclass(slots=True)
class FakePartition:
    leader: int
    leader_epoch: int = 1
    log: list[tuple[int, bytes]] = field(default_factory=list)
    """(base offset, batch with its place)."""
    log_start: int = 0
    next_offset: int = 0
    producers: dict[int, ProducerState] = field(default_factory=dict)
    truncated_at: int | None = None

    def values(self) -> list[bytes | None]:
        return [record.value for _, batch in self.log for record in records_of(batch)]


@dataclass(slots=True)
class FakeTopic:
    name: str
    topic_id: bytes
    partitions: list[FakePartition]
    settings: dict[str, object] = field(default_factory=dict)


class FakeCluster:
    """`brokers`: address by id. `refusals` are consumed by the next batches, whatever their partition."""

    def __init__(self, brokers: dict[int, str]) -> None:
        self.brokers = dict(brokers)
        self.registered = dict(brokers)
        self.topics: dict[str, FakeTopic] = {}
        self.revision = 1
        self.refusals: list[tuple[ErrorCode, str]] = []
        self.applied_unsaid = 0
        """So many of the next batches are applied and answered with `OUTCOME_UNKNOWN`."""
        self.credit_bytes = limits.STREAM_CREDIT_BYTES
        self.keeps_credit = False
        """What a frame took of the stream's credit does not come back with the answer."""
        self.keys: dict[str, str] | None = None
        self.zones: dict[int, str] = {}
        """Of brokers that are not in z."""
        self.serving: dict[int, None] = {}
        """Brokers that serve, as followers in sync, what others lead."""
        self.silent: dict[int, None] = {}
        """Brokers that take everything in and answer nothing."""
        self.listeners: list[Callable[[], None]] = []
        self.now_ms = 1_700_000_000_000
        self.frames_of_batches: list[int] = []
        """How many batches each PRODUCE frame held."""
        self.slow_down_ms: dict[int, int] = {}
        """By number of the partition: what results ask for."""
        self.throttled_ms = 0
        """What results say that the tenant's rate delayed their batches."""
        self.key_reports: list[tuple[int, log_pb2.ReportKeysRequest]] = []
        self.refuses_key_reports: ErrorCode | None = None
        self.refuses_producers: ErrorCode | None = None
        """What who asks for an id is answered with."""
        self._next_producer = 1000
        self._topics_made = 0

    # ---- administration -----------------------------------------------------------------------------------

    def create(self, name: str, partitions: int = 1, **settings: object) -> FakeTopic:
        self._topics_made += 1
        ids = sorted(self.brokers)
        topic = FakeTopic(
            name,
            self._topics_made.to_bytes(16, "big"),
            [FakePartition(ids[number % len(ids)]) for number in range(partitions)],
            dict(settings),
        )
        self.topics[name] = topic
        self.changed()
        return topic

    def delete(self, name: str) -> None:
        del self.topics[name]
        self.changed()

    def grow(self, name: str, partitions: int) -> None:
        topic = self.topics[name]
        while len(topic.partitions) < partitions:
            topic.partitions.append(FakePartition(min(self.brokers)))
        self.changed()

    def move(self, name: str, partition: int, leader: int) -> None:
        found = self.topics[name].partitions[partition]
        found.leader, found.leader_epoch = leader, found.leader_epoch + 1
        self.changed()

    def unregister(self, broker: int) -> None:
        """The broker is fenced; its partitions go to the others."""
        self.registered.pop(broker, None)
        others = sorted(self.registered)
        for topic in self.topics.values():
            for number, partition in enumerate(topic.partitions):
                if partition.leader == broker:
                    partition.leader = others[number % len(others)] if others else -1
                    partition.leader_epoch += 1
        self.changed()

    def changed(self) -> None:
        self.revision += 1
        for listener in list(self.listeners):
            listener()

    # ---- unary calls --------------------------------------------------------------------------------------

    def call(self, broker: int, method: str, request: bytes) -> bytes:
        name = method.rsplit("/", 1)[1]
        if name == "Metadata":
            wanted = log_pb2.MetadataRequest.FromString(request)
            return self.metadata(sorted(self.topics) if wanted.all_topics else list(wanted.topics))
        if name == "ListOffsets":
            return self._list_offsets(broker, log_pb2.ListOffsetsRequest.FromString(request))
        if name == "ReportKeys":
            return self._take_key_report(broker, log_pb2.ReportKeysRequest.FromString(request))
        assert name == "InitProducer", name
        return self._init_producer(log_pb2.InitProducerRequest.FromString(request))

    def metadata(self, names: list[str]) -> bytes:
        response = log_pb2.MetadataResponse(cluster_id="fake", revision=self.revision)
        for broker in sorted(self.registered):
            response.brokers.add(id=broker, address=self.registered[broker], zone=self.zones.get(broker, "z"))
        for name in names:
            topic = self.topics.get(name)
            if topic is None:
                response.topics.add(name=name, error=ErrorCode.NOT_FOUND, message=f"{name}: no such topic")
                continue
            added = response.topics.add(
                name=name, topic_id=topic.topic_id, settings_json=json.dumps(topic.settings)
            )
            for number, partition in enumerate(topic.partitions):
                added.partitions.add(
                    partition=number,
                    leader=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    replicas=sorted(self.brokers),
                    in_sync=sorted(self.registered),
                )
        return response.SerializeToString()

    def serves(self, broker: int, partition: FakePartition, wanted: log_pb2.ConsumeOpen) -> bool:
        return partition.leader == broker or (wanted.from_follower and broker in self.serving)

    def find(self, topic_id: bytes, partition: int) -> tuple[FakeTopic, FakePartition] | None:
        for topic in self.topics.values():
            if topic.topic_id == topic_id and partition < len(topic.partitions):
                return topic, topic.partitions[partition]
        return None

    def _take_key_report(self, broker: int, request: log_pb2.ReportKeysRequest) -> bytes:
        if self.refuses_key_reports is not None:
            raise Refused(self.refuses_key_reports, "no key reports")
        self.key_reports.append((broker, request))
        response = log_pb2.ReportKeysResponse(
            partitions=[log_pb2.TakenKeyReport() for _ in request.partitions]
        )
        return response.SerializeToString()

    def _list_offsets(self, broker: int, request: log_pb2.ListOffsetsRequest) -> bytes:
        response = log_pb2.ListOffsetsResponse()
        for wanted in request.partitions:
            found = self.find(wanted.topic_id, wanted.partition)
            if found is None:
                response.partitions.add(error=ErrorCode.NOT_FOUND, message="no such partition")
                continue
            _, partition = found
            if partition.leader != broker:
                response.partitions.add(error=ErrorCode.NOT_LEADER, message="not the leader")
                continue
            offset = partition.next_offset
            if wanted.timestamp_ms == -2:
                offset = partition.log_start
            elif wanted.timestamp_ms >= 0:
                for _, batch in partition.log:
                    header = read_header(batch)
                    if header.max_timestamp >= wanted.timestamp_ms:
                        offset = min(offset, header.base_offset)
            response.partitions.add(offset=offset, leader_epoch=partition.leader_epoch)
        return response.SerializeToString()

    def _init_producer(self, request: log_pb2.InitProducerRequest) -> bytes:
        if self.refuses_producers is not None:
            return log_pb2.InitProducerResponse(
                error=self.refuses_producers, message="no id"
            ).SerializeToString()
        if request.producer_id == -1:
            self._next_producer += 1
            return log_pb2.InitProducerResponse(
                producer_id=self._next_producer, producer_epoch=0
            ).SerializeToString()
        return log_pb2.InitProducerResponse(
            producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1
        ).SerializeToString()

    # ---- produce ------------------------------------------------------------------------------------------

    def opening(self) -> bytes:
        """The first frame of a produce stream."""
        head = log_pb2.ProduceAnswerHead(credit_bytes=self.credit_bytes)
        return pack_frame(FrameKind.PRODUCE_ANSWER, head.SerializeToString())

    def produce(self, broker: int, frame: bytes) -> bytes:
        """The answer to one PRODUCE frame."""
        kind, head_bytes, payload = unpack_frame(frame)
        assert kind is FrameKind.PRODUCE
        head = log_pb2.ProduceHead.FromString(bytes(head_bytes))
        self.frames_of_batches.append(len(head.batches))
        answer = log_pb2.ProduceAnswerHead(credit_bytes=0 if self.keeps_credit else len(payload))
        at = 0
        for wanted in head.batches:
            batch = bytes(payload[at : at + wanted.size])
            at += wanted.size
            result = self._append(broker, wanted, batch)
            result.slow_down_ms = self.slow_down_ms.get(wanted.partition, 0)
            result.throttled_ms = self.throttled_ms
            if head.acks:
                answer.results.append(result)
        assert at == len(payload)
        self.tell_consumers()
        return pack_frame(FrameKind.PRODUCE_ANSWER, answer.SerializeToString())

    def tell_consumers(self) -> None:
        for listener in list(self.listeners):
            listener()

    def _append(self, broker: int, wanted: log_pb2.ProduceBatch, batch: bytes) -> log_pb2.ProduceResult:
        header = check_batch(batch)
        found = self.find(wanted.topic_id, wanted.partition)

        def refused(code: ErrorCode, message: str) -> log_pb2.ProduceResult:
            return log_pb2.ProduceResult(id=wanted.id, error=code, message=message, base_offset=-1)

        if self.refusals:
            return refused(*self.refusals.pop(0))
        if found is None:
            return refused(ErrorCode.NOT_FOUND, "no such topic")
        topic, partition = found
        label = f"{topic.name}-{wanted.partition}"
        if partition.leader != broker:
            return refused(ErrorCode.NOT_LEADER, f"{label}: broker {broker} does not lead it")
        if header.producer_id >= 0:
            state = partition.producers.get(header.producer_id)
            if state is None or header.producer_epoch > state.epoch:
                if header.base_sequence != 0:
                    code = ErrorCode.UNKNOWN_PRODUCER if state is None else ErrorCode.OUT_OF_ORDER_SEQUENCE
                    return refused(code, f"{label}: sequence {header.base_sequence}, 0 expected")
                state = partition.producers[header.producer_id] = ProducerState(header.producer_epoch)
            elif header.producer_epoch < state.epoch:
                return refused(ErrorCode.PRODUCER_FENCED, f"{label}: epoch {header.producer_epoch} is old")
            else:
                for first, count, offset in state.batches:
                    if first == header.base_sequence and count == header.record_count:
                        return log_pb2.ProduceResult(
                            id=wanted.id, base_offset=offset, accepted_ms=self.now_ms, duplicate=True
                        )
                if header.base_sequence != state.next_sequence:
                    return refused(
                        ErrorCode.OUT_OF_ORDER_SEQUENCE,
                        f"{label}: sequence {header.base_sequence}, {state.next_sequence} expected",
                    )
            state.batches = [
                *state.batches[-WINDOW + 1 :],
                (header.base_sequence, header.record_count, partition.next_offset),
            ]
        base = partition.next_offset
        stored = b"".join(placed(batch, base, partition.leader_epoch))
        partition.log.append((base, stored))
        partition.next_offset += header.record_count
        if self.applied_unsaid:
            self.applied_unsaid -= 1
            return refused(ErrorCode.OUTCOME_UNKNOWN, f"{label}: leadership was lost after the append")
        return log_pb2.ProduceResult(id=wanted.id, base_offset=base, accepted_ms=self.now_ms)


@dataclass(slots=True)
class _Open:
    wanted: log_pb2.ConsumeOpen
    offset: int
    credit: int
    told: tuple[int, int] = (-1, -1)


class ConsumeSession:
    """One consume stream at one broker. `pushes` gives frames until there is nothing to push."""

    def __init__(self, cluster: FakeCluster, broker: int) -> None:
        self._cluster = cluster
        self._broker = broker
        self.opened: dict[int, _Open] = {}
        self._errors: list[log_pb2.ConsumePush] = []
        self.credit_returned = 0
        self.opens: list[log_pb2.ConsumeOpen] = []

    def take(self, frame: bytes) -> None:
        kind, head, _ = unpack_frame(frame)
        if kind is FrameKind.CONSUME_OPEN:
            for wanted in log_pb2.ConsumeOpenHead.FromString(bytes(head)).partitions:
                self._open(wanted)
        elif kind is FrameKind.CONSUME_CREDIT:
            for credit in log_pb2.ConsumeCreditHead.FromString(bytes(head)).credits:
                opened = self.opened.get(credit.handle)
                if opened is not None and opened.wanted.generation == credit.generation:
                    opened.credit += credit.credit_bytes
                    self.credit_returned += credit.credit_bytes
        else:
            assert kind is FrameKind.CONSUME_CLOSE
            for handle in log_pb2.ConsumeCloseHead.FromString(bytes(head)).handles:
                self.opened.pop(handle, None)

    def _open(self, wanted: log_pb2.ConsumeOpen) -> None:
        self.opens.append(wanted)
        found = self._cluster.find(wanted.topic_id, wanted.partition)
        error: ErrorCode | None = None
        divergence = -1
        if found is None:
            error = ErrorCode.NOT_FOUND
        elif not self._cluster.serves(self._broker, found[1], wanted):
            error = ErrorCode.NOT_LEADER
        elif found[1].truncated_at is not None and wanted.offset > found[1].truncated_at:
            error, divergence = ErrorCode.LOG_TRUNCATED, found[1].truncated_at
        elif not found[1].log_start <= wanted.offset <= found[1].next_offset:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        if error is not None:
            self._errors.append(
                log_pb2.ConsumePush(
                    handle=wanted.handle,
                    generation=wanted.generation,
                    error=error,
                    message=f"refused: {error.name}",
                    divergence_offset=divergence,
                    beyond_end=found is not None and wanted.offset > found[1].next_offset,
                )
            )
            return
        self.opened[wanted.handle] = _Open(wanted, wanted.offset, wanted.credit_bytes)

    def pushes(self) -> list[bytes]:
        frames: list[bytes] = []
        while True:
            head = log_pb2.ConsumePushHead()
            payload: list[bytes] = []
            head.pushes.extend(self._errors)
            self._errors = []
            for handle, opened in list(self.opened.items()):
                found = self._cluster.find(opened.wanted.topic_id, opened.wanted.partition)
                if found is None or not self._cluster.serves(self._broker, found[1], opened.wanted):
                    del self.opened[handle]
                    head.pushes.add(
                        handle=handle,
                        generation=opened.wanted.generation,
                        error=ErrorCode.NOT_LEADER if found else ErrorCode.NOT_FOUND,
                        message="moved",
                    )
                    continue
                self._push(head, payload, opened, found[1])
            if not head.pushes:
                return frames
            frames.append(pack_frame(FrameKind.CONSUME_PUSH, head.SerializeToString(), payload))

    def _push(
        self, head: log_pb2.ConsumePushHead, payload: list[bytes], opened: _Open, partition: FakePartition
    ) -> None:
        marks = (partition.log_start, partition.next_offset)
        batch = b""
        if opened.credit > 0:
            for base, stored in partition.log:
                end = base + read_header(stored).offset_span
                if end > opened.offset:
                    batch, opened.offset = stored, end
                    break
        if not batch and opened.told == marks:
            return
        opened.told = marks
        opened.credit -= len(batch)
        payload.append(batch)
        head.pushes.add(
            handle=opened.wanted.handle,
            generation=opened.wanted.generation,
            leader_epoch=partition.leader_epoch,
            log_start_offset=partition.log_start,
            high_watermark=partition.next_offset,
            last_stable_offset=partition.next_offset,
            size=len(batch),
        )
