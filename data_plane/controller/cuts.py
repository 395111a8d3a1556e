"""The end of a period: no batch of a tenant's topics may be stamped before it from now on."""

from dataclasses import replace

from data_plane.controller.tenants import Transaction
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Compare, Put
from penstock.contract.ids import TopicId


def raise_floor(image: ClusterImage, topic_id: TopicId, end_ms: int) -> Transaction:
    """Every leader of the topic, present and to come, stamps at `end_ms` or later. No changes: so it is, or the topic
    is gone."""
    topic = image.topics.get(topic_id)
    if topic is None or topic.accepted_floor_ms >= end_ms:
        return Transaction(compares=(), changes=())
    key = model.topic_key(topic_id)
    return Transaction(
        compares=(Compare(key, image.topic_revisions[topic_id]),),
        changes=(Put(key, replace(topic, accepted_floor_ms=end_ms).encode()),),
    )
