"""The access reports app's configuration."""

from django.apps import AppConfig


class AccessReportsConfig(AppConfig):
    name = "control_plane.access_reports"
    label = "access_reports"
