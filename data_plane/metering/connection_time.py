"""How long clients' connections are open: milliseconds by tenant and principal.

A connection counts while a call or stream of the principal is open on it, once, however many there are. A connection
on which two principals have calls counts for both. Time is looked at when connections begin and end, and when it is
taken; so nothing happens while they are open.
"""

from penstock.contract.ids import TenantId

LOOK_MS_MAX = 10_000
"""Time is taken each second. When so long has passed the broker stood still and served no connection: more than this is
not counted.
"""
Whose = tuple[TenantId, int]
"""A tenant, and the number of its principal."""


class _Open:
    """Connections of one principal. `gained_ms` until `since_ms`."""

    __slots__ = ("calls", "gained_ms", "since_ms")

    def __init__(self, now_ms: int) -> None:
        self.calls: dict[str, int] = {}
        """By connection: how many of the principal's are open on it."""
        self.since_ms = now_ms
        self.gained_ms = 0

    def advance(self, now_ms: int) -> None:
        self.gained_ms += len(self.calls) * max(0, min(now_ms - self.since_ms, LOOK_MS_MAX))
        self.since_ms = now_ms


class ConnectionTime:
    """Of one broker. Times are whole milliseconds of a monotonic clock."""

    def __init__(self) -> None:
        self._open: dict[Whose, _Open] = {}
        """Only principals with open connections, or with time that was not taken yet."""

    def begin(self, tenant: TenantId, principal: int, connection: str, now_ms: int) -> None:
        """A call is open. `end` must follow."""
        whose = (tenant, principal)
        known = self._open.get(whose)
        if known is None:
            known = self._open[whose] = _Open(now_ms)
        if connection in known.calls:
            known.calls[connection] += 1
        else:
            known.advance(now_ms)
            known.calls[connection] = 1

    def end(self, tenant: TenantId, principal: int, connection: str, now_ms: int) -> None:
        """A call that was begun has ended."""
        known = self._open[tenant, principal]
        if known.calls[connection] > 1:
            known.calls[connection] -= 1
        else:
            known.advance(now_ms)
            del known.calls[connection]

    def take(self, now_ms: int) -> list[tuple[TenantId, int, int]]:
        """(tenant, principal, milliseconds) since the last time, without those of 0."""
        taken = []
        for whose, known in list(self._open.items()):
            known.advance(now_ms)
            if known.gained_ms:
                taken.append((*whose, known.gained_ms))
                known.gained_ms = 0
            if not known.calls:
                del self._open[whose]
        return taken
