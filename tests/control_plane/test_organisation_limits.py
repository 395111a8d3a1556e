"""Organisations: what no member does by way of them that they may not do in a tenant, and in which order it locks."""

from collections.abc import Collection, Iterator
from copy import deepcopy
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.plugin import DjangoDbBlocker

from control_plane.access import actions as access
from control_plane.access import list_actions, organisation_actions
from control_plane.audit.actor import Actor, ActorKind
from control_plane.mail.models import Mail
from control_plane.outbox import in_request
from penstock.contract.errors import Forbidden, InvalidRequest, NotFound, PenstockError, PreconditionFailed
from penstock.rules.access import TOPIC, Acl, Scope
from penstock.rules.names import AUDIT_TOPIC
from tenants import joining
from tenants.models import (
    Membership,
    Organisation,
    OrganisationInvitation,
    OrganisationMember,
    Person,
    Session,
    Tenant,
)
from tenants.organisations import actions, queries, tenant_actions
from tenants.people import actions as people
from tenants.roles import OrganisationRole, Role, Standing
from tests.control_plane.rows_of_a_module import rows_of_a_module
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

NEW = "zoe@else.example"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[House]:
    with rows_of_a_module(django_db_blocker):
        house = make_house("acme")
        yield house


@pytest.fixture
def house(made: House) -> House:
    return deepcopy(made)


@pytest.fixture
def organisation(house: House) -> Organisation:
    """Which owns the house's tenant; its people have their roles in both."""
    return make_organisation(house, "acme-group", owning=True)


def acting(person: Person) -> Actor:
    return Actor(kind=ActorKind.PERSON, id=person.public_id)


def of_house(house: House, role: Role) -> Person:
    return Membership.objects.filter(tenant=house.tenant, role=role).earliest("pk").person


def member(organisation: Organisation, role: OrganisationRole, email: str = NEW) -> tuple[Person, str]:
    """One who has no role in any tenant themselves, and the token of their session."""
    person, token = make_person(email)
    OrganisationMember.objects.create(organisation=organisation, person=person, role=role)
    return person, token


def require_factors(house: House, *, days: int = -1) -> None:
    Tenant.objects.filter(pk=house.tenant.pk).update(factors_from=timezone.now() + timedelta(days=days))


def with_factor(person: Person) -> Person:
    Authenticator.objects.create(user=person, type=Authenticator.Type.TOTP, data={})
    return person


# -- a tenant's second factor -----------------------------------------------------------------------------


def test_who_has_no_factor_changes_nothing_of_an_organisation_with_a_tenant_that_requires_one(
    organisation: Organisation, house: House
) -> None:
    olga, token = member(organisation, OrganisationRole.OWNER)
    admin = of_house(house, Role.ADMIN).public_id
    require_factors(house, days=1)
    assert call("GET", "/v1/topics", token=token, tenant=house.tenant).status == 200
    path = f"/v1/organisations/{organisation.public_id}"
    changes = (
        ("POST", "/invitations", {"email": "olga@other.example", "role": "owner"}),
        ("PATCH", f"/members/{admin}", {"role": "auditor"}),
        ("DELETE", f"/members/{admin}", None),
        ("PATCH", "", {"display_name": "Mine"}),
    )
    made = call("POST", f"{path}/invitations", {"email": "b@other.example", "role": "admin"}, token=token)
    assert made.status == 201, "there are days left"
    require_factors(house)
    for method, what, body in changes:
        for dry in ("", "?dry_run=true"):
            answer = call(method, f"{path}{what}{dry}", body, token=token)
            assert answer.status == 403 and "acme requires a second factor" in answer.body["detail"], what
    browser = Client()
    browser.cookies["penstock"] = token
    for page, form in (
        ("invite", {"email": "olga@other.example", "role": "owner"}),
        (f"members/{admin}/role", {"role": "auditor"}),
        (f"members/{admin}/remove", {}),
    ):
        assert browser.post(f"/o/acme-group/{page}", form).status_code == 403, page
    with pytest.raises(Forbidden, match="acme requires a second factor"):
        actions.invite(acting(olga), organisation, email="olga@other.example", role="owner")
    assert call("GET", path, token=token).status == 200, "reading changes nothing"
    with_factor(olga)
    for method, what, body in changes:
        assert call(method, f"{path}{what}", body, token=token).status in (200, 201, 204), what


