"""What a broker publishes of its certificates and of the handshakes that came to nothing."""

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from daemon import certificates
from daemon.certificates import FileEnd
from daemon.handshakes import REASONS, RefusedHandshakes
from daemon.tls import OwnIdentity
from penstock.contract.errors import ConfigurationError

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


class CertificateFiles:
    """When files of certificates end, as they were read last: a disk may take its time, which a scrape has not."""

    def __init__(self, files: Mapping[str, FileEnd]) -> None:
        """By setting."""
        self._files = files
        self._ends: dict[str, datetime | None] = {}
        self.look()

    def look(self) -> None:
        """Read them again."""
        self._ends = {setting: _end(file, end_of) for setting, (file, end_of) in self._files.items()}

    def ends_s(self) -> dict[str, float]:
        """Seconds until each ends, by setting; not a number for one that could not be read."""
        now = certificates.utc_now()
        return {
            setting: math.nan if end is None else (end - now).total_seconds()
            for setting, end in self._ends.items()
        }


def identity_metrics(
    identity: OwnIdentity, refused: RefusedHandshakes, files: CertificateFiles
) -> Iterator[Metric]:
    expires = GaugeMetricFamily(EXPIRES, EXPIRES_SAID, labels=["certificate"])
    for setting, left_s in (identity.ends_s() | files.ends_s()).items():
        expires.add_metric([setting], left_s)
    yield expires
    counted = CounterMetricFamily(REFUSED, REFUSED_SAID, labels=["side", "reason"])
    for (side, reason), count in sorted(refused.counts.items()):
        counted.add_metric([side, reason], count)
    yield counted


def _end(file: Path, end_of: Callable[[Path], datetime]) -> datetime | None:
    try:
        return end_of(file)
    except ConfigurationError:
        return None
