"""What was refused because of a limit, counted by tenant and limit."""

PAIRS_MAX = 2_000
"""Pairs of a tenant and a limit that are counted apart; what comes beyond them is counted without its tenant."""


class LimitRefusals:
    """Of one node, since its start."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}

    def note(self, tenant: str, limit: str) -> None:
        """A call, batch or request of the tenant was refused; of none where the tenant is not known."""
        pair = (tenant, limit)
        if pair not in self.counts and len(self.counts) >= PAIRS_MAX:
            pair = ("", limit)
        self.counts[pair] = self.counts.get(pair, 0) + 1

    def of(self, tenant: str, limit: str) -> int:
        """How often so far."""
        return self.counts.get((tenant, limit), 0)
