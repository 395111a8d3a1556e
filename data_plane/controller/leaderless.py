"""Which partitions have no leader, and which topic they belong to."""

from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import TopicRecord
from penstock.contract.ids import NO_BROKER, SYSTEM_TENANT, TenantId, TopicPartition


class Leaderless:
    """Looks through the image once a revision."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._revision = -1
        self._found: dict[TopicPartition, TopicRecord] = {}

    def partitions(self) -> dict[TopicPartition, TopicRecord]:
        """Of tenants' topics that could be used else, in a fixed order: nothing of a suspended tenant's, and nothing
        in the recycle bin.
        """
        image = self._image
        if image.revision != self._revision:
            self._revision = image.revision
            if not image.leader_counts[NO_BROKER]:
                self._found = {}
                return self._found
            self._found = {
                TopicPartition(topic_id, record.partition): image.topics[topic_id]
                for topic_id in sorted(image.blocks)
                if topic_id in image.topics
                and image.topics[topic_id].tenant != SYSTEM_TENANT
                and not image.topics[topic_id].binned
                and not self._is_suspended(image.topics[topic_id].tenant)
                for record in image.partitions_of(topic_id)
                if record.leader == NO_BROKER
            }
        return self._found

    def _is_suspended(self, tenant: TenantId) -> bool:
        record = self._image.tenants.get(tenant)
        return record is not None and record.suspended
