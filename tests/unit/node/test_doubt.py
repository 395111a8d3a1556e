"""A process that stood still hears from its session before it is believed (RL137)."""

from typing import Any

from data_plane.node.registration import Registration
from tests.unit.node.storage import CONFIG


class Clock:
    at_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.at_ms

    def now_ms(self) -> int:
        return int(self.at_ms)


def registered(clock: Clock) -> Registration:
    """As if a session was just confirmed; nothing else of it is asked here."""
    nobody: Any = None
    made = Registration(
        CONFIG,
        "directory",
        nobody,
        nobody,
        clock,
        nobody,
        data_lost=lambda topic_id: False,
        damaged=lambda where: False,
        gained=lambda: None,
        lost=lambda reason: None,
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
