"""While no broker answers: logs, once, which addresses are tried and why they fail; and which failed at the start."""

import logging

from penstock.client.telling import warn

TELL_MS = 1_000
"""Brokers that restart or move are back sooner, and a caller that waits longer begins to wonder."""
_log = logging.getLogger("penstock")


class Outage:
    """Begins with an attempt that fails, ends with any answer of any broker."""

    __slots__ = ("_addresses", "_failures", "_known", "_logged", "_since")

    def __init__(self, addresses: int) -> None:
        """`addresses`: how many there are to begin with."""
        self._addresses = addresses
        self._since: float | None = None
        self._known = False
        """Some broker has answered before."""
        self._logged = False
        self._failures: dict[str, str] = {}

    def failed(self, address: str, why: str, now: float) -> None:
        """Attempts are repeated at least once a second, so the next failure logs in time."""
        if self._since is None:
            self._since = now
        self._failures[address] = why
        if not self._logged and now - self._since >= TELL_MS:
            self._logged = True
            warn(
                _log,
                "penstock: no broker has answered for %.0f s, trying on: %s",
                (now - self._since) / 1000,
                each_of(self._failures),
            )

    def answered(self) -> bool:
        """Whether this answer ends an outage that was logged."""
        ended = self._logged
        if ended:
            warn(_log, "penstock: a broker answers again")
        elif not self._known and len(self._failures) * 2 >= self._addresses:
            warn(_log, "penstock: connected, but not by these addresses: %s", each_of(self._failures))
        self._known = True
        if self._since is not None:
            self._since = None
            self._logged = False
            self._failures.clear()
        return ended


def each_of(failures: dict[str, str]) -> str:
    """Failures by address in one line; most name their address themselves."""
    return "; ".join(
        why if why.startswith(address) else f"{address}: {why}" for address, why in failures.items()
    )
