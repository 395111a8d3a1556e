"""Which calls are signs of life, which do not wait behind questions."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from data_plane.node.admission.fairness import Fairness
from data_plane.node.groups.group_calls import is_beat
from data_plane.node.leasing.pacing import REQUEST_UNITS
from data_plane.node.ports import Caller, CallFailed
from data_plane.node.serving.client_service import client_service
from data_plane.node.serving.request_turns import RequestTurns
from data_plane.node.stats import NodeStats
from data_plane.throttling.pacing import Pace
from data_plane.throttling.spare import ALWAYS
from penstock.contract import methods
from penstock.contract.v1 import groups_pb2 as pb
from tests.unit.authz.setup import ACME, GLOBEX
from tests.unit.node.admission.test_fairness import Hands, no_quotas
from tests.unit.node.admission.test_gate import gate, of
from tests.unit.node.serving.delays import Delays


def request(epoch: int, *topics: str, owned: int = 0) -> bytes:
    made = pb.GroupHeartbeatRequest(group="g", member_id="m", member_epoch=epoch, topics=topics)
    for partition in range(owned):
        made.owned.add(topic_id=bytes(16), partition=partition)
    return made.SerializeToString()


@pytest.mark.parametrize(
    ("method", "sent", "expected"),
    [
        (methods.GROUP_HEARTBEAT, request(1, owned=300), True),
        (methods.GROUP_HEARTBEAT, request(1, owned=10_000), False),
        (methods.GROUP_HEARTBEAT, request(1, "another"), False),
        (methods.GROUP_HEARTBEAT, request(0, "orders"), False),
        (methods.GROUP_HEARTBEAT, request(-1), False),
        (methods.GROUP_HEARTBEAT, b"\xff no message", False),
        (methods.METADATA, request(1), False),
    ],
)
def test_a_beat_is_of_a_member_that_has_joined_and_changes_nothing(
    method: str, sent: bytes, expected: bool
) -> None:
    assert is_beat(method, sent) is expected


@pytest.mark.pure  # its handlers stand in for those of many classes
def test_a_beat_is_served_while_its_tenants_other_calls_wait() -> None:
    hands, (door, _) = Hands(), gate()
    fair = Fairness(hands, NodeStats(), no_quotas)
    unlimited = RequestTurns(
        lambda limit: None, lambda tenant, key_id, name: None, hands, NodeStats(), Delays()
    )
    heard: list[bytes] = []

    class Unasked:
        def __getattr__(self, name: str) -> object:
            return f"nobody asks for {name}"

    class Groups(Unasked):
        async def heartbeat(self, caller: Caller, request: bytes) -> bytes:
            hands.at_ms += 1
            heard.append(request)
            return b"heard"

        async def list_groups(self, caller: Caller, request: bytes) -> bytes:
            raise AssertionError("it has to wait")

    names = ("streams", "calls", "proofs", "commitments", "deletion", "scrubber", "key_reports")
    others = dict.fromkeys(names, Unasked())
    service = client_service(cast(Any, SimpleNamespace(groups=Groups(), **others)), door, fair, unlimited)
    caller, beat, joins = of(ACME), request(1), request(0, "orders")

    async def call(method: str, sent: bytes) -> bytes:
        await service.turn(method, caller, sent)
        return await service.calls[method](caller, sent)

    async def story() -> None:
        fair._spare.part = ALWAYS
        for use in (fair._use, fair._spare.asked):
            use.charge(ACME, 400, 0)
        fair._use.charge(GLOBEX, 20, 0)
        waiting = [
            asyncio.create_task(call(*one))
            for one in ((methods.GROUP_HEARTBEAT, joins), (methods.LIST_GROUPS, b""))
        ]
        await asyncio.sleep(0)
        assert await call(methods.GROUP_HEARTBEAT, beat) == b"heard"
        assert heard == [beat]
        assert fair._spare.beats.of(ACME, hands.at_ms) > 0
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(story())
    assert not fair._questions.queues


@pytest.mark.pure  # its handlers stand in for those of many classes
def test_a_beat_counts_as_a_request_and_goes_on_where_other_calls_are_refused() -> None:
    hands, (door, _) = Hands(), gate()
    pace = Pace(10 * REQUEST_UNITS)
    requests = RequestTurns(
        lambda limit: pace, lambda tenant, key_id, name: None, hands, NodeStats(), Delays()
    )
    names = ("streams", "calls", "groups", "proofs", "commitments", "deletion", "scrubber", "key_reports")
    parts: Any = SimpleNamespace(**dict.fromkeys(names, MagicHands()))
    service = client_service(parts, door, Fairness(hands, NodeStats(), no_quotas), requests)

    async def story() -> None:
        await service.turn(methods.GROUP_HEARTBEAT, of(ACME), request(1))
        assert pace.let_in == REQUEST_UNITS
        pace.enter(20 * REQUEST_UNITS, hands.monotonic_ms(), may_refuse=False)
        await service.turn(methods.GROUP_HEARTBEAT, of(ACME), request(1))
        for method, sent in ((methods.GROUP_HEARTBEAT, request(0, "orders")), (methods.LIST_GROUPS, b"")):
            with pytest.raises(CallFailed, match="requests_per_s: the tenant may use 10 a second"):
                await service.turn(method, of(ACME), sent)
        assert pace.let_in == 21 * REQUEST_UNITS, "a beat that finds so much before it counts no more"

    asyncio.run(story())


class MagicHands:
    """Has every handler, and none is called."""

    def __getattr__(self, name: str) -> object:
        return name
