"""What was refused because of a limit, counted by tenant and limit."""

OF_PRINCIPAL = "principal:"
"""Before the name of a limit that one principal of the tenant has to itself."""
OF_TOPIC = "topic:"
"""Before the name of a limit of one topic, of the tenant's or of one principal's."""
PAIRS_MAX = 2_000
"""Pairs of a tenant and a limit that are counted apart; what comes beyond them is counted without its tenant."""


def of_whom(limit: str, principal: str, topic: str = "") -> str:
    """As a limit is counted: that of a principal (empty: of all the tenant's) apart, and not by principal; that of a
    topic likewise."""
    if topic:
        return f"{OF_TOPIC}{limit}"
    return f"{OF_PRINCIPAL}{limit}" if principal else limit


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
