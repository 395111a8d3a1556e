"""Lines of the log that are written within the client's core, under its lock."""

import contextlib
import logging


def warn(log: logging.Logger, text: str, *values: object) -> None:
    """Write a warning. A handler of the application that fails, as one does that calls the same client, changes nothing
    in the core: that line is lost, and nothing else.
    """
    with contextlib.suppress(Exception):
        log.warning(text, *values)
