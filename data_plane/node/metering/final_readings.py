"""Final readings of deleted topics' partitions, put into the metadata: a restart forgets none, and every later cut
answers the same.
"""

from collections.abc import Mapping

from data_plane.controller.cuts import keep_finals
from data_plane.metadata.model import FinalRecord
from data_plane.metadata.port import MetaStore, OutcomeUnknown, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.membership.metadata_view import MetadataView
from penstock.contract.ids import TopicPartition

_TRIES = 20


class FinalReadings:
    """Writes them from one broker; of several brokers' the one that ends highest stays."""

    def __init__(self, config: NodeConfig, view: MetadataView, store: MetaStore) -> None:
        self._config = config
        self._view = view
        self._store = store

    def owed(self, where: TopicPartition) -> bool:
        """Whether a cut waits for the final reading of this partition of a deleted topic."""
        buried = self._view.image.buried.get(where.topic_id)
        return buried is not None and buried.metered

    async def keep(self, finals: Mapping[TopicPartition, FinalRecord]) -> bool:
        """True: each is kept, or not wanted (any more). False: try again later."""
        for _ in range(_TRIES):
            change = next(keep_finals(self._view.image, finals), None)
            if change is None:
                return True
            try:
                result = await self._store.txn(change.compares, change.changes)
            except (StoreUnavailable, OutcomeUnknown):
                return False
            if not await self._view.reached(result.revision, self._config.timings.call_ms):
                return False
        return False
