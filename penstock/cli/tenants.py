"""`penstock tenant show`: the tenant that the key belongs to, and its limits, over REST."""

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
