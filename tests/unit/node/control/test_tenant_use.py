"""What brokers report of a tenant's storage and answer about its use: which topics count, and who is asked when."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.metadata.features import LEASES
from data_plane.metadata.model import TenantQuotas
from data_plane.node.control.tenant_use_calls import ASK_MS, TenantUseCalls
from data_plane.node.ports import Caller, ConnectionLost, Peer
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.stats import NodeStats
from data_plane.node.storage_limits.storage_keeper import StorageKeeper
from data_plane.node.tasks import Turn
from data_plane.storage_limits.reports import Full, Report
from data_plane.storage_limits.standing import StorageStanding
from data_plane.testkit.loop import SimLoop
from penstock.contract.ids import BrokerId, TenantId
from penstock.rules.names import AUDIT_TOPIC
from tests.unit.log.miniature import Miniature
from tests.unit.node.replicas.test_follower_stream import led
from tests.unit.node.storage import CONFIG, ME

pytestmark = pytest.mark.pure  # its environment is a stand-in

_T = TypeVar("_T")
ACME = TenantId("t")
OTHERS = (2, 3, 4, 5)


class Broker:
    """Leads `orders` and the topic with the audit log of one tenant. Other brokers take `answer_s` to answer."""

    def __init__(self, answer_s: float = 0.0) -> None:
        self.replicas = ReplicaSet()
        self.reports = list[Report]()
        self.keeps = self._leads(0, "orders")
        self._leads(1, AUDIT_TOPIC)
        self.answer_s = answer_s
        self.took_s = 0.0
        self.image = SimpleNamespace(
            tenants={ACME: SimpleNamespace(quotas=TenantQuotas(storage_bytes_max=1_000))},
            controller_epoch=1, controller=ME, controller_id=ME, level=LEASES, topics={},
            brokers={
                BrokerId(number): SimpleNamespace(
                    epoch=1, record=SimpleNamespace(broker_id=number, peer_address="p", internal_address="i")
                )
                for number in OTHERS
            },
        )  # fmt: skip
        self.environment: Any = SimpleNamespace(
            config=CONFIG, stats=NodeStats(), transport=self, clock=self,
            begin_turn=lambda: Turn(cast(Any, self), cast(Any, SimpleNamespace(chance=lambda name: False))),
        )  # fmt: skip

    def _leads(self, partition: int, name: str) -> Replica:
        broker = Miniature()
        replica = led(broker, partition=partition)
        broker.fill(2, partition)
        replica.topic = replace(replica.topic, name=name)
        self.replicas.add(replica)
        return replica

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        loop = SimLoop(1)
        try:
            return loop.run_until_complete(work)
        finally:
            self.took_s = loop.time()
            loop.close()

    def monotonic_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1_000

    async def call(self, peer: Peer, method: str, request: bytes, timeout_ms: int) -> bytes:
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await asyncio.sleep(self.answer_s)
        except TimeoutError:
            raise ConnectionLost("silent") from None
        return pb.DescribeTenantUseResponse(storage_bytes=7, groups=1).SerializeToString()

    async def asked(self, report: Report) -> list[Full]:
        self.reports.append(report)
        return []

    def keeper(self) -> StorageKeeper:
        return StorageKeeper(
            self.environment, view=cast(Any, self), registration=cast(Any, SimpleNamespace(epoch=1)),
            replicas=self.replicas, standing=StorageStanding(), office=cast(Any, self),
        )  # fmt: skip

    def use(self) -> pb.DescribeTenantUseResponse:
        calls = TenantUseCalls(
            self.environment, cast(Any, self), self.replicas,
            connections=lambda tenant: 0, groups=lambda tenant: 0, groups_topic=lambda: None,
        )  # fmt: skip
        request = pb.DescribeTenantUseRequest(tenant=ACME).SerializeToString()
        answer = self.run(calls.describe(cast(Caller, None), request))
        return pb.DescribeTenantUseResponse.FromString(answer)


def test_the_topic_with_the_audit_log_is_neither_reported_nor_counted() -> None:
    broker = Broker()
    broker.run(broker.keeper()._look())
    (report,) = broker.reports
    assert [one.where for one in report.kept] == [broker.keeps.where] and report.whole
    size = broker.keeps.log.size_bytes
    assert broker.use().storage_bytes == size + 7 * len(OTHERS) > 7 * len(OTHERS)


def test_without_a_limit_changes_are_taken_and_hold_no_replica() -> None:
    broker = Broker()
    broker.image.tenants = {}
    keeper = broker.keeper()
    broker.replicas.changed(broker.keeps)
    broker.run(keeper._look())
    assert not keeper._changes.take() and not broker.reports


def test_all_brokers_are_asked_at_once_and_the_silent_take_no_longer_than_there_is() -> None:
    broker = Broker(answer_s=0.5)
    answer = broker.use()
    assert not answer.silent and answer.groups == len(OTHERS)
    assert broker.took_s < 0.6, "one after the other would take two seconds"
    silent = Broker(answer_s=60.0)
    assert list(silent.use().silent) == list(OTHERS)
    assert silent.took_s <= ASK_MS / 1_000 + 0.01
