"""REST: topics."""

from functools import partial
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import etags, metrics, problems, shapes
from control_plane.brokers.view import DurabilitySeen
from control_plane.placement import hot
from control_plane.rest.views import TenantView, answer_change, tagged
from control_plane.topics import actions, bin_actions, creation, queries
from control_plane.topics.models import Topic
from data_plane.placement.heat import Heat
from penstock.contract import limits
from penstock.contract.errors import InvalidRequest, LimitExceeded, PenstockError
from penstock.rules.access import ALTER, CREATE, DELETE
from penstock.rules.timestamps import moment_of
from tenants.roles import Permission


class TopicInput(shapes.StrictSerializer):
    name = serializers.CharField(max_length=300, trim_whitespace=False)
    partitions = serializers.IntegerField(default=1)
    settings = serializers.DictField(
        default=dict,
        help_text="Settings by name; the others, and those that are null, have the service's defaults.",
    )


class TopicChange(shapes.StrictSerializer):
    partitions = serializers.IntegerField(required=False, help_text="The number can only grow.")
    settings = serializers.DictField(
        required=False,
        help_text="Settings by name; the others stay as they are. null: back to the service's default, together with "
        "what followed it.",
    )


class TopicShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    topic_id = serializers.CharField(help_text="Its id in brokers and usage: 32 hexadecimal digits.")
    partitions = serializers.IntegerField()
    settings = serializers.DictField()
    created_at = shapes.Moment()
    conditions = shapes.Condition(many=True)
    generation = serializers.IntegerField()
    delivered_generation = serializers.IntegerField()


class SurvivalShape(serializers.Serializer[Any]):
    """What the topic survives. A field about zones or hosts is null while no broker says where the copies are."""

    failures_without_loss = serializers.IntegerField(
        help_text="Brokers that may lose what they store at one time without the loss of an acknowledged message."
    )
    failures_while_writable = serializers.IntegerField(
        help_text="Copies that may be away while `acks=all` is still taken."
    )
    zone_without_loss = serializers.BooleanField(
        allow_null=True, help_text="Any one zone may lose all that it stores."
    )
    zone_while_writable = serializers.BooleanField(allow_null=True, help_text="Any one zone may be away.")
    host_without_loss = serializers.BooleanField(
        allow_null=True, help_text="Any one host may lose all that it stores."
    )
    host_while_writable = serializers.BooleanField(allow_null=True, help_text="Any one host may be away.")
    text = serializers.CharField(help_text="The same in words.")


class HotPartitionShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    bytes_in_per_s = serializers.IntegerField()
    bytes_out_per_s = serializers.IntegerField()
    slow_downs_per_s = serializers.FloatField(help_text="Results that asked a producer to slow down.")
    reasons = serializers.ListField(
        child=serializers.ChoiceField([one.value for one in Heat]), help_text="Why it is hot."
    )


class OneTopic(TopicShape):
    survives = serializers.SerializerMethodField()
    hot_partitions = serializers.SerializerMethodField(
        help_text="Partitions that carry far more than others, the busiest first."
    )

    @extend_schema_field(HotPartitionShape(many=True))
    def get_hot_partitions(self, topic: Topic) -> Any:
        return HotPartitionShape(hot.hot_partitions_of(topic.topic_id), many=True).data

    @extend_schema_field(SurvivalShape)
    def get_survives(self, topic: Topic) -> Any:
        return SurvivalShape(queries.survives(topic)).data


class ChangedTopic(TopicShape, shapes.Delivery):
    pass


class TopicsInput(shapes.StrictSerializer):
    topics = serializers.ListField(
        child=TopicInput(), allow_empty=False, max_length=limits.TOPICS_PER_CALL_MAX
    )


class TopicOutcome(serializers.Serializer[Any]):
    """What became of one topic of the request: `topic` or `problem` is null."""

    name = serializers.CharField()
    status = serializers.IntegerField(
        help_text="As if the topic had been asked for alone: 201 made, 202 made and not on all brokers yet, or the "
        "problem's status."
    )
    topic = ChangedTopic(allow_null=True)
    problem = shapes.Problem(allow_null=True)


class TopicOutcomes(serializers.Serializer[Any]):
    topics = TopicOutcome(many=True, help_text="One for each topic of the request, in its order.")


class PartitionDurabilityShape(serializers.Serializer[Any]):
    partition = serializers.IntegerField()
    log_start_offset = serializers.IntegerField(allow_null=True)
    verified_end_offset = serializers.IntegerField(
        allow_null=True,
        help_text="All records from the log's start to here (exclusive) were read back intact from the disks.",
    )
    committed_end_offset = serializers.IntegerField(
        source="high_watermark",
        allow_null=True,
        help_text="Where the committed log ends. Records after the last full segment are not read back yet.",
    )
    replicas = serializers.IntegerField(
        allow_null=True, help_text="Number of replicas whose content was compared and is the same."
    )
    verified_at = serializers.SerializerMethodField(
        help_text="When the oldest of these checks was made; null: nothing was read back yet."
    )
    error = serializers.CharField(
        allow_null=True,
        help_text="Why the partition's leader does not answer now; the other fields are then null.",
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
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="topics_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: shapes.listed("Topic", TopicShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's topics; with a key, only those that it may describe."""
        rows = queries.topics(self.tenant, self.access.visible)
        return self.paged(rows, TopicShape)

    @extend_schema(
        operation_id="topics_create",
        request=TopicInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY, shapes.ETAG],
        responses={201: ChangedTopic, 202: ChangedTopic, **shapes.problems(403, 404, 409, 422)},
    )
    def post(self, request: Request) -> Response:
        """Make a topic."""
        given = TopicInput(data=request.data)
        given.is_valid(raise_exception=True)
        self.access.require_topic(CREATE, given.validated_data["name"])
        topic = actions.create_topic(self.actor, self.tenant, **given.validated_data)
        withdraw = partial(actions.withdraw, self.actor, topic)
        return answer_change(topic, actions.KIND_TOPIC, ChangedTopic, 201, take_back=withdraw)


