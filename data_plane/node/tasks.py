"""Running several coroutines as one, where the first error ends all and is raised as itself; long loops that let
others run meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from typing import Any, Generic, TypeVar

from data_plane.node.ports import CallFailed, Clock, ConnectionLost, Rng
from penstock.contract.frames import FrameError

_T = TypeVar("_T")
EXPECTED = (ConnectionLost, CallFailed, FrameError)
"""How a conversation ends without a mistake of ours."""
TURN_MS = 2.0
"""A client that sends little waits for as many turns as others have work. And a broker that does one thing for long
answers no heartbeat: after 1.2 s without one the others count it as dead (RL137)."""


async def together(*parts: Coroutine[Any, Any, None]) -> None:
    """Run the parts until all end or one fails; an unexpected error goes before an expected one (RL140).

    No `TaskGroup`: up to Python 3.12 one whose part fails leaves its task marked as being cancelled, and a later
    `asyncio.timeout` in that task ends it on Python 3.11.2, Debian's, instead of raising `TimeoutError`.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    cancelled: asyncio.CancelledError | None = None
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    except asyncio.CancelledError as error:
        cancelled = error
    for task in tasks:
        task.cancel()
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            cancelled = error
    failures = [task.exception() for task in tasks if not task.cancelled()]
    errors = [error for error in failures if error is not None]
    ours = [error for error in errors if not isinstance(error, EXPECTED)]
    if ours:
        raise ours[0]
    if cancelled is not None:
        raise cancelled
    if errors:
        raise errors[0]


class Turn:
    """What one turn of the event loop may take. Before more is done than fits, other ready work has its turn."""

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._began_ms = clock.monotonic_ms()

    @property
    def is_over(self) -> bool:
        """Ask before each piece of work, and `give_way`."""
        return self._clock.monotonic_ms() - self._began_ms >= TURN_MS or self._rng.chance("turn is over")

    async def give_way(self) -> None:
        """Whatever was looked at before may have changed after it."""
        await asyncio.sleep(0)
        self._began_ms = self._clock.monotonic_ms()

    def through(self, items: Iterable[_T]) -> AsyncIterator[_T]:
        """`items` one by one, as many in a turn of the event loop as it takes. Whatever an item belongs to may have
        changed since the item before."""
        return _Through(self, items)


def in_turns(items: Sequence[_T], at_once: int) -> AsyncIterator[Sequence[_T]]:
    """`items` in parts of at most `at_once`, one in each turn of the event loop. Whatever an item belongs to may have
    changed since the part before."""
    return _Parts(items, at_once)


class _Through(Generic[_T]):
    """A class, because mypyc compiles no async generators."""

    def __init__(self, turn: Turn, items: Iterable[_T]) -> None:
        self._turn = turn
        self._items = iter(items)

    def __aiter__(self) -> AsyncIterator[_T]:
        return self

    async def __anext__(self) -> _T:
        try:
            item = next(self._items)
        except StopIteration:
            raise StopAsyncIteration from None
        if self._turn.is_over:
            await self._turn.give_way()
        return item


class _Parts(Generic[_T]):
    """A class, because mypyc compiles no async generators."""

    def __init__(self, items: Sequence[_T], at_once: int) -> None:
        self._items = items
        self._at_once = at_once
        self._next = 0

    def __aiter__(self) -> AsyncIterator[Sequence[_T]]:
        return self

    async def __anext__(self) -> Sequence[_T]:
        first = self._next
        if first >= len(self._items):
            raise StopAsyncIteration
        if first:
            await asyncio.sleep(0)
        self._next = first + self._at_once
        return self._items[first : self._next]
