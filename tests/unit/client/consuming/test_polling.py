"""What iteration has not handed out yet: neither lost nor done, and without what a seek has moved away from."""

from penstock.client.consuming.polling import PolledMessages
from penstock.client.messages import Message


class Taken:
    """What a rest looks at of a message."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self.topic, self.partition, self.offset = topic, partition, offset


def messages(*places: tuple[str, int, int]) -> list[Message]:
    return [Taken(*place) for place in places]  # type: ignore[misc]


def places(found: list[Message]) -> list[tuple[str, int, int]]:
    return [(one.topic, one.partition, one.offset) for one in found]


SOME = (("a", 0, 4), ("b", 0, 9), ("a", 1, 2), ("a", 0, 5), ("b", 0, 10))


def test_what_a_loop_leaves_is_handed_out_by_the_next_one() -> None:
    rest = PolledMessages()
    assert not rest and places(list(rest)) == [] and rest.take(3) == []
    rest.begin(messages(*SOME))
    for one in rest:
        if one.offset == 9:
            break
    assert rest
    assert rest.first_offsets() == {("a", 1): 2, ("a", 0): 5, ("b", 0): 10}
    assert places(rest.take(1)) == [SOME[2]]
    assert places(list(rest)) == list(SOME[3:])
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
    next(iter(rest))
    rest.drop({("a", 0): None, ("c", 7): None})
    assert rest.first_offsets() == {("b", 0): 9, ("a", 1): 2}
    rest.drop({("a", 1): None})
    assert places(list(rest)) == [SOME[1], SOME[4]]
    rest.drop({("b", 0): None})
    assert not rest
