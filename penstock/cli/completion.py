"""`penstock completion`: the script by which a shell completes commands, options and choices."""

import click
from click.shell_completion import get_completion_class

from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json

VARIABLE = "_PENSTOCK_COMPLETE"
"""The environment variable by which the shell's script asks `penstock` what could come next."""
SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    short_help="Let the shell complete commands and options.",
    cls=Command,
    examples=[
        "penstock completion bash > ~/.local/share/bash-completion/completions/penstock",
        "penstock completion zsh > ~/.zfunc/_penstock",
        "penstock completion fish > ~/.config/fish/completions/penstock.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete this command line.

    Write it to the place where the shell looks for completions, then open a new shell. In zsh that folder has to stand
    in `fpath` before `compinit` runs.
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"No completion for {shell}.")
    made = found(context.find_root().command, {}, "penstock", VARIABLE)
    # Not `source()`, which runs a shell of this machine to look at its version: the script may be meant for another.
    script = made.source_template % made.source_vars()
    if current().json:
        print_json({"shell": shell, "script": script})
        return
    click.echo(script)
