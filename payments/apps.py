"""The payments app's configuration: registers the delivery of receivables to Stripe, and the metrics."""

from django.apps import AppConfig


class PaymentsConfig(AppConfig):
    name = "payments"
    label = "payments"

    def ready(self) -> None:
        from control_plane.api.metrics import from_database
        from control_plane.outbox.registry import register
        from payments import metrics
        from payments.stripe_deliverer import KIND_RECEIVABLE, Collector

        register(KIND_RECEIVABLE, Collector())
        from_database(metrics.refresh)
