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


def _row(cost: int, **values: Any) -> dict[str, Any]:
    return {
        **values, "meters": {"messages_in": 5}, "usage_micro": cost - 1, "charges_micro": 1, "cost_micro": cost,
        "provisional_micro": 0, "cost_micro_per_million_messages": None,
    }  # fmt: skip


COSTS = {
    "items": [_row(1_000_000, tag="=cmd"), _row(2_500_000, tag="web")], "next": "second", "from": "2026-11-01",
    "to": "2026-12-01", "currency": "USD", "minor_digits": 2, "currencies": ["USD"], "provisional": True,
    "total": _row(3_500_001),
}  # fmt: skip
SECOND = COSTS | {"items": [_row(1, tag="")], "next": None}


def answer(asked: Asked) -> Answer:
    path = asked.path.partition("?")[0]
    return Answer(
        body={
            "/v1/usage/forecast": FORECAST,
            "/v1/usage/anomalies": ANOMALIES,
            "/v1/usage/what-if": WHAT_IF,
            "/v1/price-books": BOOKS,
            "/v1/costs": SECOND if "cursor=" in asked.path else COSTS,
            "/v1/cost-tags": {
                "items": [{"kind": "topic", "name": "a", "key": "team", "value": "x"}],
                "next": None,
            },
            "/v1/cost-tags/topic/orders": {"kind": "topic", "name": "orders", "tags": {"team": "web"}},
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


def test_costs_have_every_page_by_cost_and_their_sum(service: LittleServer) -> None:
    done = ran("show", "--by", "tag:team", "--month", "2026-11")
    assert rows(done) == [
        ["web", "5", "2.499999 USD", "0.000001 USD", "2.50 USD", "0.00 USD"],
        ["=cmd", "5", "0.999999 USD", "0.000001 USD", "1.00 USD", "0.00 USD"],
        ["(untagged)", "5", "0.00 USD", "0.000001 USD", "0.000001 USD", "0.00 USD"],
        ["total", "5", "3.50 USD", "0.000001 USD", "3.500001 USD", "0.00 USD"],
    ]
    assert "provisional" in done.stderr
    assert "by=tag%3Ateam" in service.asked[0].path and "cursor=second" in service.asked[1].path
    assert len(json.loads(ran("show", "--by", "tag:team", "--json").stdout)["items"]) == 3


def test_a_file_of_costs_holds_no_formula(service: LittleServer) -> None:
    lines = ran("show", "--by", "tag:team", "--csv").stdout.splitlines()
    assert lines == [
        "tag:team,messages_in,usage_micro,charges_micro,cost_micro,provisional_micro,currency",
        "'=cmd,5,999999,1,1000000,0,USD", "web,5,2499999,1,2500000,0,USD", ",5,0,1,1,0,USD",
    ]  # fmt: skip


def test_tags_are_set_whole_and_refused_where_they_are_none(service: LittleServer) -> None:
    assert rows(ran("tags")) == [["topic", "a", "team", "x"]]
    assert "topic:orders has team=web." in ran("tag", "topic:orders", "team=web", "stage=").stderr
    assert service.asked[-1].body == {"tags": {"team": "web", "stage": ""}}
    for wrong in (
        ["orders", "a=b"],
        ["topic:", "a=b"],
        ["topic:orders", "a"],
        ["topic:orders", "a=b", "a=c"],
    ):
        assert CliRunner().invoke(cli, ["cost", "tag", *wrong]).exit_code != 0
