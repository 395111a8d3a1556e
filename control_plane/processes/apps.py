"""The processes app's configuration."""

from django.apps import AppConfig


class ProcessesConfig(AppConfig):
    name = "control_plane.processes"
    label = "processes"
