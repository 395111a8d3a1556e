"""What a process publishes of its certificate and of the handshakes that came to nothing."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from daemon.handshakes import REASONS, RefusedHandshakes
from daemon.tls import OwnIdentity

EXPIRES = "penstock_certificate_expires_seconds"
EXPIRES_SAID = (
    "Seconds from now to the end of the certificate, negative after it, by setting; not a number while the file cannot "
    "be read."
)
REFUSED = "penstock_refused_handshakes"
REFUSED_SAID = (
    "Connections of mutual TLS that came to nothing, by side (the listener, or outgoing) and reason: "
    + ", ".join(REASONS)
    + "."
)


def identity_metrics(identity: OwnIdentity, refused: RefusedHandshakes | None) -> Iterator[Metric]:
    """`refused` None: the process takes no connections of this kind."""
    expires = GaugeMetricFamily(EXPIRES, EXPIRES_SAID, labels=["certificate"])
    for setting, left_s in identity.ends_s().items():
        expires.add_metric([setting], left_s)
    yield expires
    if refused is not None:
        counted = CounterMetricFamily(REFUSED, REFUSED_SAID, labels=["side", "reason"])
        for (side, reason), count in sorted(refused.counts.items()):
            counted.add_metric([side, reason], count)
        yield counted
