"""REST: limits of service accounts beside their tenant's."""

from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, shapes
from control_plane.rest.views import TenantView, is_delivered
from quotas import account_actions as actions
from quotas import account_queries as queries
from quotas.account_queries import AccountLimitsFound
from quotas.models import AccountLimits
from tenants import queries as tenants
from tenants.actions import KIND_TENANT
from tenants.models import ServiceAccount, Tenant
from tenants.roles import Permission

_OWN = "null = what each service account has; 0 = only the tenant's limit."


class AccountLimitsInput(shapes.StrictSerializer):
    produce_bytes_per_s = serializers.IntegerField(required=False, allow_null=True, help_text=_OWN)
    consume_bytes_per_s = serializers.IntegerField(required=False, allow_null=True, help_text=_OWN)
    requests_per_s = serializers.IntegerField(required=False, allow_null=True, help_text=_OWN)


class EffectiveShape(serializers.Serializer[Any]):
    """0 = only the tenant's limit. The tenant's limits hold as well."""

    produce_bytes_per_s = serializers.IntegerField(
        help_text="Bytes per second of batches as sent, with all keys, over all brokers."
    )
    consume_bytes_per_s = serializers.IntegerField(
        help_text="Bytes per second of batches as pushed, with all keys, over all brokers."
    )
    requests_per_s = serializers.IntegerField(
        help_text="Requests of its clients per second, with all keys, over all brokers."
    )


class AccountLimitsShape(serializers.Serializer[Any]):
    service_account = serializers.CharField(
        source="account.public_id",
        allow_null=True,
        default=None,
        help_text="null: each that has no limits of its own.",
    )
    name = serializers.CharField(source="account.name", allow_null=True, default=None)
    produce_bytes_per_s = serializers.IntegerField(
        source="own.produce_bytes_per_s", allow_null=True, help_text=_OWN
    )
    consume_bytes_per_s = serializers.IntegerField(
        source="own.consume_bytes_per_s", allow_null=True, help_text=_OWN
    )
    requests_per_s = serializers.IntegerField(source="own.requests_per_s", allow_null=True, help_text=_OWN)
    effective = EffectiveShape()


# The context has the `tenant`, with which brokers get the limits, and whether it is `delivered`.
class ChangedAccountLimits(AccountLimitsShape):
    delivered = serializers.SerializerMethodField(help_text="Whether every broker obeys the limits.")
    token = serializers.SerializerMethodField()

    def get_delivered(self, _: object) -> bool:
        return bool(self.context["delivered"])

    @extend_schema_field(shapes.Token)
    def get_token(self, _: object) -> Any:
        return shapes.Token(self.context["tenant"]).data


class AllAccountLimitsView(TenantView):
    # It names service accounts, as their list does.
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ}

    @extend_schema(
        operation_id="service_account_limits_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={
            200: shapes.listed("AccountLimits", AccountLimitsShape(many=True)),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request) -> Response:
        """The service accounts that have limits of their own, and what they are."""
        each = queries.of_each(self.tenant)

        def shown_as(rows: list[AccountLimits]) -> list[AccountLimitsFound]:
            return [queries.found_of(row.account, row, each) for row in rows]

        return self.paged(queries.own_limits(self.tenant), AccountLimitsShape, shown_as=shown_as)


class _LimitsView(TenantView):
    permissions: ClassVar[Any] = {
        "GET": Permission.QUOTAS_READ,
        "PUT": Permission.ACCOUNT_LIMITS_WRITE,
        "DELETE": Permission.ACCOUNT_LIMITS_WRITE,
    }
    conditional = frozenset({"PUT", "DELETE"})
    dry_run = frozenset({"PUT", "DELETE"})

    def shown(self, account: ServiceAccount | None) -> Response:
        found = queries.limits_of_account(self.tenant, account)
        return Response(AccountLimitsShape(found).data, headers={"ETag": _tag(found)})

    def put_limits(self, request: Request, account: ServiceAccount | None) -> Response:
        given = AccountLimitsInput(data=request.data)
        given.is_valid(raise_exception=True)
        wanted: Mapping[str, int | None] = given.validated_data
        with self._unchanged(request, account):
            tenant = actions.set_account_limits(self.actor, self.tenant, account, wanted)
        return self._answer(tenant, account)

    def remove_limits(self, request: Request, account: ServiceAccount | None) -> Response:
        with self._unchanged(request, account):
            tenant = actions.remove_account_limits(self.actor, self.tenant, account)
        return self._answer(tenant, account)

    def _unchanged(self, request: Request, account: ServiceAccount | None) -> Any:
        return etags.unchanged_within(
            request, self.tenant, lambda: _tag(queries.limits_of_account(self.tenant, account))
        )

    def _answer(self, tenant: Tenant, account: ServiceAccount | None) -> Response:
        found = queries.limits_of_account(tenant, account)
        delivered = is_delivered(tenant, KIND_TENANT)
        shown = ChangedAccountLimits(found, context={"tenant": tenant, "delivered": delivered})
        return Response(shown.data, status=200 if delivered else 202, headers={"ETag": _tag(found)})


class EachAccountLimitsView(_LimitsView):
    @extend_schema(
        operation_id="service_account_limits_get_default",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: AccountLimitsShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """What each service account has that has no limits of its own."""
        return self.shown(None)

    @extend_schema(
        operation_id="service_account_limits_set_default",
        request=AccountLimitsInput,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={
            200: ChangedAccountLimits,
            202: ChangedAccountLimits,
            **shapes.problems(403, 404, 412),
        },
    )
    def put(self, request: Request) -> Response:
        """Set what each service account has that has no limits of its own."""
        return self.put_limits(request, None)

    @extend_schema(
        operation_id="service_account_limits_remove_default",
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={
            200: ChangedAccountLimits,
            202: ChangedAccountLimits,
            **shapes.problems(403, 404, 412),
        },
    )
    def delete(self, request: Request) -> Response:
        """Service accounts without limits of their own have only the tenant's from now on."""
        return self.remove_limits(request, None)


class AccountLimitsView(_LimitsView):
    permissions: ClassVar[Any] = {**_LimitsView.permissions, "GET": Permission.ACCESS_READ}

    @extend_schema(
        operation_id="service_account_limits_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: AccountLimitsShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, account: str) -> Response:
        """The limits of one service account beside the tenant's."""
        return self.shown(tenants.service_account(self.tenant, account))

    @extend_schema(
        operation_id="service_account_limits_set",
        request=AccountLimitsInput,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={
            200: ChangedAccountLimits,
            202: ChangedAccountLimits,
            **shapes.problems(403, 404, 412, 422),
        },
    )
    def put(self, request: Request, account: str) -> Response:
        """Set the limits of a service account, all of them. They hold for all its keys together, also for those that
        are made later, and the tenant's hold as well. Its own keys may not."""
        return self.put_limits(request, tenants.service_account(self.tenant, account))

    @extend_schema(
        operation_id="service_account_limits_remove",
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={
            200: ChangedAccountLimits,
            202: ChangedAccountLimits,
            **shapes.problems(403, 404, 412),
        },
    )
    def delete(self, request: Request, account: str) -> Response:
        """The service account has what each has from now on. Its own keys may not do it."""
        return self.remove_limits(request, tenants.service_account(self.tenant, account))


def _tag(found: AccountLimitsFound) -> str:
    return etags.of_content(None if found.account is None else found.account.public_id, found.own)
