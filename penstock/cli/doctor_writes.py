"""Whether the brokers take writes: asked of each broker that leads, with a batch that none ever stores."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.cli.broker_calls import connected, write_refusal
from penstock.cli.display import counted
from penstock.cli.doctor_checks import Finding, doubtful, skipped, well, wrong
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import (
    BrokerUnavailable,
    CorruptBatch,
    DiskFull,
    Forbidden,
    NotEnoughReplicas,
    PenstockError,
)

if TYPE_CHECKING:
    from penstock import BrokerDescription, TopicDescription

_CHECK = "writes"
_NAMED_MAX = 5


def writes(
    given: ConnectionSettings,
    brokers: Sequence["BrokerDescription"],
    topics: Sequence["TopicDescription"],
    timeout_s: float,
) -> Iterator[Finding]:
    """That enough copies are in sync for `acks=all`, and that no leading broker refuses for want of disk space."""
    short = [
        f"{topic.name}-{partition.partition}: {len(partition.in_sync)} in sync, {needed} required"
        for topic in topics
        for partition in topic.partitions
        if partition.leader >= 0
        and len(partition.in_sync) < (needed := int(topic.settings.get("min_insync_replicas", 1)))
    ]
    if short:
        fact = f"{counted(len(short), 'partition')} refused to producers that ask for all copies: "
        yield wrong(
            _CHECK,
            NotEnoughReplicas(fact + "; ".join(short[:_NAMED_MAX])),
            "Start the brokers that are down (penstock dev status), or lower the topic's min_insync_replicas.",
        )
    led = {
        partition.leader: (topic.topic_id, partition.partition)
        for topic in topics
        for partition in topic.partitions
        if partition.leader >= 0
    }
    if not led:
        yield skipped(_CHECK, "no topic is led, so no broker is asked")
        return
    addresses = {broker.broker: broker.address for broker in brokers}
    taken = []
    for number in sorted(set(led) & set(addresses)):
        found = _finding(number, _refusal(given, addresses[number], led[number], timeout_s))
        if found is None:
            taken.append(str(number))
        else:
            yield found
            if found.state.value == "skipped":
                return
    if taken and not short:
        yield well(_CHECK, f"taken by {counted(len(taken), 'broker')}: {', '.join(taken)}")


def _finding(broker: int, refusal: PenstockError) -> Finding | None:
    """What the answer says of writes; None = they are taken."""
    match refusal:
        case CorruptBatch():
            return None
        case Forbidden():
            return skipped(_CHECK, "the key may not send, so it is not known whether writes are taken")
        case DiskFull():
            return wrong(
                _CHECK,
                type(refusal)(f"broker {broker}: {refusal.message}"),
                "Free space on that broker's disk, shorten retention or add a broker. Reading goes on.",
            )
        case _ if refusal.retriable:
            return doubtful(_CHECK, f"broker {broker}: {refusal.message}", refusal.remedy)
        case _:
            return wrong(_CHECK, type(refusal)(f"broker {broker}: {refusal.message}"))


def _refusal(
    given: ConnectionSettings, address: str, led: tuple[str, int], timeout_s: float
) -> PenstockError:
    try:
        with connected(given, address, timeout_s) as channel:
            return write_refusal(given, address, channel, *led, timeout_s)
    except BrokerUnavailable as error:
        return error
