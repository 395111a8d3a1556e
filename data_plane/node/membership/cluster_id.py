"""The id of the cluster in the metadata store: written by its first broker, checked by every other one (RL54)."""

import asyncio

from data_plane.metadata import model
from data_plane.metadata.port import Compare, MetaStore, OutcomeUnknown, Put, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from penstock.contract.errors import ConfigurationError


async def ensure_cluster_id(config: NodeConfig, view: MetadataView, store: MetaStore) -> None:
    """Raises `ConfigurationError` when the store belongs to another cluster."""
    while not view.image.cluster_id:
        record = model.ClusterRecord(cluster_id=config.cluster_id)
        try:
            await store.txn([Compare(model.CLUSTER_KEY, 0)], [Put(model.CLUSTER_KEY, record.encode())])
        except (StoreUnavailable, OutcomeUnknown):
            await asyncio.sleep(config.timings.reconnect_ms / 1000)
        await view.load()
    if view.image.cluster_id != config.cluster_id:
        raise ConfigurationError(
            f"cluster_id: the metadata store belongs to {view.image.cluster_id!r}, "
            f"this broker is configured for {config.cluster_id!r}"
        )
