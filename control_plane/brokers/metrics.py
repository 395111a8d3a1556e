"""The gauges of calls to the brokers, and of the certificate that they are made with, at /metrics."""

from contextlib import suppress

from prometheus_client import Gauge

from control_plane.api.metrics import registry
from control_plane.brokers import client as brokers
from daemon.identity_metrics import EXPIRES, EXPIRES_SAID
from penstock.contract.errors import ConfigurationError

_calls = Gauge(
    "penstock_broker_calls",
    "Number of calls of this process to the brokers' Admin service.",
    ["call"],
    registry=registry,
)
_expires = Gauge(EXPIRES, EXPIRES_SAID, ["kind"], registry=registry)


def refresh() -> None:
    """Set the gauges. That of calls has no value before the first call."""
    for call, number in brokers.calls().items():
        _calls.labels(call).set(number)
    with suppress(ConfigurationError):  # the calls themselves say so
        for kind, left_s in brokers.identity().ends_s().items():
            _expires.labels(kind).set(left_s)
