"""Reads what is remembered of the cluster."""

from control_plane.brokers.models import KnownBroker


def broker_addresses() -> list[str]:
    """host:port of the internal listeners of all brokers that were there when they were last asked."""
    return list(KnownBroker.objects.order_by("broker").values_list("internal_address", flat=True))
