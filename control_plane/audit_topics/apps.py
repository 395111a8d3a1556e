"""The configuration of this app."""

from django.apps import AppConfig


class AuditTopicsConfig(AppConfig):
    name = "control_plane.audit_topics"
    label = "audit_topics"
