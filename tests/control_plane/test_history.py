"""Histories made from the audit log, and restores: changes like any other, of topics' settings and of access."""

from collections.abc import Iterator
from copy import deepcopy
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.plugin import DjangoDbBlocker

from control_plane.access import actions as keys
from control_plane.access import history as access_history
from control_plane.access import list_actions, queries, restore_actions
from control_plane.access.models import AclEntry, PrincipalGroup
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.audit.queries import first_break
from control_plane.outbox import in_request
from control_plane.topics import actions, history
from control_plane.topics import queries as topics
from control_plane.topics.models import Topic
from penstock.contract import limits
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from penstock.rules.access import Acl
from quotas.actions import set_limits
from tenants.models import ApiKey, Membership, ServiceAccount, Tenant
from tenants.roles import Role, Standing
from tests.control_plane.rows_of_a_module import rows_of_a_module
from tests.control_plane.world import ACTOR, Answer, House, call, everything_delivered, make_house

pytestmark = pytest.mark.django_db

HOUR = 3_600_000
EVERYONE = Acl(effect="allow", principal="everyone", resource="topic", name="orders", literal=True)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    monkeypatch.setattr(topics, "ASK_S", 0.05)


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[House]:
    with rows_of_a_module(django_db_blocker):
        house = make_house("acme")
        actions.create_topic(
            ACTOR, house.tenant, name="orders", partitions=1, settings={"retention_ms": 24 * HOUR}
        )
        everything_delivered()
        yield house


@pytest.fixture
def house(made: House) -> Iterator[House]:
    yield deepcopy(made)
    # Whatever a test did, the log still holds.
    assert first_break(made.tenant.public_id) is None


@pytest.fixture
def tenant(house: House) -> Tenant:
    return house.tenant


def ask(
    house: House,
    method: str,
    path: str,
    body: Any = None,
    standing: Standing = Standing.OWNER,
    **headers: str,
) -> Answer:
    if method == "POST" and body is None:
        body = {}
    return call(method, path, body, token=house.credentials[standing], **headers)


def orders(tenant: Tenant) -> Topic:
    return topics.topic(tenant, "orders")


def retention(tenant: Tenant) -> int:
    return int(orders(tenant).settings["retention_ms"])


def alter(tenant: Tenant, **settings: Any) -> Topic:
    return actions.update_topic(ACTOR, tenant, "orders", settings=settings)


def versions(tenant: Tenant) -> list[int]:
    """The numbers of the topic's versions, the oldest first."""
    return [one.number for one in reversed(history.changes(orders(tenant)).page(None, 1_000))]


def backdate(tenant: Tenant, number: int, days: float) -> None:
    """As if the change had been made so many days earlier. The tests of the chain need the moment back."""
    row = AuditEntry.objects.get(tenant=tenant.public_id, sequence=number)
    AuditEntry.objects.filter(pk=row.pk).update(at=row.at - timedelta(days=days))


def owner(tenant: Tenant) -> Actor:
    person = Membership.objects.get(tenant=tenant, role=Role.OWNER).person
    return Actor(kind=ActorKind.PERSON, id=person.public_id)


def says(tenant: Tenant) -> set[str]:
    """The names that entries of the list name, with their effects."""
    return {f"{row.effect} {row.name}" for row in queries.acls(tenant)}


def acl(name: str, principal: str = "everyone", effect: str = "allow") -> Acl:
    return Acl(effect=effect, principal=principal, resource="topic", name=name, literal=True)


def last_number(tenant: Tenant) -> int:
    return AuditEntry.objects.filter(tenant=tenant.public_id).order_by("-sequence")[0].sequence


# -- settings of topics ---------------------------------------------------------------------------------


def test_each_change_of_the_settings_is_a_version_with_what_it_changed(house: House) -> None:
    alter(house.tenant, retention_ms=48 * HOUR)
    alter(house.tenant, retention_ms=72 * HOUR, max_message_bytes=1_000)
    page = ask(house, "GET", "/v1/topics/orders/history").body
    newest, middle, first = page["items"]
    assert page["next"] is None
    assert [one["action"] for one in page["items"]] == ["topic.update", "topic.update", "topic.create"]
    assert {f["field"]: (f["before"], f["after"]) for f in newest["fields"]} == {
        "retention_ms": (48 * HOUR, 72 * HOUR),
        "max_message_bytes": (1_048_576, 1_000),
    }
    assert newest["replaced_at"] is newest["restorable_until"] is None
    assert middle["replaced_at"] == newest["at"] and first["replaced_at"] == middle["at"]
    assert middle["restorable_until"] > middle["replaced_at"]
    assert newest["actor_kind"] == ACTOR.kind.value and newest["actor_id"] == ACTOR.id


