"""Price books: published for the future, by an operator or by the configured file, and never silently refused."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rest_framework.test import APIClient

from billing import price_actions, tasks
from billing.models import BillingEntry, PriceBook
from control_plane import config
from control_plane.audit import queries as audit
from penstock.cli.__main__ import run
from penstock.contract.errors import AlreadyExists, ConfigurationError, InvalidRequest
from penstock.contract.ids import SYSTEM_TENANT
from penstock.rules import rating
from tenants.actions import create_operator, create_tenant
from tenants.models import Tenant
from tests.control_plane.billing.world import STANDARD_1, TESTER, Part, World

STANDARD = STANDARD_1


def book(version: int, *, name: str = "standard", free: int = 0) -> dict[str, Any]:
    meters = [{**STANDARD["meters"][0], "free": free}, *STANDARD["meters"][1:]]
    return {**STANDARD, "name": name, "version": version, "meters": meters}


def publish(document: dict[str, Any], at: datetime, now: datetime | None = None) -> PriceBook:
    return price_actions.publish_price_book(
        TESTER, document=document, effective_from=at, now=now or datetime.now(UTC)
    )


@pytest.fixture
def first(world: World) -> PriceBook:
    return price_actions.publish_first_price_book(datetime.now(UTC))


# -- what may be published ----------------------------------------------------------------------------------


def test_the_same_prices_are_one_book(first: PriceBook) -> None:
    assert publish(STANDARD, datetime.now(UTC) + timedelta(days=1)) == first
    assert price_actions.publish_first_price_book(datetime.now(UTC)) == first
    assert PriceBook.objects.count() == 1


def test_other_prices_need_a_version_counted_up(first: PriceBook) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(AlreadyExists, match="count the version up"):
        publish(book(1), later)
    publish(book(3), later)
    with pytest.raises(InvalidRequest, match="version 3 is published"):
        publish(book(2), later + timedelta(days=1))
    publish(book(1, name="partners"), later + timedelta(days=1))


def test_prices_change_for_the_future_only(first: PriceBook) -> None:
    now = datetime.now(UTC)
    with pytest.raises(InvalidRequest, match="is in the past"):
        publish(book(2), now - timedelta(seconds=1), now)
    publish(book(2), now, now)
    with pytest.raises(AlreadyExists, match="effective from"):
        publish(book(3), now, now)


def test_the_first_book_holds_already(db: None) -> None:
    now = datetime.now(UTC)
    with pytest.raises(InvalidRequest, match="first price book must hold already"):
        publish(book(1), now + timedelta(days=1), now)
    publish(book(1), now - timedelta(days=900), now)


def test_a_service_that_begins_asks_what_the_field_asks(db: None) -> None:
    first = rating.PriceBook.read(price_actions.publish_first_price_book(datetime.now(UTC)).document)
    million = rating.rate(first, {"messages_in": 1_000_000, "bytes_in": 1_000_000_000})
    assert {line.meter: line.amount_micro for line in million.lines} == {
        "messages_in": 40_000,  # 0.04 USD
        "bytes_in": 100_000,  # 0.10 USD
        "retained_byte_minutes": 0,
        "partition_minutes": 0,
    }
    kept = rating.rate(first, {"retained_byte_minutes": 1_010 * 10**9 * 730 * 60, "partition_minutes": 0})
    assert kept.total_micro == 240_900_000, "a TB above the allowance, for a month of 730 hours"
    few = rating.rate(first, {"messages_in": 32, "bytes_in": 10_000})
    assert sorted(line.amount_micro for line in few.lines) == [0, 0, 1, 1], "small use shows"


def test_a_service_with_older_prices_keeps_them(world: World, first: PriceBook) -> None:
    tasks.bill_run()
    assert [(row.name, row.version) for row in PriceBook.objects.all()] == [("standard", 1)]


def test_the_running_periods_prices_are_those_that_held_when_it_began(world: World, first: PriceBook) -> None:
    acme = world.tenant("acme")
    assert price_actions.running_prices_of(acme) == first
    tasks.bill_run()
    now = datetime.now(UTC)
    later = publish(book(2), now, now)
    tasks.bill_run()
    assert price_actions.running_prices_of(acme) == first, "its period runs already"
    world.cut(acme, [])
    assert price_actions.running_prices_of(acme) == later


@pytest.mark.django_db
def test_a_tenants_first_period_has_the_prices_that_hold_when_it_begins_else_the_very_first() -> None:
    now = datetime.now(UTC)
    acme = create_tenant(TESTER, name="acme")
    Tenant.objects.filter(pk=acme.pk).update(created_at=now - timedelta(days=3))
    acme.refresh_from_db()
    assert price_actions.running_prices_of(acme) is None
    first = publish(book(1), now, now)
    second = publish(book(2), now + timedelta(days=1), now)
    assert price_actions.running_prices_of(acme) == first, "it began before there were any"
    for days, held in ((5, first), (4, second)):
        PriceBook.objects.filter(pk=held.pk).update(effective_from=now - timedelta(days=days))
        assert price_actions.running_prices_of(acme) == held


def test_publishing_stands_in_the_audit_log_of_the_service(first: PriceBook) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    newer = publish(book(2), later)
    entry = audit.entries(SYSTEM_TENANT).latest("sequence")
    assert (entry.action, entry.object_id) == ("price_book.publish", newer.public_id)
    assert entry.after == {
        "name": "standard",
        "version": 2,
        "sha256": newer.sha256,
        "effective_from": later.isoformat(),
    }


# -- the configured file ------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configured price book: the standard prices."""
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(STANDARD), encoding="utf-8")
    configured = msgspec.structs.replace(
        config.current(), price_book_file=path, datasets=tmp_path / "datasets"
    )
    monkeypatch.setattr(config, "current", lambda: configured)
    return path


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [getattr(record, "error", "") for record in caplog.records if "price_book" in record.message]


