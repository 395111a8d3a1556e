"""Organisations: what their roles give in tenants and when it ends, invitations, moves of tenants, owners, locks."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from control_plane.access import list_actions, organisation_actions
from control_plane.access.actions import create_key
from control_plane.access.models import AclEntry
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.audit.queries import first_break
from control_plane.outbox import in_request
from penstock.contract.errors import (
    AlreadyExists,
    Forbidden,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    PenstockError,
    PreconditionFailed,
)
from penstock.contract.limits import ORGANISATIONS_PER_PERSON_MAX
from penstock.rules.access import Acl
from tenants import joining
from tenants import queries as tenants
from tenants.closing import actions as closing
from tenants.models import (
    ApiKey,
    Membership,
    Organisation,
    OrganisationInvitation,
    OrganisationMember,
    Person,
    Tenant,
)
from tenants.organisations import actions, queries, tenant_actions
from tenants.people import actions as people
from tenants.roles import TENANT_ROLES, OrganisationRole, Role, Standing, role_of
from tests.control_plane.world import (
    ACTOR,
    PASSWORD,
    House,
    call,
    make_house,
    make_organisation,
    make_person,
    make_tenant,
)

pytestmark = pytest.mark.django_db

PATIENCE_S = 60
NEW = "zoe@else.example"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture
def house() -> House:
    return make_house("acme")


@pytest.fixture
def organisation(house: House) -> Organisation:
    """Which owns the house's tenant; its people have their roles in both."""
    return make_organisation(house, "acme-group", owning=True)


def acting(person: Person) -> Actor:
    return Actor(kind=ActorKind.PERSON, id=person.public_id)


def of_house(house: House, role: Role) -> Person:
    return Membership.objects.get(tenant=house.tenant, role=role).person


def member(organisation: Organisation, role: OrganisationRole, email: str = NEW) -> tuple[Person, str]:
    """One who has no role in any tenant themselves, and the token of their session."""
    person, token = make_person(email)
    OrganisationMember.objects.create(organisation=organisation, person=person, role=role)
    return person, token


# -- what a role gives ------------------------------------------------------------------------------------


@pytest.mark.parametrize("within", [None, *OrganisationRole])
@pytest.mark.parametrize("direct", [None, *Role])
def test_of_two_roles_the_higher_counts(direct: Role | None, within: OrganisationRole | None) -> None:
    order = [Role.OWNER, Role.ADMIN, Role.DEVELOPER, Role.AUDITOR, Role.BILLING]
    both = [role for role in (direct, None if within is None else TENANT_ROLES[within]) if role is not None]
    assert role_of(direct, within) == (min(both, key=order.index) if both else None)


@pytest.mark.parametrize(
    ("role", "topics", "keys", "invoices", "audit"),
    [
        (OrganisationRole.OWNER, 202, 201, 200, 200),
        (OrganisationRole.ADMIN, 202, 201, 200, 200),
        (OrganisationRole.BILLING, 403, 403, 200, 403),
        (OrganisationRole.AUDITOR, 403, 403, 200, 200),
    ],
)
def test_a_member_may_in_each_tenant_what_their_role_says(
    organisation: Organisation,
    house: House,
    role: OrganisationRole,
    topics: int,
    keys: int,
    invoices: int,
    audit: int,
) -> None:
    second = make_tenant("second")
    Tenant.objects.filter(pk=second.pk).update(organisation=organisation)
    _, token = member(organisation, role)
    for tenant in (house.tenant, second):
        made = call("POST", "/v1/topics", {"name": "fresh"}, token=token, tenant=tenant)
        assert made.status == topics, made.body
        key = call("POST", "/v1/keys", {"name": "fresh"}, token=token, tenant=tenant)
        assert key.status in (keys, keys + 1), key.body
        assert call("GET", "/v1/invoices", token=token, tenant=tenant).status == invoices
        assert call("GET", "/v1/audit", token=token, tenant=tenant).status == audit
    listed = call("GET", "/v1/tenants", token=token).body["items"]
    assert {(one["id"], one["organisation"]) for one in listed} == {
        (tenant.public_id, organisation.public_id) for tenant in (house.tenant, second)
    }
    alone = make_tenant("alone")
    assert call("GET", "/v1/topics", token=token, tenant=alone).status == 404
    browser = Client()
    browser.cookies["penstock"] = token
    assert browser.get("/t/acme/topics").status_code == 200
    assert browser.get("/t/alone/topics").status_code == 404


