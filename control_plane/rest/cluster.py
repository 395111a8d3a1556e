"""REST: the cluster as brokers see it, for operators."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import pages, shapes
from control_plane.brokers import client as brokers
from control_plane.brokers.view import LossSeen
from control_plane.reconciliation import loss_actions
from control_plane.rest.views import OperatorView
from tenants.roles import Permission


class BrokerShape(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    state = serializers.CharField()
    client_address = serializers.CharField()
    zone = serializers.CharField()
    leaders = serializers.IntegerField()
    replicas = serializers.IntegerField()


class PartitionShape(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    topic = serializers.CharField()
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    leader = serializers.IntegerField(help_text="-1 = none now.")
    leader_epoch = serializers.IntegerField()
    replicas = serializers.ListField(child=serializers.IntegerField())
    in_sync = serializers.ListField(child=serializers.IntegerField())
    last_known = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Who may hold what was acknowledged last, when nobody can lead.",
    )
    log_generation = serializers.IntegerField(help_text="Grows with each declared loss.")


class LossShape(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    topic = serializers.CharField()
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    kind = serializers.CharField()
    log_generation = serializers.IntegerField(help_text="That began with it.")
    leader = serializers.IntegerField(help_text="Whose log goes on.")
    leader_epoch = serializers.IntegerField()
    offset = serializers.IntegerField(help_text="What the old generation held from here on is lost.")
    known_end_offset = serializers.IntegerField(help_text="The furthest end that any replica told.")
    asked_by = serializers.CharField(help_text="Empty: the brokers, once every copy was back.")
    declared_ms = serializers.IntegerField(help_text="ms UTC.")


class LossDemand(shapes.StrictSerializer):
    """Give up what cannot be had back."""

    topic_id = serializers.RegexField(r"^[0-9a-f]{32}$")
    partition = serializers.IntegerField(min_value=0, max_value=2**31 - 1)
    broker = serializers.IntegerField(
        min_value=0,
        max_value=999_999,
        required=False,
        allow_null=True,
        help_text="Whose replica leads from now on, whatever is lost by it. Not given: the only copy is cut where its "
        "damage begins.",
    )
    accept_loss = serializers.BooleanField(
        default=False, help_text="Not true: the answer only tells what would be declared."
    )


class LossTold(serializers.Serializer[Any]):
    declared = serializers.BooleanField()
    loss = LossShape()


class ClusterShape(serializers.Serializer[Any]):
    cluster_id = serializers.CharField()
    controller = serializers.IntegerField()
    revision = serializers.IntegerField()
    brokers = BrokerShape(many=True)
    partitions = PartitionShape(many=True)


class ClusterDetailView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ}

    @extend_schema(operation_id="cluster_get", responses={200: ClusterShape, **shapes.problems(403, 503)})
    def get(self, request: Request) -> Response:
        """Operators: brokers, and each partition's leader and in-sync set."""
        return Response(ClusterShape(brokers.describe(partitions=True, timeout_s=5)).data)


class LossesView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ, "POST": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="losses_list",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("Loss", LossShape(many=True)), **shapes.problems(403, 503)},
    )
    def get(self, request: Request) -> Response:
        """Operators: every loss that was declared of any partition, oldest first."""
        return self.paged(
            pages.in_memory(lambda: brokers.describe(partitions=True, timeout_s=5).losses, key=_in_time),
            LossShape,
        )

    @extend_schema(
        operation_id="losses_declare",
        request=LossDemand,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: LossTold, **shapes.problems(403, 404, 422, 503)},
    )
    def post(self, request: Request) -> Response:
        """Operators: let a named replica lead a partition that nobody else can, or repair its only copy.

        What is lost by it is lost for good; consumers are told, and invoices that counted it are credited.
        """
        asked = LossDemand(data=request.data)
        asked.is_valid(raise_exception=True)
        loss, declared = loss_actions.declare(
            self.actor,
            topic_id=asked.validated_data["topic_id"],
            partition=asked.validated_data["partition"],
            broker=asked.validated_data.get("broker"),
            accept=asked.validated_data["accept_loss"],
        )
        return Response(LossTold({"declared": declared, "loss": loss}).data)


def _in_time(loss: LossSeen) -> pages.Key:
    """A partition's log generation begins with one loss at most."""
    return loss.declared_ms, loss.topic_id, loss.partition, loss.log_generation
