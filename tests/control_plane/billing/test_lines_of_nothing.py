"""An invoice line of 0 opens as an empty, right answer, in the console and on the command line; no other line opens."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from billing import queries
from penstock.cli.__main__ import cli
from tests.control_plane.billing.test_terms import owner_of
from tests.control_plane.billing.world import World
from tests.integration.rest.little_server import Answer, Asked, little_server


def test_a_line_of_nothing_opens_and_a_line_that_is_not_there_does_not(world: World) -> None:
    acme = world.tenant("acme")
    cut = world.cut(acme, [])
    world.spark()
    world.bill()
    invoice = world.invoice(cut)
    meters = [line.meter for line in invoice.lines.all()]
    assert meters and {line.quantity for line in invoice.lines.all()} == {0}
    assert queries.line_evidence(invoice) == {meter: [] for meter in meters}
    browser = owner_of(acme)
    for meter in meters:
        page = browser.get(f"/t/acme/invoices/{invoice.public_id}/lines/{meter}")
        assert page.status_code == 200 and b"Nothing was counted: the line is 0." in page.content
    assert browser.get(f"/t/acme/invoices/{invoice.public_id}/lines/zebras").status_code == 404


NOTHING = {
    "id": "inv_1", "number": 1, "status": "issued", "cut": "cut_1", "period_start": "2026-10-01T00:00:00Z",
    "period_end": "2026-11-01T00:00:00Z", "gaps": [], "currency": "USD", "minor_digits": 2, "total_micro": 0,
    "credit_notes": [], "charges": [],
    "lines": [
        {"meter": meter, "quantity": 0, "amount_micro": 0, "price_book_sha256": "0" * 64, "parts": []}
        for meter in ("messages_in", "partition_minutes")
    ],
}  # fmt: skip


@pytest.fixture
def documents(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[dict[str, Any]]:
    """What the service answers of an invoice whose lines are all 0."""
    answers: dict[str, Any] = {"document": {"partitions": [], "measured": []}, "status": "issued"}

    def answered(asked: Asked) -> Answer:
        return Answer(body=answers if asked.path.endswith("/evidence") else NOTHING)

    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "none.toml"))
    monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        yield answers


def test_the_command_opens_lines_of_nothing_and_says_so(documents: dict[str, Any]) -> None:
    opened = CliRunner().invoke(cli, ["invoice", "show", "inv_1", "--open"])
    assert opened.exit_code == 0
    assert [row.strip() for row in opened.stderr.splitlines() if "counted" in row] == [
        "messages_in: nothing was counted", "partition_minutes: nothing was counted",
    ]  # fmt: skip
    shown = json.loads(CliRunner().invoke(cli, ["invoice", "show", "inv_1", "--open", "--json"]).stdout)
    assert shown["evidence"] == {"messages_in": [], "bytes_in": [], "partition_minutes": []}


def test_lines_without_a_document_are_not_said_to_be_empty(documents: dict[str, Any]) -> None:
    documents["document"] = None
    opened = CliRunner().invoke(cli, ["invoice", "show", "inv_1", "--open"])
    assert opened.exit_code == 0
    assert "its lines cannot be opened" in opened.stderr and "nothing was counted" not in opened.stderr
