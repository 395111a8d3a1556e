"""Every server that the service stands on starts here, answers and stops; a missing one is a failure."""

import asyncio
import base64
import http.client
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import psycopg
import pytest
import redis

from tests.waiting import PATIENCE_S

from . import servers

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_grpc_serves_a_stream_of_raw_frames() -> None:
    async def echo(frames: object, context: Any) -> None:
        while (frame := await context.read()) is not grpc.aio.EOF:
            await context.write(frame)

    async def main() -> list[bytes]:
        server = grpc.aio.server()
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Echo": grpc.stream_stream_rpc_method_handler(echo)
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
                    "/test.Echo/Echo"
                )
                call = stream(iter([b"one", b"", b"\xff" * 100_000]))
                return [frame async for frame in call]
        finally:
            await server.stop(None)

    assert asyncio.run(asyncio.wait_for(main(), PATIENCE_S)) == [b"one", b"", b"\xff" * 100_000]


def test_postgresql_answers_a_query_and_stops() -> None:
    with servers.postgresql() as server:
        with psycopg.connect(
            host="127.0.0.1", port=server.port, user="penstock", dbname="postgres"
        ) as connection:
            connection.execute("create table prices (unit numeric(24, 12) not null)")
            connection.execute("insert into prices values (%s)", ("0.000000000123",))
            row = connection.execute("select unit * 2 from prices").fetchone()
        assert row == (Decimal("0.000000000246"),)
    assert is_gone(server.pid)


def test_redis_keeps_a_value_and_stops() -> None:
    with servers.redis() as server, redis.Redis(host="127.0.0.1", port=server.port) as client:
        assert client.set("wake", b"outbox", ex=60)
        assert client.get("wake") == b"outbox"
    assert is_gone(server.pid)


def test_etcd_compares_and_sets_and_stops() -> None:
    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    with servers.etcd() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        transaction = {
            "compare": [{"key": encoded("/live/1"), "target": "MOD", "result": "EQUAL", "mod_revision": 0}],
            "success": [{"requestPut": {"key": encoded("/live/1"), "value": encoded("epoch 1")}}],
        }
        answers = []
        for _ in range(2):
            connection.request("POST", "/v3/kv/txn", json.dumps(transaction))
            answers.append(json.loads(connection.getresponse().read()))
        connection.close()
        read = subprocess.run(
            [servers.program("etcdctl"), f"--endpoints=http://127.0.0.1:{server.port}", "get", "/live/1"],
            env={"ETCDCTL_API": "3", "PATH": os.environ.get("PATH", "")},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        )
    assert [answer.get("succeeded", False) for answer in answers] == [True, False]
    assert read.stdout.split("\n")[:2] == ["/live/1", "epoch 1"]
    assert is_gone(server.pid)


def test_a_missing_server_is_a_failure_with_its_remedy() -> None:
    with pytest.raises(servers.ServerFailed, match="no-such-server is missing; run: make setup"):
        servers.program("no-such-server", "/usr/lib/*/bin")


def test_a_server_that_ends_before_it_is_ready_shows_what_it_said(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no room left')"]
    server = servers.running(command, folder=tmp_path, ready="ready")
    with pytest.raises(servers.ServerFailed, match="no room left"), server:
        pytest.fail("the server was never ready")
