"""The logs of web application, worker and commands: like those of every process, without lines that only repeat."""

import logging

from daemon import logs

_CHATTY = ("celery.app.trace", "celery.beat", "celery.worker.strategy")
"""They log every task three times, several times a second. A task that fails is a warning or worse."""


def set_up(process: str) -> None:
    """`process` is web, worker or command. A second call changes nothing."""
    logs.set_up(process)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    # Refusals are answers, not events of the service.
    logging.getLogger("django.request").setLevel(logging.ERROR)
    logging.getLogger("django.security.DisallowedHost").setLevel(logging.CRITICAL)
