"""Frames that break the rules of their stream, from clients and from what has a broker's certificate."""

import struct
from collections.abc import Callable

import grpc
import pytest

from data_plane.contract import methods as internal
from data_plane.contract import replication_pb2 as replication
from penstock.contract import limits, methods
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import MAGIC, VERSION, FrameKind, pack_frame
from penstock.contract.v1 import log_pb2 as pb
from tests.integration.brokers import Brokers, Tenant
from tests.integration.raw_wire import (
    ConsumeWire,
    ProduceWire,
    RawPeer,
    RawStream,
    Refused,
    batch_of,
    with_key,
)
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("unharmed")]

UNREADABLE = b"\xff" * 9
"""No protobuf message begins so."""
STREAMS = {
    methods.PRODUCE: FrameKind.PRODUCE,
    methods.CONSUME: FrameKind.CONSUME_OPEN,
    internal.REPLICATE: FrameKind.REPLICA_OPEN,
    internal.CONTROL: FrameKind.BEAT,
    internal.LEASES: FrameKind.LEASE_REQUEST,
    internal.STORAGE: FrameKind.STORAGE_REPORT,
}
"""Each stream with a kind that it takes."""
CLIENT_STREAMS = [methods.PRODUCE, methods.CONSUME]
FOREIGN_KINDS = {
    methods.PRODUCE: [FrameKind.PRODUCE_ANSWER, FrameKind.CONSUME_OPEN, FrameKind.REPLICA_PUSH],
    methods.CONSUME: [FrameKind.CONSUME_PUSH, FrameKind.PRODUCE, FrameKind.REPLICA_OPEN],
    internal.REPLICATE: [FrameKind.REPLICA_PUSH, FrameKind.REPLICA_ANSWER, FrameKind.PRODUCE, FrameKind.BEAT],
    internal.CONTROL: [FrameKind.REPLICA_OPEN, FrameKind.CONSUME_OPEN],
    internal.LEASES: [FrameKind.LEASE_GRANT, FrameKind.BEAT],
    internal.STORAGE: [FrameKind.STORAGE_ANSWER, FrameKind.BEAT],
}


def header(magic: int, version: int, kind: int, head: int, payload: int) -> bytes:
    return struct.pack(">HBBII", magic, version, kind, head, payload)


BROKEN: dict[str, tuple[Callable[[FrameKind], bytes], str]] = {
    "empty": (lambda kind: b"", "frame of 0 bytes, 12 required"),
    "header cut": (lambda kind: pack_frame(kind, b"")[:11], "frame of 11 bytes, 12 required"),
    "text": (lambda kind: b"GET / HTTP/1.1\r\n\r\n", "magic 0x4745"),
    "bad magic": (lambda kind: header(0x5350, VERSION, kind, 0, 0), "magic 0x5350"),
    "another version": (lambda kind: header(MAGIC, 2, kind, 0, 0), "version 2"),
    "unknown kind": (lambda kind: header(MAGIC, VERSION, 255, 0, 0), "frame kind 255 is unknown"),
    "head longer than said": (lambda kind: header(MAGIC, VERSION, kind, 3, 0) + bytes(9), "do not fill"),
    "head shorter than said": (lambda kind: header(MAGIC, VERSION, kind, 2**32 - 1, 0) + bytes(9), "do not fill"),
    "payload shorter than said": (lambda kind: header(MAGIC, VERSION, kind, 0, 2**32 - 1), "do not fill"),
    "lengths that wrap around": (lambda kind: header(MAGIC, VERSION, kind, 2**31, 2**31) + bytes(9), "do not fill"),
    "head over its limit": (
        lambda kind: pack_frame(kind, bytes(limits.FRAME_HEAD_BYTES_MAX + 1)), "do not fill"),
    "over its limit": (
        lambda kind: pack_frame(kind, b"", [bytes(limits.FRAME_BYTES_MAX)]), "at most 33554432 allowed"),
    "unreadable head": (lambda kind: pack_frame(kind, UNREADABLE), "is not readable"),
}  # fmt: skip


