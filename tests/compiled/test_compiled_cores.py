"""What runs on compiled cores is what the sources say: every module is native, and a seed takes the same steps."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from penstock.build import CORES
from tests.architecture.house import ROOT

pytestmark = [pytest.mark.compiled, pytest.mark.slow]

SEEDS = 8
_TREE = ROOT / "build" / "compiled"


def native_modules() -> list[str]:
    """The modules that `make compile` has made, without packages, which load with them."""
    return sorted(
        str(path.relative_to(_TREE)).partition(".")[0].replace("/", ".")
        for package in ("data_plane", "penstock")
        for path in (_TREE / package).rglob("*.so")
        if not path.name.startswith("__init__.")
    )


def test_every_compiled_module_is_the_one_that_is_imported() -> None:
    assert CORES == "compiled"
    found = native_modules()
    assert {"data_plane.log.journal", "data_plane.replication.leader", "penstock.records.batch"} <= set(found)
    for name in found:
        assert Path(str(import_module(name).__file__)).is_relative_to(_TREE), name


def test_seeds_take_the_same_steps_on_compiled_cores_as_on_pure_python() -> None:
    compiled = _courses(dict(os.environ))
    assert compiled == _courses(
        {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    )
    assert len({str(course) for course in compiled.values()}) == SEEDS


def _courses(environment: dict[str, str]) -> dict[int, dict[str, Any]]:
    """By seed: its steps, its virtual time, the branches drawn, faults, refusals and all that was counted. Every
    invariant held. The hash of the trace is left out: it has the names of functions, which mypyc changes.
    """
    command = [sys.executable, "-m", "data_plane.testkit.run", "--seeds", str(SEEDS), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for result in results:
        del result["trace_hash"], result["wall_s"]
        assert result["steps"] > 1_000
    return {result["seed"]: result for result in results}
