"""Structured logs: one JSON object a line on standard error, with the id of the request that caused it.

What lets somebody in is never in a line, wherever it came from: an address, a message, the trace of an exception.
"""

import json
import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

request_id: ContextVar[str] = ContextVar("request_id", default="")

_SECRET = re.compile(r"(ps[a-z]_|penstock_[a-z0-9]{1,12}_[0-9A-Za-z]{12}_)[0-9A-Za-z]{8,}")
"""Tokens (`tenants.tokens`) and API keys; what stands before the random part may be shown."""
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
        return without_secrets(json.dumps(line, default=str))


def without_secrets(text: str) -> str:
    """The text with `…` for the secret part of every token and key in it."""
    return _SECRET.sub(r"\1…", text)


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
