"""What /metrics adds of the brokers: how often this process has called them."""

from prometheus_client import Gauge

from control_plane.api.metrics import registry
from control_plane.brokers import client as brokers

_calls = Gauge(
    "penstock_broker_calls",
    "Calls of this process to the brokers' Admin service",
    ["call"],
    registry=registry,
)


def refresh() -> None:
    """As it is now; none before the first call."""
    for call, number in brokers.calls().items():
        _calls.labels(call).set(number)