def test_who_has_no_factor_does_not_join_such_an_organisation(
    organisation: Organisation, house: House
) -> None:
    owner = with_factor(of_house(house, Role.OWNER))
    require_factors(house)
    zoe, session = make_person(NEW)
    _, token = actions.invite(acting(owner), organisation, email=NEW, role="owner")
    refused = call("POST", "/v1/join", {"token": token}, token=session)
    assert refused.status == 403 and "acme requires a second factor" in refused.body["detail"]
    with_factor(zoe)
    assert joining.join(acting(zoe), zoe, token).role == "owner", "the invitation is still open"


def test_a_new_person_signs_up_to_such_an_organisation_and_is_let_in_with_a_factor(
    organisation: Organisation, house: House
) -> None:
    owner = with_factor(of_house(house, Role.OWNER))
    require_factors(house)
    _, token = actions.invite(acting(owner), organisation, email=NEW, role="owner")
    answer = call("POST", "/v1/sign-up", {"email": NEW, "password": PASSWORD, "invitation": token})
    assert answer.status == 201, answer.body
    session = answer.body["token"]
    path = f"/v1/organisations/{organisation.public_id}/invitations"
    assert call("GET", "/v1/topics", token=session, tenant=house.tenant).status == 403
    invited = {"email": "b@other.example", "role": "owner"}
    assert call("POST", path, invited, token=session).status == 403
    assert queries.not_let_in_by(organisation, Person.objects.get(email=NEW)) == house.tenant


# -- moving a tenant out ----------------------------------------------------------------------------------


def test_each_owner_of_the_tenant_itself_moves_it_out(organisation: Organisation, house: House) -> None:
    carol, token = make_person("carol@acme.example")
    Membership.objects.create(tenant=house.tenant, person=carol, role=Role.OWNER)
    path = f"/v1/organisations/{organisation.public_id}"
    assert call("GET", path, token=token).status == 404, "she is no member"
    assert call("POST", f"{path}/tenants/{house.tenant.public_id}", token=token).status == 404
    moved = call("DELETE", f"{path}/tenants/{house.tenant.public_id}", token=token)
    assert moved.status == 202, moved.body
    assert Tenant.objects.get(pk=house.tenant.pk).organisation is None
    assert call("DELETE", f"{path}/tenants/{house.tenant.public_id}", token=token).status == 404
    owner = of_house(house, Role.OWNER)
    tenant_actions.move_in(acting(owner), organisation, house.tenant.public_id)
    browser = Client()
    browser.cookies["penstock"] = token
    page = f"/o/acme-group/tenants/{house.tenant.public_id}/move-out"
    assert page in browser.get("/t/acme/people").content.decode()
    assert '<button class="danger">Move it out' in browser.get(page).content.decode()
    assert browser.post(page)["Location"] == "/t/acme/people"
    assert Tenant.objects.get(pk=house.tenant.pk).organisation is None


def test_a_developer_of_the_tenant_does_not_move_it_out(organisation: Organisation, house: House) -> None:
    path = f"/v1/organisations/{organisation.public_id}/tenants/{house.tenant.public_id}"
    assert call("DELETE", path, token=house.credentials[Standing.DEVELOPER]).status == 404
    browser = Client()
    browser.cookies["penstock"] = house.credentials[Standing.DEVELOPER]
    assert "move-out" not in browser.get("/t/acme/people").content.decode()
    assert browser.post(f"/o/acme-group/tenants/{house.tenant.public_id}/move-out").status_code == 404
    assert Tenant.objects.get(pk=house.tenant.pk).organisation == organisation


def test_who_owns_the_tenant_without_the_factor_it_requires_does_not_move_it_out(
    organisation: Organisation, house: House
) -> None:
    carol, _ = make_person("carol@acme.example")
    Membership.objects.create(tenant=house.tenant, person=carol, role=Role.OWNER)
    require_factors(house)
    with pytest.raises(Forbidden, match="requires a second factor"):
        tenant_actions.move_out(acting(carol), organisation, house.tenant)
    tenant_actions.move_out(acting(with_factor(carol)), organisation, house.tenant)


