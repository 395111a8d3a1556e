"""The api app's configuration."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "control_plane.api"
    label = "api"
