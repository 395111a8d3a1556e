"""REST: the cluster as brokers see it, for operators."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from control_plane.api import shapes
from control_plane.api.views import OperatorView
from control_plane.cluster import brokers
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
        seen = brokers.client().describe(partitions=True, timeout_s=5)
        return Response(
            {
                "cluster_id": seen.cluster_id,
                "controller": seen.controller,
                "revision": seen.revision,
                "brokers": [_shown(BrokerShape(), b) for b in seen.brokers],
                "partitions": [_shown(PartitionShape(), p) for p in seen.partitions],
            }
        )


def _shown(shape: serializers.Serializer[Any], seen: object) -> dict[str, Any]:
    """The attributes that the shape names."""
    return {str(name): getattr(seen, str(name)) for name in shape.fields}
