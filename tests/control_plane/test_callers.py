"""Who calls and what they are in a tenant: the statements that every request of a person begins with."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from penstock.contract.errors import NotFound
from tenants import queries
from tenants.models import Membership, OrganisationMember, Person, Session, Tenant
from tenants.roles import OrganisationRole, Role
from tests.control_plane.world import House, make_house, make_organisation, make_person

pytestmark = pytest.mark.django_db


@pytest.fixture
def house() -> House:
    return make_house("acme")


def test_a_session_is_its_persons_until_it_ends() -> None:
    make_person("ben@acme.example")
    ann, token = make_person("ann@acme.example")
    stored = _values(ann)
    with CaptureQueriesContext(connection) as asked:
        found = queries.person_of_session(token)
        assert found == ann
        assert {name: getattr(found, name) for name in stored} == stored
    assert len(asked) == 1
    assert queries.person_of_session(f"{token}x") is None
    now = timezone.now()
    for seconds, expected in ((1, ann), (-1, None)):
        Session.objects.filter(person=ann).update(expires_at=now + timedelta(seconds=600 * seconds))
        assert queries.person_of_session(token) == expected


def test_a_person_who_is_not_active_is_none_and_belongs_to_nothing(house: House) -> None:
    ann, token = make_person("ann@acme.example")
    Membership.objects.create(tenant=house.tenant, person=ann, role=Role.OWNER)
    assert queries.role_in(house.tenant, ann) is Role.OWNER
    Person.objects.filter(pk=ann.pk).update(is_active=False)
    assert queries.person_of_session(token) is None
    assert queries.belongings(ann) == []
    assert queries.role_in(house.tenant, ann) is None
    with pytest.raises(NotFound):
        queries.belonging(ann, house.tenant.public_id)


def test_tenants_that_a_person_joined_come_first_then_those_of_their_organisations(house: House) -> None:
    shared, first, _ = house, make_house("first"), make_house("others")
    ann, _ = make_person("ann@acme.example")
    both = make_house("both")
    organisation = make_organisation(shared, "group", owning=True)
    both.tenant.organisation = organisation
    both.tenant.save()
    OrganisationMember.objects.create(organisation=organisation, person=ann, role=OrganisationRole.ADMIN)
    for joined in (both, first):
        Membership.objects.create(tenant=joined.tenant, person=ann, role=Role.AUDITOR)
    stored = _values(first.tenant)
    with CaptureQueriesContext(connection) as asked:
        found = queries.belongings(ann)
        assert [(one.tenant.name, one.role) for one in found] == [
            ("both", Role.ADMIN),
            ("first", Role.AUDITOR),
            ("acme", Role.ADMIN),
        ]
        assert {name: getattr(found[1].tenant, name) for name in stored} == stored
    assert len(asked) == 1
    for one in found:
        assert queries.belonging(ann, one.tenant.public_id) == one
        assert queries.role_in(one.tenant, ann) is one.role


def _values(row: Person | Tenant) -> dict[str, object]:
    """Every column, as Django reads it."""
    return dict(type(row)._default_manager.filter(pk=row.pk).values().get())
