"""Placement plans against a broker that answers: made, shown, refused when they no longer apply, run, and cancelled."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from control_plane.audit.models import AuditEntry
from control_plane.brokers import answers, view
from control_plane.brokers import client as broker_client
from control_plane.outbox import in_request
from control_plane.placement import balancing, cell_actions, driving, plan_actions, planning, queries
from control_plane.placement.models import Balancer, LoadReport, Move, MoveState, PlacementPlan, PlanState
from control_plane.topics.actions import create_topic
from control_plane.topics.models import Topic
from data_plane.contract import admin_pb2 as pb
from penstock.contract.errors import InvalidRequest, PreconditionFailed
from penstock.contract.ids import SYSTEM_TENANT
from tenants.actions import create_tenant
from tenants.roles import Standing
from tests.control_plane.api.lists import Cluster, cluster
from tests.control_plane.api.lists import hot_partitions as fill_hot_partitions
from tests.control_plane.world import ACTOR, Answer, House, call, make_house

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Cluster, Any]]:
    with cluster() as both:
        yield both


@pytest.fixture
def said(running: tuple[Cluster, Any], monkeypatch: pytest.MonkeyPatch) -> Cluster:
    said, client = running
    said.described.Clear()
    said.described.feature_level = 2
    monkeypatch.setattr(broker_client, "client", lambda: client)
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    return said


@pytest.fixture
def house() -> House:
    return make_house("acme")


def describe(
    said: Cluster, placed: Sequence[Sequence[int]], *, brokers: int = 4, tenant: str = "tn_a"
) -> None:
    """Partitions of one topic on these brokers, all in sync."""
    del said.described.partitions[:], said.described.brokers[:]
    for number in range(1, brokers + 1):
        said.described.brokers.add(
            id=number,
            state="active",
            zone=f"z{number}",
            host=f"h{number}",
            replicas=sum(number in replicas for replicas in placed),
            leaders=sum(number == replicas[0] for replicas in placed),
        )
    for partition, replicas in enumerate(placed):
        said.described.partitions.add(
            tenant=tenant,
            topic="orders",
            topic_id=bytes(16),
            partition=partition,
            leader=replicas[0],
            replicas=replicas,
            in_sync=replicas,
        )


def ask(house: House, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    return call(
        method, f"/v1/placement/{path}", body, token=house.credentials[Standing.OPERATOR], tenant=house.tenant,
        **headers,
    )  # fmt: skip


def on_three(count: int = 12) -> list[list[int]]:
    return [[n % 3 + 1, (n + 1) % 3 + 1, (n + 2) % 3 + 1] for n in range(count)]


def made(house: House, **wanted: Any) -> dict[str, Any]:
    answer = ask(house, "POST", "plans", wanted)
    assert answer.status == 201, answer.body
    body: dict[str, Any] = answer.body
    return body


def everything_moved(said: Cluster) -> None:
    """As if the brokers had done what is under way."""
    for move in Move.objects.filter(state=MoveState.MOVING):
        Move.objects.filter(pk=move.pk).update(delivered_generation=move.generation)
        found = said.described.partitions[move.partition]
        del found.replicas[:], found.in_sync[:]
        found.replicas.extend(move.target)
        found.in_sync.extend(move.target)


def test_the_services_own_topics_get_the_copies_that_new_brokers_allow(said: Cluster) -> None:
    system = create_tenant(ACTOR, name="system", public_id=SYSTEM_TENANT)
    create_topic(ACTOR, system, name="__usage", partitions=1, settings={"replication": 1})
    Topic.objects.update(on_brokers=True)
    describe(said, [[1]], brokers=3)
    driving.drive()
    own = Topic.objects.get()
    assert (own.settings["replication"], own.settings["min_insync_replicas"]) == (3, 1)
    Topic.objects.update(copies_due=False)
    driving.drive()
    assert Topic.objects.get().settings["min_insync_replicas"] == 2


def test_a_plan_shows_what_would_move_and_moves_nothing_until_it_is_confirmed(
    house: House, said: Cluster
) -> None:
    describe(said, on_three())
    plan = made(house, kind="rebalance")
    assert (plan["state"], plan["move_count"]) == ("draft", len(plan["moves"]))
    assert plan["skew_before"]["replicas"] == 100.0
    assert plan["skew_after"]["replicas"] <= 10
    driving.drive()
    assert not Move.objects.exists()

    confirmed = ask(house, "POST", f"plans/{plan['id']}/confirm", {})
    assert confirmed.status == 200, confirmed.body
    assert confirmed.body["state"] == "running"
    assert confirmed.body["progress"]["waiting"] == plan["move_count"]
    for _ in range(10):
        driving.drive()
        everything_moved(said)
    assert ask(house, "GET", f"plans/{plan['id']}").body["progress"]["done"] == plan["move_count"]
    assert ask(house, "GET", f"plans/{plan['id']}").body["state"] == "done"
    assert ask(house, "POST", f"plans/{plan['id']}/confirm", {}).status == 400
    balanced = ask(house, "POST", "plans", {"kind": "rebalance"})
    assert balanced.status == 400 and "nothing has to move" in balanced.body["detail"]
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert [a for a in actions if a.startswith("placement.")] == [
        "placement.plan", "placement.confirm", "placement.done",
    ]  # fmt: skip


def test_a_plan_is_refused_once_the_cluster_is_another_one(house: House, said: Cluster) -> None:
    describe(said, on_three())
    plan = made(house, kind="rebalance")
    wrong = ask(house, "POST", f"plans/{plan['id']}/confirm", {}, If_Match='"9"')
    assert wrong.status == 412

    said.described.brokers[3].cordoned = True
    gone = ask(house, "POST", f"plans/{plan['id']}/confirm", {})
    assert gone.status == 412 and "broker 4 takes no replicas now" in gone.body["detail"]
    said.described.brokers[3].cordoned = False

    first = next(move for move in plan["moves"] if 4 in move["target"])
    said.described.partitions[first["partition"]].target.extend([2, 3, 4])
    moved = ask(house, "POST", f"plans/{plan['id']}/confirm", {})
    assert moved.status == 412 and "is on other brokers now" in moved.body["detail"]
    assert not Move.objects.exists()
    assert ask(house, "GET", f"plans/{plan['id']}").body["state"] == "draft"


def test_a_cancelled_plan_stops_and_only_one_runs_at_a_time(house: House, said: Cluster) -> None:
    describe(said, on_three())
    first, second = made(house, kind="rebalance"), made(house, kind="rebalance")
    assert ask(house, "POST", f"plans/{first['id']}/confirm", {}).status == 200
    busy = ask(house, "POST", f"plans/{second['id']}/confirm", {})
    assert busy.status == 412
    cancelled = ask(house, "DELETE", f"plans/{first['id']}")
    assert (cancelled.status, cancelled.body["state"]) == (200, "cancelled")
    assert set(Move.objects.values_list("state", flat=True)) == {MoveState.CANCELLED}
    assert ask(house, "DELETE", f"plans/{first['id']}").status == 400
    assert ask(house, "POST", f"plans/{second['id']}/confirm", {}).status == 200


def test_a_drain_is_a_plan_whichever_way_it_is_asked_for(house: House, said: Cluster) -> None:
    describe(said, on_three())
    token = house.credentials[Standing.OPERATOR]
    assert call("POST", "/v1/cluster/brokers/2/drain", {}, token=token, tenant=house.tenant).status == 202
    (plan,) = PlacementPlan.objects.all()
    assert (plan.kind, plan.broker, plan.state) == ("drain", 2, "running")
    assert Move.objects.filter(plan=plan.public_id, cause="drain").count() == 12
    assert call("DELETE", "/v1/cluster/brokers/2/drain", token=token, tenant=house.tenant).status == 202
    plan.refresh_from_db()
    assert plan.state == "cancelled"

    again = made(house, kind="drain", broker=2)
    assert ask(house, "POST", f"plans/{again['id']}/confirm", {}).status == 200
    order = queries.order_of(2)
    assert order is not None and order.use == "drain"
    assert ask(house, "DELETE", f"plans/{again['id']}").status == 200
    order.refresh_from_db()
    assert order.use == "serve"


def test_of_two_who_confirm_at_once_one_is_refused(house: House, said: Cluster) -> None:
    describe(said, on_three())
    first, second = made(house, kind="drain", broker=2), made(house, kind="drain", broker=2)
    drafts = [queries.plan(one["id"]) for one in (first, second)]
    assert ask(house, "POST", f"plans/{first['id']}/confirm", {}).status == 200
    with pytest.raises(InvalidRequest, match="only a draft is confirmed"):
        plan_actions.confirm(ACTOR, drafts[0], replicas=12)
    with pytest.raises(PreconditionFailed, match="is moving; make another plan"):
        plan_actions.confirm(ACTOR, drafts[1], replicas=12)
    assert Move.objects.count() == 12
    assert ask(house, "DELETE", f"plans/{first['id']}").status == 200
    with pytest.raises(InvalidRequest, match="it is cancelled, only a draft"):
        plan_actions.confirm(ACTOR, drafts[0], replicas=12)
    assert Move.objects.count() == 12


def test_a_drain_confirmed_while_it_is_cancelled_is_taken_back_whole(house: House, said: Cluster) -> None:
    describe(said, on_three())
    plan = made(house, kind="drain", broker=2)
    as_draft = queries.plan(plan["id"])
    assert ask(house, "POST", f"plans/{plan['id']}/confirm", {}).status == 200
    planning.cancel(ACTOR, as_draft)
    order = queries.order_of(2)
    assert order is not None and order.use == "serve"
    driving.drive()
    assert set(Move.objects.values_list("state", flat=True)) == {MoveState.CANCELLED}
    entry = AuditEntry.objects.get(action="placement.cancel")
    assert entry.after == {"kind": "drain", "moves_cancelled": 12}


def test_a_drain_that_ended_while_it_is_cancelled_stays(house: House, said: Cluster) -> None:
    describe(said, on_three())
    plan = made(house, kind="drain", broker=2)
    assert ask(house, "POST", f"plans/{plan['id']}/confirm", {}).status == 200
    as_running = queries.plan(plan["id"])
    PlacementPlan.objects.update(state=PlanState.DONE)
    with pytest.raises(InvalidRequest, match="it is done"):
        planning.cancel(ACTOR, as_running)
    order = queries.order_of(2)
    assert order is not None and order.use == "drain"


def test_a_drain_begins_beside_what_is_moving_and_leaves_that_for_later(house: House, said: Cluster) -> None:
    describe(said, on_three())
    said.described.partitions[0].target.extend([1, 2, 4])
    plan = made(house, kind="drain", broker=2)
    assert plan["move_count"] == 11
    assert 0 not in {move["partition"] for move in plan["moves"]}
    assert ask(house, "POST", f"plans/{plan['id']}/confirm", {}).status == 200


def test_a_report_that_says_the_same_is_noted_as_new(said: Cluster) -> None:
    report(said, replicas=[3])
    LoadReport.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    assert queries.loads() == {}
    report(said, replicas=[4])
    assert queries.loads()[1].replicas == 4


def test_a_tenants_topics_move_into_its_cell_and_new_ones_go_there(house: House, said: Cluster) -> None:
    tenant = house.tenant.public_id
    describe(said, [[1, 2], [2, 3], [3, 1]], brokers=6, tenant=tenant)
    assert ask(house, "POST", "cells", {"name": "north", "brokers": [3, 4], "hosts": ["h5"]}).status == 201
    taken = ask(house, "POST", "cells", {"name": "south", "brokers": [5, 6]})
    assert taken.status == 400 and "broker 5 is in cell 'north'" in taken.body["detail"]

    plan = made(house, kind="move_tenant", tenant=tenant, cell="north")
    assert all(set(move["target"]) <= {3, 4, 5} for move in plan["moves"]) and plan["move_count"] == 3
    seen = broker_client.describe().brokers
    Topic.objects.create(
        public_id="top_1", tenant=house.tenant, name="orders", topic_id="0" * 32, partitions=3, settings={},
        on_brokers=True,
    )  # fmt: skip
    assert cell_actions.brokers_for(tenant, seen) is None
    assert ask(house, "POST", f"plans/{plan['id']}/confirm", {}).status == 200
    assert cell_actions.brokers_for(tenant, seen) == (3, 4, 5)
    stale = made(house, kind="move_tenant", tenant=tenant, cell="")
    assert ask(house, "DELETE", f"plans/{plan['id']}").status == 200, "back in no cell"
    late = ask(house, "POST", f"plans/{stale['id']}/confirm", {})
    assert late.status == 412 and "is in another cell now" in late.body["detail"]
    plan = made(house, kind="move_tenant", tenant=tenant, cell="north")
    as_draft = queries.plan(plan["id"])
    assert ask(house, "POST", f"plans/{plan['id']}/confirm", {}).status == 200
    planning.cancel(ACTOR, as_draft)
    assert cell_actions.brokers_for(tenant, seen) is None
    plan = made(house, kind="move_tenant", tenant=tenant, cell="north")
    assert ask(house, "POST", f"plans/{plan['id']}/confirm", {}).status == 200
    assert cell_actions.brokers_for(tenant, seen) == (3, 4, 5)
    used = ask(house, "DELETE", "cells/north")
    assert used.status == 400 and tenant in used.body["detail"]
    assert ask(house, "DELETE", f"plans/{plan['id']}").status == 200
    assert cell_actions.brokers_for(tenant, seen) is None
    assert ask(house, "DELETE", "cells/north").status == 204


def test_a_new_tenant_is_given_one_of_the_cells(house: House, said: Cluster) -> None:
    describe(said, [[1, 2]], brokers=4)
    for name, brokers in (("a", [1, 2]), ("b", [3, 4])):
        assert ask(house, "POST", "cells", {"name": name, "brokers": brokers}).status == 201
    seen = broker_client.describe().brokers
    given = [cell_actions.brokers_for(f"tn_{n}", seen) for n in range(8)]
    assert sorted({cell for cell in given if cell is not None}) == [(1, 2), (3, 4)]
    assert given.count((1, 2)) == given.count((3, 4)) == 4
    assert given == [cell_actions.brokers_for(f"tn_{n}", seen) for n in range(8)]


def test_the_budget_holds_back_what_copies(house: House, said: Cluster) -> None:
    answer = ask(house, "PATCH", "balancer", {"bytes_per_s": 2**20, "moves_at_once": 5})
    assert (answer.status, answer.body["bytes_per_s"]) == (200, 2**20)
    assert plan_actions.spend(2**30)
    assert not plan_actions.spend(1), "a thousand seconds are taken"
    Balancer.objects.update(free_at=timezone.now() - timedelta(seconds=1))
    assert plan_actions.spend(1)


def report(said: Cluster, *, replicas: Sequence[int]) -> None:
    for number, count in enumerate(replicas, start=1):
        plan_actions.keep_loads(
            [
                view.BrokerLoadSeen(
                    broker=number, bytes_in_per_s=0, bytes_out_per_s=0, connections=0, leaders=4, replicas=count,
                    log_bytes=100, led_log_bytes=50, disk_used_bytes=1, disk_total_bytes=9, partitions=(),
                )
            ]
        )  # fmt: skip


def looked_long_ago() -> None:
    Balancer.objects.update(uneven_since=timezone.now() - timedelta(minutes=5))


@pytest.fixture
def reported(said: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Four brokers that report, one of which has joined."""
    describe(said, on_three())
    report(said, replicas=[12, 12, 12, 0])
    loads = list(queries.loads().values())
    monkeypatch.setattr(broker_client, "describe_loads", lambda seen: loads)
    return said


