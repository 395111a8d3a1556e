"""`penstock webhook …`: endpoints that get the tenant's events, signed; over REST."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli import described, named
from penstock.cli.confirmation import must_agree
from penstock.cli.exit_codes import ExitCode
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.topic_changes import timeout_option
from penstock.cli.whose import client_for, whose_option
from penstock.contract.errors import TimedOut
from penstock.contract.resources import WEBHOOKS
from penstock.contract.resources.webhooks import EVENTS_USUAL
from penstock.rest.client import RestClient, segment

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., object])
_LOOK_S = 0.5
_COLUMNS: dict[str, Callable[[dict[str, Any]], object]] = {
    "webhook": lambda webhook: webhook["id"],
    "name": lambda webhook: webhook["name"],
    "state": lambda webhook: _state(webhook),
    "events": lambda webhook: ", ".join(webhook["events"]),
    "url": lambda webhook: webhook["url"],
}


@click.group(name="webhook", cls=Group, path=("webhook",))
def webhook() -> None:
    """Endpoints that get the tenant's audit entries, signed: create, list, show, ping, log, resume, rotate."""


def _whose(command: _FunctionT) -> _FunctionT:
    """Keys have no webhooks: owners and admins make them, auditors and operators see them."""
    return timeout_option(whose_option("webhooks")(command))


@webhook.command(
    "create",
    examples=[
        "penstock webhook create siem --url https://siem.example.com/penstock",
        "penstock webhook create keys --url https://hooks.example.com/k --event audit.key.* --event audit.acl.*",
    ],
)
@click.argument("name")
@described.options_to_make(WEBHOOKS, without=("name",), defaults={"events": EVENTS_USUAL})
@_whose
def webhook_create(
    name: str, token_file: Path | None, tenant: str | None, timeout: float, **given: Any
) -> None:
    """Make a webhook. It gets what happens from now on. Its secret is shown once."""
    body = described.body({"name": name, **given})
    with client_for(token_file, tenant) as rest, progress("Making a webhook"):
        made = rest.post("/v1/webhooks", body, timeout_s=timeout)
    _show_secret(made)


