"""Taking brokers out of use: the cordon an operator puts on one, and forgetting one that holds nothing any more.

    in use --cordon--> cordoned (keeps what no other broker has yet) --nothing left, stopped--> forgotten
    cordoned --uncordon--> in use

A cordoned broker is given no new replica and no leadership that another one could take; it goes on serving.
"""

from data_plane.controller.tenants import Transaction, outdated
from data_plane.metadata import broker_records
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Compare, Delete, Put
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.ids import BrokerId

_NOTHING = Transaction(compares=(), changes=())
_LISTED_MAX = 5


def cordon(image: ClusterImage, broker: BrokerId, *, cordoned: bool, generation: int = 0) -> Transaction:
    """Put the cordon on a broker, or take it off. Raises `NotFound`. Generations count as in `tenants`."""
    if broker not in image.brokers:
        raise NotFound(f"broker {broker} is not known")
    existing = image.cordons.get(broker)
    before = broker_records.CordonRecord(broker_id=broker, cordoned=False) if existing is None else existing
    if outdated(generation, before.generation):
        return Transaction(compares=(), changes=(), ignored=True)
    after = broker_records.CordonRecord(
        broker_id=broker, cordoned=cordoned, generation=max(generation, before.generation)
    )
    if after == before:
        return _NOTHING
    key = broker_records.cordon_key(broker)
    return Transaction(
        compares=(Compare(key, image.cordon_revisions.get(broker, 0)),), changes=(Put(key, after.encode()),)
    )


def kept_on(image: ClusterImage, broker: BrokerId) -> list[str]:
    """Names of the partitions that count this broker among their replicas, in order."""
    return [
        f"{image.topics[topic_id].name}-{record.partition}"
        for topic_id in sorted(image.blocks)
        if topic_id in image.topics
        for record in image.partitions_of(topic_id)
        if broker in record.replicas
    ]


def forget_broker(image: ClusterImage, broker: BrokerId) -> Transaction:
    """Remove what is known of a broker that has stopped and holds nothing. Raises `InvalidRequest` with the reason.

    One that is unknown is forgotten already. It must be cordoned: so nothing new can have been placed on it.
    """
    known = image.brokers.get(broker)
    if known is None:
        return _NOTHING
    if not image.cordoned(broker):
        raise InvalidRequest(f"broker {broker}: drain it first")
    if known.epoch:
        raise InvalidRequest(f"broker {broker}: it still runs; stop it first")
    names = kept_on(image, broker)
    if names:
        more = f" and {len(names) - _LISTED_MAX} more" if len(names) > _LISTED_MAX else ""
        raise InvalidRequest(f"broker {broker}: it still holds {', '.join(names[:_LISTED_MAX])}{more}")
    about, cordon_at = broker_records.broker_key(broker), broker_records.cordon_key(broker)
    return Transaction(
        compares=(
            Compare(broker_records.live_key(broker), 0),
            Compare(about, known.record_revision),
            Compare(cordon_at, image.cordon_revisions[broker]),
        ),
        changes=(Delete(about), Delete(cordon_at)),
    )
