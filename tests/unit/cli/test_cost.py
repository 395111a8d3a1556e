"""`penstock cost` shows the month's forecast, its anomalies, and the month by another book."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

SHA256 = "ab" * 32


def priced(amount: int) -> dict[str, Any]:
    tax = {
        "kind": "tax", "name": "DE", "meter": "", "base_micro": amount, "basis_points": 1_900,
        "amount_micro": amount // 10, "reason": "VAT",
    }  # fmt: skip
    line = {
        "meter": "messages_in", "unit": "million", "unit_size": 1, "quantity": 7, "amount_micro": amount,
    }  # fmt: skip
    return {"lines": [line], "charges": [tax], "total_micro": amount + amount // 10}


FORECAST: dict[str, Any] = {
    "begins": "2026-11-01T00:00:00Z",
    "ends": "2026-12-01T00:00:00Z",
    "interval_percent": 80,
    "history_days_min": 14,
    "too_little_history": True,
    "meters": [{
        "meter": "messages_in", "basis": "run_rate", "history_days": 5, "trend_per_week": 0, "so_far": 1_000,
        "total": {"low": 2_000, "expected": 3_000, "high": 9_000}, "days": [],
    }],
    "cost": {
        "currency": "USD", "minor_digits": 2, "price_book_sha256": SHA256,
        "low": priced(1_000_000), "expected": priced(2_000_000), "high": priced(5_000_000),
    },
}  # fmt: skip
ANOMALIES: dict[str, Any] = {
    "days": 7,
    "history_days_min": 21,
    "anomalies": [{
        "day": "2026-11-13", "meter": "bytes_in", "quantity": 900, "expected": 100, "low": 70, "high": 130,
        "deviations_tenths": 400, "topics": [], "reason": "bytes_in: 900, expected 100",
    }],
}  # fmt: skip
WHAT_IF: dict[str, Any] = {
    "period": "running", "period_start": "2026-11-01T00:00:00Z", "period_end": "2026-12-01T00:00:00Z",
    "too_little_history": False, "billed_currency": "USD", "currency": "USD", "minor_digits": 2,
    "billed_micro": 1_000_000, "preview_micro": 3_000_000, "difference_micro": 2_000_000,
    "lines": [{
        "kind": "usage", "name": "messages_in", "meter": "messages_in", "billed_micro": 1_000_000,
        "preview_micro": 3_000_000, "difference_micro": 2_000_000,
    }],
}  # fmt: skip
BOOKS = {"items": [{"sha256": SHA256, "document": {"name": "standard", "version": 3}}], "next": None}


def answer(asked: Asked) -> Answer:
    path = asked.path.partition("?")[0]
    return Answer(
        body={
            "/v1/usage/forecast": FORECAST,
            "/v1/usage/anomalies": ANOMALIES,
            "/v1/usage/what-if": WHAT_IF,
            "/v1/price-books": BOOKS,
        }[path]
    )


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answer) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


def ran(*arguments: str) -> Result:
    done = CliRunner().invoke(cli, ["cost", *arguments])
    assert done.exit_code == 0, done.output
    return done


def rows(done: Result) -> list[list[str]]:
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_the_forecast_has_rows_of_usage_and_cost_and_says_that_history_is_missing(
    service: LittleServer,
) -> None:
    done = ran("forecast")
    assert rows(done)[1:] == [
        ["usage", "messages_in", "1000", "2000", "3000", "9000",
         "too little history: the mean day so far, 5 days"],
        ["cost", "messages_in", "1.00 USD", "2.00 USD", "5.00 USD"],
        ["cost", "tax DE", "0.10 USD", "0.20 USD", "0.50 USD"],
        ["cost", "total", "1.10 USD", "2.20 USD", "5.50 USD"],
    ]  # fmt: skip
    assert "needs 14 whole days" in done.stderr


def test_anomalies_are_asked_for_by_days_and_have_their_reason(service: LittleServer) -> None:
    assert rows(ran("anomalies", "--days", "7")) == [
        ["2026-11-13", "bytes_in", "900", "100", "70", "130", "bytes_in: 900, expected 100"]
    ]
    assert service.asked[-1].path.endswith("?days=7")
    assert CliRunner().invoke(cli, ["cost", "anomalies", "--days", "93"]).exit_code == 2


def test_what_if_finds_the_book_by_its_name_and_shows_the_difference(service: LittleServer) -> None:
    assert rows(ran("what-if", "standard", "--last")) == [
        ["usage messages_in", "1.00 USD", "3.00 USD", "+2.00 USD"],
        ["total", "1.00 USD", "3.00 USD", "+2.00 USD"],
    ]
    assert f"price_book_sha256={SHA256}" in service.asked[-1].path
    assert "period=last" in service.asked[-1].path
    unknown = CliRunner().invoke(cli, ["cost", "what-if", "partner"])
    assert unknown.exit_code != 0


def test_json_is_what_the_service_says(service: LittleServer) -> None:
    assert json.loads(ran("forecast", "--json").stdout) == FORECAST
    assert json.loads(ran("anomalies", "--json").stdout) == ANOMALIES
    assert json.loads(ran("what-if", "standard:3", "--json").stdout) == WHAT_IF
