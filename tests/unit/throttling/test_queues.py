"""When producers of one partition are asked to slow down, and for how long."""

import pytest

from data_plane.throttling.queues import (
    OF_SAFE,
    OF_SAFE_LEAST,
    SLOW_DOWN_MS_MAX,
    WAITED_MS_MIN,
    BrokerQueues,
    PartitionQueue,
)

SAFE = 1 << 20
BOUND = SAFE // OF_SAFE


def queues(count: int = 1) -> tuple[BrokerQueues, list[PartitionQueue]]:
    broker = BrokerQueues(SAFE)
    return broker, [PartitionQueue(broker) for _ in range(count)]


def test_a_queue_up_to_its_bound_slows_no_one_however_long_it_takes() -> None:
    _, (queue,) = queues()
    queue.took(BOUND)
    assert queue.slow_down_ms(10_000) == 0


def test_a_long_queue_that_passes_quickly_slows_no_one() -> None:
    _, (queue,) = queues()
    queue.took(4 * BOUND)
    assert queue.slow_down_ms(WAITED_MS_MIN - 1) == 0
    assert queue.slow_down_ms(WAITED_MS_MIN) > 0


@pytest.mark.parametrize("rate_bytes_per_ms", [200, 1_000])
def test_who_waits_as_asked_finds_the_queue_at_its_bound_and_not_empty(rate_bytes_per_ms: int) -> None:
    _, (queue,) = queues()
    queue.took(3 * BOUND)
    waited_ms = queue.waiting_bytes / rate_bytes_per_ms
    slow_down_ms = queue.slow_down_ms(waited_ms)
    assert 0 < slow_down_ms <= SLOW_DOWN_MS_MAX
    queue.answered(slow_down_ms * rate_bytes_per_ms)
    assert BOUND <= queue.waiting_bytes <= BOUND + rate_bytes_per_ms


def test_no_answer_asks_for_more_than_the_bound_of_time() -> None:
    _, (queue,) = queues()
    queue.took(100 * BOUND)
    assert queue.slow_down_ms(1e9) == SLOW_DOWN_MS_MAX


def test_when_half_of_what_is_safe_waits_each_partition_has_an_even_share_of_it() -> None:
    broker, found = queues(40)
    for queue in found:
        queue.took(SAFE // 64)
    assert broker.waiting_bytes > SAFE // 2 and broker.partitions == 40
    assert broker.bound_bytes == SAFE // 80
    assert all(queue.slow_down_ms(100) for queue in found)


def test_many_partitions_leave_each_enough_to_keep_the_disk_busy() -> None:
    broker, found = queues(2_000)
    for queue in found:
        queue.took(SAFE // 2_000)
    assert broker.bound_bytes == SAFE // OF_SAFE_LEAST
    assert not any(queue.slow_down_ms(100) for queue in found)


def test_what_was_answered_or_ended_counts_no_more() -> None:
    broker, (first, second) = queues(2)
    first.took(100)
    second.took(50)
    first.answered(100)
    assert (broker.waiting_bytes, broker.partitions, first.slow_down_ms(1_000)) == (50, 1, 0)
    second.clear()
    second.clear()
    assert (broker.waiting_bytes, broker.partitions) == (0, 0)