def test_the_owners_of_a_tenant_hear_of_its_moves(organisation: Organisation, house: House) -> None:
    carol, _ = make_person("carol@acme.example")
    Membership.objects.create(tenant=house.tenant, person=carol, role=Role.OWNER)
    member(organisation, OrganisationRole.OWNER)
    owner = of_house(house, Role.OWNER)
    tenant_actions.move_out(acting(owner), organisation, house.tenant)
    tenant_actions.move_in(acting(owner), organisation, house.tenant.public_id)
    tenant_actions.move_in(acting(owner), organisation, house.tenant.public_id)
    found = Mail.objects.filter(kind="tenant-moved")
    assert sorted(row.to for row in found) == sorted([carol.email, owner.email] * 2)


# -- keys that read the audit log -------------------------------------------------------------------------


def test_keys_that_read_the_audit_log_stay_while_a_role_of_the_organisation_bears_them(
    organisation: Organisation, house: House
) -> None:
    person, _ = member(organisation, OrganisationRole.ADMIN)
    reads = Scope(name=AUDIT_TOPIC, operations=("consume",), resource=TOPIC, literal=True)
    key, _ = access.create_key(acting(person), house.tenant, name="siem", scopes=[reads])
    assert access.revoke_audit_keys_beyond_their_makers(ACTOR) == []
    # A developer by their own role is one, also if the organisation's would be auditor.
    Membership.objects.create(tenant=house.tenant, person=person, role=Role.DEVELOPER)
    OrganisationMember.objects.filter(person=person).update(role=OrganisationRole.AUDITOR)
    revoked = access.revoke_audit_keys_beyond_their_makers(ACTOR)
    assert [row.pk for row in revoked] == [key.pk]


# -- invitations of a person who has lost the right -------------------------------------------------------


@pytest.mark.parametrize("now", [OrganisationRole.AUDITOR, OrganisationRole.ADMIN, None])
def test_an_invitation_of_a_member_who_may_not_make_it_any_more_is_refused(
    organisation: Organisation, house: House, now: OrganisationRole | None
) -> None:
    olga, _ = member(organisation, OrganisationRole.OWNER, "olga@acme.example")
    zoe, _ = make_person(NEW)
    _, token = actions.invite(acting(olga), organisation, email=NEW, role="owner")
    owner = acting(of_house(house, Role.OWNER))
    if now is None:
        organisation_actions.remove_member(owner, organisation, olga.public_id)
    else:
        actions.change_role(owner, organisation, olga.public_id, role=now.value)
    with pytest.raises(Forbidden, match="may not make it any more"):
        joining.join(acting(zoe), zoe, token)
    assert not OrganisationMember.objects.filter(person=zoe).exists()


def test_an_invitation_of_a_member_who_is_not_let_in_any_more_is_refused(
    organisation: Organisation, house: House
) -> None:
    olga, _ = member(organisation, OrganisationRole.OWNER, "olga@acme.example")
    zoe = with_factor(make_person(NEW)[0])
    _, token = actions.invite(acting(olga), organisation, email=NEW, role="owner")
    require_factors(house)
    with pytest.raises(Forbidden, match="may not make it any more"):
        joining.join(acting(zoe), zoe, token)
    with_factor(olga)
    assert joining.join(acting(zoe), zoe, token).role == "owner"


def test_an_invitation_of_the_release_before_names_no_inviter_and_is_taken(
    organisation: Organisation, house: House
) -> None:
    _, token = actions.invite(acting(of_house(house, Role.OWNER)), organisation, email=NEW, role="auditor")
    OrganisationInvitation.objects.update(inviter=None)
    zoe, _ = make_person(NEW)
    assert joining.join(acting(zoe), zoe, token).role == "auditor"


