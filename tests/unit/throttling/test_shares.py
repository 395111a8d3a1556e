"""Who used more of the processor than its share waits, and nobody else does."""

import pytest

from data_plane.throttling.shares import BUSY, SHARED, WAIT_MS_MAX, Shares
from data_plane.throttling.use import WINDOW_MS, Use
from penstock.contract.ids import TenantId

GREEDY, MODEST, IDLE = TenantId("greedy"), TenantId("modest"), TenantId("idle")


def used(use: Use, seconds: int, **percent: float) -> float:
    """Each tenant uses its percentage of the processor for so long, in pieces of a tenth; the time at the end."""
    now_ms = 0.0
    for _ in range(10 * seconds):
        now_ms += 100
        for tenant, of_all in percent.items():
            use.charge(TenantId(tenant), of_all, now_ms)
    return now_ms


def test_one_tenant_alone_may_use_all_but_what_the_broker_needs() -> None:
    use = Use()
    shares = Shares(use)
    assert shares.wait_ms(GREEDY, used(use, 10, greedy=90 * SHARED)) == 0
    use = Use()
    shares = Shares(use)
    assert shares.wait_ms(GREEDY, used(use, 10, greedy=110 * SHARED)) > 0


def test_nobody_waits_while_there_is_room() -> None:
    use = Use()
    shares = Shares(use)
    now_ms = used(use, 10, greedy=100 * BUSY - 10, modest=5)
    assert shares.wait_ms(GREEDY, now_ms) == shares.wait_ms(MODEST, now_ms) == 0


def test_who_used_more_than_an_even_part_waits_until_it_has_faded() -> None:
    use = Use()
    shares = Shares(use)
    now_ms = used(use, 10, greedy=90, modest=5)
    wait_ms = shares.wait_ms(GREEDY, now_ms)
    assert 0 < wait_ms <= WAIT_MS_MAX
    assert shares.wait_ms(MODEST, now_ms) == shares.wait_ms(IDLE, now_ms) == 0
    # others keep the broker busy meanwhile
    use.charge(MODEST, 0.2 * WINDOW_MS, now_ms + wait_ms)
    assert shares.wait_ms(GREEDY, now_ms + wait_ms - 20) > 0
    assert shares.wait_ms(GREEDY, now_ms + wait_ms + 1) == 0


@pytest.mark.parametrize("tenants", [2, 3, 4])
def test_the_parts_are_even_among_those_who_work(tenants: int) -> None:
    use = Use()
    shares = Shares(use)
    of_all = 100 * SHARED / tenants
    others = {f"other_{number}": of_all for number in range(tenants - 1)}
    assert shares.wait_ms(GREEDY, used(use, 10, greedy=0.9 * of_all, **others)) == 0
    use = Use()
    shares = Shares(use)
    assert shares.wait_ms(GREEDY, used(use, 10, greedy=1.2 * of_all, **others)) > 0


def test_who_does_next_to_nothing_takes_no_part() -> None:
    use = Use()
    shares = Shares(use)
    now_ms = used(use, 10, greedy=90 * SHARED, idle=0.05)
    assert shares.wait_ms(GREEDY, now_ms) == 0


def test_nobody_waits_longer_than_a_second_at_once() -> None:
    use = Use()
    shares = Shares(use)
    now_ms = used(use, 1, modest=5)
    use.charge(GREEDY, 1_000_000, now_ms)
    assert shares.wait_ms(GREEDY, now_ms) == WAIT_MS_MAX


def test_tenants_that_left_are_forgotten() -> None:
    use = Use()
    shares = Shares(use)
    now_ms = used(use, 1, **{f"tenant_{number}": 1 for number in range(500)})
    use.charge(GREEDY, 10_000, now_ms + 60_000)
    shares.wait_ms(GREEDY, now_ms + 60_000)
    assert len(use._used) == 1


def test_who_works_is_counted_a_second_time_only_after_a_while() -> None:
    use = Use()
    shares = Shares(use)
    now_ms = used(use, 10, greedy=95 * SHARED)
    assert shares.wait_ms(GREEDY, now_ms) == 0
    use.charge(MODEST, 10, now_ms + 1)
    assert shares.wait_ms(GREEDY, now_ms + 99) == 0, "the count of just now still holds"
    assert shares.wait_ms(GREEDY, now_ms + 100) > 0


def test_a_broker_that_waits_for_a_processor_shares_what_it_has_of_one() -> None:
    """Half of the time that work takes it waits for another process: it is as busy as one that does twice as much."""
    waits_ms = []
    for percent, took_ms in ((90, 90), (45, 90)):
        use, now_ms = Use(), 0.0
        for _ in range(100):
            now_ms += 100
            use.charge(GREEDY, percent, now_ms, took_ms)
            use.charge(MODEST, percent / 10, now_ms, took_ms / 10)
        waits_ms.append(Shares(use).wait_ms(GREEDY, now_ms))
        assert Shares(use).wait_ms(MODEST, now_ms) == 0
    assert waits_ms[0] == pytest.approx(waits_ms[1]) and waits_ms[1] > 0
