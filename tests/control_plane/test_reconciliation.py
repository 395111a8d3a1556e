"""What reconciliation does about each difference between what is wanted and what the brokers have."""

import json
from dataclasses import replace

import pytest
from django.utils import timezone

from control_plane.access import actions as access
from control_plane.access import queries as access_queries
from control_plane.access.models import KeyBinding
from control_plane.audit import queries as audit
from control_plane.brokers import view
from control_plane.outbox.models import Delivery
from control_plane.reconciliation import reconcile
from control_plane.reconciliation.deliverers import ms_of
from control_plane.reconciliation.reconcile import repair
from control_plane.topics import actions as topic_actions
from control_plane.topics import observed
from control_plane.topics.models import Topic
from penstock.rules.principal_limits import limits_digest
from quotas.account_actions import set_account_limits
from quotas.account_queries import limits_on_brokers
from quotas.actions import set_limits
from quotas.plans import Limits
from quotas.queries import limits_of
from tenants import actions
from tenants.models import ApiKey, Tenant
from tenants.service_accounts.actions import create_service_account
from tests.control_plane.world import ACTOR, everything_delivered, make_tenant

pytestmark = pytest.mark.django_db

REVISION = 100


@pytest.fixture
def tenant() -> Tenant:
    """A tenant with a topic, a key and a bound key, all delivered at REVISION."""
    made = make_tenant("acme")
    topic_actions.create_topic(ACTOR, made, name="orders", partitions=3, settings={})
    access.create_key(ACTOR, made, name="all")
    access.create_key(ACTOR, made, name="bound", topic_prefix="o", operations=["consume"])
    delivered()
    return made


def delivered() -> None:
    """As if the brokers had taken everything."""
    for model in (Tenant, Topic, ApiKey):
        for row in model.objects.all():
            row.delivered_generation, row.delivered_revision = row.generation, REVISION
            row.save()
    Topic.objects.update(on_brokers=True)
    everything_delivered()


def seen(level: int = 1) -> view.ClusterView:
    """What brokers would tell that hold just what is wanted."""
    limits = {tenant.public_id: limits_of(tenant) for tenant in Tenant.objects.all()}
    return view.ClusterView(
        cluster_id="c",
        controller=1,
        revision=REVISION,
        brokers=(),
        feature_level=level,
        tenants=tuple(
            view.TenantSeen(
                tenant=t.public_id,
                generation=t.generation,
                produce_bytes_per_s=limits[t.public_id].produce_bytes_per_s,
                partitions_max=limits[t.public_id].partitions_max,
                consume_bytes_per_s=limits[t.public_id].consume_bytes_per_s if level > 1 else 0,
                connections_max=limits[t.public_id].connections_max if level > 1 else 0,
                groups_max=limits[t.public_id].groups_max if level > 1 else 0,
                requests_per_s=limits[t.public_id].requests_per_s if level > 1 else 0,
                connection_attempts_per_s=limits[t.public_id].connection_attempts_per_s if level > 1 else 0,
                rate_burst_ms=limits[t.public_id].rate_burst_ms if level > 1 else 0,
                rate_floor_percent=limits[t.public_id].rate_floor_percent if level > 1 else 0,
                storage_bytes_max=limits[t.public_id].storage_bytes_max if level > 1 else 0,
                broker_processor_ms_per_s=limits[t.public_id].broker_processor_ms_per_s if level > 1 else 0,
                suspended=t.suspended,
            )
            for t in Tenant.objects.all()
        ),
        topics=tuple(
            view.TopicSeen(
                tenant=t.tenant.public_id,
                name=t.name,
                topic_id=t.topic_id,
                partitions=t.partitions,
                settings_json=json.dumps(t.settings),
                generation=t.generation,
                binned=t.binned_at is not None,
            )
            for t in Topic.objects.filter(deleted_at=None)
        ),
        keys=tuple(
            view.KeySeen(
                key_id=k.key_id,
                tenant=k.tenant.public_id,
                revoked=k.revoked_at is not None,
                expires_at_ms=ms_of(k.expires_at),
                generation=k.generation,
                bindings=tuple(
                    view.BindingSeen(topic_prefix=b.topic_prefix, operations=tuple(b.operations))
                    for b in k.bindings.all()
                ),
            )
            for k in ApiKey.objects.all()
        ),
    )


def conditions(row: Tenant | Topic | ApiKey) -> list[str]:
    row.refresh_from_db()
    return [condition["type"] for condition in row.conditions]


def last_action(tenant: Tenant) -> str:
    return audit.entries(tenant.public_id).order_by("-sequence")[0].action


def waiting() -> list[tuple[str, int]]:
    return list(Delivery.objects.filter(delivered_at=None).values_list("kind", "generation"))


