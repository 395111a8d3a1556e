"""Makes the plan of a failing seed small: fewer faults, then fewer clients and calmer surroundings, the same invariant.

A smaller plan runs again from its beginning, and is kept if it breaks the invariant that the whole plan broke. Faults
are left out by their number: the nemesis still waits for its moment and draws, and then does nothing. So everything up
to the first fault that is left out happens as before, and one plan is always one run.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from data_plane.testkit.disk import DiskTiming
from data_plane.testkit.forks import run_forked
from data_plane.testkit.network import NetworkSettings
from data_plane.testkit.scenario import Scenario
from data_plane.testkit.seed_result import SeedResult
from data_plane.testkit.store_faults import StoreFaults
from data_plane.testkit.swarm import Plan

RUNS_MAX = 120
WALL_S_MAX = 180.0
RUN_WALL_S_MAX = 120.0
_EVENTS_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The smallest plan that was found, and its run."""

    plan: Plan
    result: SeedResult
    before: SeedResult
    runs: int

    def lines(self) -> list[str]:
        """For people: the seed, why, what is left, and what happened."""
        result, before, plan = self.result, self.before, self.plan
        clients = len(plan.producers) + plan.consumers + plan.sdk_consumers
        lines = [
            f"seed {result.seed} violates {result.violated}: {result.explanation}",
            f"shrunk in {self.runs} runs: {len(result.harms)} of {len(before.harms)} faults, {clients} clients,"
            f" {result.steps} of {before.steps} steps",
            *(f"  {harm}" for harm in result.harms.values()),
            *as_table(result.timeline),
        ]
        return lines


def as_table(timeline: list[str]) -> list[str]:
    """The end of a timeline as a table: time, node, event; runs of the same event of one node stand once."""
    rows: list[tuple[str, str, str]] = []
    repeated = 0
    for line in timeline:
        at, node, kind, *text = line.split(None, 3)
        event = f"{kind} {text[0] if text else ''}".rstrip()
        if kind == "committed" and rows and rows[-1][1] == node and rows[-1][2].startswith("committed"):
            rows[-1], repeated = (at, node, event), repeated + 1
            continue
        rows.append((at, node, event))
    rows = rows[-_EVENTS_MAX:]
    width = max((len(node) for _, node, _ in rows), default=4)
    head = [f"{'virtual s':>12}  {'node':<{width}}  event"]
    return head + [f"{at:>12}  {node:<{width}}  {event}" for at, node, event in rows]


def run_plan(plan: Plan) -> SeedResult:
    """One run of a plan in this process."""
    return Scenario(plan).run()


def shrink(
    plan: Plan,
    failed: SeedResult,
    *,
    run: Callable[[Plan], SeedResult] = run_plan,
    runs_max: int = RUNS_MAX,
    wall_s_max: float = WALL_S_MAX,
) -> Shrunk:
    """The smallest plan found within the bounds that breaks what `failed`, the result of `plan`, broke.

    `run`, a function that can be pickled, runs one plan in a process of its own.
    """
    search = _Search(plan, failed, run, runs_max, time.perf_counter() + wall_s_max)
    search.leave_out_faults()
    search.calm()
    search.leave_out_faults()
    return Shrunk(plan=search.plan, result=search.result, before=failed, runs=search.runs)


class _Search:
    def __init__(
        self,
        plan: Plan,
        failed: SeedResult,
        run: Callable[[Plan], SeedResult],
        runs_max: int,
        until: float,
    ) -> None:
        self._run = run
        self.plan = plan
        self.result = failed
        self.runs = 0
        self._violated = failed.violated
        self._runs_max = runs_max
        self._until = until

    def _try(self, plan: Plan) -> bool:
        """Keep the plan if its run breaks the same invariant."""
        if self.runs >= self._runs_max or time.perf_counter() > self._until:
            return False
        self.runs += 1
        (answer,) = run_forked(self._run, [plan], jobs=1, wall_s_max=RUN_WALL_S_MAX)
        if answer.result is None or answer.result.violated != self._violated:
            return False
        self.plan = plan
        self.result = answer.result
        return True

    def leave_out_faults(self) -> None:
        """All at once, then halves and ever smaller pieces, down to each one alone."""
        size = max(1, len(self.result.harms))
        while True:
            left_out = False
            tried: dict[int, None] = {}
            while piece := [
                number for number in sorted(self.result.harms, reverse=True) if number not in tried
            ][:size]:
                tried.update(dict.fromkeys(piece))
                left_out |= self._try(replace(self.plan, spared=(*self.plan.spared, *piece)))
            if size == 1 and not left_out:
                return
            size = max(1, size // 2)

    def calm(self) -> None:
        """Without each client, and without each unrest of network, disks, store, clocks and schedule."""
        for change in self._calmer():
            self._try(change(self.plan))

    def _calmer(self) -> Iterator[Callable[[Plan], Plan]]:
        yield lambda plan: replace(plan, consumers=0, sdk_consumers=0)
        for number in reversed(range(1, len(self.plan.producers))):
            yield (
                lambda plan, number=number: replace(  # type: ignore[misc]
                    plan, producers=(*plan.producers[:number], *plan.producers[number + 1 :])
                )
            )
        yield lambda plan: replace(plan, network=NetworkSettings())
        yield lambda plan: replace(plan, store=StoreFaults())
        yield lambda plan: replace(plan, disk=DiskTiming(sync_ms=0.5))
        yield lambda plan: replace(plan, put_off_chance=0.0, clock_skew_ms_max=0)
