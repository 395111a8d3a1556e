"""Commitments shown to a tenant's keys: its own cuts and losses, as far as a key may see their topics."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from data_plane.authz.access import Operation, Principal
from data_plane.metadata import model
from data_plane.metadata.losses import LossKind, LossRecord
from data_plane.metadata.model import CutRecord, TopicRecord
from data_plane.metadata.port import Put
from data_plane.node.integrity.commitments import CALLS_PER_MINUTE, Commitments
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import Caller, CallFailed
from data_plane.testkit.clock import SimClock
from data_plane.testkit.loop import SimLoop
from data_plane.testkit.store import SimulatedStore
from penstock.contract import errors
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import BrokerId, PrincipalNumber, TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.contract.v1 import proof_pb2 as pb
from tests.unit.node.storage import CONFIG

pytestmark = pytest.mark.pure  # the gate is a stand-in

TENANT, OTHER = TenantId("t"), TenantId("tn_other")
LIVE, BINNED, GONE, ELSEWHERE = (TopicId(bytes([number]) * 16) for number in range(1, 5))
AT_ONCE = 60
"""Reads that a tenant may make without a pause."""
CUT = CutRecord(
    cut_id="c1", start_ms=1, end_ms=2, sha256="ab", billing_sequence=3, billing_hash="cd", kept_ms=4
)


class Gate:
    """Admits keys of one tenant, which may see what `hidden` does not name."""

    def __init__(self) -> None:
        self.tenant = TENANT
        self.hidden: set[str] = set()
        self.asked: dict[str, TopicRecord] = {}

    def admit(self, caller: Caller) -> Principal:
        return Principal(
            tenant=self.tenant, number=PrincipalNumber(5), key_id="k", key_revision=1, expires_at_ms=0
        )

    def authorize(self, principal: Principal, operation: Operation, topic: TopicRecord) -> None:
        assert operation is Operation.DESCRIBE
        self.asked[topic.name] = topic
        if topic.name in self.hidden:
            raise errors.NotFound("no such topic")


def loss(topic: str, tenant: str = TENANT) -> LossRecord:
    return LossRecord(
        tenant=tenant, topic=topic, kind=LossKind.FORCED, log_generation=2, leader=BrokerId(1), leader_epoch=3,
        offset=70, known_end_offset=90, last_known=(), ends=(), asked_by="", declared_ms=0,
    )  # fmt: skip


class Kept:
    """A broker whose metadata hold cuts and losses of two tenants."""

    def __init__(self) -> None:
        self.gate: Any = Gate()
        self.loop = SimLoop(1)

    def run(self, story: Callable[["Kept"], Awaitable[None]]) -> None:
        async def whole() -> None:
            self.clock = SimClock(self.loop)
            self.store = SimulatedStore(random.Random(1))
            self._fill()
            view = MetadataView(self.store.client("b"), CONFIG.timings)
            await view.load()
            self.commitments = Commitments(self.gate, view, self.store.client("b"), self.clock)
            await story(self)

        try:
            self.loop.run_until_complete(whole())
        finally:
            self.loop.close()

    def _fill(self) -> None:
        live = TopicRecord(
            topic_id=LIVE, tenant=TENANT, name="renamed", partitions=4, settings=TopicSettings()
        )
        binned = replace(live, topic_id=BINNED, name="thrown away", binned=True)
        values = {
            model.kept_cut_key(TENANT, 2): CUT.encode(),
            model.kept_cut_key(OTHER, 2): replace(CUT, cut_id="of the other").encode(),
            model.topic_key(LIVE): live.encode(),
            model.topic_key(BINNED): binned.encode(),
            model.loss_key(LIVE, 3, 2): loss("orders").encode(),
            model.loss_key(BINNED, 0, 2): loss("thrown away").encode(),
            model.loss_key(GONE, 0, 2): loss("gone").encode(),
            model.loss_key(ELSEWHERE, 0, 2): loss("secret", OTHER).encode(),
        }
        self.store.apply_txn((), [Put(key, value) for key, value in values.items()])

    async def read(self) -> pb.ReadCommitmentsResponse:
        caller = Caller(peer="p", authorization="", identity=None)
        return pb.ReadCommitmentsResponse.FromString(await self.commitments.read(caller, b""))


def test_a_key_sees_its_tenants_cuts_and_losses_and_nothing_of_another_tenant() -> None:
    async def story(kept: Kept) -> None:
        response = await kept.read()
        assert response.tenant == TENANT
        (cut,) = response.cuts
        assert {name: getattr(cut, name) for name in CUT.__slots__} == {
            name: getattr(CUT, name) for name in CUT.__slots__
        }
        assert {
            (each.topic_id, each.partition, each.log_generation, each.offset) for each in response.losses
        } == {(LIVE, 3, 2, 70), (BINNED, 0, 2, 70), (GONE, 0, 2, 70)}
        kept.gate.tenant = OTHER
        response = await kept.read()
        assert [each.cut_id for each in response.cuts] == ["of the other"]
        assert [each.topic_id for each in response.losses] == [ELSEWHERE]

    Kept().run(story)


@pytest.mark.parametrize(("name", "topic_id"), [("renamed", LIVE), ("thrown away", BINNED), ("gone", GONE)])
def test_a_key_that_may_not_see_a_topic_does_not_see_its_losses(name: str, topic_id: TopicId) -> None:
    async def story(kept: Kept) -> None:
        kept.gate.hidden = {name}
        losses = (await kept.read()).losses
        assert len(losses) == 2 and topic_id not in [each.topic_id for each in losses]
        assert {(each.name, each.tenant, each.binned) for each in kept.gate.asked.values()} == {
            ("renamed", TENANT, False), ("thrown away", TENANT, False), ("gone", TENANT, False)
        }  # fmt: skip

    Kept().run(story)


def test_reads_of_a_tenant_are_limited_and_those_of_another_are_not() -> None:
    async def story(kept: Kept) -> None:
        kept.store.faults.latency_ms = (0.0, 0.0)
        for _ in range(AT_ONCE):
            await kept.read()
        with pytest.raises(CallFailed, match="wait for 100 ms") as refused:
            await kept.read()
        assert refused.value.code is ErrorCode.THROTTLED
        kept.gate.tenant = OTHER
        await kept.read()
        kept.gate.tenant = TENANT
        await asyncio.sleep(60 / CALLS_PER_MINUTE)
        await kept.read()

    Kept().run(story)


def test_a_store_that_does_not_answer_is_said_and_not_taken_for_an_empty_one() -> None:
    async def story(kept: Kept) -> None:
        kept.store.cut("b")
        with pytest.raises(CallFailed, match="the metadata store does not answer") as refused:
            await kept.read()
        assert refused.value.code is ErrorCode.BROKER_UNAVAILABLE

    Kept().run(story)