def stream_of(cluster: Brokers, tenant: Tenant, method: str) -> RawStream | RawPeer:
    broker = cluster.spec.brokers[0]
    if method in CLIENT_STREAMS:
        return RawStream(broker.client_address, method, with_key(tenant.api_key))
    return RawPeer(broker.peer_address, method, cluster.as_broker(2))


def end_after(cluster: Brokers, tenant: Tenant, method: str, frame: bytes) -> Refused:
    with stream_of(cluster, tenant, method) as stream:
        stream.send(frame)
        return stream.end()


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("method", STREAMS)
def test_what_is_no_frame_ends_its_stream_with_the_reason(
    cluster: Brokers, tenant: Tenant, method: str, broken: str
) -> None:
    make, reason = BROKEN[broken]
    ended = end_after(cluster, tenant, method, make(STREAMS[method]))
    assert ended.code == ErrorCode.INVALID_REQUEST
    assert ended.status is (grpc.StatusCode.INVALID_ARGUMENT if method in CLIENT_STREAMS else None)
    assert reason in ended.message


@pytest.mark.parametrize("method", CLIENT_STREAMS)
def test_a_frame_beyond_what_is_read_at_all_ends_its_stream(
    cluster: Brokers, tenant: Tenant, method: str
) -> None:
    frame = pack_frame(STREAMS[method], b"", [bytes(limits.FRAME_BYTES_MAX + 2 * limits.MIB)])
    ended = end_after(cluster, tenant, method, frame)
    assert ended.status is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in ended.message


@pytest.mark.parametrize("method", [internal.REPLICATE, internal.CONTROL, internal.LEASES, internal.STORAGE])
def test_a_length_beyond_what_is_read_at_all_ends_the_connection_of_a_broker(
    cluster: Brokers, tenant: Tenant, method: str
) -> None:
    with RawPeer(cluster.spec.brokers[0].peer_address, method, cluster.as_broker(2)) as stream:
        stream.send_bytes(b"\x01\xff\xff\xff\xff" + bytes(100_000))
        ended = stream.end()
    assert (ended.code, ended.message) == (
        ErrorCode.INVALID_REQUEST,
        f"a message of kind 1 and {2**32 - 1} bytes",
    )


@pytest.mark.parametrize(
    ("method", "kind"), [(m, kind) for m, kinds in FOREIGN_KINDS.items() for kind in kinds]
)
def test_a_kind_of_another_stream_ends_it_by_name(
    cluster: Brokers, tenant: Tenant, method: str, kind: FrameKind
) -> None:
    ended = end_after(cluster, tenant, method, pack_frame(kind, b""))
    assert ended.code == ErrorCode.INVALID_REQUEST
    assert ended.message.startswith(f"frame kind {kind.name} has no place on a ")


@pytest.mark.parametrize("sizes", [[5], [3, 4], [2**32 - 1, 9], []])
def test_batches_that_do_not_fill_the_payload_end_the_stream(
    cluster: Brokers, tenant: Tenant, sizes: list[int]
) -> None:
    head = pb.ProduceHead(acks=-1)
    for size in sizes:
        head.batches.add(id=1, topic_id=bytes(16), size=size)
    ended = end_after(
        cluster, tenant, methods.PRODUCE, pack_frame(FrameKind.PRODUCE, head.SerializeToString(), [bytes(8)])
    )
    assert (ended.code, ended.message) == (
        ErrorCode.INVALID_REQUEST,
        "batches named and payload of 8 bytes differ in size",
    )


@pytest.mark.parametrize("acks", [-2, 2, 2**31 - 1])
def test_acks_that_do_not_exist_end_the_stream(cluster: Brokers, tenant: Tenant, acks: int) -> None:
    head = pb.ProduceHead(acks=acks).SerializeToString()
    ended = end_after(cluster, tenant, methods.PRODUCE, pack_frame(FrameKind.PRODUCE, head))
    assert (ended.code, ended.message) == (ErrorCode.INVALID_REQUEST, f"acks {acks}; 0, 1 or -1 required")


