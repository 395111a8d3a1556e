"""The cluster app's configuration: it delivers tenants, keys and topics."""

from django.apps import AppConfig


class ClusterConfig(AppConfig):
    name = "control_plane.cluster"
    label = "cluster"

    def ready(self) -> None:
        from control_plane.api.metrics import before_each
        from control_plane.cluster import deliverers, metrics

        deliverers.register_all()
        before_each(metrics.refresh)