def test_settings_are_restored_as_a_change_that_the_log_names(house: House) -> None:
    tenant = house.tenant
    alter(tenant, retention_ms=48 * HOUR, max_message_bytes=1_000)
    first = versions(tenant)[0]
    answer = ask(house, "POST", "/v1/topics/orders/restore", {"version": first})
    assert answer.status in (200, 202), answer.body
    assert answer.body["settings"]["retention_ms"] == 24 * HOUR
    assert retention(tenant) == 24 * HOUR and orders(tenant).settings["max_message_bytes"] == 1_048_576
    entry = AuditEntry.objects.filter(tenant=tenant.public_id).order_by("-sequence")[0]
    assert entry.action == "topic.settings_restored"
    assert entry.after["restored_version"] == first
    assert entry.before["settings"]["retention_ms"] == 48 * HOUR


def test_restoring_twice_changes_once_and_a_restore_is_undone_by_a_restore(tenant: Tenant) -> None:
    alter(tenant, retention_ms=48 * HOUR)
    first, second = versions(tenant)
    generation = history.restore_settings(ACTOR, tenant, orders(tenant), first).generation
    assert history.restore_settings(ACTOR, tenant, orders(tenant), first).generation == generation
    assert len(versions(tenant)) == 3
    history.restore_settings(ACTOR, tenant, orders(tenant), second)
    assert retention(tenant) == 48 * HOUR
    history.restore_settings(ACTOR, tenant, orders(tenant), versions(tenant)[2])
    assert retention(tenant) == 24 * HOUR


def test_partitions_stay_when_settings_are_restored(tenant: Tenant) -> None:
    first = versions(tenant)[0]
    actions.update_topic(ACTOR, tenant, "orders", partitions=5, settings={"retention_ms": HOUR})
    assert history.restore_settings(ACTOR, tenant, orders(tenant), first).partitions == 5
    assert retention(tenant) == 24 * HOUR


def test_a_value_above_the_plan_of_today_is_refused_by_its_limit(house: House) -> None:
    first = versions(house.tenant)[0]
    alter(house.tenant, retention_ms=HOUR)
    set_limits(ACTOR, house.tenant, retention_ms_max=2 * HOUR)
    answer = ask(house, "POST", "/v1/topics/orders/restore", {"version": first})
    assert (answer.status, answer.body["code"]) == (422, "limit_exceeded"), answer.body
    assert "retention_ms_max" in answer.body["detail"] and str(24 * HOUR) in answer.body["detail"]
    assert retention(house.tenant) == HOUR


def test_a_setting_that_no_longer_is_one_is_refused_by_its_name(tenant: Tenant) -> None:
    first = versions(tenant)[0]
    alter(tenant, retention_ms=HOUR)
    entry = AuditEntry.objects.get(tenant=tenant.public_id, sequence=first)
    kept = dict(entry.after)
    entry.after = {**kept, "settings": {**kept["settings"], "flavour": "plum"}}
    entry.save()
    with pytest.raises(InvalidRequest, match="flavour"):
        history.restore_settings(ACTOR, tenant, orders(tenant), first)
    entry.after = kept
    entry.save()


def test_what_was_replaced_longer_ago_than_the_plan_keeps_it_is_refused(tenant: Tenant) -> None:
    first = versions(tenant)[0]
    alter(tenant, retention_ms=HOUR)
    second = versions(tenant)[1]
    set_limits(ACTOR, tenant, bin_days=3)
    backdate(tenant, second, 3.01)
    with pytest.raises(LimitExceeded, match=rf"bin_days: version {first} of topic 'orders'.*for 3 days"):
        history.restore_settings(ACTOR, tenant, orders(tenant), first)
    backdate(tenant, second, -0.02)
    history.restore_settings(ACTOR, tenant, orders(tenant), first)
    assert retention(tenant) == 24 * HOUR
    backdate(tenant, second, -2.99)


def test_without_a_bin_nothing_is_restored(house: House) -> None:
    first = versions(house.tenant)[0]
    alter(house.tenant, retention_ms=HOUR)
    set_limits(ACTOR, house.tenant, bin_days=0)
    answer = ask(house, "POST", "/v1/topics/orders/restore", {"version": first})
    assert answer.status == 422 and "the plan has no recycle bin" in answer.body["detail"]
    assert ask(house, "GET", "/v1/bin/access").body["items"] == []


