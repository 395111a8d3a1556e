"""Members of a tenant or of an organisation, as their table shows them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tenants.models import Membership, OrganisationMember
from tenants.roles import OrganisationRole, Role
from web.forms.people import RoleForm

Row = TypeVar("Row", Membership, OrganisationMember)
OWNERS = frozenset({Role.OWNER.value, OrganisationRole.OWNER.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Who looks: the person, whether they may change members, and whether they are an owner themselves."""

    person: int
    writes: bool
    is_owner: bool

    def gives(self, meanings: Mapping[Role, str] | Mapping[OrganisationRole, str]) -> list[tuple[str, str]]:
        """Of roles with their meanings, those that the reader may give."""
        return [
            (role.value, text) for role, text in meanings.items() if self.is_owner or role.value not in OWNERS
        ]


def shown(
    reader: Reader, rows: Iterable[Row], *, roles: list[tuple[str, str]], owners: int
) -> list[tuple[Row, bool, RoleForm | None, bool]]:
    """Each row with: whether it is you, the form if you may change the role, whether the person may leave. The last
    owner may not. `owners`: how many there are, on other pages too.
    """
    names = [name for name, _ in roles]
    found = []
    for row in rows:
        owner = row.role in OWNERS
        last = owner and owners == 1
        may = reader.writes and (not owner or reader.is_owner)
        form = RoleForm(names, of=row.person.email, role=row.role) if may and not last else None
        found.append((row, row.person_id == reader.person, form, not last))
    return found
