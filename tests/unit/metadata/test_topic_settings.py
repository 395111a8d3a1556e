"""What a topic promises unless it says otherwise, and what it cannot say (RL22)."""

import pytest

from penstock.contract.errors import InvalidRequest
from penstock.contract.topic_settings import Durability, TopicSettings


def test_a_topic_has_three_replicas_two_in_sync_and_syncs_unless_it_says_otherwise() -> None:
    settings = TopicSettings()
    assert (settings.replication, settings.min_insync_replicas) == (3, 2)
    assert settings.durability is Durability.FSYNC


def test_a_topic_with_one_replica_always_syncs() -> None:
    with pytest.raises(InvalidRequest, match="always syncs"):
        TopicSettings(replication=1, min_insync_replicas=1, durability=Durability.REPLICATED)
