"""Every command and every line of Python in the README and the guides does what the page says, in the page's order.

A run takes the README and a third of the guides, by its seed, and all of them under FULL=1.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.docs.conftest import PAGE_S, Reader
from tests.end_to_end.docs.pages import RUN, SHOWN, blocks, documented, script
from tests.integration.installed import build_wheel, install

PAGES = documented()
CALLS_REST = "usage-and-verification.md"
WHEEL_ALONE = "installing.md"
RUNNABLE = [
    page
    for page in PAGES
    if page.name != WHEEL_ALONE
    and any(block.language in RUN and block.reason is None for block in blocks(page))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_is_run_or_says_why_it_is_not(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = blocks(page)
    assert text.count("\n```") == 2 * len(found), "a fence that is not closed"
    for block in found:
        assert block.language in (*RUN, *SHOWN), f"{page.name}:{block.line}: {block.language!r}"
        assert block.reason is None or len(block.reason) > 10, f"{page.name}:{block.line}"
        assert block.language in SHOWN or block.text.strip()
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"\n\n    (?!\*|-|\d)", outside), "indented blocks would not be run"


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=() if page == PAGES[0] else pytest.mark.drawn(shares=3))
        for page in RUNNABLE
    ],
)
def test_a_page_works_as_it_is_written(page: Path, reader: Reader) -> None:
    more: dict[str, str] = {}
    if page.name == CALLS_REST:
        more = {"PENSTOCK_API_KEY": reader.api_key, "PENSTOCK_API_URL": reader.service.api_url}
    ended = reader.run("bash", "-c", script(page, reader.clone), more=more)
    assert ended.returncode == 0, f"{ended.stdout[-3_000:]}\n{ended.stderr[-3_000:]}"
    assert "Traceback" not in ended.stderr


@pytest.mark.processes
@pytest.mark.slow
def test_the_readmes_python_works_with_the_wheel_alone(reader: Reader, tmp_path: Path) -> None:
    (lines,) = [block.text for block in blocks(PAGES[0]) if block.language == "python"]
    assert len(lines.splitlines()) <= 10
    created = reader.run("penstock", "topic", "create", "orders", "--partitions", "3")
    assert created.returncode == 0, created.stderr
    tenant = install(build_wheel(tmp_path / "dist"), tmp_path / "venv")
    ran = tenant.run("python", "-W", "error", "-c", lines, cwd=reader.home)
    assert ran.returncode == 0, ran.stderr
    assert "b'anna'" in ran.stdout and "b'one book'" in ran.stdout


@pytest.mark.processes
@pytest.mark.slow
def test_the_page_for_those_without_the_repository_works_with_the_wheel_alone(
    reader: Reader, tmp_path: Path
) -> None:
    (page,) = [page for page in PAGES if page.name == WHEEL_ALONE]
    tenant = install(build_wheel(tmp_path / "dist"), tmp_path / "venv")
    (reader.home / ".config/penstock/profiles.toml").unlink()
    ended = subprocess.run(
        ["bash", "-c", script(page, reader.home)],
        cwd=reader.home,
        env={
            "PATH": f"{tenant.folder / 'bin'}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": str(reader.home),
            "BROKERS": ",".join(reader.service.bootstrap),
            "API_URL": reader.service.api_url,
            "PENSTOCK_API_KEY": reader.api_key,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PAGE_S,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout[-3_000:]}\n{ended.stderr[-3_000:]}"
    assert "offset" in ended.stdout and "b'number 1'" in ended.stdout and "b'number 2'" in ended.stdout
