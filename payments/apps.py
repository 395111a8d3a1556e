"""The payments app's configuration: registers the delivery of receivables to Stripe, the metrics, and what of billing is void."""

from django.apps import AppConfig


class PaymentsConfig(AppConfig):
    name = "payments"
    label = "payments"

    def ready(self) -> None:
        from control_plane.api.metrics import from_database
        from control_plane.outbox.registry import register
        from billing import voids
        from payments import metrics, queries
        from payments.stripe_deliverer import KIND_RECEIVABLE, Collector

        register(KIND_RECEIVABLE, Collector())
        from_database(metrics.refresh)
        voids.register(queries.void_invoices)
