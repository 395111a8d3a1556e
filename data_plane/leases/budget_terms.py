"""What brokers and the controller say to each other of budgets.

Amounts are whole units of the budget. What rises only is said as a total, of one term of the books and one period of
the budget: a message that is lost, late or comes twice then changes nothing. No time of a clock travels, but for the
bounds of the period, by which the controller's wall clock names it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from data_plane.metadata.budget_use import BudgetKey
from penstock.contract.ids import BrokerId

ENTRIES_MAX = 100
"""Budgets in one request. The controller writes what it grants to their tenants in one transaction."""

HOLD_MOST = 100
"""All brokers together hold one part in so many of the amount at most: what those hold that are killed counts as
used."""


def hold_max(amount: int, brokers: int) -> int:
    """Units that each broker of so many may hold of a budget; a batch that is larger may be taken whole."""
    return max(1, amount // (HOLD_MOST * max(1, brokers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Of one budget, in a request."""

    term: int
    """Of the books that the totals are of; 0 = the broker knows none."""
    began_ms: int
    """Of the period that they are of; 0 = it knows none."""
    holds: int
    """What it has got and not used."""
    wants: int
    """What it would like to hold."""
    needs: int
    """With less it can do nothing."""
    received: int
    """Total that it knows to be granted to it."""
    returned: int
    """Total that it gave back. It uses this no more."""
    owed: int
    """Total that it used without a grant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRequest:
    """Of one broker to the controller of that epoch."""

    holder: BrokerId
    registration: int
    """Its broker epoch."""
    epoch: int
    sequence: int
    wants: Mapping[BudgetKey, Want] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """Of one budget, in an answer."""

    began_ms: int
    """0: there is no such budget."""
    ends_ms: int
    total: int
    """Granted to this broker, in this term and period."""
    left: int = 0
    """Of the amount, once that is granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAnswer:
    term: int
    granted: Mapping[BudgetKey, Granted]
