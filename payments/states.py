"""What is owed of one invoice and what follows from it: a pure state machine.

States of a receivable, and what moves between them:

    open ──due date passes──▶ past_due ──an operator gives up──▶ uncollectible
      │                          │                                  │
      ├──────── paid in whole ───┴──────────────────────────────────┴──▶ paid
      └──────── credited in whole, before anything was paid ───────────▶ void

A late payment pays an uncollectible one too. Nothing leaves void, and paid only by an operator, who gives up what a
dispute or a refund without a credit note has opened: such money is shown as what it is, beside the state. Amounts are
micro-units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from penstock.contract.invariant import invariant


class State(StrEnum):
    OPEN = "open"
    PAST_DUE = "past_due"
    PAID = "paid"
    UNCOLLECTIBLE = "uncollectible"
    VOID = "void"


OWED = (State.OPEN, State.PAST_DUE)
"""States in which money is asked for."""
ALERT_AFTER = timedelta(days=1)
"""Operators are alerted so long after the last reminder: a day to act on it."""
MOVES = {
    State.OPEN: frozenset({State.PAST_DUE, State.PAID, State.UNCOLLECTIBLE, State.VOID}),
    State.PAST_DUE: frozenset({State.PAID, State.UNCOLLECTIBLE, State.VOID}),
    State.UNCOLLECTIBLE: frozenset({State.PAID, State.VOID}),
    State.PAID: frozenset({State.UNCOLLECTIBLE}),
    State.VOID: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The money of one receivable. None of it is negative, and no more is credited than was asked for."""

    total_micro: int
    credited_micro: int = 0
    voided_micro: int = 0
    """What an operator took back, by making it void: all that credit notes had left."""
    paid_micro: int = 0
    refunded_micro: int = 0

    def __post_init__(self) -> None:
        amounts = (
            *(self.total_micro, self.credited_micro, self.voided_micro),
            *(self.paid_micro, self.refunded_micro),
        )
        invariant(min(amounts) >= 0, "no amount of a receivable is negative")
        invariant(self.asked_micro >= 0, "no more is credited or voided than was asked for")
        invariant(self.refunded_micro <= self.paid_micro, "no more is refunded than was paid")

    @property
    def _kept_micro(self) -> int:
        return self.paid_micro - self.refunded_micro

    @property
    def asked_micro(self) -> int:
        """What is asked for, paid or not."""
        return self.total_micro - self.credited_micro - self.voided_micro

    @property
    def open_micro(self) -> int:
        """What is still to be paid."""
        return max(0, self.asked_micro - self._kept_micro)

    @property
    def overpaid_micro(self) -> int:
        """What is to be refunded."""
        return max(0, self._kept_micro - self.asked_micro)


def settled(state: State, balance: Balance, *, due_at: datetime, now: datetime) -> State:
    """The state that follows from the money and the time. It is `state` or one that `state` may move to."""
    if State.PAID not in MOVES[state]:
        return state
    if balance.open_micro == 0:
        whole = balance.total_micro > 0 and balance.asked_micro == 0
        return State.VOID if whole and balance.paid_micro == 0 else State.PAID
    if state is State.OPEN and now >= due_at:
        return State.PAST_DUE
    return state


def reminders_due(due_at: datetime, days: Sequence[int], now: datetime) -> int:
    """How many of the reminders, sent so many days after the due date each, are due by now."""
    return sum(1 for day in days if now >= due_at + timedelta(days=day))