def test_brokers_get_consume_rates_once_they_keep_them(tenant: Tenant) -> None:
    def of_tenant(found: view.ClusterView) -> list[str]:
        return [one.what for one in repair(found) if one.object_id == tenant.public_id]

    wanted, below = limits_of(tenant).consume_bytes_per_s, seen()
    assert wanted and not below.tenants[0].consume_bytes_per_s and of_tenant(below) == []
    missing = f"consume_bytes_per_s is 0 on the brokers, {wanted} is wanted"
    assert of_tenant(replace(below, feature_level=2)) == [missing]
    delivered()
    assert of_tenant(seen(level=2)) == []


def test_a_storage_limit_that_the_brokers_lost_is_delivered_again(tenant: Tenant) -> None:
    set_limits(ACTOR, tenant, storage_bytes_max=10**9)
    delivered()
    whole = seen(level=2)
    assert whole.tenants[0].storage_bytes_max == 10**9
    assert [one for one in repair(whole) if one.object_id == tenant.public_id] == []
    lost = replace(whole, tenants=(replace(whole.tenants[0], storage_bytes_max=0),))
    found = [one.what for one in repair(lost) if one.object_id == tenant.public_id]
    assert found == ["storage_bytes_max is 0 on the brokers, 1000000000 is wanted"]


def test_limits_of_accounts_that_differ_on_the_brokers_are_delivered_again(tenant: Tenant) -> None:
    account = create_service_account(ACTOR, tenant, name="robot")
    set_account_limits(ACTOR, tenant, account, {"requests_per_s": 5})
    delivered()
    digest = limits_digest(limits_on_brokers(tenant))
    assert repair(seen()) == [], "below the level brokers have none"
    whole = seen(level=2)
    (known,) = whole.tenants
    known = replace(known, storage_bytes_max=limits_of(tenant).storage_bytes_max)

    def found(there: str) -> list[str]:
        changed = replace(known, principal_limits_digest=there)
        return [
            one.what
            for one in repair(replace(whole, tenants=(changed,)))
            if one.object_id == tenant.public_id
        ]

    assert found(digest) == []
    assert found("") == ["the limits of its service accounts are others on the brokers"]
    assert last_action(tenant) == "tenant.reassert"


def test_what_is_as_wanted_is_left_alone(tenant: Tenant) -> None:
    before = audit.entries(tenant.public_id).count()
    assert repair(seen()) == []
    assert waiting() == [] and audit.entries(tenant.public_id).count() == before


def test_a_topic_that_is_gone_is_made_again_under_a_new_id_and_says_so(tenant: Tenant) -> None:
    topic = Topic.objects.get()
    (finding,) = repair(replace(seen(), topics=()))
    assert (finding.object_id, finding.what) == (topic.public_id, "it was gone on the brokers")
    lost = topic.topic_id
    assert conditions(topic) == ["recreated"]
    assert topic.topic_id != lost and not topic.on_brokers
    assert lost in topic.conditions[0]["message"]
    assert last_action(tenant) == "topic.recreate"
    assert waiting() == [("topic", 2)]
    assert repair(replace(seen(), topics=())) == [], "its delivery is on its way"


def test_another_topic_of_the_same_name_is_taken_as_it_is(tenant: Tenant) -> None:
    whole = seen()
    other = replace(whole.topics[0], topic_id="ab" * 16, partitions=5, generation=9)
    (finding,) = repair(replace(whole, topics=(other,)))
    topic = Topic.objects.get()
    assert (topic.topic_id, topic.partitions, topic.generation) == ("ab" * 16, 5, 10)
    assert conditions(topic) == ["adopted"] and "another topic of this name" in finding.what
    assert last_action(tenant) == "topic.adopt"


def test_partitions_added_by_hand_stay(tenant: Tenant) -> None:
    whole = seen()
    repair(replace(whole, topics=(replace(whole.topics[0], partitions=4),)))
    assert Topic.objects.get().partitions == 4


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"partitions": 2}, "it has 2 partitions on the brokers, 3 are wanted"),
        ({"generation": 7}, "the brokers have generation 7, 1 is wanted"),
        ({"settings_json": '{"retention_ms": 7200000}'}, "retention_ms is 7200000 on the brokers"),
        ({"settings_json": "{"}, "its settings on the brokers cannot be read"),
    ],
)
def test_a_topic_that_was_changed_is_told_anew_once(
    tenant: Tenant, change: dict[str, object], why: str
) -> None:
    whole = seen()
    held = replace(whole, topics=(replace(whole.topics[0], **change),))  # type: ignore[arg-type]
    (finding,) = repair(held)
    assert why in finding.what
    topic = Topic.objects.get()
    assert topic.generation == held.topics[0].generation + 1
    assert conditions(topic) == ["drift"]
    delivered()
    stubborn = replace(held, topics=(replace(held.topics[0], generation=topic.generation),))
    if "generation" not in change:
        assert repair(stubborn) == [], "told again only after a while"
    repair(seen())
    assert conditions(topic) == []


