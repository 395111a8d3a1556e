"""What a leader reads of its own log. The log alone keeps its ends and its high watermark.

A `LeaderState` gets the log at the start of its leader epoch and reads it as it is. At the end of the epoch it gets
`LastEnds` instead: what becomes of the log then belongs to another leader epoch.
"""

from dataclasses import dataclass
from typing import Protocol


class OwnLog(Protocol):
    """Read only. While its broker leads, the log only grows, and neither the durable end nor the high watermark goes
    back; start <= high watermark <= end, durable end <= end."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def durable_end_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEnds:
    """A log as it was at the end of a leader epoch."""

    log_start_offset: int
    log_end_offset: int
    durable_end_offset: int
    high_watermark: int


def last_ends(log: OwnLog) -> LastEnds:
    """The log as it is now."""
    return LastEnds(
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        durable_end_offset=log.durable_end_offset,
        high_watermark=log.high_watermark,
    )
