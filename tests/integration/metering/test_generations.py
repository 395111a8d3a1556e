"""A declared loss begins a new log generation, whose first reading says where."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from data_plane.broker.sqlite_store import SqliteStore
from data_plane.contract import usage_pb2
from data_plane.metadata import model
from data_plane.metadata.port import Compare, Put
from tests.integration.metering.usage import Metered, metered, totals_of

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def usage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    with metered(tmp_path_factory.mktemp("cluster")) as running:
        yield running


async def declare_loss(metadata: Path, topic_id: bytes) -> None:
    """The leader begins an epoch and a log generation where its log ends, as after a loss."""
    store = await SqliteStore.open(metadata)
    try:
        key = model.block_key(topic_id, 0)
        for _ in range(20):
            item = (await store.range(key)).items[0]
            record = model.decode_block(item.value)[0]
            after = replace(
                record,
                leader_epoch=record.leader_epoch + 1,
                partition_epoch=record.partition_epoch + 1,
                log_generation=record.log_generation + 1,
                generation_epoch=record.leader_epoch + 1,
            )
            changed = Put(key, model.encode_block({0: after}))
            if (await store.txn([Compare(key, item.mod_revision)], [changed])).succeeded:
                return
    finally:
        await store.close()
    pytest.fail("the partition's record could not be changed")


def test_readings_of_a_new_generation_begin_where_the_old_one_ended(usage: Metered) -> None:
    tenant = usage.cluster.tenant("tn_loss")
    topic_id = usage.cluster.create_topic(tenant, "orders")

    def produce(count: int) -> None:
        with usage.cluster.client(tenant) as client, client.producer(linger_ms=1) as producer:
            for number in range(count):
                producer.send("orders", b"%d" % number)
            producer.flush()

    produce(70)
    usage.wait_until_read(topic_id, 70)
    asyncio.run(declare_loss(usage.cluster.directory.metadata_file, topic_id))
    produce(30)
    readings = usage.wait_until_read(topic_id, 100)
    begun = [one for one in readings if one.kind == usage_pb2.ReadingKind.GENERATION_START]
    assert {(one.log_generation, one.end_offset) for one in begun} == {(2, 70)}
    assert totals_of(begun[0]).committed_messages == 70
    assert {one.log_generation for one in readings if one.end_offset > 70} == {2}
    assert totals_of(readings[-1]).committed_messages == 100
