"""How every process of the service logs: one JSON object a line on standard error, with one set of field names.

`docs/guides/running-it.md` lists the fields. A secret is never in a line, wherever it came from: an address, a
message, the trace of an exception.
"""

import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

from pythonjsonlogger.core import RESERVED_ATTRS, LogData
from pythonjsonlogger.json import JsonFormatter

from penstock.contract.api_keys import PUBLIC_PART

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Of the request that is being answered; it stands in every line that is logged meanwhile."""

_SECRET = re.compile(rf"(ps[a-z]_|{PUBLIC_PART})[0-9A-Za-z]{{8,}}")
"""Tokens (`tenants.tokens`) and API keys; what stands before the random part may be shown."""
_FIELDS = {
    "asctime": "time",
    "levelname": "level",
    "name": "logger",
    "message": "message",
    "exc_info": "exception",
    "stack_info": "stack",
}
"""The record's attributes, and how a line names them."""
_LEFT_OUT = ("data", "request")
"""Celery and Django attach whole tasks and requests."""


class JsonLines(JsonFormatter):
    """Time (UTC), level, logger, message, process, what is the same in every line of it (`fixed`), and each extra field
    by its name.
    """

    def __init__(self, process: str, **fixed: str | int) -> None:
        super().__init__(
            list(_FIELDS)[:4],
            rename_fields=_FIELDS,
            static_fields={"process": process, **fixed},
            reserved_attrs=[*RESERVED_ATTRS, *_LEFT_OUT],
            # The library would write every field of a dataclass, also those that its repr hides.
            json_default=str,
        )

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        stamp = datetime.fromtimestamp(record.created, UTC)
        return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def process_log_record(self, log_data: LogData) -> LogData:
        log_data["level"] = log_data["level"].lower()
        if request_id.get():
            log_data["request_id"] = request_id.get()
        return log_data


def without_secrets(text: str) -> str:
    """The text with `…` for the secret part of every token and key in it."""
    return _SECRET.sub(r"\1…", text)


def set_up(process: str, *, level: str = "info", **fixed: str | int) -> None:
    """Send everything that this process logs to standard error in this form. Repeating it changes nothing."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(process, **fixed))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
