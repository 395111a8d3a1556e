"""Tells the controller what this broker uses of budgets and takes its grants; silent while no budget is used."""

import asyncio

from data_plane.leases.budget_holder import BudgetHolder
from data_plane.node.environment import Environment
from data_plane.node.leasing.budget_messages import BUDGET_REQUESTS
from data_plane.node.leasing.budget_office import BudgetOffice
from data_plane.node.membership.controller_questions import ControllerStream
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration

LOOK_MS = 250
_SPACING_MS = 50.0
"""Between requests, also where each batch waits for the answer of the one before."""
ANSWER_MS = 2_000
"""An answer that takes longer is not taken. A loaded machine is slow."""


class BudgetKeeper:
    """`run` runs as long as the broker does; while no budget is used it has no connection open."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        registration: Registration,
        holder: BudgetHolder,
        office: BudgetOffice,
    ) -> None:
        self._stats = environment.stats
        self._clock = environment.clock
        self._view = view
        self._registration = registration
        self._holder = holder
        self._wake = asyncio.Event()
        self._stream = ControllerStream(environment, view, BUDGET_REQUESTS, office.asked)

    def used(self) -> None:
        """Some budget was used. Cheap: called with every batch that counts against one."""
        if self._holder.hurried:
            self._wake.set()

    async def run(self) -> None:
        try:
            while True:
                await self._pause()
                self._holder.register(self._registration.epoch)
                image = self._view.image
                epoch = 0 if image.controller is None else image.controller_epoch
                request = self._holder.request(epoch, self._clock.monotonic_ms())
                if request is not None:
                    await self._stream.connect()
                    answer = await self._stream.ask(request, ANSWER_MS)
                    self._stats.budget_requests += 1
                    if answer is None:
                        self._stats.budget_requests_unanswered += 1
                    else:
                        self._holder.answered(request, answer, self._clock.now_ms())
                    await asyncio.sleep(_SPACING_MS / 1000)
        finally:
            self._stream.close()

    async def _pause(self) -> None:
        """Until it is time to look, or something waits for an answer. Without anything in use only the latter, and
        without a stream."""
        active = self._holder.is_active
        if not active:
            self._stream.close()
        try:
            async with asyncio.timeout(LOOK_MS / 1000 if active else None):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
