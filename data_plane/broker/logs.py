"""Structured logs: one JSON object a line on standard error."""

import json
import logging
import sys
import time

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}


class JsonFormatter(logging.Formatter):
    """Time (UTC), level, logger, message, and every extra field by its name."""

    def __init__(self, broker_id: int) -> None:
        super().__init__()
        self._broker_id = broker_id

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "broker": self._broker_id,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logs(broker_id: int, level: str) -> None:
    """Give the root logger this one form. Once a process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(broker_id))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
