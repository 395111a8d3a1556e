"""The printed invoice: what is in its document, and no markup of what others wrote."""

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.template.loader import render_to_string

from billing import invoice_pdf, paper, terms_actions
from billing.models import Invoice
from control_plane import config
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant
from tests.control_plane.billing.printed import beyond_the_margin, glyphs_of
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


NAMES = {
    "Japanese": "\u6771\u4eac\u5546\u4e8b\u682a\u5f0f\u4f1a\u793e \u30ab\u30bf\u30ab\u30ca",
    "Chinese": "\u5317\u4eac\u53d1\u5c55\u6709\u9650\u516c\u53f8",
    "Korean": "\ud55c\uad6d\ubb34\uc5ed\uc8fc\uc2dd\ud68c\uc0ac",
    "Thai": "\u0e1a\u0e23\u0e34\u0e29\u0e31\u0e17 \u0e44\u0e17\u0e22\u0e04\u0e49\u0e32",
    "Hindi": "\u092d\u093e\u0930\u0924 \u0935\u094d\u092f\u093e\u092a\u093e\u0930",
    "Tamil": "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
    "Arabic": "\u0634\u0631\u0643\u0629",
    "Hebrew": "\u05d7\u05d1\u05e8\u05ea",
    "Georgian": "\u10e5\u10d0\u10e0\u10d7\u10e3\u10da\u10d8",
    "Amharic": "\u12e8\u12a2\u1275\u12ee\u1335\u12eb",
    "Vietnamese": "C\u00f4ng ty Th\u01b0\u01a1ng m\u1ea1i",
}


@pytest.mark.parametrize("script", NAMES)
def test_a_name_is_printed_with_glyphs_that_are_in_the_document(
    script: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "weasyprint")
    style = render_to_string("billing/paper_style.html", {"document": {"id": "inv_1"}})
    drawn = glyphs_of(paper.pdf(f"<style>{style}</style><p>{NAMES[script]}</p>"))
    assert "notdef" not in caplog.text, "packaging/debian-running.txt names the fonts"
    # Marks are drawn as parts of other glyphs, so that a script may have fewer glyphs than characters.
    assert drawn >= len(
        {letter for letter in NAMES[script] if letter.isalpha() and unicodedata.category(letter) == "Lo"}
    )
