"""Composes the sharing of limits: paces of tenants, this broker's leases, and the office of who is the controller."""

from collections.abc import Callable, Coroutine
from typing import Any

from data_plane.contract import methods
from data_plane.leases.holder import LeaseHolder
from data_plane.leases.terms import LimitKey, Terms
from data_plane.node.environment import Environment
from data_plane.node.leasing.lease_keeper import LeaseKeeper
from data_plane.node.leasing.lease_office import LeaseOffice
from data_plane.node.leasing.pacing import Pacing
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import StreamHandler
from data_plane.throttling.pacing import Pace
from penstock.contract.ids import TenantId


def terms_of(session_ttl_ms: int) -> Terms:
    """A controller grants while its session was confirmed within two thirds of its time; its successor counts on it."""
    notice_ms = session_ttl_ms * 2 // 3
    lease_ms = notice_ms + 3_000
    return Terms(notice_ms=notice_ms, lease_ms=lease_ms, learn_ms=notice_ms + lease_ms + 1_000)


class Leasing:
    """`tasks` run as long as the broker does; `peer_streams` are offered on that listener."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        registration: Registration,
        seated: Callable[[], bool],
        slowed: Callable[[LimitKey], int],
    ) -> None:
        config, self._clock = environment.config, environment.clock
        terms = terms_of(config.timings.session_ttl_ms)
        holder = LeaseHolder(config.broker_id, terms)
        self.pacing = Pacing(view.image, config.broker_id, holder, slowed)
        self.office = LeaseOffice(
            view, self._clock, terms, self.pacing, seated=seated, confident=registration.confident
        )
        self.keeper = LeaseKeeper(
            environment,
            view=view,
            registration=registration,
            holder=holder,
            pacing=self.pacing,
            office=self.office,
        )

    def pace(self, limit: LimitKey) -> Pace | None:
        """The limit's pace at this broker now; None = the tenant has no such rate."""
        pace = self.pacing.of(limit, self._clock.monotonic_ms())
        self.keeper.used()
        return pace

    def own_pace(self, tenant: TenantId, key_id: str, name: str) -> Pace | None:
        """That of the limit which the principal of the key has beside its tenant's; None = it has only the tenant's."""
        limit = self.pacing.own_limit(tenant, key_id, name)
        return None if limit is None else self.pace(limit)

    def topic_paces(self, tenant: TenantId, key_id: str, name: str, topic: str) -> list[Pace]:
        """Those of the limits by which budgets slow the topic now for the principal whose key it is."""
        limits = self.pacing.topic_limits(tenant, key_id, name, topic)
        return [pace for limit in limits if (pace := self.pace(limit)) is not None]

    def observe(self) -> None:
        """The metadata or this broker's registration changed."""
        self.keeper.observe()

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (self.keeper.run(),)

    def peer_streams(self) -> dict[str, StreamHandler]:
        return {methods.LEASES: self.office.serve}
