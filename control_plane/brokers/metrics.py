"""The gauge of calls to the brokers at /metrics."""

from prometheus_client import Gauge

from control_plane.api.metrics import registry
from control_plane.brokers import client as brokers

_calls = Gauge(
    "penstock_broker_calls",
    "Number of calls of this process to the brokers' Admin service.",
    ["call"],
    registry=registry,
)


def refresh() -> None:
    """Set the gauge. It has no value before the first call."""
    for call, number in brokers.calls().items():
        _calls.labels(call).set(number)
