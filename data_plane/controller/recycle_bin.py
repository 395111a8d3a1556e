"""Putting topics into the recycle bin and taking them out, as compare-and-set transactions like those of `topics`.

    live --binned--> in the bin --restored, under its name or another one--> live
    live, in the bin --deleted (`topics.delete_topic`)--> tombstone

A topic in the bin keeps its id, its partitions and all that they hold; only the name no longer leads to it, so that
another topic can take it (RL1). Brokers go on to lead, replicate, meter and move it.
"""

from dataclasses import replace

from data_plane.controller.tenants import Transaction, outdated
from data_plane.metadata import model
from data_plane.metadata.features import BIN
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Compare, Delete, Put
from penstock.contract.errors import AlreadyExists, InvalidRequest, NotFound
from penstock.contract.ids import SYSTEM_TENANT, TenantId, TopicId
from penstock.rules.names import check_topic_name

_NOTHING = Transaction(compares=(), changes=())
_IGNORED = Transaction(compares=(), changes=(), ignored=True)


def bin_topic(
    image: ClusterImage, tenant: TenantId, topic_id: TopicId, *, generation: int = 0
) -> Transaction:
    """Put the topic into the bin; no changes if it lies there.

    Raises `InvalidRequest` (the feature level is too low, one of the service's own topics), `NotFound`, also for
    another tenant's topic and for one that was deleted.
    """
    if tenant == SYSTEM_TENANT:
        raise InvalidRequest(f"tenant {tenant!r}: the service's own topics stay")
    if image.level < BIN:
        raise InvalidRequest(
            f"the recycle bin needs feature level {BIN}: upgrade every broker, then"
            f" `penstock cluster features --raise {BIN}`; until then topics can only be deleted for good"
        )
    topic = _topic(image, tenant, topic_id)
    if outdated(generation, topic.generation):
        return _IGNORED
    after = replace(topic, binned=True, generation=max(generation, topic.generation))
    if after == topic:
        return _NOTHING
    unbound = () if topic.binned else (Delete(model.name_key(tenant, topic.name)),)
    return Transaction(
        compares=(_as_known(image, topic_id),),
        changes=(Put(model.topic_key(topic_id), after.encode()), *unbound),
    )


def restore_topic(
    image: ClusterImage, tenant: TenantId, topic_id: TopicId, name: str, *, generation: int = 0
) -> Transaction:
    """Take the topic out of the bin under this name, its own or a new one; no changes if it is live under it.

    Raises `AlreadyExists` (another topic has the name), `InvalidRequest` (of the name; or the topic is live under
    another one), `NotFound` as `bin_topic` does.
    """
    check_topic_name(tenant, name)
    topic = _topic(image, tenant, topic_id)
    if outdated(generation, topic.generation):
        return _IGNORED
    if not topic.binned and topic.name != name:
        raise InvalidRequest(f"topic {topic.name!r} is not in the recycle bin, and keeps its name")
    after = replace(topic, name=name, binned=False, generation=max(generation, topic.generation))
    if after == topic:
        return _NOTHING
    topic_key, name_key = model.topic_key(topic_id), model.name_key(tenant, name)
    if not topic.binned:
        return Transaction(compares=(_as_known(image, topic_id),), changes=(Put(topic_key, after.encode()),))
    if (tenant, name) in image.names:
        raise AlreadyExists(f"topic {name!r} exists: restore {topic.name!r} under another name")
    return Transaction(
        compares=(_as_known(image, topic_id), Compare(name_key, 0)),
        changes=(Put(topic_key, after.encode()), Put(name_key, topic_id.hex().encode())),
    )


def _topic(image: ClusterImage, tenant: TenantId, topic_id: TopicId) -> model.TopicRecord:
    topic = image.topics.get(topic_id)
    if topic is None or topic.tenant != tenant:
        raise NotFound(f"topic id {topic_id.hex()[:32]} does not exist")
    return topic


def _as_known(image: ClusterImage, topic_id: TopicId) -> Compare:
    return Compare(model.topic_key(topic_id), image.topic_revisions[topic_id])
