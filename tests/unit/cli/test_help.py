"""The help teaches: each command says what it does and shows command lines that it takes, and shells complete them."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from penstock.cli.__main__ import SECTIONS, cli, run
from penstock.cli.completion import SHELLS
from penstock.cli.exit_codes import ExitCode
from penstock.cli.invocation import Command
from tests.waiting import PATIENCE_S

Path = tuple[str, ...]


def leaves(group: click.Group, path: Path = ()) -> Iterator[tuple[Path, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


LEAVES = list(leaves(cli))


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_shows_examples_that_it_takes(path: Path, command: click.Command) -> None:
    assert isinstance(command, Command)
    assert command.examples
    for example in command.examples:
        program, *words = shlex.split(example.partition(" > ")[0])
        assert program == "penstock"
        while words and words[: len(path)] != list(path):
            words = words[2:]  # an option of the whole command line, with its value
        assert words, f"an example of another command: {example}"
        if not {"lines.txt", "team.yaml", "invoice-3.evidence"} & set(words):
            command.make_context(
                path[-1], words[len(path) :], resilient_parsing=False, parent=click.Context(cli)
            )


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_command_and_option_says_what_it_is(path: Path, command: click.Command) -> None:
    assert command.help
    assert not command.get_short_help_str(limit=80).endswith("..."), "short_help= says it in a line"
    silent = [
        parameter.name
        for parameter in command.params
        if isinstance(parameter, click.Option)
        and not parameter.help
        and not isinstance(parameter.type, click.Choice)
    ]
    assert silent == []


def test_every_command_stands_under_one_title_of_the_help() -> None:
    titled = [name for names in SECTIONS.values() for name in names]
    assert sorted(titled) == cli.list_commands(click.Context(cli))


@pytest.mark.parametrize(
    ("words", "meant"), [(["topik"], "topic"), (["verify"], "verify-invoice"), (["topic", "lst"], "list")]
)
def test_a_command_that_there_is_not_is_answered_with_those_that_are_like_it(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == ExitCode.USAGE
    assert f"Did you mean {meant!r}" in capsys.readouterr().err


def test_help_shows_examples_on_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "create", "--help"]) == 0
    assert "\nExamples:\n  penstock topic create orders --partitions 6\n" in capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_a_completion_script_is_printed_for_each_shell(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{shell}_complete" in script and "_PENSTOCK_COMPLETE" in script
    assert run(["completion", shell, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["script"].strip() == script.strip()


def test_bash_takes_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    run(["completion", "bash"])
    script = capsys.readouterr().out + "\ncomplete -p penstock\n"
    ended = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert ended.returncode == 0 and "-F _penstock_completion penstock" in ended.stdout, ended.stderr


SCRIPTS = {
    "zsh": (
        "#compdef penstock",
        'COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) _PENSTOCK_COMPLETE=zsh_complete penstock',
        "compdef _penstock_completion penstock",
    ),
    "fish": (
        "function _penstock_completion",
        "env _PENSTOCK_COMPLETE=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) penstock",
        "complete --no-files --command penstock --arguments",
    ),
}
ASKED = {
    "zsh": {"COMP_WORDS": "penstock topic de", "COMP_CWORD": "2"},
    "fish": {"COMP_WORDS": "penstock topic de", "COMP_CWORD": "de"},
}
SCRIPT_RUNS = {
    # What the script registers, and what a Tab offers.
    "zsh": "autoload -Uz compinit; compinit -u -D; source ./script; print -r -- ${_comps[penstock]}",
    "fish": "source ./script; complete --do-complete 'penstock topic de'",
}
SHOWN = {"zsh": "_penstock_completion", "fish": "describe"}


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_the_scripts_of_zsh_and_fish_register_a_function_that_asks_penstock(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["completion", shell])
    script = capsys.readouterr().out
    for part in SCRIPTS[shell]:
        assert part in script, part


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_what_zsh_and_fish_ask_is_answered_in_their_form(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in ASKED[shell].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("_PENSTOCK_COMPLETE", f"{shell}_complete")
    with pytest.raises(SystemExit):
        run([])
    lines = capsys.readouterr().out.splitlines()
    if shell == "zsh":
        # Kind, value and help, a line each.
        kind, offered, help_text, *_ = lines[lines.index("describe") - 1 :]
        assert (kind, offered) == ("plain", "describe") and help_text not in ("", "_")
    else:
        assert any(line.startswith("plain,describe\t") for line in lines)


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_zsh_and_fish_take_the_script(
    shell: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = shutil.which(shell)
    assert program is not None, f"{shell} is not installed: make setup"
    run(["completion", shell])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    ended = subprocess.run(
        [program, "-c", SCRIPT_RUNS[shell]],
        cwd=tmp_path,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0 and SHOWN[shell] in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("to",), "topic"),
        (("topic", "de"), "describe"),
        (("consume", "orders", "--di"), "--display"),
        (("consume", "orders", "--display", "v"), "values"),
        (("dev", "broker", "k"), "kill"),
    ],
)
def test_commands_options_and_choices_are_completed(
    words: tuple[str, ...], offered: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("penstock", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit):
        run([])
    assert f"plain,{offered}" in capsys.readouterr().out.splitlines()
