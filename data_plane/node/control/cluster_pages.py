"""What DescribeCluster lists, in pages: tenants, topics, keys and partitions, each in the order of their ids.

A page is made in one turn of the event loop, so it holds little, however much the cluster holds.
"""

import json
from bisect import bisect_right
from functools import lru_cache
from itertools import islice

from data_plane.contract import admin_pb2 as pb
from data_plane.metadata import model
from data_plane.metadata.image import ClusterImage
from data_plane.node.ports import CallFailed
from penstock.contract.errors import ErrorCode
from penstock.contract.ids import TenantId, TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.budgets import budgets_digest

PAGE_ITEMS = 500
"""A few ms of one turn. The partitions of one topic stay together, so a page may hold those of one topic more."""


_PRINCIPALS_AN_ITEM = 50
"""The digest of so many principals' limits takes about as long as an item."""
_SETTINGS_KEPT = 1_000
"""Of most topics the settings are the same as of many others."""


def add_page(
    response: pb.DescribeClusterResponse,
    image: ClusterImage,
    after: str,
    *,
    objects: bool = False,
    partitions: bool = False,
) -> str:
    """Add the items that follow `after` (empty: the first ones). Returns the next `after`, empty at the end.

    Raises `CallFailed` for an `after` that ends no page.
    """
    kinds = [
        *((("tenants", image.tenants_in_order, _add_tenant),) if objects else ()),
        *((("topics", image.topics_in_order, _add_topic),) if objects else ()),
        *((("keys", image.keys_in_order, _add_key),) if objects else ()),
        *((("partitions", image.topics_in_order, _add_partitions),) if partitions else ()),
    ]
    names = [name for name, _, _ in kinds]
    kind, _, last = after.partition("/")
    if after and kind not in names:
        raise CallFailed(
            ErrorCode.INVALID_REQUEST, f"after {after[:64]!r}: no page of this service ends there"
        )
    left = PAGE_ITEMS
    for name, ids, add in kinds[names.index(kind) if after else 0 :]:
        for one in islice(ids, bisect_right(ids, last), None):
            if left <= 0:
                return f"{name}/{last}"
            left -= add(response, image, one)
            last = one
        last = ""
    return ""


def _add_tenant(response: pb.DescribeClusterResponse, image: ClusterImage, tenant: str) -> int:
    record = image.tenants[TenantId(tenant)]
    rules = image.access_lists.get(TenantId(tenant))
    response.tenants.add(
        tenant=tenant,
        generation=record.generation,
        quotas=pb.TenantQuotas(
            produce_bytes_per_s=record.quotas.produce_bytes_per_s,
            partitions_max=record.quotas.partitions_max,
            consume_bytes_per_s=record.quotas.consume_bytes_per_s,
            connections_max=record.quotas.connections_max,
            groups_max=record.quotas.groups_max,
            requests_per_s=record.quotas.requests_per_s,
            connection_attempts_per_s=record.quotas.connection_attempts_per_s,
            rate_burst_ms=record.quotas.rate_burst_ms,
            rate_floor_percent=record.quotas.rate_floor_percent,
            storage_bytes_max=record.quotas.storage_bytes_max,
            kept_bytes_max=record.quotas.kept_bytes_max,
            broker_processor_ms_per_s=record.quotas.broker_processor_ms_per_s,
        ),
        suspended=record.suspended,
        access_list_generation=0 if rules is None else rules.generation,
        access_list_digest="" if rules is None else rules.digest,
        principal_limits_digest=record.principals_digest,
        budgets_digest=budgets_digest(record.budgets),
    )
    return 1 + len(record.principals) // _PRINCIPALS_AN_ITEM


def _add_topic(response: pb.DescribeClusterResponse, image: ClusterImage, topic_hex: str) -> int:
    describe_topic(response.topics.add(), image.topics[TopicId(bytes.fromhex(topic_hex))])
    return 1


def describe_topic(described: pb.DescribedTopic, topic: model.TopicRecord) -> None:
    described.tenant, described.name, described.topic_id = topic.tenant, topic.name, topic.topic_id
    described.partitions, described.generation = topic.partitions, topic.generation
    described.settings_json = _settings_json(topic.settings)
    described.binned = topic.binned


@lru_cache(maxsize=_SETTINGS_KEPT)
def _settings_json(settings: TopicSettings) -> str:
    return json.dumps(settings.to_dict())


def _add_key(response: pb.DescribeClusterResponse, image: ClusterImage, key_id: str) -> int:
    record = image.keys[key_id]
    response.keys.add(
        key_id=key_id,
        tenant=record.tenant,
        principal=record.principal,
        revoked=record.revoked,
        expires_at_ms=record.expires_at_ms,
        generation=record.generation,
        bindings=[
            pb.Binding(
                topic_prefix=binding.topic_prefix,
                operations=binding.operations,
                resource=binding.resource,
                literal=binding.literal,
            )
            for binding in record.bindings
        ],
        owner=record.owner,
    )
    return 1


def _add_partitions(response: pb.DescribeClusterResponse, image: ClusterImage, topic_hex: str) -> int:
    topic_id = TopicId(bytes.fromhex(topic_hex))
    topic = image.topics[topic_id]
    records = image.partitions_of(topic_id)
    for record in records:
        response.partitions.add(
            tenant=topic.tenant,
            topic=topic.name,
            topic_id=topic_id,
            partition=record.partition,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            replicas=record.replicas,
            in_sync=record.in_sync,
            eligible=record.eligible,
            last_known=record.last_known,
            log_generation=record.log_generation,
            target=record.target,
            adding=record.adding,
        )
    return max(1, len(records))
