"""Refused batches are counted by tenant, and the count falls with time."""

import pytest

from data_plane.throttling.refusals import AT_ONCE, Refusals
from penstock.contract.ids import TenantId
from penstock.contract.limits import REFUSED_BATCHES_PER_S_MAX

BROKEN, SOUND = TenantId("broken"), TenantId("sound")


def test_some_are_refused_at_once_and_then_one_waits_until_the_count_has_fallen() -> None:
    refusals = Refusals()
    refusals.refused(BROKEN, AT_ONCE - 20, 0.0)
    assert refusals.wait_ms(BROKEN, 0.0) == 0
    refusals.refused(BROKEN, 480, 0.0)
    assert refusals.wait_ms(BROKEN, 0.0) == pytest.approx(500_000 / REFUSED_BATCHES_PER_S_MAX)
    assert refusals.wait_ms(BROKEN, 500_000 / REFUSED_BATCHES_PER_S_MAX) == 0
    assert refusals.wait_ms(SOUND, 0.0) == 0


def test_frames_of_few_batches_count_for_what_a_frame_costs() -> None:
    refusals = Refusals()
    for _ in range(AT_ONCE // 20):
        refusals.refused(BROKEN, 1, 0.0)
    assert refusals.wait_ms(BROKEN, 0.0) > 0


def test_who_was_refused_nothing_of_late_is_forgotten() -> None:
    refusals = Refusals()
    refusals.refused(BROKEN, 10, 0.0)
    assert refusals.wait_ms(BROKEN, 60_000.0) == 0
    assert not refusals._counts


def test_tenants_that_never_come_back_are_forgotten_when_another_is_refused() -> None:
    refusals = Refusals()
    for number in range(5_000):
        refusals.refused(TenantId(f"gone-{number}"), 10, 0.0)
    refusals.refused(BROKEN, 10, 60_000.0)
    assert len(refusals) == 1 and refusals._left(BROKEN, 60_000.0) > 0
