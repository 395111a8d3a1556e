"""The table of members: which rows have a form, and who may leave."""

from typing import Any

import pytest

from tenants.models import Membership, OrganisationMember, Person
from tenants.roles import OrganisationRole, Role
from web.views.members import Reader, shown

MEANINGS = {role: role.value for role in Role}
ME, OTHER = 1, 2


def reader(*, writes: bool = True, is_owner: bool = True) -> Reader:
    return Reader(person=ME, writes=writes, is_owner=is_owner)


def row(role: Role | OrganisationRole, person: int = OTHER) -> Any:
    kind = Membership if isinstance(role, Role) else OrganisationMember
    return kind(role=role.value, person=Person(pk=person, email=f"p{person}@example.com"))


def test_only_an_owner_gives_the_role_of_an_owner() -> None:
    assert [name for name, _ in reader().gives(MEANINGS)] == [role.value for role in Role]
    assert {name for name, _ in reader(is_owner=False).gives(MEANINGS)} == set(Role) - {Role.OWNER}
    within = {role: role.value for role in OrganisationRole}
    assert "owner" not in dict(reader(is_owner=False).gives(within))


@pytest.mark.parametrize(
    ("who", "role", "owners", "changes", "leaves"),
    [
        (reader(), Role.DEVELOPER, 1, True, True),
        (reader(), Role.OWNER, 2, True, True),
        (reader(), Role.OWNER, 1, False, False),
        (reader(), OrganisationRole.OWNER, 1, False, False),
        (reader(), OrganisationRole.OWNER, 2, True, True),
        (reader(is_owner=False), Role.OWNER, 2, False, True),
        (reader(is_owner=False), Role.ADMIN, 1, True, True),
        (reader(is_owner=False), OrganisationRole.OWNER, 2, False, True),
        (reader(writes=False, is_owner=False), Role.DEVELOPER, 2, False, True),
        (reader(writes=False), Role.OWNER, 2, False, True),
    ],
)
def test_a_row_has_a_form_for_who_may_change_it_and_the_last_owner_stays(
    who: Reader, role: Role | OrganisationRole, owners: int, changes: bool, leaves: bool
) -> None:
    ((member, is_me, form, may_leave),) = shown(who, [row(role)], roles=who.gives(MEANINGS), owners=owners)
    assert member.role == role.value and not is_me
    assert (form is not None, may_leave) == (changes, leaves)
    if form is not None:
        # An owner stays one until another role is chosen.
        assert form["role"].value() == role.value


def test_your_own_row_is_yours() -> None:
    rows = [row(Role.OWNER, ME), row(Role.OWNER, OTHER)]
    assert [mine for _, mine, _, _ in shown(reader(), rows, roles=[], owners=2)] == [True, False]
