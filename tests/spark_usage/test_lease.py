"""Runners of one host take turns by a lock on a file; `tests/integration/fail_over` has them on PostgreSQL."""

from pathlib import Path

import pytest

from spark_usage.lease import FileLease, Unavailable, hold_within


def test_of_two_on_one_host_one_has_the_lock_and_the_next_has_a_greater_number(tmp_path: Path) -> None:
    first, second = FileLease(tmp_path / "lock"), FileLease(tmp_path / "lock")
    assert first.hold() and first.hold() and first.number == 1
    assert not hold_within(second, 0.0) and not second.lasts
    first.release()
    assert hold_within(second, 0.0) and second.number == 2
    assert not first.hold()


def test_a_lock_whose_file_was_deleted_lasts_no_longer(tmp_path: Path) -> None:
    first, second = FileLease(tmp_path / "lock"), FileLease(tmp_path / "lock")
    assert first.hold() and first.lasts
    (tmp_path / "lock").unlink()
    assert not first.lasts
    assert second.hold() and second.lasts
    assert not first.hold() and not first.lasts, "another runner has the file that is there now"
    second.release()
    assert first.hold() and first.number == 2


def test_a_runner_that_finds_its_file_deleted_takes_a_new_one_with_a_greater_number(tmp_path: Path) -> None:
    lease = FileLease(tmp_path / "lock")
    assert lease.hold() and lease.number == 1
    (tmp_path / "lock").unlink()
    assert lease.hold() and lease.lasts and lease.number == 2
    assert (tmp_path / "lock").read_text() == "2\n"
    assert not FileLease(tmp_path / "lock").hold()


def test_a_lock_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file"):
        hold_within(FileLease(tmp_path / "none" / "lock"), 0.0)
    (tmp_path / "lock").write_text("not a number")
    with pytest.raises(Unavailable, match="lock"):
        FileLease(tmp_path / "lock").hold()
