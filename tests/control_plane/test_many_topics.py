"""Many topics in one request: each is made or refused on its own, and nothing that was committed is lost on the way."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from control_plane import celery
from control_plane.access import actions as access
from control_plane.audit import queries as audit
from control_plane.brokers import client as brokers
from control_plane.brokers.view import BrokerSeen
from control_plane.outbox import actions as outbox
from control_plane.outbox import delivery, tasks, wake_ups
from control_plane.outbox import queries as outbox_queries
from control_plane.outbox.models import Delivery
from control_plane.outbox.registry import batch_deliverer
from control_plane.reconciliation import deliverers
from control_plane.topics import actions, observed, queries
from control_plane.topics.actions import TopicAsked
from control_plane.topics.models import Topic
from data_plane.contract.admin_client import AdminClient
from penstock.contract.errors import InvalidRequest
from penstock.contract.limits import PARTITIONS_PER_TOPIC_MAX, TOPICS_PER_CALL_MAX
from quotas.actions import set_limits
from tenants.actions import KIND_TENANT
from tenants.models import Tenant
from tests.certificates import identity
from tests.control_plane.world import ACTOR, Answer, call, make_tenant
from tests.integration.brokers import Brokers
from tests.integration.brokers import brokers as started

pytestmark = [pytest.mark.processes, pytest.mark.django_db(transaction=True)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with started(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(autouse=True)
def admin(cluster: Brokers, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdminClient]:
    addresses = [broker.internal_address for broker in cluster.spec.brokers]
    with AdminClient(addresses, cluster.operator) as made:
        monkeypatch.setattr(brokers, "client", lambda: made)
        yield made


@pytest.fixture
def tenant() -> Tenant:
    made = make_tenant("acme")
    assert delivery.deliver(KIND_TENANT, made.public_id)
    made.refresh_from_db()
    return made


@pytest.fixture
def key(tenant: Tenant) -> str:
    return access.create_key(ACTOR, tenant, name="app")[1].reveal()


def asked(name: str, partitions: int = 1, **settings: Any) -> dict[str, Any]:
    return {"name": name, "partitions": partitions, "settings": settings}


def create(key: str, *topics: dict[str, Any], **headers: str) -> Answer:
    return call("POST", "/v1/topics:batch", {"topics": list(topics)}, token=key, **headers)


def statuses(answer: Answer) -> list[int]:
    assert answer.status == 207, answer.body
    for one in answer.body["topics"]:
        assert (one["topic"] is None) == (one["status"] >= 400) == (one["problem"] is not None), one
    return [one["status"] for one in answer.body["topics"]]


def details(answer: Answer) -> list[str]:
    return [one["problem"]["detail"] if one["problem"] else "" for one in answer.body["topics"]]


def on_brokers(admin: AdminClient, tenant: Tenant) -> dict[str, int]:
    topics = admin.describe_cluster(objects=True).topics
    return {topic.name: topic.partitions for topic in topics if topic.tenant == tenant.public_id}


def without_delivery(tenant: Tenant, *names: str) -> list[Topic]:
    """As of a process that died after its commit."""
    wanted = [TopicAsked(name=name, partitions=1, settings={}) for name in names]
    made = actions.create_topics(ACTOR, tenant, wanted)
    return [topic for topic in made if isinstance(topic, Topic)]


def test_topics_are_on_the_brokers_when_the_request_is_answered(
    admin: AdminClient, tenant: Tenant, key: str
) -> None:
    before = admin.sent.copy()
    answer = create(key, *(asked(f"topic-{number}", 1 + number % 3) for number in range(100)))
    assert statuses(answer) == [201] * 100
    assert [one["name"] for one in answer.body["topics"]] == [f"topic-{number}" for number in range(100)]
    assert on_brokers(admin, tenant) == {f"topic-{number}": 1 + number % 3 for number in range(100)}
    calls = admin.sent - before
    assert calls["CreateTopics"] == 1 and calls["CreateTopic"] == 0
    shown = call("GET", "/v1/topics/topic-7", token=key).body
    assert shown.pop("survives"), "said of one topic alone"
    assert shown.pop("hot_partitions") == [], "the same"
    made = answer.body["topics"][7]["topic"]
    assert made["delivered"] and {name: made[name] for name in shown} == shown


def test_topics_of_one_request_are_spread_over_the_brokers(
    admin: AdminClient, tenant: Tenant, key: str
) -> None:
    one_copy = {"replication": 1, "min_insync_replicas": 1}
    before = {broker.id: broker.leaders for broker in admin.describe_cluster().brokers}
    create(key, *(asked(f"topic-{number}", **one_copy) for number in range(60)))
    after = {broker.id: broker.leaders for broker in admin.describe_cluster().brokers}
    assert max(after.values()) - min(after.values()) <= max(1, max(before.values()) - min(before.values()))


def test_each_topic_is_refused_on_its_own(tenant: Tenant, key: str) -> None:
    assert statuses(create(key, asked("taken"))) == [201]
    other = make_tenant("other")
    actions.create_topic(ACTOR, other, name="orders", partitions=1, settings={})
    answer = create(
        key,
        asked("first"),
        asked("taken"),
        asked("a b"),
        asked("none", 0),
        asked("settings", retention=1),
        asked("copies", replication=5, min_insync_replicas=1),
        asked("twice"),
        asked("orders"),
        asked("twice", 2),
        asked("last"),
    )
    assert statuses(answer) == [201, 409, 400, 400, 400, 422, 400, 201, 400, 201]
    found = details(answer)
    assert found[1] == "topic 'taken' exists"
    assert found[2].startswith("name: ") and found[3].startswith("partitions: 0")
    assert found[4].startswith("retention: no such topic setting")
    assert found[5].startswith("replication: 5 copies need 5 brokers")
    assert found[6] == found[8] == "name: 'twice' stands 2 times in the request"
    assert {topic.name for topic in queries.topics(tenant)} == {"taken", "first", "orders", "last"}


def test_the_limit_of_partitions_is_used_up_in_order(admin: AdminClient, tenant: Tenant, key: str) -> None:
    set_limits(ACTOR, tenant, partitions_max=5)
    assert delivery.deliver(KIND_TENANT, tenant.public_id)
    answer = create(key, asked("a", 2), asked("b", 2), asked("c", 2), asked("d", 1), asked("e", 1))
    assert statuses(answer) == [201, 201, 422, 201, 422]
    assert details(answer)[2].startswith(
        "partitions_max: c needs 2, 4 of 5 are used by the tenant; delete a topic"
    )
    assert details(answer)[4].startswith("partitions_max: e needs 1, 5 of 5 are used")
    assert on_brokers(admin, tenant) == {"a": 2, "b": 2, "d": 1}


@pytest.mark.parametrize(
    ("topics", "status", "detail"),
    [
        ([], 400, "topics"),
        ([asked(f"t{number}") for number in range(TOPICS_PER_CALL_MAX + 1)], 400, "topics"),
        (
            [asked("a", PARTITIONS_PER_TOPIC_MAX), asked("b")],
            422,
            "topics: 10001 partitions together, 10000 possible in one request; send several",
        ),
        (
            [asked("a", PARTITIONS_PER_TOPIC_MAX), asked("b"), asked("c", -1)],
            422,
            "topics: 10001 partitions together, 10000 possible in one request; send several",
        ),
        ([asked("a"), {"name": "b", "partitions": "2"}], 400, "a whole number required"),
        ([asked("a"), {"name": "b", "copies": 2}], 400, "no such field"),
        ([asked("a"), "b"], 400, "topics"),
        ("a", 400, "topics"),
        (None, 400, "topics"),
    ],
)
def test_a_request_that_is_wrong_as_a_whole_makes_nothing(
    tenant: Tenant, key: str, topics: Any, status: int, detail: str
) -> None:
    answer = call("POST", "/v1/topics:batch", {"topics": topics}, token=key)
    assert answer.status == status and detail in answer.body["detail"], answer.body
    assert not queries.topics(tenant).exists()


def test_a_request_that_is_sent_again_gets_the_first_answer(
    admin: AdminClient, tenant: Tenant, key: str
) -> None:
    first = create(key, asked("a"), asked("a b"), Idempotency_Key="k1")
    again = create(key, asked("a"), asked("a b"), Idempotency_Key="k1")
    assert statuses(first) == [201, 400] and again.body == first.body
    assert again.headers["Idempotency-Replayed"] == "true"
    assert create(key, asked("a"), Idempotency_Key="k1").status == 400, "another request"
    assert statuses(create(key, asked("a"), asked("a b"), Idempotency_Key="k2")) == [409, 400]


def test_what_the_brokers_refuse_is_answered_and_not_left_behind(
    admin: AdminClient, tenant: Tenant, key: str
) -> None:
    admin.put_tenant(tenant.public_id, partitions_max=3)  # on the brokers alone, by hand
    answer = create(key, asked("a", 2), asked("b", 2), asked("c", 1))
    assert statuses(answer) == [201, 422, 201]
    assert "partitions_max of the tenant is 3, 2 are used" in details(answer)[1]
    assert {topic.name for topic in queries.topics(tenant)} == {"a", "c"}
    assert not Delivery.objects.filter(kind=actions.KIND_TOPIC, delivered_at=None).exists()
    told = [entry.action for entry in audit.entries(tenant.public_id)]
    assert told.count("topic.create") == 3 and told.count("topic.refused") == 1
    assert audit.first_break(tenant.public_id) is None


def test_without_brokers_topics_are_on_their_way_and_a_sweep_delivers_them(
    admin: AdminClient, tenant: Tenant, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AdminClient(["127.0.0.1:9"], identity("control-plane")) as nobody, monkeypatch.context() as away:
        away.setattr(brokers, "client", lambda: nobody)
        away.setattr(delivery, "TOGETHER_S", 0.2)
        answer = create(key, asked("a"), asked("b"))
    assert statuses(answer) == [202, 202]
    conditions = answer.body["topics"][0]["topic"]["conditions"]
    assert [one["reason"] for one in conditions] == ["broker_unavailable"]
    Delivery.objects.filter(delivered_at=None).update(next_attempt_at=timezone.now())
    delivery.sweep(60.0)
    assert on_brokers(admin, tenant) == {"a": 1, "b": 1}
    shown = call("GET", "/v1/topics/a", token=key).body
    assert (shown["conditions"], shown["delivered_generation"]) == ([], 1)


def test_topics_of_a_process_that_died_after_its_commit_are_delivered_by_the_sweep(
    admin: AdminClient, tenant: Tenant
) -> None:
    without_delivery(tenant, "a", "b")
    delivery.sweep(60.0)
    assert on_brokers(admin, tenant) == {"a": 1, "b": 1}


def test_topics_of_a_process_that_died_before_it_noted_the_delivery_are_delivered_again(
    admin: AdminClient, tenant: Tenant
) -> None:
    made = without_delivery(tenant, "a", "b")
    object_ids = [topic.public_id for topic in made]
    batch_deliverer(actions.KIND_TOPIC).deliver_all(object_ids[:1])
    delivery.deliver_all(actions.KIND_TOPIC, object_ids)
    assert [topic.on_brokers for topic in queries.topics(tenant)] == [True, True]
    seen = [brokers.describe_topic(tenant=tenant.public_id, name=topic.name) for topic in made]
    assert [topic.topic_id for topic in seen] == [topic.topic_id for topic in made]


def test_what_another_process_delivers_is_left_to_it(admin: AdminClient, tenant: Tenant) -> None:
    first, second = without_delivery(tenant, "a", "b")
    assert outbox.claim(actions.KIND_TOPIC, first.public_id, timezone.now()) is not None
    delivery.deliver_all(actions.KIND_TOPIC, [first.public_id, second.public_id])
    assert on_brokers(admin, tenant) == {"b": 1}


def test_what_is_not_tried_in_time_may_be_delivered_at_once(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = without_delivery(tenant, "a", "b", "c")
    monkeypatch.setattr(delivery, "TOGETHER_MAX", 1)
    monkeypatch.setattr(delivery, "TOGETHER_S", 0.2)
    with AdminClient(["127.0.0.1:9"], identity("control-plane")) as nobody, monkeypatch.context() as away:
        away.setattr(brokers, "client", lambda: nobody)
        delivery.deliver_all(actions.KIND_TOPIC, [topic.public_id for topic in made])
    rows = Delivery.objects.filter(kind=actions.KIND_TOPIC, delivered_at=None)
    assert sorted(row.attempts for row in rows) == [1, 1, 1]
    assert sum(bool(row.reason) for row in rows) == 1, "only the first was tried"
    assert not rows.exclude(lease_until=None).exists()


def test_a_lease_that_ran_out_does_not_hold_up_the_next_process(admin: AdminClient, tenant: Tenant) -> None:
    made = without_delivery(tenant, "a", "b")
    object_ids = [topic.public_id for topic in made]
    assert len(outbox.claim_all(actions.KIND_TOPIC, object_ids, timezone.now())) == 2
    assert outbox.claim_all(actions.KIND_TOPIC, object_ids, timezone.now()) == []
    later = timezone.now() + timedelta(seconds=outbox.LEASE_S)
    assert len(outbox.claim_all(actions.KIND_TOPIC, object_ids, later)) == 2


def test_brokers_that_changed_since_they_were_described_are_asked_again(
    admin: AdminClient, tenant: Tenant, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = [
        BrokerSeen(
            id=id, state="active", client_address="", internal_address="", zone="", leaders=0, replicas=0
        )
        for id in (97, 98, 99)
    ]
    monkeypatch.setattr(brokers, "brokers_lately", lambda: gone)
    assert statuses(create(key, asked("a"), asked("b"))) == [201, 201]


def test_a_name_whose_deletion_has_not_reached_the_brokers_is_waited_for(
    admin: AdminClient, tenant: Tenant, key: str
) -> None:
    create(key, asked("a"))
    actions.delete_topic(ACTOR, tenant, "a")
    answer = create(key, asked("a"), asked("b"))
    assert statuses(answer) == [202, 201]
    said = answer.body["topics"][0]["topic"]["conditions"][0]["message"]
    assert said.startswith("a: the deletion of the topic")


def test_a_key_that_is_bound_to_a_prefix_makes_no_topics(tenant: Tenant) -> None:
    _, bound = access.create_key(ACTOR, tenant, name="bound", topic_prefix="orders")
    assert create(bound.reveal(), asked("orders.north")).status == 403


def test_the_number_of_statements_does_not_grow_with_the_topics(
    tenant: Tenant, key: str, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(80):
        assert statuses(create(key, *(asked(f"topic-{number}") for number in range(100)))) == [201] * 100


def test_the_sweep_makes_topics_of_many_tenants_in_one_call_of_the_brokers(
    admin: AdminClient, tenant: Tenant
) -> None:
    other = make_tenant("other")
    assert delivery.deliver(KIND_TENANT, other.public_id)
    made = [*without_delivery(tenant, "a", "b"), *without_delivery(other, "a")]
    before = admin.sent.copy()
    assert delivery.sweep(60.0) == len(made)
    calls = admin.sent - before
    assert calls["CreateTopics"] == 1 and calls["CreateTopic"] == 0
    assert on_brokers(admin, tenant) == {"a": 1, "b": 1} and on_brokers(admin, other) == {"a": 1}


def test_a_tenant_that_the_brokers_refuse_holds_up_the_topics_of_no_other_one(
    admin: AdminClient, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = make_tenant("refused")
    made = [*without_delivery(refused, "a"), *without_delivery(tenant, "a")]

    def put(one: Tenant) -> None:
        raise InvalidRequest(f"{one.public_id}: its limits are none")

    monkeypatch.setattr(deliverers, "_put_tenant", put)
    delivery.deliver_all(actions.KIND_TOPIC, [topic.public_id for topic in made])
    assert on_brokers(admin, tenant) == {"a": 1}
    (row,) = Delivery.objects.filter(kind=actions.KIND_TOPIC, delivered_at=None)
    assert (row.object_id, row.reason) == (made[0].public_id, "invalid_request")


def test_topics_that_were_written_together_wake_one_worker(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[tuple[str, Any]] = []
    monkeypatch.setattr(celery.app, "send_task", lambda task, args, **options: woken.append((task, args)))
    made = without_delivery(tenant, "a", "b")
    object_ids = [topic.public_id for topic in made]
    assert woken == [("outbox.deliver_all", [actions.KIND_TOPIC, object_ids])]
    tasks.deliver_all(actions.KIND_TOPIC, object_ids)
    assert [topic.on_brokers for topic in queries.topics(tenant)] == [True, True]
    monkeypatch.setattr(wake_ups, "TOGETHER_MAX", 1)
    first, _ = without_delivery(tenant, "c", "d")
    assert woken[1:] == [("outbox.deliver_all", [actions.KIND_TOPIC, [first.public_id]])], (
        "the sweep has the rest"
    )


def test_changes_for_which_a_batch_has_no_time_wait_as_if_they_had_not_been_begun(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = without_delivery(tenant, "a", "b", "c")
    delivery.sweep(60.0)
    for topic in queries.topics(tenant):
        assert observed.touch(ACTOR, topic, "topic.reassert", why="a test")
    object_ids = [topic.public_id for topic in made]
    monkeypatch.setattr(deliverers, "is_time_up", lambda: True)
    delivery.deliver_all(actions.KIND_TOPIC, object_ids)
    rows = Delivery.objects.filter(kind=actions.KIND_TOPIC, delivered_at=None)
    untried = sorted(object_ids[1:])
    assert sorted(row.object_id for row in rows) == untried and not any(row.reason for row in rows)
    assert sorted(found for _, found in outbox_queries.due(timezone.now(), 10)) == untried
