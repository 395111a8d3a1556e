"""Versions of topics' settings made from the audit log, and restores: changes like any other."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from control_plane.access import actions as keys
from control_plane.access import list_actions
from control_plane.audit.models import AuditEntry
from control_plane.topics import actions, history
from penstock.contract.errors import InvalidRequest, LimitExceeded, NotFound
from penstock.rules.access import Acl
from quotas.actions import set_limits
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane.history.restoring import (
    HOUR,
    acl,
    alter,
    ask,
    backdate,
    last_number,
    orders,
    owner,
    retention,
    versions,
)
from tests.control_plane.world import ACTOR, House, call, make_house

pytestmark = pytest.mark.django_db


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
