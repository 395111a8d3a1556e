"""`penstock topic create`, `alter` and `delete`: changes of the tenant's topics, over REST."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import fields
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from penstock.admin.objects import NewTopic, TopicOutcome
from penstock.cli.confirmation import must_agree
from penstock.cli.dry_run import ChangingCommand
from penstock.cli.exit_codes import exit_code
from penstock.cli.invocation import current
from penstock.cli.output import print_json, print_table, progress, say
from penstock.cli.quantities import Duration, Size
from penstock.cli.rest import admin_client
from penstock.cli.waits import SECONDS
from penstock.contract import limits
from penstock.contract.topic_settings import FIXED, Durability, RetentionBasis, TimestampType, TopicSettings

if TYPE_CHECKING:
    from penstock.admin.objects import Topic

_TIMEOUT_S = 15.0
_CHANGEABLE_NAMES = [setting.name for setting in fields(TopicSettings) if setting.name not in FIXED]
_NAMES_MAX = 100_000
"""Names that one call of the command takes from a file."""
_NOT_YET = "no answer of the brokers yet; they get it as soon as they can be reached"

_KEYS_MOVE = (
    "Keys move: with {after} partitions instead of {before} a key may go to another one than before, so its new "
    "messages may be read before its older ones. Where that matters, let consumers read up to the end first."
)

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])

timeout_option = click.option(
    "--timeout", type=SECONDS, default=_TIMEOUT_S, show_default=True, help="Seconds to wait for an answer."
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
    cls=ChangingCommand,
    short_help="Create a topic, or many.",
    examples=[
        "penstock topic create orders --partitions 6",
        "penstock topic create clicks --partitions 3 --durability replicated --retention-ms 1d --retention-bytes 1GiB",
        "penstock topic create north south east west --partitions 3",
        "penstock topic create --file lines.txt --partitions 3",
    ],
)
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option(
    "--file", "stream", type=click.File("rb"), help="One name a line from this file; - = standard input."
)
@click.option("--partitions", type=int, required=True, help="How many partitions; more keys in parallel.")
@click.option("--replication", type=int, help="Copies of each message.")
@click.option("--timestamp-type", type=_names(TimestampType), help="Whose clock stamps messages.")
@_changeable
@timeout_option
@click.pass_context
def topic_create(
    context: click.Context,
    /,
    names: tuple[str, ...],
    stream: BinaryIO | None,
    partitions: int,
    timeout: float,
    **options: Any,
) -> None:
    """Create a topic, or many with the same settings. What is not given is as the service's defaults say.

    Of many topics each is made or refused on its own, up to 1,000 in one request. The first refusal is what the command
    ends with.
    """
    if bool(names) == (stream is not None):
        raise click.UsageError("Give names, or a file of them with --file.")
    if current().dry_run and (stream is not None or len(names) > 1):
        raise click.UsageError("--dry-run is of one topic; for many: penstock diff -f FILE.")
    if stream is None and len(names) == 1:
        with closing(admin_client()) as admin, progress(f"Creating {names[0]}"):
            topic = admin.create_topic(names[0], partitions, timeout=timeout, **_settings(options))
        _tell("Created", "created", topic)
        return
    wanted = list(names) if stream is None else _lines(stream)
    settings = _settings(options)
    outcomes: list[TopicOutcome] = []
    with closing(admin_client()) as admin, progress("Creating topics", total=len(wanted)) as bar:
        for some in _together(wanted, partitions):
            asked = [NewTopic(name, partitions, settings) for name in some]
            outcomes += admin.create_topics(asked, timeout=timeout)
            bar.to(len(outcomes))
    _tell_outcomes(outcomes)
    refused = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
    if refused is not None:
        sys.stdout.flush()
        context.exit(int(exit_code(refused)))


def _lines(stream: BinaryIO) -> list[str]:
    """The names in a file, without empty lines. Raises `click.UsageError`."""
    names: list[str] = []
    for number, line in enumerate(stream, 1):
        try:
            name = line.decode().strip()
        except UnicodeDecodeError:
            raise click.UsageError(f"--file: line {number} is no UTF-8 text.") from None
        if name:
            names.append(name)
        if len(names) > _NAMES_MAX:
            raise click.UsageError(f"--file: over {_NAMES_MAX} names; divide it.")
    if not names:
        raise click.UsageError("--file: no name in it.")
    return names


def _together(names: Sequence[str], partitions: int) -> Iterator[Sequence[str]]:
    """As many as one request takes.."""
    most = max(1, min(limits.TOPICS_PER_CALL_MAX, limits.PARTITIONS_PER_TOPIC_MAX // max(1, partitions)))
    for first in range(0, len(names), most):
        yield names[first : first + most]


def _tell_outcomes(outcomes: Sequence[TopicOutcome]) -> None:
    """Each topic with what became of it, and how many of them there are."""
    if current().json:
        print_json({"topics": [_outcome_json(outcome) for outcome in outcomes]})
        return
    rows = [
        [outcome.name, _state(outcome), outcome.error.message if outcome.error else ""]
        for outcome in outcomes
    ]
    print_table(["topic", "state", "why"], rows)
    states = Counter(_state(outcome) for outcome in outcomes)
    said = [f"{states['created']} created"]
    if states["on its way"]:
        said.append(f"{states['on its way']} on their way: {_NOT_YET}")
    if states["refused"]:
        said.append(f"{states['refused']} refused")
    say(", ".join(said) + ".")


def _state(outcome: TopicOutcome) -> str:
    if outcome.topic is None:
        return "refused"
    return "created" if outcome.topic.delivered else "on its way"


def _outcome_json(outcome: TopicOutcome) -> dict[str, Any]:
    if outcome.topic is not None:
        return topic_json(outcome.topic)
    error = outcome.error
    return {
        "topic": outcome.name,
        "error": None if error is None else {"code": error.code.name, "message": error.message},
    }


@click.command(
    "alter",
    cls=ChangingCommand,
    short_help="Change settings of a topic, or add partitions.",
    examples=[
        "penstock topic alter orders --retention-ms 7d",
        "penstock topic alter orders --partitions 12",
        "penstock topic alter orders --replication 3",
        "penstock topic alter orders --default retention_ms",
    ],
)
@click.argument("name")
@click.option("--partitions", type=int, help="The new number of partitions; it can only grow.")
@click.option("--replication", type=int, help="Copies of each message; reached one copy at a time.")
@_changeable
@click.option(
    "--default",
    "defaults",
    multiple=True,
    metavar="SETTING",
    type=click.Choice(_CHANGEABLE_NAMES),
    help="Give this setting (as retention_ms) the service's default again, and what followed it; may be repeated.",
)
@timeout_option
def topic_alter(
    name: str, partitions: int | None, defaults: tuple[str, ...], timeout: float, **options: Any
) -> None:
    """Change settings of a topic, or add partitions; what is not given stays.

    More partitions move keys: what is sent from now on may go to another partition than older messages with its key,
    and order holds within a partition only.
    """
    settings = _settings(options)
    for setting in defaults:
        if settings.setdefault(setting) is not None:
            raise click.UsageError(f"--default {setting}: it is given another value too.")
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
    "delete",
    cls=ChangingCommand,
    short_help="Delete a topic: into the recycle bin, or for good.",
    examples=["penstock topic delete orders", "penstock topic delete orders --purge --yes"],
)
@click.argument("name")
@click.option("--purge", is_flag=True, help="For good, at once: not into the recycle bin.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@timeout_option
def topic_delete(name: str, purge: bool, yes: bool, timeout: float) -> None:
    """Delete a topic: it goes into the recycle bin, from which `penstock topic restore` brings it back.

    How long it stays there says the tenant's plan (`bin_days`; without it the topic is deleted for good at once). It
    asks before, and needs --yes where there is no terminal.
    """
    if not yes:
        kept = "" if purge else " where the tenant's plan has no recycle bin (penstock tenant show)"
        must_agree(f"Topic {name} and all of its messages will be gone for good{kept}. Go on?")
    with closing(admin_client()) as admin, progress(f"Deleting {name}"):
        purge_at = admin.delete_topic(name, purge=purge, timeout=timeout)
    if current().json:
        print_json({"topic": name, "deleted": True, "purge_at": purge_at})
        return
    if purge_at is None:
        say(f"Deleted {name} for good.")
        return
    say(f"Deleted {name}. Until {purge_at} it can be restored: penstock topic restore {name}")


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
