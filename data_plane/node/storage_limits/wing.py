"""Composes storage limits: this broker's reports, whom it refuses, and the books of who is the controller."""

from collections.abc import Callable, Coroutine
from typing import Any

from data_plane.contract import methods
from data_plane.node.environment import Environment
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import StreamHandler
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.storage_limits.storage_keeper import StorageKeeper
from data_plane.node.storage_limits.storage_office import StorageOffice
from data_plane.storage_limits.standing import StorageRefusal, StorageStanding
from penstock.contract.ids import TenantId

LEARN_MS = 12_000
"""After which a new controller need not wait for brokers that have not reported."""


class Storage:
    """`tasks` run as long as the broker does; `peer_streams` are offered on that listener."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        registration: Registration,
        replicas: ReplicaSet,
        seated: Callable[[], bool],
    ) -> None:
        self._view = view
        self._clock = environment.clock
        self._standing = StorageStanding()
        self.office = StorageOffice(
            view, self._clock, learn_ms=LEARN_MS, seated=seated, confident=registration.confident
        )
        self.keeper = StorageKeeper(
            environment,
            view=view,
            registration=registration,
            replicas=replicas,
            standing=self._standing,
            office=self.office,
        )

    def refusal(self, tenant: TenantId) -> StorageRefusal | None:
        """Why the tenant may produce nothing now; None: it may. Cheap: asked for each batch."""
        quotas = self._view.image.quotas_of(tenant)
        if not quotas.storage_allowed:
            return None
        return self._standing.refusal(
            tenant, quotas.storage_bytes_max, quotas.kept_bytes_max, self._clock.monotonic_ms()
        )

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (self.keeper.run(),)

    def peer_streams(self) -> dict[str, StreamHandler]:
        return {methods.STORAGE: self.office.serve}

    def gauges(self) -> dict[str, int]:
        """By name of the metric."""
        return {"tenants_near_storage_limit": self.office.near, "tenants_at_storage_limit": self.office.full}
