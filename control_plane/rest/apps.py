"""The rest app's configuration."""

from django.apps import AppConfig


class RestConfig(AppConfig):
    name = "control_plane.rest"
    label = "rest"

    def ready(self) -> None:
        from control_plane.rest import schema  # noqa: F401 - registers how callers authenticate
