"""The logs of web application, worker and commands: as every process logs, without what only repeats itself."""

import logging

from process import logs

_CHATTY = ("celery.app.trace", "celery.beat", "celery.worker.strategy")
"""They tell every task three times, several a second; a task that fails is a warning or worse."""


def set_up(process: str) -> None:
    """`process`: web, worker or command. Repeating it changes nothing."""
    logs.set_up(process)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    # Refusals are answers, not events of the service.
    logging.getLogger("django.request").setLevel(logging.ERROR)
    logging.getLogger("django.security.DisallowedHost").setLevel(logging.CRITICAL)
