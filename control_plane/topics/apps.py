"""The topics app's configuration."""

from django.apps import AppConfig


class TopicsConfig(AppConfig):
    name = "control_plane.topics"
    label = "topics"
