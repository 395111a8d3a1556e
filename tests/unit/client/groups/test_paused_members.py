"""A partition that the application has paused and that moves between members."""

import pytest

from penstock.contract.errors import NotFound
from tests.unit.client.groups.members import Member, Service
from tests.unit.client.groups.test_member import filled


def send(service: Service) -> None:
    """One more message to each partition."""
    producer = service.runner.producer()
    for partition in range(4):
        service.runner.send(producer, "orders", b"more", partition=partition)
    service.runner.run(100)


def moved_with_pauses(*paused: int) -> tuple[Service, Member, Member]:
    """The first member has paused these partitions and read everything; 2 and 3 have gone to the second one."""
    service = filled()
    first, second = Member(service), Member(service)
    first.poll()
    for number in paused:
        first.consumer.pause(first.consumer.position("orders", number))
    first.poll_until(lambda: second.owned == [2, 3], second)
    return service, first, second


def read(member: Member) -> set[int]:
    """The partitions that a long poll returns messages of."""
    return {message.partition for _ in range(4) for message in member.poll(ms=200)}


def test_a_paused_partition_that_went_to_another_member_and_came_back_is_still_paused() -> None:
    service, first, second = moved_with_pauses(0, 2)
    send(service)
    assert read(second) == {2, 3}, "the pause is the first member's"
    second.close()
    first.poll_until(lambda: first.owned == [0, 1, 2, 3])
    send(service)
    assert read(first) == {1, 3}
    first.consumer.resume("orders", 2)
    assert read(first) == {2}
    first.consumer.resume("orders", None)
    assert read(first) == {0}
    first.consumer.resume("orders", None)


def test_what_went_away_paused_may_be_resumed_and_comes_back_so() -> None:
    service, first, second = moved_with_pauses(2)
    first.consumer.resume("orders", 2)
    with pytest.raises(NotFound, match="orders-2: not read"):
        first.consumer.resume("orders", 2)
    second.close()
    first.poll_until(lambda: first.owned == [0, 1, 2, 3])
    send(service)
    assert read(first) == {0, 1, 2, 3}


def test_a_pause_outlives_an_assignment_without_the_partition() -> None:
    runner = filled().runner
    consumer = runner.consumer()
    everything = [("orders", number) for number in range(4)]
    consumer.assign(everything)
    runner.poll(consumer)
    consumer.pause(consumer.position("orders", 1))
    consumer.assign(everything[:1])
    consumer.assign(everything)
    assert {message.partition for message in runner.poll(consumer)} == {2, 3}
