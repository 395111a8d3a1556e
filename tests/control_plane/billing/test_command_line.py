"""`penstock usage` and `penstock invoice` against the real REST interface."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from billing.models import Cut
from control_plane.access.actions import create_key
from penstock.cli.__main__ import run
from tenants.models import Tenant
from tests.control_plane.billing.world import TESTER, TODAY, Part, World, vector_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

Command = Callable[..., tuple[int, str, str]]
PARTS = [
    Part(first=0, end=1_500, size=2_000_000, day=TODAY - timedelta(days=1)),
    Part(first=1_500, end=2_000, size=1_000_000),
    Part(topic="returns", partition=3, first=0, end=10, size=400),
]


@pytest.fixture
def world(transactional_db: None, tmp_path: Path) -> World:
    return World(tmp_path / "datasets")


@pytest.fixture
def command(
    world: World, live_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs a command as a tenant with one issued invoice and one that is a draft."""
    acme = world.tenant("acme")
    cut = world.cut(acme, PARTS)
    world.covered(cut, PARTS)
    world.day(acme, "orders", TODAY, "messages_out", 77)
    world.day(acme, "orders", TODAY, "retained_byte_minutes", 75 * 10**9)
    world.day(acme, "orders", TODAY, "partition_minutes", 1)
    world.day(acme, "", TODAY, "requests", 9)
    world.day(acme, "", TODAY, "connection_ms", 5_400_000)
    world.day(acme, "orders", TODAY, "throttled_ms", 1_250)
    world.day(acme, "orders", TODAY, "bytes_out_own_zone", 33)
    world.day(acme, "orders", TODAY, "messages_out_other_zone", 4)
    world.spark()
    world.bill()
    world.cut(acme, [Part(first=2_000, end=2_001, size=1)])
    world.bill()
    _, text = create_key(TESTER, acme, name="cli")
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", text.reveal())
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_usage_is_a_table_or_json(command: Command) -> None:
    code, out, _ = command("usage")
    assert code == 0
    (today,) = [line for line in out.splitlines() if "orders" in line and TODAY.isoformat() in line]
    assert today.split() == ["orders", TODAY.isoformat(), "500", "1000000", "77", "0", "billed"]
    code, out, _ = command("usage", "--kept")
    assert [line.split() for line in out.splitlines()] == [
        ["-", TODAY.isoformat(), "0", "0", "0", "9", "provisional"],
        ["orders", TODAY.isoformat(), "1.25", "0", "0.016", "0", "provisional"],
    ]
    code, out, _ = command("usage", "--time")
    assert [line.split() for line in out.splitlines()] == [
        ["-", TODAY.isoformat(), "1.5", "0", "provisional"],
        ["orders", TODAY.isoformat(), "0", "1.25", "provisional"],
    ]
    code, out, _ = command("usage", "--zones", "--by", "topic")
    assert [line.split() for line in out.splitlines()] == [["orders", "0", "33", "4", "0", "provisional"]]
    code, out, _ = command("usage", "--by", "total", "--json")
    (total,) = json.loads(out)["usage"]
    assert total["meters"]["messages_in"] == {"quantity": 2_010, "billed": 2_010, "provisional": 0}
    code, out, _ = command("usage", "--from", (TODAY + timedelta(days=1)).isoformat(), "--json")
    assert json.loads(out) == {"usage": []}


def test_invoices_are_listed_with_their_totals_and_drafts_without(command: Command) -> None:
    code, out, _ = command("invoice", "list")
    assert code == 0
    issued, draft = [line.split("\t") for line in out.splitlines() if "inv_" in line]
    # 1,010 messages at 0.002 and 3.0004 MB at 1.00; behind it what is due, open and paid, of which nothing is known.
    assert (issued[2], issued[-4:]) == ("issued", ["5.02 USD", "-", "-", "-"])
    assert (draft[2], draft[-4]) == ("draft", "-")


def test_an_invoice_opens_down_to_topic_day_and_offsets(command: Command) -> None:
    invoices = json.loads(command("invoice", "list", "--json")[1])["invoices"]
    code, out, _ = command("invoice", "show", invoices[0]["id"], "--open")
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert rows[0] == ["invoice", "1", invoices[0]["id"], "issued"]
    assert ["line", "messages_in", "2010", "2.02 USD"] in [row[:4] for row in rows]
    assert ["total", "5.02 USD"] in rows
    assert ["messages_in evidence", "orders", "0", TODAY.isoformat(), "1500", "2000", "500"] in rows
    assert ["bytes_in evidence", "returns", "3", TODAY.isoformat(), "0", "10", "400"] in rows
    assert ["messages_in price", "1000", "free", "message"] in rows
    assert all(len(row) > 1 for row in rows), "a heading, or an empty line"
    closed = command("invoice", "show", invoices[0]["id"])[1]
    assert "returns" not in closed
    code, out, err = command("invoice", "show", invoices[1]["id"])
    assert code == 0
    assert "not issued: " in err
    opened = json.loads(command("invoice", "show", invoices[0]["id"], "--open", "--json")[1])
    assert sum(row["quantity"] for row in opened["evidence"]["messages_in"]) == 2_010


def test_a_credit_note_stands_in_the_list_and_under_its_invoice(command: Command, world: World) -> None:
    acme = Tenant.objects.get(name="acme")
    Cut.objects.filter(invoice__status="draft").update(delivered_at=None)
    first = Cut.objects.get(invoice__status="issued")
    second = Cut.objects.get(invoice__status="draft")
    anew = Part(first=1_800, end=1_801, size=1, generation=1)
    second.readings.all().delete()
    world.answer(second, vector_of([anew]))
    world.covered(second, [anew], start_offset=2_000)
    world.lost(second, Part(first=1_800, end=2_000, size=400_000))
    world.spark()
    world.bill()
    assert acme.credit_notes.count() == 1, world.invoice(second).gaps
    listed = command("invoice", "list")[1]
    assert listed.splitlines()[0].split("\t")[-4] == "0.80 USD"  # 200 messages at 0.002 and 0.4 MB at 1.00
    shown = command("invoice", "show", world.invoice(first).public_id)[1]
    rows = [line.split("\t") for line in shown.splitlines()]
    assert ["credit note", "1"] in [row[:2] for row in rows]
    assert ["credit note 1 lost", "orders", "0", "1800", "2000", "200", "400000"] in rows
    told = json.loads(command("invoice", "show", world.invoice(first).public_id, "--json")[1])
    assert told["credit_notes"][0]["ranges"][0]["first_offset"] == 1_800


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("invoice", "show", "inv_unknown"), 3, "inv_unknown"),
        (("verify-invoice", "inv_unknown"), 3, "inv_unknown"),
        (("usage", "--by", "tenant"), 2, "--by"),
        (("usage", "--from", "yesterday"), 2, "--from"),
        (("invoice", "show"), 2, "INVOICE"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    command: Command, arguments: tuple[str, ...], code: int, named: str
) -> None:
    ended, _, err = command(*arguments)
    assert ended == code
    assert named in err


def test_a_wrong_key_is_denied(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_nonsense")
    assert command("invoice", "list")[0] == 4
