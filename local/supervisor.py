"""What `penstock dev up --detach` leaves behind: `python -m local.supervisor --data DIR`, until nothing is
wanted of the directory any more.
"""

import argparse
import logging
import signal
import time
from pathlib import Path

from daemon import logs
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
    supervisor = Supervisor(DevService(DataDirectory(chosen.data)), _log.info)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while supervisor.look(time.monotonic()):
        time.sleep(WATCH_S)


if __name__ == "__main__":
    main()
