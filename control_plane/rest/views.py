"""Base classes of REST views: permissions, the tenant of a request, idempotency, and answers that wait for delivery."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from control_plane.api import etags, idempotency, metrics, pages, parameters, problems
from control_plane.api.middleware import TOOK
from control_plane.api.models import IdempotentRequest
from control_plane.api.parameters import TENANT_HEADER
from control_plane.api.shapes import Delivery
from control_plane.audit.actor import Actor
from control_plane.outbox import in_request
from control_plane.outbox.models import DesiredObject
from control_plane.rest import counting, dry_runs, throttles
from control_plane.rest.callers import Caller, TenantAccess, access_of, caller_of
from control_plane.rest.processor_time import REST_PROCESSOR
from control_plane.rest.tenant_rates import REST_CALLS
from control_plane.rest.throttles import CALLER_RATE
from penstock.contract.errors import Forbidden, InvalidRequest, Unauthenticated
from tenants.models import Tenant
from tenants.roles import Permission, Standing, allowed

REFUSED_BY_RATE = "penstock.refused_by_rate"
"""Where a `RefusedByRate` stands in the environment of a call that was refused so."""
_OF_TENANT = (REST_CALLS, REST_PROCESSOR)
"""Rates of calls of all a tenant's callers together."""
_SET_BY_DELIVERY = ("delivered_generation", "conditions", "topic_id")
"""The topic id too: if the brokers have lost a topic, it is made again under another id."""


class _Repeated(Exception):
    """The request was answered before, with this answer."""

    def __init__(self, status: int, answer: Any) -> None:
        super().__init__(status)
        self.status = status
        self.answer = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedByRate:
    """Why a call was refused, for what stands before Django."""

    limit: str
    of_tenant: bool
    """Whether it is the tenant's rate, over all its callers; else the caller's own."""
    tenant: str
    """That it was counted for; empty = none."""
    clears_in_s: float


class PublicView(APIView):
    """For every caller, with or without a credential."""

    authentication_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        parameters.check(request)

    def source(self) -> str:
        return str(self.request.META.get("REMOTE_ADDR", ""))[:64]

    def browser(self) -> str:
        return str(self.request.META.get("HTTP_USER_AGENT", ""))

    def request_id(self) -> str:
        return str(getattr(self.request, "request_id", ""))


class CallerView(APIView):
    """For callers with a valid credential; not about one tenant. POST takes an idempotency key."""

    conditional: ClassVar[frozenset[str]] = frozenset()
    """Methods that obey If-Match. Any other method that changes something refuses the header."""
    dry_run: ClassVar[frozenset[str]] = frozenset()
    """Methods that take `?dry_run=true`. Any other refuses it, as every parameter that it does not have."""
    _idempotent: IdempotentRequest | None = None

    @property
    def caller(self) -> Caller:
        """Who calls."""
        caller = caller_of(self.request)
        if caller is None:
            raise Unauthenticated("Authorization: Bearer <API key or token> required")
        return caller

    @property
    def actor(self) -> Actor:
        """For actions and their audit entries."""
        return self.caller.actor

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.admit(request)
        parameters.check(request)
        if (
            etags.HEADER in request.headers
            and request.method not in ("GET", "HEAD")
            and request.method not in self.conditional
        ):
            raise InvalidRequest(
                f"{etags.HEADER}: {request.method} {request.path} takes no condition; leave the header out"
            )
        if request.method in self.dry_run and dry_runs.is_asked(request):
            # Nothing is done, so nothing is kept for a repetition either. The framework calls this one instead.
            name = request.method.lower()
            setattr(self, name, partial(dry_runs.answer, getattr(self, name)))
            return
        key = request.headers.get(idempotency.HEADER)
        if request.method == "POST" and key is not None:
            access = getattr(self, "access", None)
            tenant = access.tenant.public_id if isinstance(access, TenantAccess) else ""
            known = idempotency.begin(
                self.caller.actor.id,
                key,
                method="POST",
                path=f"{request.get_full_path()} {tenant} {request.headers.get(etags.HEADER, '')}",
                body=bytes(request.body),
            )
            if known.status is not None:
                raise _Repeated(known.status, known.answer)
            self._idempotent = known

    def admit(self, request: Request) -> None:
        """Raise unless the caller may do this."""
        _ = self.caller

    @property
    def reader(self) -> str:
        """Whose lists these are: cursors of another reader are refused."""
        return self.actor.id

    def paged(
        self,
        rows: QuerySet[Any] | pages.KeyedList,
        shape: type[Serializer[Any]],
        *,
        shown_as: Callable[[list[Any]], Sequence[Any]] = list,
        context: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Response:
        """The page that the request names. `shown_as` turns the page's rows into the objects that the shape shows;
        `context` is for the shape, `extra` are further members of the answer. Raises `InvalidRequest`.
        """
        found, answer = pages.page(rows, self.request, reader=self.reader)
        shown = shape(shown_as(found), many=True, context=dict(context or {}))
        return answer.get_paginated_response(shown.data, extra)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, Forbidden):
            self._count_refusal()
        limit = getattr(exc, "limit", "")
        if limit:
            tenant = self._count_limit(limit)
            if isinstance(exc, problems.RateReached) and limit in (CALLER_RATE, *_OF_TENANT):
                self.request.META[REFUSED_BY_RATE] = RefusedByRate(
                    limit=limit,
                    of_tenant=limit in _OF_TENANT,
                    tenant=tenant,
                    clears_in_s=exc.clears_in_s,
                )
        if isinstance(exc, _Repeated):
            kind = problems.CONTENT_TYPE if exc.status >= 400 else None
            return Response(
                exc.answer, status=exc.status, headers={"Idempotency-Replayed": "true"}, content_type=kind
            )
        try:
            return super().handle_exception(exc)
        except Exception:
            # A fault: the outcome is unknown, so the key may be used again.
            if self._idempotent is not None:
                self._idempotent.delete()
                self._idempotent = None
            raise

    def _count_limit(self, limit: str) -> str:
        """The tenant that it was counted for; empty = of none."""
        caller, access = caller_of(self.request), getattr(self, "access", None)
        tenant = caller.key.tenant.public_id if caller is not None and caller.key is not None else ""
        tenant = access.tenant.public_id if isinstance(access, TenantAccess) else tenant
        metrics.count_limit(tenant, limit)
        return tenant

    def _count_refusal(self) -> None:
        caller = caller_of(self.request)
        if caller is not None:
            access = getattr(self, "access", None)
            permission = required(getattr(self, "permissions", {}), self.request)
            counting.count_refusal(caller, access if isinstance(access, TenantAccess) else None, permission)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        if self._idempotent is not None and isinstance(response, Response):
            idempotency.finish(self._idempotent, response.status_code, response.data)
            self._idempotent = None
        access = getattr(self, "access", None)
        if isinstance(access, TenantAccess) and response.status_code < 300:
            permission = required(getattr(self, "permissions", {}), request)
            counting.count_read(request, self.caller, access, permission)
        return super().finalize_response(request, response, *args, **kwargs)


