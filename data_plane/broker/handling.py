"""What both kinds of listener do alike: bound what waits, run handlers, judge how they end, count refusals."""

import asyncio
import logging
import secrets
import string
from collections.abc import Awaitable, Callable
from typing import Any

from data_plane.node.ports import Caller, CallFailed, ConnectionLost
from penstock.contract import limits
from penstock.contract.errors import ErrorCode, PenstockError
from penstock.contract.frames import FrameError

_log = logging.getLogger("penstock.server")

REQUEST_BYTES_MAX = limits.FRAME_HEAD_BYTES_MAX
"""Of one call."""
READ_AHEAD_BYTES = 256 * limits.KIB
"""Nothing more is read of a connection while that much waits to be received; one frame of any size fits."""
READ_AHEAD_FRAMES = 1_000
"""Nor while so many frames do: empty ones have no bytes to count."""
_REQUEST_ID_LENGTH_MAX = 100
_REQUEST_ID_SIGNS = frozenset(string.ascii_letters + string.digits + "-_.:/")
_ADDRESSES_LOGGED_MAX = 100


class Handlers:
    """Runs handlers in tasks of their own: none is cancelled because its caller is gone (RL19).

    `fault` gets each exception of a handler that is neither a refusal nor a lost peer: our own bug (RL140).
    """

    def __init__(self, fault: Callable[[BaseException], None]) -> None:
        self._fault = fault
        self._running: set[asyncio.Task[Any]] = set()
        """Strong references, never iterated."""

    @property
    def count(self) -> int:
        """How many run."""
        return len(self._running)

    def start(self, method: str, caller: Caller, work: Awaitable[Any]) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(_as_coroutine(work))
        self._running.add(task)

        def ended(done: asyncio.Task[Any]) -> None:
            self._running.discard(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                self.judge(method, caller, error)

        task.add_done_callback(ended)
        return task

    def judge(self, method: str, caller: Caller, error: BaseException) -> None:
        """Report what is our own bug."""
        if not isinstance(error, ConnectionLost | CallFailed | FrameError | PenstockError):
            context = {"method": method, "peer": caller.peer, "request_id": caller.request_id}
            _log.error("handler failed", exc_info=error, extra=context)
            self._fault(error)


class TurnedAway:
    """How many callers of each address were not admitted, and why the last of them was not."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._reason = ""

    def count(self, address: str, reason: str) -> None:
        self._reason = reason
        if address in self._counts or len(self._counts) < _ADDRESSES_LOGGED_MAX:
            self._counts[address] = self._counts.get(address, 0) + 1

    def take(self) -> dict[str, int]:
        """Since this was asked last."""
        found, self._counts = self._counts, {}
        return found

    @property
    def reason(self) -> str:
        """Of the last one; empty while there was none."""
        return self._reason


def check_request(request: bytes) -> None:
    """Raises `CallFailed` for one that is too long."""
    if len(request) > REQUEST_BYTES_MAX:
        raise CallFailed(
            ErrorCode.LIMIT_EXCEEDED,
            f"a request of {len(request)} bytes, at most {REQUEST_BYTES_MAX} allowed",
        )


def refusal_of(error: BaseException, request_id: str) -> tuple[int, str] | None:
    """(code, message) for the caller of a handler that ended so; None when the caller is gone."""
    if isinstance(error, ConnectionLost):
        return None
    if isinstance(error, CallFailed | PenstockError):
        return int(error.code), error.message
    if isinstance(error, FrameError):
        return int(ErrorCode.INVALID_REQUEST), str(error)
    return int(ErrorCode.INTERNAL), f"the broker failed; see its log for request {request_id}"


def request_id_of(sent: str) -> str:
    """The caller's own id when it may stand in a log, else a new one."""
    if 0 < len(sent) <= _REQUEST_ID_LENGTH_MAX and _REQUEST_ID_SIGNS.issuperset(sent):
        return sent
    return secrets.token_hex(8)


async def _as_coroutine(work: Awaitable[Any]) -> Any:
    return await work
