"""The billing app's configuration: registers the delivery of cuts and billing's metrics."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "billing"
    label = "billing"

    def ready(self) -> None:
        # Models that are not in `billing.models` are registered where they are imported first.
        from billing import (  # noqa: F401
            account_models,
            anchor_models,
            cost_models,
            coupon_models,
            metrics,
            service_level_models,
            tax_models,
            unit_cost_models,
        )
        from billing.cut_delivery import KIND_CUT, CutDeliverer
        from control_plane.api.metrics import from_database
        from control_plane.outbox.registry import register

        register(KIND_CUT, CutDeliverer())
        from_database(metrics.refresh)
