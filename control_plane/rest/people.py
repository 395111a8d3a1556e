"""REST: people of a tenant, their roles, and invitations."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.access import list_actions
from control_plane.api import etags, shapes
from control_plane.rest.callers import TenantAccess
from control_plane.rest.people_shapes import (
    InvitationInput,
    InvitationMade,
    InvitationShape,
    Joined,
    JoinInput,
    MemberShape,
    RoleInput,
)
from control_plane.rest.views import CallerView, TenantView
from penstock.contract.errors import Forbidden
from tenants import joining
from tenants.models import Membership
from tenants.people import actions, queries
from tenants.roles import Permission, allowed


class PeopleView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.PEOPLE_READ}

    @extend_schema(
        operation_id="people_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: shapes.listed("Person", MemberShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The people of the tenant, with their roles."""
        rows = queries.members_with_factors(self.tenant)
        return self.paged(rows, MemberShape, context=_seen_by(self.access))


class PersonView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.PEOPLE_READ, "PATCH": Permission.PEOPLE_WRITE}
    conditional = frozenset({"PATCH", "DELETE"})

    @extend_schema(
        operation_id="people_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: MemberShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, person: str) -> Response:
        """One person of the tenant."""
        return self._shown(queries.member(self.tenant, person))

    @extend_schema(
        operation_id="people_set_role",
        request=RoleInput,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: MemberShape, **shapes.problems(403, 404, 412, 422)},
    )
    def patch(self, request: Request, person: str) -> Response:
        """Give a person another role. Only an owner can make or demote an owner, and the last owner stays owner.

        The keys of a person who becomes billing or auditor are revoked.
        """
        queries.member(self.tenant, person)
        given = RoleInput(data=request.data)
        given.is_valid(raise_exception=True)
        with self._unchanged(person):
            row = actions.change_role(self.actor, self.tenant, person, role=given.validated_data["role"])
        return self._shown(row)

    @extend_schema(
        operation_id="people_remove",
        request=None,
        parameters=[shapes.TENANT, shapes.IF_MATCH],
        responses={204: None, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, person: str) -> Response:
        """Remove a person from the tenant, or leave it with your own id. The keys that they made are revoked."""
        with self._unchanged(person):
            list_actions.remove_person(self.actor, self.tenant, person)
        return Response(status=204)

    def _shown(self, row: Membership) -> Response:
        return Response(MemberShape(row, context=_seen_by(self.access)).data, headers={"ETag": _tag(row)})

    @contextmanager
    def _unchanged(self, person: str) -> Iterator[None]:
        """Like `etags.unchanged`, under the lock of the tenant's memberships."""
        if etags.HEADER not in self.request.headers:
            yield
            return
        with transaction.atomic():
            actions.lock_people(self.tenant)
            etags.check(self.request, _tag(queries.member(self.tenant, person)))
            yield


def _seen_by(access: TenantAccess) -> dict[str, bool]:
    """Who reads the audit log sees who has no second factor; others need not know whose password alone opens all."""
    return {"factors": allowed(access.standing, Permission.AUDIT_READ)}


def _tag(row: Membership) -> str:
    """Of a person in a tenant only the role can change."""
    return f'"{row.role}"'


class InvitationsView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.PEOPLE_READ, "POST": Permission.PEOPLE_WRITE}

    @extend_schema(
        operation_id="invitations_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: shapes.listed("Invitation", InvitationShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """Invitations that can still be accepted."""
        return self.paged(queries.invitations(self.tenant), InvitationShape)

    @extend_schema(
        operation_id="invitations_create",
        request=InvitationInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY],
        responses={201: InvitationMade, **shapes.problems(403, 404, 409)},
    )
    def post(self, request: Request) -> Response:
        """Invite a person by e-mail address. The link is valid for 7 days.

        A service with a mail server mails it; else pass it on yourself.
        """
        given = InvitationInput(data=request.data)
        given.is_valid(raise_exception=True)
        row, token = actions.invite(self.actor, self.tenant, **given.validated_data)
        return Response(InvitationMade(row, context={"token": token}).data, status=201)


class InvitationView(TenantView):
    permissions: ClassVar[Any] = {"DELETE": Permission.PEOPLE_WRITE}

    @extend_schema(
        operation_id="invitations_withdraw",
        request=None,
        parameters=[shapes.TENANT],
        responses={204: None, **shapes.problems(403, 404)},
    )
    def delete(self, request: Request, invitation: str) -> Response:
        """Withdraw an invitation. Its link stops working."""
        actions.withdraw(self.actor, self.tenant, invitation)
        return Response(status=204)


class JoinView(CallerView):
    @extend_schema(
        operation_id="join",
        request=JoinInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: Joined, **shapes.problems(403, 404, 422)},
    )
    def post(self, request: Request) -> Response:
        """Accept an invitation as the person who has signed in. New people accept it when they sign up."""
        if self.caller.person is None:
            raise Forbidden("only a person who has signed in (`penstock login`) can join")
        given = JoinInput(data=request.data)
        given.is_valid(raise_exception=True)
        row = joining.join(self.actor, self.caller.person, given.validated_data["token"])
        return Response(Joined(row).data)
