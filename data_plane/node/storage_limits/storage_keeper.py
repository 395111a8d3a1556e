"""Reports what this broker's partitions keep to the controller, as far as it has changed, and takes its answer."""

import asyncio

from data_plane.metadata.features import LEASES
from data_plane.node.environment import Environment
from data_plane.node.membership.controller_questions import ControllerStream
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.storage_limits.messages import KEPT_MAX, STORAGE_REPORTS
from data_plane.node.storage_limits.storage_office import StorageOffice
from data_plane.storage_limits.reports import Kept, Report
from data_plane.storage_limits.standing import StorageStanding
from penstock.contract.ids import TenantId

REPORT_MS = 1_000
"""Between reports. A partition that took nothing and lost nothing is in none."""
ANSWER_MS = 2_000
"""An answer that takes longer is not taken. A loaded machine is slow."""


class StorageKeeper:
    """`run` runs as long as the broker does; while no tenant has the limit it has no connection open."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        registration: Registration,
        replicas: ReplicaSet,
        standing: StorageStanding,
        office: StorageOffice,
    ) -> None:
        self._me = environment.config.broker_id
        self._stats = environment.stats
        self._clock = environment.clock
        self._begin_turn = environment.begin_turn
        self._view = view
        self._registration = registration
        self._replicas = replicas
        self._standing = standing
        self._changes = replicas.changes()
        self._due: dict[Replica, None] = {}
        """Those whose size the controller may not know."""
        self._epochs: tuple[int, int] = (0, 0)
        """Epochs of the controller and of this broker's registration under which all was reported or is due."""
        self._limited: frozenset[TenantId] = frozenset()
        self._sequence = 0
        self._stream = ControllerStream(environment, view, STORAGE_REPORTS, office.asked)

    async def run(self) -> None:
        try:
            while True:
                await asyncio.sleep(REPORT_MS / 1000)
                await self._look()
        finally:
            self._stream.close()

    async def _look(self) -> None:
        image = self._view.image
        limited = frozenset(
            tenant for tenant, record in image.tenants.items() if record.quotas.storage_allowed
        )
        epochs = (image.controller_epoch, self._registration.epoch)
        if image.level < LEASES or not limited or image.controller is None or not epochs[1]:
            self._stream.close()
            self._epochs = (0, 0)
            self._due.clear()
            self._changes.take()
            return
        if epochs != self._epochs:
            self._epochs, self._due = epochs, dict.fromkeys(self._replicas.all())
        elif limited - self._limited:
            new = limited - self._limited
            async for replica in self._begin_turn().through(self._replicas.all()):
                if replica.topic.tenant in new:
                    self._due[replica] = None
        self._limited = limited
        self._due.update(self._changes.take())
        await self._report()

    async def _report(self) -> None:
        """All that is due, in as many reports as it takes; what is not answered stays due."""
        kept: list[Kept] = []
        async for replica in self._begin_turn().through(list(self._due)):
            leading = replica.leading
            if (
                leading is None
                or not replica.topic.metered
                or replica.topic.tenant not in self._limited
                or not self._replicas.has(replica)
            ):
                self._due.pop(replica, None)
            else:
                kept.append(Kept(replica.where, leading.leader_epoch, replica.log.size_bytes))
        for first in range(0, max(1, len(kept)), KEPT_MAX):
            some = kept[first : first + KEPT_MAX]
            if not await self._tell(some, whole=first + KEPT_MAX >= len(kept)):
                return
            for one in some:
                reported = self._replicas.find(one.where)
                if reported is not None:
                    self._due.pop(reported, None)

    async def _tell(self, kept: list[Kept], *, whole: bool) -> bool:
        now_ms = self._clock.monotonic_ms()
        self._sequence += 1
        report = Report(
            broker=self._me,
            registration=self._epochs[1],
            epoch=self._epochs[0],
            sequence=self._sequence,
            kept=kept,
            whole=whole,
            full=self._standing.full(now_ms),
        )
        await self._stream.connect()
        full = await self._stream.ask(report, ANSWER_MS)
        self._stats.storage_reports += 1
        if full is None:
            self._stats.storage_reports_unanswered += 1
            return False
        if self._epochs == (self._view.image.controller_epoch, self._registration.epoch):
            self._standing.answered(full, now_ms)
        return True
