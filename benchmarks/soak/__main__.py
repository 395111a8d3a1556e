"""`make soak`: the usage pipeline's runner, one round right after the other, and whether anything of it grows.

Usage: python -m benchmarks.soak [--minutes 30] [--json FILE]. It ends with 0 only if nothing grows beyond what is
tolerated, no round failed, and no process was left. `docs/benchmarks/soak.md` explains the table.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.soak.run import RunnerFailed, Soaked, soak
from benchmarks.soak.samples import QUANTITIES, Quantity, tolerated
from benchmarks.soak.trend import PER_ROUNDS, Point, Trend, Verdict, trend_of
from local import guardian
from penstock.cli.output import print_table, say

MINUTES = 30.0
_CLASSES_SHOWN = 10


def trends_of(soaked: Soaked) -> dict[Quantity, Trend]:
    """The trend of each quantity that was sampled. Raises `ValueError` after too few samples."""
    trends: dict[Quantity, Trend] = {}
    for quantity in QUANTITIES:
        points = [
            Point(rounds=values["rounds"], value=values[quantity.name])
            for values in soaked.samples
            if quantity.name in values
        ]
        if not points:
            continue
        level = points[-1].value
        trends[quantity] = trend_of(
            points, tolerated(quantity, level), fed=quantity.fed, full_after=quantity.full_after
        )
    return trends


def problems_of(soaked: Soaked, trends: dict[Quantity, Trend]) -> list[str]:
    """Why the run did not pass; empty when it did."""
    problems = [
        f"{quantity.name} grows by {trend.slope.value:.3g} {quantity.unit} in {PER_ROUNDS:,} rounds, "
        f"{trend.tolerated:.3g} tolerated"
        for quantity, trend in trends.items()
        if trend.verdict is Verdict.GROWS
    ]
    if soaked.failed_rounds:
        problems.append(f"{soaked.failed_rounds} rounds failed")
    if soaked.left:
        problems.append(f"left after the runner's end: {', '.join(soaked.left)}")
    return problems


def show(soaked: Soaked, trends: dict[Quantity, Trend], problems: list[str]) -> None:
    """The table and the verdict, for a person."""
    rows = [
        (
            quantity.name,
            quantity.unit,
            f"{trend.warm:,.4g}",
            f"{trend.end:,.4g}",
            f"{trend.slope.value:+,.3g} ± {trend.slope.noise:,.2g}",
            f"{trend.late.value:+,.3g} ± {trend.late.noise:,.2g}",
            "" if quantity.fed else f"{trend.tolerated:,.3g}",
            trend.verdict.value,
        )
        for quantity, trend in trends.items()
    ]
    columns = (
        "quantity", "unit", "warm", "end", f"in {PER_ROUNDS:,} rounds", "last half", "tolerated", "verdict"
    )  # fmt: skip
    print_table(columns, rows)
    rate = soaked.rounds / soaked.seconds * 60
    say(
        f"{soaked.rounds:,} rounds in {soaked.seconds / 60:.1f} minutes ({rate:.1f} a minute), "
        f"{soaked.readings:,} readings, {soaked.failed_rounds} rounds failed."
    )
    if soaked.warm is not None and soaked.end is not None:
        say(
            f"Java's objects in use: {soaked.warm.mib:.1f} MiB after {soaked.warm_rounds:,} rounds, "
            f"{soaked.end.mib:.1f} MiB at the end. Classes that grew the most:"
        )
        for name, size, count in soaked.end.growth_since(soaked.warm, _CLASSES_SHOWN):
            say(f"  {size / 2**10:+10,.0f} KiB {count:+10,} objects  {name}")
    for problem in problems:
        say(f"Not passed: {problem}.")
    unclear = [quantity.name for quantity, trend in trends.items() if trend.verdict is Verdict.UNCLEAR]
    if unclear:
        say(f"Too noisy to say; run longer: {', '.join(unclear)}.")
    if not problems:
        say("Nothing grows beyond what is tolerated.")


def as_json(soaked: Soaked, trends: dict[Quantity, Trend], problems: list[str]) -> str:
    """The same for a program, with every sample: one object."""
    objects: dict[str, Any] = {}
    if soaked.warm is not None and soaked.end is not None:
        objects = {
            "warm_rounds": soaked.warm_rounds,
            "warm_mib": soaked.warm.mib,
            "end_mib": soaked.end.mib,
            "grew": [
                {"class": name, "bytes": size, "objects": count}
                for name, size, count in soaked.end.growth_since(soaked.warm, _CLASSES_SHOWN)
            ],
        }
    return json.dumps(
        {
            "rounds": soaked.rounds,
            "seconds": round(soaked.seconds, 1),
            "failed_rounds": soaked.failed_rounds,
            "readings": soaked.readings,
            "quantities": {
                quantity.name: {
                    "unit": quantity.unit,
                    "warm": trend.warm,
                    "end": trend.end,
                    "slope": trend.slope.value,
                    "slope_noise": trend.slope.noise,
                    "late_slope": trend.late.value,
                    "late_slope_noise": trend.late.noise,
                    "tolerated": trend.tolerated,
                    "verdict": trend.verdict.value,
                }
                for quantity, trend in trends.items()
            },
            "java_objects": objects,
            "problems": problems,
            "samples": soaked.samples,
        },
        indent=1,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything here too")
    parser.add_argument("--folder", type=Path, default=Path("var"))
    parser.add_argument(
        "--conf", nargs="*", default=[], metavar="NAME=VALUE", help="settings of Spark beside ours"
    )
    parser.add_argument("--java", default="", metavar="OPTIONS", help="options of Java beside ours")
    chosen = parser.parse_args()
    guardian.guard()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=chosen.folder, prefix="soak-"))
    try:
        soaked = soak(folder, chosen.minutes, dict(pair.split("=", 1) for pair in chosen.conf), chosen.java)
    except RunnerFailed as error:
        print(f"soak: {error}; kept: {folder}", file=sys.stderr)
        return 1
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(soaked.samples), encoding="utf-8")
    shutil.rmtree(folder)
    try:
        trends = trends_of(soaked)
    except ValueError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 1
    problems = problems_of(soaked, trends)
    show(soaked, trends, problems)
    if chosen.json is not None:
        chosen.json.write_text(as_json(soaked, trends, problems) + "\n", encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
