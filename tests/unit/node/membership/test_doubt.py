"""A process that stood still hears from its session before it is believed (RL137); one that leaves ends it."""

import asyncio
from typing import Any

import pytest

from data_plane.metadata.broker_records import live_key
from data_plane.metadata.port import KeyValue, OutcomeUnknown, RangeResult, SessionLost, StoreUnavailable
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from tests.unit.node.storage import CONFIG


class Clock:
    at_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.at_ms

    def now_ms(self) -> int:
        return int(self.at_ms)


def registered(clock: Clock, lost: list[str] | None = None) -> Registration:
    """As if a session was just confirmed; nothing else of it is asked here."""
    nobody: Any = None
    made = Registration(
        CONFIG,
        "directory",
        MetadataView(nobody, CONFIG.timings),
        nobody,
        clock,
        nobody,
        data_lost=lambda topic_id: False,
        damaged=lambda where: False,
        gained=lambda: None,
        lost=(lambda reason: None) if lost is None else lost.append,
    )
    made._begin(7)
    return made


def test_a_broker_that_stood_still_serves_nothing_until_its_session_is_confirmed() -> None:
    registration = registered(Clock())
    assert registration.confident()
    registration.doubt()
    assert not registration.confident()
    registration._begin(8)
    assert registration.confident()


def test_silence_of_the_store_ends_confidence_at_two_thirds_of_the_session() -> None:
    clock = Clock()
    registration = registered(clock)
    clock.at_ms = CONFIG.timings.session_ttl_ms * 2 / 3 - 1
    assert registration.confident()
    clock.at_ms += 1
    assert not registration.confident()


class Session:
    """The metadata store's end: notes that it was ended, or cannot say whether it was."""

    def __init__(self, trouble: Exception | None) -> None:
        self.trouble = trouble
        self.ended = 0

    async def end(self) -> None:
        self.ended += 1
        if self.trouble is not None:
            raise self.trouble


class Living:
    """A session that lives, and a store with the key of broker 0 as somebody left it."""

    def __init__(self, clock: Clock, mod_revision: int) -> None:
        self._clock = clock
        self._mod_revision = mod_revision

    async def keep_alive(self) -> None:
        self._clock.at_ms += 30

    async def range(self, prefix: str) -> RangeResult:
        self._clock.at_ms += 50
        live = KeyValue(live_key(CONFIG.broker_id), b"", self._mod_revision)
        return RangeResult(9, (live,) if self._mod_revision else ())


@pytest.mark.parametrize(("mod_revision", "confident"), [(7, True), (8, False), (0, False)])
def test_a_session_that_lives_confirms_nothing_once_the_broker_was_fenced(
    mod_revision: int, confident: bool
) -> None:
    clock, lost = Clock(), list[str]()
    registration = registered(clock, lost)
    clock.at_ms = CONFIG.timings.session_ttl_ms / 2
    living: Any = Living(clock, mod_revision)
    registration._store = living
    asyncio.run(registration._confirm(living))
    assert registration.confident() is confident
    assert lost == ([] if confident else ["the registration was fenced"])
    if confident:
        assert registration.silence_ms() == 80, "since it was asked"


@pytest.mark.parametrize("trouble", [None, StoreUnavailable(), OutcomeUnknown(), SessionLost()])
def test_a_broker_that_leaves_ends_its_session_and_says_once_that_it_is_no_longer_registered(
    trouble: Exception | None,
) -> None:
    lost: list[str] = []
    registration, session = registered(Clock(), lost), Session(trouble)
    registration.session = session  # type: ignore[assignment]
    asyncio.run(registration.end())
    assert (session.ended, registration.epoch, lost) == (1, 0, ["the broker stops"])
    asyncio.run(registration.end())
    assert lost == ["the broker stops"]


def test_a_broker_that_never_registered_leaves_without_a_word() -> None:
    lost: list[str] = []
    registration = registered(Clock(), lost)
    registration._drop("the session expired")
    registration.session = None
    asyncio.run(registration.end())
    assert lost == ["the session expired"]