def test_a_change_between_reading_and_restoring_is_not_overwritten(house: House) -> None:
    first = versions(house.tenant)[0]
    alter(house.tenant, retention_ms=48 * HOUR)
    read = ask(house, "GET", "/v1/topics/orders").headers["ETag"]
    alter(house.tenant, retention_ms=72 * HOUR)
    stale = ask(house, "POST", "/v1/topics/orders/restore", {"version": first}, If_Match=read)
    assert stale.status == 412 and retention(house.tenant) == 72 * HOUR
    now = ask(house, "GET", "/v1/topics/orders").headers["ETag"]
    assert ask(house, "POST", "/v1/topics/orders/restore", {"version": first}, If_Match=now).status < 300
    assert retention(house.tenant) == 24 * HOUR


def test_a_topic_that_took_the_name_does_not_get_the_others_settings(tenant: Tenant) -> None:
    first = versions(tenant)[0]
    read = orders(tenant)
    actions.delete_topic(ACTOR, tenant, "orders")
    actions.create_topic(ACTOR, tenant, name="orders", partitions=1, settings={"retention_ms": HOUR})
    with pytest.raises(NotFound, match=f"version {first}"):
        history.restore_settings(ACTOR, tenant, read, first)
    with pytest.raises(NotFound, match=f"version {first}"):
        history.restore_settings(ACTOR, tenant, orders(tenant), first)
    assert retention(tenant) == HOUR


def test_versions_are_of_one_topic_of_one_tenant(house: House) -> None:
    actions.create_topic(ACTOR, house.tenant, name="clicks", partitions=1, settings={})
    alter(house.tenant, retention_ms=HOUR)
    first = versions(house.tenant)[0]
    other = make_house("other")
    actions.create_topic(ACTOR, other.tenant, name="orders", partitions=1, settings={})
    body = {"version": first}
    assert ask(house, "POST", "/v1/topics/clicks/restore", body).status == 404
    own = versions(other.tenant)[0]
    for number in {first, own + 1_000, last_number(house.tenant)} - {own}:
        assert ask(other, "POST", "/v1/topics/orders/restore", {"version": number}).status == 404
    assert ask(other, "GET", "/v1/topics/clicks/history").status == 404


def test_a_key_that_may_not_see_or_alter_the_topic_neither_reads_nor_restores(house: House) -> None:
    first = versions(house.tenant)[0]
    path = "/v1/topics/orders/restore"
    assert ask(house, "POST", path, {"version": first}, Standing.BOUND_KEY).status == 403
    assert ask(house, "POST", path, {"version": first}, Standing.AUDITOR).status == 403
    _, text = keys.create_key(owner(house.tenant), house.tenant, name="mine")
    token = text.reveal()
    list_actions.add_acls(
        owner(house.tenant),
        house.tenant,
        [Acl(effect="deny", principal="everyone", resource="topic", name="orders", operations=("alter",))],
    )
    assert call("GET", "/v1/topics/orders/history", token=token).status == 200
    assert call("POST", path, {"version": first}, token=token).status == 403
    list_actions.add_acls(owner(house.tenant), house.tenant, [acl("orders", effect="deny")])
    assert call("GET", "/v1/topics/orders/history", token=token).status == 404
    assert call("POST", path, {"version": first}, token=token).status == 404


@pytest.mark.parametrize(
    "body", [{}, {"version": 0}, {"version": -1}, {"version": "1"}, {"version": True}, {"version": 10**30}]
)
def test_a_version_that_is_no_number_of_an_entry_is_refused(house: House, body: dict[str, Any]) -> None:
    for path in ("/v1/topics/orders/restore", "/v1/access/restore"):
        assert ask(house, "POST", path, body).status == 400, path


def test_a_repeated_request_restores_once(house: House) -> None:
    first = versions(house.tenant)[0]
    alter(house.tenant, retention_ms=HOUR)
    one, two = (
        ask(house, "POST", "/v1/topics/orders/restore", {"version": first}, Idempotency_Key="a")
        for _ in range(2)
    )
    assert one.body == two.body and two.headers["Idempotency-Replayed"] == "true"
    assert len(versions(house.tenant)) == 3


