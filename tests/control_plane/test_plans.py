"""Plans: what is shipped and published, what a tenant on one may do, and a change that does not fit."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from control_plane.access import actions as access
from control_plane.access import list_actions
from control_plane.audit.models import AuditEntry
from control_plane.brokers import answers
from control_plane.brokers import client as brokers
from control_plane.brokers.view import TenantUseSeen
from control_plane.rate_counters import Counters, OwnStore
from control_plane.rest import throttles
from control_plane.rest.tenant_rates import tenant_rates
from control_plane.topics import actions as topics
from control_plane.topics import plan_use
from data_plane.contract import admin_pb2 as pb
from penstock.contract.errors import InvalidRequest, LimitExceeded, NotFound
from penstock.contract.limits import DAY_MS, GIB, MIB
from penstock.contract.topic_settings import UNLIMITED
from penstock.rules.access import Acl
from penstock.rules.service_levels import PREMIUM_1, STANDARD_1
from quotas import actions, queries
from quotas.models import PlanChange, Quota
from quotas.plans import DEFAULT, SHIPPED, STANDARD, Limits, Plan, level_from
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, call, make_house, make_tenant

pytestmark = pytest.mark.django_db


def on(tenant: Tenant, name: str) -> None:
    plan_use.set_limits(ACTOR, tenant, plan=queries.plan(name), seen=TenantUseSeen())


def create(tenant: Tenant, name: str, partitions: int = 1, **settings: int) -> None:
    topics.create_topic(ACTOR, tenant, name=name, partitions=partitions, settings=settings)


def test_a_tenant_begins_on_the_default_plan_and_others_are_shipped() -> None:
    tenant = make_tenant("acme")
    assert queries.plan_of(tenant) == DEFAULT and queries.limits_of(tenant) == STANDARD
    assert {plan.name for plan in SHIPPED} == {"free", "pay-as-you-go", "committed", "dedicated"}


def test_a_plan_bounds_topics_retention_and_messages_and_says_what_to_do() -> None:
    tenant = make_tenant("acme")
    on(tenant, "free")
    with pytest.raises(LimitExceeded, match=r"retention_ms_max: retention_ms of a would be no end, at most"):
        create(tenant, "a", retention_ms=UNLIMITED)
    with pytest.raises(LimitExceeded, match="message_bytes_max: max_message_bytes of a would be 2097152"):
        create(tenant, "a", max_message_bytes=2 * MIB)
    for number in range(10):
        create(tenant, f"topic-{number}")
    with pytest.raises(LimitExceeded, match="topics_max: one-more needs 1, 10 of 10 are used"):
        create(tenant, "one-more")
    with pytest.raises(LimitExceeded, match="retention_ms_max"):
        topics.update_topic(ACTOR, tenant, "topic-1", settings={"retention_ms": 8 * DAY_MS})
    topics.update_topic(ACTOR, tenant, "topic-1", settings={"retention_ms": DAY_MS})


def test_many_topics_of_one_request_use_the_limit_up_in_their_order() -> None:
    tenant = make_tenant("acme")
    actions.set_limits(ACTOR, tenant, topics_max=2)
    asked = [topics.TopicAsked(name=f"t{number}", partitions=1, settings={}) for number in range(3)]
    made = topics.create_topics(ACTOR, tenant, asked)
    assert [isinstance(one, LimitExceeded) for one in made] == [False, False, True]


def test_what_a_topic_has_already_may_stay_where_a_limit_became_smaller() -> None:
    tenant = make_tenant("acme")
    create(tenant, "old", retention_ms=UNLIMITED)
    actions.set_limits(ACTOR, tenant, retention_ms_max=DAY_MS)
    topics.update_topic(ACTOR, tenant, "old", partitions=2)


def test_a_plan_below_what_is_used_is_refused_by_name_and_changes_nothing() -> None:
    tenant = make_tenant("acme")
    create(tenant, "wide", partitions=31)
    create(tenant, "kept", retention_ms=UNLIMITED)
    with pytest.raises(LimitExceeded) as refused:
        on(tenant, "free")
    said = refused.value.message
    assert "plan free (version 1) is below what is used" in said
    assert "partitions_max: 32 used, at most 30 allowed" in said
    assert "retention_ms_max: topic kept keeps its messages without an end" in said
    assert "topics_max" not in said
    assert queries.plan_of(tenant) == DEFAULT
    compared = plan_use.compared(tenant, queries.plan("free").limits, TenantUseSeen())
    assert [use.name for use in compared if use.refused] == ["partitions_max", "retention_ms_max"]


def test_a_limit_of_the_tenants_own_stands_above_the_plan_until_another_plan_comes() -> None:
    tenant = make_tenant("acme")
    on(tenant, "committed")
    actions.set_limits(ACTOR, tenant, partitions_max=7)
    assert queries.limits_of(tenant).partitions_max == 7
    assert queries.limits_of(tenant).produce_bytes_per_s == 256 * MIB
    plan_use.set_limits(ACTOR, tenant, plan=queries.plan("dedicated"), seen=TenantUseSeen(), topics_max=3)
    assert queries.limits_of(tenant) == Limits(
        produce_bytes_per_s=0, partitions_max=0, topics_max=3, bin_days=30
    )
    assert AuditEntry.objects.filter(tenant=tenant.public_id, action="quota.set").count() == 3


def test_a_version_of_a_plan_never_changes_and_tenants_stay_on_theirs() -> None:
    tenant = make_tenant("acme")
    wanted = Limits(produce_bytes_per_s=5 * MIB, partitions_max=50)
    first = actions.publish_plan(ACTOR, "start-up", wanted)
    assert first == Plan(name="start-up", version=1, limits=wanted)
    assert actions.publish_plan(ACTOR, "start-up", wanted) == first, "nothing is new"
    on(tenant, "start-up")
    second = actions.publish_plan(ACTOR, "start-up", Limits(produce_bytes_per_s=MIB, partitions_max=5))
    assert second.version == 2 and queries.plan("start-up") == second
    assert queries.plan_of(tenant) == first and queries.limits_of(tenant) == wanted
    assert actions.publish_plan(ACTOR, "free", wanted).version == 2, "after the one that is shipped"
    with pytest.raises(NotFound, match="plan 'fre' does not exist; there are: committed, dedicated, free"):
        queries.plan("fre")
    with pytest.raises(InvalidRequest, match="partitions_max: -1"):
        Limits(produce_bytes_per_s=0, partitions_max=-1)


def test_a_plan_has_a_service_level_and_another_one_is_another_version() -> None:
    limits = Limits(produce_bytes_per_s=MIB, partitions_max=5)
    tiers = [{"below_parts": 995_000_000, "basis_points": 500}]
    own = level_from("quick", {"target_parts": 995_000_000, "tiers": tiers})
    assert actions.publish_plan(ACTOR, "quick", limits).service_level == STANDARD_1
    second = actions.publish_plan(ACTOR, "quick", limits, own)
    assert (second.version, second.service_level.name, second.service_level.version) == (2, "plan/quick", 2)
    assert actions.publish_plan(ACTOR, "quick", limits, own) == second == queries.plan("quick"), (
        "nothing is new"
    )
    third = actions.publish_plan(ACTOR, "quick", limits, level_from("quick", {"name": "premium"}))
    assert (third.version, third.service_level) == (3, PREMIUM_1)
    for wrong, text in (
        ({"name": "gold"}, "a name alone of standard, premium required"),
        ({"name": "premium", "target_parts": 1}, "a name alone of"),
        ({"target_parts": 995_000_000}, "service_level: "),
        ({"target_parts": 5, "tiers": tiers}, "below the target"),
        ({"target_parts": 995_000_000, "tiers": tiers, "latency_ms": 3}, "a latency that is counted"),
        ({"target_parts": 995_000_000, "tiers": tiers, "version": 0}, "service_level: "),
        ({"target_parts": True, "tiers": []}, "service_level: "),
    ):
        with pytest.raises(InvalidRequest, match=text):
            level_from("quick", wrong)


def test_a_month_has_the_level_of_the_plan_at_its_beginning() -> None:
    tenant = make_tenant("acme")
    actions.publish_plan(ACTOR, "quick", STANDARD, level_from("quick", {"name": "premium"}))
    on(tenant, "quick")
    on(tenant, "quick")
    change = PlanChange.objects.get()
    assert queries.service_level_at(tenant, change.changed_at - timedelta(microseconds=1)) == STANDARD_1
    assert queries.service_level_at(tenant, change.changed_at) == PREMIUM_1
    on(tenant, "committed")
    later = timezone.now() + timedelta(days=1)
    assert queries.service_level_at(tenant, later) == STANDARD_1
    assert queries.service_level_at(tenant, change.changed_at) == PREMIUM_1, "what held, held"


def test_a_refused_change_of_plan_is_taken_back_whole() -> None:
    tenant = make_tenant("acme")
    actions.set_limits(ACTOR, tenant, partitions_max=7)
    before, quota = Tenant.objects.get(pk=tenant.pk), queries.quota_of(tenant)
    changed = plan_use.set_limits(
        ACTOR, before, plan=queries.plan("committed"), seen=TenantUseSeen(), topics_max=3
    )
    assert actions.take_back(ACTOR, changed, before, quota, "the brokers said no")
    stored = Quota.objects.get(tenant=tenant)
    assert (stored.plan, stored.partitions_max, stored.topics_max) == ("", 7, None)
    assert [(one.plan, one.plan_version) for one in PlanChange.objects.order_by("pk")] == [
        ("", 0),
        ("committed", 1),
    ]


def test_over_rest_a_tenant_previews_and_an_operator_changes() -> None:
    house = make_house("acme")
    owner, operator = house.credentials[Standing.OWNER], house.credentials[Standing.OPERATOR]
    create(house.tenant, "wide", partitions=31)
    seen = call("GET", "/v1/quotas/preview?plan=free", token=owner)
    assert seen.status == 200 and not seen.body["fits"]
    (partitions,) = [use for use in seen.body["limits"] if use["limit"] == "partitions_max"]
    assert (partitions["present"], partitions["wanted"], partitions["used"]) == (1_000, 30, 31)
    assert call("GET", "/v1/quotas/preview?plan=nothing", token=owner).status == 404
    assert call("GET", "/v1/quotas/preview?plan=free&version=x", token=owner).status == 400
    refused = call("PATCH", "/v1/quotas", {"plan": "free"}, token=operator, tenant=house.tenant)
    assert refused.body["code"] == "limit_exceeded" and "31 used, at most 30" in refused.body["detail"]
    alone = call("PATCH", "/v1/quotas", {"plan_version": 1}, token=operator, tenant=house.tenant)
    assert alone.status == 400
    shown = call("GET", "/v1/quotas", token=owner).body
    assert (shown["plan"], shown["plan_version"], shown["partitions_max"]) == ("pay-as-you-go", 1, 1_000)
    body = {"name": "start-up", "limits": {"partitions_max": 50}}
    made = call("POST", "/v1/plans", body, token=operator)
    assert made.status == 201 and made.body["version"] == 1
    assert call("POST", "/v1/plans", body, token=owner).status == 403
    listed = call("GET", "/v1/plans", token=owner).body["items"]
    assert [plan["name"] for plan in listed][-1] == "start-up" and len(listed) == 5


def test_service_accounts_are_bounded_by_the_plan_and_those_deleted_make_room() -> None:
    house = make_house("acme")
    owner = house.credentials[Standing.OWNER]
    actions.set_limits(ACTOR, house.tenant, service_accounts_max=1)
    made = call("POST", "/v1/service-accounts", {"name": "first"}, token=owner)
    assert made.status == 201
    refused = call("POST", "/v1/service-accounts", {"name": "second"}, token=owner)
    assert (refused.status, refused.body["code"]) == (422, "limit_exceeded")
    assert "service_accounts_max: second needs 1, 1 of 1 are used" in refused.body["detail"]
    assert call("DELETE", f"/v1/service-accounts/{made.body['id']}", token=owner).status == 204
    assert call("POST", "/v1/service-accounts", {"name": "second"}, token=owner).status == 201


def test_valid_keys_are_bounded_by_the_plan_and_only_an_exchange_at_once_needs_no_room() -> None:
    house = make_house("acme")
    owner = house.credentials[Standing.OWNER]
    actions.set_limits(ACTOR, house.tenant, keys_max=1)
    made = call("POST", "/v1/keys", {"name": "first"}, token=owner)
    assert made.status == 202
    refused = call("POST", "/v1/keys", {"name": "second"}, token=owner)
    assert (refused.status, refused.body["code"]) == (422, "limit_exceeded")
    assert "keys_max: a key needs 1, 1 of 1 are used" in refused.body["detail"]
    access.create_key(ACTOR, house.tenant, name="console", within_service=True)
    assert plan_use.uses(house.tenant, TenantUseSeen())["keys_max"] == 1, (
        "the console's own key is not the tenant's"
    )
    address = f"/v1/keys/{made.body['id']}/rotate"
    assert call("POST", address, {"overlap_s": 60}, token=owner).body["code"] == "limit_exceeded"
    exchanged = call("POST", address, {"overlap_s": 0}, token=owner)
    assert exchanged.status == 202, "the old key has ended"
    assert plan_use.uses(house.tenant, TenantUseSeen())["keys_max"] == 1


def test_a_revoked_key_makes_room_for_another_one() -> None:
    house = make_house("acme")
    owner = house.credentials[Standing.OWNER]
    actions.set_limits(ACTOR, house.tenant, keys_max=1)
    made = call("POST", "/v1/keys", {"name": "first"}, token=owner)
    assert call("POST", "/v1/keys", {"name": "second"}, token=owner).status == 422
    call("DELETE", f"/v1/keys/{made.body['id']}", token=owner)
    assert call("POST", "/v1/keys", {"name": "second"}, token=owner).status == 202


def test_a_plan_below_the_accounts_and_keys_in_use_is_refused_by_name() -> None:
    house = make_house("acme")
    owner = house.credentials[Standing.OWNER]
    for number in range(2):
        assert call("POST", "/v1/keys", {"name": f"key-{number}"}, token=owner).status == 202
        assert call("POST", "/v1/service-accounts", {"name": f"sa-{number}"}, token=owner).status == 201
    wanted = Limits(produce_bytes_per_s=0, partitions_max=0, service_accounts_max=1, keys_max=1)
    small = actions.publish_plan(ACTOR, "small", wanted)
    with pytest.raises(LimitExceeded) as refused:
        plan_use.set_limits(ACTOR, house.tenant, plan=small, seen=TenantUseSeen())
    assert "service_accounts_max: 2 used, at most 1 allowed" in refused.value.message
    assert "keys_max: 2 used, at most 1 allowed" in refused.value.message
    with pytest.raises(InvalidRequest, match="keys_max: -1 is not within"):
        actions.set_limits(ACTOR, house.tenant, keys_max=-1)


def test_a_tenants_rest_calls_are_bounded_over_all_its_callers_and_the_answer_says_when_it_clears() -> None:
    house, other = make_house("acme"), make_house("globex")
    owner, member = house.credentials[Standing.OWNER], house.credentials[Standing.KEY]
    operator = house.credentials[Standing.OPERATOR]
    body = {"rest_calls_per_s": 3}
    assert call("PATCH", "/v1/quotas", body, token=operator, tenant=house.tenant).status in (200, 202)
    tenant_rates.forget_all()
    refused = _refused_call(owner, member)
    assert refused.headers["Retry-After"] == "1" and refused.body["code"] == "throttled"
    assert refused.body["limit"] == "rest_calls_per_s"
    said = (
        f"rest_calls_per_s of tenant {house.tenant.public_id} is 3 a second, and 3 were made; clears in 1 s"
    )
    assert said in refused.body["detail"]
    assert call("GET", "/v1/topics", token=other.credentials[Standing.OWNER]).status == 200
    for _ in range(4):
        assert call("GET", "/v1/quotas", token=owner).body["rest_calls_per_s"] == 3, (
            "it can be read all the same"
        )
        assert call("GET", "/v1/topics", token=operator, tenant=house.tenant).status == 200
    body = {"rest_calls_per_s": 0}
    assert call("PATCH", "/v1/quotas", body, token=operator, tenant=house.tenant).status in (200, 202)
    tenant_rates.forget_all()
    assert {call("GET", "/v1/topics", token=owner).status for _ in range(8)} == {200}


def test_what_a_key_may_not_do_uses_up_none_of_its_tenants_calls_and_a_key_can_be_revoked() -> None:
    house = make_house("acme")
    owner, bound = house.credentials[Standing.OWNER], house.credentials[Standing.BOUND_KEY]
    made = call("POST", "/v1/keys", {"name": "leaked"}, token=owner).body
    actions.set_limits(ACTOR, house.tenant, rest_calls_per_s=1)
    tenant_rates.forget_all()
    assert {call("GET", "/v1/audit", token=bound).status for _ in range(5)} == {403}
    _refused_call(owner)
    assert call("DELETE", f"/v1/keys/{made['id']}", token=owner).status in (200, 202, 204)


def _refused_call(*tokens: str) -> Any:
    """The first of many calls that is refused, by turns with each token; they all end within a few seconds."""
    for number in range(200):
        answer = call("GET", "/v1/topics", token=tokens[number % len(tokens)])
        if answer.status == 429:
            return answer
        assert answer.status == 200
    raise AssertionError("200 calls were let in")


def test_the_limit_of_rest_calls_costs_no_query_once_it_is_known() -> None:
    house = make_house("acme")
    owner = house.credentials[Standing.OWNER]
    actions.set_limits(ACTOR, house.tenant, rest_calls_per_s=0)
    call("GET", "/v1/topics", token=owner)
    with CaptureQueriesContext(connection) as without:
        call("GET", "/v1/topics", token=owner)
    actions.set_limits(ACTOR, house.tenant, rest_calls_per_s=1_000)
    tenant_rates.forget_all()
    call("GET", "/v1/topics", token=owner)
    with CaptureQueriesContext(connection) as limited:
        call("GET", "/v1/topics", token=owner)
    assert len(limited) == len(without)


RATES = {
    "requests_per_s": 300,
    "connection_attempts_per_s": 5,
    "rate_burst_ms": 2_000,
    "rate_floor_percent": 9,
    "broker_processor_ms_per_s": 150,
}


def test_burst_and_floor_are_of_a_plan_version_and_a_tenants_own_stand_beside_it() -> None:
    house = make_house("acme")
    operator = house.credentials[Standing.OPERATOR]
    published = call("POST", "/v1/plans", {"name": "bursty", "limits": RATES}, token=operator)
    assert published.status == 201 and {name: published.body["limits"][name] for name in RATES} == RATES
    previewed = call("GET", "/v1/quotas/preview?plan=bursty", token=house.credentials[Standing.OWNER])
    seen = {one["limit"]: (one["wanted"], one["used"], one["refused"]) for one in previewed.body["limits"]}
    assert {name: seen[name] for name in RATES} == {name: (value, None, "") for name, value in RATES.items()}
    body = {"plan": "bursty", "rate_burst_ms": 4_000}
    answer = call("PATCH", "/v1/quotas", body, token=operator, tenant=house.tenant)
    assert answer.status in (200, 202), answer.body
    shown = call("GET", "/v1/quotas", token=house.credentials[Standing.OWNER]).body
    assert {name: shown[name] for name in RATES} == RATES | {"rate_burst_ms": 4_000}


@pytest.mark.parametrize(
    ("limit", "highest"),
    [
        ("requests_per_s", 1_000_000),
        ("connection_attempts_per_s", 10_000),
        ("rate_burst_ms", 60_000),
        ("rate_floor_percent", 10),
        ("broker_processor_ms_per_s", 10_000),
    ],
)
def test_a_plan_cannot_say_what_brokers_refuse(limit: str, highest: int) -> None:
    Limits(produce_bytes_per_s=0, partitions_max=0, **{limit: highest})
    with pytest.raises(InvalidRequest, match=f"{limit}: {highest + 1} is not within 0 to {highest}"):
        Limits(produce_bytes_per_s=0, partitions_max=0, **{limit: highest + 1})


def test_a_plan_below_what_brokers_say_is_previewed_and_refused_and_what_they_do_not_say_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = make_house("acme")
    owner, operator = house.credentials[Standing.OWNER], house.credentials[Standing.OPERATOR]
    seen = TenantUseSeen(connections=101, groups=21, storage_bytes=6 * GIB)
    monkeypatch.setattr(brokers, "tenant_use", lambda tenant: seen)
    preview = call("GET", "/v1/quotas/preview?plan=free", token=owner).body
    refused = {use["limit"]: use["refused"] for use in preview["limits"] if use["refused"]}
    assert refused == {
        "groups_max": "groups_max: 21 used, at most 20 allowed",
        "storage_bytes_max": f"storage_bytes_max: {6 * GIB} used, at most {5 * GIB} allowed",
    }
    shown = {use["limit"]: (use["wanted"], use["used"]) for use in preview["limits"]}
    assert shown["connections_max"] == (100, 101), "they end by themselves: shown, and no reason to refuse"
    answer = call("PATCH", "/v1/quotas", {"plan": "free"}, token=operator, tenant=house.tenant)
    assert answer.status == 422 and all(text in answer.body["detail"] for text in refused.values())
    with_more = {"plan": "free", "groups_max": 30, "storage_bytes_max": 7 * GIB}
    assert call("PATCH", "/v1/quotas", with_more, token=operator, tenant=house.tenant).status in (200, 202)
    seen = TenantUseSeen()
    now = call("GET", "/v1/quotas/preview", token=owner).body
    known = {use["limit"]: (use["present"], use["wanted"], use["used"]) for use in now["limits"]}
    assert now["plan"] == "free" and now["fits"]
    assert known["storage_bytes_max"] == (7 * GIB, 7 * GIB, None), "unknown is not nothing"
    assert known["topics_max"] == (10, 10, 0)
    assert call("GET", "/v1/quotas/preview?version=1", token=owner).status == 400
    assert call("PATCH", "/v1/quotas", {"plan": "free"}, token=operator, tenant=house.tenant).status in (
        200,
        202,
    )


def test_brokers_that_are_silent_or_have_no_leader_make_a_use_unknown() -> None:
    use = pb.DescribeTenantUseResponse(connections=3, groups=2, storage_bytes=7)
    assert answers.tenant_use_seen(use) == TenantUseSeen(connections=3, groups=2, storage_bytes=7)
    use.leaderless = 1
    assert answers.tenant_use_seen(use) == TenantUseSeen(connections=3)
    use.silent.append(2)
    assert answers.tenant_use_seen(use) == TenantUseSeen()


def test_a_limit_of_its_own_below_what_a_tenant_uses_is_refused_and_a_higher_one_may_still_be_below() -> None:
    house = make_house("acme")
    operator = house.credentials[Standing.OPERATOR]
    create(house.tenant, "wide", partitions=31)
    create(house.tenant, "kept", retention_ms=UNLIMITED)
    below = {"partitions_max": 31, "retention_ms_max": DAY_MS, "topics_max": 2}
    refused = call("PATCH", "/v1/quotas", below, token=operator, tenant=house.tenant)
    assert refused.status == 422 and refused.body["code"] == "limit_exceeded"
    assert f"a limit is below what tenant {house.tenant.public_id} uses" in refused.body["detail"]
    assert "partitions_max: 32 used, at most 31 allowed" in refused.body["detail"]
    assert "retention_ms_max: topic kept keeps its messages without an end" in refused.body["detail"]
    assert "topics_max" not in refused.body["detail"]
    assert queries.limits_of(house.tenant) == STANDARD, "nothing of it was set"
    actions.set_limits(ACTOR, house.tenant, partitions_max=10)
    for partitions_max in (20, 20, 32):
        body = {"partitions_max": partitions_max}
        assert call("PATCH", "/v1/quotas", body, token=operator, tenant=house.tenant).status in (200, 202)


def test_a_storage_limit_of_its_own_is_compared_with_what_brokers_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = make_house("acme")
    operator = house.credentials[Standing.OPERATOR]
    monkeypatch.setattr(brokers, "tenant_use", lambda tenant: TenantUseSeen(storage_bytes=6 * GIB))
    refused = call("PATCH", "/v1/quotas", {"storage_bytes_max": GIB}, token=operator, tenant=house.tenant)
    assert f"storage_bytes_max: {6 * GIB} used, at most {GIB} allowed" in refused.body["detail"]
    enough = {"storage_bytes_max": 6 * GIB}
    assert call("PATCH", "/v1/quotas", enough, token=operator, tenant=house.tenant).status in (200, 202)


def test_calls_of_rest_in_this_second_are_shown_and_refuse_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    house = make_house("acme")
    owner = house.credentials[Standing.OWNER]
    store = Counters(OwnStore(lambda: 0.0), lambda: 0.0)
    for user in (throttles, plan_use):
        monkeypatch.setattr(user, "counters", lambda: store)
    for _ in range(21):
        assert call("GET", "/v1/topics", token=owner).status == 200
    preview = call("GET", "/v1/quotas/preview?plan=free", token=owner).body
    (calls,) = [use for use in preview["limits"] if use["limit"] == "rest_calls_per_s"]
    assert (calls["wanted"], calls["used"], calls["refused"]) == (20, 22, ""), "with this one; they pass"
    actions.set_limits(ACTOR, house.tenant, rest_calls_per_s=0)
    (calls,) = [
        use
        for use in call("GET", "/v1/quotas/preview?plan=free", token=owner).body["limits"]
        if use["limit"] == "rest_calls_per_s"
    ]
    assert calls["used"] is None, "calls without a limit are not counted"


def test_a_preview_names_no_topic_that_the_access_list_hides_from_the_key() -> None:
    house = make_house("acme")
    owner = house.credentials[Standing.OWNER]
    create(house.tenant, "secret-layoffs", retention_ms=UNLIMITED)
    account = list_actions.create_account(ACTOR, house.tenant, name="ci")
    hides = Acl(
        effect="deny",
        principal=f"service_account:{account.public_id}",
        resource="topic",
        name="secret-",
        literal=False,
    )
    list_actions.add_acls(ACTOR, house.tenant, [hides])
    _, blind = access.create_key(ACTOR, house.tenant, name="till", account=account)
    said = {
        token: " ".join(
            use["refused"] for use in call("GET", "/v1/quotas/preview?plan=free", token=token).body["limits"]
        )
        for token in (owner, blind.reveal())
    }
    assert "topic secret-layoffs keeps its messages without an end" in said[owner]
    assert "a topic keeps its messages without an end" in said[blind.reveal()]
    assert "layoffs" not in said[blind.reveal()], "the access list hides the name from this key"
