"""The leader-epoch file (RL25 to RL28)."""

import pytest

from data_plane.log.epochs import LeaderEpochs
from data_plane.log.small_file import SmallFileCorrupt


def epochs() -> LeaderEpochs:
    return LeaderEpochs([(2, 0), (3, 10), (7, 30)])


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    assert epochs().end_offset_for(3, 0, 50) == (3, 30)
    assert epochs().end_offset_for(2, 0, 50) == (2, 10)


def test_the_last_epoch_ends_with_the_log() -> None:
    assert epochs().end_offset_for(7, 0, 50) == (7, 50)
    assert epochs().end_offset_for(9, 0, 50) == (7, 50)


def test_an_unknown_epoch_is_answered_with_the_largest_one_below() -> None:
    assert epochs().end_offset_for(5, 0, 50) == (3, 30)


def test_below_the_first_epoch_the_answer_is_where_it_begins() -> None:
    assert epochs().end_offset_for(1, 0, 50) == (1, 0)


def test_without_epochs_the_answer_is_the_log_start() -> None:
    assert LeaderEpochs().end_offset_for(4, 12, 12) == (-1, 12)


def test_a_known_epoch_is_begun_only_once() -> None:
    known = epochs()
    assert not known.begin(7, 40)
    assert known.pairs() == [(2, 0), (3, 10), (7, 30)]


def test_an_epoch_without_records_gives_way_to_the_next_one_at_its_start() -> None:
    known = epochs()
    known.begin(8, 50)
    known.begin(9, 50)
    assert known.pairs() == [(2, 0), (3, 10), (7, 30), (9, 50)]


def test_a_conflicting_start_removes_the_tail() -> None:
    known = epochs()
    known.begin(8, 20)
    assert known.pairs() == [(2, 0), (3, 10), (8, 20)]


def test_truncation_forgets_what_began_at_or_above_the_cut() -> None:
    known = epochs()
    assert known.truncate_end(30)
    assert known.pairs() == [(2, 0), (3, 10)]
    assert not known.truncate_end(30)


def test_a_moved_log_start_keeps_the_epoch_that_holds_it() -> None:
    known = epochs()
    assert known.truncate_start(15)
    assert known.pairs() == [(3, 15), (7, 30)]
    assert known.truncate_start(30)
    assert known.pairs() == [(7, 30)]
    assert not known.truncate_start(30)


def test_a_moved_log_start_below_the_first_epoch_changes_nothing() -> None:
    assert not LeaderEpochs([(2, 10)]).truncate_start(5)
    assert not LeaderEpochs().truncate_start(5)


def test_the_file_reads_back() -> None:
    assert LeaderEpochs.unpack(epochs().pack()).pairs() == epochs().pairs()


def test_a_file_whose_entries_do_not_grow_is_corrupt() -> None:
    bad = LeaderEpochs()
    bad._epochs, bad._starts = [3, 2], [0, 5]
    with pytest.raises(SmallFileCorrupt, match="do not grow"):
        LeaderEpochs.unpack(bad.pack())
