"""When a consume stream may push: it waits for the consume rate and for processor time, and each is counted apart."""

from types import SimpleNamespace
from typing import cast

import pytest

from data_plane.node.admission.fairness import TenantTurns
from data_plane.node.serving.read_turns import ReadTurns
from data_plane.node.stats import NodeStats
from data_plane.throttling.pacing import BURST_MS, Pace
from tests.unit.node.serving.allowances import GivenPaces, allowance

pytestmark = pytest.mark.pure  # a stand-in gives the pace of processor time
PER_S = 1_000


class Hand:
    """A clock that is set."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.at_ms

    def now_ms(self) -> int:
        return int(self.at_ms)

    def processor_ms(self) -> float:
        return self.at_ms


class Desk:
    """Two streams of one tenant with a consume rate and a limit of processor time."""

    def __init__(self) -> None:
        self.clock = Hand()
        self.stats = NodeStats()
        self.rate = Pace(PER_S)
        self.processor = Pace(PER_S)
        self.first = self._stream()
        self.second = self._stream()

    def _stream(self) -> ReadTurns:
        given = allowance(self.clock, self.stats, GivenPaces(self.rate))
        given.turns = cast(TenantTurns, SimpleNamespace(processor_pace=lambda: self.processor))
        return ReadTurns(given, lambda: None, self.clock, self.stats)

    def use_up(self, pace: Pace, wait_ms: float) -> None:
        """From now on it is clear after so long."""
        pace.enter(int((wait_ms + BURST_MS) * PER_S / 1_000), self.clock.at_ms, may_refuse=False)


def test_it_keeps_its_turn_at_the_rate_while_it_waits_for_processor_time_and_not_the_reverse() -> None:
    desk = Desk()
    desk.use_up(desk.rate, 100)
    desk.use_up(desk.processor, 300)
    assert desk.first.wait_ms(batches=False) == pytest.approx(250), "marks wait for processor time alone"
    assert (len(desk.rate.line), len(desk.processor.line)) == (0, 1)
    assert desk.first.wait_ms(batches=True) == pytest.approx(100)
    assert (len(desk.rate.line), len(desk.processor.line)) == (1, 0), "who pushes marks goes on"
    assert desk.second.wait_ms(batches=True) is None
    desk.clock.at_ms = 100.0
    assert desk.first.wait_ms(batches=True) == pytest.approx(200)
    assert (len(desk.rate.line), len(desk.processor.line)) == (2, 1)
    desk.clock.at_ms = 300.0
    assert desk.first.wait_ms(batches=True) == 0 and not desk.processor.line
    desk.first.begin(100)
    desk.first.end(100)
    assert len(desk.rate.line) == 1
    desk.second.leave()
    assert not desk.rate.line


def test_what_each_of_them_delays_is_counted_as_its_own() -> None:
    desk = Desk()
    desk.use_up(desk.rate, 100)
    desk.use_up(desk.processor, 300)
    for at_ms in (0.0, 100.0):
        desk.clock.at_ms = at_ms
        assert desk.first.wait_ms(batches=True)
    desk.clock.at_ms = 300.0
    assert desk.first.wait_ms(batches=True) == 0
    desk.first.begin(100)
    assert desk.first.end(100) == desk.stats.consume_throttled_ms == 100
    assert desk.first.take_processor_ms() == desk.stats.processor_throttled_ms == 200
    assert desk.first.take_processor_ms() == 0 and desk.stats.processor_throttled == 1
