"""How long until a new key works on every broker, and until a revoked one is refused on every open stream."""

import queue
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc

from benchmarks.figures import Benchmark, Measured, median, percentile
from local.layout import DataDirectory
from local.profile import read_api_key
from local.service import DevService
from penstock.contract import methods
from penstock.contract.v1 import log_pb2 as pb
from penstock.rest.client import RestClient

BROKERS = 3
KEYS = 100
STREAMS = (methods.PRODUCE, methods.CONSUME)
"""Of each broker one of each kind is open when the key is revoked, and a watch of metadata."""
_SETTLED_S = 20.0
"""Spark has started by then."""
_PATIENCE_S = 30.0
_ASK = pb.MetadataRequest(all_topics=True).SerializeToString()


def key_changes(folder: Path) -> list[Measured]:
    """100 keys, one after the other: made over REST, used on every broker, held on nine idle streams, revoked."""
    directory = DataDirectory(folder / "service")
    service = DevService(directory)
    effective_ms: list[float] = []
    refused: list[int] = []
    revoked_ms: list[float] = []
    try:
        up = service.up(BROKERS, lambda done, steps, note: None)
        time.sleep(_SETTLED_S)
        addresses = [broker.client_address for broker in up.cluster.spec.brokers]
        with RestClient(up.spec.api_url, read_api_key(directory)) as rest, ExitStack() as open_channels:
            channels = [open_channels.enter_context(grpc.insecure_channel(one)) for one in addresses]
            for number in range(KEYS):
                began = time.monotonic()
                made = rest.post("/v1/keys", {"name": f"bench-{number}"})
                key = ((methods.AUTHORIZATION, f"Bearer {made['key']}"),)
                refused.append(sum(_use(channel, key) for channel in channels))
                effective_ms.append((time.monotonic() - began) * 1000)
                revoked_ms.append(_revoke(rest, channels, key, made["id"]))
    finally:
        service.down()
    return [
        Measured(
            name="key_effective_p99_ms",
            value=percentile(effective_ms, 0.99),
            unit="ms from the request over REST until all three brokers have served it",
            beside={
                "p50_ms": median(effective_ms),
                "max_ms": max(effective_ms),
                "refused_first": sum(refused),
            },
        ),
        Measured(
            name="revoke_p99_ms",
            value=percentile(revoked_ms, 0.99),
            unit="ms from the request over REST until the last of nine open streams has ended",
            beside={"p50_ms": median(revoked_ms), "max_ms": max(revoked_ms)},
        ),
    ]


def _use(channel: grpc.Channel, key: Any) -> int:
    """Call until the broker serves the key; how often it refused it before."""
    ask: Any = channel.unary_unary(methods.METADATA)
    deadline = time.monotonic() + _PATIENCE_S
    refused = 0
    while True:
        try:
            ask(_ASK, metadata=key, timeout=_PATIENCE_S)
        except grpc.RpcError:
            if time.monotonic() > deadline:
                raise
            refused += 1
        else:
            return refused


def _revoke(rest: RestClient, channels: list[grpc.Channel], key: Any, key_id: str) -> float:
    """Milliseconds from the request until the last stream has ended."""
    ended: queue.SimpleQueue[float] = queue.SimpleQueue()
    requests: list[queue.SimpleQueue[bytes | None]] = []
    calls: list[Any] = []
    for channel in channels:
        for method in STREAMS:
            requests.append(queue.SimpleQueue())
            stream: Any = channel.stream_stream(method)
            calls.append(stream(iter(requests[-1].get, None), metadata=key, timeout=_PATIENCE_S))
            if method == methods.PRODUCE:
                next(calls[-1])  # its first credit: the end is only heard behind it
        watch: Any = channel.unary_stream(methods.WATCH_METADATA)
        watching = watch(pb.WatchMetadataRequest().SerializeToString(), metadata=key, timeout=_PATIENCE_S)
        next(watching)
        calls.append(watching)
    for call in calls:
        call.add_done_callback(lambda _: ended.put(time.monotonic()))
    _wait_until_open(calls)
    began = time.monotonic()
    rest.delete(f"/v1/keys/{key_id}")
    last = max(ended.get(timeout=_PATIENCE_S) for _ in calls)
    for outgoing in requests:
        outgoing.put(None)
    for call in calls:
        if call.code() is not grpc.StatusCode.UNAUTHENTICATED:
            raise RuntimeError(f"a stream ended with {call.code()}: {call.details()}")
    return (last - began) * 1000


def _wait_until_open(calls: list[Any]) -> None:
    """The broker has answered with its headers, so the stream holds the key."""
    for call in calls:
        call.initial_metadata()


BENCHMARK = Benchmark(
    figures=("key_effective_p99_ms", "revoke_p99_ms"), run=key_changes, seconds=150, quick=False
)
