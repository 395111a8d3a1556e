"""When a partition is hot, by rates that brokers report of it. Pure; no batch is opened for it."""

from collections.abc import Sequence
from enum import Enum

HOT_BYTES_PER_S = 2**20
"""Below it a partition takes and gives little, whatever its share: a calm service has none that is hot by a share."""
OF_BROKER_PERCENT = 40
OF_TENANT_PERCENT = 50
MEDIANS = 4
"""So many times the median of its topic's partitions."""
MEDIAN_OF_MIN = 3
"""Of fewer partitions the median says nothing."""
SLOW_DOWNS_PER_S = 0.2


class Heat(Enum):
    """Why a partition is hot."""

    OF_BROKER = "of_broker"
    """It is a large part of what its broker takes and gives."""
    OF_TENANT = "of_tenant"
    """It is a large part of what its tenant sends and reads."""
    OF_TOPIC = "of_topic"
    """It has far more than the other partitions of its topic: its keys are uneven."""
    SLOWED = "slowed"
    """Its leader's queue is long, and asks producers to slow down."""


def heat_of(
    bytes_per_s: int,
    *,
    of_broker_percent: int,
    of_tenant_percent: int,
    topic_median: int | None,
    slow_downs_per_s: float,
) -> tuple[Heat, ...]:
    """All reasons, in order; none = it is not hot. `topic_median` as `median_of` says."""
    found: list[Heat] = []
    if bytes_per_s >= HOT_BYTES_PER_S:
        if of_broker_percent >= OF_BROKER_PERCENT:
            found.append(Heat.OF_BROKER)
        if of_tenant_percent >= OF_TENANT_PERCENT:
            found.append(Heat.OF_TENANT)
        if topic_median is not None and bytes_per_s >= MEDIANS * topic_median:
            found.append(Heat.OF_TOPIC)
    if slow_downs_per_s >= SLOW_DOWNS_PER_S:
        found.append(Heat.SLOWED)
    return tuple(found)


def median_of(rates: Sequence[int], partitions: int) -> int | None:
    """The lower median of all partitions of a topic; those without a rate are at rest. None = it has too few."""
    if partitions < MEDIAN_OF_MIN:
        return None
    return sorted([0] * max(0, partitions - len(rates)) + list(rates))[(partitions - 1) // 2]