class TopicBatchView(TenantView):
    permissions: ClassVar[Any] = {"POST": Permission.TOPICS_WRITE}

    @extend_schema(
        operation_id="topics_create_many",
        request=TopicsInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY],
        responses={207: TopicOutcomes, **shapes.problems(403, 404, 422)},
    )
    def post(self, request: Request) -> Response:
        """Make up to 1,000 topics, with up to 10,000 partitions together. Each is made or refused on its own; but
        one that the access list does not allow the key to make refuses them all.
        """
        given = TopicsInput(data=request.data)
        given.is_valid(raise_exception=True)
        asked = [actions.TopicAsked(**topic) for topic in given.validated_data["topics"]]
        for topic_asked in asked:
            self.access.require_topic(CREATE, topic_asked.name)
        together = sum(max(0, topic.partitions) for topic in asked)
        if together > limits.PARTITIONS_PER_TOPIC_MAX:
            raise LimitExceeded(
                f"topics: {together} partitions together, {limits.PARTITIONS_PER_TOPIC_MAX} possible in one request;"
                " send several",
                limit="TOPICS_PER_CALL_MAX",
            )
        found = creation.create_topics(self.actor, self.tenant, asked)
        shapes_by_delivery = {there: ChangedTopic(context={"delivered": there}) for there in (False, True)}
        outcomes = []
        for topic, what in zip(asked, found, strict=True):
            if isinstance(what, PenstockError):
                refused = problems.problem_of(what)
                if what.limit:
                    metrics.count_limit(self.tenant.public_id, what.limit)
                outcome = {"status": refused["status"], "topic": None, "problem": refused}
            else:
                delivered = what.delivered_generation >= what.generation
                shown = shapes_by_delivery[delivered].to_representation(what)
                outcome = {"status": 201 if delivered else 202, "topic": shown, "problem": None}
            outcomes.append({"name": topic.name, **outcome})
        return Response({"topics": outcomes}, status=207)


class RemovedTopic(ChangedTopic):
    purge_at = shapes.Moment(
        allow_null=True,
        help_text="Until then it can be restored from the recycle bin; null when it was deleted for good at once.",
    )


class TopicView(TenantView):
    permissions: ClassVar[Any] = {
        "GET": Permission.TOPICS_READ,
        "PATCH": Permission.TOPICS_WRITE,
        "DELETE": Permission.TOPICS_WRITE,
    }
    conditional = frozenset({"PATCH", "DELETE"})
    dry_run = frozenset({"PATCH", "DELETE"})

    @extend_schema(
        operation_id="topics_get",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: OneTopic, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        """One topic, and which failures it survives."""
        topic = queries.topic(self.tenant, name, self.access.visible)
        return tagged(topic, OneTopic(topic))

    @extend_schema(
        operation_id="topics_change",
        request=TopicChange,
        parameters=[shapes.TENANT, shapes.IF_MATCH, shapes.ETAG],
        responses={200: ChangedTopic, 202: ChangedTopic, **shapes.problems(403, 404, 409, 412, 422)},
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change settings or add partitions."""
        given = TopicChange(data=request.data)
        given.is_valid(raise_exception=True)
        before = queries.topic(self.tenant, name, self.access.visible)
        self.access.require_topic(ALTER, name)
        with etags.unchanged(request, before):
            topic = actions.update_topic(self.actor, self.tenant, name, **given.validated_data)
        take_back = partial(actions.take_back, self.actor, topic, before)
        return answer_change(topic, actions.KIND_TOPIC, ChangedTopic, take_back=take_back)

    @extend_schema(
        operation_id="topics_delete",
        parameters=[
            shapes.TENANT,
            shapes.IF_MATCH,
            shapes.ETAG,
            OpenApiParameter("purge", bool, description="true: for good, at once. false unless given."),
        ],
        responses={200: RemovedTopic, 202: RemovedTopic, **shapes.problems(403, 404, 412)},
    )
    def delete(self, request: Request, name: str) -> Response:
        """Put a topic into the recycle bin, from which it can be restored until `purge_at`; its name is free at once.

        It is deleted for good at once with `purge`, where the tenant's `bin_days` is 0, while the cluster is below
        feature level 2, and if no broker has it yet.
        """
        purge = request.query_params.get("purge", "false")
        if purge not in ("true", "false"):
            raise InvalidRequest("purge: true or false required")
        before = queries.topic(self.tenant, name, self.access.visible)
        self.access.require_topic(DELETE, name)
        with etags.unchanged(request, before):
            topic = bin_actions.remove_topic(self.actor, self.tenant, name, purge=purge == "true")
        return answer_change(topic, actions.KIND_TOPIC, RemovedTopic)


class TopicDurabilityView(TenantView):
    permissions: ClassVar[Any] = {"GET": Permission.TOPICS_READ}

    @extend_schema(
        operation_id="topics_durability",
        parameters=[shapes.TENANT],
        responses={200: TopicDurabilityShape, **shapes.problems(403, 404, 503)},
    )
    def get(self, request: Request, name: str) -> Response:
        """For each partition: up to which offset its copies were read back intact, on how many brokers, and when."""
        topic, seen = queries.durability(self.tenant, name, self.access.visible)
        found = {"name": topic.name, "topic_id": topic.topic_id, "partitions": seen}
        return Response(TopicDurabilityShape(found).data)
