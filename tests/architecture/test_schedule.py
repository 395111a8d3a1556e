"""The order in which tests are begun names what is there, and processes of tests share what they compiled."""

import subprocess
import sys
from typing import Any

from tests import schedule

from . import house


def test_every_group_with_a_place_of_its_own_is_there() -> None:
    for name in (*schedule.SHARED, *schedule.LONGEST_FIRST, *schedule.SHORT_LAST):
        assert (house.ROOT / name).exists(), name


def test_files_of_a_shared_folder_are_one_group_and_others_are_alone() -> None:
    folder = schedule.SHARED[0]
    nodes = [f"{folder}/test_{name}.py::test_it[a::b]" for name in ("one", "two")]
    assert {schedule.group_of(node) for node in nodes} == {folder}
    assert schedule.group_of("tests/unit/test_one.py::test_it[a::b]") == "tests/unit/test_one.py"


class Named:
    """What the order asks of a test."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


def test_what_takes_long_comes_first_and_short_files_come_last() -> None:
    first, folder = schedule.LONGEST_FIRST[0], "tests/integration/fail_over"
    wanted = [
        f"{first}::test_it",
        f"{folder}/test_two.py::test_it",
        f"{folder}/test_one.py::test_it",
        "tests/fuzz/test_b.py::test_it",
        "tests/fuzz/test_a.py::test_it",
        f"{schedule.SHORT_LAST[0]}/log/test_c.py::test_it",
    ]
    mixed: list[Any] = [Named(wanted[place]) for place in (5, 3, 1, 4, 2, 0)]
    assert [item.nodeid for item in schedule.in_order(mixed)] == wanted


def test_what_one_process_compiles_the_next_one_reads() -> None:
    command = [sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
    assert not sys.dont_write_bytecode
