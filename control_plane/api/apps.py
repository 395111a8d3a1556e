"""The api app's configuration."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "control_plane.api"
    label = "api"

    def ready(self) -> None:
        from control_plane.api import schema  # noqa: F401 - registers how callers authenticate
