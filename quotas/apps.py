"""The quotas app's configuration."""

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "quotas"
    label = "quotas"
