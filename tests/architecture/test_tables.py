"""Tables of the documentation that name what a machine can list: each has all of it, and nothing else."""

import re
from collections.abc import Iterable
from pathlib import Path

from .house import CORES, ROOT, existing
from .test_import_contracts import CONTRACTS

DOCS = ROOT / "docs"


def first_cells(page: Path, header: str) -> list[str]:
    """The code in the first cell of each row of the table that begins with this header."""
    lines = iter(page.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(header):
            break
    cells: list[str] = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells += re.findall(r"^\|[^`|]*\|?[^`|]*`([^`]+)`", line)
    assert cells, f"{page.name} has no table {header}"
    return cells


def packages(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/__init__.py")}


def test_the_index_of_the_documentation_links_every_page() -> None:
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)#]+\.md)", text))
    folders = (DOCS, DOCS / "guides", DOCS / "architecture", DOCS / "reference")
    pages = {str(page.relative_to(DOCS)) for folder in folders for page in folder.glob("*.md")}
    assert pages - linked == {"README.md"}


def test_both_tables_of_wings_have_every_wing_of_the_node() -> None:
    wings = packages(ROOT / "data_plane/node")
    assert sorted(first_cells(DOCS / "architecture.md", "| floor | wing |")) == sorted(wings)
    assert sorted(first_cells(DOCS / "architecture/node.md", "| wing | composed in |")) == sorted(wings)


def test_a_wing_is_opened_at_a_file_that_it_has() -> None:
    rows = re.findall(
        r"^\| \d \| `(\w+)` \|.*\| `(\w+\.py)` \|$", (DOCS / "architecture.md").read_text("utf-8"), re.M
    )
    assert len(rows) == len(packages(ROOT / "data_plane/node"))
    assert [row for row in rows if not (ROOT / "data_plane/node" / "/".join(row)).is_file()] == []


def test_the_layers_name_every_core() -> None:
    (line,) = re.findall(r"^cores +data_plane/(.*?) {3}", (DOCS / "architecture.md").read_text("utf-8"), re.M)
    assert sorted(line.split()) == sorted(core.removeprefix("data_plane.") for core in existing(CORES))


def test_the_table_of_apps_has_every_app_and_none_above_one_that_it_imports() -> None:
    table = first_cells(DOCS / "control-plane.md", "| app, lowest first |")
    apps = {
        str(path.parent.relative_to(ROOT)).replace("/", ".")
        for top in ("billing", "control_plane", "payments", "quotas", "tenants", "web")
        for path in (ROOT / top).rglob("apps.py")
    }
    floors = _floors(reversed(list(CONTRACTS["floors-of-django"]["layers"])))
    assert sorted(table) == sorted({*apps, "control_plane.couriers"})
    assert sorted(floors) == sorted(table), "the import contract knows others"
    assert [floors[app] for app in table] == sorted(floors[app] for app in table)


def _floors(layers: Iterable[str]) -> dict[str, int]:
    return {app.strip(): floor for floor, layer in enumerate(layers) for app in layer.split("|")}


def test_the_table_of_tests_has_every_folder() -> None:
    table = first_cells(ROOT / "CONTRIBUTING.md", "| folder | what |")
    folders = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if any(path.glob("*.py"))}
    folders |= {f"tests/{path.parent.parent.name}" for path in (ROOT / "tests").glob("*/*/__init__.py")}
    assert sorted(table) == sorted(folders - {"tests/tests"})
