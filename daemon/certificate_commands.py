"""The commands `penstock cluster certificates …`: the CA and the certificates of a cluster, in one folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from daemon import authority
from daemon.authority import Listed
from daemon.certificates import utc_now
from daemon.signing import CA_DAYS_MAX
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table, say

FOLDER = Path("certificates")
WITHIN_DAYS = 30
_SHOWN = 8
"""Signs of serials and fingerprints in the table; JSON has the whole ones."""
_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


def _folder_option(command: _FunctionT) -> _FunctionT:
    return click.option(
        "--folder",
        type=click.Path(file_okay=False, path_type=Path),
        default=FOLDER,
        show_default=True,
        help="Where the CA and the certificates are.",
    )(command)


def _days_option(default: int | None, said: str) -> Callable[[_FunctionT], _FunctionT]:
    return click.option("--days", type=int, default=default, show_default=default is not None, help=said)


@click.group(name="certificates", cls=Group, path=("cluster", "certificates"))
def certificates() -> None:
    """The CA of a cluster, and a certificate for each of its processes and servers."""


@certificates.command("init", examples=["penstock cluster certificates init prod-1"])
@click.argument("cluster_id", metavar="CLUSTER_ID")
@_folder_option
@_days_option(authority.CA_DAYS, "How long the CA is valid.")
def init(cluster_id: str, folder: Path, days: int) -> None:
    """Make the folder and a CA in it. A CA that is there stays."""
    made = authority.init(folder, cluster_id, now=utc_now(), days=days)
    _say_made(folder, [made])
    if not current().json:
        say(
            f"Each process needs {made.file}. Keep {folder / 'ca-key.pem'} to yourself, with a copy elsewhere: it"
            " makes certificates."
        )


@certificates.command(
    "issue",
    examples=[
        "penstock cluster certificates issue broker-1 --host broker-1.example.com --host 10.0.1.11",
        "penstock cluster certificates issue control-plane",
        "penstock cluster certificates issue postgresql --host db.example.com",
    ],
)
@click.argument("name", metavar="NAME")
@click.option(
    "--host", "hosts", multiple=True, help="DNS name or IP address under which it is called; repeatable."
)
@_days_option(authority.LEAF_DAYS, "How long the certificate is valid.")
@click.option("--replace", is_flag=True, help="Replace a certificate and key of that name.")
@_folder_option
def issue(name: str, hosts: Sequence[str], days: int, replace: bool, folder: Path) -> None:
    """Make a key and a certificate.

    NAME is broker-<n>, control-plane, runner, operator, etcd-<n>, postgresql or redis.
    """
    _say_made(folder, [authority.issue(folder, name, hosts=hosts, now=utc_now(), days=days, replace=replace)])


@certificates.command(
    "renew",
    examples=[
        "penstock cluster certificates renew",
        "penstock cluster certificates renew broker-1 broker-2",
        "penstock cluster certificates renew --ca add",
    ],
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Renew all of them.")
@click.option(
    "--within",
    type=click.IntRange(0, CA_DAYS_MAX),
    default=WITHIN_DAYS,
    show_default=True,
    help="Without NAME and --all: renew what ends within so many days.",
)
@click.option(
    "--ca",
    "step",
    type=click.Choice(("add", "use", "drop")),
    help="Change the CA instead: add a new one, use it for all certificates, drop the old one.",
)
@_days_option(None, "How long the new ones are valid; as long as the old ones unless given.")
@_folder_option
def renew(
    names: Sequence[str], everything: bool, within: int, step: str | None, days: int | None, folder: Path
) -> None:
    """Make new keys and certificates with the same names.

    The CA is changed in three steps, and running processes get the files of each step before the next one: after
    `--ca add` the new ca.pem, after `--ca use` their certificates, after `--ca drop` the last ca.pem.
    """
    if (bool(names) + everything + (step is not None)) > 1:
        raise click.UsageError("give names, --all or --ca, one of them.")
    now = utc_now()
    if step is not None:
        _change_ca(folder, step, days)
        return
    if not names:
        names = (
            authority.names_of(folder)
            if everything
            else authority.ending(folder, now=now, within_days=within)
        )
    made = authority.renew(folder, names, now=now, days=days)
    _say_made(folder, made, none=f"Nothing to renew: no certificate in {folder} ends within {within} days.")


@certificates.command("show", examples=["penstock cluster certificates show"])
@_folder_option
def show(folder: Path) -> None:
    """List the CA and the certificates, and how long they are valid.

    Says what is wrong: what ends within 14 days or has ended, a key of another certificate, a key that others may read.
    """
    now = utc_now()
    found = authority.listed(folder, now=now)
    if current().json:
        print_json({**_document(folder, found), "cluster_id": authority.cluster_id_of(folder)})
        return
    print_table(
        ["name", "hosts", "days left", "serial", "SHA-256", ""],
        [
            [
                listed.name,
                " ".join(listed.certificate.hosts) or "-",
                listed.certificate.days_left(now),
                listed.certificate.serial[:_SHOWN],
                listed.certificate.fingerprint[:_SHOWN],
                "; ".join(listed.notes),
            ]
            for listed in found
        ],
        title=f"{authority.cluster_id_of(folder)} in {folder}",
    )
    soon = [
        f"{listed.name} (days left: {listed.certificate.days_left(now)})"
        for listed in found
        if listed.certificate.days_left(now) < authority.SOON_DAYS
    ]
    if soon:
        say(f"Ends soon: {', '.join(soon)}. `penstock cluster certificates renew` renews what is not the CA.")


def _change_ca(folder: Path, step: str, days: int | None) -> None:
    now = utc_now()
    if step == "add":
        made = authority.add_ca(folder, now=now, days=authority.CA_DAYS if days is None else days)
        _say_made(folder, [made])
        then = f"Give every process {made.file}, which holds both CAs, and then: renew --ca use"
    elif step == "use":
        renewed = authority.use_new_ca(folder, now=now, days=days)
        _say_made(folder, renewed, none="The new CA signs. There was no certificate to renew.")
        then = "Give every process its new certificate and key, and then: renew --ca drop"
    else:
        if days is not None:
            raise click.UsageError("--ca drop makes nothing, so --days has no meaning.")
        dropped = authority.drop_old_ca(folder)
        if current().json:
            print_json({"folder": str(folder), "dropped": [one.fingerprint for one in dropped]})
        then = f"Give every process {folder / 'ca.pem'}, which holds the new CA alone."
    if not current().json:
        say(then)


def _say_made(folder: Path, made: Sequence[Listed], none: str = "") -> None:
    if current().json:
        print_json(_document(folder, made))
        return
    if not made:
        say(none)
    for listed in made:
        say(f"{listed.file}: valid until {listed.certificate.not_after:%Y-%m-%d %H:%M} UTC")


def _document(folder: Path, found: Sequence[Listed]) -> dict[str, Any]:
    now = utc_now()
    return {
        "folder": str(folder),
        "certificates": [
            {
                "name": listed.name,
                "role": listed.role,
                "file": str(listed.file),
                "identity": next(iter(listed.certificate.uris), None),
                "hosts": list(listed.certificate.hosts),
                "serial": listed.certificate.serial,
                "fingerprint_sha256": listed.certificate.fingerprint,
                "not_before": listed.certificate.not_before.isoformat(),
                "not_after": listed.certificate.not_after.isoformat(),
                "days_left": listed.certificate.days_left(now),
                "notes": list(listed.notes),
            }
            for listed in found
        ],
    }