def test_an_admin_by_the_organisation_changes_people_and_touches_no_owner(
    organisation: Organisation, house: House
) -> None:
    person, _ = member(organisation, OrganisationRole.ADMIN)
    people.invite(acting(person), house.tenant, email="new@else.example", role="admin")
    with pytest.raises(Forbidden, match="only an owner"):
        people.invite(acting(person), house.tenant, email="new@else.example", role="owner")


def test_a_role_that_is_taken_away_is_gone_with_the_next_request(
    organisation: Organisation, house: House
) -> None:
    person, token = member(organisation, OrganisationRole.ADMIN)
    owner = acting(of_house(house, Role.OWNER))
    browser = Client()
    browser.cookies["penstock"] = token
    made = call("POST", "/v1/keys", {"name": "hers"}, token=token, tenant=house.tenant)
    text = made.body["secret"] if "secret" in made.body else made.body["key"]
    assert call("GET", "/v1/topics", token=text).status == 200
    actions.change_role(owner, organisation, person.public_id, role="billing")
    assert call("POST", "/v1/topics", {"name": "x"}, token=token, tenant=house.tenant).status == 403
    assert call("GET", "/v1/topics", token=text).status == 401
    assert ApiKey.objects.get(name="hers").revoked_at is not None
    assert browser.get("/t/acme/new-topic").status_code == 403
    organisation_actions.remove_member(owner, organisation, person.public_id)
    assert call("GET", "/v1/topics", token=token, tenant=house.tenant).status == 404
    assert call("GET", f"/v1/organisations/{organisation.public_id}", token=token).status == 404
    assert browser.get("/t/acme/topics").status_code == 404
    assert browser.get("/o/acme-group").status_code == 404


def test_who_keeps_a_role_of_their_own_keeps_its_keys(organisation: Organisation, house: House) -> None:
    admin = of_house(house, Role.ADMIN)
    developer = of_house(house, Role.DEVELOPER)
    OrganisationMember.objects.create(
        organisation=organisation, person=developer, role=OrganisationRole.ADMIN
    )
    create_key(acting(admin), house.tenant, name="admin's")
    create_key(acting(developer), house.tenant, name="developer's")
    owner = acting(of_house(house, Role.OWNER))
    organisation_actions.remove_member(owner, organisation, admin.public_id)
    # And the other way round: the organisation's role is left when the own one goes.
    list_actions.remove_person(owner, house.tenant, developer.public_id)
    assert not ApiKey.objects.filter(
        tenant=house.tenant, name__endswith="'s", revoked_at__isnull=False
    ).exists()
    assert tenants.role_in(house.tenant, developer) is Role.ADMIN
    assert not tenants.keys_beyond_their_makers().filter(tenant=house.tenant).exists()
    organisation_actions.remove_member(owner, organisation, developer.public_id)
    assert ApiKey.objects.get(name="developer's").revoked_at is not None


def test_reconciliation_finds_keys_that_a_role_of_the_organisation_no_longer_bears(
    organisation: Organisation, house: House
) -> None:
    person, _ = member(organisation, OrganisationRole.ADMIN)
    key, _ = create_key(acting(person), house.tenant, name="hers")
    assert not tenants.keys_beyond_their_makers().filter(pk=key.pk).exists()
    OrganisationMember.objects.filter(person=person).update(role=OrganisationRole.AUDITOR)
    assert tenants.keys_beyond_their_makers().filter(pk=key.pk).exists()


