"""Stands for metering, which counts by how much limits delay clients."""

from data_plane.metadata.model import TopicRecord
from penstock.contract.ids import TenantId


class Delays:
    """What was delayed, in the order in which it was told: (tenant, principal, ms, name of the topic)."""

    def __init__(self) -> None:
        self.told: list[tuple[TenantId, int, int, str]] = []

    def __call__(
        self, tenant: TenantId, principal: int, milliseconds: int, topic: TopicRecord | None = None
    ) -> None:
        self.told.append((tenant, principal, milliseconds, "" if topic is None else topic.name))
