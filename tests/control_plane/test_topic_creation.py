"""A topic is made in the request: what brokers refuse is undone, and what they cannot do yet is done later."""

import signal
import time
from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from control_plane.brokers import client as brokers
from control_plane.brokers.view import BrokerSeen
from control_plane.outbox import actions as outbox
from control_plane.outbox import conditions, delivery
from control_plane.topics import actions, creation
from control_plane.topics.models import Topic
from data_plane.contract.admin_client import AdminClient
from penstock.contract.errors import AlreadyExists, LimitExceeded
from tenants.actions import KIND_TENANT
from tenants.models import Tenant
from tests.control_plane.world import ACTOR, make_tenant
from tests.integration.brokers import Brokers
from tests.integration.brokers import brokers as started

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with started(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def admin(cluster: Brokers, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdminClient]:
    with AdminClient(addresses(cluster), cluster.operator) as made:
        monkeypatch.setattr(brokers, "client", lambda: made)
        yield made


def addresses(cluster: Brokers) -> list[str]:
    return [broker.internal_address for broker in cluster.spec.brokers]


def create(tenant: Tenant, name: str = "orders", **settings: int) -> Topic:
    return creation.create_topic(ACTOR, tenant, name=name, partitions=1, settings=settings)


def failure(topic: Topic) -> str:
    found = conditions.find(Topic.objects.get(pk=topic.pk).conditions, conditions.DELIVERY)
    assert found is not None
    return f"{found['reason']}: {found['message']}"


def is_on_brokers(topic: Topic) -> bool:
    return Topic.objects.get(pk=topic.pk).on_brokers


def test_a_topic_is_on_the_brokers_when_the_call_returns(admin: AdminClient) -> None:
    assert is_on_brokers(create(make_tenant("acme")))


def test_of_topics_made_one_after_the_other_only_the_first_asks_what_brokers_there_are(
    admin: AdminClient,
) -> None:
    tenant = make_tenant("busy")
    assert delivery.deliver(KIND_TENANT, tenant.public_id)
    create(tenant, "first")
    tenant.refresh_from_db()
    before = admin.sent.copy()
    for name in ("second", "third"):
        create(tenant, name)
    assert admin.sent - before == {"CreateTopic": 2, "DescribeCluster": 4}, "the two others are waited for"
    leaders = [broker.leaders for broker in admin.describe_cluster().brokers]
    assert max(leaders) - min(leaders) <= 1, "each counts for the choice of the next"


def test_making_a_topic_waits_twice_for_the_databases_disk(admin: AdminClient) -> None:
    """For the change, and for its delivery. The lease in between may be lost."""
    tenant = make_tenant("quick")
    assert delivery.deliver(KIND_TENANT, tenant.public_id)
    tenant.refresh_from_db()
    with CaptureQueriesContext(connection) as asked:
        create(tenant)
    transactions: list[list[str]] = []
    writes_alone = []
    for sql in (str(query["sql"]) for query in asked.captured_queries):
        if sql == "BEGIN":
            transactions.append([])
        elif transactions and transactions[-1][-1:] != ["COMMIT"]:
            transactions[-1].append(sql)
        elif not sql.startswith("SELECT"):
            writes_alone.append(sql)
    assert writes_alone == []
    assert ["SET LOCAL synchronous_commit TO OFF" in one for one in transactions] == [False, True, False]


def test_brokers_that_have_changed_since_they_were_described_are_asked_again(
    admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = BrokerSeen(
        id=99, state="active", client_address="", internal_address="", zone="", leaders=0, replicas=0
    )
    monkeypatch.setattr(brokers, "brokers_lately", lambda: [gone])
    tenant = make_tenant("late")
    assert is_on_brokers(create(tenant, "one-copy", replication=1, min_insync_replicas=1)), "99 is not known"
    assert is_on_brokers(create(tenant, "three")), "one broker is too few"


def test_a_topic_made_again_waits_until_the_deletion_of_the_first_has_reached_the_brokers(
    admin: AdminClient,
) -> None:
    tenant = make_tenant("again")
    first = create(tenant)
    actions.delete_topic(ACTOR, tenant, first.name)
    second = create(tenant)
    assert not is_on_brokers(second)
    assert failure(second).startswith("broker_unavailable: orders: the deletion of the topic")
    assert delivery.deliver(actions.KIND_TOPIC, first.public_id)
    assert outbox.due_now(actions.KIND_TOPIC, second.public_id)
    assert delivery.deliver(actions.KIND_TOPIC, second.public_id)
    assert is_on_brokers(second)


def test_a_name_that_brokers_give_to_a_topic_nobody_here_knows_is_refused(admin: AdminClient) -> None:
    tenant = make_tenant("strange")
    create(tenant, "known")
    seen = brokers.describe_topic(tenant=tenant.public_id, name="known")
    Topic.objects.all().delete()
    with pytest.raises(AlreadyExists):
        create(tenant, "known")
    assert not Topic.objects.exists(), "nothing is left behind"
    assert brokers.describe_topic(topic_id=seen.topic_id).name == "known"


def test_what_can_never_be_placed_is_undone(admin: AdminClient) -> None:
    tenant = make_tenant("small")
    create(tenant)
    with pytest.raises(LimitExceeded, match="at most 3 possible"):
        create(tenant, "more", replication=5)
    assert [topic.name for topic in Topic.objects.all()] == ["orders"]


def test_a_service_that_its_brokers_do_not_know_blames_no_tenant(
    cluster: Brokers, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AdminClient(addresses(cluster), cluster.issued("runner")) as stranger:
        monkeypatch.setattr(brokers, "client", lambda: stranger)
        topic = create(make_tenant("innocent"))
    assert not is_on_brokers(topic)
    assert failure(topic).startswith("unauthenticated: ")
    monkeypatch.setattr(brokers, "client", lambda: admin)
    assert outbox.due_now(actions.KIND_TOPIC, topic.public_id)
    assert delivery.deliver(actions.KIND_TOPIC, topic.public_id)
    assert is_on_brokers(topic)


def test_a_delivery_ends_before_its_lease(
    cluster: Brokers, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery_s = delivery.DELIVERY_S
    monkeypatch.setattr(delivery, "DELIVERY_S", 0.5)
    tenant = make_tenant("patient")
    topic = actions.create_topic(ACTOR, tenant, name="orders", partitions=1, settings={})
    cluster.signal(signal.SIGSTOP)
    began = time.monotonic()
    try:
        assert not delivery.deliver(actions.KIND_TOPIC, topic.public_id)
        took_s = time.monotonic() - began
    finally:
        cluster.signal(signal.SIGCONT)
    assert failure(topic).startswith("broker_unavailable: ")
    assert took_s < outbox.LEASE_S
    assert delivery_s < outbox.LEASE_S
