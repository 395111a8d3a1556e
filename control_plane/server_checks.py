"""Whether PostgreSQL and Redis can be called as the settings say; if not, why, in one line, counted by reason."""

import logging
from collections.abc import Iterator
from urllib.parse import unquote

from prometheus_client import Counter

from control_plane.config import Config
from daemon import server_tls
from daemon.certificates import utc_now
from daemon.server_tls import ServerTls
from daemon.tls_probe import Failure, Protocol, TlsFiles, failure

TIMEOUT_S = 5.0
_PORTS = {Protocol.POSTGRESQL: 5432, Protocol.REDIS: 6379}
failures = Counter(
    "penstock_server_check_failures",
    "Number of checks that found PostgreSQL or Redis not to be called as the settings say, by setting and reason.",
    ["setting", "reason"],
    registry=None,
)
"""The web process registers it: this module is also of processes that start before Django is set up."""
_log = logging.getLogger(__name__)


def database_failure(config: Config) -> str | None:
    """Why the database cannot be called, in one line; None when it can, and for one that is a file."""
    if not config.database_url.startswith("postgresql:"):
        return None
    authority = config.database_url.partition("://")[2].rpartition("@")[0]
    user = unquote(authority.partition(":")[0])
    return _first_of("database_url", config.database_url, Protocol.POSTGRESQL, config.database_tls, user)


def transport_failure(config: Config) -> str | None:
    """Why Redis cannot be called, in one line; None when it can, and where there is none."""
    if config.celery_broker_url.partition(":")[0] not in (server_tls.REDIS, server_tls.REDIS_OVER_TLS):
        return None
    return _first_of("celery_broker_url", config.celery_broker_url, Protocol.REDIS, config.redis_tls, "")


def log_failures(config: Config) -> None:
    """A process that starts says what it cannot call, and starts: a server may come later."""
    for said in (database_failure(config), transport_failure(config)):
        if said is not None:
            _log.error("a server cannot be called", extra={"reason": said})


def _first_of(name: str, url: str, protocol: Protocol, tls: ServerTls | None, user: str) -> str | None:
    """Of several servers one that answers is enough."""
    found = None
    for seen in _each(url, protocol, tls, user):
        if seen is None:
            return None
        found = found or seen
    if found is None:
        return None
    failures.labels(name, found.reason).inc()
    return f"{name}: {found.message}"


def _each(url: str, protocol: Protocol, tls: ServerTls | None, user: str) -> Iterator[Failure | None]:
    files = None
    if tls is not None:
        files = TlsFiles(ca_file=tls.ca_file, certificate_file=tls.certificate_file, key_file=tls.key_file)
    for host, port in server_tls.addresses_of(url):
        yield failure(
            host,
            port or _PORTS[protocol],
            protocol,
            files,
            user=user,
            timeout_s=TIMEOUT_S,
            now=utc_now(),
        )
