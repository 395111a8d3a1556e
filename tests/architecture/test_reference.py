"""The committed reference is what the code says, and links of the documentation lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S

from . import house

PAGES = [
    house.ROOT / "README.md",
    house.ROOT / "CONTRIBUTING.md",
    *sorted((house.ROOT / "docs").rglob("*.md")),
]


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
