"""When a broker asks for its leases: at the first use, now and then while a limit is used, and else never."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from data_plane.leases.holder import LeaseHolder
from data_plane.leases.terms import LimitKey, Request, Terms
from data_plane.metadata import model
from data_plane.metadata.broker_records import CONTROLLER_KEY, ControllerRecord
from data_plane.metadata.features import FEATURES_KEY, LEASES, FeaturesRecord
from data_plane.metadata.port import Delete
from data_plane.node.environment import Environment
from data_plane.node.leasing.lease_keeper import LeaseKeeper
from data_plane.node.leasing.messages import answer_frame, read_request
from data_plane.node.leasing.pacing import IDLE_MS, PRODUCE_RATE, Pacing
from data_plane.node.ports import Peer
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from penstock.contract.ids import BrokerId
from tests.unit.controller.setup import ACME, Store, record
from tests.unit.node.storage import CONFIG, ME

pytestmark = pytest.mark.pure  # stand-ins for what mypyc gives a type

NOBODY: Any = None
KEY = LimitKey(ACME, PRODUCE_RATE)
RATE = 1_000_000
TERMS = Terms()


class Wire:
    """The streams to another controller, which grants all that is asked for."""

    peer = "controller"

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self._request: Request | None = None

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> "Wire":
        self.opened += 1
        return self

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        raise AssertionError("leases are asked for on a stream")

    async def send(self, frame: bytes) -> None:
        self._request = read_request(frame)

    async def receive(self) -> bytes:
        assert self._request is not None
        return answer_frame(self._request, dict.fromkeys(self._request.wishes, RATE))

    def close(self) -> None:
        self.closed += 1

    @property
    def is_gone(self) -> bool:
        return False

    def when_gone(self, wake: object) -> None:
        """It stays."""


class Keeping:
    """The broker is the controller itself; what its office answers is the test's to say."""

    def __init__(self) -> None:
        self.loop = SimLoop(1)
        self.wire = Wire()
        self.clock = SimClock(self.loop)
        self.stats = NodeStats()
        self.store = Store()
        self.store.topic(record(), record(partition=1, leader=2))
        self.store.put(FEATURES_KEY, FeaturesRecord(level=LEASES).encode())
        quotas = model.TenantQuotas(produce_bytes_per_s=RATE)
        self.store.put(model.tenant_key(ACME), model.TenantRecord(tenant=ACME, quotas=quotas).encode())
        self.seat()
        self.grants: int | None = RATE
        self.answer_after_s = 0.0
        self.requests: list[Request] = []
        self.asked_ms: list[float] = []
        self.registration = SimpleNamespace(epoch=4)
        self.holder = LeaseHolder(ME, TERMS)
        self.pacing = Pacing(self.store.image, ME, self.holder, lambda key: 0)
        view: Any = SimpleNamespace(image=self.store.image)
        office: Any = SimpleNamespace(asked=self._asked)
        environment = Environment(
            config=CONFIG, clock=self.clock, rng=NOBODY, transport=self.wire, disk=NOBODY, stats=self.stats
        )
        self.keeper = LeaseKeeper(
            environment,
            view=view,
            registration=cast(Any, self.registration),
            holder=self.holder,
            pacing=self.pacing,
            office=office,
        )

    def seat(self, broker: BrokerId = ME) -> None:
        self.store.put(CONTROLLER_KEY, ControllerRecord(broker_id=broker, incarnation="i").encode())

    async def _asked(self, request: Request) -> dict[LimitKey, int] | None:
        self.requests.append(request)
        self.asked_ms.append(self.clock.monotonic_ms())
        grants = self.grants
        if self.answer_after_s:
            await asyncio.sleep(self.answer_after_s)
        return None if grants is None else dict.fromkeys(request.wishes, grants)

    def use(self, size: int = 1_000) -> None:
        pace = self.pacing.of(KEY, self.clock.monotonic_ms())
        assert pace is not None
        pace.enter(size, self.clock.monotonic_ms(), may_refuse=False)
        self.pacing.of(KEY, self.clock.monotonic_ms())
        self.keeper.used()

    async def use_for(self, seconds: float) -> None:
        for _ in range(round(seconds * 20)):
            self.use()
            await asyncio.sleep(0.05)

    @property
    def share(self) -> int:
        pace = self.pacing.of(KEY, self.clock.monotonic_ms())
        assert pace is not None
        return pace.bytes_per_s

    def run(self, story: Callable[["Keeping"], Awaitable[None]]) -> None:
        async def whole() -> None:
            running = asyncio.create_task(self.keeper.run())
            await asyncio.sleep(0)
            self.keeper.observe()
            await asyncio.sleep(1.0)
            await story(self)
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled(), "it runs without an end"

        try:
            self.loop.run_until_complete(whole())
        finally:
            self.loop.close()


def test_a_broker_that_uses_nothing_says_so_once_to_each_controller_and_no_more() -> None:
    async def story(keeping: Keeping) -> None:
        assert [request.wishes for request in keeping.requests] == [{}]
        await asyncio.sleep(60)
        keeping.keeper.observe()
        keeping.keeper.used()
        await asyncio.sleep(60)
        assert len(keeping.requests) == 1
        keeping.seat()
        keeping.keeper.observe()
        await asyncio.sleep(1)
        assert [request.epoch for request in keeping.requests[1:]] == [keeping.store.image.controller_epoch]
        assert keeping.stats.lease_requests == 2 and keeping.stats.lease_failures == 0

    Keeping().run(story)