def test_a_bad_frame_ends_no_other_stream_of_the_same_key(cluster: Brokers, tenant: Tenant) -> None:
    topic_id = cluster.create_topic(tenant, "beside")
    address = cluster.spec.broker(cluster.leader(topic_id)).client_address
    with ProduceWire(address, tenant.api_key) as producing, ConsumeWire(address, tenant.api_key) as consuming:
        consuming.open(topic_id, 0, credit=1 << 20)
        assert producing.produce(topic_id, 0, batch_of(b"before")).error == 0
        with ProduceWire(address, tenant.api_key) as broken:
            broken.send(b"no frame")
            assert broken.end().code == ErrorCode.INVALID_REQUEST
        assert producing.produce(topic_id, 0, batch_of(b"after")).error == 0
        stored = b""
        while b"after" not in stored:
            pushes, batches = consuming.pushes()
            assert [push.error for push in pushes] == [0]
            stored += batches
        assert b"before" in stored


def test_bytes_beyond_the_credit_end_the_stream_and_are_not_kept(cluster: Brokers, tenant: Tenant) -> None:
    """A follower is stopped meanwhile, so that nothing is answered and no credit comes back."""
    topic_id = cluster.create_topic(tenant, "overdrawn", max_batch_bytes=12 * limits.MIB)
    leader = cluster.leader(topic_id)
    follower = next(number for number in cluster.ids if number != leader)
    batch = batch_of(bytes(10 * limits.MIB))
    with (
        ProduceWire(cluster.spec.broker(leader).client_address, tenant.api_key) as wire,
        cluster.paused(follower),
    ):
        for _ in range(4):
            wire.put([(topic_id, 0, batch)])
        ended = wire.end()
    assert ended.code == ErrorCode.INVALID_REQUEST
    assert ended.message.endswith("bytes sent beyond the credit granted")
    with cluster.client(tenant) as client, client.producer() as producer:
        assert producer.send("overdrawn", b"the next one").result(PATIENCE_S).offset == 3