def test_a_changed_file_holds_for_periods_that_begin_later(world: World, file: Path) -> None:
    tasks.bill_run()
    acme = world.tenant("acme")
    tasks.bill_run()
    file.write_text(json.dumps(book(2)), encoding="utf-8")
    before = datetime.now(UTC)
    tasks.bill_run()
    newer = PriceBook.objects.get(version=2)
    assert before <= newer.effective_from <= datetime.now(UTC)
    cut = world.cut(acme, [])
    world.spark()
    world.bill()
    assert world.invoice(cut).price_book.version == 1, "the period had begun before"
    kinds = BillingEntry.objects.filter(tenant=acme).order_by("sequence").values_list("kind", "object_id")
    assert [entry for entry in kinds if entry[0] == "prices"][1] == ("prices", newer.public_id)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (json.dumps(book(1, free=7)), "count the version up"),
        ("{damaged", "prices.json"),
        (json.dumps(book(2))[:-1] + ', "version": 3}', "'version' stands there twice"),
        ("[" * 10_000, "nested too deep"),
        (json.dumps({**STANDARD, "version": 2, "currency": "dollar"}), "currency"),
    ],
)
def test_a_file_that_cannot_be_followed_is_told_and_changes_nothing(
    world: World, file: Path, caplog: pytest.LogCaptureFixture, content: str, named: str
) -> None:
    tasks.bill_run()
    assert price_actions.configured_file_problem(datetime.now(UTC)) == ""
    file.write_text(content, encoding="utf-8")
    for _ in range(2):
        tasks.bill_run()
    (error,) = logged(caplog)
    assert named in error and named in price_actions.configured_file_problem(datetime.now(UTC))
    assert PriceBook.objects.count() == 1
    file.unlink()
    with pytest.raises(ConfigurationError):
        price_actions.follow_configured_file(datetime.now(UTC))


def test_the_standard_book_is_not_followed_once_there_are_prices(world: World, first: PriceBook) -> None:
    publish(book(2), datetime.now(UTC) + timedelta(days=1))
    tasks.bill_run()
    assert PriceBook.objects.count() == 2
    assert price_actions.configured_file_problem(datetime.now(UTC)) == ""


# -- the prices of a tenant -------------------------------------------------------------------------------------


def test_a_book_of_another_name_changes_prices_although_its_version_is_the_same(
    world: World, first: PriceBook
) -> None:
    acme = world.tenant("acme")
    now = datetime.now(UTC)
    world.cut(acme, [], end=now - timedelta(hours=4))
    at = now - timedelta(hours=3)
    partners = publish(book(1, name="partners"), at, now=at)
    assert (partners.version, partners == first) == (first.version, False)
    ended = [world.cut(acme, [], end=now - timedelta(hours=hours)) for hours in (2, 1)]
    world.spark()
    world.bill()
    assert [world.invoice(cut).price_book for cut in ended] == [first, partners]
    prices = BillingEntry.objects.filter(tenant=acme, kind="prices").order_by("sequence")
    assert [entry.object_id for entry in prices] == [first.public_id, partners.public_id]


# -- operators ----------------------------------------------------------------------------------------------


@pytest.fixture
def operator(world: World) -> APIClient:
    client = APIClient(raise_request_exception=False)
    token = create_operator(TESTER, name="olga", tenant=SYSTEM_TENANT)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def test_an_operator_publishes_and_the_same_again_is_the_same_book(
    first: PriceBook, operator: APIClient
) -> None:
    later = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    demand = {"document": book(2), "effective_from": later.isoformat()}
    tried = operator.post("/v1/price-books", {**demand, "dry_run": True}, format="json")
    assert (tried.status_code, tried.json()["id"]) == (200, None)
    assert PriceBook.objects.count() == 1
    answer = operator.post("/v1/price-books", demand, format="json")
    assert answer.status_code == 201, answer.content
    row = PriceBook.objects.get(version=2)
    assert answer.json() == {
        "id": row.public_id,
        "sha256": row.sha256,
        "effective_from": later.isoformat(),
        "document": row.document,
    }
    assert tried.json() == {**answer.json(), "id": None}
    assert operator.post("/v1/price-books", demand, format="json").json() == answer.json()
    assert audit.entries(SYSTEM_TENANT).latest("sequence").actor_kind == "operator"


