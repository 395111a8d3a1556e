"""REST: signing up, in and out; tenants."""

from functools import partial
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from billing import account_actions
from control_plane import config
from control_plane.api import etags, shapes
from control_plane.rest.tenant_shapes import (
    ChangedTenant,
    FinishSignUpInput,
    MailSent,
    SignedIn,
    SignedUp,
    SignInInput,
    SignUpInput,
    TenantChange,
    TenantInput,
    TenantShape,
)
from control_plane.rest.throttles import SignInAddressThrottle, SignInThrottle, SignUpThrottle
from control_plane.rest.views import CallerView, PublicView, TenantView, answer_change, is_delivered, tagged
from penstock.contract.errors import Forbidden, InvalidRequest
from tenants import actions, joining, queries
from tenants.addresses import actions as addresses
from tenants.closing import actions as closing
from tenants.models import Membership, Organisation, Person, Tenant
from tenants.people import requirement_actions as requirement
from tenants.people.requirement_actions import GRACE_DAYS
from tenants.roles import Permission
from tenants.sign_in import actions as sign_ins


class _NewcomersView(PublicView):
    throttle_classes = (SignUpThrottle,)

    def _open_account(self, tenant: Tenant, owner: Person, currency: str) -> None:
        account_actions.open_for_newcomer(tenant, owner.public_id, self.request_id(), self.source(), currency)


