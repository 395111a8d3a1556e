"""Limits and rights of a tenant as its streams meet them at whole brokers, whichever of these is the controller."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from data_plane.contract import admin_pb2
from data_plane.contract import methods as own_methods
from data_plane.leases.budget_holder import REPORT_MS
from data_plane.node.leasing.budgets import TENANTS_MAX
from data_plane.node.ports import CallFailed
from data_plane.node.storage_limits.wing import LEARN_MS
from data_plane.testkit.cluster import TENANT
from penstock.contract.errors import ErrorCode
from tests.unit.log.batches import made_batch
from tests.unit.node.brokers import SOON_S, TIMINGS, Brokers, topic
from tests.unit.node.storage import CALLER

BATCH = made_batch(2, 400)
LOTS = made_batch(2, 30_000)
PARTS = 1_000_000_000
REPORTED_S = 2 * REPORT_MS / 1_000


def budget(chosen: str, amount: int = 6, **fields: Any) -> admin_pb2.Budget:
    """It counts messages: each counts one unit on its way in, and one on its way out."""
    values: dict[str, Any] = {"budget_id": "b1", "name": "b", "period": "month", "unit": "messages"}
    values |= {"message_in": PARTS, "message_out": PARTS, "policy": chosen, "amount": amount}
    return admin_pb2.Budget(**values | fields)


async def sent(brokers: Brokers, count: int, name: str = "orders") -> list[int]:
    """Errors of so many batches, sent one after the other; a batch that has to wait is tried again."""
    producing, codes = await brokers.producing(name), list[int]()
    while len(codes) < count:
        result = await producing.send(BATCH)
        if result.error == ErrorCode.THROTTLED:
            await asyncio.sleep(result.retry_after_ms / 1_000)
        else:
            codes.append(result.error)
    return codes


async def described(brokers: Brokers, number: int = 0) -> list[tuple[str, int, bool]]:
    """Name and use of each budget, and whether it is spent."""
    call = brokers.node(number).internal_service.calls[own_methods.DESCRIBE_BUDGETS]
    request = admin_pb2.DescribeBudgetsRequest(tenants=[TENANT, "tn_other"])
    answer = admin_pb2.DescribeBudgetsResponse.FromString(await call(CALLER, request.SerializeToString()))
    assert all(entry.tenant == TENANT and entry.began_ms < entry.ends_ms for entry in answer.budgets)
    return [(entry.budget_id, entry.used, entry.spent) for entry in answer.budgets]


@pytest.mark.parametrize("count", [1, 2], ids=["at the controller", "elsewhere"])
@pytest.mark.parametrize("policy", ["refuse", "refuse_produce"])
def test_a_budget_that_is_spent_refuses_and_is_described_as_spent(policy: str, count: int) -> None:
    async def story(brokers: Brokers) -> None:
        await brokers.put_tenant(budgets=[budget(policy)])
        assert await sent(brokers, 5) == [0, 0, 0, ErrorCode.LIMIT_EXCEEDED, ErrorCode.LIMIT_EXCEEDED]
        await asyncio.sleep(REPORTED_S)
        for number in range(count):
            assert await described(brokers, number) == [("b1", 6, True)]
        await brokers.put_tenant(2, budgets=[budget(policy, 8)])
        assert await sent(brokers, 2) == [0, ErrorCode.LIMIT_EXCEEDED]

    Brokers(count, topic()).run(story)


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "others"},
        {"policy": "notify"},
        {"amount": 1_000},
        {"message_in": 0},
        {"principal": "person:p9"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_budget_refuses_nothing_that_it_is_not_for(fields: dict[str, Any]) -> None:
    async def story(brokers: Brokers) -> None:
        await brokers.put_tenant(budgets=[budget("refuse", **fields)])
        assert set(await sent(brokers, 6)) == {0}

    Brokers(1, topic()).run(story)


@pytest.mark.parametrize(("policy", "ends"), [("refuse", True), ("refuse_produce", False)])
def test_a_reader_that_waits_is_stopped_by_a_budget_that_refuses_reads_and_by_no_other(
    policy: str, ends: bool
) -> None:
    async def story(brokers: Brokers) -> None:
        await brokers.put_tenant(budgets=[budget(policy, message_out=0)])
        consuming = await brokers.consuming()
        await consuming.begin()
        failing = asyncio.create_task(consuming.error())
        assert await sent(brokers, 2) == [0, 0]
        await asyncio.sleep(REPORTED_S)
        assert not failing.done()
        await sent(brokers, 3)
        await asyncio.sleep(REPORTED_S)
        assert failing.done() is ends
        if ends:
            assert failing.result() == ErrorCode.LIMIT_EXCEEDED
        assert consuming.bytes >= 2 * len(BATCH)
        failing.cancel()

    Brokers(1, topic()).run(story)


def test_what_consumers_have_taken_counts_once_they_give_credit_for_it() -> None:
    async def story(brokers: Brokers) -> None:
        await brokers.put_tenant(budgets=[budget("refuse", 5, message_in=0)])
        assert set(await sent(brokers, 3)) == {0}
        consuming = await brokers.consuming()
        await consuming.begin()
        await consuming.read(3 * len(BATCH))
        failing = asyncio.create_task(consuming.error())
        await consuming.give(2 * len(BATCH))
        await asyncio.sleep(4 * REPORTED_S)
        assert not failing.done(), "4 of 5 are used"
        await consuming.give(len(BATCH))
        await asyncio.sleep(REPORTED_S)
        assert failing.result() == ErrorCode.LIMIT_EXCEEDED
        ((_, used, _),) = await described(brokers)
        assert used == 6, "more than there was: it was under way"

    Brokers(1, topic()).run(story)


def test_budgets_of_too_many_tenants_are_not_described_in_one_call() -> None:
    async def story(brokers: Brokers) -> None:
        call = brokers.node().internal_service.calls[own_methods.DESCRIBE_BUDGETS]
        for count, refused in ((TENANTS_MAX, False), (TENANTS_MAX + 1, True)):
            request = admin_pb2.DescribeBudgetsRequest(tenants=["t"] * count).SerializeToString()
            if refused:
                with pytest.raises(CallFailed, match=f"{count} tenants in one call"):
                    await call(CALLER, request)
            else:
                assert await call(CALLER, request) == b""

    Brokers().run(story)


@pytest.mark.parametrize("count", [1, 2], ids=["at the controller", "elsewhere"])
def test_a_tenant_that_stores_as_much_as_it_may_is_refused_within_seconds_until_it_may_store_more(
    count: int,
) -> None:
    async def story(brokers: Brokers) -> None:
        controller = next(n for n in range(count) if brokers.node(n).gauges()["controller"])

        def counted() -> tuple[int, int]:
            gauges = brokers.node(controller).gauges()
            return gauges["tenants_near_storage_limit"], gauges["tenants_at_storage_limit"]

        limit = 3 * len(LOTS)
        await brokers.put_tenant(quotas=admin_pb2.TenantQuotas(storage_bytes_max=limit))
        await asyncio.sleep(LEARN_MS / 1_000 + 2)
        producing = await brokers.producing()
        assert (await producing.send(BATCH)).error == 0
        await asyncio.sleep(3)
        assert counted() == (0, 0)
        for _ in range(4):
            assert (await producing.send(LOTS)).error == 0
        await asyncio.sleep(3)
        assert counted() == (1, 1)
        refused = await producing.send(BATCH)
        assert refused.error == ErrorCode.THROTTLED and "storage_bytes_max" in refused.message
        await brokers.put_tenant(2, quotas=admin_pb2.TenantQuotas(storage_bytes_max=10 * limit))
        await asyncio.sleep(8)
        assert (await producing.send(BATCH)).error == 0 and counted() == (0, 0)
        await brokers.put_tenant(3)
        await asyncio.sleep(3)
        reports = brokers.node().stats.storage_reports
        await asyncio.sleep(5)
        assert brokers.node().stats.storage_reports == reports, "no tenant has the limit"

    Brokers(count, topic()).run(story)


def test_readers_of_a_topic_that_goes_into_the_bin_are_told_at_once() -> None:
    async def story(brokers: Brokers) -> None:
        streams = [await brokers.consuming(name) for name in ("orders", "others")]
        for consuming in streams:
            await consuming.begin()
        first, second = (asyncio.create_task(consuming.error()) for consuming in streams)
        await asyncio.sleep(SOON_S)
        request = admin_pb2.BinTopicRequest(
            topic_id=brokers.where("orders").topic_id, tenant=TENANT, generation=9
        )
        await brokers.cluster.admin_call(own_methods.BIN_TOPIC, request.SerializeToString())
        await asyncio.sleep(SOON_S)
        assert first.result() == ErrorCode.NOT_FOUND
        assert not second.done()
        second.cancel()

    Brokers(1, topic(), topic("others")).run(story)


def test_credit_of_a_batch_that_a_rate_refuses_comes_back_though_the_client_is_silent_by_then() -> None:
    async def story(brokers: Brokers) -> None:
        await brokers.put_tenant(quotas=admin_pb2.TenantQuotas(produce_bytes_per_s=20_000))
        busy, producing = await brokers.producing(), await brokers.producing()
        for _ in range(12):
            await busy.begin(LOTS)
        await producing.hear()
        begun_with = producing.credit
        await asyncio.sleep(0.1)
        await producing.begin(LOTS)
        results = list[int]()
        while not results:
            results += [result.error for result in await producing.hear()]
        assert results == [ErrorCode.THROTTLED] and producing.credit == begun_with
        async with asyncio.timeout(300):
            while producing.credit < begun_with + len(LOTS):
                assert await producing.hear() == []
        assert producing.credit == begun_with + len(LOTS)

    Brokers(1, topic(), timings=replace(TIMINGS, session_ttl_ms=30_000)).run(story)