def test_ten_thousand_versions_come_in_pages_of_a_bounded_size(house: House) -> None:
    tenant = house.tenant
    sample = AuditEntry.objects.get(tenant=tenant.public_id, action="topic.create")
    last = last_number(tenant)
    AuditEntry.objects.bulk_create(
        [
            AuditEntry(
                tenant=tenant.public_id,
                sequence=last + n,
                at=sample.at + timedelta(seconds=n),
                actor_kind="person",
                actor_id="usr_x",
                action="topic.update",
                object_id=sample.object_id,
                before={"settings": {"retention_ms": n}},
                after={"settings": {"retention_ms": n + 1}},
                object_kind="topic",
                previous_hash="0" * 64,
                hash="0" * 64,
            )
            for n in range(1, 10_001)
        ],
        batch_size=1_000,
    )
    seen, cursor = [], ""
    for _ in range(3):
        with CaptureQueriesContext(connection) as counted:
            page = ask(house, "GET", f"/v1/topics/orders/history?limit=1000{cursor}").body
        assert len(counted) < 20 and len(page["items"]) == 1_000
        seen += page["items"]
        cursor = f"&cursor={page['next']}"
    assert [one["version"] for one in seen] == list(range(last + 10_000, last + 7_000, -1))
    assert all(a["at"] == b["replaced_at"] for a, b in pairwise(seen))
    AuditEntry.objects.filter(tenant=tenant.public_id, sequence__gt=last).delete()


# -- the access list ------------------------------------------------------------------------------------


def test_a_removed_entry_comes_back_under_its_id(house: House) -> None:
    tenant = house.tenant
    _, (entry,) = list_actions.add_acls(owner(tenant), tenant, [acl("orders", effect="deny")])
    list_actions.remove_acl(owner(tenant), tenant, entry.public_id)
    (gone,) = ask(house, "GET", "/v1/bin/access").body["items"]
    assert (gone["kind"], gone["id"]) == ("acl", entry.public_id) and "orders" in gone["text"]
    answer = ask(house, "POST", f"/v1/acls/{entry.public_id}/restore")
    assert answer.status in (200, 202) and answer.body["id"] == entry.public_id
    assert queries.acl(tenant, entry.public_id).acl == entry.acl
    assert ask(house, "GET", "/v1/bin/access").body["items"] == []
    before = last_number(tenant)
    assert ask(house, "POST", f"/v1/acls/{entry.public_id}/restore").body["id"] == entry.public_id
    assert last_number(tenant) == before, "the second time nothing changed"
    list_actions.remove_acl(owner(tenant), tenant, entry.public_id)
    assert len(ask(house, "GET", "/v1/bin/access").body["items"]) == 1
    assert ask(house, "POST", f"/v1/acls/{entry.public_id}/restore").status < 300


def test_an_entry_that_another_one_says_is_not_there_twice(tenant: Tenant) -> None:
    _, (entry,) = list_actions.add_acls(ACTOR, tenant, [EVERYONE])
    list_actions.remove_acl(ACTOR, tenant, entry.public_id)
    _, (same,) = list_actions.add_acls(ACTOR, tenant, [EVERYONE])
    _, found = restore_actions.restore_acl(ACTOR, tenant, entry.public_id)
    assert found.pk == same.pk and AclEntry.objects.filter(tenant=tenant).count() == 1


def test_an_entry_of_a_principal_that_is_gone_is_refused_by_its_name(house: House) -> None:
    tenant = house.tenant
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    principal = f"service_account:{account.public_id}"
    _, (entry,) = list_actions.add_acls(ACTOR, tenant, [acl("orders", principal)])
    list_actions.end_account(ACTOR, tenant, account)
    answer = ask(house, "POST", f"/v1/acls/{entry.public_id}/restore")
    assert answer.status == 404 and f"{principal} (robot) is gone" in answer.body["detail"]


def test_an_entry_that_was_never_removed_or_is_another_tenants_is_not_found(house: House) -> None:
    other = make_house("other")
    _, (theirs,) = list_actions.add_acls(ACTOR, other.tenant, [EVERYONE])
    list_actions.remove_acl(ACTOR, other.tenant, theirs.public_id)
    for public_id in (theirs.public_id, "acl_none"):
        assert ask(house, "POST", f"/v1/acls/{public_id}/restore").status == 404
    assert ask(house, "GET", "/v1/bin/access").body["items"] == []


