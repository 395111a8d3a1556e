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

SPARK_JOB = """
import json, sys
import pyarrow as pa
from pyspark.sql import SparkSession, functions as F

folder = sys.argv[1]
spark = (
    SparkSession.builder.master("local[1]").appName("dependencies")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.memory", "512m")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .config("spark.sql.codegen.wholeStage", "false")
    .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.warehouse.dir", folder + "/warehouse")
    .getOrCreate()
)
try:
    rows = [("orders", 3), ("orders", 4), ("returns", 5)]
    usage = spark.createDataFrame(rows, "topic string, messages long")

    def doubled(batches):
        for batch in batches:
            column = pa.array([2 * value for value in batch.column("messages").to_pylist()], pa.int64())
            yield pa.RecordBatch.from_arrays([batch.column("topic"), column], names=["topic", "messages"])

    usage.mapInArrow(doubled, usage.schema).write.parquet(folder + "/usage")
    totals = spark.read.parquet(folder + "/usage").groupBy("topic").agg(F.sum("messages").alias("messages"))
    rows = {row.topic: row.messages for row in totals.collect()}
    print(json.dumps({"rows": rows, "java": spark._jvm.System.getProperty("java.specification.version")}))
finally:
    spark.stop()
"""


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


def test_spark_folds_arrow_batches_on_debians_java(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(SPARK_JOB, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(job), str(tmp_path)],
        cwd=tmp_path,
        env={
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(tmp_path),
            "JAVA_HOME": servers.java_home(),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == {"rows": {"orders": 14, "returns": 10}, "java": "17"}


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
