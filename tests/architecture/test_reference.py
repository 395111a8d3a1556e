"""The committed reference is what the code says, and links of the documentation lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from control_plane import config as control_plane
from data_plane.broker.config import read_config
from spark_usage import configuration as runner
from tests.waiting import PATIENCE_S

from . import house

PAGES = [
    house.ROOT / "README.md",
    house.ROOT / "CONTRIBUTING.md",
    *sorted((house.ROOT / "docs").rglob("*.md")),
]


@pytest.mark.pure  # it reads the text of modules, and compiled ones have none
def test_the_reference_is_as_the_code_says() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "docs.reference", "--check"],
        cwd=house.ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, f"run `python -m docs.reference`: {ended.stdout}{ended.stderr}"


def test_the_files_that_are_shown_as_examples_are_taken_by_their_processes(tmp_path: Path) -> None:
    page = (house.ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```jsonc\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    files = []
    for number, text in enumerate(shown):
        files.append(tmp_path / f"example-{number}.json")
        files[-1].write_text(re.sub(r"^ *// .*\n", "", text, flags=re.MULTILINE))
    of_broker, of_server = files
    assert read_config(of_broker, {}).broker_id == 1
    assert control_plane.read(of_server).public_url == "https://penstock.example.com"
    assert runner.read(of_server).database_tls is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(house.ROOT)))
def test_every_link_within_the_repository_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = page if not name else (page.parent / name).resolve()
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def anchors(file: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
