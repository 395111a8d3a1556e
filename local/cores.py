"""Which cores the processes of a service on this machine run: compiled ones where they are made of the sources as these
are now, else pure Python.

`penstock dev` and the demo run pure Python until compiled cores are there, and let them be made meanwhile, for the next
start.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, MutableMapping
from pathlib import Path

import psutil

from local import guardian
from local.compiled_tree import EVERYTHING, TREES, Tree, with_tree

VARIABLE = "PENSTOCK_CORES"
SAME = "same"
"""Value of the variable that lets processes run the cores of the command that starts them, whatever is compiled."""
COMPILED = "compiled"
PURE = "pure Python"
_LOWEST_PRIORITY = "19"


def choose(environment: MutableMapping[str, str] = os.environ, tree: Tree = EVERYTHING) -> None:
    """Let what is started with this environment run compiled cores, if there are any of these sources."""
    if environment.get(VARIABLE) != SAME and not tree.runs_in(environment) and tree.is_fresh():
        environment.update(with_tree(environment, tree))


def inherited() -> dict[str, str]:
    """What an environment that is not this process's own must hold for its process to run the same cores."""
    return {name: os.environ[name] for name in (*EVERYTHING.variables, VARIABLE) if name in os.environ}


def make_for_later(tell: Callable[[str], None], tree: Tree = EVERYTHING) -> subprocess.Popen[bytes] | None:
    """Say which cores run what is started now. If that is pure Python, begin to compile in the background, with what
    other processes leave of the processors: it ends with this process if others do (`local.guardian`).
    """
    if os.environ.get(VARIABLE) == SAME:
        return None
    if tree.runs_in(os.environ):
        tell(f"Cores: {COMPILED}.")
        return None
    if missing := _missing():
        tell(f"Cores: {PURE}. Compiled ones need what is not here: {missing}.")
        return None
    tree.work.mkdir(parents=True, exist_ok=True)
    output = tree.work / "output.log"
    with output.open("wb") as opened:
        compiling = subprocess.Popen(
            ["nice", "-n", _LOWEST_PRIORITY, sys.executable, str(tree.compiler)],
            stdin=subprocess.DEVNULL,
            stdout=opened,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **guardian.mark()},
        )
    tell(f"Cores: {PURE}. Compiled ones are made in the background for the next start: {output}")
    return compiling


def _missing() -> str:
    """What compiling needs and this machine has not, with commas; empty: nothing."""
    parts = {
        "gcc": shutil.which("gcc") is not None,
        "Python's headers": (Path(sysconfig.get_paths()["include"]) / "Python.h").exists(),
        "mypy": importlib.util.find_spec("mypyc") is not None,
        "setuptools": importlib.util.find_spec("setuptools") is not None,
        "ninja": Path(sys.executable).with_name("ninja").exists(),
    }
    return ", ".join(name for name, there in parts.items() if not there)


def cores_of(process: psutil.Process) -> str | None:
    """What a process of the service runs; None if it is gone, or not ours to look at."""
    try:
        environment = process.environ()
    except psutil.Error:
        return None
    return COMPILED if any(tree.runs_in(environment) for tree in TREES) else PURE
