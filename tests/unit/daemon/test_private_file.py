"""Private files: whole, durable, for their owner."""

import os
import stat
from pathlib import Path

import pytest

from penstock.private_file import write_private


def test_a_private_file_is_its_owners_alone_whatever_stood_there(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "key"
    write_private(file, "first\n")
    file.chmod(0o644)
    write_private(file, "größer\n")
    assert file.read_text(encoding="utf-8") == "größer\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(file.parent) == ["key"]


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    write_private(file, "first\n")

    def full(descriptor: int) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_private(file, "second\n")
    assert file.read_text() == "first\n"
    assert os.listdir(tmp_path) == ["key"]
