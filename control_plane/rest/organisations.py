"""REST: organisations, for the people who belong to them."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db import transaction
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.access import organisation_actions
from control_plane.api import etags, shapes
from control_plane.audit.tallies import tallies
from control_plane.rest.audit import (
    EXPORTING,
    LINES,
    SEARCHING,
    SEQUENCE,
    AuditHeadShape,
    AuditShape,
    exported,
    found,
    head_of,
)
from control_plane.rest.organisation_shapes import (
    OrganisationChange,
    OrganisationInput,
    OrganisationInvitationInput,
    OrganisationInvitationMade,
    OrganisationInvitationShape,
    OrganisationMemberShape,
    OrganisationRoleInput,
    OrganisationShape,
    OwnOrganisationShape,
)
from control_plane.rest.tenant_shapes import ChangedTenant, TenantShape
from control_plane.rest.views import CallerView, answer_change, tagged
from penstock.contract.audit_entries import DONE, REFUSED
from penstock.contract.errors import Forbidden
from tenants import audited
from tenants import queries as tenants
from tenants.actions import KIND_TENANT
from tenants.models import Organisation, OrganisationMember, Person, Tenant
from tenants.organisations import actions, queries, tenant_actions
from tenants.roles import OrganisationPermission as May


class _OfPeople(CallerView):
    @property
    def person(self) -> Person:
        """Who calls. Raises `Forbidden` for keys and operators."""
        if self.caller.person is None:
            raise Forbidden("organisations are for people who have signed in (`penstock login`)")
        return self.caller.person

    def admit(self, request: Request) -> None:
        _ = self.person


class OrganisationsView(_OfPeople):
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="organisations_list",
        parameters=shapes.PAGING,
        responses={
            200: shapes.listed("Organisation", OwnOrganisationShape(many=True)),
            **shapes.problems(403),
        },
    )
    def get(self, request: Request) -> Response:
        """The organisations that the person belongs to."""
        return self.paged(queries.organisations_of(self.person), OwnOrganisationShape)

    @extend_schema(
        operation_id="organisations_create",
        request=OrganisationInput,
        parameters=[shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: OrganisationShape, **shapes.problems(403, 409, 422)},
    )
    def post(self, request: Request) -> Response:
        """Make an organisation. The caller is its owner. A person owns at most 10."""
        given = OrganisationInput(data=request.data)
        given.is_valid(raise_exception=True)
        return _shown(actions.create(self.actor, self.person, **given.validated_data), 201)


class OrganisationView(_OfPeople):
    """About the organisation that the address names; the caller is one of its members."""

    permissions: ClassVar[Mapping[str, May]]
    """The permission that each method requires, by the table in tenants.roles."""
    belonging: queries.Belonging | None = None

    @property
    def organisation(self) -> Organisation:
        """The organisation that the request is about."""
        assert self.belonging is not None
        return self.belonging.organisation

    @property
    def reader(self) -> str:
        return self.organisation.public_id

    def admit(self, request: Request) -> None:
        self.belonging = queries.belonging(self.person, str(self.kwargs["organisation"]))
        permission = self._required(request)
        if permission is not None:
            actions.require(self.belonging.role, permission)
        if request.method not in ("GET", "HEAD"):
            queries.check_let_in(self.organisation, self.person)

    def _required(self, request: Request) -> May | None:
        return self.permissions.get("GET" if request.method == "HEAD" else str(request.method))

    def _count(self, permission: May, outcome: str) -> None:
        action = audited.action_of(permission)
        tallies().count(self.actor, tenant=self.organisation.public_id, action=action, outcome=outcome)

    def _count_refusal(self) -> None:
        permission = self._required(self.request)
        if self.belonging is None or permission is None:
            super()._count_refusal()
        else:
            self._count(permission, REFUSED)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        permission = self._required(request)
        if (
            request.method in ("GET", "HEAD")
            and permission in audited.SENSITIVE_READS_OF_ORGANISATIONS
            and response.status_code < 300
        ):
            self._count(permission, DONE)
        return super().finalize_response(request, response, *args, **kwargs)


class OrganisationDetailView(OrganisationView):
    permissions: ClassVar[Any] = {"GET": May.READ, "PATCH": May.WRITE, "DELETE": May.DELETE}
    conditional = frozenset({"PATCH", "DELETE"})
    dry_run = frozenset({"PATCH", "DELETE"})

    @extend_schema(
        operation_id="organisations_get",
        parameters=[shapes.ETAG],
        responses={200: OrganisationShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, organisation: str) -> Response:
        """One organisation."""
        return _shown(self.organisation)

    @extend_schema(
        operation_id="organisations_change",
        request=OrganisationChange,
        parameters=[shapes.IF_MATCH, shapes.ETAG],
        responses={200: OrganisationShape, **shapes.problems(403, 404, 409, 412)},
    )
    def patch(self, request: Request, organisation: str) -> Response:
        """Owners and admins: give it other names."""
        given = OrganisationChange(data=request.data)
        given.is_valid(raise_exception=True)
        with etags.unchanged_within(request, self.organisation, self._tag):
            row = actions.change(self.actor, self.organisation, **given.validated_data)
        return _shown(row)

    @extend_schema(
        operation_id="organisations_delete",
        request=None,
        parameters=[shapes.IF_MATCH],
        responses={204: None, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, organisation: str) -> Response:
        """Owners: delete an organisation that has no tenants. Its name is free."""
        with etags.unchanged_within(request, self.organisation, self._tag):
            actions.delete(self.actor, self.organisation)
        return Response(status=204)

    def _tag(self) -> str:
        return _tag(Organisation.objects.get(pk=self.organisation.pk))


class OrganisationMembersView(OrganisationView):
    permissions: ClassVar[Any] = {"GET": May.MEMBERS_READ}

    @extend_schema(
        operation_id="organisation_members_list",
        parameters=shapes.PAGING,
        responses={
            200: shapes.listed("OrganisationMember", OrganisationMemberShape(many=True)),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request, organisation: str) -> Response:
        """The people of the organisation, with their roles."""
        return self.paged(queries.members(self.organisation), OrganisationMemberShape)


class OrganisationMemberView(OrganisationView):
    # Every member may leave: the action asks who may remove others.
    permissions: ClassVar[Any] = {"GET": May.MEMBERS_READ, "PATCH": May.MEMBERS_WRITE}
    conditional = frozenset({"PATCH", "DELETE"})
    dry_run = frozenset({"PATCH", "DELETE"})

    @extend_schema(
        operation_id="organisation_members_get",
        parameters=[shapes.ETAG],
        responses={200: OrganisationMemberShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, organisation: str, person: str) -> Response:
        """One person of the organisation."""
        return _shown_member(queries.member(self.organisation, person))

    @extend_schema(
        operation_id="organisation_members_set_role",
        request=OrganisationRoleInput,
        parameters=[shapes.IF_MATCH, shapes.ETAG],
        responses={200: OrganisationMemberShape, **shapes.problems(403, 404, 412, 422)},
    )
    def patch(self, request: Request, organisation: str, person: str) -> Response:
        """Give a member another role; it holds in every tenant of the organisation at once.

        Only an owner can make or demote an owner, and the last owner stays owner. Keys that the member made and may
        hold no more are revoked.
        """
        queries.member(self.organisation, person)
        given = OrganisationRoleInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = actions.checked_role(given.validated_data["role"])
        with transaction.atomic():
            if etags.HEADER in request.headers:
                # In the order that the action has too.
                actions.check_may_touch(self.actor, self.organisation, person, wanted)
                actions.lock_tenants(self.organisation, person)
                actions.locked(self.organisation)
                etags.check(request, self._tag(person))
            row = actions.change_role(self.actor, self.organisation, person, role=wanted.value)
        return _shown_member(row)

    @extend_schema(
        operation_id="organisation_members_remove",
        request=None,
        parameters=[shapes.IF_MATCH],
        responses={204: None, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, organisation: str, person: str) -> Response:
        """Remove a member, or leave with your own id. Rights that they had by the organisation end at once."""
        with transaction.atomic():
            if etags.HEADER in request.headers:
                # In the order that the action has too.
                actions.check_may_touch(self.actor, self.organisation, person)
                naming = organisation_actions.tenants_naming(self.organisation, person)
                actions.lock_tenants(self.organisation, person, naming)
                actions.locked(self.organisation)
                etags.check(request, self._tag(person))
            organisation_actions.remove_member(self.actor, self.organisation, person)
        return Response(status=204)

    def _tag(self, person: str) -> str:
        return _tag_of_member(queries.member(self.organisation, person))


class OrganisationInvitationsView(OrganisationView):
    permissions: ClassVar[Any] = {"GET": May.MEMBERS_READ, "POST": May.MEMBERS_WRITE}

    @extend_schema(
        operation_id="organisation_invitations_list",
        parameters=shapes.PAGING,
        responses={
            200: shapes.listed("OrganisationInvitation", OrganisationInvitationShape(many=True)),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request, organisation: str) -> Response:
        """Invitations that can still be accepted."""
        return self.paged(queries.invitations(self.organisation), OrganisationInvitationShape)

    @extend_schema(
        operation_id="organisation_invitations_create",
        request=OrganisationInvitationInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={201: OrganisationInvitationMade, **shapes.problems(403, 404, 409)},
    )
    def post(self, request: Request, organisation: str) -> Response:
        """Invite a person by e-mail address, as to a tenant: the link is valid for 7 days, and accepted with `join`."""
        given = OrganisationInvitationInput(data=request.data)
        given.is_valid(raise_exception=True)
        row, token = actions.invite(self.actor, self.organisation, **given.validated_data)
        return Response(OrganisationInvitationMade(row, context={"token": token}).data, status=201)


class OrganisationInvitationView(OrganisationView):
    permissions: ClassVar[Any] = {"DELETE": May.MEMBERS_WRITE}

    @extend_schema(
        operation_id="organisation_invitations_withdraw",
        request=None,
        responses={204: None, **shapes.problems(403, 404)},
    )
    def delete(self, request: Request, organisation: str, invitation: str) -> Response:
        """Withdraw an invitation. Its link stops working."""
        actions.withdraw(self.actor, self.organisation, invitation)
        return Response(status=204)


class OrganisationTenantsView(OrganisationView):
    permissions: ClassVar[Any] = {"GET": May.READ}

    @extend_schema(
        operation_id="organisation_tenants_list",
        parameters=shapes.PAGING,
        responses={
            200: shapes.listed("OrganisationTenant", TenantShape(many=True)),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request, organisation: str) -> Response:
        """The tenants that the organisation owns."""
        rows = queries.tenants(self.organisation).select_related("organisation")
        return self.paged(rows, TenantShape)


class OrganisationTenantView(OrganisationView):
    permissions: ClassVar[Any] = {
        "GET": May.READ,
        "POST": May.TENANTS_MOVE,
        "DELETE": May.TENANTS_MOVE,
    }
    conditional = frozenset({"POST", "DELETE"})
    dry_run = frozenset({"POST", "DELETE"})
    moved_out: Tenant | None = None
    """What an owner of the tenant itself moves out, member or not."""

    @property
    def organisation(self) -> Organisation:
        if self.moved_out is not None and self.moved_out.organisation is not None:
            return self.moved_out.organisation
        return super().organisation

    def admit(self, request: Request) -> None:
        if request.method == "DELETE":
            # Who owns the tenant themselves need not belong to the organisation.
            ids = str(self.kwargs["organisation"]), str(self.kwargs["tenant"])
            self.moved_out = queries.tenant_to_move_out(self.person, *ids)
        if self.moved_out is None:
            super().admit(request)

    @extend_schema(
        operation_id="organisation_tenants_get",
        parameters=[shapes.ETAG],
        responses={200: TenantShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, organisation: str, tenant: str) -> Response:
        """One tenant that the organisation owns."""
        found = queries.tenant(self.organisation, tenant)
        return tagged(found, TenantShape(found))

    @extend_schema(
        operation_id="organisation_tenants_move_in",
        request=None,
        parameters=[shapes.IDEMPOTENCY, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedTenant, 202: ChangedTenant, **shapes.problems(403, 404, 409, 412, 422)},
    )
    def post(self, request: Request, organisation: str, tenant: str) -> Response:
        """Move a tenant into the organisation; its members have their roles there from now on.

        The caller owns both: the organisation, and the tenant by a role of their own. A tenant belongs to one
        organisation at most.
        """
        found = tenants.belonging(self.person, tenant).tenant
        with etags.unchanged(request, found):
            moved = tenant_actions.move_in(self.actor, self.organisation, tenant)
        return answer_change(moved, KIND_TENANT, ChangedTenant)

    @extend_schema(
        operation_id="organisation_tenants_move_out",
        request=None,
        parameters=[shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedTenant, 202: ChangedTenant, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, organisation: str, tenant: str) -> Response:
        """Move a tenant out of the organisation. Rights that members had there by it end at once.

        The caller owns the tenant by a role of their own; they need not belong to the organisation.
        """
        found = self.moved_out or queries.tenant(self.organisation, tenant)
        with etags.unchanged(request, found):
            moved = organisation_actions.move_out(self.actor, self.organisation, found)
        return answer_change(moved, KIND_TENANT, ChangedTenant)


class OrganisationAuditView(OrganisationView):
    permissions: ClassVar[Any] = {"GET": May.AUDIT_READ}

    @extend_schema(
        operation_id="organisation_audit_list",
        parameters=[*shapes.PAGING, *SEARCHING],
        responses={
            200: shapes.listed("OrganisationAudit", AuditShape(many=True)),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request, organisation: str) -> Response:
        """Who changed, was refused or read what of the organisation, oldest first.

        It is a chain of its own, named by the organisation's id. What happens within a tenant is in the tenant's.
        """
        return self.paged(found(request, self.organisation.public_id), AuditShape)


class OrganisationAuditExportView(OrganisationView):
    permissions: ClassVar[Any] = {"GET": May.AUDIT_READ}

    @extend_schema(
        operation_id="organisation_audit_export",
        parameters=[*EXPORTING],
        responses={(200, LINES): OpenApiTypes.STR, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, organisation: str) -> StreamingHttpResponse:
        """Entries in the chain's order, one JSON object a line, as those of a tenant are exported.

        The chain's id in them, `tenant`, is the organisation's.
        """
        return exported(request, self.organisation.public_id)


class OrganisationAuditHeadView(OrganisationView):
    permissions: ClassVar[Any] = {"GET": May.READ}

    @extend_schema(
        operation_id="organisation_audit_head",
        parameters=[SEQUENCE],
        responses={200: AuditHeadShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, organisation: str) -> Response:
        """The end of the organisation's audit log, to store and compare later. It reveals nothing of the entries."""
        return head_of(request, self.organisation.public_id)


def _shown(row: Organisation, status: int = 200) -> Response:
    return Response(OrganisationShape(row).data, status=status, headers={"ETag": _tag(row)})


def _tag(row: Organisation) -> str:
    return etags.of_content(row.name, row.display_name)


def _shown_member(row: OrganisationMember) -> Response:
    return Response(OrganisationMemberShape(row).data, headers={"ETag": _tag_of_member(row)})


def _tag_of_member(row: OrganisationMember) -> str:
    """Of a member only the role can change."""
    return f'"{row.role}"'
