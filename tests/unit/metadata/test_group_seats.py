"""Seats of a tenant's groups: all coordinators together keep the limit, and a former one changes nothing."""

import pytest

from data_plane.metadata.group_seats import GroupSeatsRecord, Seats
from penstock.contract.errors import LimitExceeded, NotCoordinator

NONE = GroupSeatsRecord()


def counts(record: GroupSeatsRecord) -> dict[int, int]:
    return {one.partition: one.count for one in record.seats}


def test_what_is_stored_is_read_as_it_was() -> None:
    record = NONE.taken(7, 3, 0, 9).taken(2, 1, 4, 9)
    assert GroupSeatsRecord.decode(record.encode()) == record
    assert GroupSeatsRecord.decode(b'{"seats":[[7,3,1]],"later":1}').of(7).count == 1
    assert record.seats[0] == Seats(partition=2, leader_epoch=1, count=5)


def test_partitions_take_seats_until_all_together_have_the_limit() -> None:
    record = NONE.taken(0, 1, 0, 3).taken(1, 1, 0, 3).taken(0, 1, 1, 3)
    assert counts(record) == {0: 2, 1: 1}
    for partition, groups in ((0, 2), (1, 1), (2, 0)):
        with pytest.raises(
            LimitExceeded, match="the tenant has 3 consumer groups, at most 3 allowed; del"
        ) as no:
            record.taken(partition, 1, groups, 3)
        assert no.value.limit == "groups_max"
    assert counts(record.counted(0, 1, 1).taken(2, 1, 0, 3)) == {0: 1, 1: 1, 2: 1}


def test_a_seat_that_is_free_is_sat_on_without_a_change() -> None:
    record = NONE.counted(0, 1, 2)
    assert record.taken(0, 1, 1, 2) is record
    assert counts(record.taken(0, 2, 1, 2)) == {0: 2}, "a new epoch writes that it is there"
    assert record.taken(0, 2, 1, 2).of(0).leader_epoch == 2


def test_groups_that_were_there_before_a_lower_limit_stay_and_no_more_come() -> None:
    record = NONE.counted(0, 1, 5)
    assert record.counted(1, 1, 4).total == 9
    with pytest.raises(LimitExceeded, match="has 5 consumer groups, at most 2"):
        record.taken(1, 1, 0, 2)


def test_a_coordinator_of_a_former_epoch_neither_takes_nor_gives_back() -> None:
    record = NONE.counted(0, 4, 5)
    with pytest.raises(NotCoordinator, match="__groups-0: leadership moved"):
        record.counted(0, 3, 0)
    with pytest.raises(NotCoordinator):
        record.taken(0, 3, 5, 100)
