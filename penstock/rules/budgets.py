"""Budgets: what a tenant, one of its topics or one of its service accounts may use in a period. Pure.

A budget counts in units of its measure: bytes and messages as produced, or micro-units of a currency. What a message
costs is four whole numbers that come with the budget, in PARTS of a unit, so that no price is looked up on its way.
Periods are UTC days and months, half open.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import date

from penstock.contract.invariant import invariant
from penstock.contract.resources.budgets import AMOUNT_MAX
from penstock.rules.timestamps import DAY_MS, day_of, day_start_ms

DAY, MONTH = "day", "month"
PERIODS = (MONTH, DAY)
COST, BYTES, MESSAGES = "cost", "bytes", "messages"
NOTIFY, SLOW, REFUSE_PRODUCE, REFUSE = "notify", "slow", "refuse_produce", "refuse"
POLICIES = (NOTIFY, SLOW, REFUSE_PRODUCE, REFUSE)
"""What happens at the full amount: nothing but notices, a lower produce rate, no more messages, neither messages nor
reads."""
STOP_GROWTH = "stop_growth"
"""Of a ceiling of cost: nothing grows while the month is expected to cost more. Brokers only count it, as NOTIFY."""
COST_CEILING = "cost_ceiling"
"""A budget with that policy, as a limit is named in errors and counts."""
BUDGET = "budget"
"""As a limit is named in errors and counts."""
PARTS = 10**9
"""Parts of a unit, in which prices of a byte and a message are given and use is counted before it is rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """As brokers enforce it."""

    budget_id: str
    name: str
    period: str
    amount: int
    """Units in a period."""
    unit: str
    """What people call one: bytes, messages, or micro-units of a currency."""
    policy: str
    slow_bytes_per_s: int = 0
    """The rate at the full amount, with policy SLOW: of what the tenant produces, or of the topic or principal that it
    is of; of a budget that counts reads, of what they read as well."""
    topic: str = ""
    """Of this topic alone; empty: of all."""
    principal: str = ""
    """Of the keys of this owner alone (`service_account:<id>`); empty: of all."""
    byte_in: int = 0
    """Parts that one byte of a batch costs which is appended; the next three likewise."""
    message_in: int = 0
    byte_out: int = 0
    """As delivered to consumers."""
    message_out: int = 0
    used_before: int = 0
    """Units that the period which began at `first_began_ms` used before the budget was made."""
    first_began_ms: int = 0

    def __post_init__(self) -> None:
        invariant(0 < self.amount <= AMOUNT_MAX, "an amount is a whole number above 0")
        invariant(self.period in PERIODS and self.policy in POLICIES, "periods and policies are known")
        invariant(
            min(self.byte_in, self.message_in, self.byte_out, self.message_out) >= 0, "no price is negative"
        )
        invariant(
            0 <= self.used_before <= AMOUNT_MAX and self.first_began_ms >= 0,
            "what was used is no less than nothing",
        )

    @property
    def refuses(self) -> bool:
        """Whether it stops what is above it."""
        return self.policy in (REFUSE_PRODUCE, REFUSE)

    @property
    def counts_reads(self) -> bool:
        """Whether a delivery uses some of it."""
        return self.byte_out > 0 or self.message_out > 0

    def counts(self, topic: str, principal: str) -> bool:
        """Whether a message of that topic, sent or read by that owner of a key, is the budget's."""
        return self.topic in ("", topic) and self.principal in ("", principal)

    def used_before_in(self, began_ms: int) -> int:
        """Units of the period that began then which no broker counted."""
        return self.used_before if began_ms == self.first_began_ms else 0

    def produced(self, messages: int, size: int) -> int:
        """Parts."""
        return messages * self.message_in + size * self.byte_in

    def delivered(self, messages: int, size: int) -> int:
        """Parts."""
        return messages * self.message_out + size * self.byte_out


def period_at(period: str, time_ms: int) -> tuple[int, int]:
    """The period that a time lies in: (its first ms, the first ms after it)."""
    day = day_of(time_ms)
    if period == DAY:
        begins = day_start_ms(day)
        return begins, begins + DAY_MS
    first = day.replace(day=1)
    following = date(first.year + first.month // 12, first.month % 12 + 1, 1)
    return day_start_ms(first), day_start_ms(following)


def budgets_digest(budgets: Sequence[Budget]) -> str:
    """Of all that a tenant has, in whatever order, hex; empty: it has none."""
    if not budgets:
        return ""
    rows = sorted(astuple(budget) for budget in budgets)
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()
