"""The brokers app's configuration."""

from django.apps import AppConfig


class BrokersConfig(AppConfig):
    name = "control_plane.brokers"
    label = "cluster"
    """As its table is called."""

    def ready(self) -> None:
        from control_plane.api.metrics import before_each
        from control_plane.brokers import metrics

        before_each(metrics.refresh)
