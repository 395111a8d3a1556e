"""The tenants app's configuration: its metrics are the web application's."""

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    name = "tenants"
    label = "tenants"

    def ready(self) -> None:
        from control_plane.api.metrics import registry
        from tenants import password_line

        registry.register(password_line.waiting)
        registry.register(password_line.refused)
