"""Allowances of keys without limits, or with the paces that a test gives them, for streams in tests."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from data_plane.authz.access import Principal
from data_plane.leases.terms import LimitKey
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import TenantQuotas
from data_plane.node.admission.fairness import Fairness
from data_plane.node.environment import Environment
from data_plane.node.leasing.key_budgets import KeyBudgets
from data_plane.node.leasing.pacing import REQUEST_RATE
from data_plane.node.ports import Clock, Rng, WorkClock
from data_plane.node.serving.allowance import Allowance, Allowances, Throttled
from data_plane.node.stats import NodeStats
from data_plane.storage_limits.standing import StorageRefusal
from data_plane.throttling.pacing import Pace
from penstock.contract.ids import PrincipalNumber, TenantId
from tests.unit.authz.setup import ACME
from tests.unit.node.storage import CONFIG

from .delays import Delays

KEY_ID = "k"


def principal(tenant: TenantId, key_id: str) -> Principal:
    return Principal(tenant=tenant, number=PrincipalNumber(1), key_id=key_id, key_revision=0, expires_at_ms=0)


PRINCIPAL = principal(ACME, KEY_ID)
_UNUSED = cast(Any, None)


class GivenPaces:
    """The same paces for what is produced and what is read; requests have none."""

    def __init__(
        self,
        pace: Pace | None = None,
        own_pace: Pace | None = None,
        topic_paces: Callable[[str], Sequence[Pace]] = lambda topic: (),
    ) -> None:
        self.tenants = pace
        self.own = own_pace
        self._topics = topic_paces

    def pace(self, limit: LimitKey) -> Pace | None:
        return None if limit.name == REQUEST_RATE else self.tenants

    def own_pace(self, tenant: TenantId, key_id: str, name: str) -> Pace | None:
        return None if name == REQUEST_RATE else self.own

    def topic_paces(self, tenant: TenantId, key_id: str, name: str, topic: str) -> Sequence[Pace]:
        return self._topics(topic)


def without_budgets(tenant: TenantId, key_id: str) -> KeyBudgets:
    return KeyBudgets(ClusterImage(), _UNUSED, _UNUSED, _UNUSED, tenant, key_id)


def allowances(
    clock: WorkClock,
    stats: NodeStats,
    paces: GivenPaces | None = None,
    *,
    fairness: Fairness | None = None,
    throttled: Throttled | None = None,
    storage_refusal: Callable[[], StorageRefusal | None] = lambda: None,
) -> Allowances:
    return Allowances(
        paces=paces or GivenPaces(),
        budgets=without_budgets,
        storage_refusal=lambda tenant: storage_refusal(),
        fairness=fairness or Fairness(clock, stats, lambda tenant: TenantQuotas()),
        throttled=throttled or Delays(),
        clock=clock,
        stats=stats,
    )


def allowance(clock: WorkClock, stats: NodeStats, paces: GivenPaces | None = None) -> Allowance:
    """Of batches that are read."""
    return allowances(clock, stats, paces).to_consume(PRINCIPAL)


def environment(clock: Clock, rng: Rng, stats: NodeStats, disk: Any = None) -> Environment:
    """What a stream needs of it; there is no transport."""
    return Environment(
        config=CONFIG, clock=cast(WorkClock, clock), rng=rng, transport=_UNUSED, disk=disk, stats=stats
    )
