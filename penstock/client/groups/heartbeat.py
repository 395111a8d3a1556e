"""What a member says of itself to its coordinator at each heartbeat."""

from collections.abc import Mapping

from penstock.client.settings import GroupSettings
from penstock.contract.ids import NamedPartition
from penstock.contract.v1 import groups_pb2 as pb

JOIN, LEAVE = 0, -1
"""Member epochs."""


def heartbeat_request(
    settings: GroupSettings,
    member_id: str,
    epoch: int,
    topics: tuple[str, ...],
    owned: Mapping[NamedPartition, bytes],
) -> pb.GroupHeartbeatRequest:
    """As a member of `epoch`, which reads `topics` and owns these partitions (with their topic ids)."""
    request = pb.GroupHeartbeatRequest(
        group=settings.group,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=settings.instance_id or "",
        client_id=settings.client_id,
    )
    if epoch == JOIN:
        request.topics.extend(topics)
        request.assignor = settings.assignor
        request.session_timeout_ms = int(settings.session_timeout_ms)
        request.rebalance_timeout_ms = int(settings.rebalance_timeout_ms)
    if epoch != LEAVE:
        for (_, partition), topic_id in owned.items():
            request.owned.add(topic_id=topic_id, partition=partition)
    return request
