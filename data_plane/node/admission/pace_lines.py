"""Waiting in the line of a pace: one after the other goes on when the pace is clear, in the order in which they came.

comes --it is the first, and the pace is clear--> goes on
      --its client is gone--> away
      --the pace is another one now, or none--> looks once more
"""

import asyncio
from collections.abc import Callable

from data_plane.node.ports import Clock, Connection, ConnectionLost
from data_plane.throttling.pacing import Pace

SIGN_MS = 5_000
"""A stream whose frame waits says something this often: clients give up one that says nothing for 15 s, and consumers
ask once more after 10."""
_SOON_MS, _LOOK_MS = 0.1, 250.0
"""Between looks of the first one: not so soon that a clock does not move, and its tenant's rate may be another one."""


class Waiting:
    """A frame in a line, or a call."""

    def __init__(self, connection: Connection | None, sign: Callable[[], None] | None, now_ms: float) -> None:
        """`sign` is called every `SIGN_MS`."""
        self._connection, self._sign, self._sign_at_ms = connection, sign, now_ms + SIGN_MS
        self.woken = asyncio.Event()

    def look(self, now_ms: float) -> float:
        """Give a sign if it is time, and answer in how many ms the next one is due. Raises `ConnectionLost`."""
        if self._connection is not None and self._connection.is_gone:
            raise ConnectionLost(f"{self._connection.peer}: gone while its frame waited")
        if now_ms >= self._sign_at_ms:
            self._sign_at_ms = now_ms + SIGN_MS
            if self._sign is not None:
                self._sign()
        return self._sign_at_ms - now_ms


async def take_in_turn(
    pace_of: Callable[[], Pace | None], units: int, waiting: Waiting, clock: Clock
) -> Pace | None:
    """Wait until so much is let in, and answer where; None: there is no limit."""
    while (pace := pace_of()) is not None:
        if await _taken(pace_of, pace, units, waiting, clock):
            return pace
    return None


async def _taken(
    pace_of: Callable[[], Pace | None], pace: Pace, units: int, waiting: Waiting, clock: Clock
) -> bool:
    """In the line of this pace until so much is let in there; False: there is another pace now, or none."""
    woken = waiting.woken
    pace.line.join(woken.set, clock.monotonic_ms())
    try:
        while pace_of() is pace:
            woken.clear()
            now_ms = clock.monotonic_ms()
            wait_ms = waiting.look(now_ms)
            if pace.line.is_first(woken.set):
                if pace.take(units, now_ms):
                    return True
                wait_ms = min(wait_ms, _LOOK_MS, max(_SOON_MS, pace.clears_in_ms(now_ms)))
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await woken.wait()
            except TimeoutError:
                pass
        return False
    finally:
        pace.line.leave(woken.set, clock.monotonic_ms())
