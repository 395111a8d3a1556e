"""`penstock budget`: what is asked of the service, and what is shown of its answer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from penstock.cli.budgets import _shown
from penstock.cli.exit_codes import ExitCode
from penstock.contract.errors import NotFound
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

ONE: dict[str, Any] = {
    "id": "bud_1",
    "name": "monthly",
    "period": "month",
    "measure": "bytes",
    "amount": 500_000_000_000,
    "unit": "bytes",
    "policy": "refuse_produce",
    "slow_bytes_per_s": 0,
    "thresholds": [50, 100],
    "topic": "orders",
    "service_account": None,
    "period_began": "2026-11-01T00:00:00Z",
    "period_ends": "2026-12-01T00:00:00Z",
    "used": 210_000_000_000,
    "used_percent": 42,
    "noted_percent": 0,
    "created_at": "2026-11-02T00:00:00Z",
}
COST = {
    **ONE,
    "id": "bud_2",
    "name": "spend",
    "measure": "cost",
    "unit": "micro-USD",
    "amount": 12_500_000,
    "used": None,
    "used_percent": None,
    "topic": "",
    "service_account": "sa_1",
}


def answered(asked: Asked) -> Answer:
    if asked.method == "DELETE":
        return Answer(status=204, body=None)
    if asked.path.startswith("/v1/budgets?") or (asked.path == "/v1/budgets" and asked.method == "GET"):
        return Answer(body={"items": [ONE, COST], "next": None})
    one = COST if "bud_2" in asked.path else ONE
    return Answer(body={**one, "delivered": False})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["budget", *arguments])


def test_budgets_are_listed_with_a_bar_that_needs_no_colour(service: LittleServer) -> None:
    ran = run("list")
    assert ran.exit_code == 0, ran.output
    assert "[########............] 42 %" in ran.output, ran.output
    for text in ("210.0 GB", "500.0 GB a month", "topic orders", "12.50 USD", "sa_1", "?"):
        assert text in ran.output, ran.output
    assert json.loads(CliRunner().invoke(cli, ["--json", "budget", "list"]).output)["budgets"] == [ONE, COST]


@pytest.mark.parametrize(
    ("measure", "text", "amount"),
    [("bytes", "500GB", 500_000_000_000), ("messages", "1000", 1_000), ("cost", "12.50", 12_500_000)],
)
def test_amounts_are_given_as_people_write_them(
    service: LittleServer, measure: str, text: str, amount: int
) -> None:
    ran = run("create", "monthly", "--measure", measure, "--amount", text)
    assert ran.exit_code == 0, ran.output
    assert service.asked[-1].body["amount"] == amount
    assert service.asked[-1].body["thresholds"] == [50, 80, 100]
    assert "get it as soon as they answer" in ran.output


@pytest.mark.parametrize(
    ("measure", "text"),
    [("messages", "5GB"), ("cost", "1.2345678"), ("cost", "much"), ("cost", "nan"), ("bytes", "1.5GB")],
)
def test_an_amount_that_is_none_is_wrong_usage(service: LittleServer, measure: str, text: str) -> None:
    ran = run("create", "monthly", "--measure", measure, "--amount", text)
    assert ran.exit_code == ExitCode.USAGE, ran.output
    assert not service.asked


def test_a_budget_is_set_by_its_name_in_its_own_measure(service: LittleServer) -> None:
    ran = run("set", "spend", "--amount", "20")
    assert ran.exit_code == 0, ran.output
    assert service.asked[-1].method == "PATCH" and service.asked[-1].path.startswith("/v1/budgets/bud_2")
    assert service.asked[-1].body == {"amount": 20_000_000}
    assert run("set", "bud_1").exit_code == ExitCode.USAGE
    assert isinstance(run("show", "nothing").exception, NotFound)


def test_a_budget_is_removed(service: LittleServer) -> None:
    ran = run("remove", "bud_1")
    assert ran.exit_code == 0, ran.output
    assert service.asked[-1].method == "DELETE"


def test_a_use_below_a_cent_is_not_shown_as_nothing() -> None:
    assert _shown(COST, 4_200) == "0.0042 USD"
    assert _shown(COST, 1_234_500_000) == "1,234.50 USD"
