"""The webhooks app's configuration."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    name = "control_plane.webhooks"
    label = "webhooks"
