"""Sends what a consume stream pushes, and a push of nothing as a sign that the broker is there while it waits."""

import asyncio
from collections.abc import Callable

from data_plane.node.admission.pace_lines import SIGN_MS
from data_plane.node.ports import Clock, Connection
from penstock.contract.frames import FrameKind, pack_frame
from penstock.contract.v1 import log_pb2 as pb

_SIGN_SENT_MS = 100
"""A peer that takes a sign later than this does not read."""


class PushSender:
    """Of one stream. `leave_lines` gives up its places in lines: a peer that does not read makes a push wait, and
    others wait behind those places."""

    def __init__(self, connection: Connection, clock: Clock, leave_lines: Callable[[], None]) -> None:
        self._connection = connection
        self._clock = clock
        self._leave_lines = leave_lines
        self._said_ms = clock.monotonic_ms()
        self.sign_due = False
        """A sign was asked for."""

    @property
    def sign_in_ms(self) -> float:
        """Until a stream that waits is to give a sign, at most 0 = now."""
        return self._said_ms + SIGN_MS - self._clock.monotonic_ms()

    async def push(self, frame: bytes) -> None:
        """It tells that the broker is there as well."""
        self.sign_due = False
        self._leave_lines()
        await self._connection.send(frame)
        self._said_ms = self._clock.monotonic_ms()

    async def sign(self) -> None:
        """The stream keeps its places in lines if its peer reads."""
        self.sign_due = False
        empty = pack_frame(FrameKind.CONSUME_PUSH, pb.ConsumePushHead().SerializeToString())
        sending = asyncio.ensure_future(self._connection.send(empty))
        try:
            await asyncio.wait([sending], timeout=_SIGN_SENT_MS / 1000)
            if not sending.done():
                self._leave_lines()
            await sending
        finally:
            sending.cancel()
        self._said_ms = self._clock.monotonic_ms()
