"""Many messages in one call: each comes once and in order, with its own key, as far as there is room."""

from collections.abc import Sequence

import pytest

from penstock.client.producing import accumulator
from penstock.client.producing.producer import ProducerCore
from penstock.contract.errors import MessageTooLarge
from tests.unit.client.runner import Runner, SyncDelivery

NOW_MS = 1_700_000_000_000


def sent(
    runner: Runner,
    producer: ProducerCore,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    start: int = 0,
    partition: int | None = 0,
) -> list[SyncDelivery]:
    route = producer.route("orders")
    assert route is not None
    return producer.accumulator.append_many(
        route, values, keys, start, None, NOW_MS, partition, lambda: runner.now, SyncDelivery
    )


def all_sent(
    runner: Runner,
    producer: ProducerCore,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    partition: int | None = 0,
) -> list[SyncDelivery]:
    """Turn by turn, until one takes nothing."""
    found: list[SyncDelivery] = []
    while len(found) < len(values):
        taken = sent(runner, producer, values, keys, len(found), partition)
        if not taken:
            break
        found += taken
    return found


def started(partitions: int = 1, **settings: object) -> tuple[Runner, ProducerCore]:
    runner = Runner()
    runner.cluster.create("orders", partitions)
    producer = runner.producer(None, **settings)
    assert producer.route("orders") is None
    runner.run(0)
    return runner, producer


def stored(runner: Runner) -> list[list[bytes | None]]:
    """What each partition holds once all that waits was sent."""
    runner.run(1_000)
    return [partition.values() for partition in runner.cluster.topics["orders"].partitions]


@pytest.mark.parametrize("keyed", [False, True])
def test_each_comes_once_and_in_order_over_many_batches(keyed: bool) -> None:
    runner, producer = started(batch_messages=4)
    values: list[bytes | None] = [b"%d" % number for number in range(11)]
    values[5] = None
    deliveries = all_sent(runner, producer, values, [b"key"] * 11 if keyed else None)
    assert stored(runner) == [values]
    assert [delivery.receipt().offset for delivery in deliveries] == list(range(11))


def test_each_goes_where_its_own_key_says() -> None:
    runner, producer = started(partitions=3)
    values = [b"%d" % number for number in range(30)]
    keys = [b"key %d" % (number % 7) for number in range(30)]
    all_sent(runner, producer, values, keys, partition=None)
    together = stored(runner)
    one, one_by_one = started(partitions=3)
    for value, key in zip(values, keys, strict=True):
        one.send(one_by_one, "orders", value, key)
    assert stored(one) == together
    assert sum(map(len, together)) == 30 and sum(1 for held in together if held) > 1


@pytest.mark.parametrize("keyed", [False, True])
def test_one_turn_takes_so_many_and_the_next_goes_on_behind_them(keyed: bool) -> None:
    runner, producer = started(batch_messages=100_000)
    values = [b"%d" % number for number in range(2 * accumulator._MANY + 5)]
    keys = [None] * len(values) if keyed else None
    assert len(sent(runner, producer, values, keys)) == accumulator._MANY
    assert len(all_sent(runner, producer, values, keys)) == len(values)
    assert stored(runner) == [values[: accumulator._MANY] + values]


@pytest.mark.parametrize("keyed", [False, True])
def test_what_waits_to_be_sent_takes_its_bytes_of_the_buffer(keyed: bool) -> None:
    runner, producer = started(linger_ms=1_000)
    free = producer.accumulator.free_bytes
    for times in (1, 2):
        sent(runner, producer, [bytes(100)] * 10, [b"k"] * 10 if keyed else None)
        assert times * 1_000 <= free - producer.accumulator.free_bytes <= times * 1_200 + 100
    runner.run(2_000)
    assert producer.accumulator.free_bytes == free


@pytest.mark.parametrize("keyed", [False, True])
def test_a_full_buffer_takes_what_has_room_and_the_rest_a_second_time(keyed: bool) -> None:
    runner, producer = started(buffer_bytes=64 << 10)
    room = producer.accumulator.free_bytes
    values = [bytes([number]) * (room // 4) for number in range(6)]
    keys = [b"k"] * len(values) if keyed else None
    first = len(all_sent(runner, producer, values, keys))
    assert 0 < first < 6
    assert sent(runner, producer, values, keys, start=first) == []
    runner.run(1_000)
    assert producer.accumulator.free_bytes == room, "what was acknowledged gives its room back"
    rest = all_sent(runner, producer, values[first:], None if keys is None else keys[first:])
    assert len(rest) == 6 - first
    assert stored(runner) == [values]


def test_a_message_too_large_is_refused_and_those_before_it_are_sent() -> None:
    runner, producer = started()
    route = producer.route("orders")
    assert route is not None
    values = [b"small", b"x" * (route.max_message_bytes + 1)]
    with pytest.raises(MessageTooLarge):
        all_sent(runner, producer, values)
    assert stored(runner) == [[b"small"]]


@pytest.mark.parametrize("letter", ["n", "é", "語", "🦩"])
def test_a_headers_name_counts_as_the_bytes_that_it_takes(letter: str) -> None:
    runner, producer = started()
    route = producer.route("orders")
    assert route is not None
    name = letter * 100
    takes = len(name.encode())
    room = route.max_message_bytes - takes

    def send(value: bytes) -> SyncDelivery | None:
        return producer.accumulator.append(
            route, value, None, [(name, None)], NOW_MS, 0, lambda: runner.now, SyncDelivery
        )

    with pytest.raises(MessageTooLarge, match=f"message of {room + 1 + takes} bytes"):
        send(bytes(room + 1))
    assert send(bytes(room)) is not None
    assert stored(runner) == [[bytes(room)]]
