"""The gauge of the certificates' ends at /metrics, for each file that this process's configuration names."""

import logging
import math
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from prometheus_client import Gauge

from control_plane import config
from control_plane.api.metrics import registry
from daemon import certificates
from daemon.identity_metrics import EXPIRES, EXPIRES_SAID
from penstock.contract.errors import ConfigurationError

_expires = Gauge(
    EXPIRES,
    EXPIRES_SAID,
    ["certificate"],
    registry=registry,
)
_log = logging.getLogger(__name__)


def refresh() -> None:
    """Read the files again and set the gauge."""
    now = certificates.utc_now()
    for setting, file, end_of in _files(config.current()):
        try:
            left_s = (end_of(file) - now).total_seconds()
        except ConfigurationError as error:
            _log.warning("a certificate cannot be read", extra={"setting": setting, "error": str(error)})
            left_s = math.nan
        _expires.labels(setting).set(left_s)


def _files(settings: config.Config) -> Iterator[tuple[str, Path, Callable[[Path], datetime]]]:
    """Each file of certificates by its setting, and what reads its end."""
    for name in ("identity", "database_tls", "redis_tls"):
        tls = getattr(settings, name)
        if tls is None:
            continue
        yield f"{name}.ca_file", tls.ca_file, certificates.end_of_cas
        if tls.certificate_file is not None:
            yield f"{name}.certificate_file", tls.certificate_file, certificates.end_of_chain
