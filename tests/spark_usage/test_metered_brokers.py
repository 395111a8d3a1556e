"""What real brokers meter of real messages comes out of the pipeline to the unit, cut by cut."""

import time
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from data_plane.contract import admin_pb2
from data_plane.contract.usage_pb2 import UsageRecord
from spark_usage import bronze
from tests.spark_usage.conftest import Pipeline
from tests.spark_usage.service import Service, service
from tests.waiting import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.drawn(shares=2, family="from brokers to bills"),
]

CONNECTIONS_MAX = 3
"""Of a client: one a broker, and there is one client at a time."""


def cut_now(
    running: Service, tenant: str, cut_id: str, previous_end_ms: int
) -> tuple[list[admin_pb2.CutReading], int]:
    """Ends a period after everything that was accepted so far; (readings, its end)."""
    end_ms = time.time_ns() // 1_000_000 + 5
    time.sleep(0.01)
    answer = running.brokers.admin.cut(cut_id, tenant, end_ms, previous_end_ms=previous_end_ms)
    return list(answer.readings), end_ms


def wait_until_calls_are_counted(running: Service, tenant: str) -> None:
    """How many calls there were is written now and then, by no cut."""
    deadline = time.monotonic() + PATIENCE_S
    with (
        running.client() as client,
        client.consumer(bronze.TOPIC, auto_offset_reset="earliest") as consumer,
    ):
        while time.monotonic() < deadline:
            for message in consumer.poll(timeout=5):
                record = UsageRecord.FromString(message.value or b"")
                if any(one.valid for one in record.requests if one.tenant == tenant):
                    return
    raise AssertionError("no call was counted")


def test_messages_of_real_brokers_are_counted_to_the_unit_and_their_cuts_are_covered(
    spark: SparkSession, tmp_path: Path
) -> None:
    with service(tmp_path, metering=True) as running:
        cluster = running.brokers
        tenant, began = cluster.tenant("tn_real"), time.monotonic()
        topic_id = cluster.create_topic(tenant, "orders", partitions=3).hex()
        vectors: dict[str, dict[tuple[str, int, int], int]] = {}
        end_ms = 0
        for cut_id, count in (("cut_1", 600), ("cut_2", 90)):
            with cluster.client(tenant) as client, client.producer() as producer:
                for number in range(count):
                    producer.send("orders", b"%d" % number, partition=number % 3)
                producer.flush()
            readings, end_ms = cut_now(running, "tn_real", cut_id, end_ms)
            assert not [reading for reading in readings if reading.error]
            vectors[cut_id] = {
                (reading.topic_id.hex(), reading.partition, reading.log_generation): reading.end_offset
                for reading in readings
            }
        wait_until_calls_are_counted(running, "tn_real")
        datasets = running.configuration.datasets
        bronze.ingest(spark, datasets, running.source_options)
        pipeline = Pipeline(spark, datasets)
        done = pipeline.fold_bronze()
        assert done.rejected == 0 and done.missing == ""

        covered: dict[str, dict[tuple[str, int, int], int]] = defaultdict(dict)
        for cut_id, status, *key, end in pipeline.rows(
            "cut_coverage", "cut_id", "status", "topic_id", "partition", "log_generation", "end_offset"
        ):
            assert status == "covered"
            covered[cut_id][key[0], key[1], key[2]] = end
        assert dict(covered) == vectors
        messages: dict[str, int] = defaultdict(int)
        for cut_id, meter, quantity in pipeline.rows("cut_usage", "cut_id", "meter", "quantity"):
            messages[cut_id] += int(quantity) if meter == "messages_in" else 0
        assert messages == {"cut_1": 600, "cut_2": 90}
        hours = pipeline.rows("usage_hour", "topic_id", "meter", "principal", "quantity")
        assert {row[0] for row in hours} == {topic_id, ""}, "requests and connections are of no topic"
        by_principal = {row[2] for row in hours if row[1] == "messages_in"}
        assert 0 not in by_principal and len(by_principal) == 1
        assert sum(int(row[3]) for row in hours if row[1] == "messages_in") == 690
        assert sum(row[0] for row in pipeline.rows("sla_5m", "valid")) > 0
        open_ms = {row[2]: int(row[3]) for row in hours if row[1] == "connection_ms"}
        assert set(open_ms) == by_principal
        assert 0 < sum(open_ms.values()) <= 1000 * (time.monotonic() - began) * CONNECTIONS_MAX
