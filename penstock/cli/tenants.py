"""`penstock tenant`: the tenant of the key, its limits, what other plans would change, `create` for people,
and for operators `close`, `reopen`, `suspend`, `resume`, `protect` and plans, over REST."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from penstock.cli.cluster import operator_client, operator_token, token_option
from penstock.cli.confirmation import must_agree
from penstock.cli.display import line
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Group, current
from penstock.cli.organisations import session_client, session_option
from penstock.cli.output import print_fact, print_json, print_table, say
from penstock.cli.price_books import read_json
from penstock.cli.quantities import in_unit
from penstock.cli.rest import admin_client, client_with, settings
from penstock.cli.topic_changes import timeout_option
from penstock.contract.resources import LIMITS


@click.group(name="tenant", cls=Group, path=("tenant",))
def tenant() -> None:
    """The tenant and its plan: show, create, plans, preview; for operators close, suspend, set-plan and more."""


@tenant.command("show", examples=["penstock tenant show"])
@timeout_option
def tenant_show(timeout: float) -> None:
    """Show the tenant that the key belongs to, and what it may use."""
    with closing(admin_client()) as admin:
        tenants = admin.tenants(timeout=timeout)
        quotas = admin.quotas(timeout=timeout)
        uses = admin.plan_preview(timeout=timeout)["limits"]
    if current().json:
        print_json(
            {"tenants": tenants, "quotas": quotas, "uses": {use["limit"]: use["used"] for use in uses}}
        )
        return
    used = {use["limit"]: use["used"] for use in uses}
    for found in tenants:
        click.echo(line(f"{found.get('name', '')}  (id {found.get('id', '')})"))
    limits = {name: value for name, value in quotas.items() if name != "tenant"}
    rows = [
        [name, value, _used(name, used), _meaning(name, value)]
        for name, value in sorted(limits.items())
        if isinstance(value, (int, str))
    ]
    print_table(["limit", "value", "used", "that is"], rows)


@tenant.command(
    "create",
    short_help="Make a tenant, which you own.",
    examples=["penstock tenant create acme --currency EUR"],
)
@click.argument("name")
@click.option(
    "--currency",
    help="What it is invoiced in, for good: of a price book in effect. Else as the first prices.",
)
@session_option
@timeout_option
def tenant_create(name: str, currency: str | None, token_file: Path | None, timeout: float) -> None:
    """Make a tenant, and print its id. You are its owner. Its currency can never be changed."""
    body = {"name": name} | ({} if currency is None else {"currency": currency})
    with session_client(token_file) as rest:
        made = rest.post("/v1/tenants", body, timeout_s=timeout)
    if current().json:
        print_json(made)
        return
    click.echo(made["id"])


@tenant.command("plans", examples=["penstock tenant plans"])
@timeout_option
def tenant_plans(timeout: float) -> None:
    """Show every plan with its limits and its service level. 0 means no limit."""
    with closing(admin_client()) as admin:
        plans = admin.plans(timeout=timeout)
    if current().json:
        print_json({"plans": plans})
        return
    names = sorted({name for plan in plans for name in plan["limits"]})
    # There are more limits than a terminal is wide: each is a row, and each plan a column.
    labels = [f"{plan['name']} {plan['version']}" for plan in plans]
    print_fact("limit", labels, "")
    print_table(
        ["limit", *labels],
        [
            ["service level", *map(_level, plans)],
            *([name, *(plan["limits"][name] for plan in plans)] for name in names),
        ],
    )


@tenant.command("preview", examples=["penstock tenant preview free"])
@click.argument("plan")
@click.option("--version", type=click.IntRange(min=1), help="Version of the plan; its newest unless given.")
@timeout_option
def tenant_preview(plan: str, version: int | None, timeout: float) -> None:
    """Show what another plan would change, and what it would refuse.

    It changes nothing: an operator puts a tenant on a plan.
    """
    with closing(admin_client()) as admin:
        found = admin.plan_preview(plan, version=version or 0, timeout=timeout)
    if current().json:
        print_json(found)
        return
    rows = [
        [
            use["limit"],
            use["present"],
            use["wanted"],
            "" if use["used"] is None else use["used"],
            use["refused"],
        ]
        for use in found["limits"]
    ]
    print_table(["limit", "now", "then", "used", "refused because"], rows)
    fits = "fits" if found["fits"] else "does not fit: it would be refused"
    click.echo(line(f"{found['plan']} (version {found['plan_version']}) {fits}"))


@tenant.command("close", examples=["penstock tenant close tn_4fZ8 --token-file operator.token --yes"])
@click.argument("tenant_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@token_option
@timeout_option
def tenant_close(tenant_id: str, yes: bool, token_file: Path | None, timeout: float) -> None:
    """Operators: close a tenant. Its keys are refused; it can be reopened for 30 days, then all is deleted."""
    if not yes:
        must_agree(f"Close {tenant_id}? Its programs are refused at once.")
    with operator_client(token_file) as rest:
        changed = rest.delete(f"/v1/tenants/{_segment(tenant_id)}", timeout_s=timeout)
    _show(changed, f"closed; it can be reopened until {changed.get('purge_at')}")


@tenant.command("reopen", examples=["penstock tenant reopen tn_4fZ8 --token-file operator.token"])
@click.argument("tenant_id")
@token_option
@timeout_option
def tenant_reopen(tenant_id: str, token_file: Path | None, timeout: float) -> None:
    """Operators: reopen a closed tenant. Its keys are accepted again."""
    with operator_client(token_file) as rest:
        changed = rest.post(f"/v1/tenants/{_segment(tenant_id)}/reopen", timeout_s=timeout)
    _show(changed, "open again")


@tenant.command("suspend", examples=["penstock tenant suspend tn_4fZ8 --token-file operator.token --yes"])
@click.argument("tenant_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@token_option
@timeout_option
def tenant_suspend(tenant_id: str, yes: bool, token_file: Path | None, timeout: float) -> None:
    """Operators: suspend a tenant. Its keys are refused until it is resumed."""
    if not yes:
        must_agree(f"Suspend {tenant_id}? Its programs are refused at once.")
    with operator_client(token_file) as rest:
        changed = rest.post(f"/v1/tenants/{_segment(tenant_id)}/suspend", timeout_s=timeout)
    _show(changed, "suspended")


@tenant.command("resume", examples=["penstock tenant resume tn_4fZ8 --token-file operator.token"])
@click.argument("tenant_id")
@token_option
@timeout_option
def tenant_resume(tenant_id: str, token_file: Path | None, timeout: float) -> None:
    """Operators: resume a tenant that was suspended. Its keys are accepted again."""
    with operator_client(token_file) as rest:
        changed = rest.post(f"/v1/tenants/{_segment(tenant_id)}/resume", timeout_s=timeout)
    _show(changed, "suspended no more")


@tenant.command(
    "set-plan",
    short_help="Operators: put a tenant on a plan.",
    examples=["penstock tenant set-plan tn_4fZ8 committed --token-file operator.token"],
)
@click.argument("tenant_id")
@click.argument("plan")
@click.option("--version", type=click.IntRange(min=1), help="Version of the plan; its newest unless given.")
@token_option
@timeout_option
def tenant_set_plan(
    tenant_id: str, plan: str, version: int | None, token_file: Path | None, timeout: float
) -> None:
    """Operators: put a tenant on a plan. What does not fit what it uses is refused; `preview` says it before."""
    body = {"plan": plan} | ({} if version is None else {"plan_version": version})
    with client_with(settings(), operator_token(token_file), tenant=tenant_id) as rest:
        changed = rest.patch("/v1/quotas", body, timeout_s=timeout)
    if current().json:
        print_json(changed)
        return
    say(line(f"{tenant_id} is on {changed['plan']} (version {changed['plan_version']})."))


@tenant.command(
    "publish-plan",
    short_help="Operators: publish a plan, or its next version.",
    examples=["penstock tenant publish-plan plan.json --token-file operator.token"],
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@token_option
@timeout_option
def tenant_publish_plan(file: Path, token_file: Path | None, timeout: float) -> None:
    """Operators: publish a plan from a JSON file with `name`, `limits` and, if wanted, `service_level`.

    Tenants on earlier versions stay there. The same again changes nothing.
    """
    with operator_client(token_file) as rest:
        made = rest.post("/v1/plans", read_json(file, "plan"), timeout_s=timeout)
    if current().json:
        print_json(made)
        return
    say(line(f"Plan {made['name']} has version {made['version']}."))


@tenant.command(
    "protect", cls=ChangingCommand, examples=["penstock tenant protect tn_4fZ8 --token-file operator.token"]
)
@click.argument("tenant_id")
@click.option("--off", is_flag=True, help="End the protection.")
@token_option
@timeout_option
def tenant_protect(tenant_id: str, off: bool, token_file: Path | None, timeout: float) -> None:
    """Operators: protect a tenant against being closed."""
    with operator_client(token_file) as rest:
        body = {"deletion_protection": not off}
        changed = rest.patch(f"/v1/tenants/{_segment(tenant_id)}", body, timeout_s=timeout)
    _show(changed, "protected no more" if off else "protected against being closed")


def _meaning(name: str, value: object) -> str:
    """A limit in its unit, and what 0 means."""
    zero = next((field.zero for field in LIMITS if field.name == name), "")
    return zero if value == 0 else in_unit(name, value)


def _used(name: str, used: dict[str, int | None]) -> str:
    """What is used of a limit, for people; empty of what is none."""
    if name not in used:
        return ""
    return {None: "unknown", -1: "without end"}.get(used[name], str(used[name]))


def _segment(tenant_id: str) -> str:
    from penstock.rest.client import segment

    return segment(tenant_id)


def _show(changed: dict[str, Any], said: str) -> None:
    if current().json:
        print_json(changed)
        return
    click.echo(line(f"{changed.get('name')} is {said}"))
    if not changed.get("delivered"):
        say("The brokers do not know it yet; they get it as soon as they can be reached.")


def _level(plan: dict[str, Any]) -> str:
    level = plan.get("service_level")  # a server of the release before tells none
    return "-" if level is None else f"{level['name']} {level['version']}"