def test_a_suspended_person_has_no_role_by_the_organisation(organisation: Organisation, house: House) -> None:
    person, token = member(organisation, OrganisationRole.OWNER)
    key, text = create_key(acting(person), house.tenant, name="hers")
    Person.objects.filter(pk=person.pk).update(is_active=False)
    assert tenants.role_in(house.tenant, person) is None
    assert call("GET", "/v1/topics", token=token, tenant=house.tenant).status == 401
    assert call("GET", "/v1/topics", token=text.reveal()).status == 401
    assert tenants.keys_beyond_their_makers().filter(pk=key.pk).exists()


def test_a_required_second_factor_holds_for_members_too(organisation: Organisation, house: House) -> None:
    person, token = member(organisation, OrganisationRole.OWNER)
    Membership.objects.create(tenant=house.tenant, person=person, role=Role.OWNER)
    since = timezone.now() - timedelta(days=1)
    Tenant.objects.filter(pk=house.tenant.pk).update(factors_from=since)
    assert call("GET", "/v1/topics", token=token, tenant=house.tenant).status == 403
    path = f"/v1/organisations/{organisation.public_id}/tenants/{house.tenant.public_id}"
    answer = call("DELETE", path, token=token)
    assert answer.status == 403 and "requires a second factor" in answer.body["detail"]
    browser = Client()
    browser.cookies["penstock"] = token
    assert browser.get("/t/acme/topics")["Location"] == "/account"


# -- moving tenants ---------------------------------------------------------------------------------------


def test_a_tenant_that_is_moved_out_ends_all_rights_by_the_organisation(
    organisation: Organisation, house: House
) -> None:
    person, token = member(organisation, OrganisationRole.ADMIN)
    owner = of_house(house, Role.OWNER)
    create_key(acting(person), house.tenant, name="hers")
    entry = Acl(
        effect="allow", principal=f"person:{person.public_id}", resource="topic", name="orders", literal=True
    )
    list_actions.add_acls(ACTOR, house.tenant, [entry])
    path = f"/v1/organisations/{organisation.public_id}/tenants/{house.tenant.public_id}"
    moved = call("DELETE", path, token=house.credentials[Standing.OWNER])
    assert moved.status == 202 and moved.body["organisation"] is None
    assert call("GET", "/v1/topics", token=token, tenant=house.tenant).status == 404
    assert ApiKey.objects.get(name="hers").revoked_at is not None
    assert not AclEntry.objects.filter(tenant=house.tenant).exists(), (
        "who comes back has what they are given then"
    )
    assert tenants.role_in(house.tenant, owner) is Role.OWNER
    assert call("DELETE", path, token=house.credentials[Standing.OWNER]).status == 404, "twice"


def test_who_moves_a_tenant_owns_both(organisation: Organisation, house: House) -> None:
    by_organisation, _ = member(organisation, OrganisationRole.OWNER)
    admin, owner = of_house(house, Role.ADMIN), of_house(house, Role.OWNER)
    with pytest.raises(Forbidden, match="whose own role in it is owner"):
        tenant_actions.move_out(acting(by_organisation), organisation, house.tenant)
    with pytest.raises(Forbidden, match=r"tenants\.move is not for admin"):
        tenant_actions.move_out(acting(admin), organisation, house.tenant)
    other = make_house("umbrella")
    with pytest.raises(NotFound):
        tenant_actions.move_in(acting(owner), organisation, other.tenant.public_id)
    Membership.objects.create(tenant=other.tenant, person=owner, role=Role.ADMIN)
    with pytest.raises(Forbidden, match="whose own role in it is owner"):
        tenant_actions.move_in(acting(owner), organisation, other.tenant.public_id)
    stranger = of_house(other, Role.OWNER)
    with pytest.raises(NotFound, match="organisation"):
        tenant_actions.move_in(acting(stranger), organisation, other.tenant.public_id)


