"""When a batch is answered, and in which order the answers that wait become due."""

import pytest

from data_plane.replication.acknowledgement import AnswerWhen, PendingAnswers, answered_when

WRITTEN, DURABLE, COMMITTED = AnswerWhen.WRITTEN, AnswerWhen.DURABLE, AnswerWhen.COMMITTED
MANY = 100


@pytest.mark.parametrize(
    ("acks", "strict", "when"),
    [
        (-1, True, COMMITTED),
        (-1, False, COMMITTED),
        (1, True, DURABLE),
        (1, False, WRITTEN),
        (0, True, WRITTEN),
        (0, False, WRITTEN),
    ],
)
def test_a_batch_is_answered_when_as_much_holds_as_its_producer_asked_for(
    acks: int, strict: bool, when: AnswerWhen
) -> None:
    assert answered_when(acks, strict) is when


def waiting(*answers: tuple[AnswerWhen, int]) -> PendingAnswers[int]:
    pending: PendingAnswers[int] = PendingAnswers()
    for when, end_offset in answers:
        pending.wait(when, end_offset, end_offset)
    return pending


def test_each_waits_for_what_it_asked_for_and_for_nothing_else() -> None:
    pending = waiting((COMMITTED, 2), (DURABLE, 4), (WRITTEN, 6), (COMMITTED, 8), (DURABLE, 10))
    assert list(pending.due(0, 0, MANY)) == [6]
    assert list(pending.due(9, 1, MANY)) == [4]
    assert list(pending.due(9, 7, MANY)) == [2]
    assert list(pending.due(9, 7, MANY)) == []
    assert list(pending.due(10, 10, MANY)) == [10, 8]
    assert len(pending) == 0


def test_what_is_committed_by_what_is_written_is_answered_before_it_is_durable_here() -> None:
    pending = waiting((DURABLE, 6), (COMMITTED, 8))
    assert list(pending.due(5, 8, MANY)) == [8]
    assert list(pending.due(7, 8, MANY)) == [6]


def test_no_more_are_taken_than_asked_for_and_the_rest_is_due_next() -> None:
    pending = waiting(*((DURABLE, end) for end in (1, 2)), *((COMMITTED, end) for end in (3, 4, 5)))
    pending.wait_again(COMMITTED, 1, 100)
    assert list(pending.due(5, 5, 3)) == [1, 2, 3]
    assert list(pending.due(5, 5, 2)) == [4, 5]
    assert list(pending.due(5, 5, 2)) == [100]


def test_a_batch_that_came_again_does_not_wait_for_those_that_came_between() -> None:
    pending = waiting((COMMITTED, 20))
    for when, end in ((COMMITTED, 10), (COMMITTED, 20), (DURABLE, 15), (WRITTEN, 30)):
        pending.wait_again(when, end, 100 + end)
    assert list(pending.due(0, 0, MANY)) == [130]
    assert list(pending.due(15, 10, MANY)) == [110, 115]
    assert list(pending.due(15, 20, MANY)) == [20, 120]


def test_at_the_end_all_are_taken_whatever_they_wait_for() -> None:
    pending = waiting((COMMITTED, 1), (DURABLE, 2), (WRITTEN, 3))
    pending.wait_again(COMMITTED, 1, 4)
    assert sorted(pending.take_all()) == [1, 2, 3, 4]
    assert len(pending) == 0 and list(pending.due(MANY, MANY, MANY)) == []
