"""Where a seek may go, and what is refused without a group."""

from typing import Literal

from penstock.client.consuming.fetch_position import BEGINNING, END
from penstock.contract.errors import ConfigurationError, InvalidRequest

SeekTo = Literal["beginning", "end"]


def seek_target(offset: int | None, timestamp_ms: int | None, to: SeekTo | None) -> int | None:
    """The time to look up (or `BEGINNING`, `END`); None = go to `offset`. Raises `InvalidRequest` unless
    exactly one is given.
    """
    if sum(place is not None for place in (offset, timestamp_ms, to)) != 1:
        raise InvalidRequest("seek: exactly one of offset, timestamp_ms and to is required")
    if offset is not None:
        if offset < 0:
            raise InvalidRequest(f"seek: offset {offset}; 0 or more required")
        return None
    if timestamp_ms is not None:
        if timestamp_ms < 0:
            raise InvalidRequest(f"seek: timestamp_ms {timestamp_ms}; 0 or more required")
        return timestamp_ms
    if to == "beginning":
        return BEGINNING
    if to == "end":
        return END
    raise InvalidRequest(f"seek: to={to!r} is neither 'beginning' nor 'end'")


def no_group(what: str) -> ConfigurationError:
    """What everything raises that needs a consumer group."""
    return ConfigurationError(
        f"{what}: needs a consumer group; pass group=, or keep positions with position() and seek()"
    )
