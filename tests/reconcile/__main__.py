"""A synthetic quarter with faults, billed as the service bills and compared with an oracle: `make reconcile`.

    python -m tests.reconcile [--seed 1] [--batches 8] [--short]

The last line says by how much all invoices, credit notes and payments differ from what is owed; the exit status is 0
only when it is nothing.
"""

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from unittest import mock

ZONE = "Pacific/Auckland"
"""The machine's: nothing may depend on it."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="reconcile", description="Bill a made-up quarter and compare.")
    parser.add_argument("--seed", type=int, default=1, help="of everything that happens")
    parser.add_argument("--batches", type=int, default=8, help="of a partition on a day, at most")
    parser.add_argument(
        "--short", action="store_true", help="no process is killed, one round of the pipeline"
    )
    chosen = parser.parse_args(arguments)
    os.environ["TZ"] = ZONE
    time.tzset()
    with tempfile.TemporaryDirectory(prefix="penstock-reconcile-") as folder:
        return _run(Path(folder), chosen.seed, chosen.batches, short=chosen.short)


def _run(folder: Path, seed: int, batches: int, *, short: bool) -> int:
    from local import guardian
    from tests import migrated
    from tests.control_plane import configuration

    guardian.guard()
    database = folder / "control.sqlite"
    migrated.put_sqlite(database)
    file = configuration.write(folder, f"sqlite:///{database}")
    (folder / "stripe.key").write_text("sk_test_reconcile\n")
    settings = json.loads(file.read_text())
    settings["payments"] = {"stripe_key_file": str(folder / "stripe.key")}
    file.write_text(json.dumps(settings))
    os.environ["PENSTOCK_CONFIG"] = str(file)
    os.environ["DJANGO_SETTINGS_MODULE"] = "control_plane.settings"

    import django

    django.setup()
    # Faults are meant to be met, and what they log is no part of the report.
    logging.basicConfig(filename=folder / "log", force=True)

    from payments import stripe_adapter
    from tests.reconcile.clock import Clock, in_force
    from tests.reconcile.comparing import compare
    from tests.reconcile.folding import Folds
    from tests.reconcile.quarter import BEGINS
    from tests.reconcile.story import Story, told_by
    from tests.reconcile.stripe_apart import HttpClient, stripe_apart

    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    with ExitStack() as stack:
        stripe = stack.enter_context(stripe_apart())
        clock = Clock(BEGINS)
        folds = Folds(folder)
        stack.callback(folds.end)
        story = Story(
            random=Random(seed),
            folder=folder,
            clock=clock,
            stripe=stripe,
            folds=folds,
            say=say,
            short=short,
            batches=batches,
        )
        stack.enter_context(in_force(clock))
        stack.enter_context(told_by(story))
        stack.enter_context(mock.patch.object(stripe_adapter, "http_client", lambda: HttpClient(stripe)))
        story.run()
        found = compare(story.ledger, stripe.collected_cents())
    usage = story.usage
    say(
        f"{usage.lost} readings lost, {usage.doubled} doubled, {usage.late} late, by {usage.boots} boots of brokers;"
        f" {story.kills} processes of the worker and {story.spark_kills} of Spark killed;"
        f" {found.credit_notes} credit notes"
    )
    for one in (*found.problems, *found.differences):
        print(one)
    print(found.verdict())
    return 0 if found.right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
