"""Directories of replicas without records: made beside all else, never behind a removal or beside a checkpoint."""

import asyncio
from collections.abc import Awaitable, Callable

from data_plane.contract import replication_pb2 as pb
from data_plane.log import layout
from data_plane.log.identity import Identity, write_identity
from data_plane.testkit.disk import DISK_BYTES, SimDisk
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.medium import CutChoice, Medium
from tests.unit.node.storage import where
from tests.waiting import PATIENCE_S

from .test_coming_back import ANEW, LEADER, REGISTERED, Follower, _metadata

DIRECTORY = layout.partition_directory(where(1))


def run(story: Callable[[Follower], Awaitable[None]], medium: Medium | None = None) -> None:
    loop = SimLoop(1)

    async def all_of_it() -> None:
        follower = Follower(loop, medium)
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