def test_a_tenant_belongs_to_one_organisation_at_most(organisation: Organisation, house: House) -> None:
    owner = of_house(house, Role.OWNER)
    second = actions.create(acting(owner), owner, name="second")
    with pytest.raises(AlreadyExists, match="move it out of that first"):
        tenant_actions.move_in(acting(owner), second, house.tenant.public_id)
    tenant_actions.move_out(acting(owner), organisation, house.tenant)
    moved = tenant_actions.move_in(acting(owner), second, house.tenant.public_id)
    again = tenant_actions.move_in(acting(owner), second, house.tenant.public_id)
    assert moved.generation == again.generation, "again changes nothing"


def test_moves_stand_in_both_chains_and_both_hold(organisation: Organisation, house: House) -> None:
    owner = acting(of_house(house, Role.OWNER))
    tenant_actions.move_out(owner, organisation, house.tenant)
    tenant_actions.move_in(owner, organisation, house.tenant.public_id)
    for chain in (organisation.public_id, house.tenant.public_id):
        found = AuditEntry.objects.filter(tenant=chain, action__startswith="tenant.move").order_by("sequence")
        assert [entry.action for entry in found] == ["tenant.move_out", "tenant.move_in"]
        assert first_break(chain) is None
    path = f"/v1/organisations/{organisation.public_id}/audit"
    listed = call("GET", path, token=house.credentials[Standing.AUDITOR])
    assert [one["action"] for one in listed.body["items"]] == ["tenant.move_out", "tenant.move_in"]
    assert call("GET", path, token=house.credentials[Standing.BILLING]).status == 403


def test_an_organisation_with_tenants_is_not_deleted_and_a_purged_one_holds_nothing_up(
    organisation: Organisation, house: House
) -> None:
    owner = acting(of_house(house, Role.OWNER))
    actions.invite(owner, organisation, email=NEW, role="admin")
    with pytest.raises(InvalidRequest, match="owns 1 tenants"):
        actions.delete(owner, organisation)
    closing.close(ACTOR, house.tenant)
    Tenant.objects.filter(pk=house.tenant.pk).update(purge_at=timezone.now() - timedelta(days=1))
    closing.purge(ACTOR, Tenant.objects.get(pk=house.tenant.pk))
    actions.delete(owner, organisation)
    assert not Organisation.objects.exists() and not OrganisationInvitation.objects.exists()
    assert first_break(organisation.public_id) is None, "its chain stays"
    person = Person.objects.get(public_id=owner.id)
    assert actions.create(owner, person, name="acme-group").public_id != organisation.public_id


# -- names ------------------------------------------------------------------------------------------------


def test_names_are_unique_and_look_like_no_others() -> None:
    person, _ = make_person(NEW)
    actions.create(acting(person), person, name="acme")
    with pytest.raises(AlreadyExists, match="called 'ACME'"):
        actions.create(acting(person), person, name="ACME")
    for name in ("асme", "a b", "", "acme\u200b", "x" * 64):
        with pytest.raises(InvalidRequest, match=r"^name: "):
            actions.create(acting(person), person, name=name)
    for called in ("Асme", "Acme\u202e", " Acme", "\uff21cme", "x" * 101, "Acme\n"):
        with pytest.raises(InvalidRequest, match=r"^display_name: "):
            actions.create(acting(person), person, name="other", display_name=called)
    assert (
        actions.create(acting(person), person, name="other", display_name="Ακμή 3").display_name == "Ακμή 3"
    )


def test_a_person_owns_a_bounded_number_of_organisations() -> None:
    person, _ = make_person(NEW)
    for number in range(ORGANISATIONS_PER_PERSON_MAX):
        actions.create(acting(person), person, name=f"o-{number}")
    with pytest.raises(LimitExceeded, match="at most 10"):
        actions.create(acting(person), person, name="more")


# -- invitations ------------------------------------------------------------------------------------------


