"""Serves the web application on the configured address, until SIGTERM; requests at work are finished."""

import logging
import os
import resource
import signal

from control_plane import config, logs
from control_plane.http_server import Server

DRAIN_S = 10.0
DESCRIPTORS = 4_096
"""Enough for all connections, their files, and the database."""
_log = logging.getLogger(__name__)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "control_plane.settings")
    logs.set_up("web")
    from control_plane.wsgi import application

    settings = config.current()
    server = Server(
        application,
        listen=settings.listen,
        trusted_proxies=settings.trusted_networks,
        descriptors=_raised_descriptor_limit(),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    _log.info("serving", extra={"address": settings.listen})
    cut_off = server.run(DRAIN_S)
    _log.log(logging.WARNING if cut_off else logging.INFO, "stopped", extra={"requests_cut_off": cut_off})


def _raised_descriptor_limit() -> int:
    """How many descriptors this process may have, after its soft limit was raised as far as it is of use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= DESCRIPTORS:
        return DESCRIPTORS
    allowed = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


if __name__ == "__main__":
    main()