def test_more_batches_than_a_frame_may_name_end_the_stream_at_once(cluster: Brokers, tenant: Tenant) -> None:
    head = b"\x12\x00" * (limits.FRAME_HEAD_BYTES_MAX // 2)
    assert len(pb.ProduceHead.FromString(head).batches) == 2**21
    ended = end_after(cluster, tenant, methods.PRODUCE, pack_frame(FrameKind.PRODUCE, head))
    assert (ended.code, ended.message) == (
        ErrorCode.INVALID_REQUEST,
        f"{2**21} batches in one frame, at most {limits.FRAME_ENTRIES_MAX} allowed; send several",
    )


@pytest.mark.parametrize("kind", [FrameKind.CONSUME_OPEN, FrameKind.CONSUME_CREDIT])
def test_more_partitions_than_a_frame_may_name_end_the_stream_at_once(
    cluster: Brokers, tenant: Tenant, kind: FrameKind
) -> None:
    head = b"\x0a\x00" * (limits.FRAME_HEAD_BYTES_MAX // 2)
    ended = end_after(cluster, tenant, methods.CONSUME, pack_frame(kind, head))
    assert ended.code == ErrorCode.INVALID_REQUEST
    assert "partitions in one frame, at most " in ended.message


def test_a_consumer_cannot_name_a_place_that_is_none(cluster: Brokers, tenant: Tenant) -> None:
    topic_id = cluster.create_topic(tenant, "placeless")
    address = cluster.spec.broker(cluster.leader(topic_id)).client_address
    for offset, code in ((-1, ErrorCode.INVALID_REQUEST), (2**62, ErrorCode.OFFSET_OUT_OF_RANGE)):
        with ConsumeWire(address, tenant.api_key) as wire:
            wire.open(topic_id, 0, offset, credit=1 << 20)
            (push,), _ = wire.pushes()
        assert push.error == code
        assert push.message.startswith("placeless-0: offset ")


def test_positions_and_handles_that_nobody_gave_are_refused_to_a_follower(
    cluster: Brokers, tenant: Tenant
) -> None:
    topic_id = cluster.create_topic(tenant, "followed")
    leader = cluster.leader(topic_id)
    opening = replication.ReplicaOpenHead(broker_id=99, broker_epoch=2**62)
    for handle, (wanted, epoch) in enumerate(
        [(topic_id, 2**31 - 1), (topic_id, -5), (b"", 0), (bytes(99), 0)]
    ):
        opening.partitions.add(
            handle=handle, topic_id=wanted, leader_epoch=epoch, log_end_offset=-(2**62), last_epoch=2**31 - 1
        )
    held = replication.ReplicaHeldHead()
    for handle in (0, 7, 2**32 - 1):
        held.held.add(
            handle=handle, leader_epoch=2**31 - 1, durable_end_offset=2**62, written_end_offset=2**62
        )
    closing = replication.ReplicaCloseHead(handles=[0, 7, 2**32 - 1])
    address, who = cluster.spec.broker(leader).peer_address, cluster.issued("broker-99")
    with RawPeer(address, internal.REPLICATE, who) as stream:
        stream.send(pack_frame(FrameKind.REPLICA_HELD, held.SerializeToString()))
        stream.send(pack_frame(FrameKind.REPLICA_OPEN, opening.SerializeToString()))
        stream.send(pack_frame(FrameKind.REPLICA_HELD, held.SerializeToString()))
        answers: list[replication.ReplicaAnswer] = []
        while len(answers) < len(opening.partitions):  # a busy broker answers in several frames
            kind, head, _ = stream.receive()
            assert kind is FrameKind.REPLICA_ANSWER
            answers += replication.ReplicaAnswerHead.FromString(head).answers
        stream.send(pack_frame(FrameKind.REPLICA_CLOSE, closing.SerializeToString()))
    assert [answer.handle for answer in answers] == [0, 1, 2, 3]
    assert all(answer.error for answer in answers)
    with cluster.client(tenant) as client, client.producer() as producer:
        assert producer.send("followed", b"x").result(PATIENCE_S).offset == 0
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))


def test_a_broker_cannot_speak_for_another(cluster: Brokers, tenant: Tenant) -> None:
    topic_id = cluster.create_topic(tenant, "spoken-for")
    opening = replication.ReplicaOpenHead(broker_id=3, broker_epoch=1)
    opening.partitions.add(handle=1, topic_id=topic_id)
    beat = replication.BeatHead(broker_id=3, controller_epoch=2**62)
    lease = replication.LeaseRequestHead(broker_id=3, broker_epoch=1, sequence=1)
    report = replication.StorageReportHead(broker_id=3, broker_epoch=1, sequence=1)
    for method, frame in (
        (internal.STORAGE, pack_frame(FrameKind.STORAGE_REPORT, report.SerializeToString())),
        (internal.REPLICATE, pack_frame(FrameKind.REPLICA_OPEN, opening.SerializeToString())),
        (internal.CONTROL, pack_frame(FrameKind.BEAT, beat.SerializeToString())),
        (internal.LEASES, pack_frame(FrameKind.LEASE_REQUEST, lease.SerializeToString())),
    ):
        with RawPeer(cluster.spec.broker(1).peer_address, method, cluster.as_broker(2)) as stream:
            stream.send(frame)
            ended = stream.end()
        assert ended.code == ErrorCode.FORBIDDEN
        assert ended.message.endswith("/broker/2 speaks for broker 3, which it is not")
    cluster.wait_until("all replicas are in sync", lambda: cluster.whole(topic_id))
