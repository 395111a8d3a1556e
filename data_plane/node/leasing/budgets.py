"""Composes budgets: what this broker uses of them, and the office of who is the controller."""

from collections.abc import Callable, Coroutine
from typing import Any

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.leases.budget_holder import BudgetHolder
from data_plane.leases.terms import LimitKey
from data_plane.metadata.budget_use import BudgetKey
from data_plane.metadata.port import MetaStore
from data_plane.node.environment import Environment
from data_plane.node.leasing.budget_keeper import BudgetKeeper
from data_plane.node.leasing.budget_office import BudgetOffice
from data_plane.node.leasing.key_budgets import KeyBudgets
from data_plane.node.leasing.pacing import slows
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import Caller, CallFailed, CallHandler, StreamHandler
from data_plane.node.requests import parsed
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId
from penstock.rules.budgets import REFUSE

TENANTS_MAX = 500
"""In one call about what was used."""


class Budgets:
    """`tasks` run as long as the broker does; `peer_streams` are offered on that listener."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        store: MetaStore,
        registration: Registration,
        seated: Callable[[], bool],
    ) -> None:
        self._view = view
        self._clock = environment.clock
        self._stopping: dict[TenantId, frozenset[str]] = {}
        """Budgets that refuse reads, by tenant: consumers are looked at again when one more does."""
        image = view.image
        self.holder = BudgetHolder(
            environment.config.broker_id,
            budget=image.budget,
            stored=image.budget_use_of,
            brokers=lambda: sum(1 for broker in image.brokers.values() if broker.epoch),
        )
        self.office = BudgetOffice(
            view,
            store,
            environment.clock,
            environment.config.timings.call_ms,
            seated=seated,
            confident=registration.confident,
        )
        self._keeper = BudgetKeeper(
            environment, view=view, registration=registration, holder=self.holder, office=self.office
        )

    def of(self, tenant: TenantId, key_id: str) -> KeyBudgets:
        """For the streams of one key."""
        return KeyBudgets(self._view.image, self.holder, self._keeper.used, self._clock, tenant, key_id)

    def slowed(self, limit: LimitKey) -> int:
        """The rate that budgets leave the limit now, by those of its very principal and topic, in bytes a second; 0 =
        they leave it as it is.
        """
        rates = [
            budget.slow_bytes_per_s
            for budget in self._view.image.budgets_of(limit.tenant)
            if slows(budget, limit.name)
            and (budget.principal, budget.topic) == (limit.principal, limit.topic)
            and self._is_spent(limit.tenant, budget.budget_id)
        ]
        return min(rates, default=0)

    def stops_more_readers(self, tenant: TenantId) -> bool:
        """Whether a budget of the tenant refuses reads that did not when this was asked last."""
        now = frozenset(
            budget.budget_id
            for budget in self._view.image.budgets_of(tenant)
            if budget.policy == REFUSE and self._is_spent(tenant, budget.budget_id)
        )
        before = self._stopping.pop(tenant, frozenset())
        if now:
            self._stopping[tenant] = now
        return bool(now - before)

    def _is_spent(self, tenant: TenantId, budget_id: str) -> bool:
        key = BudgetKey(tenant, budget_id)
        budget = self._view.image.budget(key)
        return budget is not None and self.holder.is_spent(
            key, budget, self._clock.monotonic_ms(), self._clock.now_ms()
        )

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (self._keeper.run(),)

    def peer_streams(self) -> dict[str, StreamHandler]:
        return {methods.BUDGETS: self.office.serve}

    def internal_calls(self) -> dict[str, CallHandler]:
        return {methods.DESCRIBE_BUDGETS: self.describe}

    async def describe(self, caller: Caller, request: bytes) -> bytes:
        """What was counted, as this broker's metadata have it. Raises `CallFailed`."""
        wanted = parsed(pb.DescribeBudgetsRequest, request)
        if len(wanted.tenants) > TENANTS_MAX:
            raise CallFailed(
                ErrorCode.INVALID_REQUEST,
                f"{len(wanted.tenants)} tenants in one call, at most {TENANTS_MAX} allowed",
            )
        answer = pb.DescribeBudgetsResponse()
        for name in wanted.tenants:
            tenant = TenantId(name)
            for budget in self._view.image.budgets_of(tenant):
                use = self._view.image.budget_use_of(BudgetKey(tenant, budget.budget_id))
                if use is not None:
                    answer.budgets.add(
                        tenant=tenant,
                        budget_id=budget.budget_id,
                        began_ms=use.began_ms,
                        ends_ms=use.ends_ms,
                        used=use.used,
                        unused=use.unused,
                        spent=use.short_of == budget.amount,
                    )
        return answer.SerializeToString()
