"""REST: a tenant's access list, and what follows from it: who may do what, and why not."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.access import list_actions as actions
from control_plane.access import queries
from control_plane.access.models import AclEntry, TenantAccessList
from control_plane.api import etags, shapes
from control_plane.rest.access_shapes import (
    AccessShape,
    AclInput,
    AclShape,
    ChangedAccess,
    ChangedAcl,
    ChangedAcls,
    CheckShape,
    DefaultInput,
    PresetInput,
    WhoShape,
    acl_of,
    is_literal,
)
from control_plane.rest.views import TenantView, is_delivered, tagged
from penstock.contract.errors import InvalidRequest
from penstock.rules import access as rules
from tenants import queries as tenants
from tenants.roles import Permission

_WHAT = [
    OpenApiParameter("operation", {"type": "string", "maxLength": 32}, required=True),
    OpenApiParameter("resource", {"type": "string", "enum": list(rules.RESOURCES)}, required=True),
    OpenApiParameter(
        "name", {"type": "string", "maxLength": 249}, description="Of the resource; none of the tenant."
    ),
    OpenApiParameter(
        "address",
        {"type": "string", "maxLength": 64},
        description="Where the caller would be; left out: entries with ranges deny it and do not allow it.",
    ),
]
_WHOM = [
    OpenApiParameter("key", {"type": "string", "maxLength": 64}, description="Id of a key. Or:"),
    OpenApiParameter(
        "principal", {"type": "string", "maxLength": 64}, description="person:<id> or service_account:<id>"
    ),
]


class AccessListView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ, "PATCH": Permission.ACCESS_WRITE}
    conditional = frozenset({"PATCH"})
    dry_run = frozenset({"PATCH"})

    @extend_schema(
        operation_id="access_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: AccessShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """What holds for what no entry of the access list speaks of, and whether the brokers have the list."""
        row = self._row()
        return tagged(row, AccessShape(row, context=self._counted()))

    @extend_schema(
        operation_id="access_set",
        request=DefaultInput,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedAccess, 202: ChangedAccess, **shapes.problems(403, 404, 412)},
    )
    def patch(self, request: Request) -> Response:
        """Set the default: `deny` refuses everything that no entry allows, at once and on open streams."""
        given = DefaultInput(data=request.data)
        given.is_valid(raise_exception=True)
        with etags.unchanged_within(request, self.tenant, lambda: etags.of(self._row())):
            row = actions.set_default(self.actor, self.tenant, given.validated_data["default"])
        delivered = is_delivered(row, actions.KIND_ACCESS)
        shown = ChangedAccess(row, context={**self._counted(), "delivered": delivered})
        return tagged(row, shown, 200 if delivered else 202)

    def _row(self) -> TenantAccessList:
        return queries.access_of(self.tenant) or TenantAccessList(tenant=self.tenant, generation=0)

    def _counted(self) -> dict[str, int]:
        return {"acls": queries.acls(self.tenant).count()}


class AclsView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ, "POST": Permission.ACCESS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="acls_list",
        parameters=[
            shapes.TENANT,
            OpenApiParameter(
                "principal", {"type": "string", "maxLength": 64}, description="Only its entries."
            ),
            *shapes.PAGING,
        ],
        responses={200: shapes.listed("Acl", AclShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The entries of the access list. They have no order: one that denies wins."""
        rows: QuerySet[AclEntry] = queries.acls(self.tenant)
        principal = request.query_params.get("principal")
        if principal is not None:
            rules.check_principal(principal, groups=True)
        return self.paged(rows if principal is None else rows.filter(principal=principal), AclShape)

    @extend_schema(
        operation_id="acls_create",
        request=AclInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY],
        responses={201: ChangedAcl, 202: ChangedAcl, **shapes.problems(403, 404, 422)},
    )
    def post(self, request: Request) -> Response:
        """Add an entry. One that is there already is not added again, and is the answer."""
        given = AclInput(data=request.data)
        given.is_valid(raise_exception=True)
        row, (entry,) = actions.add_acls(self.actor, self.tenant, [acl_of(given.validated_data)])
        delivered = is_delivered(row, actions.KIND_ACCESS)
        shown = ChangedAcl(entry, context={"list": row, "delivered": delivered})
        return Response(shown.data, status=201 if delivered else 202)


