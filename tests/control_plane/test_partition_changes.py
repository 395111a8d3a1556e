"""`partition_changes_per_hour`: what counts, what is refused and when it clears, and what is never refused."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from control_plane.api import metrics
from control_plane.audit.actor import Actor, ActorKind, system
from control_plane.audit_topics import actions as audit_topics
from control_plane.topics import actions as topics
from control_plane.topics import bin_actions
from control_plane.topics.models import Topic
from penstock.contract.errors import LimitExceeded, PenstockError, Throttled
from quotas import actions, partition_changes
from quotas.models import PartitionChanges
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.world import House, call, make_house, make_tenant

pytestmark = pytest.mark.django_db

ACTOR = Actor(kind=ActorKind.PERSON, id="ps_1")
LIMIT = "partition_changes_per_hour"


def tenant_with(most: int) -> Tenant:
    tenant = make_tenant("acme")
    return actions.set_limits(ACTOR, tenant, partition_changes_per_hour=most)


def create(tenant: Tenant, name: str, partitions: int = 1, actor: Any = ACTOR) -> None:
    topics.create_topic(actor, tenant, name=name, partitions=partitions, settings={})


def made(tenant: Tenant) -> int:
    return partition_changes.made_in_this_hour(tenant)


def test_partitions_that_come_and_go_and_changed_settings_count() -> None:
    tenant = tenant_with(100)
    create(tenant, "a", 3)
    assert made(tenant) == 3
    topics.update_topic(ACTOR, tenant, "a", partitions=5)
    assert made(tenant) == 5
    topics.update_topic(ACTOR, tenant, "a", partitions=6, settings={"retention_ms": 7_200_000})
    assert made(tenant) == 7
    topics.update_topic(ACTOR, tenant, "a", partitions=6, settings={"retention_ms": 7_200_000})
    assert made(tenant) == 7, "changing nothing is no change"
    topics.delete_topic(ACTOR, tenant, "a")
    assert made(tenant) == 13


def test_one_more_is_refused_with_limit_scope_use_and_when_it_clears_and_deleting_goes_on() -> None:
    tenant = tenant_with(4)
    create(tenant, "a", 3)
    with pytest.raises(Throttled) as refused:
        create(tenant, "b", 2)
    said, left_s = refused.value.message, refused.value.retry_after_s
    assert said.startswith(
        f"{LIMIT}: b needs 2 changes of topics and partitions, 3 of 4 were made by the tenant"
    )
    assert said.endswith(f"; clears in {left_s} s") and 3_500 < left_s <= 3_600
    assert refused.value.limit == LIMIT
    with pytest.raises(LimitExceeded, match=r"c needs 5 changes .*, at most 4 allowed"):
        create(tenant, "c", 5)
    create(tenant, "d")
    with pytest.raises(Throttled):
        topics.update_topic(ACTOR, tenant, "a", settings={"retention_ms": 7_200_000})
    topics.delete_topic(ACTOR, tenant, "a")
    bin_actions.remove_topic(ACTOR, tenant, "d")
    assert made(tenant) == 8, "what is deleted counts, and is never refused"


def test_a_new_hour_begins_when_the_one_before_is_over_and_a_clock_set_back_ends_it() -> None:
    tenant = tenant_with(2)
    create(tenant, "a", 2)
    row = PartitionChanges.objects.get(tenant=tenant)
    for began_at in (timezone.now() - timedelta(hours=1), timezone.now() + timedelta(minutes=5)):
        PartitionChanges.objects.filter(pk=row.pk).update(began_at=began_at, changes=2)
        assert made(tenant) == 0
    create(tenant, "b", 2)
    assert made(tenant) == 2


def test_each_topic_of_a_request_is_made_or_refused_on_its_own_in_order() -> None:
    tenant = tenant_with(4)
    asked = [topics.TopicAsked(name=name, partitions=2, settings={}) for name in "abc"]
    found = topics.create_topics(ACTOR, tenant, asked)
    assert [isinstance(one, PenstockError) for one in found] == [False, False, True]
    assert made(tenant) == 4


def test_what_the_service_and_operators_do_is_not_counted_and_others_have_their_own() -> None:
    tenant, other = tenant_with(2), make_tenant("other")
    create(tenant, "a", 5, actor=system("placement"))
    create(other, "a", 5)
    assert made(tenant) == 0 and made(other) == 5


def _post(house: House, name: str, partitions: int, query: str = "") -> Any:
    body = {"name": name, "partitions": partitions}
    return call("POST", f"/v1/topics{query}", body, token=house.credentials[Standing.OWNER])


def test_over_rest_a_dry_run_counts_nothing_and_a_refusal_is_counted_and_says_when_to_come_back() -> None:
    house = make_house("acme")
    actions.set_limits(ACTOR, house.tenant, partition_changes_per_hour=3)
    assert _post(house, "a", 2, "?dry_run=true").status == 200
    assert made(house.tenant) == 0
    assert _post(house, "a", 2).status in (201, 202)
    refused = _post(house, "b", 2)
    assert (refused.status, refused.body["code"], refused.body["limit"]) == (429, "throttled", LIMIT)
    assert 3_500 < int(refused.headers["Retry-After"]) <= 3_600
    many = {"topics": [{"name": "b", "partitions": 2}]}
    answer = call("POST", "/v1/topics:batch", many, token=house.credentials[Standing.OWNER])
    assert [one["status"] for one in answer.body["topics"]] == [429]
    labels = {"tenant": house.tenant.public_id, "limit": LIMIT}
    assert metrics.registry.get_sample_value("penstock_http_limit_refusals_total", labels) == 2


def test_a_restored_topic_is_a_change() -> None:
    tenant = tenant_with(1)
    create(tenant, "a", 2, actor=system("test"))
    Topic.objects.filter(name="a").update(
        binned_at=timezone.now(), purge_at=timezone.now() + timedelta(days=1)
    )
    public_id = Topic.objects.get(name="a").public_id
    bin_actions.restore_topic(ACTOR, tenant, public_id)
    assert made(tenant) == 1


def test_what_the_brokers_refuse_counts_no_more() -> None:
    tenant = tenant_with(10)
    create(tenant, "kept", 2)
    refused = topics.create_topic(ACTOR, tenant, name="refused", partitions=3, settings={})
    assert made(tenant) == 5
    assert topics.withdraw(ACTOR, refused, "no space")
    assert made(tenant) == 2
    before = Topic.objects.get(name="kept")
    changed = topics.update_topic(ACTOR, tenant, "kept", partitions=4, settings={"retention_ms": 7_200_000})
    assert made(tenant) == 5
    assert topics.take_back(ACTOR, changed, before, "no space")
    assert made(tenant) == 2
    until = timezone.now() + timedelta(days=1)
    Topic.objects.filter(name="kept").update(binned_at=timezone.now(), purge_at=until)
    binned = Topic.objects.get(name="kept")
    restored = bin_actions.restore_topic(ACTOR, tenant, binned.public_id)
    assert made(tenant) == 3
    assert bin_actions.take_back_restore(ACTOR, restored, binned, "no space")
    assert made(tenant) == 2


def test_what_was_counted_in_another_hour_or_never_is_taken_from_none() -> None:
    tenant = tenant_with(10)
    refused = topics.create_topic(ACTOR, tenant, name="refused", partitions=3, settings={})
    PartitionChanges.objects.filter(tenant=tenant).update(began_at=timezone.now(), changes=1)
    assert topics.withdraw(ACTOR, refused, "no space")
    assert made(tenant) == 1, "it was counted in the hour before"
    second = topics.create_topic(ACTOR, tenant, name="second", partitions=3, settings={})
    PartitionChanges.objects.filter(tenant=tenant).update(changes=1)
    assert topics.withdraw(ACTOR, second, "no space")
    assert made(tenant) == 0, "and never below nothing"
    uncounted = topics.create_topic(system("test"), tenant, name="third", partitions=3, settings={})
    partition_changes.note(tenant, 2)
    assert topics.withdraw(system("test"), uncounted, "no space")
    assert made(tenant) == 2


def test_the_topic_with_the_audit_log_counts_for_who_asks_for_it() -> None:
    tenant = tenant_with(2)
    audit_topics.change(ACTOR, tenant, state="on")
    assert made(tenant) == 1
    audit_topics.change(ACTOR, tenant, retention_ms=7_200_000)
    assert made(tenant) == 2
    audit_topics.change(ACTOR, tenant, state="off")
    audit_topics.change(ACTOR, tenant, state="on")
    assert made(tenant) == 2, "the topic was there"
    with pytest.raises(Throttled, match=f"{LIMIT}: __audit needs 1 changes"):
        audit_topics.change(ACTOR, tenant, retention_ms=10_800_000)
    audit_topics.delete(ACTOR, tenant)
    assert made(tenant) == 3, "deleting counts, and is never refused"
    with pytest.raises(Throttled):
        audit_topics.change(ACTOR, tenant, state="on")
    operator = Actor(kind=ActorKind.OPERATOR, id="op_1")
    audit_topics.change(operator, tenant, state="on")
    audit_topics.delete(operator, tenant)
    assert made(tenant) == 3
