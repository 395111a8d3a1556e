"""The cluster in the metadata store: its id and feature level, written by its first broker, checked by every other one
(RL54).
"""

import asyncio

from data_plane.controller.features import at_level
from data_plane.metadata import broker_records
from data_plane.metadata.features import FEATURES_KEY, refusal
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Compare, MetaStore, OutcomeUnknown, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from penstock.contract.errors import ConfigurationError


async def ensure_cluster(config: NodeConfig, view: MetadataView, store: MetaStore) -> None:
    """Raises `ConfigurationError` when the store belongs to another cluster, or to one at a feature level that this
    broker does not support. A new cluster begins at the highest level of its first broker.
    """
    while not view.image.cluster_id:
        try:
            await store.txn(
                [Compare(broker_records.CLUSTER_KEY, 0), Compare(FEATURES_KEY, 0)],
                at_level(config.cluster_id, config.supported.highest),
            )
        except (StoreUnavailable, OutcomeUnknown):
            await asyncio.sleep(config.timings.reconnect_ms / 1000)
        await view.load()
    if view.image.cluster_id != config.cluster_id:
        raise ConfigurationError(
            f"cluster_id: the metadata store belongs to {view.image.cluster_id!r}, "
            f"this broker is configured for {config.cluster_id!r}"
        )
    check_level(config, view.image)


def check_level(config: NodeConfig, image: ClusterImage) -> None:
    """Raises `ConfigurationError` when this broker does not support the feature level in force."""
    reason = refusal(image.level, config.supported)
    if reason:
        raise ConfigurationError(reason)
