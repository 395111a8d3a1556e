"""Serves the web application on the configured address until SIGTERM, and then finishes running requests."""

import logging
import os
import resource
import signal
import sys

from control_plane import config, logs
from control_plane.http_server import Server
from daemon.http_listener import STALL_S
from daemon.watchdog import Watchdog
from penstock.cli.exit_codes import ProcessEnd
from penstock.contract.errors import ConfigurationError

DRAIN_S = 10.0
COUNTS_S = 5.0
"""For the last counts of the audit log; a database that is away does not keep the process longer."""
DESCRIPTORS = 4_096
"""Enough for all connections, their files, and the database."""
_log = logging.getLogger(__name__)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "control_plane.settings")
    logs.set_up("web")
    try:
        settings = config.current()
        from control_plane.wsgi import application
    except ConfigurationError as error:
        print(f"penstock: {error}", file=sys.stderr)
        sys.exit(ProcessEnd.CANNOT_START)
    # It imports models, which need what the application has set up.
    from control_plane import server_checks
    from control_plane.audit.tallies import tallies
    from control_plane.audit.writing import Writer

    server_checks.log_failures(settings)
    try:
        server = Server(
            application,
            listen=settings.listen,
            trusted_proxies=settings.trusted_networks,
            descriptors=_raised_descriptor_limit(),
        )
    except OSError as error:
        print(f"penstock: listen: {settings.listen}: {error.strerror or error}", file=sys.stderr)
        sys.exit(ProcessEnd.CANNOT_START)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    _log.info("serving", extra={"address": settings.listen})
    counts = Writer(tallies())
    counts.start()
    watchdog = Watchdog(lambda: server.loop_age_s < STALL_S)
    aborted = server.run(DRAIN_S)
    watchdog.close()
    counts.stop(COUNTS_S)
    _log.log(logging.WARNING if aborted else logging.INFO, "stopped", extra={"requests_aborted": aborted})


def _raised_descriptor_limit() -> int:
    """Raise this process's soft limit of descriptors as far as it helps. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= DESCRIPTORS:
        return DESCRIPTORS
    allowed = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