def test_the_balancer_advises_when_skew_stays_and_moves_only_when_it_is_on(
    house: House, reported: Cluster
) -> None:
    balancing.look()
    assert ask(house, "GET", "balancer").body["uneven_since"] is not None
    assert not PlacementPlan.objects.exists(), "it may pass by itself"
    looked_long_ago()
    balancing.look()
    balancing.look()
    (draft,) = PlacementPlan.objects.all()
    assert (draft.state, draft.automatic) == ("draft", True)
    assert not Move.objects.exists()

    assert ask(house, "PATCH", "balancer", {"mode": "on"}).status == 200
    balancing.look()
    running = PlacementPlan.objects.get(state="running")
    assert running.automatic and Move.objects.filter(plan=running.public_id).exists()
    balancing.look()
    assert PlacementPlan.objects.count() == 2
    assert ask(house, "GET", "balancer").body["waits"] == "a plan is running"
    entry = AuditEntry.objects.get(action="placement.confirm")
    assert (entry.actor_kind, entry.actor_id) == ("system", "balancer")


@pytest.mark.parametrize("trouble", ["away", "drained", "missing copy", "off"])
def test_the_balancer_waits_while_something_is_wrong(house: House, reported: Cluster, trouble: str) -> None:
    ask(house, "PATCH", "balancer", {"mode": "off" if trouble == "off" else "on"})
    balancing.look()
    looked_long_ago()
    if trouble == "away":
        reported.described.brokers[0].state = "fenced"
    elif trouble == "drained":
        reported.described.brokers[0].cordoned = True
    elif trouble == "missing copy":
        reported.described.partitions[3].in_sync.pop()
    balancing.look()
    assert not PlacementPlan.objects.exists()
    reported.described.brokers[0].state = "active"


