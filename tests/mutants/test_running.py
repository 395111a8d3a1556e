"""Mutants of a small project are judged in a copy: one is killed, one survives, one hangs, one is never entered."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants import running, scores
from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.packages import ROOT
from tests.mutants.running import BaselineFailed, Copy, Fate, copied

CODE = """\"\"\"Code.\"\"\"


def larger(a: int, b: int) -> int:
    return a if a > b else b


def counted(limit: int) -> int:
    count = 0
    while count < limit:
        count += 1
    return count


def forgotten(a: int) -> int:
    return a + 1
"""
TESTS = """\"\"\"Tests.\"\"\"
from made_up import counted, larger
from made_up_values import LIMIT


def test_the_larger_one() -> None:
    assert (larger(1, 2), larger(2, 1)) == (2, 2)


def test_counting() -> None:
    assert counted(3) == LIMIT
"""
VALUES = """\"\"\"Values.\"\"\"
LIMIT = 3
"""
SLOW = """\"\"\"Slow tests.\"\"\"
import pytest
from made_up import forgotten


@pytest.mark.slow
def test_it() -> None:
    assert forgotten(1) == 2


@pytest.mark.slow
@pytest.mark.processes
def test_never_run() -> None:
    assert False
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "made_up.py").write_text(CODE)
    (root / "made_up_values.py").write_text(VALUES)
    (root / "test_made_up.py").write_text(TESTS)
    (root / "test_slow.py").write_text(SLOW)
    (root / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\nmarkers = ['slow', 'processes']\naddopts = '--import-mode=importlib'\n"
    )
    shutil.copytree(
        ROOT / "tests/mutants", root / "tests/mutants", ignore=shutil.ignore_patterns("test_*", "__pycache__")
    )
    return root


@pytest.fixture(scope="module")
def measured(project: Path) -> Iterator[Copy]:
    with copied(project) as copy:
        copy.measure(["test_made_up.py"], ["made_up.py"])
        yield copy


def mutant(mutation: str) -> Mutant:
    (found,) = (one for one in mutants_of("made_up.py", CODE, {}) if one.mutation == mutation)
    return found


def test_a_bug_that_a_test_sees_is_killed_by_it(measured: Copy) -> None:
    verdict = measured.judge(mutant("compare: a > b -> a >= b"))
    assert verdict.fate is Fate.SURVIVED, "which of two equal ones is given cannot be seen"
    verdict = measured.judge(mutant("compare: count < limit -> count <= limit"))
    assert (verdict.fate, verdict.test) == (Fate.KILLED, "test_made_up.py::test_counting")


def test_a_bug_that_hangs_fails_the_test_that_meets_it(
    measured: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits_s = iter([600.0, 1.0])
    monkeypatch.setattr(running, "limit_s", lambda expected_s: next(limits_s))
    verdict = measured.judge(mutant("statement removed: count += 1 -> pass"))
    assert (verdict.fate, verdict.test) == (Fate.KILLED, "test_made_up.py::test_counting")


def test_tests_that_take_too_long_together_are_ended(measured: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    limits_s = iter([3.0, 600.0])
    monkeypatch.setattr(running, "limit_s", lambda expected_s: next(limits_s))
    verdict = measured.judge(mutant("statement removed: count += 1 -> pass"))
    assert verdict.fate is Fate.TIMED_OUT


def test_what_no_test_enters_survives_without_a_look(measured: Copy) -> None:
    verdict = measured.judge(mutant("arithmetic: a + 1 -> a - 1"))
    assert (verdict.fate, verdict.seconds) == (Fate.UNREACHED, 0.0)
    assert measured.closest(mutant("compare: a > b -> a >= b")) == ["test_made_up.py::test_the_larger_one"]


def test_values_of_a_module_without_functions_are_seen_by_the_quickest_tests(
    measured: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    (limit,) = mutants_of("made_up_values.py", VALUES, {})
    verdict = measured.judge(limit)
    assert (verdict.fate, verdict.test) == (Fate.KILLED, "test_made_up.py::test_counting")
    monkeypatch.setattr(running, "ANY_S", 0.0)
    assert measured.judge(limit).fate is Fate.UNREACHED


def test_neither_the_project_nor_the_copy_keeps_a_mutant(measured: Copy, project: Path) -> None:
    measured.judge(mutant("compare: a > b -> a >= b"))
    assert (project / "made_up.py").read_text() == (measured.root / "made_up.py").read_text() == CODE


def test_tests_that_fail_by_themselves_judge_nothing(project: Path) -> None:
    with copied(project) as copy:
        (copy.root / "test_made_up.py").write_text("def test_it(): assert not 1")
        with pytest.raises(BaselineFailed, match="test_it"):
            copy.measure(["test_made_up.py"], ["made_up.py"])


def test_slow_tests_look_only_where_a_package_asks_for_them(project: Path) -> None:
    with copied(project) as copy:
        copy.measure(["test_made_up.py", "test_slow.py"], ["made_up.py"])
        assert copy.judge(mutant("arithmetic: a + 1 -> a - 1")).fate is Fate.UNREACHED
        copy.measure(["test_made_up.py", "test_slow.py"], ["made_up.py"], slow=True)
        verdict = copy.judge(mutant("arithmetic: a + 1 -> a - 1"))
        assert (verdict.fate, verdict.test) == (Fate.KILLED, "test_slow.py::test_it")


def test_a_copy_is_gone_afterwards(project: Path) -> None:
    with copied(project) as copy:
        assert copy.root.exists()
    assert not copy.root.exists()


def test_the_score_counts_what_hangs_as_killed_and_what_is_never_entered_as_alive(measured: Copy) -> None:
    verdicts = [
        running.Verdict(mutant=mutant("arithmetic: a + 1 -> a - 1"), fate=fate, test="", seconds=0.0)
        for fate in (*Fate, Fate.KILLED)
    ]
    assert scores.score_percent(verdicts) == 60.0
    assert scores.table({"made_up": verdicts})[-1] == "| all | 5 | 2 | 1 | 2 | 60 % |"
    assert scores.described(verdicts[3], CODE) == [
        "made_up.py:16 forgotten (arithmetic, no test enters it)",
        "    -    return a + 1",
        "    +    return a - 1",
    ]
