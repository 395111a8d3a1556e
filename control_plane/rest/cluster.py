"""REST: the cluster as the brokers see it, for operators."""

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
from penstock.contract.ids import BROKER_ID_MAX
from tenants.roles import Permission


class BrokerShape(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    state = serializers.CharField()
    client_address = serializers.CharField()
    zone = serializers.CharField()
    host = serializers.CharField(help_text="Empty: no other broker is on its host.")
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
        help_text="While there is no leader: brokers that may store the last acknowledged records.",
    )
    log_generation = serializers.IntegerField(help_text="Grows with each declared loss.")


class LossShape(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    topic = serializers.CharField()
    topic_id = serializers.CharField()
    partition = serializers.IntegerField()
    kind = serializers.CharField()
    log_generation = serializers.IntegerField(help_text="The generation that begins with the loss.")
    leader = serializers.IntegerField(help_text="The broker whose log goes on.")
    leader_epoch = serializers.IntegerField()
    offset = serializers.IntegerField(help_text="Records of the old generation from here on are lost.")
    known_end_offset = serializers.IntegerField(help_text="The largest end that any replica reported.")
    asked_by = serializers.CharField(
        help_text="Empty: the brokers declared it themselves, once every copy was back."
    )
    declared_ms = serializers.IntegerField(help_text="ms UTC.")


class LossRequest(shapes.StrictSerializer):
    """Declares a loss: a replica with fewer records leads, or the only copy is truncated where it is damaged."""

    topic_id = shapes.TopicIdField()
    partition = shapes.PartitionField()
    broker = serializers.IntegerField(
        min_value=0,
        max_value=BROKER_ID_MAX,
        required=False,
        allow_null=True,
        help_text="The broker whose replica leads from now on, whatever is lost. Not given: the only copy is truncated "
        "where its damage begins.",
    )
    accept_loss = serializers.BooleanField(
        default=False, help_text="false: nothing is declared, and the answer says what would be."
    )


class LossDeclaration(serializers.Serializer[Any]):
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
        """Operators: the brokers, and the leader and in-sync set of each partition."""
        return Response(ClusterShape(brokers.describe(partitions=True, timeout_s=5)).data)


class LossesView(OperatorView):
    permissions: ClassVar[Any] = {"GET": Permission.CLUSTER_READ, "POST": Permission.CLUSTER_WRITE}

    @extend_schema(
        operation_id="losses_list",
        parameters=[*shapes.PAGING],
        responses={200: shapes.listed("Loss", LossShape(many=True)), **shapes.problems(403, 503)},
    )
    def get(self, request: Request) -> Response:
        """Operators: all declared losses, oldest first."""
        return self.paged(
            pages.in_memory(lambda: brokers.describe(partitions=True, timeout_s=5).losses, key=_in_time),
            LossShape,
        )

    @extend_schema(
        operation_id="losses_declare",
        request=LossRequest,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: LossDeclaration, **shapes.problems(403, 404, 422, 503)},
    )
    def post(self, request: Request) -> Response:
        """Operators: let a named replica lead a partition that no other replica can lead, or repair its only copy.

        The loss is permanent. Consumers get an error that names it, and invoices that counted lost messages are
        credited.
        """
        asked = LossRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        loss, declared = loss_actions.declare(
            self.actor,
            topic_id=asked.validated_data["topic_id"],
            partition=asked.validated_data["partition"],
            broker=asked.validated_data.get("broker"),
            accept=asked.validated_data["accept_loss"],
        )
        return Response(LossDeclaration({"declared": declared, "loss": loss}).data)


def _in_time(loss: LossSeen) -> pages.Key:
    """Unique: at most one loss begins a log generation of a partition."""
    return loss.declared_ms, loss.topic_id, loss.partition, loss.log_generation
