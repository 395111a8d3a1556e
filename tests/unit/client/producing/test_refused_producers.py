"""Producers that get no id, whose topic is another one by then, or whose client closes."""

import pytest

from penstock.contract import errors, methods
from penstock.contract.errors import ErrorCode
from tests.unit.client.fake_cluster import Refused
from tests.unit.client.producing.test_producing import started
from tests.unit.client.runner import Runner


def test_a_topic_whose_deletion_was_not_seen_is_another_one_all_the_same() -> None:
    runner = started()
    producer = runner.producer(linger_ms=1_000)
    waiting = runner.send(producer, "orders", b"a", partition=0)
    runner.run(100)
    del runner.cluster.topics["orders"]
    runner.cluster.create("orders", 2)
    runner.run(5)
    assert isinstance(waiting.error, errors.NotFound)
    assert "was deleted and created again" in str(waiting.error)
    delivery = runner.send(producer, "orders", b"b", partition=1)
    runner.run(2_000)
    assert delivery.receipt() == ("orders", 1, 0, 1_700_000_000_000, False)
    assert [len(partition.log) for partition in runner.cluster.topics["orders"].partitions] == [0, 1]


@pytest.mark.parametrize(
    "code", [ErrorCode.FORBIDDEN, ErrorCode.LEADER_NOT_READY, ErrorCode.UNKNOWN_PRODUCER]
)
def test_messages_without_a_producer_id_fail_if_there_will_be_none_and_wait_for_it_else(
    code: ErrorCode,
) -> None:
    runner = started()
    producer = runner.producer(delivery_timeout_ms=60_000)
    runner.cluster.refuses_producers = code
    delivery = runner.send(producer, "orders", b"a", partition=0)
    runner.run(5_000)
    if code is ErrorCode.FORBIDDEN:
        assert isinstance(delivery.error, errors.Forbidden)
        return
    assert not delivery.done()
    asked = [method for _, method in runner.calls].count("InitProducer")
    assert asked > 5
    runner.cluster.refuses_producers = None
    runner.run(2_000)
    assert delivery.receipt().offset == 0


def test_a_refused_newer_epoch_fails_what_needs_it_and_nothing_of_other_partitions() -> None:
    runner = started()
    producer = runner.producer(delivery_timeout_ms=3_000, linger_ms=10_000, batch_messages=2)
    for partition in (0, 0, 1, 1):
        runner.send(producer, "orders", b"known", partition=partition)
    runner.run(100)
    runner.cluster.silent[runner.cluster.topics["orders"].partitions[0].leader] = None
    lost = [runner.send(producer, "orders", b"lost", partition=0) for _ in range(2)]
    runner.run(2_900)
    runner.cluster.refuses_producers = ErrorCode.FORBIDDEN
    fails, goes_on = (runner.send(producer, "orders", b"m", partition=partition) for partition in (0, 1))
    runner.run(1_000)
    assert [type(delivery.error) for delivery in lost] == [errors.DeliveryTimeout] * 2
    assert isinstance(fails.error, errors.Forbidden)
    assert not goes_on.done()
    runner.send(producer, "orders", b"second", partition=1)
    runner.run(100)
    assert goes_on.receipt().offset == 2


def test_a_client_that_closes_fails_what_all_producers_have_and_leaves_no_stream_open() -> None:
    runner = started()
    deliveries = []
    for producer in (runner.producer(linger_ms=10_000), runner.producer(linger_ms=10_000)):
        deliveries.append(runner.send(producer, "orders", b"a", partition=0))
    consumer = runner.consumer("orders")
    runner.poll(consumer)
    assert runner.streams
    runner.core.close(runner.now)
    runner.run(10)
    assert [type(delivery.error) for delivery in deliveries] == [errors.Closed] * 2
    assert not runner.streams and not runner.core.producers and not runner.core.consumers


def test_a_topic_that_no_broker_describes_is_told_with_what_each_address_said() -> None:
    runner = Runner(brokers=2)
    producer = runner.producer()
    runner.down = {0: None, 1: None}
    producer.route("orders")
    waits = runner.core.topic_waits("orders")
    assert isinstance(waits, errors.BrokerUnavailable)
    assert waits.message.startswith(
        "orders: no broker described its partitions (no answer from b0, b1); check the bootstrap"
    )
    runner.run(1_000)
    told = runner.core.topic_waits("orders").message
    assert "b0: connection refused" in told and "b1: connection refused" in told


def test_a_topic_that_throttled_brokers_do_not_describe_is_told_as_throttled() -> None:
    runner = Runner(brokers=2)
    right = runner.cluster.call

    def call(broker: int, method: str, request: bytes) -> bytes:
        if method == methods.METADATA and broker == 0:
            raise Refused(ErrorCode.THROTTLED, "the tenant has used all of its limit")
        return right(broker, method, request)

    runner.cluster.call = call  # type: ignore[method-assign]
    runner.down = {1: None}
    runner.producer().route("orders")
    runner.run(2_000)
    waits = runner.core.topic_waits("orders")
    assert isinstance(waits, errors.Throttled)
    assert "b0: the tenant has used all" in waits.message and "b1: connection refused" in waits.message