def test_a_tenant_that_is_gone_or_has_other_limits_is_told_anew(tenant: Tenant) -> None:
    whole = seen()
    changed = replace(whole.tenants[0], partitions_max=1)
    assert ["partitions_max is 1" in f.what for f in repair(replace(whole, tenants=(changed,)))] == [True]
    assert last_action(tenant) == "tenant.reassert"
    assert conditions(tenant) == ["drift"] and waiting() == [("tenant", 2)]


def test_brokers_that_hold_no_tenant_at_all_are_left_to_a_person(tenant: Tenant) -> None:
    assert repair(replace(seen(), tenants=(), topics=(), keys=())) == []
    assert waiting() == []


def test_a_key_that_is_gone_or_bound_otherwise_is_told_anew(tenant: Tenant) -> None:
    whole = seen()
    free, bound = ApiKey.objects.get(name="all"), ApiKey.objects.get(name="bound")
    keys = [replace(k, bindings=()) for k in whole.keys if k.key_id == bound.key_id]
    found = {f.object_id: f.what for f in repair(replace(whole, keys=tuple(keys)))}
    assert found == {
        free.public_id: "it is gone on the brokers",
        bound.public_id: "what it is bound to differs on the brokers",
    }
    assert sorted(waiting()) == [("key", 2), ("key", 2)]


@pytest.mark.parametrize(
    ("change", "why", "generation"),
    [
        ({"expires_at_ms": 5}, "its expiry differs on the brokers", 2),
        ({"generation": 7}, "the brokers have generation 7, 1 is wanted", 8),
    ],
)
def test_a_key_that_was_changed_is_delivered_again_above_what_the_brokers_have(
    tenant: Tenant, change: dict[str, int], why: str, generation: int
) -> None:
    whole = seen()
    changed = replace(whole.keys[0], **change)  # type: ignore[arg-type]
    (finding,) = repair(replace(whole, keys=(changed, *whole.keys[1:])))
    assert (finding.object_id, finding.what) == (f"key_{changed.key_id}", why)
    assert waiting() == [("key", generation)]


def test_a_tenant_of_a_higher_generation_is_delivered_again_above_it(tenant: Tenant) -> None:
    whole = seen()
    (finding,) = repair(replace(whole, tenants=(replace(whole.tenants[0], generation=9),)))
    assert finding.what == "the brokers have generation 9, 1 is wanted"
    assert waiting() == [("tenant", 10)]


def test_a_key_revoked_by_hand_stays_revoked(tenant: Tenant) -> None:
    whole = seen()
    keys = tuple(replace(key, revoked=True) for key in whole.keys)
    repair(replace(whole, keys=keys))
    assert all(key.revoked_at is not None for key in ApiKey.objects.all())
    assert last_action(tenant) == "key.revoke"


def test_a_revoked_key_that_brokers_let_in_is_revoked_anew(tenant: Tenant) -> None:
    key = actions.revoke_key(ACTOR, ApiKey.objects.get(name="all"))
    delivered()
    whole = seen()
    keys = tuple(replace(k, revoked=False) for k in whole.keys)
    (finding,) = repair(replace(whole, keys=keys))
    assert (finding.object_id, finding.what) == (
        key.public_id,
        "it was revoked, and the brokers let it in",
    )
    assert waiting() == [("key", 3)]


def test_what_nobody_asked_for_is_reported_once_and_never_removed(tenant: Tenant) -> None:
    whole = seen()
    strange_topic = replace(whole.topics[0], name="strange", topic_id="cd" * 16)
    strange_key = replace(whole.keys[0], key_id="z" * 12)
    foreign = replace(strange_topic, tenant="tn_dev", topic_id="ef" * 16)
    ended = replace(strange_key, key_id="y" * 12, revoked=True)
    held = replace(
        whole, topics=(*whole.topics, strange_topic, foreign), keys=(*whole.keys, strange_key, ended)
    )
    (finding,) = repair(held)
    assert finding.object_id == tenant.public_id
    assert "topic strange" in finding.what and "key zzzzzzzzzzzz" in finding.what
    assert "yyyy" not in finding.what, "a revoked key lets nobody in"
    assert conditions(tenant) == ["unknown_objects"] and waiting() == []
    assert last_action(tenant) == "tenant.unknown_objects"
    assert repair(held) == []
    repair(whole)
    assert conditions(tenant) == []


def test_a_view_older_than_a_delivery_tells_nothing_of_its_object(tenant: Tenant) -> None:
    assert repair(replace(seen(), topics=(), keys=(), revision=REVISION - 1)) == []


