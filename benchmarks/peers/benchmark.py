"""The comparison: systems in turns, one up at a time, three rounds; the quick form takes one round and fewer loads."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
from rich.console import Console

from benchmarks.figures import Benchmark, Measured
from benchmarks.peers.comparison import Comparison
from benchmarks.peers.kafka import KAFKA
from benchmarks.peers.nats import NATS_SHIPPED, NATS_SYNCED
from benchmarks.peers.penstock_system import PENSTOCK
from benchmarks.peers.system import Kind, PeerAbsent, System
from benchmarks.peers.turn import STEPS, steps_of, take_turn

ROUNDS = 3
KINDS = (PENSTOCK, KAFKA, NATS_SYNCED, NATS_SHIPPED)
CACHE = Path("build/peers")
_START_S = 8
"""About how long servers take to start and to end."""

Made = dict[str, Callable[[Path], System]]


def compare(folder: Path, *, quick: bool) -> list[Measured]:
    """Prints the table; the figure is how many rows Penstock is behind no peer in."""
    comparison = Comparison(
        rows=[row for step in STEPS for row in step.rows],
        systems=[(kind.key, kind.title) for kind in KINDS],
    )
    folder = folder.absolute()  # servers have working folders of their own
    made = _prepared(comparison)
    kinds = [kind for kind in KINDS if kind.key in made]
    turns = [
        (number, kind, fresh)
        for number in range(1 if quick else ROUNDS)
        for kind in kinds
        for fresh in (False, True)
        if steps_of(kind, quick=quick, fresh=fresh) and not (fresh and number)
    ]
    left = sum(_seconds(kind, quick=quick, fresh=fresh) for _, kind, fresh in turns)
    for number, kind, fresh in turns:
        comparison.loads.append(round(os.getloadavg()[0], 1))
        _say(f"round {number + 1} of {1 if quick else ROUNDS}, {kind.title}; about {left / 60:.0f} min left")
        _turn(
            comparison,
            kind,
            made[kind.key],
            folder / f"{number}-{kind.key}-{fresh}",
            quick=quick,
            fresh=fresh,
        )
        left -= _seconds(kind, quick=quick, fresh=fresh)
    _show(comparison, quick=quick)
    won, compared = comparison.never_behind()
    return [
        Measured(
            name="peers_quick" if quick else "peers",
            value=won,
            unit=f"rows of {compared} in which Penstock is behind no peer",
            details=comparison.details(),
        )
    ]


def _prepared(comparison: Comparison) -> Made:
    """What the systems are made by; those that cannot be had are noted, and left out."""
    made: Made = {}
    for kind in KINDS:
        _say(f"{kind.title}: fetching and building what is not there yet")
        try:
            made[kind.key] = kind.prepare(CACHE.absolute())
        except PeerAbsent as absent:
            comparison.absent[kind.key] = str(absent)
            _say(f"{kind.title} is ABSENT, it is not compared: {absent}")
    return made


def _turn(
    comparison: Comparison,
    kind: Kind,
    make: Callable[[Path], System],
    folder: Path,
    *,
    quick: bool,
    fresh: bool,
) -> None:
    """A system that cannot be started is noted as a failure; the others go on."""
    folder.mkdir()
    steps = steps_of(kind, quick=quick, fresh=fresh)
    try:
        readings, failures = take_turn(
            kind, make(folder), folder, steps, lambda what: _say(f"  {kind.title}: {what}")
        )
    except (OSError, RuntimeError, psutil.Error, subprocess.TimeoutExpired) as error:
        readings, failures = {}, [f"{kind.title}: {error}"]
        _say(f"{kind.title}: not measured: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    os.sync()  # what one system has left to write must not slow the next one down
    for row, reading in readings.items():
        comparison.add(row, kind.key, reading)
    comparison.failures += failures


def _show(comparison: Comparison, *, quick: bool) -> None:
    loads = f"{min(comparison.loads):.1f} to {max(comparison.loads):.1f}"
    title = (
        f"{'One round' if quick else f'Medians of {ROUNDS} rounds'}, load average before each turn {loads}"
    )
    console = Console(width=180)
    console.print(comparison.table(title))
    for kind in KINDS:
        absent = comparison.absent.get(kind.key)
        console.print(
            f"{kind.title}: " + (f"ABSENT: {absent}" if absent else f"synced {kind.synced}"), markup=False
        )
    for failure in comparison.failures:
        console.print(f"not measured: {failure}", markup=False)


def _seconds(kind: Kind, *, quick: bool, fresh: bool) -> int:
    return _START_S + sum(step.seconds for step in steps_of(kind, quick=quick, fresh=fresh))


def _all_seconds(*, quick: bool) -> int:
    once = sum(_seconds(kind, quick=quick, fresh=False) for kind in KINDS)
    fresh = 0 if quick else sum(_seconds(kind, quick=quick, fresh=True) for kind in KINDS)
    return once * (1 if quick else ROUNDS) + fresh


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


PEERS = Benchmark(
    figures=("peers",), run=partial(compare, quick=False), seconds=_all_seconds(quick=False), named_only=True
)
PEERS_QUICK = Benchmark(
    figures=("peers_quick",),
    run=partial(compare, quick=True),
    seconds=_all_seconds(quick=True),
    named_only=True,
)
