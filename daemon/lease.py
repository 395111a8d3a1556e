"""A lease: of several processes that could do something, one does it until it no longer renews.

A lease is a row of a table that all of them reach (`control_plane.processes.models.Lease`). Its number grows with each
holder: it distinguishes what a holder leaves behind from what a later one does (RL9). The database's clock alone
decides when a lease has ended; a holder stops earlier, by its own monotonic clock from before the last renewal. That
clock goes on while a process is paused (SIGSTOP), so a process that wakes up finds that it holds nothing.
"""

import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

TABLE = "processes_lease"
Execute = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
"""Runs one statement, with %s for each value, in a transaction of its own, and returns its rows."""


class Clock(Enum):
    """Seconds since 1970 by the database's clock, as its SQL says it."""

    POSTGRESQL = "extract(epoch from clock_timestamp())"
    SQLITE = "((julianday('now') - 2440587.5) * 86400.0)"


class Lease:
    """The lease `name` as one process sees it. `holder` is that process's own id, used by no other process."""

    def __init__(
        self,
        name: str,
        holder: str,
        *,
        length_s: float,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._holder = holder
        self._length_s = length_s
        self._monotonic = monotonic
        self._hold = (
            f"INSERT INTO {TABLE} (name, holder, number, until) VALUES (%s, %s, 1, {clock.value} + %s) "
            f"ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until, "
            f"number = {TABLE}.number + CASE WHEN {TABLE}.holder = excluded.holder THEN 0 ELSE 1 END "
            f"WHERE {TABLE}.holder = excluded.holder OR {TABLE}.until <= {clock.value} RETURNING number"
        )
        self.number: int | None = None
        """Of this holder's time; None before it held the lease."""
        self._renewed = self._until = float("-inf")

    @property
    def lasts(self) -> bool:
        """Whether no other process can hold it now."""
        return self._monotonic() < self._until

    @property
    def age_s(self) -> float:
        """Seconds since it was taken or renewed."""
        return self._monotonic() - self._renewed

    def hold(self, execute: Execute) -> bool:
        """Take the lease, or renew it. False: another process holds it. Raises what `execute` raises; then it is
        unknown whether it was renewed, and `lasts` goes by the renewal before.
        """
        began = self._monotonic()
        rows = execute(self._hold, (self._name, self._holder, self._length_s))
        if not rows:
            self._until = float("-inf")
            return False
        self.number = int(rows[0][0])
        self._renewed = began
        self._until = began + self._length_s
        return True

    def exceed(self, number: int, execute: Execute) -> bool:
        """Have a number greater than this one from now on. False: it is not held by this process. Raises what `execute`
        raises.

        For a table that was restored from a backup: what earlier holders left behind has greater numbers.
        """
        rows = execute(
            f"UPDATE {TABLE} SET number = CASE WHEN number > %s THEN number ELSE %s END "
            f"WHERE name = %s AND holder = %s RETURNING number",
            (number, number + 1, self._name, self._holder),
        )
        if not rows:
            self._until = float("-inf")
            return False
        self.number = int(rows[0][0])
        return True

    def release(self, execute: Execute) -> None:
        """Let another process take it at once, if this one holds it. Raises what `execute` raises."""
        self._until = float("-inf")
        execute(
            f"UPDATE {TABLE} SET until = 0 WHERE name = %s AND holder = %s RETURNING number",
            (self._name, self._holder),
        )
