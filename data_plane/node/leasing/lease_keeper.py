"""Keeps this broker's leases: asks the controller while some tenant's limit is used, and is silent while none is."""

import asyncio

from data_plane.contract.methods import LEASES
from data_plane.leases.holder import LeaseHolder
from data_plane.leases.terms import LimitKey, Request
from data_plane.node.environment import Environment
from data_plane.node.leasing.lease_office import LeaseOffice
from data_plane.node.leasing.messages import read_answer, request_frame
from data_plane.node.leasing.pacing import Pacing
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration
from data_plane.node.ports import CallFailed, Connection, ConnectionLost, peer_of
from penstock.contract.frames import FrameError
from penstock.contract.ids import NO_BROKER, BrokerId

_SPACING_MS = 20.0
"""Between requests, also where many tenants begin to send one after the other. Parts of a round go as often as one
request is renewed: a round of many limits takes longer, and the controller no more of its time."""


class LeaseKeeper:
    """`run` runs as long as the broker does; without load it waits for an event and has no connection open."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        registration: Registration,
        holder: LeaseHolder,
        pacing: Pacing,
        office: LeaseOffice,
    ) -> None:
        self._me, self._stats = environment.config.broker_id, environment.stats
        self._connect_ms = environment.config.timings.call_ms
        self._transport, self._clock = environment.transport, environment.clock
        self._view, self._registration = view, registration
        self._holder, self._pacing, self._office = holder, pacing, office
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._connected_to: BrokerId = NO_BROKER

    def observe(self) -> None:
        """The controller or this broker's registration may be another one."""
        image = self._view.image
        known = self._pacing.limits_are_leased and image.controller is not None
        epoch = image.controller_epoch if known else 0
        if self._holder.follow(epoch, self._registration.epoch):
            self._pacing.take_shares(self._clock.monotonic_ms())
            self._wake.set()

    def used(self) -> None:
        """Some pace was used. Cheap: called with every frame."""
        if self._pacing.begun:
            self._pacing.begun = False
            self._wake.set()

    async def run(self) -> None:
        next_ms = float("-inf")
        try:
            while True:
                await self._pause()
                soon_ms = next_ms - self._clock.monotonic_ms()
                if soon_ms > 0:
                    await asyncio.sleep(soon_ms / 1000)
                now_ms = self._clock.monotonic_ms()
                wants = self._pacing.wants(now_ms)
                if wants or self._holder.owes:
                    await self._connect()
                    now_ms = self._clock.monotonic_ms()
                request = self._holder.request(wants, now_ms)
                if request is not None:
                    self._pacing.take_shares(now_ms)
                    await self._ask(request)
                    next_ms = now_ms + (self._holder.terms.renew_ms if request.partial else _SPACING_MS)
                elif not self._holder.keys:
                    self._disconnect()
                self._pacing.take_shares(self._clock.monotonic_ms())
        finally:
            self._disconnect()

    async def _pause(self) -> None:
        """Until it is time to renew, or something begins. Without anything to look at only the latter."""
        busy = self._pacing.is_active or self._holder.owes
        try:
            async with asyncio.timeout(self._holder.terms.renew_ms / 1000 if busy else None):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _ask(self, request: Request) -> None:
        grants = await self._granted(request)
        self._stats.lease_requests += 1
        if grants is None or not self._holder.answered(request, grants, self._clock.monotonic_ms()):
            self._stats.lease_failures += 1
            self._holder.unanswered(request)

    async def _granted(self, request: Request) -> dict[LimitKey, int] | None:
        if self._view.image.controller_id == self._me:
            return self._office.asked(request)
        connection = self._connection
        if connection is None:
            return None
        try:
            async with asyncio.timeout(self._holder.terms.answer_ms / 1000):
                await connection.send(request_frame(request))
                return read_answer(await connection.receive(), request)
        except (TimeoutError, ConnectionLost, CallFailed, FrameError):
            # What still comes on this stream would be taken for the next answer.
            self._disconnect()
            return None

    async def _connect(self) -> None:
        """Have a stream to the controller, if it is another broker and answers. Not within the time of an answer:
        a handshake may take long on a loaded machine.
        """
        controller = self._view.image.controller_id
        if self._connected_to != controller:
            self._disconnect()
        known = self._view.image.brokers.get(controller)
        if self._connection is not None or controller == self._me or known is None:
            return
        try:
            self._connection = await self._transport.connect(peer_of(known.record), LEASES, self._connect_ms)
            self._connected_to = controller
        except (ConnectionLost, CallFailed):
            pass  # the request is then unanswered, and made again

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._connected_to = None, NO_BROKER
