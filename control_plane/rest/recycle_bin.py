"""REST: the recycle bin of a tenant's topics."""

from functools import partial
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import shapes
from control_plane.rest.topics import ChangedTopic, TopicShape
from control_plane.rest.views import TenantView, answer_change
from control_plane.topics import actions, bin_actions, queries
from penstock.rules.access import CREATE, DELETE
from tenants.roles import Permission


class BinnedTopicShape(TopicShape):
    """A topic in the recycle bin; `name` is the one it had."""

    binned_at = shapes.Moment(help_text="When it was deleted.")
    purge_at = shapes.Moment(help_text="When it is deleted for good.")


class RestoreInput(shapes.StrictSerializer):
    name = serializers.CharField(
        required=False,
        max_length=300,
        trim_whitespace=False,
        help_text="Another name; the one that it had unless given.",
    )


class BinnedTopicsView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.TOPICS_READ}

    @extend_schema(
        operation_id="bin_topics_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={
            200: shapes.listed("BinnedTopic", BinnedTopicShape(many=True)),
            **shapes.problems(403, 404),
        },
    )
    def get(self, request: Request) -> Response:
        """The topics in the tenant's recycle bin; with a key, only those that it may describe."""
        return self.paged(queries.binned_topics(self.tenant, self.access.visible), BinnedTopicShape)


class BinnedTopicView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.TOPICS_READ, "DELETE": Permission.TOPICS_WRITE}
    dry_run = frozenset({"DELETE"})

    @extend_schema(
        operation_id="bin_topics_get",
        parameters=[shapes.TENANT],
        responses={200: BinnedTopicShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, topic: str) -> Response:
        """One topic in the recycle bin, by its `id`."""
        row = queries.binned_topic(self.tenant, topic, self.access.visible)
        return Response(BinnedTopicShape(row).data)

    @extend_schema(
        operation_id="bin_topics_purge",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: ChangedTopic, 202: ChangedTopic, **shapes.problems(403, 404)},
    )
    def delete(self, request: Request, topic: str) -> Response:
        """Delete a topic in the recycle bin for good, with all of its messages."""
        row = queries.binned_topic(self.tenant, topic, self.access.visible)
        self.access.require_topic(DELETE, row.name)
        gone = bin_actions.purge_topic(self.actor, self.tenant, topic)
        return answer_change(gone, actions.KIND_TOPIC, ChangedTopic)


class RestoreTopicView(TenantView):
    permissions: ClassVar[Any] = {"POST": Permission.TOPICS_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="bin_topics_restore",
        request=RestoreInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.ETAG],
        responses={200: ChangedTopic, 202: ChangedTopic, **shapes.problems(403, 404, 409, 422)},
    )
    def post(self, request: Request, topic: str) -> Response:
        """Take a topic out of the recycle bin, with its messages, offsets, committed offsets and settings. If another
        topic has its name, give it a new one.
        """
        given = RestoreInput(data=request.data)
        given.is_valid(raise_exception=True)
        before = queries.binned_topic(self.tenant, topic, self.access.visible)
        name = given.validated_data.get("name")
        self.access.require_topic(CREATE, before.name if name is None else name)
        if name is not None:
            self.access.require_rename(before.name, name)
        restored = bin_actions.restore_topic(self.actor, self.tenant, topic, name=name)
        take_back = partial(bin_actions.take_back_restore, self.actor, restored, before)
        return answer_change(restored, actions.KIND_TOPIC, ChangedTopic, take_back=take_back)
