"""Tells the controller what this broker uses of budgets and takes its grants; silent while no budget is used."""

import asyncio

from data_plane.contract.methods import BUDGETS
from data_plane.leases.budget_holder import BudgetHolder
from data_plane.leases.budget_terms import BudgetAnswer, BudgetRequest
from data_plane.node.environment import Environment
from data_plane.node.leasing.budget_messages import read_answer, request_frame
from data_plane.node.leasing.budget_office import BudgetOffice
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import CallFailed, Connection, ConnectionLost, peer_of
from penstock.contract.frames import FrameError
from penstock.contract.ids import NO_BROKER, BrokerId

LOOK_MS = 250
_SPACING_MS = 50.0
"""Between requests, also where each batch waits for the answer of the one before."""
ANSWER_MS = 2_000
"""An answer that takes longer is not taken. A loaded machine is slow."""


class BudgetKeeper:
    """`run` runs as long as the broker does."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        registration: Registration,
        holder: BudgetHolder,
        office: BudgetOffice,
    ) -> None:
        self._me, self._stats = environment.config.broker_id, environment.stats
        self._connect_ms = environment.config.timings.call_ms
        self._transport, self._clock = environment.transport, environment.clock
        self._view, self._registration = view, registration
        self._holder, self._office = holder, office
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._connected_to: BrokerId = NO_BROKER

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
                    answer = await self._answer(request)
                    self._stats.budget_requests += 1
                    if answer is None:
                        self._stats.budget_requests_unanswered += 1
                    else:
                        self._holder.answered(request, answer, self._clock.now_ms())
                    await asyncio.sleep(_SPACING_MS / 1000)
                elif not self._holder.is_active:
                    self._disconnect()
        finally:
            self._disconnect()

    async def _pause(self) -> None:
        """Until it is time to look, or something waits for an answer. Without anything in use only the latter."""
        try:
            async with asyncio.timeout(LOOK_MS / 1000 if self._holder.is_active else None):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _answer(self, request: BudgetRequest) -> BudgetAnswer | None:
        if self._view.image.controller_id == self._me:
            self._disconnect()
            return await self._office.asked(request)
        await self._connect()
        connection = self._connection
        if connection is None:
            return None
        try:
            async with asyncio.timeout(ANSWER_MS / 1000):
                await connection.send(request_frame(request))
                return read_answer(await connection.receive(), request)
        except (TimeoutError, ConnectionLost, CallFailed, FrameError):
            # What still comes on this stream would be taken for the next answer.
            self._disconnect()
            return None

    async def _connect(self) -> None:
        """Have a stream to the controller, if it answers."""
        controller = self._view.image.controller_id
        if self._connected_to != controller:
            self._disconnect()
        known = self._view.image.brokers.get(controller)
        if self._connection is not None or known is None:
            return
        try:
            self._connection = await self._transport.connect(peer_of(known.record), BUDGETS, self._connect_ms)
            self._connected_to = controller
        except (ConnectionLost, CallFailed):
            pass  # the request is then unanswered, and made again

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._connected_to = None, NO_BROKER
