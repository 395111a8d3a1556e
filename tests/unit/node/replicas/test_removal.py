"""Removing a replica: what its log has handed out is durable before its files go."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from data_plane.log.layout import partition_directory
from data_plane.node.replicas.due_work import DueWork
from data_plane.node.replicas.removal import Removal
from data_plane.node.replicas.replica import Replica

from .test_follower_stream import ME, led


class World:
    """Stands for everything that a removal asks, and notes in which order it does."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.durable = asyncio.Event()
        self.config, self.disk, self.broker_id = self, self, ME

    @property
    @asynccontextmanager
    async def no_checkpoint(self) -> AsyncIterator[None]:
        self.steps.append("no checkpoint")
        yield
        self.steps.append("checkpoints again")

    async def flushed(self, replica: Replica) -> None:
        self.steps.append("flush")
        await self.durable.wait()

    def remove_directory(self, path: str) -> None:
        self.steps.append(f"remove {path}")

    def partition(self, where: object) -> None:
        """The image knows it no more."""


async def some_turns() -> None:
    """More than a removal takes; nothing in it waits for anything but `durable`."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.pure
def test_the_files_go_once_all_that_was_handed_out_is_durable() -> None:
    async def story() -> None:
        world, due, replica = World(), DueWork(), led()
        stand_in: Any = world
        removal = Removal(
            stand_in, image=stand_in, replicas=stand_in, due=due, committer=stand_in, last_readings=stand_in
        )
        due.remove(replica)
        running = asyncio.create_task(removal.run())
        await some_turns()
        assert world.steps == ["no checkpoint", "flush"], "nothing goes before"
        world.durable.set()
        await some_turns()
        running.cancel()
        directory = partition_directory(replica.where)
        assert world.steps[2:] == [f"remove {directory}", "checkpoints again"]

    asyncio.run(story())
