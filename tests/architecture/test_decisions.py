"""Decision records are numbered without gaps; each tells context, decision, consequences, alternatives."""

import re

from . import house

RECORDS = sorted((house.ROOT / "docs/decisions").glob("*.md"))
SECTIONS = ["Context", "Decision", "Consequences", "Alternatives"]


def test_decisions_are_numbered_from_one_without_gaps() -> None:
    numbers = [
        int(match.group(1)) for path in RECORDS if (match := re.match(r"(\d{4})-[a-z0-9-]+\.md$", path.name))
    ]
    assert len(numbers) == len(RECORDS)
    assert numbers == list(range(1, len(RECORDS) + 1))


def test_every_decision_has_its_four_sections_in_order() -> None:
    assert RECORDS
    for path in RECORDS:
        headings = re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert headings == SECTIONS, path.name
