"""Identities shared by every plane: distinct types, so that one cannot be taken for another."""

from typing import NamedTuple, NewType

TenantId = NewType("TenantId", str)
"""Public id of a tenant, for instance `tn_4f0c…`; the system tenant is `SYSTEM_TENANT`."""

TopicId = NewType("TopicId", bytes)
"""Random bytes, given once at creation and never used again (RL1)."""
TOPIC_ID_BYTES = 16

PARTITION_MAX = 2**31 - 1
"""Numbers of partitions are int32 in every format."""

BrokerId = NewType("BrokerId", int)
BROKER_ID_MAX = 999_999
"""Keys of the metadata store hold six digits."""
BrokerEpoch = NewType("BrokerEpoch", int)
"""Metadata revision of a broker's registration; grows over the whole cluster (RL3)."""

LeaderEpoch = NewType("LeaderEpoch", int)
PrincipalNumber = NewType("PrincipalNumber", int)
"""uint32, given once per cluster and never used again; 0 is the service itself."""

SYSTEM_TENANT = TenantId("_system")
INTERNAL_PRINCIPAL = PrincipalNumber(0)
NO_PRODUCER_ID = -1
NO_BROKER = BrokerId(-1)


class TopicPartition(NamedTuple):
    """One partition of one topic, by topic id: the key of everything that is stored or replicated."""

    topic_id: TopicId
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id.hex()}-{self.partition}"


NamedPartition = tuple[str, int]
"""One partition of one topic, by topic name: what users of the SDK and the command line give and get. After the topic
was deleted the name may mean another topic.
"""
