"""What ends with rights by an organisation: entries and groups of access lists that name the person no longer do."""

from django.db import transaction

from control_plane.access.list_actions import forget_person
from control_plane.audit.actor import Actor
from tenants.models import Organisation, Tenant
from tenants.organisations import actions, queries, tenant_actions
from tenants.queries import role_in


def remove_member(actor: Actor, organisation: Organisation, person: str) -> None:
    """`organisations.actions.remove`; and the access lists of tenants to which the person belongs no more forget them.

    Raises what that raises.
    """
    with transaction.atomic():
        gone = actions.remove(actor, organisation, person)
        for tenant in queries.tenants(organisation).order_by("pk"):
            if role_in(tenant, gone) is None:
                forget_person(actor, tenant, gone.public_id)


def move_out(actor: Actor, organisation: Organisation, tenant: Tenant) -> Tenant:
    """`tenant_actions.move_out`; and the tenant's access list forgets who belongs to it no more. Raises as that."""
    with transaction.atomic():
        moved, gone = tenant_actions.move_out(actor, organisation, tenant)
        for person in gone:
            forget_person(actor, moved, person.public_id)
    return moved
