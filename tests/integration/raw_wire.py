"""The wire without the SDK: frames and requests as anybody may send them, and the refusals that come back."""

import queue
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

import grpc
from google.protobuf.message import Message

from daemon.tls import OwnIdentity
from data_plane.broker import peer_wire as wire
from data_plane.broker.peer_wire import Form
from penstock.contract import limits, methods
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameKind, pack_frame, unpack_frame
from penstock.contract.v1 import log_pb2 as pb
from penstock.records.build import BatchBuilder
from penstock.rules.addresses import split_address
from tests.certificates import channel_credentials
from tests.waiting import PATIENCE_S

"""Longest wait for anything on the wire; what takes longer fails the test."""
_MESSAGE_BYTES_MAX = 2 * limits.FRAME_BYTES_MAX
_OPTIONS = (
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
)
_M = TypeVar("_M", bound=Message)

Metadata = tuple[tuple[str, str], ...]
Who = Metadata | OwnIdentity
"""A client, in plain text with what it shows; or a process of the cluster, by its certificate."""
Placed = tuple[bytes, int, bytes]
"""(topic id, partition, batch)."""


class Refused(Exception):
    """A call or stream ended with an error; `code` is None when it was grpc's own, `status` between brokers."""

    def __init__(self, code: ErrorCode | None, status: grpc.StatusCode | None, message: str) -> None:
        super().__init__(f"{status}, {code!r}: {message}")
        self.code = code
        self.status = status
        self.message = message


def with_key(api_key: str) -> Metadata:
    return ((methods.AUTHORIZATION, f"Bearer {api_key}"),)


def _channel(address: str, who: Who) -> grpc.Channel:
    if isinstance(who, OwnIdentity):
        return grpc.secure_channel(address, channel_credentials(who), options=_OPTIONS)
    return grpc.insecure_channel(address, options=_OPTIONS)


def _metadata(who: Who) -> Metadata:
    return () if isinstance(who, OwnIdentity) else who


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        trailing: dict[str, Any] = {one.key: one.value for one in error.trailing_metadata() or ()}
        code = trailing.get(methods.ERROR_CODE)
        raise Refused(
            code=None if code is None else ErrorCode(int(code)),
            status=error.code(),
            message=error.details() or "",
        ) from None


def call(address: str, method: str, request: Message | bytes, answer: type[_M], who: Who) -> _M:
    """One unary call. Raises `Refused`."""
    data = request if isinstance(request, bytes) else request.SerializeToString()
    with _channel(address, who) as channel, _refusals():
        ask: Any = channel.unary_unary(method)
        return answer.FromString(ask(data, timeout=PATIENCE_S, metadata=_metadata(who)))


class RawStream:
    """A bidirectional stream of frames, or of what is none. A context manager."""

    def __init__(self, address: str, method: str, who: Who) -> None:
        self._channel = _channel(address, who)
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        opened: Any = self._channel.stream_stream(method)
        self._call: Any = opened(iter(self._outgoing.get, None), timeout=PATIENCE_S, metadata=_metadata(who))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._outgoing.put(None)
        self._call.cancel()
        self._channel.close()

    def send(self, frame: bytes) -> None:
        self._outgoing.put(frame)

    def receive(self) -> tuple[FrameKind, bytes, bytes]:
        """The next frame as kind, head and payload. Raises `Refused`, also at an end without an error."""
        with _refusals():
            try:
                kind, head, payload = unpack_frame(next(self._call))
            except StopIteration:
                raise Refused(code=None, status=grpc.StatusCode.OK, message="the stream ended") from None
        return kind, bytes(head), bytes(payload)

    def end(self) -> Refused:
        """How the stream ends, whatever comes before."""
        try:
            while True:
                self.receive()
        except Refused as refused:
            return refused


