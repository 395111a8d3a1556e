"""Topics and brokers as a client describes them: in order, with defaults, without what is being deleted."""

from __future__ import annotations

import pytest

from penstock.client.descriptions import (
    BrokerDescription,
    PartitionDescription,
    TopicDescription,
    brokers_in,
    metadata_call,
    topic_in,
    topics_in,
)
from penstock.contract import errors
from penstock.contract.errors import ErrorCode
from penstock.contract.v1 import log_pb2


def answer() -> log_pb2.MetadataResponse:
    response = log_pb2.MetadataResponse()
    response.brokers.add(id=2, address="b2:1", zone="east", host="h2")
    response.brokers.add(id=1, address="b1:1")
    orders = response.topics.add(name="orders", topic_id=b"o" * 16, settings_json='{"retention_ms": 5}')
    orders.partitions.add(
        partition=0, leader=2, leader_epoch=7, replicas=[1, 2], in_sync=[2], log_generation=3
    )
    orders.partitions.add(partition=1, leader=-1)
    response.topics.add(name="gone", error=ErrorCode.NOT_FOUND, message="gone: no such topic")
    response.topics.add(name="logs", topic_id=b"l" * 16)
    return response


ORDERS = TopicDescription(
    name="orders",
    topic_id=(b"o" * 16).hex(),
    partitions=(
        PartitionDescription(
            partition=0, leader=2, leader_epoch=7, replicas=(1, 2), in_sync=(2,), log_generation=3
        ),
        PartitionDescription(partition=1, leader=-1, leader_epoch=0, replicas=(), in_sync=()),
    ),
    settings={"retention_ms": 5},
)
LOGS = TopicDescription(name="logs", topic_id=(b"l" * 16).hex(), partitions=())


def test_topics_come_by_name_without_those_that_are_being_deleted() -> None:
    assert topics_in(answer()) == [LOGS, ORDERS]
    assert LOGS.settings == {} and ORDERS.partitions[1].log_generation == 1


def test_one_topic_is_described_or_refused_as_the_broker_says() -> None:
    assert topic_in(answer(), "orders") == ORDERS
    for name in ("gone", "never"):
        with pytest.raises(errors.NotFound, match=f"{name}: no such topic"):
            topic_in(answer(), name)


def test_brokers_come_by_id() -> None:
    assert brokers_in(answer()) == [
        BrokerDescription(broker=1, address="b1:1", zone="", host=""),
        BrokerDescription(broker=2, address="b2:1", zone="east", host="h2"),
    ]


@pytest.mark.parametrize(
    ("names", "asked", "all_topics"), [(("a", "b"), ["a", "b"], False), ((), [], False), (None, [], True)]
)
def test_some_topics_are_asked_for_or_all_or_the_brokers_alone(
    names: tuple[str, ...] | None, asked: list[str], all_topics: bool
) -> None:
    request = log_pb2.MetadataRequest.FromString(metadata_call(names).request)
    assert (list(request.topics), request.all_topics) == (asked, all_topics)
