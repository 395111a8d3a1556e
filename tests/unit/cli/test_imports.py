"""A command line imports what it needs: the version needs nothing, and a command pays for no other."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import penstock
from penstock.cli.__main__ import COMMANDS, cli
from penstock.cli.invocation import Invocation
from penstock.records.codec import codec_name, extension_codec

ROOT = Path(__file__).parents[3]
HEAVY = (
    "aiokafka", "asyncio", "google.protobuf", "grpc", "http.client", "importlib.metadata", "msgspec",
    "penstock.client", "pyarrow", "rich", "ssl", "zstandard",
)  # fmt: skip


def imported_by(arguments: list[str]) -> set[str]:
    code = (
        "import sys; from penstock.cli.__main__ import run; ended = run(sys.argv[1:]);"
        " print(ended, *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}", *arguments],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    ended, *modules = done.stdout.splitlines()[-1].split()
    assert ended == "0", done.stderr
    return set(modules)


def test_the_version_imports_no_library_but_that_of_the_command_line() -> None:
    modules = imported_by(["--version"])
    assert [name for name in HEAVY if name in modules] == []
    ours = {"__main__", "penstock", "penstock_compiled__mypyc", "click"}
    assert {name.partition(".")[0] for name in modules} - sys.stdlib_module_names <= ours


def test_a_commands_help_imports_no_other_command() -> None:
    modules = imported_by(["completion", "--help"])
    commands = {home.partition(":")[0] for home in COMMANDS.values()}
    assert commands & modules == {"penstock.cli.completion"}


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli, obj=Invocation())))
def test_each_command_is_found_under_its_name(name: str) -> None:
    command = cli.get_command(click.Context(cli, obj=Invocation()), name)
    assert isinstance(command, click.Command)
    assert command.name == name


def test_the_version_is_that_of_the_distribution_and_the_codec_is_the_one_that_loads() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == penstock.__version__
    assert (codec_name() == "compiled") == (extension_codec() is not None)
