"""Structured logs: one JSON object a line on standard error, with the id of the request that caused it."""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

request_id: ContextVar[str] = ContextVar("request_id", default="")

_CHATTY = ("celery.app.trace", "celery.beat", "celery.worker.strategy")
"""They tell every task three times, several a second; a task that fails is a warning or worse."""
_OWN = frozenset(vars(logging.makeLogRecord({})))


class JsonLines(logging.Formatter):
    """Time, level, logger, message, request id, what was given as `extra`, and the trace of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id.get():
            line["request_id"] = request_id.get()
        for name, value in vars(record).items():
            if name not in _OWN and name not in ("message", "asctime", "data", "request"):
                line[name] = value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up(level: int = logging.INFO) -> None:
    """Send everything to standard error in this form. Repeating it changes nothing."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    # Refusals are answers, not events of the service.
    logging.getLogger("django.request").setLevel(logging.ERROR)
    logging.getLogger("django.security.DisallowedHost").setLevel(logging.CRITICAL)