def test_what_waits_for_delivery_is_not_judged(tenant: Tenant) -> None:
    whole = seen()
    topic_actions.update_topic(ACTOR, tenant, "orders", partitions=6)
    set_limits(ACTOR, tenant, partitions_max=50)
    assert repair(whole) == []


def test_a_lost_topic_is_made_again_even_while_a_change_of_it_waits(tenant: Tenant) -> None:
    whole = seen()
    topic_actions.update_topic(ACTOR, tenant, "orders", partitions=6)
    (finding,) = repair(replace(whole, topics=()))
    assert finding.what == "it was gone on the brokers"
    topic = Topic.objects.get()
    assert (topic.partitions, topic.generation, topic.delivered_generation) == (6, 3, 0)


def test_a_topic_that_is_being_made_is_not_missed(tenant: Tenant) -> None:
    topic_actions.create_topic(ACTOR, tenant, name="new", partitions=1, settings={})
    whole = seen()
    Topic.objects.filter(name="new").update(on_brokers=True)
    assert repair(replace(whole, topics=tuple(t for t in whole.topics if t.name != "new"))) == []


def test_what_was_changed_since_it_was_judged_is_left_to_the_next_round(tenant: Tenant) -> None:
    judged = Topic.objects.get()
    topic_actions.delete_topic(ACTOR, tenant, "orders")
    assert not observed.recreate(ACTOR, judged, why="x")
    assert not observed.touch(ACTOR, judged, "topic.reassert", why="x")
    assert not observed.adopt(ACTOR, judged, topic_id="0" * 32, partitions=9, generation=9, why="x")
    assert Topic.objects.get().topic_id == judged.topic_id


def test_limits_set_between_a_tenants_row_and_its_limits_are_no_drift(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_a_change(row: Tenant) -> Limits:
        set_limits(ACTOR, tenant, produce_bytes_per_s=123_456)
        return limits_of(row)

    whole = seen()
    monkeypatch.setattr(reconcile, "limits_of", after_a_change)
    assert repair(whole) == []
    assert conditions(tenant) == [] and waiting() == [("tenant", 2)]


def test_a_scope_given_between_a_keys_row_and_its_scopes_is_no_drift(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    bindings, whole = access_queries.bindings, seen()

    def after_a_change(row: ApiKey) -> list[KeyBinding]:
        if row.name == "bound":
            actions.touch_key(ACTOR, row)
            KeyBinding.objects.filter(key=row).update(topic_prefix="other.")
        return bindings(row)

    monkeypatch.setattr(access_queries, "bindings", after_a_change)
    assert repair(whole) == []
    assert conditions(ApiKey.objects.get(name="bound")) == [] and waiting() == [("key", 2)]


def test_a_deleted_topic_that_brokers_still_hold_is_deleted_anew(tenant: Tenant) -> None:
    whole = seen()
    topic_actions.delete_topic(ACTOR, tenant, "orders")
    delivered()
    (finding,) = repair(replace(seen(), topics=whole.topics))
    assert finding.what == "it was deleted, and the brokers still have it"
    assert waiting() == [("topic", 3)]


# -- the recycle bin ------------------------------------------------------------------------------------


@pytest.fixture
def binned(tenant: Tenant) -> Topic:
    """A topic in the recycle bin, whose name another one has."""
    topic = Topic.objects.get()
    topic.binned_at = topic.purge_at = timezone.now()
    topic.save()
    topic_actions.create_topic(ACTOR, tenant, name="orders", partitions=3, settings={})
    delivered()
    return topic


def test_a_topic_in_the_bin_is_left_alone_whoever_has_its_name(tenant: Tenant, binned: Topic) -> None:
    assert repair(seen()) == []
    assert waiting() == []


def test_a_topic_in_the_bin_that_the_brokers_still_serve_is_binned_again_and_the_other_way_round(
    tenant: Tenant, binned: Topic
) -> None:
    now = seen()
    turned = replace(now, topics=tuple(replace(topic, binned=not topic.binned) for topic in now.topics))
    found = {finding.object_id: finding.what for finding in repair(turned)}
    live = Topic.objects.get(binned_at=None)
    assert found == {
        binned.public_id: "it is not in the recycle bin on the brokers",
        live.public_id: "it is in the recycle bin on the brokers",
    }
    assert sorted(waiting()) == [("topic", 2), ("topic", 2)]


def test_a_topic_that_is_gone_from_the_bin_is_not_made_again_but_said_once(
    tenant: Tenant, binned: Topic
) -> None:
    now = seen()
    lost = replace(now, topics=tuple(topic for topic in now.topics if not topic.binned))
    (finding,) = repair(lost)
    assert finding.what == "it was in the recycle bin, and is gone on the brokers with all its messages"
    assert conditions(binned) == ["drift"] and waiting() == []
    assert repair(lost) == []
