"""The site of the documentation: its script is the one that was published, and every page has its place."""

import hashlib
import re

from . import house

SITE = house.ROOT / "docs/site"
MERMAID_SHA256 = "07e37dfa97b337ccc85365d57eddf99b9706f09db3b59b260d0333b23b343c4b"
"""Of `dist/mermaid.min.js` in the package mermaid 11.12.0."""


def test_the_script_that_draws_is_unchanged() -> None:
    script = (SITE / "theme/assets/mermaid.min.js").read_bytes()
    assert hashlib.sha256(script).hexdigest() == MERMAID_SHA256


def test_each_page_forbids_requests_to_other_servers() -> None:
    (policy,) = re.findall(
        r'http-equiv="Content-Security-Policy" content="([^"]+)"',
        (SITE / "theme/main.html").read_text(encoding="utf-8"),
    )
    sources = {source for rule in policy.split(";") for source in rule.split()[1:]}
    assert policy.startswith("default-src 'self';")
    assert sources == {"'self'", "'unsafe-inline'", "data:", "blob:"}


def test_every_page_is_in_the_navigation() -> None:
    docs = house.ROOT / "docs"
    pages = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    listed = set(
        re.findall(r"^ +- (?:[\w ]+: )?(\S+\.md)$", (house.ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    )
    records = {page for page in pages if re.match(r"decisions/\d", page)}
    assert pages - records == listed - {"project.md", "contributing.md", "changelog.md"}
