"""The access app's configuration."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "control_plane.access"
    label = "access"
