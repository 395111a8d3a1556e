"""Credit notes that an operator granted: honest ones are proven, and each number that is altered is named."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.verification.findings import Kind, Verdict
from tests.unit.verification import row_worlds


def _note(service: Any, name: str) -> Any:
    return next(item["document"] for item in service.chain_items if item["object_id"] == name)


@pytest.mark.parametrize("invoice", ["inv_1", "inv_2", "inv_3", "inv_4"])
def test_invoices_with_granted_credit_notes_are_proven(invoice: str) -> None:
    report = row_worlds.granted().verify(invoice)
    assert (report.verdict, report.problems) == (Verdict.PROVEN, ())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("cn_2", lambda note: note["charges"][0].update(amount_micro=-999_999)),
        ("cn_2", lambda note: note["charges"][0].update(meter="messages_in")),
        ("cn_2", lambda note: note["charges"][1].update(name="FR")),
        ("cn_2", lambda note: note.update(cut_id="cut_1")),
        ("cn_2", lambda note: note["lines"][0].update(amount_micro=1_999_999)),
        ("cn_3", lambda note: note["granted"].update(amount_micro=note["granted"]["amount_micro"] - 1)),
    ],
)
def test_a_granted_credit_note_that_was_altered_is_named(name: str, change: Callable[[Any], None]) -> None:
    """The total follows, and the brokers noted the chain so."""
    service = row_worlds.granted()
    note = _note(service, name)
    change(note)
    parts = sum(line["amount_micro"] for line in note["lines"])
    note["total_micro"] = (
        parts - sum(one["amount_micro"] for one in note["charges"]) + note["granted"]["amount_micro"]
    )
    service.keep_again()
    report = service.verify(note["invoice"]["id"])
    assert {(problem.kind, problem.where) for problem in report.problems} == {(Kind.CREDIT_DIFFERS, name)}
