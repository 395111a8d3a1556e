"""What runs on compiled cores is what the sources say: every module is native, a seed takes the same steps, and no edit
is left out.
"""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from local.compiled_tree import TREES
from penstock.build import CORES
from tests.architecture.house import ROOT

pytestmark = [pytest.mark.compiled, pytest.mark.slow]

SEEDS = 8


@pytest.fixture
def tree() -> Path:
    """The folder whose cores run here."""
    (folder,) = (tree.folder for tree in TREES if tree.runs_in(os.environ))
    return folder


def native_modules(tree: Path) -> list[str]:
    """The modules that were compiled, without packages, which load with them."""
    return sorted(
        str(path.relative_to(tree)).partition(".")[0].replace("/", ".")
        for package in ("data_plane", "penstock")
        for path in (tree / package).rglob("*.so")
        if not path.name.startswith("__init__.")
    )


def test_every_compiled_module_is_the_one_that_is_imported(tree: Path) -> None:
    assert CORES == "compiled"
    names = native_modules(tree)
    assert {"data_plane.log.journal", "data_plane.replication.leader", "penstock.records.batch"} <= set(names)
    for name in names:
        file = Path(str(import_module(name).__file__))
        assert file.is_relative_to(tree), name
        assert file.suffix == ".so", name


def test_each_compiled_module_loads_first_in_a_process() -> None:
    """Python asks the loader for it; what was imported before, the library has made itself."""
    for name in (
        "penstock.records.batch",
        "penstock.records",
        "data_plane.log.journal",
        "data_plane.node.broker_node",
    ):
        statement = f"import {name} as module; print(module.__name__, module.__spec__.name, module.__file__)"
        ran = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, cwd=ROOT)
        assert ran.returncode == 0, ran.stderr
        *names, file = ran.stdout.split()
        assert names == [name, name]
        assert file.endswith(".so")


def test_what_is_compiled_already_is_not_compiled_again(tree: Path) -> None:
    command = [sys.executable, str(ROOT / "packaging" / "compile.py"), tree.name]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "nothing has changed" in ran.stdout


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
