"""A registered broker that steps aside by itself: its disk is slow, and no producer should wait for it (RL133)."""

from dataclasses import replace
from itertools import islice

from data_plane.controller.elections import BlockWrite, alive_in, elect, rewritten_block, without_broker
from data_plane.metadata import broker_records
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import PartitionRecord
from data_plane.metadata.port import Compare
from penstock.contract.ids import NO_BROKER, BrokerId, TopicId


def steps_aside(image: ClusterImage, broker: BrokerId, limit: int) -> list[BlockWrite]:
    """At most `limit` block writes that take `broker` out of leadership and of the in-sync set wherever enough others
    that are alive stay in sync to go on without it. What it held stays as complete as it was: it joins again when it
    has caught up. Each compares the broker's registration."""
    alive = alive_in(image)

    def change(_: TopicId, record: PartitionRecord, min_insync: int) -> PartitionRecord | None:
        others = [member for member in record.in_sync if member != broker and alive(member)]
        if broker not in record.in_sync or len(others) < max(1, min_insync):
            return None
        left = without_broker(record, broker, min_insync=min_insync)
        if left is None:
            return None
        after = elect(left, alive=lambda b: b != broker and alive(b), min_insync=min_insync) or left
        if after.leader == NO_BROKER:
            return None
        leader_epoch = record.leader_epoch + (after.leader != record.leader)
        return replace(after, partition_epoch=record.partition_epoch + 1, leader_epoch=leader_epoch)

    writes = (
        rewritten_block(image, topic_id, image.blocks[topic_id][number], change)
        for topic_id in sorted(image.blocks)
        if topic_id in image.topics
        for number in sorted(image.blocks[topic_id])
    )
    mine = Compare(broker_records.live_key(broker), image.epoch_of(broker))
    found = islice((write for write in writes if write is not None), limit)
    return [replace(write, compares=(*write.compares, mine)) for write in found]
