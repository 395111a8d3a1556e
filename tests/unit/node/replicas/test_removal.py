"""Removing a replica: what its log has handed out is durable before its files go."""

import asyncio
from typing import Any

from data_plane.log.layout import partition_directory
from data_plane.metadata.image import ClusterImage
from data_plane.node.environment import Environment
from data_plane.node.ports import WorkClock
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.removal import Removal
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from tests.unit.log.miniature import Miniature
from tests.unit.node.storage import CONFIG, committer_of

from .test_follower_stream import led

NOBODY: Any = None


def removal_of(
    storage: Miniature, clock: WorkClock, stats: NodeStats, due: DueWork, committer: Committer
) -> Removal:
    environment = Environment(
        config=CONFIG, clock=clock, rng=NOBODY, transport=NOBODY, disk=storage.disk, stats=stats
    )
    return Removal(
        environment,
        image=ClusterImage(),
        replicas=ReplicaSet(),
        due=due,
        committer=committer,
        last_readings=NOBODY,
    )


def test_the_files_go_once_all_that_was_handed_out_is_durable() -> None:
    loop = SimLoop(1)
    storage, clock, stats = Miniature(), SimClock(loop), NodeStats()
    replica, due = led(storage), DueWork()
    storage.append()
    log, directory = replica.log, partition_directory(replica.where)
    committer = committer_of(storage, clock, stats)
    removal = removal_of(storage, clock, stats, due, committer)

    async def checkpoint() -> None:
        async with committer.no_checkpoint:
            assert not storage.disk.exists(directory), "no checkpoint meets files that go"

    async def story() -> None:
        due.remove(replica)
        tasks = [asyncio.create_task(removal.run())]
        await asyncio.sleep(1)
        assert storage.disk.exists(directory), "nothing goes before"
        assert committer.no_checkpoint.locked()
        waiting = asyncio.create_task(checkpoint())
        tasks.append(asyncio.create_task(committer.run()))
        await waiting
        assert log.durable_end_offset == log.log_end_offset == 1
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    try:
        loop.run_until_complete(story())
        assert not loop.failures
    finally:
        loop.close()


def test_many_replicas_wait_for_the_same_commit_rounds() -> None:
    loop = SimLoop(1)
    storage, clock, stats = Miniature(), SimClock(loop), NodeStats()
    replicas = [led(storage, partition=partition) for partition in range(10)]
    due, committer = DueWork(), committer_of(storage, clock, stats)
    removal = removal_of(storage, clock, stats, due, committer)

    async def story() -> None:
        for replica in replicas:
            storage.append(replica.where.partition)
            due.remove(replica)
        tasks = [asyncio.create_task(removal.run()), asyncio.create_task(committer.run())]
        await asyncio.sleep(1)
        assert stats.journal_rounds <= 2
        assert [replica.log.durable_end_offset for replica in replicas] == [1] * 10
        assert not any(storage.disk.exists(partition_directory(replica.where)) for replica in replicas)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    try:
        loop.run_until_complete(story())
        assert not loop.failures
    finally:
        loop.close()


def test_a_replica_whose_log_is_being_changed_goes_later_and_the_others_now() -> None:
    loop = SimLoop(1)
    storage, clock, stats = Miniature(), SimClock(loop), NodeStats()
    replicas = [led(storage, partition=partition) for partition in range(5)]
    due, committer = DueWork(), committer_of(storage, clock, stats)
    removal = removal_of(storage, clock, stats, due, committer)

    def left() -> list[int]:
        return [
            replica.where.partition
            for replica in replicas
            if storage.disk.exists(partition_directory(replica.where))
        ]

    async def story() -> None:
        restless = replicas[2]
        restless.busy = True
        for replica in replicas:
            due.remove(replica)
        tasks = [asyncio.create_task(removal.run()), asyncio.create_task(committer.run())]
        await asyncio.sleep(1)
        assert left() == [2] and not restless.log.closed
        assert not committer.no_checkpoint.locked(), "checkpoints go on"
        restless.no_longer_busy()
        await asyncio.sleep(1)
        assert left() == [] and restless.log.closed
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    try:
        loop.run_until_complete(story())
        assert not loop.failures
    finally:
        loop.close()