@pytest.mark.parametrize(
    ("change", "status", "named"),
    [
        ({"document": {}}, 400, "format"),
        ({"document": book(1, free=9)}, 409, "count the version up"),
        ({"effective_from": "2026-01-01T00:00:00Z"}, 400, "effective_from"),
        ({"effective_from": "soon"}, 400, "effective_from"),
        ({"effective_from": None}, 400, "effective_from"),
        ({"name": "x"}, 400, "name"),
    ],
)
def test_what_cannot_be_published_is_refused_by_name(
    first: PriceBook, operator: APIClient, change: dict[str, Any], status: int, named: str
) -> None:
    demand = {"document": book(2), "effective_from": "2999-01-01T00:00:00Z", **change}
    answer = operator.post("/v1/price-books", demand, format="json")
    assert answer.status_code == status and named in answer.content.decode(), answer.content
    assert PriceBook.objects.count() == 1


# -- the command line ---------------------------------------------------------------------------------------

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    transactional_db: None,
    live_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    publish(STANDARD, datetime.now(UTC))
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", "")
    monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", create_operator(TESTER, name="olga", tenant=SYSTEM_TENANT))
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")

    def call(*arguments: str) -> tuple[int, str, str]:
        words = arguments if arguments[0] == "terms" else ("price-book", *arguments)
        code = run(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_the_command_line_shows_what_would_change_and_publishes(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "next.json"
    file.write_text(json.dumps(book(2, free=5)), encoding="utf-8")
    wanted = ("publish", str(file), "--effective-from", "2999-01-01T00:00:00Z")
    code, out, err = command(*wanted, "--dry-run")
    assert code == 0, err
    assert "1,000 free, then 0.002 up to 20,000, 0.001 each message" in out
    assert "5 free" in out and "would be valid from 2999-01-01 00:00:00Z" in err
    assert PriceBook.objects.count() == 1
    code, _, err = command(*wanted)
    assert code == 0 and "standard 2 is valid from 2999-01-01" in err
    assert "published before" in command(*wanted)[2]
    code, out, _ = command("list")
    assert code == 0 and [line.split()[:2] for line in out.splitlines() if "standard" in line] == [
        ["standard", "1"],
        ["standard", "2"],
    ]
    file.write_text("{damaged", encoding="utf-8")
    code, _, err = command(*wanted)
    assert code == 5 and "next.json" in err


@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_the_command_line_shows_assigns_and_previews(world: World, command: Command, tmp_path: Path) -> None:
    acme = world.tenant("acme")
    parts = [Part(first=0, end=5_000, size=3_000_000, generation=1)]
    cut = world.cut(acme, parts, end=datetime.now(UTC) - timedelta(hours=1))
    world.covered(cut, parts)
    world.spark()
    world.bill()
    code, out, err = command("show", "standard")
    assert code == 0 and "1,000 free, then 0.002 up to 20,000, 0.001 each message" in out, err
    assert command("show", "nothing")[0] == 3
    file = tmp_path / "next.json"
    file.write_text(json.dumps(book(2, free=5_000)), encoding="utf-8")
    code, out, err = command("preview", acme.public_id, str(file))
    assert code == 0, err
    rows = [line.split("\t") for line in out.splitlines()]
    assert ["usage messages_in", "8.00 USD", "0.00 USD", "-8.00 USD"] in rows
    assert [row[0] for row in rows][-1] == "total"
    terms = tmp_path / "terms.json"
    wanted = {
        "discounts": [{
            "id": "di_1", "basis_points": 1_000, "amount_micro": 0, "currency": "", "meters": [], "from_ms": 0,
            "until_ms": 4_000_000_000_000, "reason": "partner",
        }],
        "credits": [], "tax": None,
    }  # fmt: skip
    terms.write_text(json.dumps(wanted), encoding="utf-8")
    code, out, err = command("preview", acme.public_id, "--terms", str(terms))
    assert code == 0 and "discount di_1 messages_in\t0.00 USD\t-0.80 USD\t-0.80 USD" in out, (out, err)
    code, out, err = command("terms", "set", acme.public_id, str(terms), "--dry-run")
    assert code == 0 and "Cost a month: -" in err
    code, out, err = command("terms", "set", acme.public_id, str(terms))
    assert code == 0 and "discount\tdi_1\t10 %\t1970-01-01 to 2096-10-02\tpartner" in out, (out, err)
    code, _, err = command("assign", acme.public_id, "standard:1")
    assert code == 0 and f"{acme.public_id} has standard 1 from its next period on" in err
    code, out, _ = command("terms", "history", acme.public_id)
    assert [line.split("\t")[0] for line in out.splitlines()] == ["1", "2"]
    code, out, _ = command("terms", "show", acme.public_id)
    assert f"price book\t{PriceBook.objects.get().sha256}" in out and "di_1" in out
    assert command("assign", acme.public_id)[0] == 2
    assert command("assign", acme.public_id, "--general")[0] == 0
