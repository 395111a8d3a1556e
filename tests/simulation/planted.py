"""Plants every bug of the table and lets its finders look: `python tests/simulation/planted.py [--only NAME]`.

Each finder must pass on the product as it is, at the same numbers, and fail with the bug by a promise that it names.
A find by an exception of the program does not count. SEARCH=1 in the environment searches each finder's numbers from 0
on. `found N of M` comes last; exit code 0 only when all are found. `--table` writes the table
of `docs/reliability.md` anew.
"""

import argparse
import multiprocessing
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from data_plane.testkit.invariants import Invariant
from tests.simulation.bug import PlantedBug, planted
from tests.simulation.finders import Finder, Found
from tests.simulation.planted_bugs import BUGS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
LOOK_S_MAX = 400
"""A finder that looks longer than this is ended: it is stuck, or no finder."""


class OutOfTime(KeyboardInterrupt):
    """Ends a look whatever loop it runs in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one finder of one bug."""

    bug: str
    finder: str
    promise: str = ""
    explanation: str = ""
    number: int = -1
    failure: str = ""
    """Why it counts as not found; empty when it was."""
    seconds: float = 0.0


def look(bug: PlantedBug, finder: Finder, *, search: bool, without: bool = True) -> Verdict:
    """Plant the bug, look; then look at the same numbers without it, where asked to."""
    began = time.perf_counter()
    numbers = range(finder.search_tries) if search else range(finder.first, finder.first + finder.tries)
    found: Found | None = None
    number, failure, others = -1, "", ""
    with planted(bug.target, bug.wrong):
        for number in numbers:
            try:
                found = finder.attempt(number)
            except Exception as raised:
                found, others = None, f"; {number} ended by {raised!r:.120}"
            if found is not None and found.promise not in finder.by:
                others = f"; {number} broke {found.promise}: {found.explanation:.120}"
                found = None
            if found is not None:
                break
    if found is None:
        failure = f"nothing at {numbers.start} to {numbers.stop - 1}{others}"
    elif without:
        for again in (number,) if search else numbers[: number - numbers.start + 1]:
            clean = finder.attempt(again)
            if clean is not None:
                failure = f"{again} breaks {clean.promise} without the bug: {clean.explanation:.160}"
                break
    return Verdict(
        bug=bug.name,
        finder=finder.describe(),
        promise="" if found is None else found.promise,
        explanation="" if found is None else found.explanation,
        number=number,
        failure=failure,
        seconds=time.perf_counter() - began,
    )


def _look(place: tuple[int, int]) -> Verdict:
    bug = BUGS[place[0]]
    finder = bug.finders[place[1]]
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(LOOK_S_MAX)
    try:
        return look(bug, finder, search=bool(os.environ.get("SEARCH")))
    except (Exception, OutOfTime) as ending:
        return Verdict(bug=bug.name, finder=finder.describe(), failure=f"ended by {ending!r:.200}")
    finally:
        signal.alarm(0)


def _out_of_time(*_: object) -> None:
    raise OutOfTime(f"no verdict within {LOOK_S_MAX} s")


def before_table(page: str) -> list[str]:
    """The lines of the page before its last table."""
    lines = page.rstrip().splitlines()
    while lines[-1].startswith("|"):
        lines.pop()
    return lines


def table() -> list[str]:
    """The planted bugs as rows of Markdown, by rule."""
    rows = ["| rule | wrong decision | instead of | found by | after |", "|---|---|---|---|---|"]
    for bug in sorted(BUGS, key=lambda bug: int(re.sub(r"\D", "", bug.rule))):
        path, _, name = bug.target.partition(":")
        found = "<br>".join(finder.describe() for finder in bug.finders)
        after = "<br>".join(_effort(finder) for finder in bug.finders)
        rows.append(f"| {bug.rule} | {bug.name} | `{path.rpartition('.')[2]}:{name}` | {found} | {after} |")
    return rows


def _effort(finder: Finder) -> str:
    """How much looking it takes, from number 0 on."""
    if finder.search_tries == 1:
        return "1 run"
    return f"at most {finder.first + finder.tries} runs"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="planted.py", description=__doc__)
    parser.add_argument("--only", help="bugs whose name contains this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="write the table anew and look for nothing")
    options = parser.parse_args(arguments)
    if options.table:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text("\n".join([*before_table(page), *table(), ""]), encoding="utf-8")
        return 0
    chosen = [at for at, bug in enumerate(BUGS) if options.only is None or options.only in bug.name]
    if not chosen:
        parser.error(f"no planted bug's name contains {options.only!r}")
    looks = [(at, which) for at in chosen for which in range(len(BUGS[at].finders))]
    began = time.perf_counter()
    missed: dict[str, None] = {}
    _row("bug", "rule", "replaced", "finder", "broken", "s")
    with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=1) as pool:
        for number, verdict in enumerate(pool.imap(_look, looks), 1):
            bug = next(bug for bug in BUGS if bug.name == verdict.bug)
            broken = "MISSED" if verdict.failure else _brief(verdict.promise)
            at = f"{verdict.finder}, {verdict.number}"
            _row(bug.name, bug.rule, bug.target.partition(":")[2], at, broken, f"{verdict.seconds:.1f}")
            if verdict.failure:
                missed[bug.name] = None
                print(f"    {verdict.failure}", flush=True)
            if sys.stderr.isatty():
                print(f"{number} of {len(looks)}", end="\r", file=sys.stderr, flush=True)
    print(f"{len(looks)} finders looked for {time.perf_counter() - began:.0f} s")
    print(f"found {len(chosen) - len(missed)} of {len(chosen)}")
    return 1 if missed else 0


def _brief(promise: str) -> str:
    """An invariant by its name; the promise of a test is told by the finder."""
    return promise if promise in Invariant.__members__ else "assert"


def _row(bug: str, rule: str, target: str, finder: str, broken: str, seconds: str) -> None:
    print(f"{bug:<55} {rule:<6} {target:<28} {finder:<52} {broken:<7.7} {seconds:>6}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
