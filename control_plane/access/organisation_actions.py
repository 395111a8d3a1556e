"""What ends with rights by an organisation: entries and groups of access lists that name the person no longer do."""

from django.db import transaction

from control_plane.access.list_actions import forget_person
from control_plane.access.models import AclEntry, PrincipalGroup
from control_plane.audit.actor import Actor
from penstock.rules.access import PERSON_KIND
from tenants.models import Organisation, Tenant
from tenants.organisations import actions, queries, tenant_actions
from tenants.queries import role_in


def remove_member(actor: Actor, organisation: Organisation, person: str) -> None:
    """`organisations.actions.remove`; and the access lists of tenants to which the person belongs no more forget them.

    Raises what that raises.
    """
    with transaction.atomic():
        gone, locked = actions.remove(
            actor, organisation, person, lambda: tenants_naming(organisation, person)
        )
        named = tenants_naming(organisation, person) & locked
        for tenant in queries.tenants(organisation).filter(pk__in=named).order_by("pk"):
            if role_in(tenant, gone) is None:
                forget_person(actor, tenant, gone.public_id)


def tenants_naming(organisation: Organisation, person: str) -> set[int]:
    """Rows of the organisation's tenants in whose access lists an entry or a group names the person (a public id)."""
    principal = f"{PERSON_KIND}{person}"
    tenants = queries.tenants(organisation)
    entries = AclEntry.objects.filter(tenant__in=tenants, principal=principal)
    groups = PrincipalGroup.objects.filter(tenant__in=tenants).values_list("tenant", "members")
    return {
        *entries.values_list("tenant", flat=True),
        *(row for row, members in groups if principal in members),
    }


def move_out(actor: Actor, organisation: Organisation, tenant: Tenant) -> Tenant:
    """`tenant_actions.move_out`; and the tenant's access list forgets who belongs to it no more. Raises as that."""
    with transaction.atomic():
        moved, gone = tenant_actions.move_out(actor, organisation, tenant)
        for person in gone:
            forget_person(actor, moved, person.public_id)
    return moved
