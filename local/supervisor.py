"""What `penstock dev up --detach` leaves behind: `python -m local.supervisor --data DIR`, until nothing is
wanted of the directory any more.
"""

import argparse
import signal
import time
from pathlib import Path

from local.layout import DataDirectory
from local.service import DevService
from local.supervision import WATCH_S, Supervisor


def main() -> None:
    """SIGTERM ends it at any moment; what it started goes on."""
    parser = argparse.ArgumentParser(prog="python -m local.supervisor", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    supervisor = Supervisor(DevService(DataDirectory(parser.parse_args().data)), _print)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while supervisor.look(time.monotonic()):
        time.sleep(WATCH_S)


def _print(line: str) -> None:
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), line, flush=True)


if __name__ == "__main__":
    main()