class AclPresetView(TenantView):
    permissions: ClassVar[Any] = {"POST": Permission.ACCESS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="acls_create_preset",
        request=PresetInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY],
        responses={201: ChangedAcls, 202: ChangedAcls, **shapes.problems(403, 404, 422)},
    )
    def post(self, request: Request) -> Response:
        """Add the entries that a producer, a consumer, an owner or a reader of some topics needs, all or none."""
        given = PresetInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted = given.validated_data
        acls = rules.preset(
            wanted["preset"],
            principal=wanted["principal"],
            resource_name=wanted["name"],
            literal=is_literal(wanted),
            group_prefix=wanted["group_prefix"],
        )
        row, entries = actions.add_acls(self.actor, self.tenant, acls)
        delivered = is_delivered(row, actions.KIND_ACCESS)
        shown = ChangedAcls({"items": entries}, context={"list": row, "delivered": delivered})
        return Response(shown.data, status=201 if delivered else 202)


class AclView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ, "DELETE": Permission.ACCESS_WRITE}
    conditional = frozenset({"DELETE"})
    dry_run = frozenset({"DELETE"})

    @extend_schema(
        operation_id="acls_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: AclShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, acl: str) -> Response:
        """One entry. Entries do not change; delete one and add another."""
        row = queries.acl(self.tenant, acl)
        return Response(AclShape(row).data, headers={"ETag": _tag_of_acl(row)})

    @extend_schema(
        operation_id="acls_delete",
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedAcl, 202: ChangedAcl, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, acl: str) -> Response:
        """Remove an entry. With one that allowed something a right ends, at once and on open streams."""
        with etags.unchanged_within(request, self.tenant, lambda: _tag_of_acl(queries.acl(self.tenant, acl))):
            row, entry = actions.remove_acl(self.actor, self.tenant, acl)
        delivered = is_delivered(row, actions.KIND_ACCESS)
        shown = ChangedAcl(entry, context={"list": row, "delivered": delivered})
        return Response(shown.data, status=200 if delivered else 202, headers={"ETag": _tag_of_acl(entry)})


class AccessCheckView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ}

    @extend_schema(
        operation_id="access_check",
        parameters=[shapes.TENANT, *_WHOM, *_WHAT],
        responses={200: CheckShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """May this key or principal do that, and why not?"""
        given = request.query_params
        what = _asked(request)
        if ("key" in given) == ("principal" in given):
            raise InvalidRequest("key: either this or a principal required")
        if "key" in given:
            key = tenants.key(self.tenant, given["key"])
            of_key = queries.answer_for_key(key, *what)
            found = of_key.of_principal
            shown: dict[str, Any] = {
                "allowed": of_key.allowed,
                "reason": of_key.reason,
                "key": key.public_id,
                "scopes_grant": of_key.scopes_grant,
            }
        else:
            rules.check_principal(given["principal"], groups=False)
            found = queries.answer_for(self.tenant, given["principal"], *what)
            shown = {"allowed": found.allowed, "reason": found.reason, "key": None, "scopes_grant": None}
        shown |= {"principal": found.principal, "name": found.name, "entry": found.entry}
        return Response(CheckShape(shown).data)


class WhoView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ}

    @extend_schema(
        operation_id="access_who",
        parameters=[shapes.TENANT, *_WHAT],
        responses={200: WhoShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """Who may do that: every person who may hold keys and every service account, those who may first."""
        found = queries.who_may(self.tenant, *_asked(request))
        return Response(WhoShape({"principals": found}).data)


def _tag_of_acl(entry: AclEntry) -> str:
    return etags.of_content(entry.public_id, entry.fingerprint)


def _asked(request: Request) -> tuple[str, str, str, str]:
    """Operation, resource, name and address. Raises `InvalidRequest`."""
    given = request.query_params
    for required in ("operation", "resource"):
        if not given.get(required):
            raise InvalidRequest(f"{required}: required")
    resource, name = given["resource"], given.get("name", "")
    of_key = "key" in given and resource == rules.TOPIC and given["operation"] == rules.VERIFY
    rules.check_resource(resource, name, resource != rules.TENANT, () if of_key else (given["operation"],))
    return given["operation"], resource, name, given.get("address", "")
