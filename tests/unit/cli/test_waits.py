"""Seconds after `--timeout` are a number, whatever the command."""

import click
import pytest

from penstock.cli.__main__ import cli, run
from penstock.cli.waits import SECONDS


def options(command: click.Command) -> list[click.Parameter]:
    """The options `--timeout` of a command and of all below it."""
    timeouts = [option for option in command.params if "--timeout" in option.opts]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            timeouts += options(below)
    return timeouts


def test_every_timeout_takes_seconds_and_nothing_else() -> None:
    taken = options(cli)
    assert len(taken) > 40
    assert {type(option.type) for option in taken} == {type(SECONDS)}


@pytest.mark.parametrize("text", ["nan", "-1", "soon", "1h"])
def test_what_is_no_time_to_wait_is_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "list", "--timeout", text]) == 2
    assert f"{text!r} is no number of seconds, 0 or more" in capsys.readouterr().err
