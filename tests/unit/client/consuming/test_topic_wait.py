"""Short polls that wait for a topic count together."""

from penstock.client.consuming.polling import TopicWait


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
