"""A biller who lies is found: the table of alterations (`alterations.py`), every row with its due verdict."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.verification.commitments import Notes
from penstock.verification.findings import Verdict
from tests.unit.verification.alterations import NO_PART, field_name, fields, is_due, verdict_of
from tests.unit.verification.forgeries import stories
from tests.unit.verification.honest import Alteration, world

_SHARES = 4


@pytest.mark.parametrize("story", list(stories()), ids=lambda story: story.name)
def test_no_forgery_is_accepted_and_no_right_bill_refused(story: Alteration) -> None:
    verdict = verdict_of(story)
    assert is_due(story, verdict), f"{story.name}: {verdict}"


def share(number: int, *, rewritten: bool) -> Iterator[Alteration]:
    return (one for at, one in enumerate(fields(rewritten=rewritten)) if at % _SHARES == number)


@pytest.mark.slow
@pytest.mark.drawn(shares=2)
@pytest.mark.parametrize("number", range(_SHARES))
def test_every_value_of_every_document_that_is_altered_is_noticed(number: int) -> None:
    unnoticed = [one.name for one in share(number, rewritten=False) if not is_due(one, verdict_of(one))]
    assert unnoticed == []


@pytest.mark.slow
def test_of_rewritten_documents_only_the_values_listed_go_unnoticed_and_only_until_the_chain_is_noted() -> (
    None
):
    unnoticed = [one for one in fields(rewritten=True) if not is_due(one, verdict_of(one))]
    # Each listed value is one that does go unnoticed, and no other is.
    assert {field_name(one) for one in unnoticed} == set(NO_PART)
    for one in unnoticed:
        noted = replace(one, notes=Notes(billing=world(one.periods).head))
        assert verdict_of(noted) == Verdict.WRONG, one.name
