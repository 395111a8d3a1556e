"""Keeps this broker's leases: asks the controller while some tenant's limit is used, and is silent while none is."""

import asyncio

from data_plane.leases.holder import LeaseHolder
from data_plane.leases.terms import Request
from data_plane.node.environment import Environment
from data_plane.node.leasing.lease_office import LeaseOffice
from data_plane.node.leasing.messages import LEASE_REQUESTS
from data_plane.node.leasing.pacing import Pacing
from data_plane.node.membership.controller_questions import ControllerStream
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.membership.registration import Registration

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
        self._stats = environment.stats
        self._clock = environment.clock
        self._view = view
        self._registration = registration
        self._holder = holder
        self._pacing = pacing
        self._wake = asyncio.Event()
        self._stream = ControllerStream(environment, view, LEASE_REQUESTS, office.asked)

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
                    await self._stream.connect()
                    now_ms = self._clock.monotonic_ms()
                request = self._holder.request(wants, now_ms)
                if request is not None:
                    self._pacing.take_shares(now_ms)
                    await self._ask(request)
                    next_ms = now_ms + (self._holder.terms.renew_ms if request.partial else _SPACING_MS)
                self._pacing.take_shares(self._clock.monotonic_ms())
        finally:
            self._stream.close()

    async def _pause(self) -> None:
        """Until it is time to renew, or something begins. Without anything to look at only the latter, and without a
        stream."""
        busy = self._pacing.is_active or self._holder.owes
        if not busy:
            self._stream.close()
        try:
            async with asyncio.timeout(self._holder.terms.renew_ms / 1000 if busy else None):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _ask(self, request: Request) -> None:
        grants = await self._stream.ask(request, self._holder.terms.answer_ms)
        self._stats.lease_requests += 1
        if grants is None or not self._holder.answered(request, grants, self._clock.monotonic_ms()):
            self._stats.lease_failures += 1
            self._holder.unanswered(request)
