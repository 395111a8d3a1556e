"""The outbox app's configuration."""

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    name = "control_plane.outbox"
    label = "outbox"
