"""Commands join by entry points; what is not installed says what to install, and what is broken is no
secret.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import __version__
from penstock.build import CORES
from penstock.cli import extensions
from penstock.cli.__main__ import run

Installed = Callable[..., None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """Installs a distribution with the given entry points, and modules beside it."""

    def install(points: dict[str, str], **modules: str) -> None:
        info = tmp_path / "planted-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
        lines = [f"{name} = {target}" for name, target in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[penstock.commands]", *lines]))
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(tmp_path))
        extensions.find_again()

    yield install
    extensions.find_again()


COMMAND = """
import click
@click.command()
@click.option("--size", type=int)
def command(size):
    click.echo(f"size {size}")
"""


def test_an_entry_point_with_dots_becomes_a_command_of_a_group(
    installed: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    installed({"topic.measure": "planted_one:command"}, planted_one=COMMAND)
    assert run(["topic", "measure", "--size", "3"]) == 0
    assert capsys.readouterr().out == "size 3\n"
    assert run(["topic", "--help"]) == 0
    listed = capsys.readouterr().out
    assert "measure" in listed and "describe" in listed


@pytest.mark.parametrize("arguments", [[], ["--help"], ["up", "--brokers", "3"]])
def test_a_command_of_an_absent_server_says_what_to_install_whatever_its_arguments(
    installed: Installed,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    absent = 'raise ModuleNotFoundError("No module named \'data_plane\'", name="data_plane")'
    installed({"elsewhere": "planted_two:command"}, planted_two=absent)
    assert run(["elsewhere", *arguments]) == 8
    told = capsys.readouterr()
    assert "penstock elsewhere belongs to the server, which is not installed here" in told.err
    assert "make setup" in told.err
    assert "Traceback" not in told.err


def test_a_folder_named_like_a_package_of_the_server_does_not_pass_for_it(
    installed: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    installed({"elsewhere": "local.planted_nowhere:command"})
    assert run(["elsewhere", "up"]) == 8
    assert "penstock elsewhere belongs to the server" in capsys.readouterr().err


def test_an_absent_command_stands_in_the_help_and_answers_in_json(
    installed: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    installed({"topic.paint": "planted_three:command"}, planted_three="import surely_not_installed_anywhere")
    assert run(["topic", "--help"]) == 0
    assert "paint" in capsys.readouterr().out
    assert run(["topic", "paint", "--json"]) == 8
    told = json.loads(capsys.readouterr().err)["error"]
    assert told["exit_code"] == 8
    assert "needs the package surely_not_installed_anywhere" in told["message"]


def test_a_module_missing_from_what_is_installed_is_told_as_a_bug(
    installed: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    installed({"topic.broken": "planted_four:command"}, planted_four="import penstock.nowhere")
    assert run(["topic", "broken"]) == 1
    assert "This is a bug" in capsys.readouterr().err


def test_every_entry_point_of_the_project_leads_to_a_command() -> None:
    assert "dev" in extensions.names_under(())
    assert extensions.load(("dev",)).name == "dev"


def test_an_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "fly"]) == 2
    assert "No such command 'fly'" in capsys.readouterr().err


def test_profile_and_json_may_stand_before_or_behind_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "none.toml"))
    for arguments in (
        ["--json", "--profile", "work", "topic", "list"],
        ["topic", "list", "--profile", "work", "--json"],
    ):
        assert run(arguments) == 5
        told = json.loads(capsys.readouterr().err)["error"]
        assert told["code"] == "CONFIGURATION"
        assert "profile 'work'" in told["message"]


def test_the_version_names_the_codec(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"penstock {__version__} (cores: {CORES}, codec: ")
