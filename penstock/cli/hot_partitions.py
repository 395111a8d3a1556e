"""Why a partition is hot, in words."""

from collections.abc import Mapping
from typing import Any

_WORDS = {
    "of_broker": "much of its broker's load",
    "of_tenant": "much of its tenant's load",
    "of_topic": "far more than the topic's other partitions",
    "slowed": "its producers are slowed",
}


def hot_because(partition: Mapping[str, Any]) -> str:
    """The reasons of one hot partition; a reason of a later release by its name."""
    return ", ".join(_WORDS.get(str(reason), str(reason)) for reason in partition.get("reasons", ()))
