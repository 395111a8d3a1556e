"""The audit app's configuration."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "control_plane.audit"
    label = "audit"
