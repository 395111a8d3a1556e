"""The billing app's configuration: cuts are delivered like every other change."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "billing"
    label = "billing"

    def ready(self) -> None:
        from billing.cut_delivery import KIND_CUT, CutDeliverer
        from control_plane.outbox.registry import register

        register(KIND_CUT, CutDeliverer())
