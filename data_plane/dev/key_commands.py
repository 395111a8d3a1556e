"""The server's command `penstock key create`: a key is made here, and brokers get only what checks it."""

from pathlib import Path

import click

from data_plane.dev.access import data_option, directory_for_server_command
from data_plane.dev.provisioning import admin_of, new_key, put_key
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, progress, say


@click.command("create", cls=Command)
@click.option("--name", default="", help="What the key is for.")
@data_option
def key_create(name: str, data: Path | None) -> None:
    """Make an API key of the cluster's tenant. It is shown once."""
    directory = directory_for_server_command(data)
    spec = directory.load()
    key = new_key()
    with admin_of(directory) as admin, progress("Making a key"):
        principal = put_key(directory, admin, key, tenant=spec.tenant, name=name or key.key_id)
    if current().json:
        shown = {"api_key": key.reveal(), "key_id": key.key_id}
        print_json({**shown, "tenant": spec.tenant, "principal": principal})
        return
    click.echo(key.reveal())
    say("Keep it now: it is stored nowhere and will not be shown again.")
