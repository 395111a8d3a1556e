"""What follows from the money and the time of a receivable."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payments.states import MOVES, Balance, State, reminders_due, settled
from penstock.contract.invariant import InvariantBroken

DUE = datetime(2026, 2, 28, tzinfo=UTC)


def after(state: State, days: int, **amounts: int) -> State:
    return settled(state, Balance(**amounts), due_at=DUE, now=DUE + timedelta(days=days))


@pytest.mark.parametrize(
    ("state", "days", "amounts", "expected"),
    [
        (State.OPEN, -1, {"total_micro": 10}, State.OPEN),
        (State.OPEN, 0, {"total_micro": 10}, State.PAST_DUE),
        (State.OPEN, -1, {"total_micro": 0}, State.PAID),
        (State.OPEN, -1, {"total_micro": 10, "paid_micro": 10}, State.PAID),
        (State.PAST_DUE, 1, {"total_micro": 10, "paid_micro": 9}, State.PAST_DUE),
        (State.PAST_DUE, 1, {"total_micro": 10, "paid_micro": 9, "credited_micro": 1}, State.PAID),
        (State.OPEN, -1, {"total_micro": 10, "credited_micro": 10}, State.VOID),
        (State.UNCOLLECTIBLE, 99, {"total_micro": 10}, State.UNCOLLECTIBLE),
        (State.UNCOLLECTIBLE, 99, {"total_micro": 10, "paid_micro": 10}, State.PAID),
        (State.PAID, 99, {"total_micro": 10, "paid_micro": 10, "refunded_micro": 10}, State.PAID),
        (State.VOID, 99, {"total_micro": 10, "credited_micro": 10, "paid_micro": 10}, State.VOID),
        (State.OPEN, -1, {"total_micro": 9, "paid_micro": 10}, State.PAID),
    ],
)
def test_the_state_follows_from_money_and_time(
    state: State, days: int, amounts: dict[str, int], expected: State
) -> None:
    assert after(state, days, **amounts) is expected


@given(
    st.sampled_from(State),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(-3, 3),
)
def test_every_move_is_in_the_table_and_nothing_is_open_and_overpaid(
    state: State, total: int, credited: int, paid: int, refunded: int, days: int
) -> None:
    balance = Balance(
        total_micro=total,
        credited_micro=min(total, credited),
        paid_micro=paid,
        refunded_micro=min(paid, refunded),
    )
    moved = settled(state, balance, due_at=DUE, now=DUE + timedelta(days=days))
    assert moved is state or moved in MOVES[state]
    assert balance.open_micro == 0 or balance.overpaid_micro == 0
    kept = balance.paid_micro - balance.refunded_micro
    assert balance.open_micro - balance.overpaid_micro == total - balance.credited_micro - kept


@pytest.mark.parametrize(
    "amounts",
    [{"total_micro": -1}, {"total_micro": 1, "credited_micro": 2}, {"total_micro": 1, "refunded_micro": 1}],
)
def test_a_balance_that_cannot_be_does_not_exist(amounts: dict[str, int]) -> None:
    with pytest.raises(InvariantBroken):
        Balance(**amounts)


@pytest.mark.parametrize(
    ("days", "count"), [(-1, 0), (0, 1), (2, 1), (3, 2), (7, 3), (13, 3), (14, 4), (400, 4)]
)
def test_reminders_are_due_on_their_days(days: int, count: int) -> None:
    assert reminders_due(DUE, (0, 3, 7, 14), DUE + timedelta(days=days)) == count
