"""REST of billing: each tenant its own, operators the cuts, and what cannot be read is refused."""

import csv
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from rest_framework.test import APIClient

from billing.models import Invoice
from penstock.contract.documents import InvoiceDocument, document_sha256, read_document
from penstock.contract.ids import SYSTEM_TENANT
from tenants.actions import create_operator, sign_up
from tenants.models import Membership, Tenant
from tests.control_plane.billing.world import TESTER, TODAY, Part, World

PART = Part(first=0, end=2_000, size=1_000_000)


@dataclass
class Callers:
    """Two tenants with an owner each, and an operator."""

    acme: Tenant
    other: Tenant
    tokens: dict[str, str]

    def client(self, who: str, tenant: str | None = None) -> APIClient:
        client = APIClient(raise_request_exception=False)
        headers = {"HTTP_AUTHORIZATION": f"Bearer {self.tokens[who]}"}
        if tenant is not None:
            headers["HTTP_PENSTOCK_TENANT"] = tenant
        client.credentials(**headers)
        return client

    def get(self, who: str, path: str, tenant: str | None = None, **query: Any) -> Any:
        return self.client(who, tenant).get(f"/v1/{path}", query)


@pytest.fixture
def callers(world: World) -> Callers:
    tokens, tenants = {}, []
    for name in ("acme", "other"):
        _, tenant, tokens[name] = sign_up(
            email=f"{name}@example.org",
            password="a long enough one",
            tenant_name=name,
            request_id="",
            source="",
        )
        Tenant.objects.filter(pk=tenant.pk).update(created_at=datetime.now(UTC) - timedelta(days=1))
        tenants.append(Tenant.objects.get(pk=tenant.pk))
    tokens["operator"] = create_operator(TESTER, name="op", tenant=SYSTEM_TENANT)
    return Callers(acme=tenants[0], other=tenants[1], tokens=tokens)


@pytest.fixture
def issued(world: World, callers: Callers) -> Invoice:
    cut = world.cut(callers.acme, [PART])
    world.covered(cut, [PART])
    world.spark()
    world.bill()
    return world.invoice(cut)


def test_an_invoice_is_shown_with_its_lines_and_all_its_evidence(callers: Callers, issued: Invoice) -> None:
    (listed,) = callers.get("acme", "invoices").json()["items"]
    shown = callers.get("acme", f"invoices/{issued.public_id}").json()
    assert listed == shown
    assert (shown["status"], shown["total_micro"], shown["currency"]) == ("issued", 3_000_000, "USD")
    assert [line["parts"] for line in shown["lines"]] == [
        [
            {"quantity": 1_000, "unit_price": "0.000000000000"},
            {"quantity": 1_000, "unit_price": "0.002000000000"},
        ],
        [{"quantity": 1_000_000, "unit_price": "1.000000000000"}],
    ]
    evidence = callers.get("acme", f"invoices/{issued.public_id}/evidence").json()
    assert evidence.keys() == {"status", "gaps", "document", "document_sha256"}
    read = read_document(evidence["document"], InvoiceDocument, "document")
    assert evidence["document_sha256"] == document_sha256(read)
    assert (read.id, read.total_micro, read.previous) == (issued.public_id, 3_000_000, None)
    assert [(p.topic, p.start_offset, p.end_offset, p.days[0].bytes) for p in read.partitions] == [
        ("orders", 0, 2_000, 1_000_000)
    ]
    assert read.price_book_sha256 == issued.price_book.sha256
    for field, told in (
        ("issued_at", read.issued_at_ms),
        ("period_start", read.period_start_ms),
        ("period_end", read.period_end_ms),
    ):
        assert datetime.fromisoformat(shown[field]).timestamp() * 1_000 == told, field


def test_what_was_issued_is_a_file_of_focus_of_its_tenant_alone(
    world: World, callers: Callers, issued: Invoice
) -> None:
    def rows(who: str = "acme", **query: str) -> list[dict[str, str]]:
        answer = callers.get(who, "billing/focus", **query)
        assert answer.status_code == 200 and answer["Content-Type"].startswith("text/csv")
        return list(csv.DictReader(b"".join(answer.streaming_content).decode().splitlines()))

    whole = rows()
    assert {row["InvoiceId"] for row in whole} == {issued.public_id}
    assert sum(Decimal(row["BilledCost"]) for row in whole) == 3
    assert {row["InvoiceIssuerName"] for row in whole} == {"Penstock"}
    assert [(row["ResourceName"], row["SkuMeter"], row["PricingQuantity"]) for row in whole] == [
        ("orders", "Messages In", "1000"),
        ("orders", "Messages In", "1000"),
        ("orders", "Bytes In", "1"),
    ]
    assert rows(invoice=issued.public_id) == whole
    tomorrow, today = f"{TODAY + timedelta(days=1)}", f"{TODAY}"
    assert rows(**{"from": today, "to": tomorrow}) == whole
    assert rows(**{"from": tomorrow}) == rows(to=today) == rows("other") == []
    for address in ("usage", "availability", "billing/focus"):
        refused = callers.get("acme", address, **{"from": tomorrow, "to": today})
        assert refused.status_code == 400 and "is before from" in refused.json()["detail"], address
    assert callers.get("other", "billing/focus", invoice=issued.public_id).status_code == 404
    assert callers.get("acme", "billing/focus", **{"from": "soon"}).status_code == 400