def test_the_list_is_restored_as_it_was_after_a_change_or_at_a_time(house: House) -> None:
    tenant = house.tenant
    _, (a, _) = list_actions.add_acls(ACTOR, tenant, [acl("a"), acl("b")])
    then, number = timezone.now(), last_number(tenant)
    list_actions.set_default(owner(tenant), tenant, "deny")
    list_actions.remove_acl(ACTOR, tenant, a.public_id)
    list_actions.add_acls(ACTOR, tenant, [acl("c", effect="deny")])
    later = last_number(tenant)
    answer = ask(house, "POST", "/v1/access/restore", {"at": then.isoformat()})
    assert answer.status in (200, 202), answer.body
    assert says(tenant) == {"allow a", "allow b"} and answer.body["default"] == "allow"
    assert [one["name"] for one in answer.body["added"]] == ["a"]
    assert [one["name"] for one in answer.body["removed"]] == ["c"]
    assert queries.acl(tenant, a.public_id).acl == a.acl
    assert ask(house, "POST", "/v1/access/restore", {"version": later}).status < 300
    assert says(tenant) == {"allow b", "deny c"} and queries.access_list(tenant).default == "deny"
    assert ask(house, "POST", "/v1/access/restore", {"version": number}).status < 300
    assert says(tenant) == {"allow a", "allow b"}
    before = last_number(tenant)
    assert ask(house, "POST", "/v1/access/restore", {"version": number}).status < 300
    assert last_number(tenant) == before, "the second time nothing changed"


def test_a_restore_of_the_list_is_a_version_that_can_be_restored(tenant: Tenant) -> None:
    list_actions.add_acls(ACTOR, tenant, [acl("a")])
    first = last_number(tenant)
    list_actions.add_acls(ACTOR, tenant, [acl("b")])
    restore_actions.restore_list(ACTOR, tenant, version=first)
    restored = last_number(tenant)
    newest = access_history.of_list(tenant).newest()
    assert newest is not None and newest.entry.action == "access.restored"
    list_actions.add_acls(ACTOR, tenant, [acl("c")])
    restore_actions.restore_list(ACTOR, tenant, version=restored)
    assert says(tenant) == {"allow a"}


def test_a_full_list_is_restored_since_what_goes_makes_room(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ACLS_PER_TENANT_MAX", 2)
    list_actions.add_acls(ACTOR, tenant, [acl("a"), acl("b")])
    first = last_number(tenant)
    gone = AclEntry.objects.get(tenant=tenant, name="b")
    list_actions.remove_acl(ACTOR, tenant, gone.public_id)
    list_actions.add_acls(ACTOR, tenant, [acl("c")])
    restore_actions.restore_list(ACTOR, tenant, version=first)
    assert says(tenant) == {"allow a", "allow b"}


def test_the_list_before_it_was_ever_set_is_empty_and_allows(tenant: Tenant) -> None:
    first = last_number(tenant)
    list_actions.add_acls(ACTOR, tenant, [acl("a")])
    list_actions.set_default(owner(tenant), tenant, "deny")
    restore_actions.restore_list(owner(tenant), tenant, version=first)
    assert says(tenant) == set() and queries.access_list(tenant).default == "allow"


def test_what_names_a_principal_that_is_gone_is_left_out_if_that_is_said(house: House) -> None:
    tenant = house.tenant
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    principal = f"service_account:{account.public_id}"
    list_actions.add_acls(ACTOR, tenant, [acl("a"), acl("b", principal)])
    number = last_number(tenant)
    list_actions.end_account(ACTOR, tenant, account)
    list_actions.add_acls(ACTOR, tenant, [acl("c")])
    body = {"version": number}
    refused = ask(house, "POST", "/v1/access/restore", body)
    assert refused.status == 404 and "(robot) is gone" in refused.body["detail"]
    assert says(tenant) == {"allow a", "allow c"}
    answer = ask(house, "POST", "/v1/access/restore", {**body, "leave_out_gone": True})
    assert answer.body["left_out"] == [{"principal": principal, "name": "robot"}]
    assert says(tenant) == {"allow a"}


def test_a_key_does_not_restore_a_list_that_locks_it_out(house: House) -> None:
    tenant = house.tenant
    list_actions.set_default(owner(tenant), tenant, "deny")
    number = last_number(tenant)
    list_actions.set_default(owner(tenant), tenant, "allow")
    _, text = keys.create_key(owner(tenant), tenant, name="mine")
    answer = call("POST", "/v1/access/restore", {"version": number}, token=text.reveal())
    assert answer.status == 403 and "would lock the key" in answer.body["detail"]
    assert queries.access_list(tenant).default == "allow"
    assert ask(house, "POST", "/v1/access/restore", {"version": number}).status < 300


def test_a_list_that_was_changed_meanwhile_is_not_restored(house: House) -> None:
    tenant = house.tenant
    _, (entry,) = list_actions.add_acls(ACTOR, tenant, [acl("a")])
    number = last_number(tenant)
    list_actions.remove_acl(ACTOR, tenant, entry.public_id)
    read = ask(house, "GET", "/v1/access").headers["ETag"]
    list_actions.add_acls(ACTOR, tenant, [acl("b")])
    for path, body in (
        ("/v1/access/restore", {"version": number}),
        (f"/v1/acls/{entry.public_id}/restore", {}),
    ):
        assert ask(house, "POST", path, body, If_Match=read).status == 412, path
    assert says(tenant) == {"allow b"}
    now = ask(house, "GET", "/v1/access").headers["ETag"]
    assert ask(house, "POST", f"/v1/acls/{entry.public_id}/restore", {}, If_Match=now).status < 300


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"version": 1, "at": "2026-01-01T00:00:00Z"}, 400),
        ({"at": "2999-01-01T00:00:00Z"}, 400),
        ({"at": "1999-01-01T00:00:00Z"}, 400),
        ({"version": 10**17}, 404),
        ({"version": 1, "leave_out_gone": "yes"}, 400),
        ({"version": 1, "everything": True}, 400),
    ],
)
def test_a_time_or_version_that_the_list_never_had_is_refused(
    house: House, body: dict[str, Any], status: int
) -> None:
    assert ask(house, "POST", "/v1/access/restore", body).status == status


