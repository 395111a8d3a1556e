"""What was counted of a tenant's budgets, as the controller wrote it before it granted.

    /budget_use/<tenant>    BudgetUseRecord; only of tenants with budgets

Every write compares the record's revision and the controller's epoch, so what one controller granted its successor
knows. What a broker holds and has not used counts as granted until the broker gives it back.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from penstock.contract.ids import TenantId


@dataclass(frozen=True, slots=True)
class BudgetKey:
    """Which budget of whom."""

    tenant: TenantId
    budget_id: str


def budget_use_key(tenant: str) -> str:
    return f"/budget_use/{tenant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """Of one budget in one period; amounts in whole units."""

    began_ms: int
    ends_ms: int
    granted: int = 0
    """All that brokers have got of it, and what they used without. What is left is the amount less this."""
    unused: int = 0
    """What of it brokers said they still hold."""
    short_of: int = 0
    """The amount of which something was refused, as too little was left for it; 0: nothing was."""

    @property
    def used(self) -> int:
        """Never less than what was used, but for what brokers have not reported yet."""
        return max(0, self.granted - self.unused)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUseRecord:
    """Of one tenant, by the budget's id."""

    uses: Mapping[str, BudgetUse] = field(default_factory=dict)

    def encode(self) -> bytes:
        rows = {
            budget: [use.began_ms, use.ends_ms, use.granted, use.unused, use.short_of]
            for budget, use in self.uses.items()
        }
        return json.dumps({"uses": rows}, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Later versions may add fields."""
        rows = json.loads(value)["uses"]
        return cls(
            uses={
                budget: BudgetUse(
                    began_ms=row[0], ends_ms=row[1], granted=row[2], unused=row[3], short_of=row[4]
                )
                for budget, row in rows.items()
            }
        )