class SignUpView(_NewcomersView):
    @extend_schema(
        operation_id="sign_up",
        request=SignUpInput,
        responses={201: SignedUp, 202: MailSent, **shapes.problems(403, 404, 409)},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Make an account with a tenant of its own, or one that joins the tenant or organisation of an invitation.

        A service with a mail server answers 202, for known addresses too, and mails a link. Its token finishes the
        sign-up at `sign-up/finish`.
        """
        given = SignUpInput(data=request.data)
        given.is_valid(raise_exception=True)
        email = given.validated_data["email"]
        currency = given.validated_data.get("currency", "")
        if "invitation" not in given.validated_data and config.current().mail is not None:
            if currency:
                raise InvalidRequest("currency: it is chosen with the link that is mailed, at sign-up/finish")
            addresses.ask_to_sign_up(
                email=email,
                tenant_name=given.validated_data["tenant"],
                request_id=self.request_id(),
                source=self.source(),
            )
            return Response(MailSent({"to": email}).data, status=202)
        password = given.validated_data.get("password")
        if password is None:
            raise InvalidRequest("password: required")
        tenant: Tenant | None
        organisation: Organisation | None = None
        if "invitation" in given.validated_data:
            person, member, token = joining.sign_up_invited(
                email=email,
                password=password,
                token=given.validated_data["invitation"],
                request_id=self.request_id(),
                source=self.source(),
                browser=self.browser(),
            )
            tenant = member.tenant if isinstance(member, Membership) else None
            organisation = None if isinstance(member, Membership) else member.organisation
        else:
            with transaction.atomic():
                person, tenant, token = actions.sign_up(
                    email=email,
                    password=password,
                    tenant_name=given.validated_data["tenant"],
                    request_id=self.request_id(),
                    source=self.source(),
                    browser=self.browser(),
                )
                self._open_account(tenant, person, currency)
        context = {"delivered": tenant is not None and is_delivered(tenant, actions.KIND_TENANT)}
        found = {"person": person, "tenant": tenant, "organisation": organisation, "token": token}
        return Response(SignedUp(found, context=context).data, status=201)


class FinishSignUpView(_NewcomersView):
    @extend_schema(
        operation_id="sign_up_finish",
        request=FinishSignUpInput,
        responses={201: SignedUp, **shapes.problems(404, 409)},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Make the account of a link that was mailed. The address is verified."""
        given = FinishSignUpInput(data=request.data)
        given.is_valid(raise_exception=True)
        with transaction.atomic():
            person, tenant, token = addresses.sign_up_by_link(
                given.validated_data["token"],
                password=given.validated_data["password"],
                tenant_name=given.validated_data.get("tenant", ""),
                request_id=self.request_id(),
                source=self.source(),
                browser=self.browser(),
            )
            self._open_account(tenant, person, given.validated_data.get("currency", ""))
        context = {"delivered": is_delivered(tenant, actions.KIND_TENANT)}
        answer = SignedUp({"person": person, "tenant": tenant, "token": token}, context=context)
        return Response(answer.data, status=201)


class SignInView(PublicView):
    throttle_classes = (SignInThrottle, SignInAddressThrottle)

    @extend_schema(
        operation_id="sign_in", request=SignInInput, responses={200: SignedIn, **shapes.problems()}, auth=[]
    )
    def post(self, request: Request) -> Response:
        """Open a session. A person with a second factor gives a code too: of their app, or a recovery code."""
        given = SignInInput(data=request.data)
        given.is_valid(raise_exception=True)
        person, token = sign_ins.sign_in(
            **given.validated_data,
            source=self.source(),
            browser=self.browser(),
            request_id=self.request_id(),
        )
        return Response(SignedIn({"person": person, "token": token}).data)


class SignOutView(CallerView):
    @extend_schema(operation_id="sign_out", request=None, responses={204: None, **shapes.problems()})
    def post(self, request: Request) -> Response:
        """End the session of the token."""
        if self.caller.person is None:
            raise InvalidRequest("only a session can sign out; revoke a key instead")
        actions.sign_out(str(request.auth))
        return Response(status=204)


class TenantsView(CallerView):
    @extend_schema(
        operation_id="tenants_list",
        parameters=shapes.PAGING,
        responses={200: shapes.listed("Tenant", TenantShape(many=True)), **shapes.problems()},
    )
    def get(self, request: Request) -> Response:
        """The caller's tenants: those of a person and their organisations, the one of a key, or all for an operator."""
        return self.paged(self._visible(), TenantShape)

    def _visible(self) -> QuerySet[Tenant]:
        caller = self.caller
        every = queries.all_tenants().select_related("organisation")
        if caller.operator is not None:
            return every
        if caller.person is not None:
            return queries.tenants_of(caller.person).select_related("organisation")
        return every.filter(public_id=caller.key.tenant.public_id if caller.key is not None else "")

    @extend_schema(
        operation_id="tenants_create",
        request=TenantInput,
        parameters=[shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: ChangedTenant, 202: ChangedTenant, **shapes.problems(403, 409, 422)},
    )
    def post(self, request: Request) -> Response:
        """Make another tenant. The caller is its owner.

        A person owns at most 10 tenants, unless an operator allows more, and cannot make one while one of theirs is
        suspended.
        """
        if self.caller.person is None:
            raise Forbidden("only a person who has signed in (`penstock login`) can make a tenant")
        given = TenantInput(data=request.data)
        given.is_valid(raise_exception=True)
        currency = given.validated_data.get("currency")
        with transaction.atomic():
            tenant = actions.create_tenant(
                self.actor, name=given.validated_data["name"], owner=self.caller.person
            )
            if currency:
                account_actions.open_account(self.actor, tenant, currency=currency, now=timezone.now())
        return answer_change(tenant, actions.KIND_TENANT, ChangedTenant, 201)


class OneTenantView(TenantView):
    """About the tenant that the address names."""

    def wanted_tenant(self, request: Request) -> str | None:
        return str(self.kwargs["tenant"])


class TenantDetailView(OneTenantView):
    permissions: ClassVar[Any] = {
        "GET": Permission.TENANT_READ,
        "PATCH": Permission.TENANT_CLOSE,
        "DELETE": Permission.TENANT_CLOSE,
    }
    conditional = frozenset({"PATCH", "DELETE"})
    dry_run = frozenset({"PATCH"})

    @extend_schema(
        operation_id="tenants_get",
        parameters=[shapes.ETAG],
        responses={200: TenantShape, **shapes.problems(404)},
    )
    def get(self, request: Request, tenant: str) -> Response:
        """One tenant."""
        return tagged(self.tenant, TenantShape(self.tenant))

    @extend_schema(
        operation_id="tenants_change",
        request=TenantChange,
        parameters=[shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedTenant, 202: ChangedTenant, **shapes.problems(403, 404, 412)},
    )
    def patch(self, request: Request, tenant: str) -> Response:
        """Owners and operators: protect a tenant against being closed, or do so no more.

        Owners: require a second factor of the tenant's people, or do so no more. Required already, it keeps its date.
        """
        given = TenantChange(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        changed = self.tenant
        with transaction.atomic(), etags.unchanged(request, self.tenant):
            if "deletion_protection" in wanted:
                changed = closing.set_protected(self.actor, changed, wanted["deletion_protection"])
            if "second_factor_required" in wanted:
                changed = self._set_required(
                    wanted["second_factor_required"], wanted.get("second_factor_grace_days", GRACE_DAYS)
                )
        return answer_change(changed, actions.KIND_TENANT, ChangedTenant)

    def _set_required(self, required: bool, grace_days: int) -> Tenant:
        self.access.require(Permission.FACTORS_REQUIRE)
        if required:
            return requirement.require(self.actor, self.tenant, grace_days=grace_days)
        return requirement.require_no_more(self.actor, self.tenant)

    @extend_schema(
        operation_id="tenants_close",
        request=None,
        parameters=[shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedTenant, 202: ChangedTenant, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, tenant: str) -> Response:
        """Owners and operators: close a tenant. Its keys are refused, and its monthly fees and minimum end.

        What was used is invoiced when the month ends. Until `purge_at`, 30 days later, it can be reopened as it was,
        in the same billing period. Then its topics and messages are deleted, its
        keys are revoked and its name is free, as soon as its last invoice is issued.
        """
        with etags.unchanged(request, self.tenant):
            changed = closing.close(self.actor, self.tenant)
        return answer_change(changed, actions.KIND_TENANT, ChangedTenant)


class TenantReopenView(OneTenantView):
    permissions: ClassVar[Any] = {"POST": Permission.TENANT_CLOSE}
    conditional = frozenset({"POST"})

    @extend_schema(
        operation_id="tenants_reopen",
        request=None,
        parameters=[shapes.IDEMPOTENCY, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedTenant, 202: ChangedTenant, **shapes.problems(403, 404, 412)},
    )
    def post(self, request: Request, tenant: str) -> Response:
        """Owners and operators: reopen a closed tenant before it is purged. Its keys are accepted again."""
        with etags.unchanged(request, self.tenant):
            changed = closing.reopen(self.actor, self.tenant)
        return answer_change(changed, actions.KIND_TENANT, ChangedTenant)


class TenantSuspendView(OneTenantView):
    permissions: ClassVar[Any] = {"POST": Permission.TENANT_SUSPEND}
    conditional = frozenset({"POST"})

    @extend_schema(
        operation_id="tenants_suspend",
        request=None,
        parameters=[shapes.IDEMPOTENCY, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedTenant, 202: ChangedTenant, **shapes.problems(403, 404, 412)},
    )
    def post(self, request: Request, tenant: str) -> Response:
        """Operators: suspend a tenant. Its keys are refused until it is resumed."""
        with etags.unchanged(request, self.tenant):
            changed = actions.set_suspended(self.actor, self.tenant, True)
        take_back = partial(actions.take_back_suspended, self.actor, changed, self.tenant)
        return answer_change(changed, actions.KIND_TENANT, ChangedTenant, take_back=take_back)


class TenantResumeView(OneTenantView):
    permissions: ClassVar[Any] = {"POST": Permission.TENANT_SUSPEND}
    conditional = frozenset({"POST"})

    @extend_schema(
        operation_id="tenants_resume",
        request=None,
        parameters=[shapes.IDEMPOTENCY, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedTenant, 202: ChangedTenant, **shapes.problems(403, 404, 412)},
    )
    def post(self, request: Request, tenant: str) -> Response:
        """Operators: resume a tenant. Its keys are accepted again."""
        with etags.unchanged(request, self.tenant):
            changed = actions.set_suspended(self.actor, self.tenant, False)
        take_back = partial(actions.take_back_suspended, self.actor, changed, self.tenant)
        return answer_change(changed, actions.KIND_TENANT, ChangedTenant, take_back=take_back)
