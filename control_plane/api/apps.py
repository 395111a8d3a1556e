"""The api app's configuration."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "control_plane.api"
    label = "api"

    def ready(self) -> None:
        from control_plane import certificate_metrics
        from control_plane.api.metrics import before_each

        before_each(certificate_metrics.refresh)
