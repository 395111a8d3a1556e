"""The rest app's configuration."""

from django.apps import AppConfig


class RestConfig(AppConfig):
    name = "control_plane.rest"
    label = "rest"
