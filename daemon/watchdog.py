"""Tells systemd that this process is healthy: a unit with `WatchdogSec` then starts again what no longer is.

The protocol is sd_notify(3): a datagram `WATCHDOG=1` to the socket in NOTIFY_SOCKET, at least every WATCHDOG_USEC. A
unit without the two, or another supervisor, costs nothing: no thread is started.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping

_SAID = b"WATCHDOG=1"
_SHARE = 3
"""So many signs of life in each interval: one that is lost, or late on a busy machine, does no harm."""
_log = logging.getLogger(__name__)


class Watchdog:
    """Says so from construction until `close`, on a thread of its own, while `healthy` does. That is called there."""

    def __init__(self, healthy: Callable[[], bool], environment: Mapping[str, str] = os.environ) -> None:
        self._healthy = healthy
        self._address = _address(environment)
        self.every_s = _interval_s(environment) / _SHARE
        """Seconds between two signs of life; 0: none is asked for."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if self._address and self.every_s > 0:
            self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            while True:
                if self._healthy():
                    self._say(sending)
                if self._ended.wait(self.every_s):
                    return

    def _say(self, sending: socket.socket) -> None:
        try:
            sending.sendto(_SAID, self._address)
        except OSError as error:
            _log.warning("systemd did not hear that this process is healthy", extra={"error": str(error)})


def _address(environment: Mapping[str, str]) -> str:
    """A path, or a name of Linux's abstract sockets; empty: nothing listens."""
    given = environment.get("NOTIFY_SOCKET", "")
    return f"\0{given[1:]}" if given.startswith("@") else given


def _interval_s(environment: Mapping[str, str]) -> float:
    """0: no sign of life is asked of this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    given = environment.get("WATCHDOG_USEC", "")
    return int(given) / 1e6 if given.isdigit() else 0.0
