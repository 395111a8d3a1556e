"""The folder of peppers: whole files alone count, and a version never changes."""

import shutil
import threading
from pathlib import Path

import pytest

from daemon import pepper_folder


def test_a_version_is_made_once_whatever_number_of_processes_make_it(tmp_path: Path) -> None:
    folder = tmp_path / "below" / "peppers"
    made: list[bool] = []
    threads = [threading.Thread(target=lambda: made.append(pepper_folder.make(folder, 2))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False] * 7 + [True]
    assert sorted(file.name for file in folder.iterdir()) == ["2", "2.made"]
    assert (folder / "2").stat().st_mode & 0o077 == folder.stat().st_mode & 0o077 == 0
    assert len(pepper_folder.read_all(folder)[2] or b"") == 32


def test_a_copy_of_the_folder_is_as_old_as_the_folder(tmp_path: Path) -> None:
    folder, copy = tmp_path / "peppers", tmp_path / "copy"
    pepper_folder.make(folder, 2)
    (folder / "2.made").write_text("1700000000\n")
    shutil.copytree(folder, copy, copy_function=shutil.copyfile)
    assert pepper_folder.made_at(copy, 2) == 1_700_000_000
    assert not pepper_folder.make(copy, 2), "it is there"
    assert pepper_folder.made_at(copy, 2) == 1_700_000_000
    assert pepper_folder.versions(copy) == [2] and list(pepper_folder.read_all(copy)) == [2]
    for said in ("", "soon\n", "\xff", "99999999999\n"):
        (copy / "2.made").write_text(said, encoding="latin-1")
        assert pepper_folder.made_at(copy, 2) == (copy / "2").stat().st_mtime, said
    (copy / "2.made").unlink()
    assert pepper_folder.made_at(copy, 2) == (copy / "2").stat().st_mtime, "of a release before"
    pepper_folder.remove(folder, 2)
    assert list(folder.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        pepper_folder.made_at(folder, 2)


@pytest.mark.parametrize("content", ["", "ab" * 32, "ab" * 31 + "\n", "xy" * 32 + "\n", "ab" * 33 + "\n"])
def test_a_file_that_is_not_whole_is_no_pepper_yet(tmp_path: Path, content: str) -> None:
    (tmp_path / "2").write_text(content)
    assert pepper_folder.read_one(tmp_path, 2) is None
    assert pepper_folder.read_all(tmp_path) == {2: None}
    assert not pepper_folder.make(tmp_path, 2)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in (".2.tmp", "02", "x", "current", "1000000000"):
        (tmp_path / name).write_text("ab" * 32 + "\n")
    assert pepper_folder.versions(tmp_path) == []


def test_the_version_in_use_is_what_was_said_last(tmp_path: Path) -> None:
    assert pepper_folder.current(tmp_path / "none") is None
    for version in (2, 3):
        pepper_folder.use(tmp_path, version)
        assert pepper_folder.current(tmp_path) == version
    (tmp_path / "current").write_text("two\n")
    with pytest.raises(ValueError, match="a version required"):
        pepper_folder.current(tmp_path)


def test_one_file_that_cannot_be_read_hides_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "2").mkdir()
    pepper_folder.make(tmp_path, 3)
    found = pepper_folder.read_all(tmp_path)
    assert (found[2], found[3]) == (None, pepper_folder.read_one(tmp_path, 3))
    assert "a pepper cannot be read" in caplog.text


def test_a_folder_that_is_missing_is_no_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pepper_folder.read_all(tmp_path / "none")
    assert pepper_folder.versions(tmp_path / "none") == []