def required(permissions: Mapping[str, Permission], request: Request) -> Permission | None:
    """What the request's method requires. HEAD needs the right of GET: its length and ETag show what GET would."""
    return permissions.get("GET" if request.method == "HEAD" else str(request.method))


class OperatorView(CallerView):
    """For operators only, about the whole service."""

    permissions: ClassVar[Mapping[str, Permission]]
    """The permission that each method requires, by the table in tenants.roles."""

    def admit(self, request: Request) -> None:
        permission = required(self.permissions, request)
        if self.caller.operator is None or (
            permission is not None and not allowed(Standing.OPERATOR, permission)
        ):
            raise Forbidden("an operator's token is required")


class TenantView(CallerView):
    """About one tenant: the one that the header names, the key's own, or the person's only one."""

    permissions: ClassVar[Mapping[str, Permission]]
    """The permission that each method requires, by the table in tenants.roles."""
    access: TenantAccess
    counted: ClassVar[bool] = True
    """Whether its calls count for the tenant's rates of REST; not those that show the limits."""

    @property
    def tenant(self) -> Tenant:
        """The tenant that the request is about."""
        return self.access.tenant

    @property
    def reader(self) -> str:
        return self.tenant.public_id

    def wanted_tenant(self, request: Request) -> str | None:
        """The public id of the tenant that the request names, if it does."""
        return request.headers.get(TENANT_HEADER)

    def admit(self, request: Request) -> None:
        self.access = access_of(self.caller, self.wanted_tenant(request))
        permission = required(self.permissions, request)
        if permission is not None:
            self.access.require(permission)
        if self.counted:
            # Only what the caller may do: the calls of a key that may do little would use up the owner's.
            call = throttles.count_tenant_call(self.tenant, self.caller)
            if call is not None:
                request.META[TOOK] = call.ended


def tagged(row: DesiredObject, shown: Serializer[Any], status: int = 200) -> Response:
    """An answer about the object with its ETag."""
    return Response(shown.data, status=status, headers={"ETag": etags.of(row)})


def answer_change(
    row: DesiredObject,
    kind: str,
    shape: type[Delivery],
    status: int = 200,
    context: Mapping[str, Any] | None = None,
    *,
    take_back: Callable[[str], bool] | None = None,
) -> Response:
    """Deliver the change to the brokers, then answer: with `status`, or with 202 if they did not take it in time.

    `context` is for the shape, beside `delivered`. `take_back` as in `is_delivered`.
    """
    delivered = is_delivered(row, kind, take_back)
    shown = shape(row, context={**(context or {}), "delivered": delivered})
    return tagged(row, shown, status if delivered else 202)


def is_delivered(row: DesiredObject, kind: str, take_back: Callable[[str], bool] | None = None) -> bool:
    """Deliver a change, which takes up to 2 s. The row's fields then say the result; its generation stays the change's.

    False: if the brokers refused the change, the conditions say why. Where `take_back` can undo the change, a refusal
    for good is raised instead. None: the change stands whatever brokers say, as a revocation does.
    """
    if take_back is None:
        delivered = in_request.deliver_now(kind, row.public_id, row.generation)
    else:
        delivered = in_request.deliver_or_take_back(kind, row.public_id, row.generation, take_back)
    known = {field.name for field in row._meta.concrete_fields}
    row.refresh_from_db(fields=[name for name in _SET_BY_DELIVERY if name in known])
    return delivered
