"""`penstock topic bin`, `restore` and `purge`: the recycle bin of the tenant's topics, over REST."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.cli.confirmation import must_agree
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.rest import admin_client
from penstock.cli.topic_changes import timeout_option, topic_json
from penstock.contract.errors import NotFound

if TYPE_CHECKING:
    from penstock.admin.objects import BinnedTopic


@click.command("bin", cls=Command, examples=["penstock topic bin"])
@timeout_option
def topic_bin(timeout: float) -> None:
    """List the topics in the recycle bin, and when each is deleted for good."""
    with closing(admin_client()) as admin:
        topics = admin.binned_topics(timeout=timeout)
    if current().json:
        print_json({"topics": [asdict(topic) for topic in topics]})
        return
    print_table(
        ["topic", "id", "partitions", "deleted", "gone for good"],
        [[topic.name, topic.id, topic.partitions, topic.binned_at, topic.purge_at] for topic in topics],
        empty="The recycle bin is empty.",
    )


@click.command(
    "restore",
    cls=ChangingCommand,
    short_help="Take a topic out of the recycle bin.",
    examples=["penstock topic restore orders", "penstock topic restore orders --as orders-before"],
)
@click.argument("topic")
@click.option("--as", "name", help="Another name, for when a new topic has the old one.")
@timeout_option
def topic_restore(topic: str, name: str | None, timeout: float) -> None:
    """Take a topic out of the recycle bin, with its messages, offsets, committed offsets and settings.

    TOPIC is the name that it had, or its id where the bin holds several of one name.
    """
    with closing(admin_client()) as admin:
        found = _only(topic, admin.binned_topics(timeout=timeout))
        with progress(f"Restoring {found.name}"):
            restored = admin.restore_topic(found.id, name, timeout=timeout)
    if current().json:
        print_json(topic_json(restored))
        return
    if restored.delivered:
        say(f"Restored {restored.name}.")
        return
    why = "; ".join(str(condition.get("message")) for condition in restored.conditions)
    say(f"{restored.name} is to be restored{f': {why}' if why else ', once the brokers can be reached'}.")


@click.command("purge", cls=ChangingCommand, examples=["penstock topic purge orders --yes"])
@click.argument("topic")
@click.option("--yes", is_flag=True, help="Do not ask.")
@timeout_option
def topic_purge(topic: str, yes: bool, timeout: float) -> None:
    """Delete a topic in the recycle bin for good. It asks before, and needs --yes where there is no terminal.

    TOPIC is the name that it had, or its id where the bin holds several of one name.
    """
    with closing(admin_client()) as admin:
        found = _only(topic, admin.binned_topics(timeout=timeout))
        if not yes:
            must_agree(
                f"Topic {found.name} ({found.id}) and all of its messages will be gone for good. Go on?"
            )
        with progress(f"Purging {found.name}"):
            admin.purge_topic(found.id, timeout=timeout)
    if current().json:
        print_json({"topic": found.name, "id": found.id, "purged": True})
        return
    say(f"Purged {found.name}.")


def _only(wanted: str, topics: "Sequence[BinnedTopic]") -> "BinnedTopic":
    """The one of this id or name. Raises `NotFound`, `click.UsageError` (several have the name)."""
    found = [topic for topic in topics if wanted == topic.id] or [t for t in topics if wanted == t.name]
    if not found:
        raise NotFound(f"topic {wanted[:64]!r} is not in the recycle bin")
    if len(found) > 1:
        ids = ", ".join(f"{topic.id} (deleted {topic.binned_at})" for topic in found)
        raise click.UsageError(
            f"The recycle bin holds {len(found)} topics {wanted}; name one by its id: {ids}."
        )
    return found[0]
