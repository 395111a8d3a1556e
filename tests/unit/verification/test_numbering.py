"""The issuer's numbers of invoices and credit notes are held to their documents, and to those before them."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.verification.findings import Kind, Verdict
from tests.unit.verification.honest import Service, world


def _number(service: Service, invoice: str, number: str) -> None:
    service.documents[invoice]["issuer_number"] = number


def _without(service: Service) -> None:
    del service.documents["inv_2"]["issuer_number"]


def _note(service: Service, **values: Any) -> None:
    note = next(item["document"] for item in service.chain_items if item["kind"] == "credit_note")
    note.update(values)


@pytest.mark.parametrize("said", ["INV-000011", "", None])
def test_a_number_that_rest_shows_and_the_document_does_not_have_is_wrong(said: str | None) -> None:
    service = world()
    service.shown["inv_2"]["issuer_number"] = said
    report = service.verify("inv_2")
    assert report.verdict is Verdict.WRONG
    assert [problem.kind for problem in report.problems if problem.is_wrong] == [Kind.DOCUMENT_ALTERED]


def test_a_number_that_rest_shows_of_a_document_without_one_is_wrong() -> None:
    service = world()
    del service.documents["inv_1"]["issuer_number"]
    service.keep_again()
    assert service.verify("inv_1").verdict is not Verdict.WRONG
    service.shown["inv_1"]["issuer_number"] = "INV-000001"
    assert service.verify("inv_1").verdict is Verdict.WRONG


def test_a_service_of_before_there_were_such_numbers_shows_none() -> None:
    service = world()
    for document in service.documents.values():
        del document["issuer_number"]
    service.keep_again()
    for shown in service.shown.values():
        del shown["issuer_number"]
    assert service.verify("inv_2").verdict is not Verdict.WRONG


@pytest.mark.parametrize(
    "change",
    [
        lambda service: _number(service, "inv_2", "INV-000005"),  # the number of the invoice before
        lambda service: _number(service, "inv_2", "INV-000004"),
        lambda service: _number(service, "inv_2", "INV-10"),
        lambda service: _number(service, "inv_2", "CN-000010"),
        _without,
    ],
)
def test_a_number_that_is_none_or_not_after_the_one_before_is_wrong(
    change: Callable[[Service], None],
) -> None:
    """Also where the biller wrote everything so from the beginning, and the brokers noted it."""
    service = world()
    change(service)
    service.keep_again()
    report = service.verify("inv_2")
    assert {problem.kind for problem in report.problems if problem.is_wrong} == {Kind.DOCUMENT_ALTERED}


def test_a_new_series_begins_wherever_it_begins() -> None:
    service = world()
    _number(service, "inv_2", "EU-INV-000001")
    _number(service, "inv_3", "EU-INV-000002")
    service.keep_again()
    assert service.verify("inv_2").verdict is not Verdict.WRONG
    assert service.verify("inv_3").verdict is not Verdict.WRONG


@pytest.mark.parametrize("values", [{"issuer_number": "INV-000005"}, {"issuer_number": "CN-5"}])
def test_a_credit_note_has_a_number_of_credit_notes(values: dict[str, Any]) -> None:
    service = world()
    _note(service, **values)
    service.keep_again()
    assert service.verify("inv_1").verdict is Verdict.WRONG
    assert service.verify("inv_3").verdict is not Verdict.WRONG, "it is named with its own invoice"
