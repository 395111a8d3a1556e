"""REST: API keys and their bindings to topics."""

from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.access import actions, queries
from control_plane.api import etags, shapes
from control_plane.rest.access_shapes import ScopeInput, ScopeShape, scope_of
from control_plane.rest.callers import access_of
from control_plane.rest.views import TenantView, answer_change, is_delivered, tagged
from penstock.contract import limits
from penstock.rules.access import GROUP, TOPIC
from tenants import actions as tenant_actions
from tenants import queries as tenants
from tenants.models import ApiKey
from tenants.roles import Permission, Standing, to_revoke


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
    scopes = serializers.ListField(
        child=ScopeInput(),
        required=False,
        max_length=limits.KEY_BINDINGS_MAX,
        help_text="The key may do only what one of these grants, and what its principal may. Without any, and without "
        "topic_prefix and operations: all that its principal may.",
    )
    service_account = serializers.CharField(
        max_length=64,
        required=False,
        help_text="Id of the service account whose key it is. Without one: yours.",
    )


class VerifyingKeyInput(shapes.StrictSerializer):
    name = serializers.CharField(max_length=200)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
    topic_prefix = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=300,
        help_text="It proves what topics hold whose names begin so. Without one: all, as a whole invoice needs.",
    )


class RotationInput(shapes.StrictSerializer):
    overlap_s = serializers.IntegerField(
        required=False,
        default=3600,
        min_value=0,
        max_value=int(actions.OVERLAP_MAX.total_seconds()),
        help_text="How long the old key goes on beside the new one, in seconds.",
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
        "may not do. null: the service, or a service account.",
    )
    principal = serializers.SerializerMethodField(
        help_text="Whom access lists name: person:<id>, service_account:<id>, or service."
    )
    scopes = serializers.SerializerMethodField(
        help_text="What the key is limited to, beside its principal's rights; none: nothing."
    )
    bindings = serializers.SerializerMethodField(
        help_text="The same as `scopes`, as versions before 0.2 have it."
    )
    created_at = shapes.Moment()
    expires_at = shapes.Moment(allow_null=True)
    revoked_at = shapes.Moment(allow_null=True)
    last_used_at = shapes.Moment(
        allow_null=True,
        help_text="To the minute, over REST and at the brokers; what brokers serve is known some two minutes later.",
    )
    conditions = shapes.Condition(many=True)
    generation = serializers.IntegerField()
    delivered_generation = serializers.IntegerField()
    delivered = serializers.SerializerMethodField()

    @extend_schema_field(BindingShape(many=True))
    def get_bindings(self, key: ApiKey) -> Any:
        return BindingShape(queries.bindings(key), many=True).data

    @extend_schema_field(ScopeShape(many=True))
    def get_scopes(self, key: ApiKey) -> Any:
        return ScopeShape(queries.bindings(key), many=True).data

    def get_principal(self, key: ApiKey) -> str:
        return queries.owner_of(key)

    def get_delivered(self, key: ApiKey) -> bool:
        return key.delivered_generation >= key.generation


class OneKey(KeyShape):
    hidden_topics = serializers.SerializerMethodField(
        help_text="Which topics the access list hides from the key, and what in the list does; empty: none, or its "
        "bearer may not know."
    )

    hidden_groups = serializers.SerializerMethodField(help_text="The same of consumer groups.")

    def get_hidden_topics(self, key: ApiKey) -> str:
        return queries.KeyRights(key, "").hidden(TOPIC)

    def get_hidden_groups(self, key: ApiKey) -> str:
        return queries.KeyRights(key, "").hidden(GROUP)


class ChangedKey(shapes.Delivery, KeyShape):
    pass


LISTED_KEYS = shapes.listed("Key", KeyShape(many=True))


# The context has the `key`, which is stored nowhere.
class NewKey(ChangedKey):
    key = serializers.SerializerMethodField(help_text="The key itself; shown once.")

    def get_key(self, key: ApiKey) -> str:
        return str(self.context["key"])


# The context has the `old` key, too.
class RotatedKey(NewKey):
    replaces = serializers.SerializerMethodField()

    @extend_schema_field(KeyShape)
    def get_replaces(self, _: ApiKey) -> Any:
        return KeyShape(self.context["old"]).data


