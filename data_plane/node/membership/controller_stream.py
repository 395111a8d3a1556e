"""One stream of questions to whichever broker is the controller, kept while that is another one and answers."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from data_plane.node.environment import Environment
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import CallFailed, Connection, ConnectionLost, peer_of
from penstock.contract.frames import FrameError
from penstock.contract.ids import NO_BROKER, BrokerId

_Answer = TypeVar("_Answer")


class ControllerStream:
    """Of one caller, which asks one question at a time."""

    def __init__(self, environment: Environment, view: MetadataView, method: str) -> None:
        self._me = environment.config.broker_id
        self._connect_ms = environment.config.timings.call_ms
        self._transport = environment.transport
        self._view = view
        self._method = method
        self._connection: Connection | None = None
        self._connected_to: BrokerId = NO_BROKER

    @property
    def is_here(self) -> bool:
        """Whether this broker is the controller: then it asks itself, without a stream."""
        return self._view.image.controller_id == self._me

    async def connect(self) -> None:
        """Have a stream to the controller, if it is another broker and answers. Not within the time of an answer: a
        handshake may take long on a loaded machine.
        """
        controller = self._view.image.controller_id
        if self._connected_to != controller:
            self.close()
        known = self._view.image.brokers.get(controller)
        if self._connection is not None or self.is_here or known is None:
            return
        try:
            self._connection = await self._transport.connect(
                peer_of(known.record), self._method, self._connect_ms
            )
            self._connected_to = controller
        except (ConnectionLost, CallFailed):
            pass  # the next question is then unanswered, and asked again

    async def ask(
        self, question: bytes, read: Callable[[bytes], _Answer | None], answer_ms: float
    ) -> _Answer | None:
        """What `read` makes of the answer; None where none came within the time, or it is none. `read` may raise
        `FrameError`. Without a stream there is no answer.
        """
        connection = self._connection
        if connection is None:
            return None
        try:
            async with asyncio.timeout(answer_ms / 1000):
                await connection.send(question)
                return read(await connection.receive())
        except (TimeoutError, ConnectionLost, CallFailed, FrameError):
            # What still comes on this stream would be taken for the next answer.
            self.close()
            return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._connected_to = NO_BROKER
