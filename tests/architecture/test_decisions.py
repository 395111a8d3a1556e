"""Decision records are numbered without gaps, listed in their index, and each tells context, decision, consequences,
alternatives.
"""

import re

from . import house

INDEX = house.ROOT / "docs/decisions/README.md"
RECORDS = sorted(path for path in INDEX.parent.glob("*.md") if path != INDEX)
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


def test_the_index_lists_every_decision_with_its_title_one_sentence_and_its_status() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in INDEX.read_text(encoding="utf-8").splitlines()
        if re.match(r"\| \d{4} \|", line)
    ]
    titles = {
        path: path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for path in RECORDS
    }
    assert [row[:2] for row in rows] == [
        [path.name[:4], f"[{titles[path]}]({path.name})"] for path in RECORDS
    ]
    numbers = {path.name[:4] for path in RECORDS}
    for number, _, sentence, status in rows:
        assert re.fullmatch(r"[A-Z`].{20,}\.", sentence), number
        successor = re.fullmatch(r"superseded (?:in part )?by (\d{4})", status)
        assert status == "in force" or (successor and successor[1] in numbers - {number}), number