def _as_listed(rows: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
    """With all that a list shows of each."""
    return rows.select_related("service_account", "maker").prefetch_related("bindings")


class KeysView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.KEYS_READ, "POST": Permission.KEYS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="keys_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: LISTED_KEYS, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's keys, revoked ones too, without their text."""
        return self.paged(_as_listed(tenants.keys(self.tenant)), KeyShape)

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
        wanted = dict(given.validated_data)
        account = wanted.pop("service_account", None)
        if account is not None:
            # Its keys may do what the account may, whatever the maker may.
            self.access.require(Permission.ACCESS_WRITE)
        scopes = [scope_of(scope) for scope in wanted.pop("scopes", ())]
        key, text = actions.create_key(
            self.actor,
            self.tenant,
            scopes=scopes,
            account=None if account is None else tenants.service_account(self.tenant, account),
            **wanted,
        )
        withdraw = partial(actions.withdraw_key, self.actor, key)
        return answer_change(
            key, tenant_actions.KIND_KEY, NewKey, 201, {"key": text.reveal()}, take_back=withdraw
        )


class VerifyingKeysView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.INVOICES_VERIFY, "POST": Permission.INVOICES_VERIFY}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="keys_list_verifying",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: LISTED_KEYS, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's keys that prove invoices, revoked ones too, without their text: for all who may make and revoke
        such keys, also those that see no other key.
        """
        return self.paged(_as_listed(tenants.verifying_keys(self.tenant)), KeyShape)

    @extend_schema(
        operation_id="keys_create_verifying",
        request=VerifyingKeyInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: NewKey, 202: NewKey, **shapes.problems(403, 404, 409, 422)},
    )
    def post(self, request: Request) -> Response:
        """Make a key that proves invoices (`penstock verify-invoice`) and does nothing else: it reads invoices, counts,
        stamps and seals, and no message. Roles that hold no other key make it, too. Its text is in this answer only.
        """
        given = VerifyingKeyInput(data=request.data)
        given.is_valid(raise_exception=True)
        key, text = actions.create_verifying_key(self.actor, self.tenant, **given.validated_data)
        withdraw = partial(actions.withdraw_key, self.actor, key)
        return answer_change(
            key, tenant_actions.KIND_KEY, NewKey, 201, {"key": text.reveal()}, take_back=withdraw
        )


class KeyRotationView(TenantView):
    permissions: ClassVar[Any] = {"POST": Permission.KEYS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="keys_rotate",
        request=RotationInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY],
        responses={201: RotatedKey, 202: RotatedKey, **shapes.problems(403, 404, 422)},
    )
    def post(self, request: Request, key: str) -> Response:
        """Make a key that takes the place of this one: same name, scopes and principal. Both are valid for a while."""
        given = RotationInput(data=request.data)
        given.is_valid(raise_exception=True)
        old = tenants.key(self.tenant, key)
        own = self.caller.key is not None and self.caller.key.service_account_id == old.service_account_id
        if old.service_account_id is not None and not own:
            self.access.require(Permission.ACCESS_WRITE)
        overlap = timedelta(seconds=given.validated_data["overlap_s"])
        made, text, ended = actions.rotate_key(self.actor, old, overlap=overlap)
        # The old one ends only after brokers have heard of the new one, as far as they can be reached.
        delivered = is_delivered(made, tenant_actions.KIND_KEY) and is_delivered(
            ended, tenant_actions.KIND_KEY
        )
        shown = RotatedKey(made, context={"key": text.reveal(), "delivered": delivered, "old": ended})
        return Response(shown.data, status=201 if delivered else 202)


class KeyView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.KEYS_READ, "DELETE": Permission.KEYS_WRITE}
    conditional = frozenset({"DELETE"})
    dry_run = frozenset({"DELETE"})
    counted = False
    """A key that uses up the tenant's calls can be revoked."""

    def admit(self, request: Request) -> None:
        own, key = self.caller.key, self.kwargs["key"]
        self.access = access_of(self.caller, self.wanted_tenant(request))
        if request.method != "DELETE":
            if self.access.standing is not Standing.KEY or own is None or own.public_id != key:
                super().admit(request)
            # Else it reads itself, whatever the access list says: no right is gained by that.
            return
        if own is not None and own.public_id == key:
            # Who finds a key that leaked can end it, whatever it may do else: no right is gained by that.
            return
        # A key that is not there is refused as any other: those who may not revoke it do not hear which there are.
        verifies = tenants.verifying_keys(self.tenant).filter(public_id=key).exists()
        self.access.require(to_revoke(self.access.standing, verifies=verifies))

    @extend_schema(
        operation_id="keys_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: OneKey, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, key: str) -> Response:
        """One key, without its text. A key without scopes may read itself, whatever the access list allows it."""
        row = tenants.key(self.tenant, key)
        return tagged(row, OneKey(row))

    @extend_schema(
        operation_id="keys_revoke",
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedKey, 202: ChangedKey, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, key: str) -> Response:
        """Revoke a key. It is refused from now on, on open streams too. Every key may revoke itself, and
        those who make keys that prove invoices may revoke each of those.
        """
        row = tenants.key(self.tenant, key)
        with etags.unchanged(request, row):
            revoked = tenant_actions.revoke_key(self.actor, row)
        return answer_change(revoked, tenant_actions.KIND_KEY, ChangedKey)
