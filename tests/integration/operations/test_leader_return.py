"""After a broker was away its partitions come back to it, while messages flow and none is lost or doubled."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.integration.brokers import brokers
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PLACES = [[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 2


def test_leaders_are_spread_again_after_a_broker_was_killed_and_came_back(tmp_path: Path) -> None:
    with brokers(tmp_path) as cluster:
        tenant = cluster.tenant("tn_spread")
        topic_id = cluster.create_topic(tenant, "spread", len(PLACES), assignments=PLACES)
        wanted = [place[0] for place in PLACES]

        def leaders() -> list[int]:
            return [partition.leader for partition in cluster.partitions(topic_id)]

        stop = threading.Event()
        with cluster.client(tenant) as client:
            producer = client.producer(linger_ms=1)
            sent: list[Any] = []

            def send() -> None:
                while not stop.wait(0.005):
                    number = len(sent)
                    sent.append(producer.send("spread", b"%d" % number, partition=number % len(PLACES)))

            sending = threading.Thread(target=send)
            sending.start()
            try:
                cluster.kill(2)
                cluster.wait_until("others lead", lambda: 2 not in leaders())
                cluster.start(2)
                took_s = cluster.wait_until("leaders are where they were", lambda: leaders() == wanted)
            finally:
                stop.set()
                sending.join(PATIENCE_S)
            for delivery in sent:
                delivery.result(PATIENCE_S)
            with client.consumer(["spread"]) as consumer:
                assert sum(consumer.end_offsets().values()) == len(sent), "nothing lost, nothing twice"
        print(f"leaders were back {took_s:.1f} s after the broker was ready, under {len(sent)} messages")
