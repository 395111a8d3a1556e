"""Releases side by side: this tree, and the one before it as packaging/previous-release.toml names it."""

import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

import penstock
from local import processes
from tests.integration.installed import ROOT
from tests.waiting import PATIENCE_S

NAMED_IN = "packaging/previous-release.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One version of the project's code. It runs on the packages that are installed for this tree."""

    version: str
    tree: Path

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        """The code of the release before comes before the installed project, which is this tree. What runs this tree's
        runs the cores of the tests.
        """
        return {
            **processes.own_environment(),
            **({} if self.tree == ROOT else {"PYTHONPATH": str(self.tree)}),
            "PYTHONUNBUFFERED": "1",
            **more,
        }

    def run(self, *arguments: str, folder: Path, **environment: str) -> str:
        """Run a program of its code to the end, which must be a good one; what it printed."""
        ran = subprocess.run(
            self.command(*arguments),
            cwd=folder,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if ran.returncode:
            pytest.fail(
                f"Penstock {self.version}: {arguments}: status {ran.returncode}\n"
                f"{ran.stdout[-2000:]}{ran.stderr[-4000:]}"
            )
        return ran.stdout


CURRENT = Release(version=penstock.__version__, tree=ROOT)


def previous_release(folder: Path, repository: Path = ROOT) -> Release:
    """The release before this tree, unpacked into `folder`. Fails the test with one line where the clone does not have
    it.
    """
    named = tomllib.loads((ROOT / NAMED_IN).read_text(encoding="utf-8"))
    version, commit = named["version"], named["commit"]
    folder.mkdir(parents=True)
    archive = _git(repository, "archive", "--format=tar", commit)
    if archive.returncode:
        pytest.fail(
            f"{NAMED_IN}: commit {commit} of Penstock {version} is not in this clone; fetch its history:"
            " git fetch --unshallow",
            pytrace=False,
        )
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True, timeout=PATIENCE_S)
    return Release(version=version, tree=folder)


def _git(repository: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        ["git", "-C", str(repository), *arguments], capture_output=True, timeout=PATIENCE_S, check=False
    )
