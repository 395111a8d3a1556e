"""A key never may more than who made it: when it is made, over REST, and on the brokers when their role falls."""

from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone

from control_plane.access import actions as access
from control_plane.audit.actor import Actor, ActorKind
from control_plane.brokers.view import ClusterView
from control_plane.outbox import in_request
from control_plane.outbox.models import Delivery
from control_plane.reconciliation import reconcile as reconciliation
from penstock.contract.errors import Forbidden
from tenants import actions as tenants
from tenants.key_use import actions as key_use
from tenants.models import ApiKey, Membership, Person
from tenants.people import actions as people
from tenants.people import queries
from tenants.roles import KEY_ROLES, TABLE, Permission, Role, Standing
from tests.control_plane.world import ACTOR, House, call, make_house, with_verifying_key

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture
def house() -> House:
    return make_house("acme")


def person(house: House, role: Role) -> Person:
    return queries.members(house.tenant).get(role=role).person


def actor(house: House, role: Role) -> Actor:
    return Actor(kind=ActorKind.PERSON, id=person(house, role).public_id)


def made_over_rest(token: str, **given: Any) -> tuple[str, str]:
    """(public id, text) of a new key."""
    answer = call("POST", "/v1/keys", {"name": "app", **given}, token=token)
    assert answer.status == 202, answer.body
    return answer.body["id"], answer.body["key"]


def delivered_generations(public_id: str) -> list[int]:
    rows = Delivery.objects.filter(kind="key", object_id=public_id)
    return sorted(rows.values_list("generation", flat=True))


def test_an_unbound_key_of_a_developer_reads_no_invoices(house: House) -> None:
    developer = house.credentials[Standing.DEVELOPER]
    assert call("GET", "/v1/invoices", token=developer).status == 403
    _, key = made_over_rest(developer)
    refused = call("GET", "/v1/invoices", token=key)
    assert refused.status == 403 and "whose maker is developer" in refused.body["detail"]
    assert call("GET", "/v1/topics", token=key).status == 200
    _, key = made_over_rest(house.credentials[Standing.OWNER])
    assert call("GET", "/v1/invoices", token=key).status == 200


def test_a_key_that_a_key_made_may_no_more_than_the_person_behind_them(house: House) -> None:
    _, first = made_over_rest(house.credentials[Standing.DEVELOPER])
    public_id, second = made_over_rest(first)
    assert call("GET", "/v1/invoices", token=second).status == 403
    shown = call("GET", f"/v1/keys/{public_id}", token=second).body
    assert shown["made_by"] == person(house, Role.DEVELOPER).public_id


def test_a_key_that_ends_makes_keys_that_end_with_it(house: House) -> None:
    ends = timezone.now() + timedelta(hours=1)
    _, first = made_over_rest(house.credentials[Standing.OWNER], expires_at=ends.isoformat())
    late = {"name": "late", "expires_at": (ends + timedelta(seconds=1)).isoformat()}
    refused = call("POST", "/v1/keys", late, token=first)
    assert refused.status == 400 and "a key ends with its maker" in refused.body["detail"]
    public_id, _ = made_over_rest(first)
    assert ApiKey.objects.get(public_id=public_id).expires_at == ends


def test_a_key_follows_its_makers_role_down_and_up(house: House) -> None:
    _, key = made_over_rest(house.credentials[Standing.ADMIN])
    owner, admin = actor(house, Role.OWNER), person(house, Role.ADMIN)
    assert call("GET", "/v1/invoices", token=key).status == 200
    people.change_role(owner, house.tenant, admin.public_id, role="developer")
    assert call("GET", "/v1/invoices", token=key).status == 403
    people.change_role(owner, house.tenant, admin.public_id, role="admin")
    assert call("GET", "/v1/invoices", token=key).status == 200


@pytest.mark.parametrize("role", [role for role in Role if role not in KEY_ROLES])
def test_keys_are_revoked_on_the_brokers_when_their_makers_role_may_hold_none(
    house: House, role: Role
) -> None:
    public_id, key = made_over_rest(house.credentials[Standing.DEVELOPER])
    child, _ = made_over_rest(key)
    other, _ = made_over_rest(house.credentials[Standing.ADMIN])
    developer = person(house, Role.DEVELOPER)
    people.change_role(actor(house, Role.OWNER), house.tenant, developer.public_id, role=role.value)
    assert call("GET", "/v1/topics", token=key).status == 401
    for revoked in (public_id, child):
        assert ApiKey.objects.get(public_id=revoked).revoked_at is not None
        assert delivered_generations(revoked) == [1, 2]
    assert delivered_generations(other) == [1]


def test_keys_of_a_removed_person_are_revoked_on_the_brokers(house: House) -> None:
    public_id, key = made_over_rest(house.credentials[Standing.DEVELOPER])
    people.remove(actor(house, Role.OWNER), house.tenant, person(house, Role.DEVELOPER).public_id)
    assert call("GET", "/v1/topics", token=key).status == 401
    assert delivered_generations(public_id) == [1, 2]


