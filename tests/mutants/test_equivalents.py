"""What is argued away is left out of the score, and an argument about code that has gone is an error."""

from pathlib import Path

import pytest

from tests.mutants import equivalents
from tests.mutants.__main__ import every_mutant, sample
from tests.mutants.equivalents import Equivalent, Unmatched, without
from tests.mutants.mutations import mutants_of
from tests.mutants.packages import PACKAGES, ROOT

SOURCE = "def f(a, b):\n    return a < b\n"
MUTANTS = mutants_of("made_up.py", SOURCE, {})
ENTRY = Equivalent(
    file="made_up.py",
    function="f",
    line="return a < b",
    mutation="compare: a < b -> a <= b",
    reason="They are never the same here.",
)


def test_an_entry_takes_its_mutant_out_wherever_the_line_has_moved() -> None:
    assert len(MUTANTS) == 1
    assert without(MUTANTS, [ENTRY]) == []
    moved = mutants_of("made_up.py", f"\n\n{SOURCE}", {})
    assert without(moved, [ENTRY]) == []


def test_an_entry_that_matches_nothing_is_an_error() -> None:
    changed = mutants_of("made_up.py", SOURCE.replace("a < b", "a < b + 0"), {})
    with pytest.raises(Unmatched, match="return a < b"):
        without(changed, [ENTRY])


def test_an_entry_without_a_reason_or_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    keys = 'file = "f"\nfunction = "f"\nline = "l"\nmutation = "m"\n'
    file = tmp_path / "entries.toml"
    for wrong in ('reason = "so"', "", 'reason = "this is a good one"\nline_number = 3'):
        file.write_text(f"[[equivalent]]\n{keys}{wrong}\n")
        with pytest.raises((ValueError, TypeError)):
            equivalents.read(file)


def test_every_entry_of_the_project_matches_a_mutant_of_today() -> None:
    every = [mutant for package in PACKAGES for mutant in every_mutant(package)]
    without(every, equivalents.read())


def test_a_sample_is_fixed_by_its_seed_and_never_holds_one_twice() -> None:
    package = next(one for one in PACKAGES if one.name == "throttling")
    mutants = every_mutant(package)
    assert sample(package, mutants, 1, 10) == sample(package, mutants, 1, 10)
    assert sample(package, mutants, 1, 10) != sample(package, mutants, 2, 10)
    assert sample(package, mutants, 1, len(mutants) + 5) == mutants


def test_every_package_names_code_and_tests_that_are_there() -> None:
    for package in PACKAGES:
        assert package.modules()
        assert all((ROOT / place).exists() for place in (*package.code, *package.tests)), package.name
