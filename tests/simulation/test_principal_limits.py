"""Rates of one service account beside its tenant's, in a simulated cluster: reached by demand, kept by all brokers
together, and no one else's matter."""

import asyncio
from typing import Any

import pytest

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.node.leasing.pacing import CONSUME_RATE, REQUEST_RATE
from data_plane.node.serving.read_turns import ReadTurns
from data_plane.testkit.cluster import TENANT
from penstock.contract.ids import TenantId
from tests.simulation.test_shared_limits import Shared, run
from tests.simulation.test_shared_requests import Used, silent_office
from tests.unit.node.serving.allowances import principal

ACME = TenantId(TENANT)
ROBOT, OTHER = "robot0000000", "other0000000"
"""Ids of keys of two service accounts."""
RATES = {REQUEST_RATE: (400, 100, 300), CONSUME_RATE: (100_000, 20_000, 60_000)}
"""The tenant's, the bounded account's, and what the other gets: of requests all that is left, of what is consumed a
limit of its own, for streams that read all they can take turns in their tenant's line."""


class UsedBy(Used):
    """What streams with one key take."""

    def __init__(self, shared: Shared, limit: str, key_id: str) -> None:
        super().__init__(shared, limit)
        self.key_id = key_id

    async def _requests(self, node: Any) -> None:
        turns = node.allowances.requests.of(ACME, self.key_id, 1)
        while True:
            await turns.frame()
            self.total += 1

    async def _reads(self, node: Any) -> None:
        woken, allowance = asyncio.Event(), node.allowances.to_consume(principal(ACME, self.key_id))
        turns = ReadTurns(allowance, woken.set, node.leasing._clock, node.stats)
        try:
            while True:
                woken.clear()
                wait_ms = turns.wait_ms(batches=True)
                if wait_ms == 0:
                    self.total += (size := turns.begin(1_000))
                    turns.end(size)
                    continue
                try:
                    async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                        await woken.wait()
                except TimeoutError:
                    pass
        finally:
            turns.leave()


async def bounded(shared: Shared, limit: str) -> tuple[UsedBy, UsedBy]:
    """Two service accounts with a key each, one of which has a rate of its own."""
    rate, own, others = RATES[limit]
    for key_id in (ROBOT, OTHER):
        key = pb.PutKeyRequest(
            key_id=key_id, tenant=TENANT, name="k", pepper_version=1, secret_hmac=bytes(32), scram_json="{}",
            owner=f"service_account:{key_id}",
        )  # fmt: skip
        await shared.running.admin_call(methods.PUT_KEY, key.SerializeToString())
    limits = [pb.PrincipalLimits(principal=f"service_account:{ROBOT}", **{limit: own})]
    if limit == CONSUME_RATE:
        limits.append(pb.PrincipalLimits(principal=f"service_account:{OTHER}", **{limit: others}))
    tenant = pb.PutTenantRequest(tenant=TENANT, quotas=pb.TenantQuotas(**{limit: rate}), principals=limits)
    await shared.running.admin_call(methods.PUT_TENANT, tenant.SerializeToString())
    await shared.until(
        lambda: all(
            node.view.image.tenants[ACME].principals and OTHER in node.view.image.keys
            for node in shared.nodes
        )
    )
    return UsedBy(shared, limit, ROBOT), UsedBy(shared, limit, OTHER)


@pytest.mark.parametrize("limit", [REQUEST_RATE, CONSUME_RATE])
def test_a_bounded_account_gets_its_rate_and_another_is_untouched(limit: str) -> None:
    async def story(shared: Shared) -> None:
        robot, other = await bounded(shared, limit)
        _, own, others = RATES[limit]
        try:
            for node in shared.nodes:
                robot.begin(node)
                other.begin(node)
            await asyncio.sleep(2.0)
            taken = await asyncio.gather(robot.during(10.0), other.during(10.0))
            assert 0.95 * own <= taken[0] <= 1.05 * own, taken
            assert 0.95 * others <= taken[1] <= 1.05 * others, taken
        finally:
            await robot.end()
            await other.end()

    run(story, seed=21)


def test_an_account_with_all_its_load_at_one_broker_gets_all_of_its_rate_there() -> None:
    async def story(shared: Shared) -> None:
        robot, _ = await bounded(shared, REQUEST_RATE)
        own = RATES[REQUEST_RATE][1]
        try:
            robot.begin(shared.nodes[0])
            await asyncio.sleep(2.0)
            assert 0.95 * own <= await robot.during(10.0) <= 1.05 * own
        finally:
            await robot.end()

    run(story, seed=22)


def test_without_a_coordinator_a_bounded_account_is_never_above_its_rate() -> None:
    async def story(shared: Shared) -> None:
        robot, other = await bounded(shared, REQUEST_RATE)
        own = RATES[REQUEST_RATE][1]
        try:
            for node in shared.nodes:
                robot.begin(node)
                other.begin(node)
            await asyncio.sleep(3.0)
            with silent_office():
                for _ in range(6):
                    assert await robot.during(5.0) <= 1.1 * own
        finally:
            await robot.end()
            await other.end()

    run(story, seed=23)
