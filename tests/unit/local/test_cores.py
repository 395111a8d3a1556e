"""A service runs compiled cores where they are of the present sources, and says which it runs."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from local import cores
from local.compiled_tree import TESTED, Tree, with_tree
from tests.waiting import PATIENCE_S

_PRINTS_ITS_PRIORITY = "import os; print('compiled', os.nice(0))"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A tree that was never made; its compiler prints a line."""
    tree = Tree(name="compiled", packages=("penstock",), optimisation=2, root=tmp_path)
    for name, text in {
        "penstock/terms.py": "",
        "packaging/compile.py": _PRINTS_ITS_PRIORITY,
        "packaging/loader.c": "",
        "packaging/mypyc.ini": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tree


def make(tree: Tree) -> None:
    tree.folder.mkdir(parents=True)
    tree.stamp.write_text(tree.stamp_of(tree.source_digest()))


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores are chosen, as outside of tests."""
    for name in (cores.VARIABLE, "PYTHONPATH", "PYTHONSAFEPATH"):
        monkeypatch.delenv(name, raising=False)


def test_compiled_cores_are_chosen_once_they_are_there_and_left_after_an_edit(tree: Tree) -> None:
    environment: dict[str, str] = {}
    cores.choose(environment, tree)
    assert environment == {}
    make(tree)
    cores.choose(environment, tree)
    assert tree.runs_in(environment)
    (tree.root / "penstock/terms.py").write_text("edited")
    after: dict[str, str] = {}
    cores.choose(after, tree)
    assert after == {}


def test_who_asks_for_the_same_cores_gets_no_others(tree: Tree) -> None:
    make(tree)
    environment = {cores.VARIABLE: cores.SAME}
    cores.choose(environment, tree)
    assert environment == {cores.VARIABLE: cores.SAME}


@pytest.mark.usefixtures("free")
def test_cores_that_are_missing_are_made_in_the_background_and_said_in_one_line(tree: Tree) -> None:
    said: list[str] = []
    compiling = cores.make_for_later(said.append, tree)
    assert compiling is not None
    assert compiling.wait(PATIENCE_S) == 0
    output = tree.work / "output.log"
    assert output.read_text() == "compiled 19\n"
    assert said == [
        f"Cores: pure Python. Compiled ones are made in the background for the next start: {output}"
    ]


@pytest.mark.usefixtures("free")
def test_a_machine_without_a_compiler_stays_on_pure_python_and_says_so(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    assert cores.make_for_later(said.append, tree) is None
    assert said == ["Cores: pure Python. Compiled ones need what is not here: gcc."]


@pytest.mark.usefixtures("free")
def test_a_service_on_compiled_cores_makes_no_others(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tree)
    monkeypatch.setenv("PYTHONPATH", str(tree.folder))
    said: list[str] = []
    assert cores.make_for_later(said.append, tree) is None
    assert said == ["Cores: compiled."]


def test_tests_make_no_cores(tree: Tree) -> None:
    said: list[str] = []
    assert cores.make_for_later(said.append, tree) is None
    assert said == []


@pytest.mark.processes
def test_a_process_tells_its_cores_by_its_environment() -> None:
    pure = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for environment, runs in ((pure, cores.PURE), (with_tree(pure, TESTED), cores.COMPILED)):
        command = [sys.executable, "-c", "print('up', flush=True); input()"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "up\n"
            process = psutil.Process(child.pid)
            assert cores.cores_of(process) == runs
            child.communicate("\n", PATIENCE_S)
        assert cores.cores_of(process) is None
