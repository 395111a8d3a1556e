"""`penstock doctor`: what is wrong with this set-up, and what to do about it."""

import sys
from collections.abc import Iterator
from contextlib import closing

import click

from penstock.cli import doctor_checks as checks
from penstock.cli.connection import chosen_profile
from penstock.cli.display import line
from penstock.cli.doctor_brokers import answering, asked_each
from penstock.cli.doctor_checks import Finding, State
from penstock.cli.doctor_slow import CALLS, slow
from penstock.cli.doctor_writes import writes
from penstock.cli.exit_codes import ExitCode, exit_code
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_row
from penstock.cli.waits import SECONDS
from penstock.contract.errors import ConfigurationError, PenstockError

_COLOURS = {State.OK: "green", State.DOUBTFUL: "yellow", State.WRONG: "red", State.SKIPPED: "bright_black"}


@click.command(
    "doctor",
    short_help="Say what is wrong with this set-up.",
    cls=Command,
    examples=["penstock doctor", "penstock doctor --slow", "penstock --profile staging doctor --json"],
)
@click.option(
    "--timeout", type=SECONDS, default=5.0, show_default=True, help="Seconds to wait for each answer."
)
@click.option(
    "--slow",
    "measured",
    is_flag=True,
    help="Also measure each stage, and say who was delayed by a limit, what is hot, and which broker is behind.",
)
@click.pass_context
def doctor(context: click.Context, timeout: float, measured: bool) -> None:
    """Look at profile, key, clock, certificates, service, brokers and their disks, and say what is wrong.

    It changes nothing. It ends with 0 unless something is wrong, and then with the code that a command would end with
    that fails of it (the first one found).
    """
    found: list[Finding] = []
    for finding in _findings(timeout, measured=measured):
        found.append(finding)
        if not current().json:
            _show(finding)
    code = _worst(found)
    if current().json:
        print_json(
            {
                "ok": code is ExitCode.OK,
                "exit_code": int(code),
                "checks": [
                    {
                        "check": finding.check,
                        "state": finding.state.value,
                        "fact": finding.fact,
                        "remedy": finding.remedy,
                        "code": None if finding.error is None else finding.error.code.name,
                    }
                    for finding in found
                ],
            }
        )
    else:
        click.echo(_sum(found))
    context.exit(int(code))


def _findings(timeout_s: float, *, measured: bool) -> Iterator[Finding]:
    """Each check's answer as it comes; checks that depend on a failed one are left out."""
    from penstock import Client

    yield checks.versions()
    try:
        name = chosen_profile()
    except ConfigurationError as error:
        yield checks.wrong("profile", error)
        return
    yield checks.profile(name)
    finding, settings = checks.settings(current().profile)
    yield finding
    if settings is None:
        return
    key = checks.key(settings)
    yield key
    listeners = [checks.listener(address, settings.ca_file, timeout_s) for address in settings.bootstrap]
    reachable = any(listener.state is not State.WRONG for listener in listeners)
    # One of several that cannot be reached is no reason to fail: clients go to another.
    yield from (checks.softened(listener) if reachable else listener for listener in listeners)
    reached, *others = checks.control_plane(settings, timeout_s)
    yield reached
    yield from others
    if key.state is State.WRONG:
        return
    if reached.state is State.OK:
        taken = checks.tenant(settings, timeout_s)
        yield taken
        if taken.state is State.OK:
            yield checks.tenants_limits(settings, timeout_s)
    if reachable:
        with closing(Client(profile=current().profile)) as client:
            try:
                brokers, topics = client.brokers(timeout=timeout_s), client.topics(timeout=timeout_s)
            except PenstockError as error:
                yield checks.wrong("key at the brokers", error)
                return
            answered = asked_each(settings, brokers, timeout_s, CALLS if measured else 1)
            yield from checks.data_plane(brokers, topics)
            if reached.state is State.OK:
                yield checks.access_list(settings, len(topics), timeout_s)
            unreached = sum(listener.state is State.WRONG for listener in listeners)
            yield from answering(answered, len(listeners), unreached, topics)
            silent = {answer.broker for answer in answered if answer.error is not None}
            there = [broker for broker in brokers if broker.broker not in silent]
            yield from writes(settings, there, topics, timeout_s)
            if measured:
                yield from slow(settings, client, answered, topics, timeout_s)


def _show(finding: Finding) -> None:
    if not sys.stdout.isatty():
        print_row([finding.state.value, finding.check, finding.fact, finding.remedy])
        return
    click.secho(f"{finding.state.value:>8}  ", fg=_COLOURS[finding.state], nl=False)
    click.echo(line(f"{finding.check}: {finding.fact}"))
    if finding.remedy:
        click.echo(f"{'':>10}{finding.remedy}")


def _sum(found: list[Finding]) -> str:
    number = {state: sum(finding.state is state for finding in found) for state in State}
    if number[State.WRONG]:
        return f"{number[State.WRONG]} wrong, {number[State.DOUBTFUL]} doubtful."
    if number[State.DOUBTFUL]:
        return f"Nothing is wrong, {number[State.DOUBTFUL]} doubtful."
    return "Nothing is wrong."


def _worst(found: list[Finding]) -> ExitCode:
    """What a command would end with that meets the first wrong thing."""
    errors: list[PenstockError] = [finding.error for finding in found if finding.error is not None]
    return exit_code(errors[0]) if errors else ExitCode.OK