def test_an_invitation_is_taken_once_and_by_its_address_only(
    organisation: Organisation, house: House
) -> None:
    owner = acting(of_house(house, Role.OWNER))
    _, token = actions.invite(owner, organisation, email=" Zoe@Else.example", role="auditor")
    stranger, _ = make_person("mallory@else.example")
    zoe, session = make_person(NEW)
    with pytest.raises(Forbidden, match="the invitation is for zoe@else"):
        joining.join(acting(stranger), stranger, token)
    joined = call("POST", "/v1/join", {"token": token}, token=session)
    assert (joined.status, joined.body["tenant"]) == (200, None)
    assert (joined.body["organisation"], joined.body["role"]) == (organisation.public_id, "auditor")
    with pytest.raises(NotFound, match="was taken or withdrawn"):
        joining.join(acting(zoe), zoe, token)
    assert tenants.role_in(house.tenant, zoe) is Role.AUDITOR
    kept = repr([list(model.objects.values_list()) for model in (OrganisationInvitation, AuditEntry)])
    assert token not in kept


def test_a_new_person_signs_up_with_an_invitation(organisation: Organisation, house: House) -> None:
    owner = acting(of_house(house, Role.OWNER))
    _, token = actions.invite(owner, organisation, email=NEW, role="billing")
    page = Client().get(f"/join/{token}").content.decode()
    assert "Join acme-group" in page and "In each of its tenants" in page
    answer = call("POST", "/v1/sign-up", {"email": NEW, "password": PASSWORD, "invitation": token})
    assert answer.status == 201, answer.body
    assert (answer.body["tenant"], answer.body["organisation"]) == (None, organisation.public_id)
    assert call("GET", "/v1/invoices", token=answer.body["token"]).status == 200
    _, again = actions.invite(owner, organisation, email="b@else.example", role="billing")
    joined = Client().post(f"/join/{again}", {"password": PASSWORD})
    assert joined["Location"] == "/o/acme-group"


def test_a_withdrawn_and_a_replaced_invitation_lead_nowhere(organisation: Organisation, house: House) -> None:
    owner, admin = (acting(of_house(house, role)) for role in (Role.OWNER, Role.ADMIN))
    row, withdrawn = actions.invite(admin, organisation, email=NEW, role="auditor")
    actions.withdraw(admin, organisation, row.public_id)
    _, replaced = actions.invite(owner, organisation, email=NEW, role="auditor")
    last, _ = actions.invite(owner, organisation, email=NEW, role="owner")
    for token in (withdrawn, replaced, "psj_nothing"):
        with pytest.raises(NotFound):
            joining.invitation_of(token)
    with pytest.raises(Forbidden, match="only an owner"):
        actions.withdraw(admin, organisation, last.public_id)
    with pytest.raises(AlreadyExists, match="belongs to acme-group already"):
        actions.invite(owner, organisation, email="ADMIN@acme.example", role="owner")


# -- owners and admins ------------------------------------------------------------------------------------


def test_the_last_owner_stays(organisation: Organisation, house: House) -> None:
    owner, admin = of_house(house, Role.OWNER), of_house(house, Role.ADMIN)
    for refused in (
        lambda: actions.remove(acting(owner), organisation, owner.public_id),
        lambda: actions.change_role(acting(owner), organisation, owner.public_id, role="admin"),
    ):
        with pytest.raises(InvalidRequest, match="is the last owner of acme-group"):
            refused()
    actions.change_role(acting(owner), organisation, admin.public_id, role="owner")
    actions.remove(acting(owner), organisation, owner.public_id)
    with pytest.raises(InvalidRequest, match="is the last owner of acme-group"):
        actions.remove(acting(admin), organisation, admin.public_id)


