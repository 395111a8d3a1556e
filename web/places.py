"""Where in the console a request is: which person, in which tenant, and what they may do there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache

from control_plane.audit.actor import Actor
from penstock.contract.errors import Forbidden
from tenants import queries
from tenants.models import OperatorToken, Person, Tenant
from tenants.roles import Permission, Standing, allowed
from web import sessions

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A person in one of their tenants."""

    person: Person
    tenant: Tenant
    standing: Standing
    actor: Actor
    others: tuple[str, ...]
    """Names of the person's other tenants."""

    def may(self, permission: Permission) -> bool:
        return allowed(self.standing, permission)

    @property
    def rights(self) -> dict[str, bool]:
        """What templates ask: permissions by name, `topics.write` as `topics_write`."""
        return {permission.name.lower(): self.may(permission) for permission in Permission}

    def url(self, name: str, *arguments: str) -> str:
        """The address of a page of this tenant."""
        return reverse(f"web:{name}", args=[self.tenant.name, *arguments])


def signed_in(
    view: Callable[Concatenate[HttpRequest, Person, P], HttpResponse],
) -> Callable[..., HttpResponse]:
    """A page for somebody who has signed in; others are led to the door and back."""

    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        person = sessions.person_of(request)
        if person is None:
            return _to_the_door(request)
        return view(request, person, *args, **kwargs)

    return guarded


def in_tenant(
    *permissions: Permission,
) -> Callable[
    [Callable[Concatenate[HttpRequest, Place, P], HttpResponse]],
    Callable[..., HttpResponse],
]:
    """A page of one tenant, named in the address. Another's tenant is not found; a missing permission is refused."""

    def decorate(
        view: Callable[Concatenate[HttpRequest, Place, P], HttpResponse],
    ) -> Callable[..., HttpResponse]:
        @signed_in
        def guarded(
            request: HttpRequest, person: Person, /, tenant: str, *args: P.args, **kwargs: P.kwargs
        ) -> HttpResponse:
            place = place_of(request, person, tenant)
            request.place = place  # type: ignore[attr-defined]
            for permission in permissions:
                if not place.may(permission):
                    raise Forbidden(
                        f"{permission.value} is not for {place.standing.value}; "
                        f"an owner of {place.tenant.name} can help"
                    )
            return view(request, place, *args, **kwargs)

        return guarded

    return decorate


def for_operators(
    view: Callable[Concatenate[HttpRequest, OperatorToken, P], HttpResponse],
) -> Callable[..., HttpResponse]:
    """A page for operators of the service."""

    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        operator = sessions.operator_of(request)
        if operator is None:
            return redirect("web:operator-sign-in")
        request.operator = operator  # type: ignore[attr-defined]
        return view(request, operator, *args, **kwargs)

    return guarded


def place_of(request: HttpRequest, person: Person, name: str) -> Place:
    """The person's tenant of that name. Raises `NotFound`, for another's tenant too."""
    belongings = queries.belongings(person)
    found = next((b for b in belongings if b.tenant.name == name), None)
    if found is None:
        raise queries.tenant_missing(name)
    return Place(
        person=person,
        tenant=found.tenant,
        standing=Standing(found.role.value),
        actor=sessions.actor_of(request, person),
        others=tuple(b.tenant.name for b in belongings if b.tenant.name != name),
    )


def _to_the_door(request: HttpRequest) -> HttpResponse:
    door = reverse("web:sign-in")
    if request.headers.get("HX-Request"):
        # A fragment of a page whose session has ended: the whole page goes to the door.
        response = HttpResponse(status=204)
        response.headers["HX-Redirect"] = door
        return response
    wanted = request.get_full_path()
    return redirect(door if wanted == "/" or request.method != "GET" else f"{door}?next={quote(wanted)}")
