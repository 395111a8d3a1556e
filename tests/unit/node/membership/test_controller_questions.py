"""Questions to the controller: over a stream or here, one at a time, and an answer belongs to its question."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.node.membership.controller_questions import ControllerStream, QuestionKind, answer_questions
from data_plane.node.ports import CallFailed, ConnectionLost
from penstock.contract.errors import ErrorCode
from penstock.contract.frames import FrameError
from penstock.contract.ids import BrokerId

pytestmark = pytest.mark.pure  # views, connections and callers are stand-ins

ME, OTHER, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)
REFUSED = b"-"
REFUSAL = CallFailed(ErrorCode.INVALID_REQUEST, "a broker of another version offers no such stream")
LATE_MS = 10


def read_question(frame: bytes) -> str:
    if not frame.startswith(b"?"):
        raise FrameError("no question")
    return frame[1:].decode()


def read_answer(frame: bytes, question: str) -> str | None:
    if frame == b"garbage":
        raise FrameError("no answer")
    named, _, answer = frame.decode().partition("=")
    return answer if named == question else None


KIND: QuestionKind[str, str] = QuestionKind(
    method="/questions",
    asker=lambda question: BrokerId(int(question[0])),
    question_frame=lambda question: b"?" + question.encode(),
    read_question=read_question,
    answer_frame=lambda question, answer: REFUSED if answer is None else f"{question}={answer}".encode(),
    read_answer=read_answer,
)


class Wire:
    """A stream to another broker, which sends what the test has queued."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.frames: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self.closed = False

    async def send(self, frame: bytes) -> None:
        if self.closed:
            raise ConnectionLost("closed")
        self.sent.append(frame)

    async def receive(self) -> bytes:
        frame = await self.frames.get()
        if isinstance(frame, Exception):
            raise frame
        return frame

    def close(self) -> None:
        self.closed = True


class Asker:
    """A broker that asks; `controller` is whom its metadata name."""

    def __init__(self, controller: BrokerId = OTHER) -> None:
        self.wires: list[Wire] = []
        self.connected: list[int] = []
        self.asked_here: list[str] = []
        self.failure: Exception | None = None
        """Raised instead of a connection."""
        brokers = {
            broker: SimpleNamespace(record=SimpleNamespace(broker_id=broker, peer_address=f"broker-{broker}"))
            for broker in (ME, OTHER)
        }
        self.image = SimpleNamespace(controller_id=controller, brokers=brokers)
        timings = SimpleNamespace(call_ms=1_000)
        environment = SimpleNamespace(config=SimpleNamespace(broker_id=ME, timings=timings), transport=self)
        made: Any = ControllerStream
        self.stream: ControllerStream[str, str] = made(environment, self, KIND, self._here)

    async def connect(self, peer: Any, method: str, timeout_ms: int) -> Wire:
        assert (method, timeout_ms) == (KIND.method, 1_000)
        self.connected.append(peer.broker)
        if self.failure is not None:
            raise self.failure
        self.wires.append(Wire())
        return self.wires[-1]

    async def ask(self, question: str, *answers: bytes | Exception) -> str | None:
        await self.stream.connect()
        for answer in answers:
            self.wires[-1].frames.put_nowait(answer)
        return await self.stream.ask(question, LATE_MS)

    async def _here(self, question: str) -> str | None:
        self.asked_here.append(question)
        return "here"


def test_a_controller_elsewhere_is_asked_over_one_stream() -> None:
    async def story() -> None:
        asker = Asker()
        assert await asker.ask("1a", b"1a=yes") == "yes"
        assert await asker.ask("1b", b"1b=no") == "no"
        (wire,) = asker.wires
        assert wire.sent == [b"?1a", b"?1b"] and not asker.asked_here

    asyncio.run(story())


def test_the_controller_asks_itself_without_a_stream() -> None:
    async def story() -> None:
        asker = Asker(controller=ME)
        assert await asker.ask("1a") == "here"
        assert asker.asked_here == ["1a"] and asker.connected == []

    asyncio.run(story())


def test_a_stream_to_who_was_the_controller_ends() -> None:
    async def story() -> None:
        asker = Asker()
        await asker.ask("1a", b"1a=yes")
        asker.image.controller_id = ME
        assert await asker.ask("1b") == "here"
        assert asker.wires[0].closed
        asker.image.controller_id = THIRD
        assert await asker.ask("1c") is None, "a controller that is not in the metadata yet"
        assert asker.connected == [OTHER]

    asyncio.run(story())


@pytest.mark.parametrize(
    "answers",
    [(), (b"garbage",), (ConnectionLost("over"),), (REFUSAL,)],
    ids=["late", "garbage", "ended", "not served"],
)
def test_without_an_answer_the_stream_ends_so_that_a_late_one_is_taken_for_no_other(answers: Any) -> None:
    async def story() -> None:
        asker = Asker()
        assert await asker.ask("1a", *answers) is None
        (first,) = asker.wires
        assert first.closed
        assert await asker.ask("1b", b"1b=yes") == "yes"
        assert len(asker.wires) == 2

    asyncio.run(story())


@pytest.mark.parametrize("answer", [REFUSED, b"1x=yes"], ids=["refused", "to another question"])
def test_a_refusal_is_no_answer_and_the_stream_stays(answer: bytes) -> None:
    async def story() -> None:
        asker = Asker()
        assert await asker.ask("1a", answer) is None
        assert await asker.ask("1b", b"1b=yes") == "yes"
        assert len(asker.wires) == 1

    asyncio.run(story())


@pytest.mark.parametrize("failure", [ConnectionLost("away"), REFUSAL], ids=["away", "not served"])
def test_a_controller_that_cannot_be_asked_is_tried_again_at_the_next_question(failure: Exception) -> None:
    async def story() -> None:
        asker = Asker()
        asker.failure = failure
        assert await asker.ask("1a") is None
        asker.failure = None
        assert await asker.ask("1b", b"1b=yes") == "yes"
        assert asker.connected == [OTHER, OTHER]

    asyncio.run(story())


def test_questions_of_a_stream_are_answered_in_their_order_and_refusals_too() -> None:
    async def story() -> None:
        answers = {"2a": "yes", "2b": None}

        async def asked(question: str) -> str | None:
            return answers[question]

        wire: Any = Wire()
        caller: Any = SimpleNamespace(identity=SimpleNamespace(broker_id=OTHER))
        for frame in (b"?2a", b"?2b", ConnectionLost("over")):
            wire.frames.put_nowait(frame)
        with pytest.raises(ConnectionLost):
            await answer_questions(KIND, asked, caller, wire)
        assert wire.sent == [b"2a=yes", REFUSED]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("frame", "error"),
    [(b"?3a", CallFailed), (b"garbage", FrameError)],
    ids=["for another broker", "garbage"],
)
def test_what_is_no_question_of_the_caller_is_not_answered(frame: bytes, error: type[Exception]) -> None:
    async def story() -> None:
        asked: list[str] = []

        async def answer(question: str) -> str | None:
            asked.append(question)
            return "yes"

        wire: Any = Wire()
        caller: Any = SimpleNamespace(identity=SimpleNamespace(broker_id=OTHER))
        wire.frames.put_nowait(frame)
        with pytest.raises(error):
            await answer_questions(KIND, answer, caller, wire)
        assert not asked and not wire.sent

    asyncio.run(story())
