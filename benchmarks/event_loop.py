"""One event loop for all benchmarks of a process: grpc.aio ties itself to the first loop that it is used in."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_RUNNER = asyncio.Runner()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, on the loop that every benchmark shares."""
    return _RUNNER.run(work)