def test_an_issued_invoice_is_printed_as_pdf_and_a_draft_is_not(
    world: World, callers: Callers, issued: Invoice
) -> None:
    answer = callers.get("acme", f"invoices/{issued.public_id}/pdf")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/pdf")
    assert answer.content.startswith(b"%PDF-") and answer.content.rstrip().endswith(b"%%EOF")
    assert answer["Content-Disposition"] == 'attachment; filename="invoice-INV-000001.pdf"'
    assert callers.get("other", f"invoices/{issued.public_id}/pdf").status_code == 404
    draft = world.invoice(world.cut(callers.acme, [Part(first=2_000, end=2_001, size=1)]))
    assert draft.status == Invoice.Status.DRAFT
    refused = callers.get("acme", f"invoices/{draft.public_id}/pdf")
    assert refused.status_code == 404 and "before it is issued" in refused.json()["detail"]


def test_a_credit_note_has_rows_beside_those_of_its_invoice(world: World, callers: Callers) -> None:
    billed = Part(first=0, end=3_000, size=1_500_000, generation=1)
    anew = Part(first=2_500, end=2_600, size=70_000, generation=2)
    first = world.cut(callers.acme, [billed], end=datetime.now(UTC) - timedelta(hours=1))
    second = world.cut(callers.acme, [anew])
    world.covered(first, [billed])
    world.covered(second, [anew], start_offset=3_000)
    world.lost(second, Part(first=2_500, end=3_000, size=250_000, generation=1))
    world.spark()
    world.bill()
    answer = callers.get("acme", "billing/focus", invoice=world.invoice(first).public_id)
    rows = list(csv.DictReader(b"".join(answer.streaming_content).decode().splitlines()))
    assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal("5.5") - Decimal("1.25")
    assert {row["ChargeClass"] for row in rows if row["InvoiceId"].startswith("cn_")} == {"Correction"}
    assert {row["InvoiceId"] for row in rows} < {
        row["InvoiceId"]
        for row in csv.DictReader(
            b"".join(callers.get("acme", "billing/focus").streaming_content).decode().splitlines()
        )
    }


def test_credit_notes_are_read_by_their_tenant_alone(world: World, callers: Callers) -> None:
    billed = Part(first=0, end=3_000, size=1_500_000, generation=1)
    anew = Part(first=2_500, end=2_600, size=70_000, generation=2)
    first = world.cut(callers.acme, [billed], end=datetime.now(UTC) - timedelta(hours=1))
    second = world.cut(callers.acme, [anew])
    world.covered(first, [billed])
    world.covered(second, [anew], start_offset=3_000)
    world.lost(second, Part(first=2_500, end=3_000, size=250_000, generation=1))
    world.spark()
    world.bill()
    (read,) = callers.get("acme", "credit-notes").json()["items"]
    assert (read["number"], read["invoice"], read["total_micro"]) == (
        1,
        world.invoice(first).public_id,
        1_250_000,
    )
    assert read["ranges"][0]["quantities"] == {"messages_in": 500, "bytes_in": 250_000}
    shown = callers.get("acme", f"invoices/{read['invoice']}").json()
    assert shown["credited_micro"] == 1_250_000
    assert shown["credit_notes"] == [{"id": read["id"], "number": 1, "total_micro": 1_250_000}]
    assert callers.get("acme", f"credit-notes/{read['id']}").json() == read
    assert callers.get("other", f"credit-notes/{read['id']}").status_code == 404
    assert callers.get("other", "credit-notes").json()["items"] == []
    evidence = callers.get("acme", f"invoices/{read['invoice']}/evidence").json()
    assert evidence["document"]["total_micro"] == 4_000_000 + 1_500_000
    later = callers.get("acme", f"invoices/{world.invoice(second).public_id}/evidence").json()
    (partition,) = later["document"]["partitions"]
    assert (partition["start_offset"], partition["counts_from"], partition["end_offset"]) == (
        3_000,
        2_500,
        2_600,
    )
    assert [day["messages"] for day in partition["days"]] == [100]


def test_anothers_invoice_is_not_found_and_nothing_of_it_is_listed(callers: Callers, issued: Invoice) -> None:
    for path in (f"invoices/{issued.public_id}", f"invoices/{issued.public_id}/evidence"):
        answer = callers.get("other", path)
        assert answer.status_code == 404
        assert answer["Content-Type"] == "application/problem+json"
        assert answer.json()["code"] == "not_found"
    assert callers.get("other", "invoices").json() == {"items": [], "next": None}
    assert callers.get("other", "usage", by="topic").json()["items"] == []
    assert callers.get("other", "usage", tenant=callers.acme.public_id).status_code == 404
    assert callers.get("other", "costs").json()["items"] == []
    assert callers.get("other", "availability").json()["items"] == []


