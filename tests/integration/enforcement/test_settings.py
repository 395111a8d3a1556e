"""Settings that change while messages flow count on the leaders at once, without a new election."""

from pathlib import Path
from typing import Any

import pytest

from penstock.contract.errors import ErrorCode, InvalidRequest
from penstock.contract.topic_settings import Durability, TopicSettings
from tests.integration.brokers import brokers
from tests.integration.raw_wire import ProduceWire, batch_of

pytestmark = pytest.mark.processes


def test_the_number_of_replicas_demanded_in_sync_counts_at_once_both_ways(tmp_path: Path) -> None:
    with brokers(tmp_path) as cluster:
        tenant = cluster.tenant("tn_settings")
        topic_id = cluster.create_topic(tenant, "held", assignments=[[1, 2, 3]], min_insync_replicas=2)

        def demand(min_insync: int, generation: int, **changes: Any) -> None:
            settings = TopicSettings(replication=3, min_insync_replicas=min_insync, **changes)
            outcome = cluster.admin.update_topic(tenant.name, topic_id, settings, generation=generation)
            cluster.admin.wait_until_seen(outcome)

        with ProduceWire(cluster.spec.broker(1).client_address, tenant.api_key) as wire:
            assert wire.produce(topic_id, 0, batch_of(b"1")).error == ErrorCode.OK
            epoch = cluster.partitions(topic_id)[0].leader_epoch
            cluster.kill(2, 3)
            cluster.wait_until(
                "one is left in sync and another one electable",
                lambda: (
                    list(cluster.partitions(topic_id)[0].in_sync) == [1]
                    and len(cluster.partitions(topic_id)[0].eligible) > 0
                ),
            )
            assert wire.produce(topic_id, 0, batch_of(b"2")).error == ErrorCode.NOT_ENOUGH_REPLICAS
            demand(1, 1)
            assert list(cluster.partitions(topic_id)[0].eligible) == []
            assert wire.produce(topic_id, 0, batch_of(b"3")).error == ErrorCode.OK
            demand(2, 2)
            assert wire.produce(topic_id, 0, batch_of(b"4")).error == ErrorCode.NOT_ENOUGH_REPLICAS
            cluster.start(2, 3)
            cluster.wait_until("all are in sync again", lambda: cluster.whole(topic_id))
            assert wire.produce(topic_id, 0, batch_of(b"5")).error == ErrorCode.OK
            assert cluster.partitions(topic_id)[0].leader_epoch == epoch
            demand(2, 3, max_batch_bytes=200)
            assert wire.produce(topic_id, 0, batch_of(b"x" * 200)).error == ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(InvalidRequest, match="durability is fsync and cannot be changed"):
            relaxed = TopicSettings(replication=3, durability=Durability.REPLICATED)
            cluster.admin.update_topic(tenant.name, topic_id, relaxed, generation=4)
