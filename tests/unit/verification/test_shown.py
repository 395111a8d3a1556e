"""What REST shows of an invoice beside its document: the same values, of the same types, however hostile they are."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.contract.documents import CreditNoteDocument, InvoiceDocument, read_document
from penstock.contract.errors import InvalidRequest
from penstock.verification.findings import Kind, Problem
from penstock.verification.invoice_check import check_shown
from tests.unit.verification.honest import Service
from tests.unit.verification.stored_log import BEGIN_MS, DAY_MS
from tests.unit.verification.test_losses import size_from
from tests.unit.verification.test_proving import two_days


def credited() -> tuple[dict[str, Any], InvoiceDocument, CreditNoteDocument]:
    """An invoice with lines of parts and a credit note, as it is shown and as it is."""
    log, before = two_days(), two_days()
    service = Service(log)
    service.cut()
    service.lose_from(log, 13)
    log.write(2, BEGIN_MS + 10 * DAY_MS + 5)
    service.credit("inv_1", log, 13, 12, size_from(before, 13))
    invoice = read_document(service.documents["inv_1"], InvoiceDocument, "test")
    note = read_document(service.chain_items[-1]["document"], CreditNoteDocument, "test")
    return service.invoice("inv_1"), invoice, note


def problems(change: Callable[[dict[str, Any]], object]) -> list[Problem]:
    shown, invoice, note = credited()
    change(shown)
    return list(check_shown(shown, invoice, [note]))


def deep(levels: int = 100_000) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_what_is_due_is_no_problem() -> None:
    assert problems(lambda shown: None) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda shown: shown["lines"][0].update(quantity=float(shown["lines"][0]["quantity"])),
        lambda shown: shown["lines"][0].update(amount_micro=float(shown["lines"][0]["amount_micro"])),
        lambda shown: shown["lines"][0].update(unit_size=True),
        lambda shown: shown["lines"][0]["parts"][0].update(
            quantity=float(shown["lines"][0]["parts"][0]["quantity"])
        ),
        lambda shown: shown["credit_notes"][0].update(number=True),
        lambda shown: shown.update(number=1.0),
        lambda shown: shown.update(number=True),
        lambda shown: shown.update(credited_micro=float(shown["credited_micro"])),
        lambda shown: shown["lines"].append({}),
        lambda shown: shown["lines"].pop(),
        lambda shown: shown["lines"][0].pop("unit"),
        lambda shown: shown["lines"][0].update(more=1),
        lambda shown: shown.update(gaps={}),
        lambda shown: shown.update(lines=None),
    ],
)
def test_values_of_another_type_or_form_are_named_though_python_calls_them_equal(
    change: Callable[[dict[str, Any]], object],
) -> None:
    [problem] = problems(change)
    assert problem.kind is Kind.DOCUMENT_ALTERED


def test_the_first_place_that_differs_is_named() -> None:
    [problem] = problems(lambda shown: shown["lines"][1]["parts"][0].update(quantity=25.0))
    assert "shows lines.1.parts.0.quantity 25.0, " in problem.message


@pytest.mark.parametrize("name", ["period_start", "period_end", "issued_at"])
@pytest.mark.parametrize(
    "value",
    [
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-01-01T00:00:00",
        "no time",
        "",
        "\ud800",
        None,
        0,
        [],
    ],
)
def test_times_that_are_none_are_named(name: str, value: object) -> None:
    [problem] = problems(lambda shown: shown.update({name: value}))
    assert f"shows {name} {value!r}" in problem.message


def test_a_time_may_be_written_for_another_zone() -> None:
    assert problems(lambda shown: shown.update(period_start="2024-10-04T01:00:00+01:00")) == []


@pytest.mark.parametrize("value", [deep(), {"a": deep()}, "x" * 10**6, [1] * 10**6])
@pytest.mark.parametrize("name", ["id", "total_micro", "lines", "gaps", "issued_at"])
def test_long_and_deep_values_are_told_in_a_line(name: str, value: object) -> None:
    [problem] = problems(lambda shown: shown.update({name: value}))
    assert len(problem.message) < 5_000


def test_a_list_instead_of_an_invoice_is_refused() -> None:
    _, invoice, note = credited()
    with pytest.raises(InvalidRequest, match="no object"):
        list(check_shown([], invoice, [note]))
