"""REST: histories of topics' settings, access lists and groups of principals, and the way back to what was."""

from functools import partial
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.access import actions as key_actions
from control_plane.access import history as access_history
from control_plane.access import list_actions, queries, restore_actions
from control_plane.access.models import TenantAccessList
from control_plane.api import etags, shapes
from control_plane.rest.access_shapes import ChangedAcl
from control_plane.rest.history_shapes import (
    GroupVersionInput,
    KeyAgainInput,
    ListVersionInput,
    NameInput,
    RemovedShape,
    RestoredAccess,
    RestoredAccount,
    RestoredGroup,
    VersionInput,
    VersionShape,
    pages_of,
    pages_of_removed,
)
from control_plane.rest.keys import NewKey
from control_plane.rest.topics import ChangedTopic
from control_plane.rest.views import TenantView, answer_change, is_delivered, tagged
from control_plane.topics import actions as topic_actions
from control_plane.topics import history as topic_history
from control_plane.topics import queries as topics
from penstock.rules.access import ALTER
from quotas.queries import limits_of
from tenants import actions as tenant_actions
from tenants import queries as tenants
from tenants.roles import Permission

LIST_TAG = OpenApiParameter(
    etags.HEADER,
    str,
    OpenApiParameter.HEADER,
    description="The ETag of the access list as you read it (`GET /v1/access`). What is removed has none of its own.",
)
LIST_ETAG = OpenApiParameter(
    "ETag",
    str,
    OpenApiParameter.HEADER,
    response=(200, 202),
    description="Version of the access list, for If-Match.",
)
_VERSIONS = {200: shapes.listed("Version", VersionShape(many=True)), **shapes.problems(403, 404)}


class _HistoryView(TenantView):
    def shown(self, changes: Any) -> Response:
        """The page of the history that the request names."""
        return self.paged(pages_of(changes), VersionShape, context={"days": limits_of(self.tenant).bin_days})


class TopicHistoryView(_HistoryView):
    permissions: ClassVar[Any] = {"GET": Permission.TOPICS_READ}

    @extend_schema(
        operation_id="topics_history",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses=_VERSIONS,
    )
    def get(self, request: Request, name: str) -> Response:
        """The versions of a topic's settings, the newest first: when, who, and what was changed."""
        topic = topics.topic(self.tenant, name, self.access.visible)
        return self.shown(topic_history.changes(topic))


class TopicRestoreView(TenantView):
    permissions: ClassVar[Any] = {"POST": Permission.TOPICS_WRITE}
    conditional = frozenset({"POST"})
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="topics_restore_settings",
        request=VersionInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedTopic, 202: ChangedTopic, **shapes.problems(403, 404, 409, 412, 422)},
    )
    def post(self, request: Request, name: str) -> Response:
        """Give a topic the settings of an earlier version again. Messages and the number of partitions stay."""
        before = topics.topic(self.tenant, name, self.access.visible)
        given = VersionInput(data=request.data)
        given.is_valid(raise_exception=True)
        self.access.require_topic(ALTER, name)
        with etags.unchanged(request, before):
            topic = topic_history.restore_settings(
                self.actor, self.tenant, before, given.validated_data["version"]
            )
        take_back = partial(topic_actions.take_back, self.actor, topic, before)
        return answer_change(topic, topic_actions.KIND_TOPIC, ChangedTopic, take_back=take_back)


class AccessHistoryView(_HistoryView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ}

    @extend_schema(
        operation_id="access_history",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses=_VERSIONS,
    )
    def get(self, request: Request) -> Response:
        """The changes of the access list's entries and default, the newest first."""
        return self.shown(access_history.of_list(self.tenant))


class _ListView(TenantView):
    """Changes of the access list as a whole, under its lock and on the condition of its tag."""

    permissions: ClassVar[Any] = {"POST": Permission.ACCESS_WRITE}
    conditional = frozenset({"POST"})
    dry_run = frozenset({"POST"})

    def unchanged(self, request: Request) -> Any:
        """The block changes the list if it is as the caller read it."""
        return etags.unchanged_within(request, self.tenant, lambda: etags.of(self.row()))

    def row(self) -> TenantAccessList:
        """The list as it is."""
        return queries.access_of(self.tenant) or TenantAccessList(tenant=self.tenant, generation=0)

    def delivered(self, row: TenantAccessList) -> dict[str, Any]:
        """Of the context of answers."""
        return {"list": row, "delivered": is_delivered(row, list_actions.KIND_ACCESS)}


