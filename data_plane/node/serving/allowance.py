"""Everything that may delay or refuse the work of one key on one stream, made in one place and given as one value.

    a frame comes  --the rate of requests, the tenant's share and limit of the processor--> taken
    a batch comes  --the paces of its topic, its principal and its tenant--> its turn
                   --storage is full, or a budget is spent--> refused (`append_limits`)
    a read is due  --the same paces, of what is consumed--> its turn
                   --a budget is spent--> closed

The streams decide when they ask, and what the client hears.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from data_plane.authz.access import Principal
from data_plane.leases.terms import LimitKey
from data_plane.metadata.model import TopicRecord
from data_plane.node.admission.fairness import Fairness, TenantTurns
from data_plane.node.leasing.key_budgets import KeyBudgets
from data_plane.node.leasing.pacing import CONSUME_RATE, PRODUCE_RATE
from data_plane.node.ports import Clock
from data_plane.node.serving.request_turns import KeyRequests, RequestTurns
from data_plane.node.stats import NodeStats
from data_plane.storage_limits.standing import StorageRefusal
from data_plane.throttling.pacing import Pace
from penstock.contract.ids import TenantId


class Paces(Protocol):
    """The paces of all limits on one broker, as they are at the moment of asking."""

    def pace(self, limit: LimitKey) -> Pace | None:
        """The limit's pace; None: the tenant has no such rate."""

    def own_pace(self, tenant: TenantId, key_id: str, name: str) -> Pace | None:
        """The pace that the principal of the key has beside its tenant's; None: it has only the tenant's."""

    def topic_paces(self, tenant: TenantId, key_id: str, name: str, topic: str) -> Sequence[Pace]:
        """The paces by which budgets slow the topic for the principal of the key."""


class Throttled(Protocol):
    """Counts by how many ms a limit delayed work of a tenant's principal, and for which topic."""

    def __call__(
        self, tenant: TenantId, principal: int, milliseconds: int, topic: TopicRecord | None = None
    ) -> None: ...


class Allowance:
    """One key's on one stream. `name` is the limit that its batches count for."""

    def __init__(self, allowances: "Allowances", principal: Principal, name: str) -> None:
        self._paces = allowances.paces
        self._throttled = allowances.throttled
        self._storage_refusal = allowances.storage_refusal
        self._principal = principal
        self._limit = LimitKey(principal.tenant, name)
        self.requests: KeyRequests = allowances.requests.of(
            principal.tenant, principal.key_id, principal.number
        )
        self.turns: TenantTurns = allowances.fairness.of(principal.tenant)
        self.budgets: KeyBudgets = allowances.budgets(principal.tenant, principal.key_id)

    def pace(self) -> Pace | None:
        """The tenant's; None: it has no such rate."""
        return self._paces.pace(self._limit)

    def own_pace(self) -> Pace | None:
        """The principal's alone; None: it has only the tenant's."""
        return self._paces.own_pace(self._limit.tenant, self._principal.key_id, self._limit.name)

    def topic_paces(self, topic: str) -> Sequence[Pace]:
        """Those by which budgets slow the topic; to be asked only while `budgets.slows_topics`."""
        return self._paces.topic_paces(self._limit.tenant, self._principal.key_id, self._limit.name, topic)

    def storage_refusal(self) -> StorageRefusal | None:
        """Why the tenant may store no more; None: it may."""
        return self._storage_refusal(self._limit.tenant)

    def delayed(self, milliseconds: int, topic: TopicRecord | None = None) -> None:
        """A limit delayed a batch, a push or a frame by so much."""
        if milliseconds:
            self._throttled(self._limit.tenant, self._principal.number, milliseconds, topic)


class Allowances:
    """All keys' on one broker."""

    def __init__(
        self,
        *,
        paces: Paces,
        budgets: Callable[[TenantId, str], KeyBudgets],
        storage_refusal: Callable[[TenantId], StorageRefusal | None],
        fairness: Fairness,
        throttled: Throttled,
        clock: Clock,
        stats: NodeStats,
    ) -> None:
        """`budgets`: as they concern a key of the tenant. `storage_refusal`: why a tenant may store no more."""
        self.paces = paces
        self.budgets = budgets
        self.storage_refusal = storage_refusal
        self.fairness = fairness
        self.throttled = throttled
        self.requests = RequestTurns(paces.pace, paces.own_pace, clock, stats, throttled)

    def to_produce(self, principal: Principal) -> Allowance:
        return Allowance(self, principal, PRODUCE_RATE)

    def to_consume(self, principal: Principal) -> Allowance:
        return Allowance(self, principal, CONSUME_RATE)
