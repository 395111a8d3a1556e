"""Questions of brokers to whichever broker is the controller: one frame each, answered one after the other.

Each kind of questions has a stream of its own, kept while the controller is another broker and answers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from data_plane.node.environment import Environment
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed, Connection, ConnectionLost, peer_of, require_broker
from penstock.contract.frames import FrameError
from penstock.contract.ids import NO_BROKER, BrokerId

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class QuestionKind(NamedTuple, Generic[Question, Answer]):
    """How questions of one kind and their answers are frames."""

    method: str
    """Path of the stream on the peer listener."""
    asker: Callable[[Question], BrokerId]
    """The broker that the question says it is of."""
    question_frame: Callable[[Question], bytes]
    read_question: Callable[[bytes], Question]
    """Raises `FrameError`."""
    answer_frame: Callable[[Question, Answer | None], bytes]
    """None: the controller answers nothing now."""
    read_answer: Callable[[bytes, Question], Answer | None]
    """None: refused, or no answer to this question. Raises `FrameError`."""


async def answer_questions(
    kind: QuestionKind[Question, Answer],
    asked: Callable[[Question], Awaitable[Answer | None]],
    caller: Caller,
    connection: Connection,
) -> None:
    """Serve one broker's stream. Ends with `ConnectionLost`, `FrameError`, or `CallFailed` when it asks as another."""
    while True:
        question = kind.read_question(await connection.receive())
        require_broker(caller, kind.asker(question))
        await connection.send(kind.answer_frame(question, await asked(question)))


class ControllerStream(Generic[Question, Answer]):
    """The questions of one broker, one at a time."""

    def __init__(
        self,
        environment: Environment,
        view: MetadataView,
        kind: QuestionKind[Question, Answer],
        asked_here: Callable[[Question], Awaitable[Answer | None]],
    ) -> None:
        """`asked_here` answers when this broker is the controller itself."""
        self._me = environment.config.broker_id
        self._connect_ms = environment.config.timings.call_ms
        self._transport = environment.transport
        self._view = view
        self._kind = kind
        self._asked_here = asked_here
        self._connection: Connection | None = None
        self._connected_to: BrokerId = NO_BROKER

    async def connect(self) -> None:
        """Have a stream to the controller, if it is another broker and answers. Not within the time of an answer: a
        handshake may take long on a loaded machine.
        """
        controller = self._view.image.controller_id
        if self._connected_to != controller:
            self.close()
        broker = self._view.image.brokers.get(controller)
        if self._connection is not None or controller == self._me or broker is None:
            return
        try:
            self._connection = await self._transport.connect(
                peer_of(broker.record), self._kind.method, self._connect_ms
            )
            self._connected_to = controller
        except (ConnectionLost, CallFailed):
            pass  # the next question is then unanswered, and asked again

    async def ask(self, question: Question, answer_ms: float) -> Answer | None:
        """The controller's answer; None where none came within the time, or it is none. Call `connect` before it:
        without a stream there is no answer.
        """
        if self._view.image.controller_id == self._me:
            return await self._asked_here(question)
        connection = self._connection
        if connection is None:
            return None
        try:
            async with asyncio.timeout(answer_ms / 1000):
                await connection.send(self._kind.question_frame(question))
                return self._kind.read_answer(await connection.receive(), question)
        except (TimeoutError, ConnectionLost, CallFailed, FrameError):
            # What still comes on this stream would be taken for the next answer.
            self.close()
            return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._connected_to = NO_BROKER
