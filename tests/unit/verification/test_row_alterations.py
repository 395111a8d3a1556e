"""No row of a document is doubled, renamed, moved, swapped, dropped or changed unnoticed where that costs anything: the
table of `row_alterations.py`. A run draws a tenth of it by a printed seed, and takes all of it under FULL=1.
"""

import random

import pytest

from tests.conftest import FULL
from tests.unit.verification.row_alterations import (
    ARGUED,
    MAY_COST_MORE,
    SOURCES,
    alterations,
    argument,
    is_due,
    lists,
    verdict_of,
)
from tests.unit.verification.row_worlds import plain

SEED = random.randrange(2**32)
SHARE = 1.0 if FULL else 0.1


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_no_row_is_altered_unnoticed_but_where_it_is_argued(source: str) -> None:
    drawn = random.Random(f"{SEED}{source}")
    tried = [alteration for alteration in alterations(source) if FULL or drawn.random() < SHARE]
    found = {alteration.name: (alteration, verdict_of(alteration)) for alteration in tried}
    wrong = [f"{verdict}: {name}" for name, (one, verdict) in found.items() if not is_due(one, verdict)]
    assert wrong == [], f"seed {SEED}; FULL=1 tries all of them"
    if FULL:
        argued = {argument(one) for one, verdict in found.values() if verdict == "unnoticed"}
        assert argued - {None} == {
            pattern for pattern in ARGUED if any(argument(one) == pattern for one in tried)
        }, "an argument that no alteration needs"


def test_every_list_of_every_document_is_altered() -> None:
    """The generator walks what is there: a list that a document gets tomorrow is in it."""
    service = plain()
    document = service.documents["inv_1"]
    document["tomorrow"] = [{"of": "a new kind", "rows": [1]}]
    paths = {".".join(str(step) for step in path) for path, _ in lists(document)}
    assert {"partitions", "partitions.0.days", "cut.readings", "lines", "lines.0.parts", "tomorrow"} <= paths
    assert "tomorrow.0.rows" in paths
    whats = {alteration.what.partition(",")[0] for alteration in alterations("invoice 1")}
    assert {"doubled", "dropped", "swapped with the next", "one more", "one less", "another text"} <= whats
    assert any(what.startswith("moved to value") for what in whats)
    assert all(ARGUED.values()) and all(MAY_COST_MORE.values())
