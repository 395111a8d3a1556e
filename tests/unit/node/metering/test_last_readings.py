"""The last reading of a deleted topic's partition: what was sent just before is in it, and nothing goes before it."""

import random
from collections.abc import Iterator

import pytest

from data_plane.contract import usage_pb2 as pb
from data_plane.log import layout
from data_plane.log.partition_log import PartitionLog
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import KeyValue
from data_plane.node.replicas.replica import Replica
from penstock.contract.ids import TenantId
from tests.unit.log.batches import NOW_MS, made_batch, with_header
from tests.unit.node import storage

from .test_rounds import Metered


@pytest.fixture
def metered() -> Iterator[Metered]:
    made = Metered()
    with made.usage:
        yield made


def bury(metered: Metered, gone: list[Replica]) -> None:
    """As `Removal` does."""
    metered.replicas.remove(metered.replica.where)
    metered.replica.retire("the topic was deleted")
    assert metered.metering.deleted.hold(metered.replica, gone.append)


def final_reading(metered: Metered) -> tuple[int, int]:
    """Of the only one: (end offset, messages)."""
    (reading,) = [
        reading
        for record in metered.usage.records
        for reading in record.readings
        if reading.kind == pb.ReadingKind.Value("FINAL")
    ]
    return reading.end_offset, reading.totals[0]


def test_a_topic_that_is_deleted_before_its_first_reading_has_all_its_messages_in_the_last_one(
    metered: Metered,
) -> None:
    for _ in range(3):
        metered.produce()
    gone: list[Replica] = []
    bury(metered, gone)
    assert metered.round_after(0) == [("FINAL", 3)]
    assert final_reading(metered) == (3, 3)
    assert gone == [], "first the metadata keeps it"


def test_what_was_sent_since_the_last_reading_is_in_the_last_one(metered: Metered) -> None:
    metered.produce()
    assert metered.round_after(0) == [("LEADER_CHANGE", 1)]
    metered.produce()
    bury(metered, [])
    assert metered.round_after(1) == [("FINAL", 2)]


def test_a_replica_of_a_topic_that_is_deleted_while_its_broker_stops_waits_for_the_next_life(
    metered: Metered,
) -> None:
    """The last words of a broker do not count what comes after them. Without its files there would be no reading."""
    metered.usage.run(metered.metering.finish())
    metered.produce()
    gone: list[Replica] = []
    bury(metered, gone)
    assert metered.round_after(60_000) == []
    assert gone == [] and metered.metering.deleted.waiting_replicas() == [metered.replica]


def test_a_topic_that_was_deleted_and_whose_broker_lost_power_is_read_at_its_next_start() -> None:
    """Its directory was made with its first record, so what was acknowledged is there (RL125)."""
    life = storage.opened(image=storage.image_of(1))
    where = storage.where(1)
    path = layout.partition_directory(where)
    log = PartitionLog.create(life.disk, path, where, 1, storage.SETTINGS)
    assert not log.born
    for _ in range(2):
        batch, header = with_header(made_batch(2))
        log.append_as_leader(batch, header, leader_epoch=1, now_ms=NOW_MS, floor_ms=0, principal=5)
        unsynced = log.take_unsynced()
        assert unsynced is not None
        life.disk.sync_now(life.booted.journal.append_steps([unsynced]))
        log.set_high_watermark(log.mark_durable(unsynced))
    life.disk.kill()
    life.disk.medium.power_cut(random.Random(1))
    image = ClusterImage()
    tombstone = model.Tombstone(name="topic1", tenant=TenantId("tn_a"), partitions=1, metered=True)
    image.load([KeyValue(model.tombstone_key(where.topic_id), tombstone.encode(), 1)], 11)
    (found,) = storage.opened(life.disk.medium, image).booted.opened
    assert found.buried and found.log.log_end_offset == 4
    assert found.log.high_watermark == 2, "what the journal knew to be committed: in the tenant's favour"
