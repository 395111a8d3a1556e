"""Runs seeds: `python -m data_plane.testkit.run --seed 7 [--shrink]` or `--seeds 200 [--start N] [--jobs 2] [--json]`.

Each seed runs in a process of its own, so that nothing of one is left in the next. Progress goes to standard error;
the last line of standard output is the summary. Exit code 0: every invariant held and, of 500 seeds or more, no
combination of faults x steps stayed at zero; of 30 or more, no activity. `--shrink` makes the first failure small
before it is shown.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from data_plane.testkit.activities import Activity
from data_plane.testkit.faults import ReachedTable
from data_plane.testkit.forks import run_forked
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.seed_result import SeedResult
from data_plane.testkit.shrink import shrink
from data_plane.testkit.store_faults import StoreFaultKind
from data_plane.testkit.swarm import draw_plan

_TIMELINE_LINES = 60
REACHED_FROM_SEEDS = 500
"""Of so many seeds each combination must have been reached, and each fault of the metadata store."""
ACTIVITIES_FROM_SEEDS = 30
"""Of so many seeds each activity must really have been done."""
SEED_WALL_S_MAX = 600.0
"""A seed that takes longer is stuck in one step, which virtual time cannot see."""


def run_seed(seed: int) -> SeedResult:
    """One seed in this process. Garbage is not collected meanwhile: finalizers would run whenever it suits them."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        return Scenario(draw_plan(seed)).run()
    finally:
        gc.enable()


def run_seeds(seeds: Sequence[int], jobs: int) -> Iterator[SeedResult]:
    """Results as they come, each seed in a fresh process."""
    for answer in run_forked(run_seed, seeds, jobs=jobs, wall_s_max=SEED_WALL_S_MAX):
        yield answer.result or SeedResult(
            seed=answer.item, violated=Invariant.I18.name, explanation=answer.ending
        )


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    seeds = (
        [options.seed]
        if options.seed is not None
        else list(range(options.start, options.start + options.seeds))
    )
    if options.trace_hash:
        for seed in seeds:
            print(f"{seed} {run_seed(seed).trace_hash}")
        return 0
    began = time.perf_counter()
    table, failed, results = ReachedTable(), [], []
    source = map(run_seed, seeds) if len(seeds) == 1 else run_seeds(seeds, options.jobs)
    for number, result in enumerate(source, 1):
        results.append(result)
        table.merge(result.reached)
        if not result.passed:
            failed.append(result)
        if options.json:
            print(json.dumps(asdict(result)))
        else:
            _tell(result, number, len(seeds), verbose=len(seeds) == 1, brief=options.shrink)
    if failed and options.shrink:
        print("\n".join(shrink(draw_plan(failed[0].seed), failed[0]).lines()))
    missing = [str(combination) for combination in table.missing()]
    missing += [kind for kind, count in _store_faults(results).items() if not count]
    if not options.require_reached and len(seeds) < REACHED_FROM_SEEDS:
        missing = []
    if options.require_reached or len(seeds) >= ACTIVITIES_FROM_SEEDS:
        missing += [what for what, count in _activities(results).items() if not count]
    if not options.json:
        _summarize(results, table, wall_s=time.perf_counter() - began, quiet=len(seeds) == 1)
        for combination in missing:
            print(f"never reached: {combination}")
    verdict = (
        "all invariants held" if not failed else f"{len(failed)} FAILED: {[result.seed for result in failed]}"
    )
    print(f"{len(seeds)} seeds, {verdict}{f', {len(missing)} combinations never reached' if missing else ''}")
    return 1 if failed or missing else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m data_plane.testkit.run", description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed, in detail")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", action="store_true", help="make the first failure small")
    parser.add_argument("--json", action="store_true", help="one object a seed")
    parser.add_argument("--trace-hash", action="store_true", help="print only each seed's trace hash")
    parser.add_argument(
        "--require-reached", action="store_true", help="a combination of faults x steps at zero is a failure"
    )
    return parser.parse_args(arguments)


def _tell(result: SeedResult, number: int, of: int, *, verbose: bool, brief: bool) -> None:
    if sys.stderr.isatty() and not verbose:
        print(f"\r{number} of {of}", end="" if number < of else "\n", file=sys.stderr, flush=True)
    if not result.passed:
        if not brief:
            print("\n".join(result.timeline if verbose else result.timeline[-_TIMELINE_LINES:]))
        print(f"seed {result.seed} violates {result.violated}: {result.explanation}")
        print(f"repeat with: python -m data_plane.testkit.run --seed {result.seed}", flush=True)
    if verbose:
        print(
            f"seed {result.seed}: {result.steps} steps, {result.virtual_s:.1f} virtual s, {result.wall_s:.1f} s"
        )
        for name, counts in (
            ("counts", result.counts),
            ("refusals", result.refusals),
            ("activities", result.activities),
            ("branches", result.chances),
        ):
            print(f"  {name}: " + ", ".join(f"{key} {value}" for key, value in counts.items()))
        print(
            f"  faults: {', '.join(result.reached) or 'none'}; not met: {', '.join(result.missed) or 'none'}"
        )
        print(f"  trace hash {result.trace_hash}")


def _store_faults(results: Sequence[SeedResult]) -> dict[str, int]:
    """How often each fault of the metadata store happened in all of them."""
    return {
        kind.value: sum(result.store_faults.get(kind.value, 0) for result in results)
        for kind in StoreFaultKind
    }


def _activities(results: Sequence[SeedResult]) -> dict[str, int]:
    """How much of each activity there was in all of them."""
    return {what.value: sum(result.activities.get(what.value, 0) for result in results) for what in Activity}


def _summarize(results: list[SeedResult], table: ReachedTable, *, wall_s: float, quiet: bool) -> None:
    if quiet:
        return
    print("\n".join(table.lines()))
    print("metadata store: " + ", ".join(f"{kind} {count}" for kind, count in _store_faults(results).items()))
    print("activities: " + ", ".join(f"{what} {count}" for what, count in _activities(results).items()))
    steps = sum(result.steps for result in results)
    virtual_s = sum(result.virtual_s for result in results)
    print(f"{steps} steps, {virtual_s:.0f} virtual s in {wall_s:.0f} s: {steps / wall_s:.0f} steps a second")


if __name__ == "__main__":
    sys.exit(main())
