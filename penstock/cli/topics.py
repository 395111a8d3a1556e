"""`penstock topic list` and `topic describe`: what the tenant's key may see of topics.

The brokers say who leads and who is in sync; the control plane, if the profile names one, says what is wanted.
"""

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import display
from penstock.cli.connection import connect
from penstock.cli.hot_partitions import hot_because
from penstock.cli.invocation import Group, current
from penstock.cli.output import print_fact, print_json, print_part, print_table, say
from penstock.cli.quantities import in_unit
from penstock.cli.rest import admin_client, settings, why_none
from penstock.cli.topic_bin import topic_bin, topic_purge, topic_restore
from penstock.cli.topic_changes import topic_alter, topic_create, topic_delete, topic_json
from penstock.cli.topic_durability import topic_durability
from penstock.cli.topic_hot_keys import topic_hot_keys
from penstock.cli.topic_records import topic_delete_records
from penstock.cli.waits import SECONDS
from penstock.contract.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock import BrokerDescription, Client, PartitionDescription, TopicDescription
    from penstock.rules.survival import Survival

_TIMEOUT_S = 10.0
_NONE_YET = "No topics yet that this key may see. Make one: penstock topic create orders --partitions 3"
_WANTED = ("id", "generation", "delivered", "conditions", "hot_partitions")


@click.group(name="topic", cls=Group, path=("topic",))
def topic() -> None:
    """Topics: list, describe, create, alter, delete, restore; how safe their records are."""


topic.add_command(topic_create)
topic.add_command(topic_alter)
topic.add_command(topic_delete)
topic.add_command(topic_bin)
topic.add_command(topic_restore)
topic.add_command(topic_purge)
topic.add_command(topic_delete_records)
topic.add_command(topic_durability)
topic.add_command(topic_hot_keys)


@topic.command("list", examples=["penstock topic list"])
@click.option(
    "--timeout", type=SECONDS, default=_TIMEOUT_S, show_default=True, help="Seconds to wait for an answer."
)
def topic_list(timeout: float) -> None:
    """List the topics that the key may see."""
    if settings().api_url is not None:
        _list_wanted(timeout)
        return
    with connect() as client:
        topics = client.topics(timeout=timeout)
    if current().json:
        print_json({"topics": [_summary(description) for description in topics]})
        return
    rows = [list(_summary(description).values()) for description in topics]
    print_table(
        ["topic", "partitions", "without leader", "not fully in sync", "replication", "durability"],
        rows,
        empty=_NONE_YET,
    )


@topic.command("describe", examples=["penstock topic describe orders --offsets"])
@click.argument("name")
@click.option("--offsets", is_flag=True, help="Ask the leaders for the first and the next offset as well.")
@click.option(
    "--timeout", type=SECONDS, default=_TIMEOUT_S, show_default=True, help="Seconds to wait for an answer."
)
def topic_describe(name: str, offsets: bool, timeout: float) -> None:
    """Show settings, leaders and in-sync replicas of one topic."""
    wanted = _wanted(name, timeout)
    with connect() as client:
        description = client.topic(name, timeout=timeout)
        survives = _survival(description, client.brokers(timeout=timeout))
        partitions = [_partition(partition) for partition in description.partitions]
        if offsets:
            _add_offsets(client, name, partitions, timeout)
    if current().json:
        print_json(
            {
                "topic": description.name,
                "topic_id": description.topic_id,
                "settings": description.settings,
                "survives": asdict(survives),
                "partitions": partitions,
                **({} if wanted is None else {field: wanted[field] for field in _WANTED}),
            }
        )
        return
    name = display.line(description.name)
    print_fact("topic", [description.name, description.topic_id], f"{name}  (id {description.topic_id})")
    if wanted is not None and not wanted["delivered"]:
        say(f"The brokers do not have generation {wanted['generation']} yet.")
    for condition in [] if wanted is None else wanted["conditions"]:
        reason, message = str(condition.get("reason")), str(condition.get("message"))
        print_fact("condition", [reason, message], display.line(f"{reason}: {message}"))
    for hot in [] if wanted is None else wanted["hot_partitions"]:
        rates = [hot.get("partition"), hot.get("bytes_in_per_s"), hot.get("bytes_out_per_s")]
        print_fact(
            "hot partition",
            [*rates, hot_because(hot)],
            display.line(f"{rates[0]}: {rates[1]} B/s in, {rates[2]} B/s out; {hot_because(hot)}"),
        )
    print_fact("survives", [survives.text], survives.text)
    rows = [[name, value, in_unit(name, value)] for name, value in sorted(description.settings.items())]
    print_part("setting", ["setting", "value", "that is"], rows)
    rows = [[_shown(value) for value in partition.values()] for partition in partitions]
    print_part("partition", [column.replace("_", " ") for column in partitions[0]], rows)


