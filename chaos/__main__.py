"""`make chaos`: hurt a cluster for some minutes and judge it, or judge a history again.

Usage: python -m chaos [--minutes N] [--seed N] [--metadata etcd|sqlite] [--plan all|short|rounds] [--history PATH]
       [--folder DIR]. Exit code: 0 everything held, 1 something was violated, 2 it could not be run, 130 interrupted.
"""

import argparse
import asyncio
import faulthandler
import fcntl
import random
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from chaos.faults import Plan, kinds_of
from chaos.history_lines import FILE, history_file
from chaos.judgement import judge, read_history
from chaos.run import Run, Wanted, name_of_run
from chaos.summary import print_kinds, print_verdict
from hosts.commands import CommandFailed
from hosts.isolation import go_inside

_LOCK = "lock"
_HEAVY = ("disks", "probes")
"""What is large: kept of a run that failed until the next one begins."""


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    if options.history is not None:
        return _judge(history_file(options.history))
    try:
        go_inside("chaos", arguments)
    except CommandFailed as failed:
        print(f"chaos: {failed}", file=sys.stderr)
        return 2
    _clear(options.folder)
    folder = options.folder / f"{name_of_run()}-{random.randrange(1 << 16):04x}"
    folder.mkdir(parents=True)
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    with (folder / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = Wanted(
            plan=Plan(options.plan), seconds=options.minutes * 60, seed=seed, etcd=options.metadata == "etcd"
        )
        try:
            run = Run(folder.absolute(), wanted)
            print_kinds(kinds_of(wanted.plan), run.probes.unavailable)
            print(f"seed {seed}; everything of this run is in {folder}", flush=True)
            asyncio.run(run.run())
        except CommandFailed as failed:
            print(f"chaos: {failed}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            return 130
    status = _judge(folder / FILE)
    if status == 0:
        _lighten(folder, *_HEAVY, "hosts", "cluster", "certificates")
    return status


def _judge(path: Path) -> int:
    try:
        record = read_history(path)
    except (OSError, ValueError) as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2
    verdict = judge(record)
    print_verdict(verdict, path)
    return 0 if verdict.passed else 1


def _clear(folder: Path) -> None:
    """Free what runs left that were killed: their processes, mounts and interfaces are gone, their disks are not."""
    for lock in sorted(folder.glob(f"*/{_LOCK}")):
        with lock.open("w") as locked:
            try:
                fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # it goes on
            _lighten(lock.parent, *_HEAVY)


def _lighten(folder: Path, *names: str) -> None:
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults go on")
    parser.add_argument("--seed", type=int, help="fixes the faults and their order")
    parser.add_argument("--metadata", choices=("etcd", "sqlite"), default="etcd")
    parser.add_argument("--plan", choices=[plan.value for plan in Plan], default=Plan.ALL.value)
    parser.add_argument("--history", type=Path, help="judge this history, and run nothing")
    parser.add_argument("--folder", type=Path, default=Path("var/chaos"), help="where runs are kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)  # prints where it is, on request
    sys.exit(main(sys.argv[1:]))
