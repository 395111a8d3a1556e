"""`make cluster`: a whole service over three zones, the demo's load through it, and a table of what it came to.

Usage: python -m hosts [--flights N] [--seconds S] [--folder DIR]. Exit code: 0 all agrees, 1 something does not, 2 it
could not be run, 130 interrupted.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from demo.load import Load
from demo.stages import Stages
from hosts.commands import CommandFailed
from hosts.isolation import go_inside
from hosts.readiness import NotReady
from hosts.service import Service
from hosts.switch import Switch
from hosts.tables import print_load, print_processes
from penstock.cli.output import say
from penstock.contract.errors import PenstockError
from penstock.profiles import CA_FILE

_OWN_MARK = "penstock-cluster"


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    try:
        go_inside("hosts", arguments)
        folder = _cleared(options.folder.absolute())
        service = Service(folder, Switch())
    except CommandFailed as failed:
        print(f"cluster: {failed}", file=sys.stderr)
        return 2
    status = 2
    try:
        status = _run(service, folder, options)
    except (CommandFailed, NotReady, TimeoutError) as failed:
        print(f"cluster: {failed}", file=sys.stderr)
    except PenstockError as failed:
        print(f"cluster: {failed.message} [{failed.code.name}]\n  {failed.remedy}", file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 130
    finally:
        say("Stopping everything")
        late, left = service.end(), service.running()
        say(
            f"Killed, since it did not end in time: {', '.join(late)}"
            if late
            else "Everything ended by itself."
        )
        if left:
            say(f"Still there: {', '.join(left)}")
    return status or bool(left)


def _run(service: Service, folder: Path, options: argparse.Namespace) -> int:
    os.environ[CA_FILE] = str(service.settings.ca_file)
    stages = Stages()
    load = Load(folder, options.seconds, stages)
    with load.producers(options.flights) as producers:
        with stages.stage("cluster", "Starting the cluster") as bar:
            service.start(bar.to)
        print_processes(service)
        tenants = load.sign_up(producers, service)
        loaded = load.run(producers, service, tenants)
    print_load(loaded.summary)
    for line in loaded.disagreements:
        say(f"Does not agree: {line}")
    say("All agrees." if not loaded.disagreements else f"{len(loaded.disagreements)} things do not agree.")
    return 1 if loaded.disagreements else 0


def _cleared(folder: Path) -> Path:
    """An empty folder; only one of an earlier run is emptied. Raises `CommandFailed`."""
    mark = folder / _OWN_MARK
    if folder.exists() and not mark.exists() and any(folder.iterdir()):
        raise CommandFailed(["ls", str(folder)], "holds something else; name another folder with --folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mark.touch()
    return folder


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hosts", description=__doc__)
    parser.add_argument("--flights", type=int, default=50_000, help="how many messages")
    parser.add_argument("--seconds", type=float, default=45.0, help="producing takes this at least")
    parser.add_argument(
        "--folder", type=Path, default=Path("var/cluster"), help="where everything of it is kept"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
