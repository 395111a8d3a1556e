"""`penstock infrastructure`, `margins --topics` and `price-book what-if` show what the service answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.__main__ import cli
from penstock.rules import focus_costs
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

SHA256 = "ab" * 32
HEADER = "BillingCurrency,ChargePeriodStart,ChargePeriodEnd,EffectiveCost,ServiceCategory,ServiceName,Tags\n"
ROW = "USD,2026-11-03T00:00:00Z,2026-11-04T00:00:00Z,{},Compute,EC2,x\n"
IMPORT: dict[str, Any] = {
    "id": "cim_1", "source": "aws", "sha256": SHA256, "months": ["2026-11"], "rows": 2, "costs": 1,
    "totals": {"USD": 3_500_000}, "made_at": "2026-12-01T00:00:00Z", "undone_at": None,
    "created": 1, "changed": 0, "removed": 0, "unchanged": 0,
}  # fmt: skip
TOPIC = {
    "topic": "", "messages_in": 5, "bytes_in": 9, "direct_micro": 1_000_000, "idle_micro": 0, "overhead_micro": 0,
    "cost_micro": 1_000_000, "billed_micro": None, "margin_micro": None, "cost_micro_per_million_messages": None,
}  # fmt: skip
WHAT_IF = {
    "currency": "USD", "minor_digits": 2, "difference_micro": 500_000, "dearer": 1, "cheaper": 0, "left_out": 3,
    "tenants": [
        {"tenant": "tn_1", "name": "acme", "billed_currency": "USD", "billed_micro": 1_000_000,
         "preview_micro": 1_500_000, "difference_micro": 500_000},
        {"tenant": "tn_2", "name": "other", "billed_currency": "EUR", "billed_micro": 1_000_000,
         "preview_micro": 1_500_000, "difference_micro": None},
    ],
}  # fmt: skip
BOOK = {"sha256": SHA256, "document": {"name": "partner", "version": 3}}


def answered(asked: Asked) -> Answer:
    path = asked.path.partition("?")[0]
    if path == "/v1/billing/cost-imports" and asked.method == "POST":
        return Answer(status=201, body=IMPORT)
    lists = {
        "/v1/billing/cost-imports": [IMPORT],
        "/v1/billing/costs": [],
        "/v1/margins/topics": [TOPIC],
        "/v1/price-books": [BOOK],
    }
    return Answer(body=WHAT_IF if path == "/v1/billing/what-if" else {"items": lists[path], "next": None})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", "operator")
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


def ran(*arguments: str) -> Result:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    return done


def test_a_file_of_any_size_is_summed_up_before_it_is_sent(service: LittleServer, tmp_path: Path) -> None:
    file = tmp_path / "focus.csv"
    file.write_text("\ufeff" + HEADER + ROW.format("1.25") + ROW.format("2.25"), encoding="utf-8")
    done = ran("infrastructure", "import", str(file), "--source", "aws")
    sent = service.asked[-1].body
    assert sent["source"] == "aws" and sent["csv"].count("\n") == 2
    assert [float(one.cost) for one in focus_costs.read(sent["csv"].splitlines()).sums] == [3.5]
    assert "2 rows are 1 costs of 2026-11: 1 created" in done.stderr and "Together 3.50 USD" in done.stderr


def test_a_wrong_row_is_named_before_anything_is_sent(service: LittleServer, tmp_path: Path) -> None:
    file = tmp_path / "focus.csv"
    file.write_text(HEADER + ROW.format("1") + ROW.format("much"), encoding="utf-8")
    done = CliRunner().invoke(cli, ["infrastructure", "import", str(file), "--source", "aws"])
    assert done.exit_code != 0 and "row 3, column EffectiveCost" in str(done.exception) and not service.asked
    gone = CliRunner().invoke(cli, ["infrastructure", "import", str(tmp_path / "no"), "--source", "aws"])
    assert "cannot be read" in str(gone.exception)


def test_imports_topics_and_what_if_are_rows(service: LittleServer) -> None:
    assert ran("infrastructure", "imports").stdout.split("\t")[:6] == [
        "cim_1", "aws", "2026-11", "2", "1", "3.50 USD",
    ]  # fmt: skip
    assert "No cost is entered" in ran("infrastructure", "list").stderr
    topics = ran("margins", "2026-11", "--topics", "tn_1").stdout.strip().split("\t")
    assert topics == ["(no topic)", "5", "1.00", "0.00", "0.00", "1.00", "-", "-", "-"]
    assert "tenant=tn_1" in service.asked[-1].path and "period=2026-11" in service.asked[-1].path
    done = ran("price-book", "what-if", "partner")
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        ["tn_1", "acme", "1.00 USD", "1.50 USD", "+0.50 USD"],
        ["tn_2", "other", "1.00 EUR", "1.50 USD", "other currency"],
    ]
    assert "1 would pay more, 0 less; together +0.50 USD." in done.stderr and "3 tenants" in done.stderr
