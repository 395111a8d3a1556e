"""The mail app's configuration."""

from django.apps import AppConfig


class MailConfig(AppConfig):
    name = "control_plane.mail"
    label = "mail"
