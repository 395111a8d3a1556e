"""Messages that iteration has not returned yet are neither lost nor done, and short polls that wait count together."""

from penstock.client.consuming.polling import PolledMessages, TopicWait
from penstock.client.messages import Message


def messages(*places: tuple[str, int, int]) -> list[Message]:
    return [Message(topic, partition, offset, -1, None, b"", []) for topic, partition, offset in places]


def places(found: list[Message]) -> list[tuple[str, int, int]]:
    return [(one.topic, one.partition, one.offset) for one in found]


SOME = (("a", 0, 4), ("b", 0, 9), ("a", 1, 2), ("a", 0, 5), ("b", 0, 10))


def test_what_a_loop_leaves_is_handed_out_by_the_next_one() -> None:
    rest = PolledMessages()
    assert not rest and rest.take(3) == []
    rest.begin(messages(*SOME))
    while rest.left.popleft().offset != 9:
        pass
    assert rest
    assert rest.first_offsets() == {("a", 1): 2, ("a", 0): 5, ("b", 0): 10}
    assert places(rest.take(1)) == [SOME[2]]
    assert places(rest.take(9)) == list(SOME[3:])
    assert not rest and rest.first_offsets() == {}


def test_more_is_taken_than_there_is_only_once() -> None:
    rest = PolledMessages()
    rest.begin(messages(*SOME))
    assert places(rest.take(2)) == list(SOME[:2])
    assert places(rest.take(9)) == list(SOME[2:])
    assert rest.take(9) == []


def test_partitions_that_were_sought_are_forgotten_and_the_others_stay_in_order() -> None:
    rest = PolledMessages()
    rest.drop({("a", 0): None})
    rest.begin(messages(*SOME))
    left = rest.left
    left.popleft()
    rest.drop({("a", 0): None, ("c", 7): None})
    assert rest.first_offsets() == {("b", 0): 9, ("a", 1): 2}
    rest.drop({("a", 1): None})
    assert left is rest.left, "a loop over it goes on with what is left now"
    assert places(list(left)) == [SOME[1], SOME[4]]
    rest.drop({("b", 0): None})
    assert not rest


def test_short_polls_are_empty_until_a_second_of_waiting_is_over() -> None:
    wait = TopicWait()
    ends = [20.0 * number for number in range(1, 60)]
    told = [wait.in_vain("orders", 0.02, end) for end in ends]
    assert told.index(True) == next(number for number, end in enumerate(ends) if end >= 990)
    assert all(told[told.index(True) :])


def test_a_poll_of_a_second_says_so_at_once_and_one_without_waiting_never_does() -> None:
    assert TopicWait().in_vain("orders", 1.0, 1_000.0)
    assert not TopicWait().in_vain("orders", 0, 5_000.0)


def test_a_topic_that_was_told_begins_the_wait_anew() -> None:
    wait = TopicWait()
    assert not wait.in_vain("orders", 0.02, 20.0)
    assert not wait.in_vain(None, 0.02, 900.0)
    assert not wait.in_vain("orders", 0.02, 2_000.0)