def _survival(description: "TopicDescription", brokers: "Sequence[BrokerDescription]") -> "Survival":
    """Where the copies are is not known while one of their brokers is not registered."""
    from penstock.contract.topic_settings import TopicSettings
    from penstock.rules.domains import LocatedBroker, locations, most_together
    from penstock.rules.survival import survival

    where = locations([LocatedBroker(id=b.broker, zone=b.zone, host=b.host) for b in brokers])
    settings = TopicSettings.from_dict(description.settings)
    return survival(
        replication=settings.replication,
        min_insync_replicas=settings.min_insync_replicas,
        durability=settings.durability,
        together=most_together(where, [partition.replicas for partition in description.partitions]),
    )


def _list_wanted(timeout: float) -> None:
    """The tenant's topics as the control plane has them."""
    with closing(admin_client()) as admin:
        topics = [topic_json(found) for found in admin.topics(timeout=timeout)]
    if current().json:
        print_json({"topics": topics})
        return
    rows = [
        [
            found["topic"],
            found["partitions"],
            found["settings"].get("replication"),
            found["settings"].get("durability"),
            "yes" if found["delivered"] else "not yet",
            "; ".join(str(condition.get("reason")) for condition in found["conditions"]),
        ]
        for found in topics
    ]
    print_table(
        ["topic", "partitions", "replication", "durability", "on the brokers", "condition"],
        rows,
        empty=_NONE_YET if topics else why_none("topics", _NONE_YET, timeout),
    )


def _wanted(name: str, timeout: float) -> dict[str, Any] | None:
    """The topic as it is wanted; None where no control plane is named or it knows nothing of the topic."""
    if settings().api_url is None:
        return None
    with closing(admin_client()) as admin:
        try:
            topic = admin.topic(name, timeout=timeout)
            return {**topic_json(topic), "hot_partitions": [dict(one) for one in topic.hot_partitions]}
        except NotFound:
            return None


def _summary(description: "TopicDescription") -> dict[str, Any]:
    return {
        "topic": description.name,
        "partitions": len(description.partitions),
        "without_leader": sum(p.leader < 0 for p in description.partitions),
        "not_fully_in_sync": sum(len(p.in_sync) < len(p.replicas) for p in description.partitions),
        "replication": description.settings.get("replication"),
        "durability": description.settings.get("durability"),
    }


def _partition(partition: "PartitionDescription") -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "leader": None if partition.leader < 0 else partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.in_sync),
        "log_generation": partition.log_generation,
    }


def _add_offsets(client: "Client", name: str, partitions: list[dict[str, Any]], timeout: float) -> None:
    with client.consumer([name]) as consumer:
        first = consumer.beginning_offsets(timeout=timeout)
        following = consumer.end_offsets(timeout=timeout)
    for partition in partitions:
        tp = (name, partition["partition"])
        partition["first_offset"], partition["next_offset"] = first[tp], following[tp]


def _shown(value: Any) -> Any:
    if value is None:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else value
