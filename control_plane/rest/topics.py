"""REST: topics."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, shapes
from control_plane.brokers.view import DurabilitySeen
from control_plane.rest.views import TenantView, tagged, told
from control_plane.topics import actions, creation, queries
from penstock.rules.timestamps import moment_of
from tenants.roles import Permission


class TopicInput(shapes.StrictSerializer):
    name = serializers.CharField(max_length=300, trim_whitespace=False)
    partitions = serializers.IntegerField(default=1)
    settings = serializers.DictField(default=dict, help_text="By name; the rest as the service's defaults.")


class TopicChange(shapes.StrictSerializer):
    partitions = serializers.IntegerField(required=False, help_text="Only more are possible.")
    settings = serializers.DictField(required=False, help_text="Those named change.")


class TopicShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    topic_id = serializers.CharField(help_text="What brokers and usage know it by: 32 hexadecimal digits.")
    partitions = serializers.IntegerField()
    settings = serializers.DictField()
    created_at = shapes.Moment()
    conditions = shapes.Condition(many=True)
    generation = serializers.IntegerField()
    delivered_generation = serializers.IntegerField()


class TopicTold(TopicShape, shapes.Told):
    pass


class PartitionDurabilityShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    log_start_offset = serializers.IntegerField(allow_null=True)
    verified_end_offset = serializers.IntegerField(
        allow_null=True,
        help_text="Everything from the log's start to here (exclusive) was read back whole from the disks.",
    )
    committed_end_offset = serializers.IntegerField(
        source="high_watermark",
        allow_null=True,
        help_text="Where the committed log ends; what is behind the last full segment waits.",
    )
    replicas = serializers.IntegerField(allow_null=True, help_text="On so many, with the same content.")
    verified_at = serializers.SerializerMethodField(
        help_text="None of it was checked before; null: nothing was read back yet."
    )
    error = serializers.CharField(
        allow_null=True,
        help_text="Why the partition's leader does not say now; the other fields are null then.",
    )

    @extend_schema_field(shapes.Moment(allow_null=True))
    def get_verified_at(self, seen: DurabilitySeen) -> str | None:
        if seen.verified_ms is None:
            return None
        return moment_of(seen.verified_ms).isoformat()

    def to_representation(self, seen: DurabilitySeen) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(seen)
        if not seen.error:
            return shown | {"error": None}
        return dict.fromkeys(shown) | {"partition": seen.partition, "error": seen.error}


class TopicDurabilityShape(serializers.Serializer[Any]):
    name = serializers.CharField()
    topic_id = serializers.CharField()
    partitions = PartitionDurabilityShape(many=True)


class TopicsView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.TOPICS_READ, "POST": Permission.TOPICS_WRITE}

    @extend_schema(
        operation_id="topics_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: shapes.listed("Topic", TopicShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's topics; with a bound key, those that it is bound to."""
        rows = queries.topics(self.tenant, self.place.topic_prefixes)
        return self.paged(rows, TopicShape)

    @extend_schema(
        operation_id="topics_create",
        request=TopicInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: TopicTold, 202: TopicTold, **shapes.problems(403, 404, 409, 422)},
    )
    def post(self, request: Request) -> Response:
        """Make a topic."""
        given = TopicInput(data=request.data)
        given.is_valid(raise_exception=True)
        topic = creation.create_topic(self.actor, self.tenant, **given.validated_data)
        return told(topic, actions.KIND_TOPIC, TopicTold, 201)


class TopicView(TenantView):
    permissions: ClassVar[Any] = {
        "GET": Permission.TOPICS_READ,
        "PATCH": Permission.TOPICS_WRITE,
        "DELETE": Permission.TOPICS_WRITE,
    }
    conditional = frozenset({"PATCH", "DELETE"})

    @extend_schema(
        operation_id="topics_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: TopicShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        """One topic."""
        topic = queries.topic(self.tenant, name, self.place.topic_prefixes)
        return tagged(topic, TopicShape(topic))

    @extend_schema(
        operation_id="topics_change",
        request=TopicChange,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: TopicTold, 202: TopicTold, **shapes.problems(403, 404, 412, 422)},
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change settings or add partitions."""
        given = TopicChange(data=request.data)
        given.is_valid(raise_exception=True)
        with etags.unchanged(request, queries.topic(self.tenant, name)):
            topic = actions.update_topic(self.actor, self.tenant, name, **given.validated_data)
        return told(topic, actions.KIND_TOPIC, TopicTold)

    @extend_schema(
        operation_id="topics_delete",
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: TopicTold, 202: TopicTold, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, name: str) -> Response:
        """Delete a topic with all of its messages."""
        with etags.unchanged(request, queries.topic(self.tenant, name)):
            topic = actions.delete_topic(self.actor, self.tenant, name)
        return told(topic, actions.KIND_TOPIC, TopicTold)


class TopicDurabilityView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.TOPICS_READ}

    @extend_schema(
        operation_id="topics_durability",
        parameters=[shapes.TENANT],
        responses={200: TopicDurabilityShape, **shapes.problems(403, 404, 503)},
    )
    def get(self, request: Request, name: str) -> Response:
        """Up to which offset the copies of a topic were read back whole from the disks, on how many, and when."""
        topic, seen = queries.durability(self.tenant, name, self.place.topic_prefixes)
        found = {"name": topic.name, "topic_id": topic.topic_id, "partitions": seen}
        return Response(TopicDurabilityShape(found).data)