@pytest.mark.parametrize("role", [OrganisationRole.BILLING, OrganisationRole.AUDITOR])
def test_who_may_not_change_members_may_leave(
    organisation: Organisation, house: House, role: OrganisationRole
) -> None:
    who = of_house(house, Role(role.value))
    other = of_house(house, Role.ADMIN).public_id
    for refused in (
        lambda: actions.invite(acting(who), organisation, email="a@b.example", role="auditor"),
        lambda: actions.change_role(acting(who), organisation, other, role="auditor"),
        lambda: actions.remove(acting(who), organisation, other),
        lambda: actions.change(acting(who), organisation, display_name="Mine"),
        lambda: actions.delete(acting(who), organisation),
    ):
        with pytest.raises(Forbidden):
            refused()
    actions.remove(acting(who), organisation, who.public_id)
    with pytest.raises(NotFound, match="organisation"):
        actions.remove(acting(who), organisation, who.public_id)


def at_once(*attempts: Callable[[], object]) -> list[PenstockError]:
    """Do all of these at the same time. Returns what was refused."""
    together = threading.Barrier(len(attempts))
    refused: list[PenstockError] = []
    broken: list[Exception] = []

    def attempt(act: Callable[[], object]) -> None:
        try:
            together.wait(PATIENCE_S)
            act()
        except PenstockError as error:
            refused.append(error)
        except Exception as error:
            broken.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=attempt, args=(act,)) for act in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)
    assert not broken
    return refused


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("role", [OrganisationRole.OWNER, OrganisationRole.ADMIN])
def test_of_two_who_demote_each_other_at_once_one_is_demoted(role: OrganisationRole) -> None:
    house = make_house("acme")
    organisation = make_organisation(house, "acme-group", owning=True)
    if role is OrganisationRole.OWNER:
        OrganisationMember.objects.filter(person=of_house(house, Role.OWNER)).delete()
    one, other = (member(organisation, role, f"{name}@else.example")[0] for name in ("ann", "bob"))
    for person in (one, other):
        create_key(acting(person), house.tenant, name=person.email)
    refused = at_once(
        lambda: actions.change_role(acting(one), organisation, other.public_id, role="auditor"),
        lambda: actions.change_role(acting(other), organisation, one.public_id, role="auditor"),
    )
    assert [type(error) for error in refused] == [Forbidden]
    left = queries.members(organisation).filter(person__in=(one, other))
    assert sorted(row.role for row in left) == sorted([role.value, "auditor"])
    assert ApiKey.objects.filter(revoked_at=None, maker__in=(one, other)).count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_owners_do_not_leave_at_once() -> None:
    house = make_house("acme")
    organisation = make_organisation(house, "acme-group", owning=True)
    other, _ = member(organisation, OrganisationRole.OWNER)
    owner = of_house(house, Role.OWNER)
    refused = at_once(
        lambda: organisation_actions.remove_member(acting(owner), organisation, owner.public_id),
        lambda: organisation_actions.remove_member(acting(other), organisation, other.public_id),
    )
    assert [type(error) for error in refused] == [InvalidRequest]
    assert queries.members(organisation).filter(role=OrganisationRole.OWNER).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_key_that_is_made_while_its_maker_is_removed_does_not_stay() -> None:
    house = make_house("acme")
    organisation = make_organisation(house, "acme-group", owning=True)
    person, _ = member(organisation, OrganisationRole.ADMIN)
    owner = acting(of_house(house, Role.OWNER))
    refused = at_once(
        lambda: create_key(acting(person), house.tenant, name="late"),
        lambda: organisation_actions.remove_member(owner, organisation, person.public_id),
    )
    if any(isinstance(error, PreconditionFailed) for error in refused):
        organisation_actions.remove_member(owner, organisation, person.public_id)
    assert not ApiKey.objects.filter(maker=person, revoked_at=None).exists()


