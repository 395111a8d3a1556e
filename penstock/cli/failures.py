"""How a failure is printed: message, remedy and code for what was expected, one line for what was not, never a
traceback.
"""

import json
import os
import sys
import traceback
from collections.abc import Sequence

import click

from penstock.cli.display import line
from penstock.cli.exit_codes import ExitCode, exit_code
from penstock.contract.errors import PenstockError

DEBUG = "PENSTOCK_DEBUG"
"""Environment variable: when not empty, an unexpected failure prints its traceback as well."""


def tell(error: BaseException, *, as_json: bool) -> ExitCode:
    """Print `error` to the standard error stream, if that can be written, and return what to exit with."""
    code = _code(error)
    try:
        if isinstance(error, PenstockError):
            _print_refusal(error, code, as_json=as_json)
        elif isinstance(error, click.ClickException):
            _print_usage(error, as_json=as_json)
        elif code is ExitCode.INTERNAL:
            _print_bug(error, as_json=as_json)
        elif notes := _notes_of(error):
            _print_interrupt(notes, as_json=as_json)
    except OSError:
        pass  # no stream is left; the exit code remains
    return code


def tell_output_lost(error: OSError, *, as_json: bool) -> ExitCode:
    """The standard output cannot be written: the command may have done its work, but its result is lost."""
    message = f"{error.filename or 'standard output'}: {error.strerror or error}"
    remedy = "Free space where the output goes. What was asked for may be done: look before you repeat it."
    try:
        if as_json:
            _print_json(
                code=ExitCode.OUTPUT_LOST.name,
                message=message,
                remedy=remedy,
                exit_code=int(ExitCode.OUTPUT_LOST),
            )
        else:
            click.secho("Error: ", fg="red", bold=True, nl=False, err=True)
            click.echo(f"{message} [{ExitCode.OUTPUT_LOST.name}]\n  {remedy}", err=True)
    except OSError:
        pass  # no stream is left; the exit code remains
    return ExitCode.OUTPUT_LOST


def _code(error: BaseException) -> ExitCode:
    if isinstance(error, PenstockError):
        return exit_code(error)
    if isinstance(error, click.ClickException):
        return ExitCode.USAGE
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return ExitCode.INTERRUPTED
    return ExitCode.INTERNAL


def _print_refusal(error: PenstockError, code: ExitCode, *, as_json: bool) -> None:
    if as_json:
        _print_json(
            code=error.code.name,
            number=int(error.code),
            message=error.message,
            remedy=error.remedy,
            retriable=error.retriable,
            belief=error.belief.value,
            exit_code=int(code),
        )
        return
    click.secho("Error: ", fg="red", bold=True, nl=False, err=True)
    fact, _, evidence = error.message.partition("\n")
    click.echo(f"{line(fact)} [{error.code.name}]", err=True)
    if evidence:
        click.echo("\n".join(line(shown) for shown in evidence.split("\n")), err=True)
    if error.remedy:
        click.echo(f"  {error.remedy}", err=True)


def _print_usage(error: click.ClickException, *, as_json: bool) -> None:
    if as_json:
        _print_json(code="USAGE", message=error.format_message(), exit_code=int(ExitCode.USAGE))
    else:
        error.show()


def _notes_of(error: BaseException) -> list[str]:
    """Notes on an interrupt; click raises `Abort` because of it."""
    stopped = error.__cause__ if isinstance(error, click.Abort) else error
    return list(getattr(stopped, "__notes__", []))


def _print_interrupt(notes: Sequence[str], *, as_json: bool) -> None:
    """Say what an interrupted command leaves behind: each note is a sentence about it."""
    if as_json:
        _print_json(
            code=ExitCode.INTERRUPTED.name, message=" ".join(notes), exit_code=int(ExitCode.INTERRUPTED)
        )
        return
    for note in notes:
        click.echo(f"Interrupted. {line(note)}", err=True)


def _print_bug(error: BaseException, *, as_json: bool) -> None:
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    message = f"unexpected {type(error).__name__}: {error}"
    if as_json:
        _print_json(code="INTERNAL", message=message, exit_code=int(ExitCode.INTERNAL))
        return
    click.secho("Error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(f"{message}\n  This is a bug. {DEBUG}=1 prints where it happened.", err=True)


def _print_json(**fields: object) -> None:
    print(json.dumps({"error": fields}), file=sys.stderr)
