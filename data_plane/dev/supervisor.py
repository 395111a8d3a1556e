"""What `penstock dev up --detach` leaves behind: `python -m data_plane.dev.supervisor --data DIR`, until nothing is
wanted of the directory any more.
"""

import argparse
import signal
import time
from pathlib import Path

from data_plane.dev.layout import DataDirectory
from data_plane.dev.service import DevService
from data_plane.dev.supervision import WATCH_S, Supervisor


def main() -> None:
    """SIGTERM ends it at any moment; what it started goes on."""
    parser = argparse.ArgumentParser(prog="python -m data_plane.dev.supervisor", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    supervisor = Supervisor(DevService(DataDirectory(parser.parse_args().data)), _print)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while supervisor.look(time.monotonic()):
        time.sleep(WATCH_S)


def _print(line: str) -> None:
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), line, flush=True)


if __name__ == "__main__":
    main()