@pytest.mark.parametrize(("role", "allowed"), [("billing", True), ("auditor", True), ("developer", False)])
def test_invoices_are_for_those_whose_role_says_so(
    callers: Callers, issued: Invoice, role: str, allowed: bool
) -> None:
    Membership.objects.filter(tenant=callers.acme).update(role=role)
    assert callers.get("acme", "invoices").status_code == (200 if allowed else 403)
    assert callers.get("acme", f"invoices/{issued.public_id}/evidence").status_code == (
        200 if allowed else 403
    )
    assert callers.get("acme", "usage").status_code == 200


def test_nobody_without_a_credential_sees_anything(callers: Callers, issued: Invoice) -> None:
    for path in ("usage", "invoices", f"invoices/{issued.public_id}", "availability", "costs", "price-books"):
        assert APIClient().get(f"/v1/{path}").status_code == 401, path


def test_only_operators_end_periods(callers: Callers) -> None:
    body = {"tenant": callers.acme.public_id}
    assert callers.client("acme").post("/v1/billing/cuts", body, format="json").status_code == 403
    assert callers.get("acme", "billing/data-sets").status_code == 403
    assert Invoice.objects.count() == 0
    answer = callers.client("operator").post("/v1/billing/cuts", body, format="json")
    assert answer.status_code == 201, answer.content
    (cut,) = answer.json()["items"]
    assert (cut["tenant"], cut["delivered"], cut["readings"]) == (callers.acme.public_id, False, [])
    assert callers.get("acme", f"billing/cuts/{cut['id']}").status_code == 403
    assert callers.get("operator", f"billing/cuts/{cut['id']}").json() == cut
    assert callers.get("acme", f"invoices/{cut['invoice']}").json()["status"] == "draft"


def test_one_call_ends_the_periods_of_all_tenants(callers: Callers) -> None:
    end = datetime.now(UTC).isoformat()
    for _ in range(2):
        answer = callers.client("operator").post(
            "/v1/billing/cuts", {"tenant": "all", "end": end}, format="json"
        )
        assert {cut["tenant"] for cut in answer.json()["items"]} == {
            callers.acme.public_id,
            callers.other.public_id,
        }
    assert Invoice.objects.count() == 2


@pytest.mark.parametrize("end", ["0001-01-01T00:00:00Z", "1969-12-31T00:00:00Z"])
def test_a_moment_before_every_tenant_ends_no_period(callers: Callers, end: str) -> None:
    answer = callers.client("operator").post("/v1/billing/cuts", {"tenant": "all", "end": end}, format="json")
    assert (answer.status_code, answer.json()) == (201, {"items": []})
    assert Invoice.objects.count() == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "tenant"), ({"tenant": "all", "end": "soon"}, "end"), ({"tenant": "all", "ends": "x"}, "ends")],
)
def test_a_malformed_cut_is_refused_by_field(callers: Callers, body: dict[str, str], field: str) -> None:
    answer = callers.client("operator").post("/v1/billing/cuts", body, format="json")
    assert answer.status_code == 400
    assert field in answer.json()["fields"]


def test_usage_is_grouped_as_asked(callers: Callers, issued: Invoice) -> None:
    (item,) = callers.get("acme", "usage", by="topic,day").json()["items"]
    assert item == {
        "topic": "orders",
        "day": TODAY.isoformat(),
        "meters": {
            "bytes_in": {"quantity": 1_000_000, "billed": 1_000_000, "provisional": 0},
            "messages_in": {"quantity": 2_000, "billed": 2_000, "provisional": 0},
        },
    }
    assert list(callers.get("acme", "usage").json()["items"][0]) == ["meters"]


@pytest.mark.parametrize(
    "query", [{"by": "tenant"}, {"by": "day,day"}, {"from": "yesterday"}, {"to": "2026-13-01"}]
)
def test_a_malformed_question_is_refused(callers: Callers, query: dict[str, str]) -> None:
    assert callers.get("acme", "usage", **query).status_code == 400


@pytest.mark.parametrize("moment", ["noon", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_outside_the_calendar_is_refused(callers: Callers, moment: str) -> None:
    answer = callers.get("acme", "costs", **{"from": moment})
    assert answer.status_code == 400 and list(answer.json()["fields"]) == ["from"]


def test_the_prices_are_public_to_every_caller(callers: Callers, issued: Invoice) -> None:
    (book,) = callers.get("other", "price-books").json()["items"]
    assert book["sha256"] == issued.price_book.sha256
    assert book["document"]["currency"] == "USD"
