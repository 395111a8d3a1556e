"""REST: API keys and their bindings to topics."""

from functools import partial
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.access import actions, queries
from control_plane.api import etags, shapes
from control_plane.rest.views import TenantView, answer_change, tagged
from tenants import actions as tenant_actions
from tenants import queries as tenants
from tenants.models import ApiKey
from tenants.roles import Permission


class KeyInput(shapes.StrictSerializer):
    name = serializers.CharField(max_length=200)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
    topic_prefix = serializers.CharField(
        required=False,
        allow_null=True,
        allow_blank=True,
        max_length=300,
        help_text="The key works for topics whose names begin with it.",
    )
    operations = serializers.ListField(
        child=serializers.CharField(max_length=32),
        required=False,
        max_length=8,
        help_text="Some of describe, produce, consume, delete. Without any: all of them.",
    )


class BindingShape(serializers.Serializer[Any]):
    topic_prefix = serializers.CharField()
    operations = serializers.ListField(child=serializers.CharField())


class KeyShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    service_account = serializers.CharField(source="service_account.public_id", allow_null=True)
    made_by = serializers.CharField(
        source="maker.public_id",
        allow_null=True,
        help_text="The person who made it, or who made the key that made it. The key may do nothing that this person "
        "may not do. null: the service.",
    )
    bindings = serializers.SerializerMethodField()
    created_at = shapes.Moment()
    expires_at = shapes.Moment(allow_null=True)
    revoked_at = shapes.Moment(allow_null=True)
    last_used_over_rest_at = shapes.Moment(
        source="last_used_at",
        allow_null=True,
        help_text="To the minute. Producing and consuming go to the brokers and are not counted here.",
    )
    conditions = shapes.Condition(many=True)
    generation = serializers.IntegerField()
    delivered_generation = serializers.IntegerField()
    delivered = serializers.SerializerMethodField()

    @extend_schema_field(BindingShape(many=True))
    def get_bindings(self, key: ApiKey) -> Any:
        return BindingShape(queries.bindings(key), many=True).data

    def get_delivered(self, key: ApiKey) -> bool:
        return key.delivered_generation >= key.generation


class ChangedKey(shapes.Delivery, KeyShape):
    pass


# The context has the `key`, which is stored nowhere.
class NewKey(ChangedKey):
    key = serializers.SerializerMethodField(help_text="The key itself; shown once.")

    def get_key(self, key: ApiKey) -> str:
        return str(self.context["key"])


class KeysView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.KEYS_READ, "POST": Permission.KEYS_WRITE}

    @extend_schema(
        operation_id="keys_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: shapes.listed("Key", KeyShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's keys, revoked ones too, without their text."""
        rows = (
            tenants.keys(self.tenant).select_related("service_account", "maker").prefetch_related("bindings")
        )
        return self.paged(rows, KeyShape)

    @extend_schema(
        operation_id="keys_create",
        request=KeyInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: NewKey, 202: NewKey, **shapes.problems(403, 404, 409, 422)},
    )
    def post(self, request: Request) -> Response:
        """Make a key. Its text is in this answer only."""
        given = KeyInput(data=request.data)
        given.is_valid(raise_exception=True)
        key, text = actions.create_key(self.actor, self.tenant, **given.validated_data)
        withdraw = partial(actions.withdraw_key, self.actor, key)
        return answer_change(
            key, tenant_actions.KIND_KEY, NewKey, 201, {"key": text.reveal()}, take_back=withdraw
        )


class KeyView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.KEYS_READ, "DELETE": Permission.KEYS_WRITE}
    conditional = frozenset({"DELETE"})

    @extend_schema(
        operation_id="keys_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: KeyShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, key: str) -> Response:
        """One key, without its text."""
        row = tenants.key(self.tenant, key)
        return tagged(row, KeyShape(row))

    @extend_schema(
        operation_id="keys_revoke",
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedKey, 202: ChangedKey, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, key: str) -> Response:
        """Revoke a key. It is refused from now on, on open streams too."""
        row = tenants.key(self.tenant, key)
        with etags.unchanged(request, row):
            revoked = tenant_actions.revoke_key(self.actor, row)
        return answer_change(revoked, tenant_actions.KIND_KEY, ChangedKey)
