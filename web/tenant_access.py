"""Who may open a page of the console: the person, the tenant, and what the person may do there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache

from control_plane.audit.actor import Actor
from control_plane.audit.tallies import tallies
from penstock.contract.audit_entries import DONE, REFUSED
from penstock.contract.errors import Forbidden
from tenants import audited, queries
from tenants.factors import queries as factors
from tenants.models import OperatorToken, Person, Tenant
from tenants.roles import Permission, Standing, allowed
from web import notices, sessions

P = ParamSpec("P")
R = TypeVar("R", bound=HttpResponseBase)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAccess:
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
        """Permissions for templates, by name: `topics.write` as `topics_write`."""
        return {permission.name.lower(): self.may(permission) for permission in Permission}

    def url(self, name: str, *arguments: str) -> str:
        """The address of a page of this tenant."""
        return reverse(f"web:{name}", args=[self.tenant.name, *arguments])


def signed_in(
    view: Callable[Concatenate[HttpRequest, Person, P], R],
) -> Callable[..., R | HttpResponse]:
    """A page for people who have signed in. Others are sent to the sign-in page and then back."""

    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> R | HttpResponse:
        person = sessions.person_of(request)
        if person is None:
            return _to_sign_in(request)
        return view(request, person, *args, **kwargs)

    return guarded


def in_tenant(
    *permissions: Permission,
) -> Callable[
    [Callable[Concatenate[HttpRequest, TenantAccess, P], R]],
    Callable[..., R | HttpResponse],
]:
    """A page of the tenant that the address names. The person must belong to it and have the permissions."""

    def decorate(
        view: Callable[Concatenate[HttpRequest, TenantAccess, P], R],
    ) -> Callable[..., R | HttpResponse]:
        @signed_in
        def guarded(
            request: HttpRequest, person: Person, /, tenant: str, *args: P.args, **kwargs: P.kwargs
        ) -> R | HttpResponse:
            access = access_of(request, person, tenant)
            if not factors.is_let_in(access.tenant, person):
                return _to_second_factor(request, access)
            request.access = access  # type: ignore[attr-defined]
            for permission in permissions:
                require(request, access, permission)
            response = view(request, access, *args, **kwargs)
            if request.method in ("GET", "HEAD") and response.status_code < 300:
                for permission in audited.SENSITIVE_READS.intersection(permissions):
                    _count(access, permission, DONE)
            return response

        return guarded

    return decorate


def require(request: HttpRequest, access: TenantAccess, permission: Permission) -> None:
    """Raise `Forbidden` unless the person may do it; the tenant's audit log counts it then."""
    request.asked = permission  # type: ignore[attr-defined]
    if not access.may(permission):
        raise Forbidden(
            f"{permission.value} is not for {access.standing.value}; an owner of {access.tenant.name} can help"
        )


def count_refusal(request: HttpRequest) -> None:
    """A page refused something to a person of the tenant: count it for the tenant's audit log."""
    access, asked = getattr(request, "access", None), getattr(request, "asked", None)
    if isinstance(access, TenantAccess) and isinstance(asked, Permission):
        _count(access, asked, REFUSED)


def _count(access: TenantAccess, permission: Permission, outcome: str) -> None:
    action = audited.action_of(permission)
    tallies().count(access.actor, tenant=access.tenant.public_id, action=action, outcome=outcome)


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


def access_of(request: HttpRequest, person: Person, name: str) -> TenantAccess:
    """The person's access to the tenant of that name. Raises `NotFound`, also for a tenant of other people."""
    belongings = queries.belongings(person)
    found = next((b for b in belongings if b.tenant.name == name), None)
    if found is None:
        raise queries.tenant_missing(name)
    return TenantAccess(
        person=person,
        tenant=found.tenant,
        standing=Standing(found.role.value),
        actor=sessions.actor_of(request, person),
        others=tuple(b.tenant.name for b in belongings if b.tenant.name != name),
    )


def _to_second_factor(request: HttpRequest, access: TenantAccess) -> HttpResponse:
    """To the page where the person adds what the tenant requires of them."""
    if request.headers.get("HX-Request"):
        response = HttpResponse(status=204)
        response.headers["HX-Redirect"] = reverse("web:account")
        return response
    said = f"{access.tenant.name} requires a second factor. Add one here, and you are let in."
    return notices.put(redirect("web:account"), said, "caution")


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    sign_in = reverse("web:sign-in")
    if request.headers.get("HX-Request"):
        # A part of a page whose session has ended: the whole page goes to the sign-in page.
        response = HttpResponse(status=204)
        response.headers["HX-Redirect"] = sign_in
        return response
    wanted = request.get_full_path()
    return redirect(
        sign_in if wanted == "/" or request.method != "GET" else f"{sign_in}?next={quote(wanted)}"
    )
