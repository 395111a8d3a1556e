"""Wakes the usage pipeline for bills: what a period's end was read at is billed once a round has covered it."""

import logging

from control_plane import config
from daemon.data_set_store import StoreUnavailable

_log = logging.getLogger(__name__)


def wake() -> None:
    """Ask the pipeline for a round. One that cannot be asked begins at the pipeline's own interval instead."""
    try:
        config.current().data_set_store.wake()
    except StoreUnavailable as error:
        _log.warning("the usage pipeline was not woken", extra={"error": str(error)})
