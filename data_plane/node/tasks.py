"""Running several coroutines as one: the first error ends all and is raised as itself."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from data_plane.node.ports import CallFailed, ConnectionLost
from penstock.contract.frames import FrameError

EXPECTED = (ConnectionLost, CallFailed, FrameError)
"""How a conversation ends when nobody made a mistake of ours."""


async def together(*parts: Coroutine[Any, Any, None]) -> None:
    """Run the parts until all end or one fails; an unexpected error goes before an expected one (RL140)."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)
    except BaseExceptionGroup as failures:
        ours = [failure for failure in failures.exceptions if not isinstance(failure, EXPECTED)]
        raise (ours or failures.exceptions)[0] from None
