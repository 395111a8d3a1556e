"""Who may open a page of an organisation: the person, the organisation, and what the person may do there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from control_plane.audit.actor import Actor
from control_plane.audit.tallies import tallies
from penstock.contract.audit_entries import DONE, REFUSED
from penstock.contract.errors import Forbidden
from tenants import audited
from tenants.models import Organisation, Person
from tenants.organisations import queries
from tenants.roles import OrganisationPermission, OrganisationRole, allowed_within
from web import sessions
from web.tenant_access import signed_in

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganisationAccess:
    """A person in one of their organisations."""

    person: Person
    organisation: Organisation
    role: OrganisationRole
    actor: Actor

    def may(self, permission: OrganisationPermission) -> bool:
        return allowed_within(self.role, permission)

    @property
    def rights(self) -> dict[str, bool]:
        """Permissions for templates, by name: `members.write` as `members_write`."""
        return {permission.name.lower(): self.may(permission) for permission in OrganisationPermission}

    def url(self, name: str, *arguments: str) -> str:
        """The address of a page of this organisation."""
        return reverse(f"web:{name}", args=[self.organisation.name, *arguments])

    def count(self, permission: OrganisationPermission, outcome: str) -> None:
        """For the organisation's audit log."""
        chain, action = self.organisation.public_id, audited.action_of(permission)
        tallies().count(self.actor, tenant=chain, action=action, outcome=outcome)


def in_organisation(
    *permissions: OrganisationPermission,
) -> Callable[
    [Callable[Concatenate[HttpRequest, OrganisationAccess, P], HttpResponse]],
    Callable[..., HttpResponse],
]:
    """A page of the organisation that the address names. The person must belong to it and have the permissions."""

    def decorate(
        view: Callable[Concatenate[HttpRequest, OrganisationAccess, P], HttpResponse],
    ) -> Callable[..., HttpResponse]:
        @signed_in
        @wraps(view)
        def guarded(
            request: HttpRequest, person: Person, /, organisation: str, *args: P.args, **kwargs: P.kwargs
        ) -> HttpResponse:
            found = queries.belonging_by_name(person, organisation)
            access = OrganisationAccess(
                person=person,
                organisation=found.organisation,
                role=found.role,
                actor=sessions.actor_of(request, person),
            )
            for permission in permissions:
                if not access.may(permission):
                    access.count(permission, REFUSED)
                    raise Forbidden(
                        f"{permission.value} is not for {access.role.value}; "
                        f"an owner of {access.organisation.name} can help"
                    )
            if request.method not in ("GET", "HEAD"):
                queries.check_let_in(access.organisation, person)
            response = view(request, access, *args, **kwargs)
            if request.method in ("GET", "HEAD") and response.status_code < 300:
                for permission in audited.SENSITIVE_READS_OF_ORGANISATIONS.intersection(permissions):
                    access.count(permission, DONE)
            return response

        return guarded

    return decorate
