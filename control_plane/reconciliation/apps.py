"""The reconciliation app's configuration: it delivers tenants, keys and topics."""

from django.apps import AppConfig


class ReconciliationConfig(AppConfig):
    name = "control_plane.reconciliation"
    label = "reconciliation"

    def ready(self) -> None:
        from control_plane.reconciliation import deliverers

        deliverers.register_all()
