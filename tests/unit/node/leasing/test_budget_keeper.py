"""The broker's loop about budgets: whom it asks, and that it has no stream while none is used."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from data_plane.contract import methods
from data_plane.leases.budget_holder import FORGET_MS, BudgetHolder
from data_plane.leases.budget_terms import BudgetAnswer, BudgetRequest, Granted
from data_plane.metadata.broker_records import CONTROLLER_KEY, ControllerRecord
from data_plane.metadata.budget_use import BudgetKey
from data_plane.node.environment import Environment
from data_plane.node.leasing.budget_keeper import BudgetKeeper
from data_plane.node.leasing.budget_messages import answer_frame, read_request
from data_plane.node.ports import Peer
from data_plane.node.stats import NodeStats
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from penstock.contract.ids import BrokerId, TenantId
from penstock.rules.budgets import NOTIFY, Budget
from tests.unit.controller.setup import Store, record
from tests.unit.node.storage import CONFIG

pytestmark = pytest.mark.pure  # stand-ins for what mypyc gives a type

ME, CONTROLLER = BrokerId(1), BrokerId(2)
KEY = BudgetKey(TenantId("acme"), "b1")
UNUSED: Any = None
DAY_MS = 86_400_000


class Controller:
    """Another broker: it takes what is used and grants nothing."""

    peer = "controller"

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.requests: list[BudgetRequest] = []

    async def connect(self, peer: Peer, method: str, timeout_ms: int) -> "Controller":
        assert method == methods.BUDGETS
        self.opened += 1
        return self

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        raise AssertionError("budgets are asked for on a stream")

    async def send(self, frame: bytes) -> None:
        self.requests.append(read_request(frame))

    async def receive(self) -> bytes:
        request = self.requests[-1]
        granted = {key: Granted(began_ms=1, ends_ms=1 + DAY_MS, total=0, left=900) for key in request.wants}
        return answer_frame(request, BudgetAnswer(term=1, granted=granted))

    def close(self) -> None:
        self.closed += 1

    @property
    def is_gone(self) -> bool:
        return False

    def when_gone(self, wake: object) -> None:
        """It stays."""


def test_a_broker_that_uses_no_budget_has_no_stream_to_the_controller() -> None:
    loop = SimLoop(1)
    controller = Controller()
    store = Store()
    store.topic(record(), record(partition=1, leader=2))
    store.put(CONTROLLER_KEY, ControllerRecord(broker_id=CONTROLLER, incarnation="i").encode())
    budget = Budget(
        budget_id="b1", name="b", period="day", amount=1_000, unit="messages", policy=NOTIFY, message_in=1
    )
    holder = BudgetHolder(ME, budget=lambda key: budget, stored=lambda key: None, brokers=lambda: 2)
    clock = SimClock(loop)
    environment = Environment(
        config=CONFIG, clock=clock, rng=UNUSED, transport=controller, disk=UNUSED, stats=NodeStats()
    )
    view: Any = SimpleNamespace(image=store.image)
    registration: Any = SimpleNamespace(epoch=4)
    office: Any = SimpleNamespace(asked=UNUSED)
    keeper = BudgetKeeper(environment, view=view, registration=registration, holder=holder, office=office)

    async def use() -> None:
        holder.use(KEY, 5_000_000, clock.monotonic_ms())
        keeper.used()
        await asyncio.sleep(3)

    async def story() -> None:
        running = asyncio.create_task(keeper.run())
        await asyncio.sleep(10)
        assert controller.opened == 0, "nothing was used"
        await use()
        assert (controller.opened, controller.closed) == (1, 0)
        assert controller.requests[-1].wants
        await asyncio.sleep(FORGET_MS / 1_000 + 1)
        assert not holder.is_active
        assert (controller.opened, controller.closed) == (1, 1)
        await use()
        assert (controller.opened, controller.closed) == (2, 1)
        running.cancel()
        await asyncio.wait([running])

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
    assert controller.closed == 2, "it ends with the broker"
