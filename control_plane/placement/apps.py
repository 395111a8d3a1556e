"""The placement app's configuration: it delivers cordons and moves."""

from django.apps import AppConfig


class PlacementConfig(AppConfig):
    name = "control_plane.placement"
    label = "placement"

    def ready(self) -> None:
        from control_plane.api.metrics import from_database
        from control_plane.placement import deliverers, metrics

        from_database(metrics.refresh)
        deliverers.register_all()