def test_too_many_changes_to_go_back_through_are_refused(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = last_number(tenant)
    list_actions.add_acls(ACTOR, tenant, [acl(name) for name in "abcd"])
    monkeypatch.setattr(access_history, "CHANGES_UNDONE_MAX", 3)
    with pytest.raises(LimitExceeded, match="over 3 changes"):
        restore_actions.restore_list(ACTOR, tenant, version=first)
    restore_actions.restore_list(ACTOR, tenant, version=first + 1)
    assert says(tenant) == {"allow a"}


def test_an_entry_comes_back_only_while_there_is_room(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, (entry,) = list_actions.add_acls(ACTOR, tenant, [acl("a")])
    list_actions.remove_acl(ACTOR, tenant, entry.public_id)
    list_actions.add_acls(ACTOR, tenant, [acl("b")])
    monkeypatch.setattr(limits, "ACLS_PER_TENANT_MAX", 1)
    with pytest.raises(LimitExceeded, match="may have no more"):
        restore_actions.restore_acl(ACTOR, tenant, entry.public_id)


# -- groups of principals -------------------------------------------------------------------------------


def test_a_removed_group_comes_back_with_members_and_entries_that_name_it_work(house: House) -> None:
    tenant = house.tenant
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    principal = f"service_account:{account.public_id}"
    _, group = list_actions.create_group(ACTOR, tenant, name="robots", members=[principal])
    _, (entry,) = list_actions.add_acls(ACTOR, tenant, [acl("orders", f"group:{group.public_id}", "deny")])
    asked = ("produce", "topic", "orders", "")
    assert not queries.answer_for(tenant, principal, *asked).allowed
    list_actions.remove_acl(ACTOR, tenant, entry.public_id)
    list_actions.remove_group(ACTOR, tenant, group.public_id)
    refused = ask(house, "POST", f"/v1/acls/{entry.public_id}/restore")
    assert refused.status == 404 and "(robots) is gone" in refused.body["detail"]
    kinds = [one["kind"] for one in ask(house, "GET", "/v1/bin/access").body["items"]]
    assert kinds == ["principal_group", "acl"]
    answer = ask(house, "POST", f"/v1/principal-groups/{group.public_id}/restore")
    assert answer.body["members"] == [principal] and answer.body["name"] == "robots", answer.body
    assert ask(house, "POST", f"/v1/acls/{entry.public_id}/restore").status < 300
    assert not queries.answer_for(tenant, principal, *asked).allowed


def test_the_members_of_an_earlier_version_are_restored(house: House) -> None:
    tenant = house.tenant
    one, two = (
        f"service_account:{list_actions.create_account(ACTOR, tenant, name=name).public_id}"
        for name in ("one", "two")
    )
    _, group = list_actions.create_group(ACTOR, tenant, name="robots", members=[one])
    list_actions.set_members(ACTOR, tenant, group.public_id, [two])
    path = f"/v1/principal-groups/{group.public_id}"
    newest, first = ask(house, "GET", f"{path}/history").body["items"]
    assert newest["fields"] == [{"field": "members", "before": [one], "after": [two]}]
    assert ask(house, "POST", f"{path}/restore", {"version": first["version"]}).body["members"] == [one]
    restored = ask(house, "GET", f"{path}/history").body["items"][0]
    assert restored["action"] == "principal_group.restored"
    assert ask(house, "POST", f"{path}/restore", {"version": newest["version"]}).body["members"] == [two]
    assert ask(house, "POST", f"{path}/restore", {"version": 1}).status == 404


def test_a_group_whose_name_is_taken_comes_back_under_another(house: House) -> None:
    tenant = house.tenant
    _, group = list_actions.create_group(ACTOR, tenant, name="robots", members=[])
    list_actions.remove_group(ACTOR, tenant, group.public_id)
    list_actions.create_group(ACTOR, tenant, name="robots", members=[])
    path = f"/v1/principal-groups/{group.public_id}/restore"
    assert ask(house, "POST", path).status == 409
    assert ask(house, "POST", path, {"name": "a\nb"}).status == 400
    assert ask(house, "POST", path, {"name": "robots-before"}).body["name"] == "robots-before"
    assert ask(house, "POST", path, {"name": "other"}).status == 400, "it is there, and keeps its name"


def test_a_group_does_not_come_back_into_a_circle(tenant: Tenant) -> None:
    _, inner = list_actions.create_group(ACTOR, tenant, name="inner", members=[])
    _, outer = list_actions.create_group(ACTOR, tenant, name="outer", members=[f"group:{inner.public_id}"])
    number = last_number(tenant)
    list_actions.set_members(ACTOR, tenant, outer.public_id, [])
    list_actions.set_members(ACTOR, tenant, inner.public_id, [f"group:{outer.public_id}"])
    with pytest.raises(InvalidRequest, match="circle"):
        restore_actions.restore_group(ACTOR, tenant, outer.public_id, version=number)
    assert PrincipalGroup.objects.get(pk=outer.pk).members == []


def test_a_member_that_is_gone_is_named_or_left_out(house: House) -> None:
    tenant = house.tenant
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    principal = f"service_account:{account.public_id}"
    _, group = list_actions.create_group(ACTOR, tenant, name="robots", members=[principal])
    number = last_number(tenant)
    list_actions.end_account(ACTOR, tenant, account)
    path, body = f"/v1/principal-groups/{group.public_id}/restore", {"version": number}
    refused = ask(house, "POST", path, body)
    assert refused.status == 404 and "(robot) is gone" in refused.body["detail"]
    answer = ask(house, "POST", path, {**body, "leave_out_gone": True})
    assert answer.body["left_out"] == [{"principal": principal, "name": "robot"}]


def test_a_group_is_gone_after_the_bins_period(tenant: Tenant) -> None:
    _, group = list_actions.create_group(ACTOR, tenant, name="robots", members=[])
    list_actions.remove_group(ACTOR, tenant, group.public_id)
    number = last_number(tenant)
    backdate(tenant, number, 7.01)
    assert access_history.removed(tenant, None, 10) == []
    with pytest.raises(LimitExceeded, match="bin_days"):
        restore_actions.restore_group(ACTOR, tenant, group.public_id)
    backdate(tenant, number, -7.01)
    assert restore_actions.restore_group(ACTOR, tenant, group.public_id).group.name == "robots"


# -- service accounts and keys --------------------------------------------------------------------------


def test_a_service_account_comes_back_with_what_named_it_and_without_its_secrets(house: House) -> None:
    tenant = house.tenant
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    principal = f"service_account:{account.public_id}"
    key, _ = keys.create_key(owner(tenant), tenant, name="robot's", topic_prefix="orders", account=account)
    _, group = list_actions.create_group(ACTOR, tenant, name="robots", members=[principal])
    _, lost = list_actions.create_group(ACTOR, tenant, name="lost", members=[principal])
    _, (entry,) = list_actions.add_acls(ACTOR, tenant, [acl("orders", principal, "deny")])
    list_actions.end_account(ACTOR, tenant, account)
    list_actions.remove_group(ACTOR, tenant, lost.public_id)
    answer = ask(house, "POST", f"/v1/service-accounts/{account.public_id}/restore")
    assert answer.status in (200, 202), answer.body
    assert [one["id"] for one in answer.body["acls"]] == [entry.public_id]
    assert answer.body["groups"] == [group.public_id] and answer.body["left_out"] == [lost.public_id]
    assert PrincipalGroup.objects.get(pk=group.pk).members == [principal]
    assert ApiKey.objects.get(pk=key.pk).revoked_at is not None
    before = last_number(tenant)
    assert ask(house, "POST", f"/v1/service-accounts/{account.public_id}/restore").body["acls"] == []
    assert last_number(tenant) == before, "the second time nothing changed"
    made = ask(house, "POST", f"/v1/keys/{key.public_id}/restore")
    assert made.status in (201, 202), made.body
    assert made.body["id"] != key.public_id and made.body["service_account"] == account.public_id
    assert [scope["name"] for scope in made.body["scopes"]] == ["orders"]
    assert ApiKey.objects.get(pk=key.pk).revoked_at is not None


def test_an_account_whose_name_is_taken_or_whose_plan_is_full_stays_away(house: House) -> None:
    tenant = house.tenant
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    list_actions.end_account(ACTOR, tenant, account)
    list_actions.create_account(ACTOR, tenant, name="robot")
    with pytest.raises(AlreadyExists):
        restore_actions.restore_account(ACTOR, tenant, account.public_id)
    set_limits(ACTOR, tenant, service_accounts_max=1)
    with pytest.raises(LimitExceeded, match="service_accounts_max"):
        restore_actions.restore_account(ACTOR, tenant, account.public_id, name="again")
    set_limits(ACTOR, tenant, service_accounts_max=2)
    restore_actions.restore_account(ACTOR, tenant, account.public_id, name="again")
    assert ServiceAccount.objects.get(pk=account.pk).name == "again"
    other = make_house("other")
    assert ask(other, "POST", f"/v1/service-accounts/{account.public_id}/restore").status == 404


def test_a_valid_key_another_persons_and_one_too_old_are_not_made_again(house: House) -> None:
    tenant = house.tenant
    key, text = keys.create_key(owner(tenant), tenant, name="mine", operations=["produce"])
    path = f"/v1/keys/{key.public_id}/restore"
    assert "is valid" in ask(house, "POST", path).body["detail"]
    assert ask(house, "DELETE", f"/v1/keys/{key.public_id}").status < 300
    assert "another principal" in ask(house, "POST", path, None, Standing.ADMIN).body["detail"]
    assert ask(house, "POST", path, None, Standing.AUDITOR).status == 403
    assert ask(house, "POST", path, None, Standing.BOUND_KEY).status == 403
    assert ask(house, "POST", path, {"expires_at": "2020-01-01T00:00:00Z"}).status == 400
    made = ask(house, "POST", path).body
    assert made["scopes"] == [
        {"resource": "", "name": "", "pattern": "prefix", "operations": ["produce"]}
    ] and text.reveal() not in repr(made)
    ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now() - timedelta(days=8))
    assert "bin_days" in ask(house, "POST", path).body["detail"]
    assert ask(make_house("other"), "POST", path).status == 404


def test_a_key_of_an_account_needs_who_may_write_access(house: House) -> None:
    tenant = house.tenant
    account = list_actions.create_account(ACTOR, tenant, name="robot")
    key, _ = keys.create_key(owner(tenant), tenant, name="robot's", account=account)
    assert ask(house, "DELETE", f"/v1/keys/{key.public_id}").status < 300
    path = f"/v1/keys/{key.public_id}/restore"
    assert ask(house, "POST", path, None, Standing.DEVELOPER).status == 403
    list_actions.end_account(ACTOR, tenant, account)
    assert ask(house, "POST", path).status == 404, "its account is gone"


# -- tenants --------------------------------------------------------------------------------------------


def test_in_a_closed_tenant_keys_restore_nothing_and_people_what_they_may_change(house: House) -> None:
    tenant = house.tenant
    first = versions(tenant)[0]
    alter(tenant, retention_ms=48 * HOUR)
    Tenant.objects.filter(pk=tenant.pk).update(closed_at=timezone.now())
    path, body = "/v1/topics/orders/restore", {"version": first}
    assert ask(house, "POST", path, body, Standing.KEY).status == 401
    assert ask(house, "GET", "/v1/access/history", None, Standing.KEY).status == 401
    assert retention(tenant) == 48 * HOUR
    # As every change: the tenant may be reopened.
    changed = ask(house, "PATCH", "/v1/topics/orders", {"settings": {"retention_ms": 72 * HOUR}})
    assert changed.status == ask(house, "POST", path, body).status == 202
