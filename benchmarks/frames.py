"""What a frame with its answer costs two processes: over grpc.aio, over plain sockets as brokers use them, and in TLS.

One frame is on its way at a time, over a connection that stays: on asyncio's own loop and on uvloop, which brokers run
on.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import psutil
import uvloop

from benchmarks.figures import Benchmark, Measured, median
from benchmarks.plain_links import PlainListener, PlainTransport
from daemon.handshakes import RefusedHandshakes
from daemon.hang_ups import HangUps
from daemon.identity import Role
from daemon.tls import OwnIdentity
from data_plane.authz.peers import PeerRules
from data_plane.broker.connection import GrpcConnection
from data_plane.broker.grpc_options import server_options
from data_plane.broker.peer_listener import PeerListener, bind_peers
from data_plane.broker.peer_transport import PeerTransport
from data_plane.node.ports import Caller, Connection, Peer
from local.certificates import Certificates
from penstock.contract import limits
from penstock.contract.ids import BrokerId

WAYS = ("grpc", "sockets", "tls", "sockets_uvloop", "tls_uvloop")
SIZES = {"100b": 100, "256kb": 256 * limits.KIB, "1mb": limits.MIB}
ROUNDS = 3
SECONDS = 1.5
WARM_UP = 200
_ANSWER = bytes(16)
_METHOD = "/frames/Echo"
_CLUSTER = "frames"
_CONNECT_MS = 20_000
_CONNECTIONS = 10


async def _answering(caller: Caller, connection: Connection) -> None:
    while True:
        await connection.receive()
        await connection.send(_ANSWER)


class _GrpcListener(grpc.GenericRpcHandler):
    """One stream, answered frame by frame, as the broker's gRPC listeners serve theirs."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        async def handle(_requests: Any, context: Any) -> None:
            caller = Caller(peer="", authorization="", identity=None)
            await _answering(caller, _over_grpc(context))

        return grpc.stream_stream_rpc_method_handler(handle)


def _own(folder: Path, broker: int) -> OwnIdentity:
    return OwnIdentity(Certificates(folder).files(f"broker-{broker}"), Role.BROKER, broker_id=broker)


def _over_grpc(call: Any) -> GrpcConnection:
    return GrpcConnection("peer", read=call.read, write=call.write)


async def _serve(way: str, folder: Path) -> None:
    """Until the process is killed; prints the port."""
    if way == "grpc":
        server = grpc.aio.server(options=server_options(_CONNECTIONS, _CONNECTIONS))
        server.add_generic_rpc_handlers((_GrpcListener(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
    else:
        own = _own(folder, 1) if way.startswith("tls") else None
        bound, port = bind_peers("127.0.0.1:0")
        listener = (PeerListener if own else PlainListener)(
            {_METHOD: _answering},
            {},
            rules=PeerRules(cluster_id=_CLUSTER, roles={_METHOD: frozenset({Role.BROKER})}),
            tls=lambda: None if own is None else own.current.server,
            connections_max=_CONNECTIONS,
            refused_handshakes=RefusedHandshakes(),
            hang_ups=HangUps("peer"),
            fault=lambda error: None,
        )
        await listener.start(bound)
    print(port, flush=True)
    await asyncio.Event().wait()


async def _call(way: str, folder: Path, address: str, size: int) -> None:
    """Prints what the round trips took this process, as one JSON line."""
    if way == "grpc":
        async with grpc.aio.insecure_channel(address, options=server_options(1, 1)) as channel:
            open_stream: Any = channel.stream_stream(_METHOD)
            await _round_trips(_over_grpc(open_stream()), size)
        return
    own = _own(folder, 2) if way.startswith("tls") else None
    transport = (PeerTransport if own else PlainTransport)(
        _CLUSTER, lambda: None if own is None else own.current.client, RefusedHandshakes()
    )
    peer = Peer(BrokerId(1), address)
    await _round_trips(await transport.connect(peer, _METHOD, _CONNECT_MS), size)
    await transport.close()


async def _round_trips(connection: Connection, size: int) -> None:
    frame = bytes(size)
    for _ in range(WARM_UP):
        await connection.send(frame)
        await connection.receive()
    print("warm", flush=True)
    sys.stdin.readline()
    count, began, used = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() < began + SECONDS:
        await connection.send(frame)
        await connection.receive()
        count += 1
    wall_s = time.perf_counter() - began
    print(json.dumps({"count": count, "wall_s": wall_s, "cpu_s": time.process_time() - used}), flush=True)


def _one(way: str, folder: Path, size: int) -> tuple[float, float]:
    """(processor time of both processes, time by the clock), in µs a round trip."""
    command = [sys.executable, "-m", "benchmarks.frames", way, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = f"127.0.0.1:{int(server.stdout.readline())}"
            command += ["--address", address, "--bytes", str(size)]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as client:
                assert client.stdin is not None and client.stdout is not None
                client.stdout.readline()
                before = _cpu_s(server.pid)
                client.stdin.write("\n")
                client.stdin.flush()
                found = json.loads(client.stdout.readline())
                served_s = _cpu_s(server.pid) - before
        finally:
            server.kill()
    return (served_s + found["cpu_s"]) / found["count"] * 1e6, found["wall_s"] / found["count"] * 1e6


def _cpu_s(pid: int) -> float:
    used = psutil.Process(pid).cpu_times()
    return used.user + used.system


def frames(folder: Path) -> list[Measured]:
    """The median of three rounds in which all ways take turns."""
    Certificates(folder).make(_CLUSTER, (1, 2))
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        for name, size in SIZES.items():
            for way in WAYS:
                found.setdefault((name, way), []).append(_one(way, folder, size))
    return [
        Measured(
            name=f"frame_{name}_{way}_cpu_us",
            value=median([cpu for cpu, _ in rounds]),
            unit="µs, both processes",
            beside={
                "wall_us": median([wall for _, wall in rounds]),
                "least_us": min(cpu for cpu, _ in rounds),
                "most_us": max(cpu for cpu, _ in rounds),
            },
        )
        for (name, way), rounds in found.items()
    ]


BENCHMARK = Benchmark(
    figures=tuple(f"frame_{name}_{way}_cpu_us" for name in SIZES for way in WAYS),
    run=frames,
    seconds=130,
    quick=False,
)


def main() -> None:
    """One side of one connection."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--address")
    parser.add_argument("--bytes", type=int, default=0)
    given = parser.parse_args()
    work = (
        _serve(given.way, given.folder)
        if given.address is None
        else _call(given.way, given.folder, given.address, given.bytes)
    )
    factory = uvloop.new_event_loop if given.way.endswith("uvloop") else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)


if __name__ == "__main__":
    main()
