"""Compiled cores run only where they are of the sources as these are now."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from local.compiled_tree import Tree, checked, stale, with_tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A tree of a small checkout, which was just made."""
    made = Tree(name="compiled", packages=("penstock",), optimisation=2, root=tmp_path)
    texts = {
        "penstock/__init__.py": "",
        "penstock/rules/rating.py": "PRICE = 1\n",
        "penstock/rules/rating.pyi": "PRICE: int\n",
        "packaging/compile.py": "1\n",
        "packaging/loader.c": "2\n",
        "packaging/mypyc.ini": "3\n",
    }
    for name, text in texts.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    made.folder.mkdir(parents=True)
    made.stamp.write_text(made.stamp_of(made.source_digest()))
    return made


def edit(root: Path) -> None:
    (root / "penstock/rules/rating.py").write_text("PRICE = 2\n")


def change_a_stub(root: Path) -> None:
    (root / "penstock/rules/rating.pyi").write_text("PRICE: float\n")


def add(root: Path) -> None:
    (root / "penstock/rules/terms.py").write_text("")


def rename(root: Path) -> None:
    (root / "penstock/rules/rating.py").rename(root / "penstock/rules/prices.py")


def change_the_loader(root: Path) -> None:
    (root / "packaging/loader.c").write_text("4\n")


def begin_to_make_it(root: Path) -> None:
    (root / "build/compiled/compiled-from").unlink()


CHANGES = [edit, change_a_stub, add, rename, change_the_loader, begin_to_make_it]


def test_a_tree_is_fresh_until_something_changes(tree: Tree) -> None:
    assert tree.is_fresh()
    (tree.root / "penstock/notes.txt").write_text("no source")
    assert tree.is_fresh()


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_source_makes_a_tree_stale(tree: Tree, change: Callable[[Path], None]) -> None:
    change(tree.root)
    assert not tree.is_fresh()


def test_a_tree_of_another_optimisation_is_another_one(tree: Tree) -> None:
    assert not replace(tree, optimisation=0).is_fresh()


def test_a_process_finds_the_tree_first_and_then_what_it_found_before(tree: Tree) -> None:
    environment = with_tree({"PYTHONPATH": "/else", "HOME": "/home"}, tree)
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(tree.folder), "/else"]
    assert environment["HOME"] == "/home"
    assert environment["PYTHONSAFEPATH"] == "1"
    assert tree.runs_in(environment)
    assert not tree.runs_in({"PYTHONPATH": f"/else{os.pathsep}{tree.folder}"})


@pytest.mark.parametrize("before", [{}, {"PYTHONPATH": "/else"}])
def test_a_process_that_starts_after_an_edit_runs_pure_python(tree: Tree, before: dict[str, str]) -> None:
    environment = with_tree(before, tree)
    assert checked(environment, [tree]) == environment
    assert stale(environment, [tree]) is None
    edit(tree.root)
    assert stale(environment, [tree]) is tree
    assert stale(before, [tree]) is None
    assert checked(environment, [tree]) == before
    assert checked(before, [tree]) == before
