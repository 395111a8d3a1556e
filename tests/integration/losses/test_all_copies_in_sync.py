"""`min_insync_replicas` 3 of 3: two brokers are killed and lose their disks, and nothing acknowledged is lost."""

import shutil
from pathlib import Path

import pytest

from penstock.contract.errors import NotEnoughReplicas, PenstockError
from tests.integration.brokers import brokers
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

MESSAGES = 2_000


def test_the_last_of_three_copies_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    with brokers(tmp_path) as cluster:
        tenant = cluster.tenant("tn_three")
        topic_id = cluster.create_topic(
            tenant, "orders", assignments=[[1, 2, 3]], replication=3, min_insync_replicas=3
        )
        acknowledged: dict[int, bytes] = {}
        with cluster.client(tenant) as client, client.producer(linger_ms=0, batch_bytes=2_000) as producer:
            sent = [(value := b"%06d" % n, producer.send("orders", value)) for n in range(MESSAGES)]
            for number, (value, delivery) in enumerate(sent):
                acknowledged[delivery.result(PATIENCE_S).offset] = value
                if number == MESSAGES // 2:
                    cluster.kill(1, 2)
                    break
            # What else got through before the end of these two is known once it has been waited for.
            for value, delivery in sent[MESSAGES // 2 + 1 :]:
                if delivery.done():
                    try:
                        acknowledged[delivery.result(0).offset] = value
                    except PenstockError:
                        pass
            shutil.rmtree(cluster.directory.log_directory(1))
            shutil.rmtree(cluster.directory.log_directory(2))
            cluster.wait_until("the last copy leads", lambda: cluster.leader(topic_id) == 3)
            with (
                cluster.client(tenant) as other,
                other.producer(linger_ms=0, max_attempts=1) as strict,
                pytest.raises(NotEnoughReplicas),
            ):
                strict.send("orders", b"refused").result(PATIENCE_S)
            cluster.start(1, 2)
            cluster.wait_until("all copies are back", lambda: cluster.whole(topic_id))
            for _, delivery in sent:
                try:
                    delivery.result(PATIENCE_S)
                except PenstockError:
                    pass
        with (
            cluster.client(tenant) as client,
            client.consumer(["orders"], auto_offset_reset="earliest") as reader,
        ):
            end = reader.end_offsets()["orders", 0]
            read: dict[int, bytes] = {}
            while len(read) < end:
                for message in reader.poll(max_messages=500, timeout=PATIENCE_S):
                    read[message.offset] = message.value
        assert len(acknowledged) > MESSAGES // 2
        assert {offset: read[offset] for offset in acknowledged} == acknowledged
