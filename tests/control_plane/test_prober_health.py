"""A prober that measures nothing is not ready and says why; one whose rounds do not end is not healthy."""

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from control_plane.prober_health import (
    FAILED,
    FAILED_ROUNDS_MAX,
    GOOD,
    NONE,
    ROUND_S_MAX,
    HealthCollector,
    ProberHealth,
)
from penstock.rules.service_levels import FETCH, PRODUCE


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_prober_is_ready_once_a_round_has_ended() -> None:
    health = ProberHealth()
    assert health.not_ready() == "starting"
    health.probed(PRODUCE, GOOD)
    health.ended()
    assert health.not_ready() == ""


def test_rounds_that_all_fail_are_not_ready_with_the_last_error_until_a_probe_goes_well() -> None:
    health = ProberHealth()
    for number in range(FAILED_ROUNDS_MAX):
        assert number == 0 or health.not_ready() == "", "one failure says something of the service"
        health.probed(PRODUCE, NONE, "the key was revoked")
        health.ended()
    assert health.not_ready() == "no probe went well in 3 rounds: the key was revoked"
    health.probed(PRODUCE, FAILED, "no answer")
    health.probed(FETCH, GOOD)
    health.ended()
    assert health.not_ready() == ""


def test_rounds_without_any_probe_are_not_ready_either() -> None:
    health = ProberHealth()
    for _ in range(FAILED_ROUNDS_MAX):
        health.ended()
    assert health.not_ready() == "no probe went well in 3 rounds: none was made"


def test_a_round_that_does_not_end_is_late() -> None:
    clock = Clock()
    health = ProberHealth(monotonic=clock)
    clock.now_s += ROUND_S_MAX
    assert health.late() == {}
    clock.now_s += 1
    assert health.late() == {"rounds": "none has ended for 121 s"}
    health.ended()
    assert health.late() == {}


def test_probes_are_counted_by_operation_and_outcome() -> None:
    health = ProberHealth(wall=lambda: 1_700_000_000.0)
    for outcome in (GOOD, GOOD, FAILED):
        health.probed(PRODUCE, outcome, "no answer")
    registry = CollectorRegistry()
    registry.register(HealthCollector(health))
    text = generate_latest(registry).decode()
    assert f'penstock_prober_probes_total{{operation="{PRODUCE}",outcome="good"}} 2.0' in text
    assert f'penstock_prober_probes_total{{operation="{PRODUCE}",outcome="failed"}} 1.0' in text
    assert "penstock_prober_last_good_seconds 1.7e+09" in text
