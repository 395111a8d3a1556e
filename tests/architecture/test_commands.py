"""The Makefile is the one list of commands, and continuous integration uses it."""

import os
import re
import subprocess

from tests.waiting import PATIENCE_S

from . import house

COMMANDS = [
    "help",
    "setup",
    "dev",
    "demo",
    "check",
    "test",
    "compile",
    "wheel",
    "sim",
    "reconcile",
    "planted",
    "mutants",
    "bench",
    "load",
    "soak",
    "cluster",
    "chaos",
    "fresh",
    "proto",
    "docs",
    "terraform",
]
MAKEFILE = (house.ROOT / "Makefile").read_text(encoding="utf-8")


def test_the_makefile_has_exactly_the_known_commands() -> None:
    assert re.findall(r"^([A-Za-z][\w-]*):", MAKEFILE, flags=re.MULTILINE) == COMMANDS


def test_make_alone_lists_every_command_with_what_it_does() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    listing = subprocess.run(
        ["make"],
        cwd=house.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    ).stdout
    lines = [line.split(maxsplit=2) for line in listing.splitlines()]
    assert [words[1] for words in lines] == COMMANDS
    assert all(words[0] == "make" and len(words[2]) > 10 for words in lines)


def test_continuous_integration_runs_the_same_tests_as_people() -> None:
    script = house.ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    commands = script.read_text(encoding="utf-8")
    assert "make test" in commands and "make terraform" in commands
