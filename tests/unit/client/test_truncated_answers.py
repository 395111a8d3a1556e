"""Answers of calls that are cut short: each is asked for again, as after a lost connection."""

from __future__ import annotations

import pytest

from tests.unit.client.consuming.test_consuming import expected, filled, values
from tests.unit.client.fake_cluster import FakeCluster
from tests.unit.client.groups.members import Member, Service
from tests.unit.client.runner import Runner


class Truncation:
    """The next answer of one method is cut short, or `answer`."""

    def __init__(self, cluster: FakeCluster, method: str, answer: bytes = b"\x0a\x7f") -> None:
        self._call = cluster.call
        self._method = method
        self._answer = answer
        self.left = 1
        cluster.call = self.call  # type: ignore[method-assign]

    def call(self, broker: int, method: str, request: bytes) -> bytes:
        answer = self._call(broker, method, request)
        if self.left and method.endswith(f"/{self._method}"):
            self.left -= 1
            return self._answer
        return answer


@pytest.mark.parametrize("method", ["InitProducer", "Metadata"])
def test_a_producer_asks_again(method: str) -> None:
    runner = Runner()
    runner.cluster.create("orders")
    truncation = Truncation(runner.cluster, method)
    producer = runner.producer()
    producer.route("orders")
    runner.run(1_000)
    sent = runner.send(producer, "orders", b"a")
    runner.run(1_000)
    assert truncation.left == 0
    assert sent.receipt().offset == 0


def test_a_consumer_asks_again_for_offsets() -> None:
    runner = filled()
    truncation = Truncation(runner.cluster, "ListOffsets")
    consumer = runner.consumer("orders")
    assert values(runner, consumer) == expected(range(10))
    assert truncation.left == 0


@pytest.mark.parametrize("method", ["FindCoordinator", "Heartbeat", "FetchCommitted", "CommitOffsets"])
def test_a_member_of_a_group_asks_again(method: str) -> None:
    service = Service(partitions=1)
    producer = service.runner.producer()
    for number in range(10):
        service.runner.send(producer, "orders", b"%d" % number, partition=0)
    service.runner.run(100)
    truncation = Truncation(service.runner.cluster, method)
    member, read = Member(service), 0
    for _ in range(100):
        read += len(member.poll())
        service.run(50)
    assert read == 10
    assert service.committed() == {0: 10}
    assert truncation.left == 0


def test_a_commit_answered_for_fewer_partitions_than_it_names_is_tried_again() -> None:
    service = Service(partitions=1)
    producer = service.runner.producer()
    service.runner.send(producer, "orders", b"a", partition=0)
    service.runner.run(100)
    truncation = Truncation(service.runner.cluster, "CommitOffsets", answer=b"")
    member = Member(service, auto_commit=False)
    assert len(member.poll()) == 1
    commit = member.core.commit(None, service.runner.now + 10_000)
    service.run(3_000)
    assert truncation.left == 0
    assert (commit.done, commit.error) == (True, None)
