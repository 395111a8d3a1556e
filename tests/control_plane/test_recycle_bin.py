"""The recycle bin of topics: who goes in, what is free meanwhile, how it comes back, and when it is gone for good."""

import importlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from control_plane.audit.models import AuditEntry
from control_plane.brokers import client as brokers
from control_plane.brokers.view import ClusterView
from control_plane.outbox import in_request
from control_plane.outbox.models import Delivery
from control_plane.outbox.registry import Delivered
from control_plane.reconciliation import purging
from control_plane.topics import actions, bin_actions, observed, queries
from control_plane.topics.models import Topic
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from quotas.actions import set_limits
from tenants.actions import create_tenant
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, House, call, make_house

pytestmark = pytest.mark.django_db

CLUSTER = ClusterView(cluster_id="c", controller=1, revision=1, brokers=(), feature_level=2)


@pytest.fixture(autouse=True)
def level(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The feature level that the brokers say; no request waits for them."""
    said = [2]
    monkeypatch.setattr(brokers, "describe", lambda **asked: replace(CLUSTER, feature_level=said[0]))
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    return said


@pytest.fixture
def house() -> House:
    return make_house("acme")


@pytest.fixture
def tenant(house: House) -> Tenant:
    return house.tenant


def create(tenant: Tenant, name: str = "orders", partitions: int = 3) -> Topic:
    """A topic that the brokers have."""
    made = actions.create_topic(ACTOR, tenant, name=name, partitions=partitions, settings={})
    observed.note_delivered({made.public_id: Delivered(generation=1, revision=1)})
    made.refresh_from_db()
    return made


def binned(tenant: Tenant, name: str = "orders") -> Topic:
    create(tenant, name)
    return bin_actions.remove_topic(ACTOR, tenant, name)


def audited(tenant: Tenant) -> list[str]:
    rows = AuditEntry.objects.filter(tenant=tenant.public_id, action__startswith="topic.")
    return [entry.action for entry in rows.order_by("sequence")]


def generations(topic: Topic) -> list[int]:
    rows = Delivery.objects.filter(kind="topic", object_id=topic.public_id)
    return sorted(rows.values_list("generation", flat=True))


# -- into the bin ---------------------------------------------------------------------------------------


def test_a_deleted_topic_is_in_the_bin_for_the_days_of_the_plan_and_its_name_is_free(tenant: Tenant) -> None:
    before = create(tenant)
    topic = bin_actions.remove_topic(ACTOR, tenant, "orders")
    assert topic.binned_at is not None and topic.deleted_at is None
    assert topic.purge_at == topic.binned_at + timedelta(days=7)
    assert generations(topic) == [1, 2]
    with pytest.raises(NotFound):
        queries.topic(tenant, "orders")
    assert list(queries.binned_topics(tenant)) == [topic]
    second = create(tenant)
    assert second.topic_id != before.topic_id
    assert audited(tenant) == ["topic.create", "topic.bin", "topic.create"]
    assert list(queries.topics(tenant)) == [second]


def test_a_tenants_own_number_of_days_counts_and_none_is_no_bin(tenant: Tenant) -> None:
    set_limits(ACTOR, tenant, bin_days=1)
    topic = binned(tenant)
    assert topic.purge_at is not None and topic.binned_at is not None
    assert topic.purge_at - topic.binned_at == timedelta(days=1)
    set_limits(ACTOR, tenant, bin_days=0)
    gone = binned(tenant, "clicks")
    assert gone.deleted_at is not None and gone.binned_at is None and gone.purge_at is None
    topic.refresh_from_db()
    assert topic.deleted_at is None, "what is in the bin keeps its day"


def test_it_is_deleted_for_good_where_that_is_asked_for_or_nothing_could_be_kept(
    tenant: Tenant, level: list[int]
) -> None:
    create(tenant, "purged")
    assert bin_actions.remove_topic(ACTOR, tenant, "purged", purge=True).deleted_at is not None
    actions.create_topic(ACTOR, tenant, name="never-made", partitions=1, settings={})
    assert bin_actions.remove_topic(ACTOR, tenant, "never-made").deleted_at is not None
    level[0] = 1
    assert binned(tenant, "before-the-upgrade").deleted_at is not None
    assert not queries.binned_topics(tenant).exists()
    assert audited(tenant).count("topic.delete") == 3


def test_without_an_answer_of_the_brokers_nothing_is_lost(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**asked: object) -> ClusterView:
        from penstock.contract.errors import BrokerUnavailable

        raise BrokerUnavailable("no broker answers")

    monkeypatch.setattr(brokers, "describe", away)
    assert binned(tenant).binned_at is not None


def test_the_services_own_topics_stay() -> None:
    system = create_tenant(ACTOR, name="system", public_id=SYSTEM_TENANT)
    create(system, "__usage")
    with pytest.raises(InvalidRequest, match="the service's own topics stay"):
        bin_actions.remove_topic(ACTOR, system, "__usage")


def test_topics_in_the_bin_count_against_the_limits_and_the_refusal_says_so(tenant: Tenant) -> None:
    set_limits(ACTOR, tenant, partitions_max=4, topics_max=2)
    topic = binned(tenant)
    with pytest.raises(
        LimitExceeded,
        match=r"3 of 4 are used by the tenant; .*; topics in the recycle bin count, and 1 can be",
    ):
        create(tenant, "more", 2)
    create(tenant, "small", 1)
    set_limits(ACTOR, tenant, partitions_max=100)
    with pytest.raises(
        LimitExceeded,
        match=r"topics_max: third needs 1, 2 of 2 are used by the tenant; .*; topics in the recycle",
    ):
        create(tenant, "third", 1)
    bin_actions.purge_topic(ACTOR, tenant, topic.public_id)
    create(tenant, "third", 1)


# -- out of it ------------------------------------------------------------------------------------------


def test_a_topic_comes_back_as_it_was(tenant: Tenant) -> None:
    before = create(tenant)
    bin_actions.remove_topic(ACTOR, tenant, "orders")
    topic = bin_actions.restore_topic(ACTOR, tenant, before.public_id)
    assert (topic.name, topic.topic_id, topic.settings) == ("orders", before.topic_id, before.settings)
    assert topic.binned_at is None and topic.purge_at is None and topic.on_brokers
    assert queries.topic(tenant, "orders") == topic
    assert generations(topic) == [1, 2, 3]
    assert audited(tenant)[-1] == "topic.restore"
    with pytest.raises(NotFound):
        bin_actions.restore_topic(ACTOR, tenant, before.public_id)


def test_a_taken_name_is_refused_and_another_one_does(tenant: Tenant) -> None:
    topic = binned(tenant)
    create(tenant)
    with pytest.raises(AlreadyExists, match="'orders' exists: give another name"):
        bin_actions.restore_topic(ACTOR, tenant, topic.public_id)
    with pytest.raises(InvalidRequest, match="name: "):
        bin_actions.restore_topic(ACTOR, tenant, topic.public_id, name="a b")
    assert (
        bin_actions.restore_topic(ACTOR, tenant, topic.public_id, name="orders-before").name
        == "orders-before"
    )
    assert {row.name for row in queries.topics(tenant)} == {"orders", "orders-before"}


def test_what_the_brokers_refuse_to_restore_is_in_the_bin_again(tenant: Tenant) -> None:
    before = binned(tenant)
    restored = bin_actions.restore_topic(ACTOR, tenant, before.public_id, name="taken-there")
    assert bin_actions.take_back_restore(ACTOR, restored, before, "topic 'taken-there' exists")
    topic = queries.binned_topic(tenant, before.public_id)
    assert (topic.name, topic.purge_at, topic.generation) == ("orders", before.purge_at, 4)
    assert audited(tenant)[-1] == "topic.restore_refused"
    assert not bin_actions.take_back_restore(ACTOR, restored, before, "again")


def test_a_late_delivery_of_the_bin_does_not_make_a_topic_one_of_the_brokers(tenant: Tenant) -> None:
    topic = binned(tenant)
    Topic.objects.filter(pk=topic.pk).update(on_brokers=False)
    observed.note_delivered({topic.public_id: Delivered(generation=2, revision=1)})
    topic.refresh_from_db()
    assert not topic.on_brokers


# -- for good -------------------------------------------------------------------------------------------


def test_a_topic_is_deleted_for_good_when_its_time_is_over_and_not_before(tenant: Tenant) -> None:
    due, kept = binned(tenant), binned(tenant, "clicks")
    assert purging.empty_bins() == 0
    Topic.objects.filter(pk=due.pk).update(purge_at=timezone.now())
    assert purging.empty_bins() == 1
    due.refresh_from_db()
    assert due.deleted_at is not None and generations(due) == [1, 2, 3]
    assert list(queries.binned_topics(tenant)) == [kept]
    entry = AuditEntry.objects.filter(tenant=tenant.public_id).order_by("-sequence")[0]
    assert (entry.action, entry.actor_id) == ("topic.purge", "recycle-bin")
    assert purging.empty_bins() == 0


def test_a_topic_that_was_restored_meanwhile_is_not_purged(tenant: Tenant) -> None:
    topic = binned(tenant)
    Topic.objects.filter(pk=topic.pk).update(purge_at=timezone.now())
    (seen,) = queries.topics_to_purge()
    bin_actions.restore_topic(ACTOR, tenant, topic.public_id)
    assert not bin_actions.purge_due(ACTOR, seen)
    bin_actions.remove_topic(ACTOR, tenant, "orders")
    assert not bin_actions.purge_due(ACTOR, seen), "its time began anew"
    assert queries.binned_topics(tenant).count() == 1


# -- over REST ------------------------------------------------------------------------------------------


def ask(house: House, method: str, path: str, body: Any = None, standing: Standing = Standing.OWNER) -> Any:
    return call(method, path, body, token=house.credentials[standing])


def test_the_whole_way_over_rest(house: House) -> None:
    topic = create(house.tenant)
    removed = ask(house, "DELETE", "/v1/topics/orders")
    assert removed.status == 202 and removed.body["purge_at"], "no broker runs here"
    (listed,) = ask(house, "GET", "/v1/bin/topics").body["items"]
    assert (listed["id"], listed["name"], listed["purge_at"]) == (
        topic.public_id,
        "orders",
        removed.body["purge_at"],
    )
    path = f"/v1/bin/topics/{topic.public_id}"
    assert ask(house, "GET", path).body == listed
    create(house.tenant)
    taken = ask(house, "POST", f"{path}/restore", {})
    assert taken.status == 409 and "give another name" in taken.body["detail"]
    restored = ask(house, "POST", f"{path}/restore", {"name": "orders-before"})
    assert restored.status == 202 and restored.body["topic_id"] == topic.topic_id
    assert ask(house, "GET", path).status == 404
    assert ask(house, "DELETE", "/v1/topics/orders-before").body["purge_at"]
    assert ask(house, "DELETE", path).status == 202
    assert ask(house, "GET", "/v1/bin/topics").body["items"] == []
    assert ask(house, "DELETE", "/v1/topics/orders?purge=true").body["purge_at"] is None
    assert ask(house, "DELETE", "/v1/topics/orders?purge=maybe").status == 400


def test_a_key_with_scopes_sees_in_the_bin_what_it_may_describe(house: House) -> None:
    topic = binned(house.tenant)
    other = binned(house.tenant, "clicks")
    listed = ask(house, "GET", "/v1/bin/topics", standing=Standing.BOUND_KEY).body["items"]
    assert [item["id"] for item in listed] == [topic.public_id]
    assert ask(house, "GET", f"/v1/bin/topics/{other.public_id}", standing=Standing.BOUND_KEY).status == 404


# -- going back -----------------------------------------------------------------------------------------


def test_the_way_back_to_the_version_before_counts_what_is_in_the_bin_as_deleted(tenant: Tenant) -> None:
    topic, live = binned(tenant), create(tenant)
    migration = importlib.import_module("control_plane.topics.migrations.0003_recycle_bin")
    migration._empty_bins(apps, connection.schema_editor())
    topic.refresh_from_db()
    live.refresh_from_db()
    assert topic.deleted_at == topic.binned_at and topic.generation == 3
    assert live.deleted_at is None
