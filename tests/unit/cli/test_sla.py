"""`penstock sla` shows a month with its formulas, names what does not follow, and takes time out for operators."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.__main__ import cli
from penstock.contract import documents
from penstock.contract.service_level_documents import Excluded
from penstock.rules.service_level_months import month_document
from penstock.rules.service_levels import OPERATIONS, STANDARD_1, Counts, operation_month
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

FIRST = 1_788_220_800
"""2026-09-01."""
LAST = FIRST + 30 * 86_400 - 300
DOCUMENT = month_document(
    tenant="tn_acme",
    month="2026-09",
    bounds_s=(FIRST, FIRST + 30 * 86_400),
    level=STANDARD_1,
    excluded=(
        Excluded(
            id="exc_0", from_s=LAST, until_s=LAST + 60, reason="maintenance", announced_s=FIRST - 86_400
        ),
    ),
    operations=[
        operation_month(
            name,
            (FIRST, FIRST + 30 * 86_400),
            {
                second: Counts(valid=100, bad=30 if name == "produce" and second < FIRST + 86_400 else 0)
                for second in range(FIRST, FIRST + 30 * 86_400, 300)
            },
            {},
            (),
            [(LAST, LAST + 60)],
        )
        for name in OPERATIONS
    ],
    latency=None,
    invoices=(),
    currency="USD",
    minor_digits=2,
)
DAYS = [{"day": "2026-09-01", "parts": 700_000_000}]
DAYS += [{"day": f"2026-09-{day:02}", "parts": 1_000_000_000} for day in range(2, 31)]
SHOWN: dict[str, Any] = {
    "month": "2026-09", "level": "standard", "level_version": 1, "latency": None,
    "leaderless": [{"topic": "orders", "topic_id": "00", "seconds": 12}],
    "leaderless_partitions": [{"topic": "orders", "topic_id": "00", "partition": 7, "seconds": 12}],
    "provisional": False, "report": "slr_1", "binding_parts": DOCUMENT.binding_parts,
    "target_parts": 999_500_000, "basis_points": 2_500, "currency": "USD", "minor_digits": 2, "charge_micro": 0,
    "credit_micro": 0, "days": DAYS, "document": documents.plain(DOCUMENT),
    "announced": [
        {"id": "exc_1", "from_at": "2026-12-05T02:00:00Z", "until_at": "2026-12-05T03:00:00Z", "reason": "move",
         "announced_at": "2026-09-01T00:00:00Z"},
    ],
    "document_sha256": documents.document_sha256(DOCUMENT),
    "latencies": [
        {"operation": "produce", "requests": 198, "p50_us": 1_990, "p95_us": 4_000, "p99_us": 9_990, "p999_us": 20_000}
    ],
}  # fmt: skip
EXCLUSION = {
    "id": "exc_1", "tenant": None, "from_at": "2026-09-05T02:00:00Z", "until_at": "2026-09-05T03:00:00Z",
    "reason": "maintenance", "withdrawn_at": None, "created_at": "2026-09-01T00:00:00Z",
}  # fmt: skip


def answer(asked: Asked) -> Answer:
    path = asked.path.partition("?")[0]
    if path.startswith("/v1/billing/sla-exclusions"):
        listed = asked.method == "GET"
        return Answer(body={"items": [EXCLUSION], "next": None} if listed else EXCLUSION)
    if path == "/v1/sla/2026-08":
        return Answer(body={**SHOWN, "credit_micro": 5})
    return Answer(body=SHOWN if path.startswith("/v1/sla/") else {"items": [], "next": None})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answer) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", "operator")
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


def ran(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(cli, ["sla", *arguments])
    assert done.exit_code == code, done.output
    return done


def rows(done: Result) -> list[list[str]]:
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_a_month_has_its_formulas_its_windows_and_its_worst_ones(service: LittleServer) -> None:
    found = rows(ran("show", "2026-09"))
    assert found[0] == ["sla", "2026-09", "98.999 %", "99.950 %", "posted"]
    assert found[1] == ["credit", "0.00 USD", "25 %", "0.00 USD"]
    assert ["formulas", "produce", "863900", "8640", "98.999 %", "100.000 %", "100.000 %", "0 s"] in found
    assert ["windows judged by", "fetch", "8639", "0", "0", "0", "1"] in found
    assert ["latency in ms", "produce", "198", "1.99", "4.00", "9.99", "20.00"] in found
    assert ["without a leader", "orders", "12"] in found
    assert ["partitions without a leader", "orders-7", "12"] in found
    assert ["worst windows", "2026-09-01 00:00", "produce", "own", "100", "30", "70.000 %"] in found
    excluded = [row for row in found if row[0] in ("excluded", "announced")]
    assert excluded == [
        ["excluded", "2026-09-30 23:55", "2026-09-30 23:56", "maintenance", "2026-08-31 00:00"],
        ["announced", "2026-12-05 02:00:00Z", "2026-12-05 03:00:00Z", "move"],
    ]
    assert json.loads(ran("show", "2026-09", "--json").stdout) == SHOWN


def test_without_a_month_the_running_one_is_asked_for(service: LittleServer) -> None:
    ran("show")
    assert len(service.asked[-1].path) == len("/v1/sla/2026-09")


def test_a_month_that_follows_is_proven_and_an_altered_number_is_named(service: LittleServer) -> None:
    proven = rows(ran("verify", "2026-09"))
    assert ["verdict", "proven"] in proven
    text = "2026-09-30 23:55Z to 2026-09-30 23:56Z is excluded, announced 2026-08-31 00:00Z: maintenance"
    assert ["excluded", text] in proven
    named = rows(ran("verify", "2026-08", code=5))
    assert ["wrong", "credit_micro is shown as 5, the document says 0"] in named
    said = json.loads(ran("verify", "2026-08", "--json", code=5).stdout)
    assert said["verdict"] == "wrong" and len(said["wrong"]) == 1


def test_operators_take_a_time_out_and_withdraw_it(service: LittleServer) -> None:
    window = ["--from", "2026-09-05T02:00:00Z", "--until", "2026-09-05T03:00:00Z"]
    for arguments, method in (
        (["exclude", *window, "--reason", "maintenance"], "POST"),
        (["withdraw", "exc_1"], "DELETE"),
        (["exclusions"], "GET"),
    ):
        assert rows(ran(*arguments))[0][:2] == ["exc_1", "all"]
        assert service.asked[-1].method == method
