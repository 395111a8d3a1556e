"""The bound of a call's wait over all limits of its tenant, and what of a watch it holds for."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from data_plane.metadata.model import TenantQuotas
from data_plane.node.admission.processor_time import PROCESSOR_RATE
from data_plane.node.leasing.pacing import REQUEST_RATE, REQUEST_UNITS
from data_plane.node.ports import CallFailed
from data_plane.node.serving.client_calls import ClientCalls
from data_plane.node.serving.client_service import client_service
from data_plane.node.serving.request_turns import RequestTurns
from data_plane.throttling.pacing import Pace
from penstock.contract import methods
from penstock.contract.limits import CALL_WAIT_MS_MAX
from penstock.contract.v1 import log_pb2
from tests.unit.authz.setup import ACME
from tests.unit.node.admission.test_gate import gate, of
from tests.unit.node.admission.test_processor_time import Broker
from tests.unit.node.serving.delays import Delays
from tests.unit.node.serving.test_beats import MagicHands

pytestmark = pytest.mark.pure  # stand-ins for what has many parts


@pytest.mark.parametrize(("ahead_requests", "owed_ms"), [(8, 3.0), (0, 3.0), (12, 0.0)])
def test_what_a_call_waits_for_requests_is_taken_from_what_it_waits_for_the_processor(
    ahead_requests: int, owed_ms: float
) -> None:
    broker, (door, _) = Broker(0), gate()
    broker.quotas[ACME] = TenantQuotas(broker_processor_ms_per_s=1)
    pace = Pace(10 * REQUEST_UNITS)
    requests = RequestTurns(
        lambda limit: pace, lambda tenant, key_id, name: None, broker.clock, broker.stats, Delays()
    )
    names = ("streams", "calls", "groups", "proofs", "commitments", "deletion", "scrubber", "key_reports")
    service = client_service(
        cast(Any, SimpleNamespace(**dict.fromkeys(names, MagicHands()))), door, broker.fair, requests
    )

    async def story() -> None:
        if owed_ms:
            await broker.fair.of(ACME).charged(lambda: broker.work(owed_ms))
        pace.enter(ahead_requests * REQUEST_UNITS, broker.clock.monotonic_ms(), may_refuse=False)
        came_ms = broker.clock.monotonic_ms()
        with pytest.raises(CallFailed, match=PROCESSOR_RATE if owed_ms else REQUEST_RATE):
            await service.turn(methods.LIST_GROUPS, of(ACME), b"")
        waited_ms = broker.clock.monotonic_ms() - came_ms
        assert waited_ms == pytest.approx(CALL_WAIT_MS_MAX if owed_ms else 0, abs=2)

    broker.run(story())


def test_the_first_push_of_a_watch_waits_as_a_call_and_later_ones_however_long() -> None:
    bounds: list[float | None] = []
    pushed = asyncio.Event()
    listeners: list[Any] = []
    door, _ = gate()

    class Turns:
        async def asked(self, work: object, wait_ms_max: float | None = None) -> tuple[bytes, bytes]:
            bounds.append(wait_ms_max)
            return b"%d" % len(bounds), b"all"

    class Requests:
        async def call(self) -> int:
            return 300

    view = SimpleNamespace(
        image=SimpleNamespace(names_of={}), listen=listeners.append, unlisten=listeners.remove
    )
    unused: Any = None
    calls = ClientCalls(
        unused,
        cast(Any, view),
        door,
        unused,
        unused,
        unused,
        cast(Any, SimpleNamespace(of=lambda tenant: Turns())),
        requests=cast(Any, SimpleNamespace(of=lambda tenant, key_id, number: Requests())),
        begin_turn=unused,
    )

    async def push(_: bytes) -> None:
        pushed.set()

    async def story() -> None:
        request = log_pb2.WatchMetadataRequest().SerializeToString()
        watching = asyncio.create_task(calls.watch_metadata(of(ACME), request, push))
        for _ in range(3):
            await asyncio.wait_for(pushed.wait(), 10)
            pushed.clear()
            listeners[0](None)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(story())
    assert bounds[:3] == [CALL_WAIT_MS_MAX - 300, None, None]
    assert not listeners
