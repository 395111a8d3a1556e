"""What an upgrade may not do to clients is found where it happens."""

import pytest

from .traffic_process import Traffic, judge

LOG = {0: [b"0 0", b"1 0", b"0 2"], 1: [b"0 1"]}


def seen() -> Traffic:
    return Traffic(
        topic="orders",
        group="readers",
        acknowledged=[(0, 0, 0, 0), (1, 0, 0, 1), (0, 2, 0, 2), (0, 1, 1, 0)],
        read=[(0, 0), (0, 1), (1, 0), (0, 2)],
    )


def test_what_was_acknowledged_once_in_order_and_read_is_good() -> None:
    assert judge(seen(), LOG) == []


def test_a_batch_that_a_new_member_of_the_group_reads_again_is_good() -> None:
    again = seen()
    again.read += [(0, 1), (0, 2)]
    assert judge(again, LOG) == []


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ({0: LOG[0][:2], 1: LOG[1]}, "lost: 0 2"),
        ({0: [*LOG[0], b"0 0"], 1: LOG[1]}, "doubled: 0 0"),
        ({0: [b"0 2", b"1 0", b"0 0"], 1: LOG[1]}, "out of order: 0 0"),
        ({0: [*LOG[0], b"1 1"], 1: LOG[1]}, "5 messages are stored, 4 were acknowledged"),
    ],
)
def test_a_log_that_is_not_what_was_acknowledged_is_found(log: dict[int, list[bytes]], found: str) -> None:
    assert any(found in wrong for wrong in judge(seen(), log))


def test_what_the_group_skipped_or_did_not_read_is_found() -> None:
    skipped, short = seen(), seen()
    skipped.read.remove((0, 1))
    short.read.remove((1, 0))
    assert "skipped by the group: 0 from 1 to 2" in judge(skipped, LOG)
    assert "the group read 0 of 1 in 1" in judge(short, LOG)


def test_an_error_that_reached_the_user_is_found() -> None:
    bothered = seen()
    bothered.errors.append("consumer: BrokerUnavailable()")
    assert judge(bothered, LOG) == ["reached the user: consumer: BrokerUnavailable()"]
