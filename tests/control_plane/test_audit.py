"""The audit log: an entry with each change, in one chain a tenant that shows every alteration."""

import pytest
from django.db import transaction

from control_plane.access import actions as access
from control_plane.audit import actions, queries
from control_plane.audit.models import AuditEntry, AuditHead
from control_plane.topics import actions as topics
from penstock.contract.invariant import InvariantBroken
from quotas.actions import set_limits
from tenants import actions as tenants
from tests.control_plane.world import ACTOR, call, make_tenant


@pytest.mark.django_db
def test_each_change_leaves_an_entry_with_its_actor() -> None:
    tenant = make_tenant("acme")
    key, _ = access.create_key(ACTOR, tenant, name="app", topic_prefix="a", operations=["consume"])
    topics.create_topic(ACTOR, tenant, name="orders", partitions=1, settings={})
    topics.update_topic(ACTOR, tenant, "orders", partitions=2)
    topics.delete_topic(ACTOR, tenant, "orders")
    tenants.revoke_key(ACTOR, key)
    set_limits(ACTOR, tenant, partitions_max=5)
    tenants.set_suspended(ACTOR, tenant, True)
    entries = list(queries.entries(tenant.public_id).order_by("sequence"))
    assert [entry.action for entry in entries] == [
        "tenant.create",
        "key.create",
        "topic.create",
        "topic.update",
        "topic.delete",
        "key.revoke",
        "quota.set",
        "tenant.suspend",
    ]
    assert {(e.actor_kind, e.actor_id, e.request_id, e.source) for e in entries} == {
        ("system", "test", "r1", "127.0.0.1")
    }
    assert entries[1].after == {
        "name": "app",
        "expires_at": None,
        "topic_prefix": "a",
        "operations": ["consume"],
    }
    assert (entries[3].before["partitions"], entries[3].after["partitions"]) == (1, 2)
    assert [entry.sequence for entry in entries] == list(range(1, 9))
    assert queries.first_break(tenant.public_id) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("actor_id", "usr_other"),
        ("after", {"name": "x"}),
        ("action", "key.other"),
        ("previous_hash", "1" * 64),
    ],
)
def test_an_entry_that_was_altered_is_found(field: str, value: object) -> None:
    tenant = make_tenant("acme")
    for number in range(3):
        access.create_key(ACTOR, tenant, name=f"k{number}")
    AuditEntry.objects.filter(tenant=tenant.public_id, sequence=3).update(**{field: value})
    assert queries.first_break(tenant.public_id) == 3


@pytest.mark.django_db
def test_an_entry_that_was_removed_is_found() -> None:
    tenant = make_tenant("acme")
    access.create_key(ACTOR, tenant, name="k1")
    access.create_key(ACTOR, tenant, name="k2")
    AuditEntry.objects.filter(tenant=tenant.public_id, sequence=2).delete()
    assert queries.first_break(tenant.public_id) == 2


@pytest.mark.django_db
def test_entries_that_were_cut_off_the_end_are_found() -> None:
    tenant = make_tenant("acme")
    access.create_key(ACTOR, tenant, name="k1")
    access.create_key(ACTOR, tenant, name="k2")
    assert queries.head(tenant.public_id) == (3, queries.hash_at(tenant.public_id, 3))
    AuditEntry.objects.filter(tenant=tenant.public_id, sequence__gte=2).delete()
    assert queries.first_break(tenant.public_id) == 2


@pytest.mark.django_db
def test_an_end_that_was_written_anew_is_found() -> None:
    tenant = make_tenant("acme")
    access.create_key(ACTOR, tenant, name="k1")
    other = make_tenant("other")
    access.create_key(ACTOR, other, name="k2")
    digest = queries.hash_at(other.public_id, 2)
    AuditHead.objects.filter(tenant=tenant.public_id).update(hash=digest)
    assert queries.first_break(tenant.public_id) == 2


@pytest.mark.django_db
def test_chains_of_two_tenants_do_not_meet() -> None:
    first, second = make_tenant("acme"), make_tenant("other")
    access.create_key(ACTOR, first, name="k1")
    assert queries.entries(second.public_id).count() == 1
    assert AuditHead.objects.get(tenant=first.public_id).sequence == 2
    assert queries.first_break(second.public_id) is None


@pytest.mark.django_db(transaction=True)
def test_an_entry_goes_with_its_change_or_not_at_all() -> None:
    with pytest.raises(InvariantBroken):
        actions.record(ACTOR, tenant="tn_1", action="x", object_id="y")
    with pytest.raises(RuntimeError), transaction.atomic():
        make_tenant("acme")
        raise RuntimeError
    assert not AuditEntry.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "status"), [("1", 200), ("0", 400), ("01", 400), ("9" * 18, 404), ("9" * 19, 400)]
)
def test_entries_are_numbered_from_1_on(asked: str, status: int) -> None:
    _, key = access.create_key(ACTOR, make_tenant("acme"), name="all")
    assert call("GET", f"/v1/audit/head?sequence={asked}", token=key.reveal()).status == status
