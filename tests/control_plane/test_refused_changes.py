"""A change that the brokers refuse for good is answered with their refusal and undone; one that they miss is kept."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from control_plane.access import actions as access
from control_plane.audit import queries as audit
from control_plane.brokers import client as brokers
from control_plane.outbox import actions as outbox
from control_plane.outbox import delivery
from control_plane.outbox.models import Delivery
from control_plane.rest import described
from control_plane.topics import actions as topics
from control_plane.topics import creation
from control_plane.topics.models import Topic
from data_plane.contract.admin_client import AdminClient
from data_plane.contract.broker_calls import Outrun
from local.provisioning import put_key
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.limits import PRODUCE_BYTES_PER_S_MAX
from penstock.contract.topic_settings import TopicSettings
from quotas.plans import HIGHEST
from quotas.queries import limits_of, quota_of
from tenants import actions as tenants
from tenants.credentials import new_key
from tenants.models import ApiKey, Tenant
from tests.control_plane.world import ACTOR, Answer, call, make_tenant
from tests.integration.brokers import Brokers
from tests.integration.brokers import brokers as started

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with started(tmp_path_factory.mktemp("cluster"), 1) as running:
        yield running


@pytest.fixture(autouse=True)
def admin(cluster: Brokers, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdminClient]:
    with AdminClient([broker.internal_address for broker in cluster.spec.brokers], cluster.operator) as made:
        monkeypatch.setattr(brokers, "client", lambda: made)
        yield made


@pytest.fixture
def tenant() -> Tenant:
    made = make_tenant("acme")
    assert delivery.deliver(tenants.KIND_TENANT, made.public_id)
    made.refresh_from_db()
    return made


@pytest.fixture
def key(tenant: Tenant) -> str:
    return access.create_key(ACTOR, tenant, name="app")[1].reveal()


@pytest.fixture
def topic(tenant: Tenant) -> Topic:
    one_copy = {"replication": 1, "min_insync_replicas": 1}
    made = creation.create_topic(ACTOR, tenant, name="orders", partitions=1, settings=one_copy)
    return Topic.objects.get(pk=made.pk)


@pytest.fixture
def operator() -> str:
    return tenants.create_operator(ACTOR, name="op", tenant=SYSTEM_TENANT)


def allow_partitions(admin: AdminClient, tenant: Tenant, number: int) -> None:
    """On the brokers alone, by hand."""
    admin.put_tenant(tenant.public_id, partitions_max=number)


def assert_refused(answer: Answer, status: int, code: str, detail: str) -> None:
    assert (answer.status, answer.body["code"]) == (status, code), answer.body
    assert detail in answer.body["detail"]


def delivery_condition(conditions: Any) -> str:
    return "".join(one["reason"] for one in conditions if one["type"] == "delivery")


def deliver_as_the_sweep_does(kind: str, object_id: str) -> bool:
    outbox.due_now(kind, object_id)
    return delivery.deliver(kind, object_id)


def actions_of(tenant: Tenant) -> list[str]:
    return [entry.action for entry in audit.entries(tenant.public_id)]


# -- topics ---------------------------------------------------------------------------------------------


def test_partitions_that_the_brokers_refuse_are_answered_so_and_taken_back(
    admin: AdminClient, tenant: Tenant, topic: Topic, key: str
) -> None:
    allow_partitions(admin, tenant, 2)
    change = {"partitions": 3, "settings": {"retention_ms": 3_600_000}}
    answer = call("PATCH", "/v1/topics/orders", change, token=key)
    assert_refused(answer, 422, "limit_exceeded", "partitions_max of the tenant is 2, 1 are used and 2 more")
    seen = call("GET", "/v1/topics/orders", token=key).body
    assert (seen["partitions"], seen["settings"]) == (1, topic.settings)
    assert delivery_condition(seen["conditions"]) == ""
    assert "topic.update_refused" in actions_of(tenant)
    assert deliver_as_the_sweep_does(topics.KIND_TOPIC, topic.public_id)
    on_brokers = brokers.describe_topic(topic_id=topic.topic_id)
    assert on_brokers.partitions == 1
    assert on_brokers.generation == Topic.objects.get(pk=topic.pk).delivered_generation == seen["generation"]
    assert call("PATCH", "/v1/topics/orders", {"partitions": 2}, token=key).status == 200


def test_settings_that_the_brokers_refuse_are_taken_back(
    topic: Topic, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "FIXED", ())
    answer = call(
        "PATCH", "/v1/topics/orders", {"settings": {"replication": 2, "durability": "replicated"}}, token=key
    )
    assert_refused(answer, 400, "invalid_request", "durability is fsync and cannot be changed")
    assert Topic.objects.get(pk=topic.pk).settings == topic.settings


def test_an_attempt_at_a_refused_change_that_comes_late_changes_nothing(
    admin: AdminClient, tenant: Tenant, topic: Topic, key: str
) -> None:
    allow_partitions(admin, tenant, 1)
    assert call("PATCH", "/v1/topics/orders", {"partitions": 2}, token=key).status == 422
    assert deliver_as_the_sweep_does(topics.KIND_TOPIC, topic.public_id)
    allow_partitions(admin, tenant, 10)
    with pytest.raises(Outrun):
        admin.update_topic(
            tenant.public_id,
            bytes.fromhex(topic.topic_id),
            TopicSettings.from_dict(topic.settings),
            [[1]],
            generation=topic.generation + 1,
        )
    assert brokers.describe_topic(topic_id=topic.topic_id).partitions == 1


def test_a_change_whose_process_died_before_it_was_taken_back_waits_with_the_refusal_as_its_condition(
    admin: AdminClient, tenant: Tenant, topic: Topic, key: str
) -> None:
    allow_partitions(admin, tenant, 1)
    topics.update_topic(ACTOR, tenant, "orders", partitions=2)  # and then SIGKILL
    assert not deliver_as_the_sweep_does(topics.KIND_TOPIC, topic.public_id)
    seen = call("GET", "/v1/topics/orders", token=key).body
    assert (seen["partitions"], delivery_condition(seen["conditions"])) == (2, "limit_exceeded")
    allow_partitions(admin, tenant, 2)
    assert deliver_as_the_sweep_does(topics.KIND_TOPIC, topic.public_id)
    seen = call("GET", "/v1/topics/orders", token=key).body
    assert (seen["delivered_generation"], seen["conditions"]) == (2, [])
    assert brokers.describe_topic(topic_id=topic.topic_id).partitions == 2


def test_a_refusal_of_an_earlier_change_takes_nothing_back_from_a_change_that_brokers_did_not_hear_of(
    cluster: Brokers, admin: AdminClient, tenant: Tenant, topic: Topic, key: str
) -> None:
    allow_partitions(admin, tenant, 1)
    topics.update_topic(ACTOR, tenant, "orders", partitions=2)
    assert not deliver_as_the_sweep_does(topics.KIND_TOPIC, topic.public_id)
    with cluster.paused():
        answer = call("PATCH", "/v1/topics/orders", {"settings": {"retention_ms": 3_600_000}}, token=key)
    assert answer.status == 202
    assert delivery_condition(answer.body["conditions"]) == "broker_unavailable"
    assert answer.body["settings"]["retention_ms"] == 3_600_000
    allow_partitions(admin, tenant, 2)
    assert deliver_as_the_sweep_does(topics.KIND_TOPIC, topic.public_id)
    assert (
        TopicSettings.from_dict(answer.body["settings"]).to_dict() == Topic.objects.get(pk=topic.pk).settings
    )


def test_a_change_that_somebody_delivers_now_or_that_was_changed_again_is_not_taken_back(
    admin: AdminClient, tenant: Tenant, topic: Topic
) -> None:
    allow_partitions(admin, tenant, 1)
    changed = topics.update_topic(ACTOR, tenant, "orders", partitions=2)
    claim = outbox.claim(topics.KIND_TOPIC, topic.public_id, timezone.now())
    assert claim is not None
    assert not topics.take_back(ACTOR, changed, topic, "refused")
    outbox.record_failed(claim, "limit_exceeded", "refused", timezone.now())
    again = topics.update_topic(ACTOR, tenant, "orders", settings={"retention_ms": 3_600_000})
    assert not topics.take_back(ACTOR, changed, topic, "refused"), "it is another's now"
    assert not topics.take_back(ACTOR, again, topic, "refused"), "two changes, and only one of them is meant"
    assert Topic.objects.get(pk=topic.pk).partitions == 2
    assert topics.take_back(ACTOR, again, changed, "refused")
    now = Topic.objects.get(pk=topic.pk)
    assert (now.partitions, now.settings, now.generation) == (2, topic.settings, again.generation + 1)


# -- keys -----------------------------------------------------------------------------------------------


def test_a_key_that_the_brokers_refuse_is_answered_so_and_not_left_behind(
    cluster: Brokers, admin: AdminClient, tenant: Tenant, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = new_key()
    put_key(cluster.directory, admin, taken, tenant=tenant.public_id, name="by hand")
    monkeypatch.setattr(tenants, "new_key", lambda: taken)
    answer = call("POST", "/v1/keys", {"name": "second", "topic_prefix": "o"}, token=key)
    assert_refused(answer, 409, "already_exists", "another credential has this id")
    assert taken.reveal() not in str(answer.body)
    assert not ApiKey.objects.filter(name="second").exists()
    assert not Delivery.objects.filter(object_id=f"key_{taken.key_id}").exists()
    assert "key.refused" in actions_of(tenant)


def test_a_new_key_that_brokers_do_not_hear_of_is_kept(cluster: Brokers, tenant: Tenant, key: str) -> None:
    with cluster.paused():
        answer = call("POST", "/v1/keys", {"name": "second"}, token=key)
    assert answer.status == 202
    assert deliver_as_the_sweep_does(tenants.KIND_KEY, answer.body["id"])


def test_a_key_that_is_being_delivered_or_is_on_the_brokers_is_not_withdrawn(tenant: Tenant) -> None:
    key, _ = access.create_key(ACTOR, tenant, name="app", topic_prefix="o")
    claim = outbox.claim(tenants.KIND_KEY, key.public_id, timezone.now())
    assert claim is not None
    assert not access.withdraw_key(ACTOR, key, "refused")
    outbox.record_failed(claim, "already_exists", "refused", timezone.now())
    assert deliver_as_the_sweep_does(tenants.KIND_KEY, key.public_id)
    assert not access.withdraw_key(ACTOR, key, "refused")
    assert ApiKey.objects.get(pk=key.pk).bindings.count() == 1, "nothing of it was removed"


# -- tenants --------------------------------------------------------------------------------------------


def test_limits_that_the_brokers_refuse_are_taken_back(
    tenant: Tenant, operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = limits_of(tenant)
    # The control plane knows the bound too: here it does not.
    monkeypatch.setattr(described, "taken", lambda request, shape: dict(request.data))
    monkeypatch.setitem(HIGHEST, "produce_bytes_per_s", 2 * PRODUCE_BYTES_PER_S_MAX)
    wanted = {"produce_bytes_per_s": PRODUCE_BYTES_PER_S_MAX + 1, "partitions_max": 5}
    answer = call("PATCH", "/v1/quotas", wanted, token=operator, tenant=tenant)
    assert_refused(answer, 400, "invalid_request", f"is above {PRODUCE_BYTES_PER_S_MAX}")
    assert limits_of(tenant) == before
    assert quota_of(tenant).partitions_max is None, "the plan's own limit holds again"
    assert "quota.refused" in actions_of(tenant)
    now = Tenant.objects.get(pk=tenant.pk)
    assert delivery_condition(now.conditions) == ""
    assert deliver_as_the_sweep_does(tenants.KIND_TENANT, tenant.public_id)
    assert call("PATCH", "/v1/quotas", {"partitions_max": 5}, token=operator, tenant=tenant).status == 200


def test_a_tenant_is_not_suspended_when_the_brokers_refuse_it(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one refusal of a suspension is that of the service's own tenant, which the control plane knows too."""
    monkeypatch.setattr(tenants, "check_not_the_service", lambda tenant: None)
    system = tenants.create_tenant(ACTOR, name="penstock-system", public_id=SYSTEM_TENANT)
    assert delivery.deliver(tenants.KIND_TENANT, SYSTEM_TENANT)
    answer = call("POST", f"/v1/tenants/{SYSTEM_TENANT}/suspend", token=operator)
    assert_refused(answer, 400, "invalid_request", "cannot be suspended")
    assert not Tenant.objects.get(pk=system.pk).suspended
    assert "tenant.suspend_refused" in actions_of(system)


def test_limits_that_brokers_do_not_hear_of_are_kept(cluster: Brokers, tenant: Tenant, operator: str) -> None:
    with cluster.paused():
        answer = call("PATCH", "/v1/quotas", {"partitions_max": 5}, token=operator, tenant=tenant)
    assert (answer.status, answer.body["partitions_max"]) == (202, 5)
    assert deliver_as_the_sweep_does(tenants.KIND_TENANT, tenant.public_id)
    assert limits_of(tenant).partitions_max == 5