def test_hot_partitions_are_shown_to_operators_and_of_their_own_to_tenants(
    house: House, said: Cluster
) -> None:
    other = make_house("other")
    for number, owner in enumerate((house, other)):
        Topic.objects.create(
            public_id=f"top_{number}", tenant=owner.tenant, name="orders", topic_id=f"{number:032x}", partitions=2,
            settings={},
        )  # fmt: skip
    partitions = tuple(
        view.PartitionLoadSeen(
            topic_id=f"{topic:032x}", partition=number, leads=True, log_bytes=1, bytes_in_per_s=rate,
            bytes_out_per_s=0, batches_per_s=1.0,
        )
        for topic, number, rate in ((0, 0, 9 * 2**20), (0, 1, 2**19), (1, 0, 2**21), (1, 1, 1000))
    )  # fmt: skip
    plan_actions.keep_loads(
        [
            view.BrokerLoadSeen(
                broker=1, bytes_in_per_s=12 * 2**20, bytes_out_per_s=0, connections=1, leaders=4, replicas=4,
                log_bytes=4, led_log_bytes=4, disk_used_bytes=1, disk_total_bytes=9, partitions=partitions,
            )
        ]
    )  # fmt: skip
    hot = ask(house, "GET", "hot").body["items"]
    assert [(one["tenant"], one["partition"]) for one in hot] == [
        (house.tenant.public_id, 0),
        (other.tenant.public_id, 0),
    ]
    assert (hot[0]["of_broker_percent"], hot[0]["of_tenant_percent"]) == (75, 94)
    own = call("GET", "/v1/hot-partitions", token=other.credentials[Standing.OWNER])
    assert [(one["topic"], one["partition"]) for one in own.body["items"]] == [("orders", 0)]
    assert "broker" not in own.body["items"][0]
    assert [one["reasons"] for one in hot] == [["of_broker", "of_tenant"], ["of_tenant"]]
    whole = call("GET", "/v1/topics/orders", token=other.credentials[Standing.OWNER])
    assert [(one["partition"], one["reasons"]) for one in whole.body["hot_partitions"]] == [
        (0, ["of_tenant"])
    ]


def test_a_partition_whose_producers_are_slowed_is_hot_also_in_a_report_of_a_release_before(
    house: House, said: Cluster
) -> None:
    fill_hot_partitions(house, said, range(1, 3))
    row = LoadReport.objects.get(broker=2)
    row.partitions = [[*row.partitions[0][:4], 0, 0, 1.0, 0.5]]
    row.save()
    found = {one["broker"]: one["reasons"] for one in ask(house, "GET", "hot").body["items"]}
    assert found[2] == ["slowed"] and "slowed" not in found[1]


def test_a_described_load_has_what_the_broker_says() -> None:
    said = pb.DescribeLoadResponse(broker=3, connections=2, log_bytes=7)
    said.partitions.add(topic_id=bytes(16), partition=1, leads=True, batches_per_1000_s=1_500)
    seen = answers.load_seen(said)
    assert (seen.broker, seen.connections, seen.log_bytes) == (3, 2, 7)
    assert (seen.partitions[0].partition, seen.partitions[0].batches_per_s) == (1, 1.5)
