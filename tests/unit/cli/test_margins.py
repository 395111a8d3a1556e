"""`penstock margins` reads every page, and shows sums, plans and tenants."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

MARGIN = {
    "tenant": "tn_1", "name": "acme", "plan": "shared", "tenants": 1, "messages_in": 2_000_000, "bytes_in": 5,
    "direct_micro": 500_000, "idle_micro": 250_000, "overhead_micro": 50_000, "unborne_micro": 0,
    "cost_micro": 800_000, "billed_micro": 900_000, "billing": "provisional", "margin_micro": 100_000,
    "cost_micro_per_million_messages": 400_000, "direct_micro_per_million_messages": 250_000,
    "cost_micro_per_gib_in": None,
}  # fmt: skip
ASSET = {
    "name": "brokers", "kind": "hosts", "driver": "bytes", "cost_micro": 800_000, "used": 5, "capacity": None,
    "direct_micro": 500_000, "idle_micro": 250_000, "overhead_micro": 50_000, "unspread_micro": 0,
}  # fmt: skip
TOTAL = MARGIN | {"tenant": "", "name": "", "plan": ""}


def answered(asked: Asked) -> Answer:
    second = "cursor=two" in asked.path
    item = MARGIN | ({"tenant": "tn_2", "cost_micro": 900_000, "margin_micro": None} if second else {})
    return Answer(
        body={
            "items": [item], "next": None if second else "two", "period": "2026-11", "currency": "USD",
            "method": "m", "idle": "spread", "total": TOTAL, "plans": [TOTAL | {"plan": "shared"}], "assets": [ASSET],
        }
    )  # fmt: skip


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", "operator")
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


def test_rows_are_the_assets_the_sum_plans_and_tenants_by_cost(service: LittleServer) -> None:
    ran = CliRunner().invoke(cli, ["margins", "2026-11"])
    assert ran.exit_code == 0, ran.output
    rows = [line.split("\t") for line in ran.stdout.splitlines()]
    assert [row[:3] for row in rows] == [
        ["asset", "brokers", "hosts"],
        ["margin", "total", "USD"],
        ["margin", "plan", "shared"],
        ["margin", "tn_2", "acme"],
        ["margin", "tn_1", "acme"],
    ]
    assert rows[-1][3:] == [
        *("2000000", "0.50", "0.25", "0.05", "0.00", "0.80", "0.90", "provisional", "0.10", "0.40", "-"),
    ]
    assert rows[-2][-3] == "-"
    assert ["period=2026-11" in one.path for one in service.asked] == [True, True]


def test_programs_get_everything_at_once(service: LittleServer) -> None:
    ran = CliRunner().invoke(cli, ["margins", "2026-11", "--json", "--idle", "kept", "--currency", "USD"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert [one["tenant"] for one in found["tenants"]] == ["tn_1", "tn_2"] and "next" not in found
    assert all("idle=kept" in one.path and "currency=USD" in one.path for one in service.asked)
