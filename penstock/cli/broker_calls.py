"""Calls of one broker, without the client that would go to another one: for `penstock doctor`."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from penstock.client.settings import ConnectionSettings
from penstock.contract import methods
from penstock.contract.errors import BrokerUnavailable, PenstockError, error_class
from penstock.contract.frames import FrameError, FrameKind, pack_frame, unpack_frame
from penstock.contract.v1 import log_pb2 as pb
from penstock.transport import grpc_terms

_REQUEST_ID = "doctor"
_NO_BROKER = "what it answers is not what a broker says"
_NO_BATCH = b"?"
"""Far too short for a batch. A leader looks at its disk and the key before it looks at what it was sent."""


@contextlib.contextmanager
def connected(connection: ConnectionSettings, address: str, timeout_s: float) -> Iterator[grpc.Channel]:
    """A channel that is connected, so that what follows is the broker's time alone. Raises `BrokerUnavailable`."""
    secure, options = grpc_terms.credentials(connection.ca_file), grpc_terms.CHANNEL_OPTIONS
    channel = (
        grpc.insecure_channel(address, options)
        if secure is None
        else grpc.secure_channel(address, secure, options)
    )
    with contextlib.closing(channel):
        try:
            grpc.channel_ready_future(channel).result(timeout_s)
        except grpc.FutureTimeoutError:
            raise BrokerUnavailable(f"{address}: no connection within {timeout_s:g} s") from None
        yield channel


def answer_ms(connection: ConnectionSettings, address: str, channel: grpc.Channel, timeout_s: float) -> float:
    """How long it takes to answer a call that needs no disk and no other broker. Raises how the broker refuses it, and
    `BrokerUnavailable` when nothing comes in time.
    """
    ask: Any = channel.unary_unary(methods.METADATA)
    began = time.monotonic()
    try:
        answer = ask(
            pb.MetadataRequest().SerializeToString(),
            timeout=timeout_s,
            metadata=grpc_terms.call_metadata(connection.api_key, _REQUEST_ID),
        )
        pb.MetadataResponse.FromString(answer)
    except grpc.RpcError as error:
        raise _described(error, address) from None
    except DecodeError as error:
        raise BrokerUnavailable(f"{address}: {_NO_BROKER}: {error}") from None
    return (time.monotonic() - began) * 1000


def write_refusal(
    connection: ConnectionSettings,
    address: str,
    channel: grpc.Channel,
    topic_id: str,
    partition: int,
    timeout_s: float,
) -> PenstockError:
    """How the leader refuses what is no batch, which none ever stores; `CorruptBatch` where it would have taken a sound
    one.
    """
    head = pb.ProduceHead(acks=-1)
    head.batches.add(
        id=1, topic_id=bytes.fromhex(topic_id), partition=partition, size=len(_NO_BATCH), leader_epoch=-1
    )
    frame = pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [_NO_BATCH])
    # Left open until the answer is there: a broker ends what its caller has ended.
    frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    frames.put(frame)
    opened: Any = channel.stream_stream(methods.PRODUCE)
    answers: Any = opened(
        iter(frames.get, None),
        timeout=timeout_s,
        metadata=grpc_terms.call_metadata(connection.api_key, _REQUEST_ID),
    )
    try:
        for answer in answers:
            kind, answer_head, _ = unpack_frame(answer)
            if kind is FrameKind.PRODUCE_ANSWER:
                for result in pb.ProduceAnswerHead.FromString(bytes(answer_head)).results:
                    return error_class(result.error)(result.message)
    except grpc.RpcError as error:
        return _described(error, address)
    except (FrameError, DecodeError) as error:
        return BrokerUnavailable(f"{address}: {_NO_BROKER}: {error}")
    finally:
        frames.put(None)
        answers.cancel()
    return BrokerUnavailable(f"{address}: the stream ended without an answer")


def _described(error: Any, address: str) -> PenstockError:
    trailing = [(item.key, item.value) for item in error.trailing_metadata() or ()]
    code = grpc_terms.code_of(error.code(), trailing)
    message = grpc_terms.describe(address, error.code(), error.details(), _REQUEST_ID)
    return BrokerUnavailable(message) if code is None else error_class(code)(message)
