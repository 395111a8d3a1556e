"""Versions of access lists, groups, accounts and keys made from the audit log, and restores of them."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from control_plane.access import actions as keys
from control_plane.access import history as access_history
from control_plane.access import list_actions, queries, restore_actions
from control_plane.access.models import AclEntry, PrincipalGroup
from penstock.contract import limits
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded
from penstock.rules.access import Acl
from quotas.actions import set_limits
from tenants.models import ApiKey, ServiceAccount, Tenant
from tenants.roles import Standing
from tests.control_plane.history.restoring import (
    HOUR,
    acl,
    alter,
    ask,
    backdate,
    last_number,
    owner,
    retention,
    says,
    versions,
)
from tests.control_plane.world import ACTOR, House, call, make_house

pytestmark = pytest.mark.django_db

EVERYONE = Acl(effect="allow", principal="everyone", resource="topic", name="orders", literal=True)


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
