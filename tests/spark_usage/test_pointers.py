"""The pointer of the latest runner counts, whatever an earlier one still writes."""

from pathlib import Path

import pytest

from billing.data_sets import current_manifest
from spark_usage import pointers
from spark_usage.lease import FileLease, Unavailable, hold_within

OLD, NEW, NEWEST = "a" * 32, "b" * 32, "c" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "usage_day"
    made.mkdir()
    return made


def test_an_earlier_runner_that_wakes_up_changes_nothing_that_a_reader_sees(folder: Path) -> None:
    assert pointers.current_run(folder) is None
    pointers.point_to(folder, OLD, 1)
    assert pointers.current_run(folder) == OLD
    pointers.take_over(folder.parent, 2)
    assert pointers.current_run(folder) == OLD, "what counts goes on counting"
    pointers.point_to(folder, NEW, 1)
    assert pointers.current_run(folder) == OLD
    pointers.point_to(folder, NEWEST, 2)
    pointers.point_to(folder, NEW, 1)
    assert pointers.current_run(folder) == NEWEST


def test_a_pointer_without_a_number_is_the_first(folder: Path) -> None:
    pointers.point_to(folder, OLD, 0)
    assert (folder / "current.json").exists() and pointers.current_run(folder) == OLD
    pointers.point_to(folder, NEW, 1)
    pointers.point_to(folder, OLD, 0)
    assert pointers.current_run(folder) == NEW


def test_pointers_of_long_ago_go_and_other_files_stay(folder: Path) -> None:
    (folder / "current-notes.json").write_text("{}")
    for number in (0, 9, 10, 11):
        pointers.point_to(folder, OLD, number)
    assert sorted(file.name for file in folder.iterdir()) == [
        "current-0000000010.json",
        "current-0000000011.json",
        "current-notes.json",
    ]


def test_billing_reads_the_same_pointer(folder: Path) -> None:
    assert current_manifest(folder.parent, "usage_day") is None
    pointers.point_to(folder, OLD, 0)
    pointers.point_to(folder, NEW, 9)
    pointers.point_to(folder, OLD, 10)
    pointers.point_to(folder, NEW, 9)
    with pytest.raises(Exception, match=OLD):
        current_manifest(folder.parent, "usage_day")


def test_of_two_on_one_host_one_has_the_lock_and_the_next_has_a_greater_number(tmp_path: Path) -> None:
    first, second = FileLease(tmp_path / "lock"), FileLease(tmp_path / "lock")
    assert first.hold() and first.hold() and first.number == 1
    assert not hold_within(second, 0.0) and not second.held
    first.release()
    assert hold_within(second, 0.0) and second.number == 2
    assert not first.hold()


def test_a_lock_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file"):
        hold_within(FileLease(tmp_path / "none" / "lock"), 0.0)
    (tmp_path / "lock").write_text("not a number")
    with pytest.raises(Unavailable, match="lock"):
        FileLease(tmp_path / "lock").hold()