def test_an_invitation_to_a_tenant_ends_with_the_right_by_the_organisation(
    organisation: Organisation, house: House
) -> None:
    olga, _ = member(organisation, OrganisationRole.OWNER, "olga@acme.example")
    zoe, _ = make_person(NEW)
    _, token = people.invite(acting(olga), house.tenant, email=NEW, role="owner")
    tenant_actions.move_out(acting(of_house(house, Role.OWNER)), organisation, house.tenant)
    with pytest.raises(Forbidden, match="may not make it any more"):
        joining.join(acting(zoe), zoe, token)
    Membership.objects.create(tenant=house.tenant, person=olga, role=Role.ADMIN)
    with pytest.raises(Forbidden, match="may not make it any more"):
        joining.join(acting(zoe), zoe, token)
    Membership.objects.filter(tenant=house.tenant, person=olga).update(role=Role.OWNER)
    assert joining.join(acting(zoe), zoe, token).role == "owner"


# -- sign-ins without the factor --------------------------------------------------------------------------


def old_sign_in(person: Person) -> None:
    """As one of a release that did not end sign-ins with the first factor."""
    Session.objects.filter(person=person).update(created_at=timezone.now() - timedelta(days=2))


def test_sign_ins_of_members_that_have_shown_no_factor_end_as_the_tenant_comes(house: House) -> None:
    organisation = make_organisation(house, "acme-group")
    person, _ = member(organisation, OrganisationRole.ADMIN)
    old_sign_in(with_factor(person))
    owner = with_factor(of_house(house, Role.OWNER))
    require_factors(house, days=1)
    tenant_actions.move_in(acting(owner), organisation, house.tenant.public_id)
    assert not Session.objects.filter(person=person).exists()
    assert Session.objects.filter(person=of_house(house, Role.ADMIN)).exists(), (
        "who has none is led to add one"
    )


def test_sign_ins_that_have_shown_no_factor_end_as_the_person_joins(
    organisation: Organisation, house: House
) -> None:
    owner = with_factor(of_house(house, Role.OWNER))
    zoe, _ = make_person(NEW)
    old_sign_in(with_factor(zoe))
    require_factors(house)
    _, token = actions.invite(acting(owner), organisation, email=NEW, role="auditor")
    joining.join(acting(zoe), zoe, token)
    assert not Session.objects.filter(person=zoe).exists()


# -- locks ------------------------------------------------------------------------------------------------


def locks_of(queries_made: CaptureQueriesContext) -> list[str]:
    """The tables of the rows that were locked, in order."""
    found = [one["sql"] for one in queries_made.captured_queries if "FOR NO KEY UPDATE" in one["sql"]]
    return [sql.split(" FROM ")[1].split()[0].strip('"') for sql in found]


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_change_of_a_member_locks_tenants_before_the_organisation(
    organisation: Organisation, house: House, method: str, conditional: bool
) -> None:
    person, _ = member(organisation, OrganisationRole.ADMIN)
    access.create_key(acting(person), house.tenant, name="hers")
    path = f"/v1/organisations/{organisation.public_id}/members/{person.public_id}"
    owner = house.credentials[Standing.OWNER]
    given = {"If_Match": call("GET", path, token=owner).headers["ETag"]} if conditional else {}
    body = {"role": "auditor"} if method == "PATCH" else None
    with CaptureQueriesContext(connection) as made:
        answer = call(method, path, body, token=owner, **given)
    assert answer.status in (200, 204), answer.body
    locks = locks_of(made)
    assert locks.index("tenants_tenant") < locks.index("tenants_organisation")


@pytest.mark.parametrize("role", [None, "auditor"])
def test_a_change_of_a_member_locks_only_tenants_in_which_they_have_keys(
    organisation: Organisation, house: House, role: str | None
) -> None:
    other = make_tenant("globex")
    Tenant.objects.filter(pk=other.pk).update(organisation=organisation)
    person, _ = member(organisation, OrganisationRole.ADMIN)
    access.create_key(acting(person), house.tenant, name="hers")
    owner = acting(of_house(house, Role.OWNER))
    with CaptureQueriesContext(connection) as made:
        if role is None:
            organisation_actions.remove_member(owner, organisation, person.public_id)
        else:
            actions.change_role(owner, organisation, person.public_id, role=role)
    locks = [sql["sql"] for sql in made.captured_queries if "FOR NO KEY UPDATE" in sql["sql"]]
    ranges = [sql for sql in locks if sql.split(" FROM ")[1].startswith('"tenants_tenant"')]
    assert ranges and all("tenants_apikey" in sql or f"= {house.tenant.pk} " in sql for sql in ranges), ranges