class RawPeer:
    """A connection to a peer listener, as another broker makes it. A context manager."""

    def __init__(self, address: str, method: str, who: OwnIdentity, *, form: Form = Form.STREAM) -> None:
        host, port = split_address(address)
        connected = socket.create_connection((host, port), timeout=PATIENCE_S)
        self._socket = who.current.client.wrap_socket(connected, server_hostname=host)
        self._incoming = wire.Incoming()
        hello = wire.Hello(form=form, method=method, request_id="raw")
        self.send_bytes(hello.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, frame: bytes) -> None:
        self.send_bytes(wire.frame(frame))

    def send_bytes(self, said: bytes) -> None:
        """Nothing where the peer has hung up already."""
        with suppress(ConnectionError):
            self._socket.sendall(said)

    def receive(self) -> tuple[FrameKind, bytes, bytes]:
        """As `RawStream.receive`."""
        while True:
            kind, payload = self._message()
            if kind == wire.Kind.END:
                code, reason = wire.read_end(payload)
                raise Refused(code=ErrorCode(code) if code else None, status=None, message=reason)
            if kind == wire.Kind.FRAME:
                found, head, rest = unpack_frame(payload)
                return found, bytes(head), bytes(rest)
            wire.read_welcome(payload)

    def end(self) -> Refused:
        """As `RawStream.end`."""
        try:
            while True:
                self.receive()
        except Refused as refused:
            return refused

    def _message(self) -> tuple[int, bytes]:
        while (message := self._incoming.take()) is None:
            try:
                count = self._socket.recv_into(self._incoming.free())
            except ConnectionError:
                count = 0
            if count == 0:
                raise Refused(code=None, status=None, message="the connection ended")
            self._incoming.filled(count)
        return message


class ProduceWire(RawStream):
    """One produce stream."""

    def __init__(self, address: str, api_key: str) -> None:
        super().__init__(address, methods.PRODUCE, with_key(api_key))
        self._next_id = 0

    def put(self, placed: Sequence[Placed], acks: int = -1) -> list[int]:
        """Send one frame; the ids of its batches."""
        head = pb.ProduceHead(acks=acks)
        ids = []
        for topic_id, partition, batch in placed:
            self._next_id += 1
            ids.append(self._next_id)
            head.batches.add(
                id=self._next_id, topic_id=topic_id, partition=partition, size=len(batch), leader_epoch=-1
            )
        self.send(pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [batch for _, _, batch in placed]))
        return ids

    def results(self, count: int) -> dict[int, pb.ProduceResult]:
        """The next `count` results by batch id."""
        found: dict[int, pb.ProduceResult] = {}
        while len(found) < count:
            kind, head, _ = self.receive()
            assert kind is FrameKind.PRODUCE_ANSWER
            found |= {result.id: result for result in pb.ProduceAnswerHead.FromString(head).results}
        return found

    def produce(self, topic_id: bytes, partition: int, batch: bytes) -> pb.ProduceResult:
        """One batch and its result."""
        (batch_id,) = self.put([(topic_id, partition, batch)])
        return self.results(1)[batch_id]


class ConsumeWire(RawStream):
    """One consume stream."""

    def __init__(self, address: str, api_key: str) -> None:
        super().__init__(address, methods.CONSUME, with_key(api_key))

    def open(self, topic_id: bytes, partition: int, offset: int = 0, *, handle: int = 1, credit: int) -> None:
        head = pb.ConsumeOpenHead()
        head.partitions.add(
            handle=handle,
            topic_id=topic_id,
            partition=partition,
            generation=1,
            offset=offset,
            last_epoch=-1,
            leader_epoch=-1,
            credit_bytes=credit,
        )
        self.send(pack_frame(FrameKind.CONSUME_OPEN, head.SerializeToString()))

    def give_credit(self, credit: int, *, handle: int = 1) -> None:
        head = pb.ConsumeCreditHead()
        head.credits.add(handle=handle, generation=1, credit_bytes=credit)
        self.send(pack_frame(FrameKind.CONSUME_CREDIT, head.SerializeToString()))

    def pushes(self) -> tuple[list[pb.ConsumePush], bytes]:
        """The next frame's pushes, and its batches."""
        kind, head, payload = self.receive()
        assert kind is FrameKind.CONSUME_PUSH
        return list(pb.ConsumePushHead.FromString(head).pushes), payload


def batch_of(*values: bytes, timestamp_ms: int = 1_000) -> bytes:
    """A sound batch without a producer id."""
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp_ms, None, value)
    return builder.build()
