"""The server's commands `penstock topic create` and `penstock topic delete`, made with the cluster secret."""

import time
from pathlib import Path
from typing import Any

import click

from control_plane.placement.planner import BrokerView, plan
from data_plane.dev.access import data_option, directory_for_server_command
from data_plane.dev.admin_client import AdminClient
from data_plane.dev.layout import ClusterSpec
from data_plane.dev.provisioning import admin_of
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, progress, say
from penstock.contract.errors import NoLeader
from penstock.contract.topic_settings import Durability, TopicSettings

_LEADERS_S = 10.0
"""After this without a leader for each partition something else is wrong."""
_POLL_S = 0.02


@click.command("create", cls=Command)
@click.argument("name")
@click.option("--partitions", type=int, required=True, help="How many partitions; more keys in parallel.")
@click.option("--replication", type=int, help="Copies of each message (default 3, fewer in a small cluster).")
@click.option("--min-insync", type=int, help="Copies an acknowledgement needs at least (default 2).")
@click.option(
    "--durability",
    type=click.Choice([durability.name.lower() for durability in Durability]),
    default=Durability.FSYNC.name.lower(),
    show_default=True,
    help="What an acknowledgement means: on disk, or in memory, of every in-sync copy.",
)
@click.option("--retention-ms", type=int, help="Keep messages at least this long; -1 = for ever.")
@click.option("--retention-bytes", type=int, help="Keep this much per partition; -1 = no limit.")
@click.option("--segment-bytes", type=int, help="Size of one file of the log; what is deleted at once.")
@data_option
def topic_create(name: str, partitions: int, data: Path | None, **options: Any) -> None:
    """Create a topic and wait until every partition has a leader."""
    directory = directory_for_server_command(data)
    spec = directory.load()
    settings = _settings(spec, options)
    with admin_of(directory) as admin, progress(f"Creating {name}"):
        assignments = plan(partitions, settings.replication, _brokers(admin))
        topic_id, revision = admin.create_topic(spec.tenant, name, settings, assignments)
        _wait_for_leaders(admin, topic_id, name)
        admin.wait_until_seen(revision)
    if current().json:
        print_json(
            {
                "topic": name,
                "topic_id": topic_id.hex(),
                "partitions": partitions,
                "assignments": [list(brokers) for brokers in assignments],
                "settings": settings.to_dict(),
            }
        )
        return
    say(
        f"Created {name}: {partitions} partition{'s' if partitions > 1 else ''}, "
        f"replication {settings.replication}, min_insync {settings.min_insync_replicas}, "
        f"durability {settings.durability.name.lower()}."
    )


@click.command("delete", cls=Command)
@click.argument("name")
@data_option
def topic_delete(name: str, data: Path | None) -> None:
    """Delete a topic with all of its messages."""
    directory = directory_for_server_command(data)
    spec = directory.load()
    with admin_of(directory) as admin, progress(f"Deleting {name}"):
        admin.wait_until_seen(admin.delete_topic(spec.tenant, name))
    if current().json:
        print_json({"topic": name, "deleted": True})
        return
    say(f"Deleted {name}.")


def _settings(spec: ClusterSpec, options: dict[str, Any]) -> TopicSettings:
    """Settings from the options given; the cluster's size decides the default replication."""
    values = {key: value for key, value in options.items() if value is not None}
    replication = values.setdefault("replication", spec.replication)
    minimum = values.pop("min_insync", None)
    values["min_insync_replicas"] = min(spec.min_insync, replication) if minimum is None else minimum
    return TopicSettings.from_dict(values)


def _brokers(admin: AdminClient) -> list[BrokerView]:
    return [
        BrokerView(
            id=broker.id,
            zone=broker.zone,
            replicas=broker.replicas,
            leaders=broker.leaders,
            state=broker.state,
        )
        for broker in admin.describe_cluster().brokers
    ]


def _wait_for_leaders(admin: AdminClient, topic_id: bytes, name: str) -> None:
    """Wait until every partition is led. Raises `NoLeader`: the topic exists, but cannot be used yet."""
    deadline = time.monotonic() + _LEADERS_S
    while True:
        described = admin.describe_cluster(partitions=True)
        partitions = [p for p in described.partitions if p.topic_id == topic_id]
        without = [p.partition for p in partitions if p.leader < 0]
        if partitions and not without:
            return
        if time.monotonic() > deadline:
            raise NoLeader(
                f"{name}: created, but {len(without)} partitions have no leader after {_LEADERS_S:g} s"
            )
        time.sleep(_POLL_S)
