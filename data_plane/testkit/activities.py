"""What is done to a cluster besides producing and reading, each of which some seeds must really have done."""

import asyncio
from collections import Counter
from enum import Enum
from typing import Protocol


class Activity(Enum):
    """One kind of doing, by the words that people read."""

    METERED = "readings metered"
    COMMITTED = "offsets committed by groups"
    MOVED = "reassignments closed"
    GROWN = "partitions added"
    THROTTLED = "batches throttled"
    RECREATED = "topics made again under their name"
    TRIMMED = "records deleted on demand"
    STOPPED = "brokers stopped cleanly"
    READ_NEAR = "bytes read from followers"


class Actor(Protocol):
    """A part of the story that acts while faults happen."""

    reached: Counter[Activity]
    over: asyncio.Event
    """Set from outside: it begins nothing new, and `run` returns once what it began has come to its end. That may take
    until every fault is healed."""

    async def run(self) -> None: ...


async def wait_unless(over: asyncio.Event, seconds: float) -> None:
    """Wait that long, or until it is over."""
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        pass
