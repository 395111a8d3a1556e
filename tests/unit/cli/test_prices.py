"""`penstock prices` shows the book in force, the terms with what is left of credit, and the cost so far."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, LittleServer, little_server

FOUND: dict[str, Any] = {
    "begins": "2026-11-01T00:00:00Z",
    "currency": "USD",
    "minor_digits": 2,
    "price_book_sha256": "ab" * 32,
    "price_book": {
        "name": "partner", "version": 3, "fees": [{"fee": "support", "month": "50.000000"}],
        "minimum_month": "100.000000",
        "meters": [{
            "meter": "messages_in", "unit": "million", "unit_size": 1_000_000, "free": 5, "model": "volume",
            "tiers": [{"up_to": None, "unit_price": "0.040000000000"}],
        }],
    },
    "discounts": [{
        "id": "di_1", "basis_points": 1_000, "amount_micro": 0, "currency": "", "meters": ["messages_in"],
        "from_ms": 0, "until_ms": 1_800_000_000_000, "reason": "partner",
    }],
    "credits": [{
        "id": "cr_1", "amount_micro": 6_000_000, "currency": "USD", "granted_ms": 0, "expires_ms": None,
        "reason": "prepaid",
    }],
    "tax": {"country": "DE", "region": "", "reverse_charge": True, "reason": "abroad", "rates": []},
    "credits_left": [{"grant": "cr_1", "left_micro": 1_500_000}],
    "lines": [{
        "meter": "messages_in", "unit": "million", "unit_size": 1_000_000, "quantity": 7, "amount_micro": 5_000_000,
    }],
    "charges": [{
        "kind": "discount", "name": "di_1", "meter": "messages_in", "base_micro": 5_000_000, "basis_points": 1_000,
        "amount_micro": -500_000, "reason": "partner",
    }],
    "total_micro": 4_500_000,
}  # fmt: skip


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(lambda _: Answer(body=FOUND)) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


def test_the_prices_in_force_and_the_cost_so_far_are_rows(service: LittleServer) -> None:
    ran = CliRunner().invoke(cli, ["prices"])
    assert ran.exit_code == 0, ran.output
    rows = [line.split("\t") for line in ran.stdout.splitlines()]
    assert [
        "price",
        "messages_in",
        "5 free, then 0.04 each million of 1,000,000 messages, by the whole volume",
    ] in rows
    assert ["price", "minimum", "100 a month"] in rows and ["price", "fee support", "50 a month"] in rows
    assert [
        "terms",
        "discount",
        "di_1",
        "10 % of messages_in",
        "1970-01-01 to 2027-01-15",
        "partner",
        "",
    ] in rows
    assert ["terms", "credit", "cr_1", "6.00 USD", "never expires", "prepaid", "1.50 USD"] in rows
    assert ["terms", "tax", "DE", "reverse charge", "", "abroad", ""] in rows
    assert ["cost", "messages_in", "7", "5.00 USD"] in rows
    assert ["cost", "discount di_1 for messages_in, 10 % of 5.00 USD (partner)", "", "-0.50 USD"] in rows
    assert rows[-1] == ["total", "4.50 USD"]
    assert [one.path for one in service.asked] == ["/v1/prices"]


def test_programs_get_the_document(service: LittleServer) -> None:
    assert json.loads(CliRunner().invoke(cli, ["prices", "--json"]).stdout) == FOUND
