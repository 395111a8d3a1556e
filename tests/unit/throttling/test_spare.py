"""Questions get what the machine has left, and never less than a tenant always has."""

import pytest

from data_plane.throttling.shares import SHARED, WAIT_MS_MAX
from data_plane.throttling.spare import ALWAYS, LATE_MS, LOOK_MS, Spare
from data_plane.throttling.use import WINDOW_MS, Use
from penstock.contract.ids import TenantId

ASKS, ALSO_ASKS, WORKS = TenantId("asks"), TenantId("also-asks"), TenantId("works")
LATE, IN_TIME = 5 * LATE_MS, 0.5 * LATE_MS


def spare_of(**used: float) -> Spare:
    """What each tenant has used of the processor for questions, and what `works` has used for what it pays."""
    work = Use()
    spare = Spare(work)
    for tenant, part in used.items():
        work.charge(TenantId(tenant.replace("_", "-")), part * WINDOW_MS, 0)
        if tenant != "works":
            spare.asked.charge(TenantId(tenant.replace("_", "-")), part * WINDOW_MS, 0)
    return spare


def looks(spare: Spare, late_ms: float, seconds: float) -> Spare:
    for _ in range(round(seconds * 1000 / LOOK_MS)):
        spare.observe(late_ms)
    return spare


def test_nobody_waits_while_timers_fire_in_time() -> None:
    spare = looks(spare_of(asks=0.7, works=0.2), IN_TIME, 10)
    assert spare.part == SHARED
    assert spare.wait_ms(ASKS, 0) == 0


def test_who_asks_much_waits_while_timers_fire_late_and_others_work() -> None:
    spare = looks(spare_of(asks=0.2, works=0.2), LATE, 2)
    assert spare.part == ALWAYS
    assert 0 < spare.wait_ms(ASKS, 0) <= WAIT_MS_MAX
    waited_ms = WINDOW_MS * 1.4  # e ** -1.4 is a quarter
    assert spare.wait_ms(ASKS, waited_ms) == 0


def test_a_tenant_alone_does_not_wait_however_late_timers_fire() -> None:
    assert looks(spare_of(asks=0.7), LATE, 2).wait_ms(ASKS, 0) == 0


def test_few_questions_are_never_held_up() -> None:
    assert looks(spare_of(asks=0.9 * ALWAYS, works=0.6), LATE, 10).wait_ms(ASKS, 0) == 0


@pytest.mark.parametrize(("part", "waits"), [(0.45, False), (0.55, True)])
def test_what_is_left_is_divided_among_those_who_ask(part: float, waits: bool) -> None:
    spare = spare_of(asks=part * 0.4, also_asks=0.1, works=0.1)
    spare.part = 0.4
    assert (spare.wait_ms(ASKS, 0) > 0) is waits


def test_work_that_is_paid_for_counts_against_nobody() -> None:
    spare = looks(spare_of(works=0.9, asks=0.01), LATE, 2)
    assert spare.wait_ms(WORKS, 0) == 0


def test_there_is_less_within_a_second_and_all_again_within_ten() -> None:
    spare = looks(spare_of(asks=0.2, works=0.2), LATE, 1)
    assert spare.part == ALWAYS
    assert SHARED / 4 < looks(spare, IN_TIME, 4).part < SHARED
    assert looks(spare, IN_TIME, 6).part == SHARED


def test_one_late_timer_takes_little_away() -> None:
    spare = looks(spare_of(asks=0.2, works=0.2), IN_TIME, 2)
    spare.observe(10 * LATE_MS)
    assert looks(spare, IN_TIME, 0.5).part > SHARED / 2


def test_signs_of_life_have_a_part_of_their_own_and_no_more() -> None:
    spare = looks(spare_of(asks=0.2, works=0.2), LATE, 2)
    assert spare.wait_ms(ASKS, 0) > 0
    assert spare.beat_wait_ms(ASKS, 0) == 0
    spare.beats.charge(ASKS, 2 * ALWAYS * WINDOW_MS, 0)
    assert 0 < spare.beat_wait_ms(ASKS, 0) <= WAIT_MS_MAX
    assert spare.beat_wait_ms(ALSO_ASKS, 0) == 0
    assert looks(spare, IN_TIME, 10).beat_wait_ms(ASKS, 0) == 0


def test_it_matters_how_late_timers_fire_while_somebody_asks() -> None:
    assert not Spare(Use()).is_asked(0)
    spare = spare_of(asks=0.1)
    assert spare.is_asked(100)
    assert not spare.is_asked(60_000)
