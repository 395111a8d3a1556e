"""The printed invoice: what is in its document, and no markup of what others wrote."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from billing import invoice_pdf, paper, terms_actions
from billing.models import Invoice
from control_plane import config
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant
from tests.control_plane.billing.printed import beyond_the_margin
from tests.control_plane.billing.world import TESTER, Part, World

pytestmark = pytest.mark.django_db

HOSTILE = "<img src='file:///etc/passwd'>"
ISSUER = paper.Issuer(name="Sluice & Sons", lines=["1 Quay Road", HOSTILE])
NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def settings_of_invoices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The issuer as invoices state it when they are issued."""
    invoices = config.InvoicesConfig(issuer=ISSUER.name, issuer_lines=tuple(ISSUER.lines))
    made = msgspec.structs.replace(config.current(), invoices=invoices)
    monkeypatch.setattr(config, "current", lambda: made)


@pytest.fixture
def acme(world: World) -> Tenant:
    return world.tenant("acme")


def cut(world: World, tenant: Tenant, part: Part, hours: int, **covered: int) -> Invoice:
    made = world.cut(tenant, [part], end=NOW - timedelta(hours=hours))
    world.covered(made, [part], **covered)
    world.spark()
    world.bill()
    return world.invoice(made)


def test_a_discount_of_several_meters_is_one_line_and_every_text_is_text(world: World, acme: Tenant) -> None:
    tenth: dict[str, Any] = {
        "id": "di_1", "basis_points": 1_000, "amount_micro": 0, "currency": "", "meters": [], "from_ms": 0,
        "until_ms": time_ms(NOW) + 10**9, "reason": HOSTILE,
    }  # fmt: skip
    terms_actions.change_terms(
        TESTER,
        acme.public_id,
        terms={"discounts": [tenth], "credits": [], "tax": None},
        price_book_sha256=None,
        now=NOW - timedelta(hours=20),
    )
    cut(world, acme, Part(first=0, end=2_000, size=2_000_000), 4)
    invoice = cut(world, acme, Part(first=2_000, end=5_000, size=3_000_000), 2, start_offset=2_000)
    page = invoice_pdf.invoice_page(invoice, ISSUER, invoice_pdf.Standing(due_at=NOW + timedelta(days=14)))
    assert page.count("Discount di_1") == 1
    # A tenth of 4.00 for messages and of 3.00 for bytes.
    assert "-0.70 USD" in page and "10 % of 7.00 USD" in page and "6.30 USD" in page
    assert "<img" not in page and page.count("&lt;img") == 2 and "Sluice &amp; Sons" in page
    assert f"{NOW + timedelta(days=14):%Y-%m-%d}" in page and invoice.public_id in page
    assert beyond_the_margin(page.replace(HOSTILE, "")) == []
    assert invoice_pdf.invoice_pdf(invoice, ISSUER, invoice_pdf.Standing()).startswith(b"%PDF-")
