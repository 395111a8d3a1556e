"""The api app's configuration."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "control_plane.api"
    label = "api"

    def ready(self) -> None:
        from control_plane import certificate_metrics, server_checks
        from control_plane.api.metrics import before_each, registry

        before_each(certificate_metrics.refresh)
        registry.register(server_checks.failures)