@webhook.command("list", examples=["penstock webhook list"])
@_whose
def webhook_list(token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """List the tenant's webhooks."""
    with client_for(token_file, tenant) as rest:
        webhooks = list(rest.items("/v1/webhooks", timeout_s=timeout))
    described.print_list(
        "webhooks",
        webhooks,
        _COLUMNS,
        empty="No webhooks. Make one: penstock webhook create siem --url https://siem.example.com/penstock",
    )


@webhook.command("show", examples=["penstock webhook show whk_..."])
@click.argument("webhook_id", metavar="ID|NAME")
@_whose
def webhook_show(webhook_id: str, token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """Show a webhook: its state, how much waits for it, and when it is tried next."""
    with client_for(token_file, tenant) as rest:
        found = rest.get(_path(rest, webhook_id, timeout), timeout_s=timeout)
    _show(found)


@webhook.command(
    "change",
    examples=[
        "penstock webhook change whk_... --url https://siem.example.com/new",
        "penstock webhook change whk_... --state off",
    ],
)
@click.argument("webhook_id", metavar="ID|NAME")
@described.options_to_change(WEBHOOKS)
@_whose
def webhook_change(
    webhook_id: str, token_file: Path | None, tenant: str | None, timeout: float, **given: Any
) -> None:
    """Change what is given."""
    body = described.changes(WEBHOOKS, given)
    with client_for(token_file, tenant) as rest, progress("Changing"):
        changed = rest.patch(_path(rest, webhook_id, timeout), body, timeout_s=timeout)
    _show(changed)


@webhook.command("ping", examples=["penstock webhook ping whk_..."])
@click.argument("webhook_id", metavar="ID|NAME")
@_whose
def webhook_ping(webhook_id: str, token_file: Path | None, tenant: str | None, timeout: float) -> int:
    """Send a test event, and wait for what the endpoint answers. Exit code 5 where it does not take it."""
    with client_for(token_file, tenant) as rest, progress("Waiting for the endpoint"):
        path = _path(rest, webhook_id, timeout)
        event_id = rest.post(f"{path}/ping", None, timeout_s=timeout)["event_id"]
        ends = time.monotonic() + timeout
        while True:
            log = rest.get(f"{path}/attempts", timeout_s=timeout)["items"]
            found = next((one for one in log if one["event_id"] == event_id), None)
            if found is not None:
                break
            if time.monotonic() >= ends:
                raise TimedOut(f"no worker sent {event_id} within {timeout:g} s; see: penstock webhook log")
            time.sleep(_LOOK_S)
    if current().json:
        print_json(found)
    else:
        say(f"It answered {found['status']}." if found["delivered"] else f"Not taken: {found['error']}.")
    return ExitCode.OK if found["delivered"] else ExitCode.REFUSED


@webhook.command("log", examples=["penstock webhook log whk_...", "penstock webhook log whk_... --json"])
@click.argument("webhook_id", metavar="ID|NAME")
@_whose
def webhook_log(webhook_id: str, token_file: Path | None, tenant: str | None, timeout: float) -> None:
    """List the last attempts, newest first."""
    with client_for(token_file, tenant) as rest:
        found = list(rest.items(f"{_path(rest, webhook_id, timeout)}/attempts", timeout_s=timeout))
    if current().json:
        print_json({"attempts": found})
        return
    print_table(
        ["at", "event", "type", "attempt", "status", "ms", "result"],
        [
            [
                one["at"],
                one["event_id"],
                one["event_type"],
                one["number"],
                one["status"] or "-",
                one["duration_ms"],
                one["error"] or "taken",
            ]
            for one in found
        ],
        empty="No attempts yet. Try it: penstock webhook ping ID",
    )


@webhook.command(
    "resume", examples=["penstock webhook resume whk_...", "penstock webhook resume whk_... --skip-waiting"]
)
@click.argument("webhook_id", metavar="ID|NAME")
@click.option("--skip-waiting", is_flag=True, help="Leave out what happened until now.")
@_whose
def webhook_resume(
    webhook_id: str, skip_waiting: bool, token_file: Path | None, tenant: str | None, timeout: float
) -> None:
    """Go on at once with the first event that was not taken."""
    with client_for(token_file, tenant) as rest, progress("Resuming"):
        changed = rest.post(
            f"{_path(rest, webhook_id, timeout)}/resume", {"skip_waiting": skip_waiting}, timeout_s=timeout
        )
    _show(changed)


@webhook.command(
    "rotate", examples=["penstock webhook rotate whk_...", "penstock webhook rotate whk_... --overlap-s 0"]
)
@click.argument("webhook_id", metavar="ID|NAME")
@click.option(
    "--overlap-s",
    type=click.IntRange(0, 7 * 86_400),
    default=86_400,
    show_default=True,
    help="How long the old secret signs beside the new one, in seconds.",
)
@_whose
def webhook_rotate(
    webhook_id: str, overlap_s: int, token_file: Path | None, tenant: str | None, timeout: float
) -> None:
    """Make a new secret. It is shown once."""
    with client_for(token_file, tenant) as rest, progress("Making a secret"):
        made = rest.post(
            f"{_path(rest, webhook_id, timeout)}/rotate", {"overlap_s": overlap_s}, timeout_s=timeout
        )
    _show_secret(made)


@webhook.command("delete", examples=["penstock webhook delete whk_... --yes"])
@click.argument("webhook_id", metavar="ID|NAME")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_whose
def webhook_delete(
    webhook_id: str, yes: bool, token_file: Path | None, tenant: str | None, timeout: float
) -> None:
    """Delete a webhook with its log. It asks before, and needs --yes where there is no terminal."""
    if not yes:
        must_agree(f"{webhook_id} gets nothing more, and what waits for it is not sent. Go on?")
    with client_for(token_file, tenant) as rest, progress("Deleting"):
        rest.delete(_path(rest, webhook_id, timeout), timeout_s=timeout)
    if current().json:
        print_json({"id": webhook_id, "deleted": True})
        return
    say(f"Deleted {webhook_id}.")


def _path(rest: RestClient, webhook_id: str, timeout_s: float) -> str:
    """The address of a webhook by its id, or by its name. Raises `NotFound`."""
    return f"/v1/webhooks/{segment(named.WEBHOOKS.id_of(rest, webhook_id, timeout_s))}"


def _show_secret(made: dict[str, Any]) -> None:
    if current().json:
        print_json(made)
        return
    click.echo(made["secret"])
    say(f"Webhook {made['id']}. Keep its secret now: it will not be shown again.")


def _show(found: dict[str, Any]) -> None:
    if current().json:
        print_json(found)
        return
    print_table(["", ""], [[name, _cell(value)] for name, value in found.items()])


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "-" if value in (None, "") else str(value)


def _state(one: dict[str, Any]) -> str:
    if one["state"] == "off":
        return f"off: {one['reason']}"
    return f"failing since {one['failing_since']}" if one["failing_since"] else "on"
