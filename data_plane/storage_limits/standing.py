"""Which tenants a broker refuses because their storage is full: what the controller said last, for a time.

    WITHIN --the controller names the tenant--> REFUSED --it names it no more--> WITHIN
    REFUSED --the limit is raised or lifted here--> WITHIN       REFUSED --no answer for HOLDS_MS--> WITHIN

Who cannot hear the controller refuses no one whom it did not name, and no one for longer than HOLDS_MS: by then what
the tenant keeps is not known any more.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from data_plane.storage_limits.reports import STORAGE_BYTES_MAX, Full, has_cleared
from penstock.contract.ids import TenantId
from penstock.rules.budgets import COST_CEILING
from penstock.rules.limit_words import OPERATORS, PAYERS, limit_words

HOLDS_MS = 30_000
"""Longer than a change of the controller and its learning take."""
RETRY_MS = 5_000
"""After which a refused batch is worth another try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRefusal:
    """Why a tenant may store no more. `limit` is the name of what was reached."""

    limit: str
    text: str


class StorageStanding:
    """Of one broker."""

    def __init__(self) -> None:
        self._full: dict[TenantId, int] = {}
        """By tenant, the bytes that it uses."""
        self._until_ms = float("-inf")

    def full(self, now_ms: float) -> list[TenantId]:
        """Tenants that are refused now, whatever their limit is by now."""
        return list(self._full) if now_ms < self._until_ms else []

    def answered(self, full: Iterable[Full], asked_ms: float) -> None:
        """The controller's answer to what was asked then."""
        self._full = {one.tenant: one.used_bytes for one in full}
        self._until_ms = asked_ms + HOLDS_MS

    def refusal(self, tenant: TenantId, limit: int, ceilings: int, now_ms: float) -> StorageRefusal | None:
        """Why the tenant may produce nothing now; None: it may. `limit`, and what `ceilings` of cost allow that have
        stopped growth: as this broker knows them now, 0 = none.
        """
        by_ceiling = bool(ceilings) and (not limit or ceilings < limit)
        allowed = ceilings if by_ceiling else limit
        used_bytes = self._full.get(tenant)
        if used_bytes is None or now_ms >= self._until_ms or has_cleared(used_bytes, allowed):
            return None
        use = f"the tenant's topics keep {used_bytes} bytes of one copy, at most {allowed} allowed"
        if by_ceiling:
            return StorageRefusal(
                limit=COST_CEILING,
                text=limit_words(
                    COST_CEILING,
                    f"{use} while its month is expected to cost more than a budget that stops growth allows",
                    clears="when retention or deletion has freed space, or less cost is expected",
                    raised_by=PAYERS,
                ),
            )
        freed = "when retention or deletion has freed space"
        return StorageRefusal(
            limit=STORAGE_BYTES_MAX,
            text=limit_words(STORAGE_BYTES_MAX, use, clears=freed, raised_by=OPERATORS),
        )
