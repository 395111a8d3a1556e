"""The payments app's configuration: what others call of it, and which invoices are void."""

from django.apps import AppConfig


class PaymentsConfig(AppConfig):
    name = "payments"
    label = "payments"

    def ready(self) -> None:
        from billing import voids
        from control_plane.api.metrics import from_database
        from control_plane.outbox.registry import register
        from payments import metrics, queries
        from payments.stripe_deliverer import KIND_RECEIVABLE, Collector
        from payments.tax_asking import KIND_TAX, TaxAsker

        register(KIND_RECEIVABLE, Collector())
        register(KIND_TAX, TaxAsker())
        from_database(metrics.refresh)
        voids.register(taken_back=queries.taken_back, void=queries.void)