def test_brokers_need_not_ask_for_the_role_of_who_may_hold_keys() -> None:
    for permission in (
        Permission.TOPICS_READ,
        Permission.MESSAGES_READ,
        Permission.MESSAGES_WRITE,
        Permission.GROUPS_READ,
        Permission.GROUPS_WRITE,
    ):
        assert {Standing(role.value) for role in KEY_ROLES} <= TABLE[permission]


@pytest.mark.parametrize("role", [Role.BILLING, Role.AUDITOR])
def test_nobody_makes_a_key_whose_role_may_hold_none(house: House, role: Role) -> None:
    with pytest.raises(Forbidden, match=rf"keys\.write is not for {role.value}"):
        access.create_key(actor(house, role), house.tenant, name="app")
    key, _ = access.create_key(actor(house, role), house.tenant, name="console", within_service=True)
    assert key.maker is None


def test_nobody_makes_keys_of_another_tenant(house: House) -> None:
    stranger = make_house("umbrella")
    key, _ = access.create_key(ACTOR, stranger.tenant, name="app")
    for who in (actor(stranger, Role.OWNER), Actor(kind=ActorKind.KEY, id=key.public_id)):
        with pytest.raises(Forbidden):
            access.create_key(who, house.tenant, name="app")


def test_a_revoked_key_makes_no_other(house: House) -> None:
    key, _ = access.create_key(actor(house, Role.OWNER), house.tenant, name="app")
    tenants.revoke_key(ACTOR, key)
    with pytest.raises(Forbidden):
        access.create_key(Actor(kind=ActorKind.KEY, id=key.public_id), house.tenant, name="app")


def test_reconciliation_revokes_what_stands_beyond_its_makers_role(house: House) -> None:
    key, text = access.create_key(actor(house, Role.DEVELOPER), house.tenant, name="app")
    Membership.objects.filter(tenant=house.tenant, person=person(house, Role.DEVELOPER)).delete()
    assert call("GET", "/v1/topics", token=text.reveal()).status == 401
    found = reconciliation.repair(ClusterView(cluster_id="c", revision=1, controller=1, brokers=()))
    assert [one.object_id for one in found] == [key.public_id]
    assert delivered_generations(key.public_id) == [1, 2]


def test_the_console_names_the_keys_that_end_before_a_role_falls(house: House) -> None:
    developer = person(house, Role.DEVELOPER)
    key, _ = access.create_key(actor(house, Role.DEVELOPER), house.tenant, name="shop-app")
    owner = Client()
    owner.cookies["penstock"] = house.credentials[Standing.OWNER]
    address = f"/t/acme/people/{developer.public_id}"
    assert key.public_id in owner.get(f"{address}/remove").content.decode()
    asked = owner.post(f"{address}/role", {"role": "auditor"})
    assert asked.status_code == 200 and key.public_id in asked.content.decode()
    assert queries.member(house.tenant, developer.public_id).role == "developer"
    assert owner.post(f"{address}/role", {"role": "auditor", "confirmed": "1"}).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_keys_from_before_learn_their_makers_from_the_audit_log(house: House) -> None:
    first, _ = access.create_key(actor(house, Role.DEVELOPER), house.tenant, name="first")
    second, _ = access.create_key(Actor(kind=ActorKind.KEY, id=first.public_id), house.tenant, name="second")
    own, _ = access.create_key(ACTOR, house.tenant, name="own")
    ApiKey.objects.update(maker=None)
    import_module("tenants.migrations.0004_name_makers").name_makers(apps, None)
    made_by = {key.public_id: key.maker for key in ApiKey.objects.select_related("maker")}
    developer = person(house, Role.DEVELOPER)
    assert made_by[first.public_id] == made_by[second.public_id] == developer
    assert made_by[own.public_id] is None


# -- keys that prove invoices ---------------------------------------------------------------------------


@pytest.mark.parametrize("role", [Role.OWNER, Role.ADMIN, Role.BILLING, Role.AUDITOR])
def test_each_role_that_reads_invoices_makes_a_key_that_proves_them_and_reads_no_message(
    house: House, role: Role
) -> None:
    made = call(
        "POST", "/v1/keys:verifying", {"name": "proof"}, token=house.credentials[Standing(role.value)]
    )
    assert made.status == 202, made.body
    scope = {"resource": "topic", "name": "", "pattern": "prefix", "operations": ["verify"]}
    assert made.body["scopes"] == [scope]
    key = made.body["key"]
    for path in ("invoices", "billing/chain", "topics"):
        assert call("GET", f"/v1/{path}", token=key).status == 200, path
    for method, path, body in (
        ("GET", "usage", None), ("GET", "keys", None), ("GET", "acls", None), ("GET", "audit", None),
        ("POST", "topics", {"name": "x"}), ("POST", "keys", {"name": "x"}), ("POST", "keys:verifying", {"name": "x"}),
        ("GET", "keys:verifying", None),
    ):  # fmt: skip
        assert call(method, f"/v1/{path}", body, token=key).status == 403, path
    asked = f"/v1/access/check?key={made.body['id']}&resource=topic&name=orders&operation="
    owner = house.credentials[Standing.OWNER]
    allowed = {
        one: call("GET", asked + one, token=owner).body["allowed"]
        for one in ("verify", "describe", "consume")
    }
    assert allowed == {"verify": True, "describe": True, "consume": False}


