"""A tenant with a budget in a simulated cluster: stopped at its amount by all brokers, under each controller alike,
named in the error, counted by tenant, released by a higher amount, and harmless to others."""

import asyncio

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.testkit.cluster import TENANT
from penstock.contract.errors import LimitExceeded
from penstock.rules.budgets import BUDGET, PARTS
from tests.simulation.test_cuts import Period, topic
from tests.simulation.test_placement_calls import asked
from tests.simulation.test_storage_limit import ORDERS, TIMINGS, Sender, client_of, neighbour, nodes, seated

STOPPED_S = 60.0


async def give(
    period: Period,
    amount: int,
    generation: int,
    policy: str = "refuse_produce",
    slow: int = 0,
    *,
    topic: str = "",
    principal: str = "",
) -> None:
    budget = pb.Budget(
        budget_id="b1",
        name="prod",
        period="month",
        amount=amount,
        unit="messages",
        policy=policy,
        slow_bytes_per_s=slow,
        message_in=PARTS,
        topic=topic,
        principal=principal,
    )
    request = pb.PutTenantRequest(
        tenant=TENANT, generation=generation, quotas=pb.TenantQuotas(), budgets=[budget]
    )
    await period.cluster.admin_call(methods.PUT_TENANT, request.SerializeToString())


async def used(period: Period) -> int:
    request = pb.DescribeBudgetsRequest(tenants=[TENANT])
    at = period.cluster.brokers[0]
    answer = await asked(period, at, methods.DESCRIBE_BUDGETS, request, pb.DescribeBudgetsResponse)
    return sum(one.used for one in answer.budgets)


async def stopped(period: Period, sender: Sender, amount: int, seconds: float = 3.0) -> None:
    """The sender hears that the budget is spent, and nothing else."""
    await period.until("the budget is spent", lambda: bool(sender.errors), STOPPED_S)
    # One partition's broker may say so while the other one's still has a part of it.
    await period.until("all of it is used", lambda: len(sender.acknowledged) >= amount - 3, 1.0)
    here = len(sender.acknowledged)
    await asyncio.sleep(seconds)
    assert len(sender.acknowledged) <= here + 3
    assert all(isinstance(error, LimitExceeded) for error in sender.errors), sender.errors[:2]


@pytest.mark.slow
def test_a_spent_budget_stops_its_tenant_alone_says_so_and_is_released_when_it_is_raised() -> None:
    async def story(period: Period) -> None:
        await give(period, 120, 1)
        sender = Sender(period, ORDERS)
        other = await neighbour(period)
        await stopped(period, sender, 120)
        assert 117 <= len(sender.acknowledged) <= 122, len(sender.acknowledged)
        said = sender.errors[-1].message
        for text in (
            "budget 'prod'",
            "of 120 messages are used this month; clears at ",
            "owner, admin or billing",
        ):
            assert text in said, said
        assert abs(await used(period) - len(sender.acknowledged)) <= 3
        assert sum(node.stats.limit_refusals.of(TENANT, BUDGET) for node in nodes(period)) > 0
        there = len(other.acknowledged)
        await period.until("another tenant is served", lambda: len(other.acknowledged) > there + 20, 10.0)
        assert not other.errors
        here = len(sender.acknowledged)
        await give(period, 600, 2)
        await period.until("it goes on", lambda: len(sender.acknowledged) > here + 20, 10.0)

    Period(TIMINGS, topic(ORDERS, partitions=2)).run(story)


@pytest.mark.slow
def test_another_controller_and_brokers_that_come_back_do_not_give_the_budget_again() -> None:
    async def story(period: Period) -> None:
        await give(period, 120, 1)
        sender = Sender(period, ORDERS)
        await period.until("half of it is used", lambda: len(sender.acknowledged) > 60, STOPPED_S)
        controller = seated(period)
        period.cluster.kill(controller)
        await period.until(
            "another controller", lambda: any(node.control.seat.seated for node in nodes(period))
        )
        period.cluster.start(controller)
        await period.until(
            "the budget is spent",
            lambda: any(isinstance(error, LimitExceeded) for error in sender.errors),
            STOPPED_S,
        )
        await asyncio.sleep(5)
        assert len(sender.acknowledged) <= 122, (
            "what the killed broker had is gone, and nothing is given twice"
        )
        here = len(sender.acknowledged)
        for broker in period.cluster.brokers:
            period.cluster.kill(broker)
            period.cluster.start(broker)
            await asyncio.sleep(3)
        await asyncio.sleep(3)
        assert len(sender.acknowledged) <= here + 1

    Period(TIMINGS, topic(ORDERS, partitions=2)).run(story)


def test_a_budget_that_refuses_reads_too_stops_readers_and_lets_them_in_again() -> None:
    async def story(period: Period) -> None:
        sender = Sender(period, ORDERS, partitions=1, most=40)
        await period.until("messages", lambda: len(sender.acknowledged) == 40)
        read: list[bytes] = []
        failed: list[str] = []

        async def reads(client: object) -> None:
            while True:
                consumer = client.consumer(ORDERS)  # type: ignore[attr-defined]
                try:
                    while True:
                        read.extend(message.value or b"" for message in await consumer.poll())
                except LimitExceeded as refused:
                    failed.append(refused.message)
                    await asyncio.sleep(1)

        await give(period, 20, 1, "refuse")
        Sender(period, ORDERS, partitions=1, most=40)
        await asyncio.sleep(5)
        process = period.loop.process("reader")
        period.loop.spawn(process, reads(client_of(period, process)))
        await period.until("readers are refused", lambda: bool(failed), 20.0)
        assert "budget 'prod'" in failed[0]
        before = len(read)
        await give(period, 10_000, 2, "refuse")
        await period.until("they read again", lambda: len(read) > before, 20.0)

    Period(TIMINGS, topic(ORDERS, partitions=1)).run(story)


def test_a_budget_that_slows_gives_the_tenant_the_stated_rate_and_one_that_notifies_gives_all() -> None:
    async def story(period: Period) -> None:
        await give(period, 10, 1, "notify")
        sender = Sender(period, ORDERS, partitions=1)
        await period.until("far above the amount", lambda: len(sender.acknowledged) > 100, STOPPED_S)
        assert not sender.errors
        await give(period, 10, 2, "slow", slow=1_000)
        await asyncio.sleep(10)
        here = len(sender.acknowledged)
        await asyncio.sleep(20)
        assert 5 <= len(sender.acknowledged) - here <= 60, "at about 600 bytes each"
        assert not sender.errors
        assert await used(period) > 100

    Period(TIMINGS, topic(ORDERS, partitions=1)).run(story)


@pytest.mark.parametrize(("other", "account"), [("elsewhere", ""), ("", "service_account:x")])
def test_a_budget_of_another_topic_or_principal_counts_nothing(other: str, account: str) -> None:
    async def story(period: Period) -> None:
        await give(period, 5, 1, "refuse_produce", topic=other, principal=account)
        await period.produce(ORDERS, 40)
        assert await used(period) == 0
        assert sum(node.stats.budget_requests for node in nodes(period)) == 0, "nothing is said of it"

    Period(TIMINGS, topic(ORDERS)).run(story)
