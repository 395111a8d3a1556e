"""Organisations: what a member cannot do by way of them that they may not do in a tenant, and in which order it locks."""

from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.utils import timezone

from control_plane.audit.actor import Actor, ActorKind
from control_plane.outbox import in_request
from penstock.contract.errors import Forbidden
from tenants import joining
from tenants.models import Membership, Organisation, OrganisationMember, Person, Tenant
from tenants.organisations import actions, queries
from tenants.roles import OrganisationRole, Role
from tests.control_plane.world import PASSWORD, House, call, make_house, make_organisation, make_person

pytestmark = pytest.mark.django_db

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
