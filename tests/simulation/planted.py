"""Replays every planted bug and says whether it was found: `found N of M` last; exit code 0 only if all were.

`python tests/simulation/planted.py [NAME ...] [--jobs N]`; SEARCH=1 looks through five times as many seeds.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from data_plane.testkit.forks import run_forked
from data_plane.testkit.invariants import Invariant
from tests.simulation.planted_bugs import BUGS
from tests.simulation.planting import Finding, PlantedBug, Seeds, planted

WALL_S_MAX = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Of one bug: what was found with it, what without, and how long that took."""

    bug: str
    with_bug: Finding
    without: Finding
    wall_s: float

    @property
    def found(self) -> bool:
        named = self.with_bug.violated in [invariant.name for invariant in BY_NAME[self.bug].breaks]
        return named and self.with_bug.violated != Invariant.I18.name and not self.without.violated


BY_NAME: dict[str, PlantedBug] = {bug.name: bug for bug in BUGS}


def judge(name: str) -> Verdict:
    """Look with the bug, then at the same place without it."""
    bug = BY_NAME[name]
    finder = bug.finder
    if os.environ.get("SEARCH") and isinstance(finder, Seeds):
        finder = replace(finder, count=5 * finder.count)
    began = time.perf_counter()
    with planted(bug):
        with_bug = finder.look([invariant.name for invariant in bug.breaks])
    without = finder.look((), with_bug.where) if with_bug.violated else Finding()
    return Verdict(bug=name, with_bug=with_bug, without=without, wall_s=time.perf_counter() - began)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these bugs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    names = [bug.name for bug in BUGS if not options.names or bug.name in options.names]
    width = max(len(name) for name in names)
    found = 0
    for answer in run_forked(judge, names, jobs=options.jobs, wall_s_max=WALL_S_MAX):
        bug, verdict = BY_NAME[answer.item], answer.result
        if verdict is None:
            print(f"{bug.name:<{width}}  {bug.rule:<6} MISSED  {answer.ending}", flush=True)
            continue
        found += verdict.found
        print(f"{bug.name:<{width}}  {bug.rule:<6} {_told(verdict)}", flush=True)
    print(f"found {found} of {len(names)}")
    return 0 if found == len(names) else 1


def _told(verdict: Verdict) -> str:
    seen, clean = verdict.with_bug, verdict.without
    if clean.violated:
        return (
            f"MISSED  fails without the bug too: {clean.violated} at {clean.where}: {clean.explanation[:100]}"
        )
    if not verdict.found:
        return f"MISSED  {seen.violated or 'nothing'} {seen.where} {seen.explanation[:150]} ({verdict.wall_s:.0f} s)"
    return f"found   {seen.violated} at {seen.where} ({verdict.wall_s:.0f} s): {seen.explanation[:90]}"


if __name__ == "__main__":
    sys.exit(main())