def test_a_removal_locks_tenants_that_name_the_member_before_the_organisation_and_no_others(
    organisation: Organisation, house: House
) -> None:
    other = make_tenant("globex")
    Tenant.objects.filter(pk=other.pk).update(organisation=organisation)
    person, _ = member(organisation, OrganisationRole.ADMIN)
    owner = acting(of_house(house, Role.OWNER))
    everyone = Acl(effect="allow", principal="everyone", resource="topic", name="t", literal=True)
    list_actions.add_acls(owner, other, [everyone])
    _, group = list_actions.create_group(
        owner, house.tenant, name="admins", members=[f"person:{person.public_id}"]
    )
    with CaptureQueriesContext(connection) as made:
        organisation_actions.remove_member(owner, organisation, person.public_id)
    locks = [sql["sql"] for sql in made.captured_queries if "FOR NO KEY UPDATE" in sql["sql"]]
    tables = [sql.split(" FROM ")[1].split()[0].strip('"') for sql in locks]
    tenants = [sql for sql, table in zip(locks, tables, strict=True) if table == "tenants_tenant"]
    assert tables.index("tenants_tenant") < tables.index("tenants_organisation")
    assert f"IN ({house.tenant.pk})" in tenants[0]
    assert not [sql for sql in tenants if f"= {other.pk} " in sql]
    group.refresh_from_db()
    assert group.members == []


def test_a_tenant_that_names_the_member_meanwhile_makes_the_removal_begin_newly(
    organisation: Organisation, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, _ = member(organisation, OrganisationRole.ADMIN)
    owner = acting(of_house(house, Role.OWNER))
    named = Acl(
        effect="deny", principal=f"person:{person.public_id}", resource="topic", name="t", literal=True
    )
    lock = actions.lock_tenants

    def slow(organisation: Organisation, of: str, naming: Collection[int] = ()) -> set[int]:
        known = lock(organisation, of, naming)
        list_actions.add_acls(owner, house.tenant, [named])
        return known

    monkeypatch.setattr(actions, "lock_tenants", slow)
    with pytest.raises(PreconditionFailed, match="or names them"):
        organisation_actions.remove_member(owner, organisation, person.public_id)


def test_a_key_that_a_member_makes_elsewhere_meanwhile_makes_the_change_begin_newly(
    organisation: Organisation, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, _ = member(organisation, OrganisationRole.ADMIN)
    lock = actions.lock_tenants

    def slow(organisation: Organisation, of: str, naming: Collection[int] = ()) -> set[int]:
        known = lock(organisation, of, naming)
        access.create_key(acting(person), house.tenant, name="hers")
        return known

    monkeypatch.setattr(actions, "lock_tenants", slow)
    owner = acting(of_house(house, Role.OWNER))
    with pytest.raises(PreconditionFailed, match="new keys of them"):
        actions.change_role(owner, organisation, person.public_id, role="auditor")


@pytest.mark.parametrize("role", [None, "auditor", "owner"])
def test_who_may_not_change_a_member_locks_nothing(
    organisation: Organisation, house: House, role: str | None
) -> None:
    auditor = acting(of_house(house, Role.AUDITOR))
    owner = of_house(house, Role.OWNER)
    stranger = acting(make_person(NEW)[0])
    attempts = (
        (auditor, owner.public_id, Forbidden),
        (stranger, owner.public_id, NotFound),
        (acting(owner), "usr_none", NotFound),
        *(() if role == "owner" else ((acting(owner), owner.public_id, InvalidRequest),)),
    )
    for actor, named, expected in attempts:
        with CaptureQueriesContext(connection) as made, pytest.raises(PenstockError) as refused:
            if role is None:
                organisation_actions.remove_member(actor, organisation, named)
            else:
                actions.change_role(actor, organisation, named, role=role)
        assert isinstance(refused.value, expected)
        assert locks_of(made) == []
