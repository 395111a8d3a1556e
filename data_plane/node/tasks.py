"""Running several coroutines as one, where the first error ends all and is raised as itself; long loops that let
others run meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, TypeVar

from data_plane.node.ports import CallFailed, Clock, ConnectionLost, Rng
from penstock.contract.frames import FrameError

_T = TypeVar("_T")
EXPECTED = (ConnectionLost, CallFailed, FrameError)
"""How a conversation ends when nobody made a mistake of ours."""
TURN_MS = 10.0
"""A broker that does one thing for longer hears nobody: others take 1.2 s without a word for its death (RL137)."""


async def together(*parts: Coroutine[Any, Any, None]) -> None:
    """Run the parts until all end or one fails; an unexpected error goes before an expected one (RL140)."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)
    except BaseExceptionGroup as failures:
        ours = [failure for failure in failures.exceptions if not isinstance(failure, EXPECTED)]
        raise (ours or failures.exceptions)[0] from None


class Turn:
    """What one turn of the event loop may take. Before more is done than fits, whoever else is ready has its turn."""

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock, self._rng = clock, rng
        self._began_ms = clock.monotonic_ms()

    @property
    def is_over(self) -> bool:
        """Ask before each piece of work, and `give_way`."""
        return self._clock.monotonic_ms() - self._began_ms >= TURN_MS or self._rng.chance("turn is over")

    async def give_way(self) -> None:
        """Whatever was looked at before may have changed after it."""
        await asyncio.sleep(0)
        self._began_ms = self._clock.monotonic_ms()


async def in_turns(items: Sequence[_T], at_once: int) -> AsyncIterator[Sequence[_T]]:
    """`items` in parts of at most `at_once`, one in each turn of the event loop. Whatever an item belongs to may have
    changed since the part before."""
    for first in range(0, len(items), at_once):
        if first:
            await asyncio.sleep(0)
        yield items[first : first + at_once]
