"""The release before comes from the history of the clone, and its absence is said in one line."""

import subprocess
from pathlib import Path

import pytest

from tests.integration.installed import ROOT
from tests.waiting import PATIENCE_S

from .release import NAMED_IN, previous_release

pytestmark = pytest.mark.processes


def test_the_release_before_is_unpacked_as_it_was_committed(tmp_path: Path) -> None:
    release = previous_release(tmp_path / "previous")
    printed = release.run(
        "-c", "import penstock; print(penstock.__version__, penstock.__file__)", folder=tmp_path
    )
    version, file = printed.split()
    assert version == release.version
    assert Path(file).is_relative_to(tmp_path / "previous")


def test_a_clone_without_history_fails_with_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    subprocess.run(
        ["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(tmp_path / "shallow")],
        check=True,
        timeout=PATIENCE_S,
    )
    with pytest.raises(pytest.fail.Exception) as failed:
        previous_release(tmp_path / "previous", tmp_path / "shallow")
    said = str(failed.value)
    assert said.startswith(f"{NAMED_IN}: commit ") and said.endswith("git fetch --unshallow")
    assert "\n" not in said
