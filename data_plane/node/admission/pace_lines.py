"""Waiting in the line of a pace: one after the other goes on when the pace is clear, calls and streams in turn.
`take_in_turn` awaits that, a `LineTurn` is asked for it.

comes --it is the first, and the pace is clear--> goes on
      --its client is gone--> away
      --the pace is another one now, or none--> looks once more
"""

import asyncio
from collections.abc import Callable

from data_plane.node.ports import Clock, Connection, ConnectionLost
from data_plane.throttling.line import Line
from data_plane.throttling.pacing import Pace

SIGN_MS = 5_000
"""A stream whose frame waits says something this often: clients give up one that says nothing for 15 s, and consumers
ask once more after 10."""
_SOON_MS, _LOOK_MS = 0.1, 250.0
"""Between looks of the first one: not so soon that a clock does not move, and its tenant's rate may be another one."""


class Waiting:
    """A frame in a line, or a call."""

    def __init__(
        self,
        connection: Connection | None,
        sign: Callable[[], None] | None,
        now_ms: float,
        *,
        is_call: bool = False,
    ) -> None:
        """`sign` is called every `SIGN_MS`."""
        self.is_call = is_call
        self._connection = connection
        self._sign = sign
        self._sign_at_ms = now_ms + SIGN_MS
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
    pace.line.join(woken.set, clock.monotonic_ms(), is_call=waiting.is_call)
    try:
        while pace_of() is pace:
            woken.clear()
            now_ms = clock.monotonic_ms()
            wait_ms = waiting.look(now_ms)
            if pace.line.is_first(woken.set):
                if pace.take(units, now_ms):
                    if units:
                        pace.line.used(units, units, is_call=waiting.is_call)
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


class LineTurn:
    """A stream's turn in the line of a pace, if it waits there. `wake` is called when it is to ask once more."""

    def __init__(self, pace: Callable[[], Pace | None], wake: Callable[[], None]) -> None:
        """`pace`: the one there is now, None = no limit."""
        self.pace = pace
        self._wake = wake
        self._line: Line | None = None

    def wait_ms(self, now_ms: float) -> float | None:
        """0: the turn has come, and is kept until it leaves or a call comes. Else ask once more after so long, or when
        woken; None = only when woken."""
        pace = self.pace()
        if pace is None:
            self.leave(now_ms)
            return 0.0
        clears_in_ms = pace.clears_in_ms(now_ms)
        if self._line is not pace.line:
            self.leave(now_ms)
            if clears_in_ms == 0 and not pace.line:
                return 0.0
            self._line = pace.line
            pace.line.join(self._wake, now_ms)
        if not pace.line.is_first(self._wake):
            return None
        return min(clears_in_ms, _LOOK_MS)

    def leave(self, now_ms: float) -> None:
        """Wait no more, or give the turn up."""
        if self._line is not None:
            line, self._line = self._line, None
            line.leave(self._wake, now_ms)
