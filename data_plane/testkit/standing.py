"""How a simulated cluster stands at this moment: who leads, whether all is at rest, what is left of deleted topics."""

from data_plane.testkit.cluster import SimCluster
from data_plane.testkit.watcher import Watcher
from penstock.contract.ids import NO_BROKER


def led_of(cluster: SimCluster, watcher: Watcher) -> list[tuple[str, bool]]:
    """Each partition, and whether its leader by the store serves in that epoch."""
    found = []
    for where, record in watcher.records.items():
        node = None if record.leader == NO_BROKER else cluster.broker(record.leader).node
        replica = None if node is None else node.replicas.by_partition.get(where)
        leading = None if replica is None else replica.leading
        led = leading is not None and leading.leader_epoch == record.leader_epoch
        found.append((watcher.name_of(where), led))
    return found


def at_rest(cluster: SimCluster, watcher: Watcher) -> bool:
    """Every replica holds everything and knows that it is committed."""
    for where, record in watcher.records.items():
        for broker_id in record.replicas:
            node = cluster.broker(broker_id).node
            replica = None if node is None else node.replicas.by_partition.get(where)
            end = watcher.ledger(where).end
            if replica is None or replica.log.high_watermark != end or replica.log.log_end_offset != end:
                return False
    return True


def remains_of(cluster: SimCluster, watcher: Watcher) -> list[str]:
    """Files of topics that are deleted."""
    deleted = tuple(f"topics/{topic_id.hex()}" for topic_id in watcher.deleted)
    return [
        f"{broker.host} {path}"
        for broker in cluster.brokers
        for path, _ in broker.medium.files()
        if path.startswith(deleted) and ".stray" not in path
    ]
