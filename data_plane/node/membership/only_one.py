"""No two brokers of one id: a second one, with another log directory, does not take the first one's registration."""

import asyncio

from data_plane.metadata import broker_records
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import MetaStore, StoreUnavailable
from data_plane.node.config import NodeConfig
from data_plane.node.ports import Clock

_SESSIONS = 2
"""A broker whose disk was replaced waits no longer than one for its last registration to end."""


class IdTaken(Exception):
    """Another broker of this id is registered and lives."""


async def ensure_only_one(
    config: NodeConfig, directory_id: str, image: ClusterImage, store: MetaStore, clock: Clock
) -> None:
    """Wait until the id is registered from no other log directory. Raises `IdTaken` when such a registration is kept
    alive: then nothing of it was touched. `image` is as it was just read."""
    known = image.brokers.get(config.broker_id)
    if known is None or not known.epoch or known.record.directory_id == directory_id:
        return
    key = broker_records.live_key(config.broker_id)
    patience_ms = _SESSIONS * config.timings.session_ttl_ms
    since_ms: float | None = None
    while True:
        try:
            found = [item for item in (await store.range(key)).items if item.key == key]
        except StoreUnavailable:
            found, since_ms = [], None
        else:
            if not found or broker_records.LiveRecord.decode(found[0].value).directory_id == directory_id:
                return
        now_ms = clock.monotonic_ms()
        since_ms = now_ms if since_ms is None else since_ms
        if found and now_ms - since_ms >= patience_ms:
            raise IdTaken(
                f"broker_id: broker {config.broker_id} runs already, with another log directory, and keeps its"
                " registration; give this one another id, or stop that one"
            )
        await asyncio.sleep(config.timings.heartbeat_ms / 1000)
