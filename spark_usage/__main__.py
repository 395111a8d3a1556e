"""One round by hand: `python -m spark_usage once`."""

import argparse
import json
import sys
from pathlib import Path

from daemon.data_set_store import StoreUnavailable
from penstock.cli.exit_codes import ProcessEnd
from penstock.contract.errors import ConfigurationError, PenstockError
from spark_usage import configuration, datasets
from spark_usage.cluster import ClusterLost
from spark_usage.lease import Unavailable, hold_within, lease_of
from spark_usage.manifest import Catalog, CheckFailed
from spark_usage.pipeline import NotYet, Pipeline
from spark_usage.states import Unrepeatable

_TURN_S = 1.0
"""What another runner may take to end."""


def main() -> int:
    """Exit status 0 = all data sets are current, 1 = a check or a read failed, 2 = wrong use or configuration."""
    parser = argparse.ArgumentParser(prog="python -m spark_usage", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    once = commands.add_parser("once", help="read what is new in __usage and bring every data set up to date")
    once.add_argument(
        "--again", action="store_true", help="recompute even if nothing is new; digests must agree"
    )
    show = commands.add_parser("show", help="the current run of each data set")
    for command in (once, show):
        command.add_argument(
            "--config", type=Path, help=f"the configuration; default: {configuration.VARIABLE}"
        )
    arguments = parser.parse_args()
    try:
        chosen = (
            configuration.read(arguments.config) if arguments.config else configuration.from_environment()
        )
    except ConfigurationError as error:
        print(f"spark_usage: {error}", file=sys.stderr)
        return ProcessEnd.CANNOT_START
    try:
        return _show(chosen) if arguments.command == "show" else _once(chosen, again=arguments.again)
    except (
        NotYet,
        CheckFailed,
        Unrepeatable,
        ClusterLost,
        StoreUnavailable,
        Unavailable,
        PenstockError,
    ) as error:
        print(f"spark_usage: {error}", file=sys.stderr)
        return 1


def _once(chosen: configuration.Configuration, *, again: bool) -> int:
    lease = lease_of(chosen)
    try:
        if not hold_within(lease, _TURN_S):
            print(
                "spark_usage: another runner works on these data sets; stop it, or let it work",
                file=sys.stderr,
            )
            return 1
    except Unavailable as error:
        print(f"spark_usage: {error}", file=sys.stderr)
        return 1
    pipeline = Pipeline(chosen)
    try:
        pipeline.take_over(lease)
        done = pipeline.round_or_again(again=again, progress=lambda line: print(line, flush=True))
    finally:
        pipeline.close()
        lease.release()
    print(
        f"{done.records} records of __usage, {done.rejected} rejected rows, missing: {done.missing or 'none'}; "
        f"{'recomputed' if done.recomputed else 'nothing new'} in {done.seconds:.1f} s"
    )
    return 0


def _show(chosen: configuration.Configuration) -> int:
    catalog = Catalog(chosen.datasets, chosen.open_store())
    for dataset in sorted(datasets.ALL, key=lambda one: one.name):
        manifest = catalog.current(dataset.name)
        if manifest is not None:
            checks = manifest["conservation"]
            print(
                f"{manifest['dataset']:15} {manifest['rows']:8} rows  run {manifest['run_id']}  "
                f"made {manifest['made_at']}  checks {sum(c['holds'] for c in checks)}/{len(checks)}"
            )
            for check in checks:
                print(f"    {check['name']}: {json.dumps(check['numbers'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