def test_a_developer_makes_no_key_that_reads_invoices(house: House) -> None:
    developer = house.credentials[Standing.DEVELOPER]
    assert call("POST", "/v1/keys:verifying", {"name": "proof"}, token=developer).status == 403
    _, key = made_over_rest(
        developer, scopes=[{"resource": "topic", "pattern": "prefix", "operations": ["verify"]}]
    )
    assert call("GET", "/v1/invoices", token=key).status == 403


@pytest.mark.parametrize("standing", [Standing.OWNER, Standing.ADMIN, Standing.BILLING, Standing.AUDITOR])
def test_who_may_make_a_verifying_key_may_revoke_each_of_the_tenant(house: House, standing: Standing) -> None:
    token = house.credentials[standing]
    made_by_owner = call(
        "POST", "/v1/keys:verifying", {"name": "proof"}, token=house.credentials[Standing.OWNER]
    ).body["id"]
    assert call("DELETE", f"/v1/keys/{made_by_owner}", token=token).status in (200, 202)
    assert ApiKey.objects.get(public_id=made_by_owner).revoked_at is not None


@pytest.mark.parametrize("standing", [Standing.OWNER, Standing.ADMIN, Standing.BILLING, Standing.AUDITOR])
def test_who_may_make_a_verifying_key_lists_each_of_the_tenant_and_no_other_key(
    house: House, standing: Standing
) -> None:
    other = make_house("other")
    access.create_key(ACTOR, house.tenant, name="writer")
    access.create_verifying_key(ACTOR, other.tenant, name="theirs")
    ours = [access.create_verifying_key(ACTOR, house.tenant, name=f"proof-{n}")[0] for n in range(2)]
    tenants.revoke_key(ACTOR, ours[0])
    listed = call("GET", "/v1/keys:verifying", token=house.credentials[standing])
    assert listed.status == 200, listed.body
    assert {item["id"]: item["revoked_at"] is None for item in listed.body["items"]} == {
        ours[0].public_id: False,
        ours[1].public_id: True,
    }


@pytest.mark.parametrize("standing", [Standing.BILLING, Standing.AUDITOR, Standing.VERIFYING_KEY])
def test_who_holds_no_key_revokes_none_that_does_more_than_prove_invoices(
    house: House, standing: Standing
) -> None:
    with_keys, other = with_verifying_key(house), make_house("other")
    token = with_keys.credentials[standing]
    writer, _ = access.create_key(ACTOR, house.tenant, name="writer")
    theirs, _ = access.create_verifying_key(ACTOR, other.tenant, name="proof")
    ours, _ = access.create_verifying_key(ACTOR, house.tenant, name="proof")
    refused = [writer.public_id, theirs.public_id, "key_none"]
    if standing is Standing.VERIFYING_KEY:
        refused.append(ours.public_id)
    for key in refused:
        assert call("DELETE", f"/v1/keys/{key}", token=token).status == 403, key
    assert call("DELETE", f"/v1/keys/{theirs.public_id}", token=token, tenant=other.tenant).status == 404
    for row in (writer, theirs, ours):
        row.refresh_from_db()
        assert row.revoked_at is None


def test_a_verifying_key_stays_with_a_role_that_may_hold_it_and_ends_with_the_person(house: House) -> None:
    admin, owner = person(house, Role.ADMIN), actor(house, Role.OWNER)
    token = house.credentials[Standing.ADMIN]
    proof = call("POST", "/v1/keys:verifying", {"name": "proof"}, token=token).body
    _, other = made_over_rest(token)
    people.change_role(owner, house.tenant, admin.public_id, role="billing")
    assert call("GET", "/v1/invoices", token=proof["key"]).status == 200
    assert call("GET", "/v1/topics", token=other).status == 401
    view = ClusterView(cluster_id="c", revision=1, controller=1, brokers=())
    assert reconciliation.repair(view) == [], "it is not beyond its maker"
    people.remove(owner, house.tenant, admin.public_id)
    assert call("GET", "/v1/invoices", token=proof["key"]).status == 401
    assert delivered_generations(proof["id"]) == [1, 2]


# -- the last use at brokers ----------------------------------------------------------------------------


def test_use_at_brokers_is_noted_and_never_taken_back(house: House) -> None:
    used, unused, lately = (access.create_key(ACTOR, house.tenant, name=f"key {n}")[0] for n in range(3))
    now = timezone.now()
    ApiKey.objects.filter(pk=lately.pk).update(last_used_at=now)
    ages = {used.key_id: 90.0, lately.key_id: 300.0, "nobody's": 1.0}
    assert key_use.note_keys_used(ages) == 1
    for key in (used, unused, lately):
        key.refresh_from_db()
    assert used.last_used_at is not None
    assert abs((now - used.last_used_at).total_seconds() - 90) < 30
    assert unused.last_used_at is None
    assert lately.last_used_at == now
    assert key_use.note_keys_used(ages) == 0, "what is noted is not written again"
