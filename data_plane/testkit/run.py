"""Runs seeds: `python -m data_plane.testkit.run --seed 7` or `--seeds 200 [--start N] [--jobs 2] [--json]`.

Each seed runs in a process of its own, so that nothing of one is left in the next. Progress goes to standard error;
the last line of standard output is the summary. Exit code 0: every invariant held and, with --require-reached, no
cell of faults x steps stayed at zero.
"""

import argparse
import gc
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias

from data_plane.testkit.faults import ReachedTable
from data_plane.testkit.invariants import Invariant
from data_plane.testkit.scenario import Scenario, SeedResult
from data_plane.testkit.swarm import draw_plan

_TIMELINE_LINES = 60
SEED_WALL_S_MAX = 600.0
"""A seed that takes longer is stuck in one step, which virtual time cannot see."""


Pipe: TypeAlias = "Connection[Any, Any]"


@dataclass(frozen=True, slots=True)
class _Running:
    seed: int
    process: BaseProcess
    began: float


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
    waiting = list(seeds)[::-1]
    running: dict[Pipe, _Running] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            reader, started = _start(waiting.pop())
            running[reader] = started
        for started in running.values():
            if time.perf_counter() - started.began > SEED_WALL_S_MAX:
                started.process.kill()
        ready = wait(list(running), 1.0)
        for reader in [reader for reader in running if reader in ready]:
            yield _received(reader, running.pop(reader))


def _start(seed: int) -> tuple[Pipe, _Running]:
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_run_and_send, args=(seed, writer))
    process.start()
    writer.close()
    return reader, _Running(seed, process, time.perf_counter())


def _run_and_send(seed: int, writer: Pipe) -> None:
    writer.send(run_seed(seed))


def _received(reader: Pipe, started: _Running) -> SeedResult:
    try:
        result: SeedResult = reader.recv()
    except EOFError:
        started.process.join()
        ending = f"the simulation's process ended with {started.process.exitcode}"
        result = SeedResult(seed=started.seed, violated=Invariant.I18.name, explanation=ending)
    reader.close()
    started.process.join()
    return result


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
            _tell(result, number, len(seeds), verbose=len(seeds) == 1)
    missing = table.missing() if options.require_reached else []
    if not options.json:
        _summarize(results, table, wall_s=time.perf_counter() - began, quiet=len(seeds) == 1)
        for cell in missing:
            print(f"never reached: {cell}")
    verdict = (
        "all invariants held" if not failed else f"{len(failed)} FAILED: {[result.seed for result in failed]}"
    )
    print(f"{len(seeds)} seeds, {verdict}{f', {len(missing)} cells never reached' if missing else ''}")
    return 1 if failed or missing else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m data_plane.testkit.run", description=__doc__)
    parser.add_argument("--seed", type=int, help="one seed, told in detail")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="one object a seed")
    parser.add_argument("--trace-hash", action="store_true", help="print only each seed's trace hash")
    parser.add_argument(
        "--require-reached", action="store_true", help="a cell of faults x steps at zero is a failure"
    )
    return parser.parse_args(arguments)


def _tell(result: SeedResult, number: int, of: int, *, verbose: bool) -> None:
    if sys.stderr.isatty() and not verbose:
        print(f"\r{number} of {of}", end="" if number < of else "\n", file=sys.stderr, flush=True)
    if not result.passed:
        print("\n".join(result.timeline if verbose else result.timeline[-_TIMELINE_LINES:]))
        print(f"seed {result.seed} violates {result.violated}: {result.explanation}")
        print(f"repeat with: python -m data_plane.testkit.run --seed {result.seed}")
    if verbose:
        print(
            f"seed {result.seed}: {result.steps} steps, {result.virtual_s:.1f} virtual s, {result.wall_s:.1f} s"
        )
        for name, counts in (
            ("counts", result.counts),
            ("refusals", result.refusals),
            ("branches", result.chances),
        ):
            print(f"  {name}: " + ", ".join(f"{key} {value}" for key, value in counts.items()))
        print(
            f"  faults: {', '.join(result.reached) or 'none'}; not met: {', '.join(result.missed) or 'none'}"
        )
        print(f"  trace hash {result.trace_hash}")


def _summarize(results: list[SeedResult], table: ReachedTable, *, wall_s: float, quiet: bool) -> None:
    if quiet:
        return
    print("\n".join(table.lines()))
    steps = sum(result.steps for result in results)
    virtual_s = sum(result.virtual_s for result in results)
    print(f"{steps} steps, {virtual_s:.0f} virtual s in {wall_s:.0f} s: {steps / wall_s:.0f} steps a second")


if __name__ == "__main__":
    sys.exit(main())
