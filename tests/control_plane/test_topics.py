"""Topics and limits as desired state: names, settings, partitions, generations."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from control_plane.brokers.models import KnownBroker
from control_plane.outbox.models import Delivery
from control_plane.topics import actions, observed, queries
from control_plane.topics.models import Topic
from data_plane.controller.tenants import put_tenant
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import TenantQuotas
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.limits import (
    BROKER_PROCESSOR_MS_PER_S_MAX,
    CONNECTION_ATTEMPTS_PER_S_MAX,
    CONSUME_BYTES_PER_S_MAX,
    PRODUCE_BYTES_PER_S_MAX,
    RATE_BURST_MS_MAX,
    RATE_FLOOR_PERCENT_MAX,
    REQUESTS_PER_S_MAX,
)
from quotas.actions import set_limits
from quotas.plans import LIMIT_NAMES, STANDARD, SYSTEM
from quotas.queries import limits_of
from tenants.actions import create_tenant
from tenants.models import Tenant
from tests.control_plane.world import ACTOR, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme")


def create(tenant: Tenant, name: str = "orders", partitions: int = 3, **settings: object) -> Topic:
    return actions.create_topic(ACTOR, tenant, name=name, partitions=partitions, settings=settings)


def generations(topic: Topic) -> list[int]:
    rows = Delivery.objects.filter(kind="topic", object_id=topic.public_id)
    return sorted(rows.values_list("generation", flat=True))


def test_a_topic_has_its_id_before_the_brokers_hear_of_it(tenant: Tenant) -> None:
    topic = create(tenant)
    assert topic.public_id.startswith("top_") and len(bytes.fromhex(topic.topic_id)) == 16
    assert (topic.generation, topic.delivered_generation, topic.on_brokers) == (1, 0, False)
    assert generations(topic) == [1]


def test_settings_that_are_not_named_are_the_services(tenant: Tenant) -> None:
    assert create(tenant, retention_ms=7_200_000).settings["retention_ms"] == 7_200_000
    one = create(tenant, "one", replication=1)
    assert (one.settings["replication"], one.settings["min_insync_replicas"]) == (1, 1)
    three = create(tenant, "three")
    assert (three.settings["replication"], three.settings["min_insync_replicas"]) == (3, 2)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "x" * 250, "__usage", "ä"])
def test_what_is_no_name_of_a_topic_is_refused(tenant: Tenant, name: str) -> None:
    with pytest.raises(InvalidRequest, match="name: "):
        create(tenant, name)


def test_the_services_own_tenant_may_have_internal_topics() -> None:
    system = create_tenant(ACTOR, name="system", public_id=SYSTEM_TENANT)
    assert create(system, "__usage").name == "__usage"
    with pytest.raises(InvalidRequest, match="the service's own topics stay"):
        actions.delete_topic(ACTOR, system, "__usage")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"retention": 1}, "retention: no such topic setting"),
        ({"retention_ms": 1}, "retention_ms: 1 is not within"),
        ({"retention_ms": "long"}, "retention_ms: 'long' is not a whole number"),
        ({"replication": 9}, "replication: 9 is not within"),
        ({"replication": True}, "replication: True is not a number"),
        ({"replication": [3]}, "replication: "),
        ({"durability": "none"}, "durability: 'none' is not one of"),
    ],
)
def test_what_is_no_setting_is_refused_by_name(
    tenant: Tenant, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        create(tenant, **settings)
    assert not Topic.objects.exists()


@pytest.mark.parametrize(
    ("named", "follow"),
    [
        ({"max_message_bytes": 10 << 20}, {"max_batch_bytes": (10 << 20) + 1024}),
        ({"max_message_bytes": 1000}, {"max_batch_bytes": 2 << 20}),
        ({"retention_bytes": 1 << 20}, {"segment_bytes": 1 << 20}),
        ({"retention_bytes": 1}, {"segment_bytes": 4096}),
        ({"retention_ms": 3_600_000}, {"segment_ms": 3_600_000}),
        ({"retention_ms": -1, "retention_bytes": -1}, {"segment_ms": 86_400_000, "segment_bytes": 1 << 30}),
    ],
)
def test_a_setting_that_hangs_on_another_follows_it(
    tenant: Tenant, named: dict[str, Any], follow: dict[str, int]
) -> None:
    made = create(tenant, **named)
    assert {name: made.settings[name] for name in follow} == follow
    create(tenant, "later")
    changed = actions.update_topic(ACTOR, tenant, "later", settings=named)
    assert {name: changed.settings[name] for name in follow} == follow


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"max_batch_bytes": 1 << 20}, "max_batch_bytes: 1048576 has no space for a message of 1048576"),
        ({"max_message_bytes": 10 << 20, "max_batch_bytes": 2 << 20}, "at least 10486784 required"),
        ({"retention_bytes": 1 << 20, "segment_bytes": 2 << 20}, "segment_bytes: a file of 2097152 is kept"),
        ({"retention_ms": 3_600_000, "segment_ms": 86_400_000}, "segment_ms: a file open for 86400000"),
        ({"replication": 1, "min_insync_replicas": 2}, "min_insync_replicas: 2 is not within 1 to 1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    tenant: Tenant, named: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        create(tenant, **named)
    if "replication" not in named:
        create(tenant, "later")
        with pytest.raises(InvalidRequest, match=message):
            actions.update_topic(ACTOR, tenant, "later", settings=named)


def test_a_topic_from_before_with_settings_that_contradict_is_changed_in_others(tenant: Tenant) -> None:
    topic = create(tenant)
    Topic.objects.filter(pk=topic.pk).update(settings={**topic.settings, "max_message_bytes": 10 << 20})
    changed = actions.update_topic(ACTOR, tenant, "orders", settings={"min_insync_replicas": 1})
    assert changed.settings["max_batch_bytes"] == 2 << 20


def test_more_copies_than_there_are_brokers_are_refused_with_what_is_possible(tenant: Tenant) -> None:
    with pytest.raises(
        LimitExceeded, match="replication: 5 copies need 5 brokers, the cluster has 3; at most 3"
    ):
        create(tenant, replication=5)
    assert not Topic.objects.exists()
    for number in range(1, 6):
        KnownBroker.objects.create(broker=number, internal_address=f"h:{number}", changed_at=timezone.now())
    assert create(tenant, replication=5).settings["replication"] == 5
    KnownBroker.objects.filter(broker__gt=2).delete()
    assert create(tenant, "default").settings["replication"] == 2


@pytest.mark.parametrize("partitions", [0, -1, 10_001])
def test_a_number_of_partitions_out_of_bounds_is_refused(tenant: Tenant, partitions: int) -> None:
    with pytest.raises(InvalidRequest, match="partitions: "):
        create(tenant, partitions=partitions)


def test_two_tenants_may_use_one_name_and_one_tenant_may_not_twice(tenant: Tenant) -> None:
    mine, other = create(tenant), create(make_tenant("other"))
    assert mine.topic_id != other.topic_id
    with pytest.raises(AlreadyExists, match="topic 'orders' exists"):
        create(tenant)
    assert queries.topic(tenant, "orders") == mine


def test_a_deleted_topic_is_gone_at_once_and_its_name_is_free(tenant: Tenant) -> None:
    first = create(tenant)
    deleted = actions.delete_topic(ACTOR, tenant, "orders")
    assert generations(deleted) == [1, 2]
    with pytest.raises(NotFound):
        queries.topic(tenant, "orders")
    with pytest.raises(NotFound):
        actions.delete_topic(ACTOR, tenant, "orders")
    second = create(tenant)
    assert second.topic_id != first.topic_id
    assert list(Topic.objects.exclude(deleted_at=None)) == [first], "usage and invoices name it"


def test_a_change_keeps_what_is_not_named_and_counts_up_only_if_something_changed(tenant: Tenant) -> None:
    create(tenant, retention_ms=7_200_000)
    changed = actions.update_topic(ACTOR, tenant, "orders", partitions=5, settings={"segment_ms": 60_000})
    assert (changed.generation, changed.partitions) == (2, 5)
    assert (changed.settings["segment_ms"], changed.settings["retention_ms"]) == (60_000, 7_200_000)
    same = actions.update_topic(ACTOR, tenant, "orders", partitions=5, settings={"segment_ms": 60_000})
    assert same.generation == 2 and generations(same) == [1, 2]


def test_a_setting_that_is_named_as_none_goes_back_to_the_default_with_what_followed_it(
    tenant: Tenant,
) -> None:
    usual = create(tenant, "usual").settings
    steps: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"retention_ms": 7_200_000}, {"retention_ms": None}),
        ({"retention_bytes": 1 << 20}, {"retention_bytes": None}),
        ({"max_message_bytes": 10 << 20}, {"max_message_bytes": None}),
        ({"flush_ms": 500, "timestamp_type": "append"}, {"flush_ms": None, "timestamp_type": None}),
        ({"min_insync_replicas": 1}, {"min_insync_replicas": None}),
        ({"replication": 2}, {"replication": None}),
    ]
    create(tenant)
    for named, back in steps:
        assert actions.update_topic(ACTOR, tenant, "orders", settings=named).settings != usual
        changed = actions.update_topic(ACTOR, tenant, "orders", settings=back)
        assert changed.settings == usual, back
        observed.note_copies(changed)
    with pytest.raises(InvalidRequest, match="retention: no such topic setting"):
        actions.update_topic(ACTOR, tenant, "orders", settings={"retention": None})
    assert create(tenant, "new", retention_ms=None, replication=None, durability=None).settings == usual


def test_what_others_named_stays_beside_a_setting_that_goes_back(tenant: Tenant) -> None:
    create(tenant, retention_ms=7_200_000, segment_ms=60_000, durability="replicated")
    changed = actions.update_topic(ACTOR, tenant, "orders", settings={"retention_ms": None})
    assert changed.settings["segment_ms"] == 60_000
    back = actions.update_topic(
        ACTOR, tenant, "orders", settings={"retention_ms": 3_600_000, "segment_ms": None}
    )
    assert back.settings["segment_ms"] == 3_600_000
    with pytest.raises(InvalidRequest, match="durability: orders has replicated, and keeps it"):
        actions.update_topic(ACTOR, tenant, "orders", settings={"durability": None})


def test_partitions_are_never_removed_and_durability_stays(tenant: Tenant) -> None:
    create(tenant)
    with pytest.raises(InvalidRequest, match="partitions: orders has 3, 2 would remove some"):
        actions.update_topic(ACTOR, tenant, "orders", partitions=2)
    with pytest.raises(InvalidRequest, match="durability: orders has fsync, and keeps it"):
        actions.update_topic(ACTOR, tenant, "orders", settings={"durability": "replicated"})


def test_another_replication_is_due_until_it_is_noted_and_demands_nothing_of_copies_to_come(
    tenant: Tenant,
) -> None:
    topic = create(tenant, replication=1)
    assert not topic.copies_due
    with pytest.raises(InvalidRequest, match="has not 2 copies of every partition yet"):
        actions.update_topic(ACTOR, tenant, "orders", settings={"replication": 3, "min_insync_replicas": 2})
    with pytest.raises(LimitExceeded, match="replication: 5 copies need 5 brokers"):
        actions.update_topic(ACTOR, tenant, "orders", settings={"replication": 5})
    grown = actions.update_topic(ACTOR, tenant, "orders", settings={"replication": 3})
    assert grown.copies_due and grown.settings["min_insync_replicas"] == 1
    with pytest.raises(InvalidRequest, match="has not 2 copies of every partition yet"):
        actions.update_topic(ACTOR, tenant, "orders", settings={"min_insync_replicas": 2})
    assert not observed.note_copies(topic), "it was changed since it was looked at"
    assert observed.note_copies(grown)
    strict = actions.update_topic(ACTOR, tenant, "orders", settings={"min_insync_replicas": 2})
    assert not strict.copies_due


def test_the_tenants_partitions_are_limited_over_all_its_topics(tenant: Tenant) -> None:
    set_limits(ACTOR, tenant, partitions_max=4)
    create(tenant)
    with pytest.raises(LimitExceeded, match="partitions_max: more needs 2, 3 of 4 are used"):
        create(tenant, "more", 2)
    with pytest.raises(LimitExceeded, match="partitions_max: orders needs 2, 3 of 4 are used"):
        actions.update_topic(ACTOR, tenant, "orders", partitions=5)
    create(tenant, "more", 1)
    actions.delete_topic(ACTOR, tenant, "orders")
    create(tenant, "again", 3)


def test_limits_are_the_plans_until_others_are_set(tenant: Tenant) -> None:
    assert limits_of(tenant) == STANDARD
    changed = set_limits(ACTOR, tenant, produce_bytes_per_s=0)
    assert changed.generation == 2
    assert limits_of(tenant).produce_bytes_per_s == 0
    assert limits_of(tenant).partitions_max == STANDARD.partitions_max
    assert set_limits(ACTOR, tenant, produce_bytes_per_s=0).generation == 2
    assert limits_of(create_tenant(ACTOR, name="system", public_id=SYSTEM_TENANT)) == SYSTEM


@pytest.mark.parametrize("field", LIMIT_NAMES)
@pytest.mark.parametrize("value", [-1, 2**63])
def test_what_is_no_limit_is_refused(tenant: Tenant, field: str, value: int) -> None:
    given: dict[str, Any] = {field: value}
    with pytest.raises(InvalidRequest, match=f"{field}: {value} is not within"):
        set_limits(ACTOR, tenant, **given)


def test_the_highest_rate_that_can_be_set_is_one_that_the_brokers_take(tenant: Tenant) -> None:
    highest: dict[str, Any] = {
        "produce_bytes_per_s": PRODUCE_BYTES_PER_S_MAX,
        "consume_bytes_per_s": CONSUME_BYTES_PER_S_MAX,
        "requests_per_s": REQUESTS_PER_S_MAX,
        "connection_attempts_per_s": CONNECTION_ATTEMPTS_PER_S_MAX,
        "rate_burst_ms": RATE_BURST_MS_MAX,
        "rate_floor_percent": RATE_FLOOR_PERCENT_MAX,
        "broker_processor_ms_per_s": BROKER_PROCESSOR_MS_PER_S_MAX,
    }
    set_limits(ACTOR, tenant, **highest)
    assert put_tenant(ClusterImage(), tenant.public_id, quotas=TenantQuotas(**highest)).changes
    for name, value in highest.items():
        with pytest.raises(InvalidRequest, match=name):
            set_limits(ACTOR, tenant, **{name: value + 1})
        with pytest.raises(InvalidRequest, match=name):
            put_tenant(ClusterImage(), tenant.public_id, quotas=TenantQuotas(**{name: value + 1}))


def test_the_database_itself_keeps_names_apart(tenant: Tenant) -> None:
    topic = create(tenant)
    with pytest.raises(IntegrityError), transaction.atomic():
        Topic.objects.create(
            tenant=tenant, name="orders", public_id="top_x", topic_id="0" * 32, partitions=1, settings={}
        )
    assert queries.topic(tenant, "orders") == topic
