"""The limit of a tenant's consumer groups over all coordinators: exact under many joins at once, freed by deletion, and
kept when coordinators move.
"""

import asyncio
from collections.abc import Sequence

import pytest

from data_plane.contract import admin_pb2 as admin
from data_plane.contract.methods import PUT_TENANT
from data_plane.metadata.group_seats import group_seats_key
from data_plane.testkit.cluster import TENANT
from penstock.contract import methods
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId
from penstock.contract.v1 import groups_pb2 as pb
from tests.simulation.test_group_calls import JOIN, LEAVE, Groups, run_story

SAID = "groups_max: the tenant has 3 consumer groups, at most 3 allowed; delete some that are not used"


async def limit(groups: Groups, most: int, generation: int = 1) -> None:
    """Every broker knows the limit afterwards."""
    cluster = groups.period.cluster
    quotas = admin.TenantQuotas(groups_max=most)
    request = admin.PutTenantRequest(tenant=TENANT, generation=generation, quotas=quotas)
    await cluster.admin_call(PUT_TENANT, request.SerializeToString())

    def known() -> bool:
        nodes = [broker.node for broker in cluster.brokers if broker.node is not None]
        return all(node.view.image.quotas_of(groups_tenant()).groups_max == most for node in nodes)

    await groups.period.until("brokers know the limit", known)


def groups_tenant() -> TenantId:
    return TenantId(TENANT)


async def joined(groups: Groups, names: Sequence[str]) -> list[pb.GroupHeartbeatResponse]:
    return await asyncio.gather(*(groups.beat("a", JOIN, group=name) for name in names))


async def made_soon(groups: Groups, name: str) -> None:
    """Seats that were given back come to be known within two seconds."""
    for _ in range(10):
        if not (await groups.beat("a", JOIN, group=name)).error:
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"{name}: no seat")


async def deleted(groups: Groups, name: str) -> None:
    assert (await groups.beat("a", LEAVE, group=name)).error == 0
    request = pb.DeleteGroupRequest(group=name)
    assert (await groups.ask(methods.DELETE_GROUP, request, pb.GroupChangeResponse)).error == 0


def refused(groups: Groups) -> int:
    nodes = [broker.node for broker in groups.period.cluster.brokers if broker.node is not None]
    return sum(node.stats.limit_refusals.of(TENANT, "groups_max") for node in nodes)


def test_of_many_groups_made_at_once_as_many_are_as_the_limit_allows() -> None:
    async def story(groups: Groups) -> None:
        await limit(groups, 3)
        answers = await joined(groups, [f"g{number}" for number in range(12)])
        made = [answer for answer in answers if not answer.error]
        others = [answer for answer in answers if answer.error]
        assert len(made) == 3 and {answer.error for answer in others} == {ErrorCode.LIMIT_EXCEEDED}
        assert all(answer.message.startswith(SAID) for answer in others)
        assert len(await groups.listed()) == 3 and refused(groups) == 9
        by_hand = await groups.commit("", -1, 0, group="by-hand")
        assert by_hand == [ErrorCode.LIMIT_EXCEEDED], "a commit without a member makes a group too"

    run_story(story)


def test_a_deleted_group_makes_room_for_one_of_any_coordinator_and_members_stay_welcome() -> None:
    async def story(groups: Groups) -> None:
        await limit(groups, 3)
        assert [answer.error for answer in await joined(groups, ["a", "b", "c"])] == [0, 0, 0]
        assert (await groups.beat("b", JOIN, group="a")).error == 0, "it is there, so it needs no seat"
        for number in range(6):
            gone, new = (["a", "b", "c"] + [f"new-{n}" for n in range(6)])[number], f"new-{number}"
            if gone == "a":
                assert (await groups.beat("b", LEAVE, group="a")).error == 0
            assert (await groups.beat("a", JOIN, group=new)).error == ErrorCode.LIMIT_EXCEEDED
            await deleted(groups, gone)
            await made_soon(groups, new)
            assert len(await groups.listed()) == 3
        await limit(groups, 0, generation=2)
        assert [answer.error for answer in await joined(groups, ["d", "e"])] == [0, 0]
        store = groups.period.cluster.store
        key = group_seats_key(TENANT)
        await groups.period.until("nothing is counted any more", lambda: not store.snapshot(key).items)
        await limit(groups, 9, generation=3)
        await groups.period.until("all are counted again", lambda: bool(store.snapshot(key).items))
        assert (await groups.beat("a", JOIN, group="f")).error == 0

    run_story(story)


@pytest.mark.parametrize("name", ["g0", "g1"])
def test_a_limit_below_what_is_there_removes_nothing_and_moves_with_the_coordinators(name: str) -> None:
    async def story(groups: Groups) -> None:
        await joined(groups, ["g0", "g1", "g2"])
        await limit(groups, 1)
        image = groups.period.cluster.brokers[0].node
        assert image is not None
        counted = image.view.image.group_seats
        await groups.period.until(
            "groups that were there are counted",
            lambda: groups_tenant() in counted and counted[groups_tenant()].total == 3,
        )
        more = await groups.beat("a", JOIN, group="more")
        assert "the tenant has 3 consumer groups, at most 1 allowed" in more.message
        broker = groups.period.cluster.broker((await groups.found(name)).broker_id)
        groups.period.cluster.drain(broker)
        await groups.found_elsewhere(broker.broker_id)
        assert len(await groups_of_others(groups)) == 3
        assert (await groups.beat("a", JOIN, group="more")).error == ErrorCode.LIMIT_EXCEEDED

    run_story(story)


async def groups_of_others(groups: Groups) -> set[str]:
    """Groups that can be described: each has a coordinator."""
    return {(await groups.described(name)).summary.group for name in ("g0", "g1", "g2")}
