"""Entry point of the command line: `penstock` and `python -m penstock.cli`."""

import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from penstock import __version__
from penstock.cli import failures, streams
from penstock.cli.exit_codes import ExitCode
from penstock.cli.invocation import Group, Invocation

COMMANDS = {
    "topic": "penstock.cli.topics:topic",
    "group": "penstock.cli.groups:group",
    "key": "penstock.cli.keys:key",
    "service-account": "penstock.cli.principals:service_account",
    "principal-group": "penstock.cli.principals:principal_group",
    "limits": "penstock.cli.account_limits:limits",
    "budget": "penstock.cli.budgets:budget",
    "access": "penstock.cli.access:access",
    "history": "penstock.cli.history:history",
    "restore": "penstock.cli.history:restore",
    "webhook": "penstock.cli.webhooks:webhook",
    "diff": "penstock.cli.declared:diff",
    "apply": "penstock.cli.declared:apply",
    "login": "penstock.cli.login:login",
    "logout": "penstock.cli.login:logout",
    "whoami": "penstock.cli.login:whoami",
    "sign-in": "penstock.cli.sign_in_list:sign_in",
    "people": "penstock.cli.people:people",
    "tenant": "penstock.cli.tenants:tenant",
    "organisation": "penstock.cli.organisations:organisation",
    "cluster": "penstock.cli.cluster:cluster",
    "placement": "penstock.cli.placement:placement",
    "produce": "penstock.cli.produce:produce",
    "consume": "penstock.cli.consume:consume",
    "usage": "penstock.cli.usage:usage",
    "prices": "penstock.cli.prices:prices",
    "cost": "penstock.cli.cost:cost",
    "sla": "penstock.cli.sla:sla",
    "partition": "penstock.cli.partitions:partition",
    "price-book": "penstock.cli.price_books:price_book",
    "terms": "penstock.cli.terms:terms",
    "coupon": "penstock.cli.coupons:coupon",
    "margins": "penstock.cli.margins:margins",
    "infrastructure": "penstock.cli.infrastructure:infrastructure",
    "billing": "penstock.cli.billing:billing",
    "invoice": "penstock.cli.invoice:invoice",
    "payment": "penstock.cli.payments:payment",
    "verify-invoice": "penstock.cli.verify_invoice:verify_invoice",
    "audit": "penstock.cli.audit:audit",
    "profile": "penstock.cli.profiles:profile",
    "doctor": "penstock.cli.doctor:doctor",
    "completion": "penstock.cli.completion:completion",
}
"""Where each command is. Imported when asked for: one command pays for no other's libraries."""

SECTIONS = {
    "Messages": ("topic", "produce", "consume", "group"),
    "You, and this machine": ("login", "logout", "whoami", "sign-in", "profile", "doctor", "completion"),
    "Who may": ("people", "key", "service-account", "principal-group", "access"),
    "The tenant": (
        *("tenant", "organisation", "limits", "budget", "webhook", "audit"),
        *("history", "restore", "diff", "apply"),
    ),
    "Usage and money": (
        *("usage", "cost", "prices", "invoice", "verify-invoice", "payment", "coupon", "sla"),
    ),
    "For operators": (
        *("cluster", "placement", "partition", "price-book", "terms", "billing", "margins", "infrastructure"),
    ),
    "A service of your own": ("dev", "broker", "server", "config"),
}
"""Titles of the help, each with its commands."""

_EPILOG = """\b
Exit codes: 0 done; 1 a bug; 2 wrong usage; 3 not found; 4 key wrong or not allowed;
5 refused for good; 6 not applied, may succeed later; 7 outcome unknown;
8 the server part is not installed; 9 output could not be written;
10 not all could be shown to be right; 130 interrupted.

Something does not work? `penstock doctor` says what and why."""


def _version_line() -> str:
    from penstock.build import CORES
    from penstock.records.codec import codec_name

    return f"penstock {__version__} (cores: {CORES}, codec: {codec_name()})"


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(_version_line())
        context.exit()


@click.group(
    name="penstock",
    cls=Group,
    homes=COMMANDS,
    sections=SECTIONS,
    epilog=_EPILOG,
    context_settings={"max_content_width": 110},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version, and which cores and codec are in use.",
)
def cli() -> None:
    """Publish, read and look after topics of Penstock."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; failures are printed on the standard error stream."""
    invocation = Invocation()
    streams.prepare()
    before = sys.stdout, sys.stderr
    try:
        ended = cli.main(args=list(arguments), prog_name="penstock", standalone_mode=False, obj=invocation)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has seen enough; nothing more can be written to it.
        streams.write_nowhere()
        return ExitCode.OK
    except SystemExit:
        # This is how click ends for a reader that has gone: it puts a wrapper around both streams.
        if (sys.stdout, sys.stderr) == before:
            raise
        sys.stdout, sys.stderr = before
        streams.write_nowhere()
        return ExitCode.OK
    except (Exception, KeyboardInterrupt) as error:
        as_json = invocation.json or "--json" in arguments
        lost = streams.lost_output(error)
        code = (
            failures.tell(error, as_json=as_json)
            if lost is None
            else failures.tell_output_lost(lost, as_json=as_json)
        )
        streams.give_up_lost_errors()
        return code
    return ended if isinstance(ended, int) else ExitCode.OK


def main() -> NoReturn:
    """Run the process's own command line."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