@pytest.mark.django_db(transaction=True)
def test_an_organisation_that_is_deleted_while_a_tenant_comes_has_it_or_is_gone() -> None:
    house = make_house("acme")
    organisation = make_organisation(house, "acme-group")
    owner = acting(of_house(house, Role.OWNER))
    refused = at_once(
        lambda: tenant_actions.move_in(owner, organisation, house.tenant.public_id),
        lambda: actions.delete(owner, organisation),
    )
    moved = Tenant.objects.get(pk=house.tenant.pk).organisation_id is not None
    assert moved == Organisation.objects.exists()
    assert [type(error) for error in refused] == [InvalidRequest if moved else NotFound]


# -- pages ------------------------------------------------------------------------------------------------


def test_pages_of_another_organisation_are_not_found(organisation: Organisation, house: House) -> None:
    stranger = Client()
    stranger.cookies["penstock"] = make_house("umbrella").credentials[Standing.OWNER]
    someone = of_house(house, Role.ADMIN).public_id
    for page in (
        *("/audit", "/audit/chain"),
        *("", "/change", "/delete", "/move-in", f"/tenants/{house.tenant.public_id}/move-out", "/invite"),
        *("/invitations/ivt_x/withdraw", f"/members/{someone}/role", f"/members/{someone}/remove"),
    ):
        for name in ("acme-group", "nothing"):
            for response in (stranger.get(f"/o/{name}{page}"), stranger.post(f"/o/{name}{page}")):
                assert response.status_code in (404, 405), page
    assert "acme-group" not in stranger.get("/organisations").content.decode()


def test_everything_is_done_in_the_console(house: House) -> None:
    browser = Client()
    browser.cookies["penstock"] = house.credentials[Standing.OWNER]
    made = browser.post("/new-organisation", {"name": "acme-group", "display_name": "Acme Group"})
    assert made["Location"] == "/o/acme-group"
    organisation = Organisation.objects.get()
    assert "Acme Group" in browser.get("/organisations").content.decode()
    browser.post("/o/acme-group/move-in", {"tenant": house.tenant.public_id})
    assert Tenant.objects.get(pk=house.tenant.pk).organisation == organisation
    shown = browser.post("/o/acme-group/invite", {"email": NEW, "role": "auditor"}).content.decode()
    assert "/join/psj_" in shown
    zoe, _ = make_person(NEW)
    OrganisationMember.objects.create(organisation=organisation, person=zoe, role="auditor")
    page = browser.get("/t/acme/people").content.decode()
    assert "By the organisation acme-group" in page and NEW in page
    browser.post(f"/o/acme-group/members/{zoe.public_id}/role", {"role": "admin"})
    assert queries.member(organisation, zoe.public_id).role == "admin"
    invitation = queries.invitations(organisation).get()
    browser.post(f"/o/acme-group/invitations/{invitation.public_id}/withdraw")
    browser.post(f"/o/acme-group/members/{zoe.public_id}/remove")
    assert queries.members(organisation).count() == 1 and not queries.invitations(organisation).exists()
    browser.post("/o/acme-group/change", {"name": "acme-ltd", "display_name": ""})
    assert browser.post("/o/acme-ltd/delete", {"name": "acme-ltd"}).status_code == 422
    browser.post(f"/o/acme-ltd/tenants/{house.tenant.public_id}/move-out")
    assert browser.post("/o/acme-ltd/delete", {"name": "acme-ltd"})["Location"] == "/organisations"
    assert not Organisation.objects.exists()


def test_a_list_of_tenants_takes_as_many_questions_for_many_organisations(house: House) -> None:
    owner = of_house(house, Role.OWNER)

    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            call("GET", "/v1/tenants", token=house.credentials[Standing.OWNER])
        return len(captured)

    asked()
    few = asked()
    for number in range(20):
        made = Organisation.objects.create(name=f"o-{number}", display_name=f"o-{number}")
        OrganisationMember.objects.create(organisation=made, person=owner, role=OrganisationRole.AUDITOR)
        Tenant.objects.create(name=f"t-{number}", organisation=made)
    assert asked() == few
    assert len(tenants.belongings(owner)) == 21
