"""Directories of replicas without records: made beside all else, never behind a removal or beside a checkpoint."""

import asyncio
from collections.abc import Awaitable, Callable

from data_plane.contract import replication_pb2 as pb
from data_plane.log import layout
from data_plane.log.identity import Identity, write_identity
from data_plane.metadata.port import KeyValue
from data_plane.testkit.disk import DISK_BYTES, SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.medium import CutChoice, Medium
from tests.unit.node.storage import where
from tests.waiting import PATIENCE_S

from .test_coming_back import ANEW, LEADER, REGISTERED, Follower, _metadata, _tombstone

DIRECTORY = layout.partition_directory(where(1))
DUE_S = 5.0
"""Directories are made and removed within this time."""


def run(
    story: Callable[[Follower], Awaitable[None]],
    medium: Medium | None = None,
    metadata: list[KeyValue] | None = None,
    *,
    last_reading: bool = False,
) -> None:
    loop = SimLoop(1)

    async def all_of_it() -> None:
        follower = Follower(loop, medium, metadata, last_reading=last_reading)
        follower.registration._begin(REGISTERED)
        await story(follower)
        follower.stop()

    try:
        loop.run_until_complete(all_of_it())
        assert not loop.failures
    finally:
        loop.close()


def test_a_replica_that_was_removed_before_its_directory_was_due_leaves_none() -> None:
    async def story(follower: Follower) -> None:
        await follower.leader.opened()
        follower.image.load(_metadata((LEADER,), replicas=(LEADER,), partition_epoch=1), ANEW + 1)
        follower.assignment.look_at_all()
        await asyncio.sleep(PATIENCE_S)
        assert not follower.disk.exists(DIRECTORY)

    run(story)


def test_a_directory_waits_for_space_and_is_made_then() -> None:
    async def story(follower: Follower) -> None:
        await follower.leader.opened()
        follower.disk.faults.capacity_bytes = 1
        await asyncio.sleep(PATIENCE_S)
        assert not follower.replica.log.born
        follower.disk.faults.capacity_bytes = DISK_BYTES
        await asyncio.sleep(PATIENCE_S)
        assert follower.replica.log.born

    run(story)


def test_no_directory_is_made_beside_a_checkpoint() -> None:
    async def story(follower: Follower) -> None:
        await follower.leader.opened()
        async with follower.hosting.committer.no_checkpoint:
            await asyncio.sleep(PATIENCE_S)
            assert not follower.disk.exists(DIRECTORY)
        await asyncio.sleep(PATIENCE_S)
        assert follower.replica.log.born

    run(story)


def test_a_directory_that_a_kill_left_unsynced_is_made_durable_without_a_write() -> None:
    disk = SimDisk(Medium())
    disk.make_directories(DIRECTORY)
    write_identity(disk, DIRECTORY, Identity(where=where(1), replica_generation=1, start_offset=0)).close()
    disk.kill()

    async def story(follower: Follower) -> None:
        await follower.leader.opened()
        await asyncio.sleep(PATIENCE_S)
        left = follower.disk.medium.after_cut(CutChoice())
        assert left.find(f"{DIRECTORY}/{layout.PARTITION_FILE}") is not None

    run(story, disk.medium)


def test_a_new_replica_that_cannot_start_over_on_a_full_disk_asks_again_until_it_can() -> None:
    async def story(follower: Follower) -> None:
        opened = await follower.leader.opened()
        follower.disk.faults.capacity_bytes = 1
        start_over = pb.ReplicaAnswer(
            handle=opened.partitions[0].handle, start_over=True, log_start_offset=1_000
        )
        await follower.leader.answer(start_over)
        opened = await follower.leader.opened()
        assert not follower.replica.busy
        follower.disk.faults.capacity_bytes = DISK_BYTES
        start_over.handle = opened.partitions[0].handle
        await follower.leader.answer(start_over)
        opened = await follower.leader.opened()
        assert opened.partitions[0].log_end_offset == 1_000

    run(story)


def test_no_replica_comes_to_a_disk_that_takes_no_write_and_it_comes_once_there_is_space() -> None:
    async def story(follower: Follower) -> None:
        await follower.leader.opened()
        follower.disk.faults.capacity_bytes = 10_000
        await asyncio.sleep(DUE_S)
        follower.image.load([*_metadata((LEADER,)), *_metadata((LEADER,), number=2)], ANEW + 1)
        follower.assignment.look_at_all()
        await asyncio.sleep(DUE_S)
        assert where(2) not in follower.replicas.by_partition
        follower.disk.faults.capacity_bytes = DISK_BYTES
        await asyncio.sleep(DUE_S)
        assert follower.replicas.by_partition[where(2)].log.born

    run(story)


def test_what_is_in_the_way_of_a_new_replica_is_set_aside_and_not_opened() -> None:
    async def story(follower: Follower) -> None:
        await follower.leader.opened()
        path = layout.partition_directory(where(2))
        follower.disk.make_directories(path)
        follower.disk.open(f"{path}/left", create=True).close()
        follower.image.load([*_metadata((LEADER,)), *_metadata((LEADER,), number=2)], ANEW + 1)
        follower.assignment.look_at_all()
        await asyncio.sleep(DUE_S)
        assert follower.replicas.by_partition[where(2)].log.born
        assert "left" not in follower.disk.list(path)

    run(story)


def test_a_replica_whose_topic_was_deleted_while_the_broker_was_down_goes_without_serving() -> None:
    disk = SimDisk(Medium())
    disk.make_directories(DIRECTORY)
    write_identity(disk, DIRECTORY, Identity(where=where(1), replica_generation=1, start_offset=0)).close()
    disk.kill()

    async def story(follower: Follower) -> None:
        assert where(1) not in follower.replicas.by_partition
        assert [replica.where for replica in follower.readings.owed] == [where(1)]
        assert follower.disk.exists(DIRECTORY)
        follower.readings.make()
        await asyncio.sleep(DUE_S)
        assert not follower.disk.exists(DIRECTORY)

    run(story, disk.medium, [_tombstone()], last_reading=True)
