"""`penstock topic create`, `alter` and `delete`: changes of the tenant's topics, over REST."""

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.confirmation import must_agree
from penstock.cli.invocation import Command, current
from penstock.cli.output import print_json, progress, say
from penstock.cli.quantities import Duration, Size
from penstock.cli.rest import admin_client
from penstock.contract.topic_settings import Durability, RetentionBasis, TimestampType

if TYPE_CHECKING:
    from penstock.admin.objects import Topic

_TIMEOUT_S = 15.0
_NOT_YET = "no answer of the brokers yet; they get it as soon as they can be reached"

_KEYS_MOVE = (
    "Keys move: with {after} partitions instead of {before} a key may go to another one than before, so its new "
    "messages may be read before its older ones. Where that matters, let consumers read up to the end first."
)

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])

timeout_option = click.option(
    "--timeout", type=float, default=_TIMEOUT_S, show_default=True, help="Seconds to wait for an answer."
)


def _names(choices: type[Durability] | type[RetentionBasis] | type[TimestampType]) -> click.Choice[str]:
    return click.Choice([choice.name.lower() for choice in choices])


def _changeable(command: _FunctionT) -> _FunctionT:
    """Settings that may be given at any time."""
    for option in reversed(
        (
            click.option("--min-insync", type=int, help="Copies an acknowledgement needs at least."),
            click.option(
                "--durability",
                type=_names(Durability),
                help="What an acknowledgement means: on disk, or in memory, of every in-sync copy.",
            ),
            click.option(
                "--retention-ms",
                type=Duration(),
                help="Keep messages this long (7d); -1 = no limit.",
            ),
            click.option(
                "--retention-bytes", type=Size(), help="Keep this much per partition (1GiB); -1 = no limit."
            ),
            click.option(
                "--retention-basis", type=_names(RetentionBasis), help="Which time retention goes by."
            ),
            click.option(
                "--segment-bytes", type=Size(), help="Size of one file of the log; deleted at once."
            ),
            click.option("--max-message-bytes", type=Size(), help="Largest message (1MiB)."),
        )
    ):
        command = option(command)
    return command


@click.command(
    "create",
    cls=Command,
    examples=[
        "penstock topic create orders --partitions 6",
        "penstock topic create clicks --partitions 3 --durability replicated --retention-ms 1d --retention-bytes 1GiB",
    ],
)
@click.argument("name")
@click.option("--partitions", type=int, required=True, help="How many partitions; more keys in parallel.")
@click.option("--replication", type=int, help="Copies of each message.")
@click.option("--timestamp-type", type=_names(TimestampType), help="Whose clock stamps messages.")
@_changeable
@timeout_option
def topic_create(name: str, partitions: int, timeout: float, **options: Any) -> None:
    """Create a topic. What is not given is as the service's defaults say."""
    with closing(admin_client()) as admin, progress(f"Creating {name}"):
        topic = admin.create_topic(name, partitions, timeout=timeout, **_settings(options))
    _tell("Created", "created", topic)


@click.command(
    "alter",
    cls=Command,
    short_help="Change settings of a topic, or add partitions.",
    examples=[
        "penstock topic alter orders --retention-ms 7d",
        "penstock topic alter orders --partitions 12",
        "penstock topic alter orders --replication 3",
    ],
)
@click.argument("name")
@click.option("--partitions", type=int, help="The new number of partitions; it can only grow.")
@click.option("--replication", type=int, help="Copies of each message; reached one copy at a time.")
@_changeable
@timeout_option
def topic_alter(name: str, partitions: int | None, timeout: float, **options: Any) -> None:
    """Change settings of a topic, or add partitions; what is not given stays.

    More partitions move keys: what is sent from now on may go to another partition than older messages with its key,
    and order holds within a partition only.
    """
    settings = _settings(options)
    if not settings and partitions is None:
        raise click.UsageError("Nothing to change: give a setting or --partitions.")
    with closing(admin_client()) as admin:
        if partitions is not None:
            before = admin.topic(name, timeout=timeout).partitions
            if partitions > before:
                say(_KEYS_MOVE.format(before=before, after=partitions))
        with progress(f"Changing {name}"):
            topic = admin.update_topic(name, settings, partitions=partitions, timeout=timeout)
        if "replication" in settings:
            say(f"Copies are made or given up one at a time: penstock topic describe {name}")
    _tell("Changed", "changed", topic)


@click.command(
    "delete", cls=Command, examples=["penstock topic delete orders", "penstock topic delete orders --yes"]
)
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@timeout_option
def topic_delete(name: str, yes: bool, timeout: float) -> None:
    """Delete a topic with all of its messages. It asks before, and needs --yes where there is no terminal."""
    if not yes:
        must_agree(f"Topic {name} and all of its messages will be gone for good. Go on?")
    with closing(admin_client()) as admin, progress(f"Deleting {name}"):
        admin.delete_topic(name, timeout=timeout)
    if current().json:
        print_json({"topic": name, "deleted": True})
        return
    say(f"Deleted {name}.")


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """The settings given, by their names."""
    values = {key: value for key, value in options.items() if value is not None}
    if "min_insync" in values:
        values["min_insync_replicas"] = values.pop("min_insync")
    return values


def topic_json(topic: "Topic") -> dict[str, Any]:
    """A topic as it is wanted, for programs."""
    return {
        "topic": topic.name,
        "id": topic.id,
        "topic_id": topic.topic_id,
        "partitions": topic.partitions,
        "settings": dict(topic.settings),
        "generation": topic.generation,
        "delivered": topic.delivered,
        "conditions": [dict(condition) for condition in topic.conditions],
    }


def _tell(done: str, wanted: str, topic: "Topic") -> None:
    """What was done; or that it is only wanted, and what keeps the brokers from it."""
    if current().json:
        print_json(topic_json(topic))
        return
    if not topic.delivered:
        why = "; ".join(str(condition.get("message")) for condition in topic.conditions) or _NOT_YET
        say(f"{topic.name} is to be {wanted}, and the brokers have not done so: {why}.")
        say(f"It is tried again by itself. Look again: penstock topic describe {topic.name}")
        return
    settings = topic.settings
    say(
        f"{done} {topic.name}: {topic.partitions} partition{'s' if topic.partitions > 1 else ''}, "
        f"replication {settings.get('replication')}, min_insync {settings.get('min_insync_replicas')}, "
        f"durability {settings.get('durability')}."
    )
