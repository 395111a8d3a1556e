"""The placement app's configuration: it delivers cordons and moves."""

from django.apps import AppConfig


class PlacementConfig(AppConfig):
    name = "control_plane.placement"
    label = "placement"

    def ready(self) -> None:
        from control_plane.placement import deliverers

        deliverers.register_all()
