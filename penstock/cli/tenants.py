"""`penstock tenant`: the tenant that the key belongs to, its limits, and what other plans would change, over REST."""

from contextlib import closing

import click

from penstock.cli.display import line
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_json, print_table
from penstock.cli.rest import admin_client
from penstock.cli.topic_changes import timeout_option


@click.group(name="tenant", cls=Group, path=("tenant",))
def tenant() -> None:
    """The tenant: name, state, limits."""


@tenant.command("show", examples=["penstock tenant show"])
@timeout_option
def tenant_show(timeout: float) -> None:
    """Show the tenant that the key belongs to, and what it may use."""
    with closing(admin_client()) as admin:
        tenants = admin.tenants(timeout=timeout)
        quotas = admin.quotas(timeout=timeout)
    if current().json:
        print_json({"tenants": tenants, "quotas": quotas})
        return
    for found in tenants:
        click.echo(line(f"{found.get('name', '')}  (id {found.get('id', '')})"))
    limits = {name: value for name, value in quotas.items() if name != "tenant"}
    rows = [[name, "no limit" if value is None else value] for name, value in sorted(limits.items())]
    print_table(["limit", "value"], [row for row in rows if isinstance(row[1], (int, str))])


@tenant.command("plans", examples=["penstock tenant plans"])
@timeout_option
def tenant_plans(timeout: float) -> None:
    """Show every plan with its limits. 0 means no limit."""
    with closing(admin_client()) as admin:
        plans = admin.plans(timeout=timeout)
    if current().json:
        print_json({"plans": plans})
        return
    names = sorted({name for plan in plans for name in plan["limits"]})
    print_table(
        ["plan", "version", *names],
        [[plan["name"], plan["version"], *(plan["limits"][name] for name in names)] for plan in plans],
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
