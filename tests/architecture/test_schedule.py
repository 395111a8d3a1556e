"""The order in which tests are begun names what is there, and keeps together what belongs together."""

from tests import schedule

from . import house


def test_every_group_with_a_place_of_its_own_is_there() -> None:
    for name in (*schedule.SHARED, *schedule.LONGEST_FIRST):
        assert (house.ROOT / name).exists(), name


def test_files_of_a_shared_folder_are_one_group_and_others_are_alone() -> None:
    folder = schedule.SHARED[0]
    nodes = [f"{folder}/test_{name}.py::test_it[a::b]" for name in ("one", "two")]
    assert {schedule.group_of(node) for node in nodes} == {folder}
    assert schedule.group_of("tests/unit/test_one.py::test_it[a::b]") == "tests/unit/test_one.py"
