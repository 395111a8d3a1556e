"""Serves the web application on the configured address until SIGTERM, and then finishes running requests."""

import gc
import logging
import os
import resource
import signal
import sys
from typing import NoReturn

from control_plane import config, logs
from control_plane.http_server import Server
from daemon import allocator
from daemon.allocator import Option
from daemon.hang_ups import HangUpCollector, HangUps
from daemon.http_listener import HttpListener
from penstock.cli.exit_codes import ProcessEnd
from penstock.contract.errors import ConfigurationError
from penstock.rules.addresses import split_address

DRAIN_S = 10.0
COUNTS_S = 5.0
"""For the last counts of the audit log; a database that is away does not keep the process longer."""
DESCRIPTORS = 4_096
"""Enough for all connections, their files, and the database."""
MAPPED_BYTES = 256 * 1024
"""Larger pieces, such as messages, have pages of their own, which go back to the kernel when they are freed. Otherwise
glibc keeps such space as soon as one was freed, in an arena for each of the threads.
"""
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
        _cannot_listen("listen", settings.listen, error)
    try:
        operators = _listen_for_operators(settings.web_metrics_listen, server)
    except OSError as error:
        _cannot_listen("web_metrics_listen", settings.web_metrics_listen, error)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    # Each answer leaves cycles behind: Django's contexts refer to themselves. The collector comes to old ones when
    # there are a fourth more objects than before, and the many of the application itself must not count.
    gc.collect()
    gc.freeze()
    allocator.tell({Option.MMAP_THRESHOLD: MAPPED_BYTES})
    host, _ = split_address(settings.web_metrics_listen)
    _log.info("serving", extra={"address": settings.listen, "metrics": f"{host}:{operators.port}"})
    counts = Writer(tallies())
    counts.start()
    aborted = server.run(DRAIN_S)
    counts.stop(COUNTS_S)
    operators.close()
    _log.log(logging.WARNING if aborted else logging.INFO, "stopped", extra={"requests_aborted": aborted})


def _cannot_listen(setting: str, address: str, error: OSError) -> NoReturn:
    print(f"penstock: {setting}: {address}: {error.strerror or error}", file=sys.stderr)
    sys.exit(ProcessEnd.CANNOT_START)


def _listen_for_operators(address: str, server: Server) -> HttpListener:
    """Serve the metrics, and health beside all that waits in the application. Raises `OSError`."""
    from control_plane.api.metrics import exported, registry

    hang_ups = HangUps("web_metrics")
    registry.register(HangUpCollector(server.hang_ups, hang_ups))
    host, port = split_address(address)
    return HttpListener(
        host,
        port,
        exported,
        hang_ups=hang_ups,
        not_ready=lambda: "stopping" if server.is_stopping else "",
        warnings=server.warnings,
        loop_age_s=lambda: server.loop_age_s,
    )


def _raised_descriptor_limit() -> int:
    """Raise this process's soft limit of descriptors as far as it helps. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= DESCRIPTORS:
        return DESCRIPTORS
    allowed = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed
