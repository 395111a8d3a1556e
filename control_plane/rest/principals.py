"""REST: service accounts, and groups of principals that access lists name."""

from contextlib import AbstractContextManager
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.access import list_actions as actions
from control_plane.access import queries
from control_plane.access.models import PrincipalGroup, TenantAccessList
from control_plane.api import etags, shapes
from control_plane.outbox.in_request import deliver_now
from control_plane.rest.access_shapes import (
    AccountInput,
    AccountShape,
    ChangedGroup,
    GroupInput,
    GroupShape,
    MembersInput,
)
from control_plane.rest.views import TenantView, is_delivered
from tenants import queries as tenants
from tenants.actions import KIND_KEY
from tenants.models import ServiceAccount
from tenants.roles import Permission


def _tag_of_account(account: ServiceAccount) -> str:
    return etags.of_content(account.public_id, account.name)


def _tag_of_group(group: PrincipalGroup) -> str:
    return etags.of_content(group.public_id, group.name, group.members)


class AccountsView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ, "POST": Permission.ACCESS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="service_accounts_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={
            200: shapes.listed("ServiceAccount", AccountShape(many=True)),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request) -> Response:
        """The tenant's service accounts: principals that are no people."""
        return self.paged(tenants.service_accounts(self.tenant), AccountShape)

    @extend_schema(
        operation_id="service_accounts_create",
        request=AccountInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY],
        responses={201: AccountShape, **shapes.problems(403, 404, 409, 422)},
    )
    def post(self, request: Request) -> Response:
        """Make a service account. Its keys are made as others are, with `service_account`, and outlive their maker."""
        given = AccountInput(data=request.data)
        given.is_valid(raise_exception=True)
        account = actions.create_account(self.actor, self.tenant, **given.validated_data)
        return Response(AccountShape(account).data, status=201)


class AccountView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ, "DELETE": Permission.ACCESS_WRITE}
    conditional = frozenset({"DELETE"})
    dry_run = frozenset({"DELETE"})

    @extend_schema(
        operation_id="service_accounts_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: AccountShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, account: str) -> Response:
        """One service account."""
        row = tenants.service_account(self.tenant, account)
        return Response(AccountShape(row).data, headers={"ETag": _tag_of_account(row)})

    @extend_schema(
        operation_id="service_accounts_delete",
        parameters=[shapes.TENANT, shapes.IF_MATCH],
        responses={204: None, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, account: str) -> Response:
        """Delete a service account: its keys are revoked, on open streams too, and entries that name it are removed."""
        row = tenants.service_account(self.tenant, account)
        keys = list(tenants.keys(self.tenant).filter(service_account=row, revoked_at=None))
        with etags.unchanged_within(
            request,
            self.tenant,
            lambda: _tag_of_account(tenants.service_account(self.tenant, account)),
        ):
            actions.end_account(self.actor, self.tenant, row)
        for key in keys:
            key.refresh_from_db()
            deliver_now(KIND_KEY, key.public_id, key.generation)
        return Response(status=204)


class GroupsView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ, "POST": Permission.ACCESS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="principal_groups_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: shapes.listed("PrincipalGroup", GroupShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's groups of people and service accounts."""
        return self.paged(queries.groups(self.tenant), GroupShape)

    @extend_schema(
        operation_id="principal_groups_create",
        request=GroupInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY],
        responses={201: ChangedGroup, 202: ChangedGroup, **shapes.problems(403, 404, 409, 422)},
    )
    def post(self, request: Request) -> Response:
        """Make a group of principals."""
        given = GroupInput(data=request.data)
        given.is_valid(raise_exception=True)
        return _answer(*actions.create_group(self.actor, self.tenant, **given.validated_data), status=201)


class GroupView(TenantView):
    permissions: ClassVar[Any] = {
        "GET": Permission.ACCESS_READ,
        "PATCH": Permission.ACCESS_WRITE,
        "DELETE": Permission.ACCESS_WRITE,
    }
    conditional = frozenset({"PATCH", "DELETE"})
    dry_run = frozenset({"PATCH", "DELETE"})

    @extend_schema(
        operation_id="principal_groups_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: GroupShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, group: str) -> Response:
        """One group of principals."""
        row = queries.group(self.tenant, group)
        return Response(GroupShape(row).data, headers={"ETag": _tag_of_group(row)})

    @extend_schema(
        operation_id="principal_groups_set_members",
        request=MembersInput,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedGroup, 202: ChangedGroup, **shapes.problems(403, 404, 412, 422)},
    )
    def patch(self, request: Request, group: str) -> Response:
        """Set the members, all of them. Groups that would hold one another in a circle are refused."""
        given = MembersInput(data=request.data)
        given.is_valid(raise_exception=True)
        with self._unchanged(request, group):
            row, changed = actions.set_members(self.actor, self.tenant, group, **given.validated_data)
        return _answer(row, changed)

    @extend_schema(
        operation_id="principal_groups_delete",
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedGroup, 202: ChangedGroup, **shapes.problems(403, 404, 409, 412)},
    )
    def delete(self, request: Request, group: str) -> Response:
        """Delete a group that no entry and no other group names."""
        with self._unchanged(request, group):
            row, removed = actions.remove_group(self.actor, self.tenant, group)
        return _answer(row, removed)

    def _unchanged(self, request: Request, group: str) -> AbstractContextManager[None]:
        return etags.unchanged_within(
            request, self.tenant, lambda: _tag_of_group(queries.group(self.tenant, group))
        )


def _answer(row: TenantAccessList, group: PrincipalGroup, *, status: int = 200) -> Response:
    delivered = is_delivered(row, actions.KIND_ACCESS)
    shown = ChangedGroup(group, context={"list": row, "delivered": delivered})
    return Response(shown.data, status=status if delivered else 202, headers={"ETag": _tag_of_group(group)})
