"""Idle streams end within a second of what ends their key, at every broker: on a virtual clock, which no load moves."""

import asyncio
import json
from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from data_plane.contract import admin_pb2
from data_plane.contract import methods as own_methods
from data_plane.testkit.clock import SimClock
from data_plane.testkit.cluster import TENANT
from data_plane.testkit.connection import Endpoint, StreamRefused
from data_plane.testkit.transport import SimTransport
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2 as pb
from tests.simulation.test_client_streams import CONNECT_MS, Streams, run_story

ENDS_WITHIN_MS = 1_000
LASTS_MS = 1_500


def revoked(streams: Streams, _: int) -> tuple[str, Message]:
    (key_id,) = streams.node.view.image.keys
    return own_methods.REVOKE_KEY, admin_pb2.RevokeKeyRequest(key_id=key_id, generation=1)


def suspended(_: Streams, __: int) -> tuple[str, Message]:
    return own_methods.PUT_TENANT, admin_pb2.PutTenantRequest(tenant=TENANT, generation=1, suspended=True)


def expiring(streams: Streams, expires_at_ms: int) -> tuple[str, Message]:
    (key,) = streams.node.view.image.keys.values()
    request = admin_pb2.PutKeyRequest(
        key_id=key.key_id,
        tenant=key.tenant,
        name=key.name,
        pepper_version=key.pepper_version,
        secret_hmac=bytes.fromhex(key.secret_hmac),
        scram_json=json.dumps(key.scram),
        expires_at_ms=expires_at_ms,
        generation=1,
    )
    return own_methods.PUT_KEY, request


async def ending(stream: Endpoint) -> ErrorCode:
    while True:
        try:
            await stream.receive()
        except StreamRefused as refused:
            return ErrorCode(refused.code)


@pytest.mark.parametrize(
    ("change", "lasts_ms", "code"),
    [
        (revoked, 0, ErrorCode.UNAUTHENTICATED),
        (suspended, 0, ErrorCode.FORBIDDEN),
        (expiring, LASTS_MS, ErrorCode.UNAUTHENTICATED),
    ],
)
def test_every_idle_stream_ends_within_a_second(
    change: Callable[[Streams, int], tuple[str, Message]], lasts_ms: int, code: ErrorCode
) -> None:
    async def story(streams: Streams) -> None:
        cluster, loop = streams.period.cluster, streams.period.loop
        transport = SimTransport(
            cluster.network, loop.process("idle"), "c1", authorization=f"Bearer {cluster.api_key}"
        )
        opened = [
            await transport.connect(broker.client_address, method, CONNECT_MS)
            for broker in cluster.brokers
            for method in (methods.PRODUCE, methods.CONSUME, methods.WATCH_METADATA)
        ]
        for watch in opened[2::3]:
            await watch.send(pb.WatchMetadataRequest(topics=["orders"]).SerializeToString())
        endings = [asyncio.create_task(ending(stream)) for stream in opened]
        await asyncio.sleep(5)
        assert not any(task.done() for task in endings), "idle streams stay open"
        clock = SimClock(loop)
        ends_at_ms = clock.now_ms() + lasts_ms
        method, request = change(streams, ends_at_ms)
        await streams.call(method, request, internal=True)
        while clock.now_ms() < ends_at_ms:
            assert not any(task.done() for task in endings), "not before it expires"
            await asyncio.sleep(0.01)
        done, waiting = await asyncio.wait(
            endings, timeout=(ends_at_ms + ENDS_WITHIN_MS - clock.now_ms()) / 1000
        )
        assert not waiting, f"{len(waiting)} of {len(opened)} streams are still open"
        assert {task.result() for task in done} == {code}

    run_story(story)