class AccessRestoreView(_ListView):
    @extend_schema(
        operation_id="access_restore",
        request=ListVersionInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.IF_MATCH, shapes.ETAG],
        responses={200: RestoredAccess, 202: RestoredAccess, **shapes.problems(403, 404, 412, 422)},
    )
    def post(self, request: Request) -> Response:
        """Make the access list as it was after a change, or at a time: its entries and its default. Entries that have
        come since are removed; groups of principals keep their members.
        """
        given = ListVersionInput(data=request.data)
        given.is_valid(raise_exception=True)
        with self.unchanged(request):
            found = restore_actions.restore_list(self.actor, self.tenant, **given.validated_data)
        context = {
            **self.delivered(found.row),
            "found": found,
            "acls": queries.acls(self.tenant).count(),
        }
        return tagged(
            found.row, RestoredAccess(found.row, context=context), 200 if context["delivered"] else 202
        )


class AclRestoreView(_ListView):
    @extend_schema(
        operation_id="acls_restore",
        request=None,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, LIST_TAG, LIST_ETAG],
        responses={200: ChangedAcl, 202: ChangedAcl, **shapes.problems(403, 404, 412, 422)},
    )
    def post(self, request: Request, acl: str) -> Response:
        """Restore an entry that was removed, under its id. One that is there, or says the same, is the answer."""
        with self.unchanged(request):
            row, entry = restore_actions.restore_acl(self.actor, self.tenant, acl)
        context = self.delivered(row)
        return tagged(row, ChangedAcl(entry, context=context), 200 if context["delivered"] else 202)


class GroupHistoryView(_HistoryView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ}

    @extend_schema(
        operation_id="principal_groups_history",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses=_VERSIONS,
    )
    def get(self, request: Request, group: str) -> Response:
        """The versions of a group of principals, the newest first; of a removed group, too."""
        return self.shown(access_history.of_group(self.tenant, group))


class GroupRestoreView(_ListView):
    @extend_schema(
        operation_id="principal_groups_restore",
        request=GroupVersionInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, LIST_TAG, LIST_ETAG],
        responses={200: RestoredGroup, 202: RestoredGroup, **shapes.problems(403, 404, 409, 412, 422)},
    )
    def post(self, request: Request, group: str) -> Response:
        """Give a group the members of an earlier version again; or bring a removed group back, under its id, so that
        entries which name it mean it again.
        """
        given = GroupVersionInput(data=request.data)
        given.is_valid(raise_exception=True)
        with self.unchanged(request):
            found = restore_actions.restore_group(self.actor, self.tenant, group, **given.validated_data)
        context = {**self.delivered(found.row), "found": found}
        shown = RestoredGroup(found.group, context=context)
        return tagged(found.row, shown, 200 if context["delivered"] else 202)


class AccountRestoreView(_ListView):
    @extend_schema(
        operation_id="service_accounts_restore",
        request=NameInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, LIST_TAG, LIST_ETAG],
        responses={200: RestoredAccount, 202: RestoredAccount, **shapes.problems(403, 404, 409, 412, 422)},
    )
    def post(self, request: Request, account: str) -> Response:
        """Restore a deleted service account, with the entries and groups that named it. Its keys stay revoked."""
        given = NameInput(data=request.data)
        given.is_valid(raise_exception=True)
        with self.unchanged(request):
            found = restore_actions.restore_account(self.actor, self.tenant, account, **given.validated_data)
        context = {**self.delivered(found.row), "found": found}
        shown = RestoredAccount(found.account, context=context)
        return tagged(found.row, shown, 200 if context["delivered"] else 202)


class KeyRestoreView(TenantView):
    permissions: ClassVar[Any] = {"POST": Permission.KEYS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="keys_restore",
        request=KeyAgainInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: NewKey, 202: NewKey, **shapes.problems(403, 404, 422)},
    )
    def post(self, request: Request, key: str) -> Response:
        """Make a key with the name, scopes and principal of one that was revoked or has expired. It has a secret of its
        own, which is in this answer only; the old one stays refused.
        """
        given = KeyAgainInput(data=request.data)
        given.is_valid(raise_exception=True)
        old = tenants.key(self.tenant, key)
        own = self.caller.key is not None and self.caller.key.service_account_id == old.service_account_id
        if old.service_account_id is not None and not own:
            self.access.require(Permission.ACCESS_WRITE)
        made, text = restore_actions.restore_key(self.actor, old, **given.validated_data)
        withdraw = partial(key_actions.withdraw_key, self.actor, made)
        return answer_change(
            made, tenant_actions.KIND_KEY, NewKey, 201, {"key": text.reveal()}, take_back=withdraw
        )


class RemovedView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.ACCESS_READ}

    @extend_schema(
        operation_id="bin_access_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: shapes.listed("Removed", RemovedShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """Entries of the access list, groups of principals, service accounts and keys that were removed within the
        plan's `bin_days` and have not come back, the last removed first.
        """
        return self.paged(pages_of_removed(partial(access_history.removed, self.tenant)), RemovedShape)