def test_a_limit_that_is_used_is_leased_at_once_and_renewed_while_it_is_used() -> None:
    async def story(keeping: Keeping) -> None:
        began_ms, before = keeping.clock.monotonic_ms(), len(keeping.requests)
        assert keeping.share < RATE
        keeping.use()
        await asyncio.sleep(0.01)
        assert len(keeping.requests) == before + 1 and keeping.asked_ms[-1] - began_ms < 10
        assert keeping.share == RATE
        await keeping.use_for(5)
        renewed = len(keeping.requests) - before - 1
        assert abs(renewed - 5_000 / TERMS.renew_ms) <= 1
        assert set(keeping.requests[-1].wishes) == {KEY}

    Keeping().run(story)


def test_a_lease_is_given_up_once_the_limit_is_not_used() -> None:
    async def story(keeping: Keeping) -> None:
        await keeping.use_for(1)
        await asyncio.sleep(20 * IDLE_MS / 1_000)
        assert keeping.requests[-1].wishes == {}
        assert keeping.holder.keys == [] and not keeping.holder.owes
        before = len(keeping.requests)
        await asyncio.sleep(60)
        assert len(keeping.requests) == before

    Keeping().run(story)


def test_a_refusal_and_an_answer_that_comes_too_late_are_failures_and_grant_nothing() -> None:
    async def story(keeping: Keeping) -> None:
        keeping.grants = None
        await keeping.use_for(1)
        assert keeping.stats.lease_failures == len(keeping.requests) - 1 > 0
        assert keeping.share < RATE
        keeping.grants = RATE
        await keeping.use_for(1)
        assert keeping.share == RATE
        failures = keeping.stats.lease_failures
        keeping.answer_after_s = TERMS.answer_ms / 1_000 + 1
        await keeping.use_for(4)
        assert keeping.stats.lease_failures > failures

    Keeping().run(story)


def test_without_a_controller_nothing_is_asked_and_a_new_registration_reports_again() -> None:
    async def story(keeping: Keeping) -> None:
        assert keeping.store.txn((), (Delete(CONTROLLER_KEY),))
        keeping.keeper.observe()
        before = len(keeping.requests)
        await keeping.use_for(2)
        assert len(keeping.requests) == before
        keeping.seat()
        keeping.registration.epoch = 9
        keeping.keeper.observe()
        await asyncio.sleep(0.1)
        assert keeping.requests[before].registration == 9
        assert keeping.requests[before].wishes[KEY].holds == 0

    Keeping().run(story)


def test_requests_of_many_tenants_that_begin_one_after_the_other_keep_their_distance() -> None:
    async def story(keeping: Keeping) -> None:
        before = len(keeping.requests)
        for _ in range(100):
            keeping.pacing.begun = True
            keeping.use()
            await asyncio.sleep(0.001)
        gaps_ms = [
            after - first
            for first, after in zip(keeping.asked_ms[before:], keeping.asked_ms[before + 1 :], strict=False)
        ]
        assert gaps_ms and min(gaps_ms) >= 20

    Keeping().run(story)


def test_leases_of_another_controller_are_asked_for_on_one_stream_that_ends_with_the_broker() -> None:
    keeping = Keeping()

    async def story(keeping: Keeping) -> None:
        keeping.seat(BrokerId(2))
        keeping.keeper.observe()
        await keeping.use_for(3)
        assert keeping.share == RATE
        assert (keeping.wire.opened, keeping.wire.closed) == (1, 0)

    keeping.run(story)
    assert keeping.wire.opened == keeping.wire.closed == 1


def test_a_broker_at_rest_has_no_stream_to_the_controller_and_opens_one_for_the_next_use() -> None:
    async def story(keeping: Keeping) -> None:
        keeping.seat(BrokerId(2))
        keeping.keeper.observe()
        await keeping.use_for(3)
        assert (keeping.wire.opened, keeping.wire.closed) == (1, 0)
        await asyncio.sleep(60)
        assert (keeping.wire.opened, keeping.wire.closed) == (1, 1)
        await keeping.use_for(3)
        assert (keeping.wire.opened, keeping.wire.closed) == (2, 1)

    Keeping().run(story)


def test_shares_follow_at_once_when_the_lease_ends_with_its_registration() -> None:
    async def story(keeping: Keeping) -> None:
        await keeping.use_for(1)
        assert keeping.share == RATE
        pace = keeping.pacing.of(KEY, keeping.clock.monotonic_ms())
        assert pace is not None
        keeping.registration.epoch = 0
        keeping.keeper.observe()
        assert pace.bytes_per_s < RATE

    Keeping().run(story)


def test_below_the_feature_level_of_leases_nothing_is_asked() -> None:
    keeping = Keeping()
    keeping.store.put(FEATURES_KEY, FeaturesRecord(level=LEASES - 1).encode())

    async def story(keeping: Keeping) -> None:
        await keeping.use_for(1)
        assert keeping.requests == [] and not keeping.holder.owes

    keeping.run(story)
