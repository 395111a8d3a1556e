"""What `penstock dev up --detach` leaves behind: `python -m local.supervisor --data DIR`, until nothing is
wanted of the directory any more. When it is killed, `local.keeper` starts it again. Of two that were started by two
commands at once, one ends at once.
"""

import argparse
import logging
import signal
import sys
import time
from pathlib import Path

from daemon import logs
from local import supervision
from local.keeper import Keeper
from local.layout import DataDirectory
from local.service import DevService
from local.supervision import WATCH_S, Supervisor

_log = logging.getLogger("penstock.supervisor")


def main() -> None:
    """SIGTERM ends it at any moment; what it started goes on."""
    parser = argparse.ArgumentParser(prog="python -m local.supervisor", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    chosen = parser.parse_args()
    logs.set_up("supervisor")
    directory = DataDirectory(chosen.data)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with directory.supervising() as alone:
        if alone:
            _supervise(directory)
        else:
            _log.info("Another process supervises this service already.")


def _supervise(directory: DataDirectory) -> None:
    supervisor = Supervisor(DevService(directory), _log.info)
    keeper = Keeper(supervision.command(directory))
    try:
        keeper.look()
        while supervisor.look(time.monotonic()):
            time.sleep(WATCH_S)
            keeper.look()
    finally:
        keeper.release()


if __name__ == "__main__":
    main()
