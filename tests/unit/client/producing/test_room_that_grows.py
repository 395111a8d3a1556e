"""What a producer gains while it sends: new partitions, and the credit that compression saved."""

from __future__ import annotations

from penstock.rules.partitioner import partition_of
from tests.unit.client.runner import Runner


def test_keys_are_spread_over_new_partitions_as_soon_as_they_are_known() -> None:
    runner = Runner()
    runner.cluster.create("orders", 1)
    producer = runner.producer()
    keys = [b"key %d" % number for number in range(20)]
    for key in keys:
        runner.send(producer, "orders", b"before", key=key)
    runner.run(50)
    runner.cluster.grow("orders", 4)
    runner.run(500)
    deliveries = {key: runner.send(producer, "orders", b"after", key=key) for key in keys}
    runner.run(50)
    assert {key: delivery.receipt().partition for key, delivery in deliveries.items()} == {
        key: partition_of(key, 4) for key in keys
    }


def test_the_credit_that_compression_saved_is_used_again() -> None:
    runner = Runner()
    runner.cluster.create("orders", 1)
    runner.cluster.credit_bytes = 100_000
    producer = runner.producer(compression="zstd", batch_bytes=64 * 1024)
    for number in range(20):
        delivery = runner.send(producer, "orders", b"%d" % number * 20_000)
        runner.run(100)
        assert delivery.receipt().offset == number
