"""People of a tenant: invitations, roles, and that it always has an owner; over actions, REST and pages."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from penstock.contract.errors import AlreadyExists, Forbidden, InvalidRequest, NotFound
from tenants.models import Invitation, Membership, Person
from tenants.people import actions, queries
from tenants.roles import Role, Standing
from tests.control_plane.world import PASSWORD, House, call, make_house, make_person

pytestmark = pytest.mark.django_db

NEW = "zoe@else.example"


@pytest.fixture
def house() -> House:
    return make_house("acme")


def actor(house: House, role: Role) -> Actor:
    member = queries.members(house.tenant).get(role=role)
    return Actor(kind=ActorKind.PERSON, id=member.person.public_id)


def person_id(house: House, role: Role) -> str:
    return actor(house, role).id


def actions_audited(house: House) -> list[str]:
    told = AuditEntry.objects.filter(tenant=house.tenant.public_id, action__startswith="person.")
    return [entry.action for entry in told.order_by("sequence")]


# -- inviting and joining -------------------------------------------------------------------------------


def test_an_invitation_is_taken_once_and_by_its_address_only(house: House) -> None:
    _, token = actions.invite(
        actor(house, Role.OWNER), house.tenant, email=" Zoe@Else.example", role="developer"
    )
    stranger, _ = make_person("mallory@else.example")
    zoe, _ = make_person(NEW)
    as_zoe = Actor(kind=ActorKind.PERSON, id=zoe.public_id)
    with pytest.raises(Forbidden, match="the invitation is for zoe@else"):
        actions.join(Actor(kind=ActorKind.PERSON, id=stranger.public_id), stranger, token)
    assert actions.join(as_zoe, zoe, token).role == "developer"
    with pytest.raises(NotFound, match="was taken or withdrawn"):
        actions.join(as_zoe, zoe, token)
    assert actions_audited(house) == ["person.invite", "person.join"]


def test_the_link_is_nowhere_in_the_database(house: House) -> None:
    _, token = actions.invite(actor(house, Role.OWNER), house.tenant, email=NEW, role="auditor")
    kept = repr([list(model.objects.values_list()) for model in (Invitation, AuditEntry)])
    assert token not in kept


def test_a_withdrawn_an_old_and_a_replaced_invitation_lead_nowhere(house: House) -> None:
    owner = actor(house, Role.OWNER)
    row, withdrawn = actions.invite(owner, house.tenant, email=NEW, role="auditor")
    actions.withdraw(owner, house.tenant, row.public_id)
    _, replaced = actions.invite(owner, house.tenant, email=NEW, role="auditor")
    last, old = actions.invite(owner, house.tenant, email=NEW, role="billing")
    assert [one.pk for one in queries.invitations(house.tenant)] == [last.pk]
    Invitation.objects.filter(pk=last.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    for token in (withdrawn, replaced, old, "", "psi_none"):
        with pytest.raises(NotFound):
            queries.invitation_of(token)
        assert Client().get(f"/join/{token or 'x'}").status_code == 404


def test_who_belongs_already_is_not_invited(house: House) -> None:
    with pytest.raises(AlreadyExists, match="belongs to acme already"):
        actions.invite(actor(house, Role.OWNER), house.tenant, email="ADMIN@acme.example", role="owner")


@pytest.mark.parametrize(
    ("email", "role", "said"), [("nobody", "admin", "email: "), (NEW, "king", "role: 'king' is none of")]
)
def test_what_is_no_address_or_no_role_is_refused(house: House, email: str, role: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        actions.invite(actor(house, Role.OWNER), house.tenant, email=email, role=role)


# -- who may --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [Role.DEVELOPER, Role.BILLING, Role.AUDITOR])
def test_actions_refuse_whoever_may_not_change_people(house: House, role: Role) -> None:
    who, other = actor(house, role), person_id(house, Role.ADMIN)
    row, _ = actions.invite(actor(house, Role.OWNER), house.tenant, email=NEW, role="auditor")
    for refused in (
        lambda: actions.invite(who, house.tenant, email="a@b.example", role="auditor"),
        lambda: actions.change_role(who, house.tenant, other, role="auditor"),
        lambda: actions.remove(who, house.tenant, other),
        lambda: actions.withdraw(who, house.tenant, row.public_id),
    ):
        with pytest.raises(Forbidden, match=r"people\.write is not for"):
            refused()


def test_an_admin_makes_admins_and_touches_no_owner(house: House) -> None:
    admin, owner = actor(house, Role.ADMIN), person_id(house, Role.OWNER)
    assert (
        actions.change_role(admin, house.tenant, person_id(house, Role.AUDITOR), role="admin").role == "admin"
    )
    for refused in (
        lambda: actions.invite(admin, house.tenant, email=NEW, role="owner"),
        lambda: actions.change_role(admin, house.tenant, admin.id, role="owner"),
        lambda: actions.change_role(admin, house.tenant, owner, role="auditor"),
        lambda: actions.remove(admin, house.tenant, owner),
    ):
        with pytest.raises(Forbidden, match="only an owner"):
            refused()


def test_nobody_of_another_tenant_changes_people(house: House) -> None:
    stranger = actor(make_house("umbrella"), Role.OWNER)
    with pytest.raises(Forbidden):
        actions.remove(stranger, house.tenant, person_id(house, Role.AUDITOR))
    with pytest.raises(Forbidden):
        actions.invite(stranger, house.tenant, email=NEW, role="owner")


def test_the_last_owner_stays(house: House) -> None:
    owner = actor(house, Role.OWNER)
    for refused in (
        lambda: actions.remove(owner, house.tenant, owner.id),
        lambda: actions.change_role(owner, house.tenant, owner.id, role="admin"),
    ):
        with pytest.raises(InvalidRequest, match="is the last owner of acme"):
            refused()
    actions.change_role(owner, house.tenant, person_id(house, Role.ADMIN), role="owner")
    actions.remove(owner, house.tenant, owner.id)
    assert not Membership.objects.filter(tenant=house.tenant, person__public_id=owner.id).exists()
    assert actions_audited(house) == ["person.role", "person.leave"]


def test_everybody_may_leave(house: House) -> None:
    for role in (Role.ADMIN, Role.DEVELOPER, Role.BILLING, Role.AUDITOR):
        who = actor(house, role)
        actions.remove(who, house.tenant, who.id)
    assert [row.role for row in queries.members(house.tenant)] == ["owner"]


# -- REST -----------------------------------------------------------------------------------------------


def test_a_newcomer_signs_up_with_an_invitation_and_makes_no_tenant(house: House) -> None:
    owner = house.credentials[Standing.OWNER]
    made = call("POST", "/v1/invitations", {"email": NEW, "role": "developer"}, token=owner)
    assert made.status == 201 and made.body["link"].endswith(made.body["token"])
    listed = call("GET", "/v1/invitations", token=owner).body["items"]
    assert [one["email"] for one in listed] == [NEW] and "token" not in listed[0]
    sign_up = {"email": NEW, "password": PASSWORD, "invitation": made.body["token"]}
    assert call("POST", "/v1/sign-up", {**sign_up, "tenant": "both"}).status == 400
    assert call("POST", "/v1/sign-up", {**sign_up, "email": "other@else.example"}).status == 403
    assert not Person.objects.filter(email="other@else.example").exists()
    joined = call("POST", "/v1/sign-up", sign_up)
    assert joined.status == 201 and joined.body["tenant"]["name"] == "acme"
    topics = call("GET", "/v1/topics", token=joined.body["token"])
    assert topics.status == 200
    assert call("POST", "/v1/sign-up", sign_up).status == 404


def test_people_are_listed_changed_and_removed_over_rest(house: House) -> None:
    owner = house.credentials[Standing.OWNER]
    people = {one["role"]: one for one in call("GET", "/v1/people", token=owner).body["items"]}
    assert set(people) == {role.value for role in Role}
    address = f"/v1/people/{people['auditor']['id']}"
    assert call("PATCH", address, {"role": "billing"}, token=owner).body["role"] == "billing"
    assert call("PATCH", address, {"role": "king"}, token=owner).status == 400
    assert call("DELETE", address, token=owner).status == 204
    assert call("GET", address, token=owner).status == 404
    assert call("GET", "/v1/topics", token=house.credentials[Standing.AUDITOR]).status == 400


def test_a_repeated_invitation_shows_its_link_no_more(house: House) -> None:
    owner = house.credentials[Standing.OWNER]
    body = {"email": NEW, "role": "developer"}
    assert call("POST", "/v1/invitations", body, token=owner, Idempotency_Key="a").status == 201
    again = call("POST", "/v1/invitations", body, token=owner, Idempotency_Key="a")
    assert again.status == 409 and "psi_" not in repr(again.body)


# -- pages ----------------------------------------------------------------------------------------------


def signed_in(house: House, standing: Standing) -> Client:
    client = Client()
    client.cookies["penstock"] = house.credentials[standing]
    return client


def text(client: Client, path: str) -> str:
    return client.get(path).content.decode()


def test_the_link_of_the_page_leads_a_newcomer_into_the_tenant(house: House) -> None:
    owner = signed_in(house, Standing.OWNER)
    shown = owner.post("/t/acme/invite", {"email": NEW, "role": "developer"}).content.decode()
    token = shown.split("/join/")[1].split("<")[0]
    assert token not in text(owner, "/t/acme/people") and NEW in text(owner, "/t/acme/people")
    newcomer = Client()
    assert "Join acme" in text(newcomer, f"/join/{token}")
    assert newcomer.post(f"/join/{token}", {"password": "short"}).status_code == 422
    assert newcomer.post(f"/join/{token}", {"password": PASSWORD})["Location"] == "/t/acme"
    assert "your role is developer" in text(newcomer, "/t/acme")
    assert newcomer.get(f"/join/{token}").status_code == 404


def test_who_has_signed_up_signs_in_and_comes_back_to_join(house: House) -> None:
    Client().post("/sign-up", {"email": NEW, "password": PASSWORD, "tenant": "else"})
    _, token = actions.invite(actor(house, Role.OWNER), house.tenant, email=NEW, role="auditor")
    client = Client()
    assert f"/sign-in?next=/join/{token}" in text(client, f"/join/{token}").replace("%2F", "/")
    assert client.post(f"/join/{token}", {"password": PASSWORD}).status_code == 200
    signed = client.post("/sign-in", {"email": NEW, "password": PASSWORD, "next": f"/join/{token}"})
    assert signed["Location"] == f"/join/{token}"
    assert "Join as auditor" in text(client, f"/join/{token}")
    assert client.post(f"/join/{token}")["Location"] == "/t/acme"


def test_somebody_else_who_is_signed_in_is_told_whose_invitation_it_is(house: House) -> None:
    _, token = actions.invite(actor(house, Role.OWNER), house.tenant, email=NEW, role="auditor")
    other = signed_in(house, Standing.BILLING)
    assert "The invitation is for another address" in text(other, f"/join/{token}")
    assert other.post(f"/join/{token}").status_code == 403


def test_a_removed_person_finds_the_tenant_no_more(house: House) -> None:
    removed = signed_in(house, Standing.DEVELOPER)
    owner = signed_in(house, Standing.OWNER)
    address = f"/t/acme/people/{person_id(house, Role.DEVELOPER)}/remove"
    assert removed.get("/t/acme/topics").status_code == 200
    assert owner.post(address).status_code == 302
    assert removed.get("/t/acme/topics").status_code == 404


def test_the_page_offers_what_the_person_may_do(house: House) -> None:
    as_owner, as_admin = (
        text(signed_in(house, one), "/t/acme/people") for one in (Standing.OWNER, Standing.ADMIN)
    )
    as_auditor = text(signed_in(house, Standing.AUDITOR), "/t/acme/people")
    assert '<option value="owner"' in as_owner and '<option value="owner"' not in as_admin
    assert "Invite a person" in as_admin and "Invite a person" not in as_auditor
    assert "<select" not in as_auditor and "Leave" in as_auditor
    role = f"/t/acme/people/{person_id(house, Role.ADMIN)}/role"
    assert signed_in(house, Standing.AUDITOR).post(role, {"role": "owner"}).status_code == 403
    assert signed_in(house, Standing.OWNER).post(role, {"role": "billing"}).status_code == 302
    assert queries.members(house.tenant).filter(role="billing").count() == 2
