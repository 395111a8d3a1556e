"""What printed documents have in common: who invoices, who is invoiced, and how a page becomes a PDF."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from penstock.contract import documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Who invoices."""

    name: str
    lines: Sequence[str]
    """Address and registration."""
    tax_id: str = ""
    bank_lines: Sequence[str] = ()
    """Where tenants pay by bank."""


def pdf(page: str) -> bytes:
    """The HTML on A4. Takes about half a second of processor time."""
    # It loads 40 MB, which processes that print nothing do not have.
    from weasyprint import HTML

    printed: bytes = HTML(string=page, url_fetcher=_no_fetching).write_pdf()
    return printed


def parties(document: documents.InvoiceDocument, issuer: Issuer, name: str) -> dict[str, Any]:
    """As they were called when it was issued; in an older document as they are called now."""
    seller = None if document.seller is UNSET else document.seller
    buyer = None if document.buyer is UNSET else document.buyer
    return {
        "issuer": issuer.name if seller is None else seller.name,
        "issuer_lines": issuer.lines if seller is None else seller.lines,
        "issuer_tax_id": issuer.tax_id if seller is None else seller.tax_id,
        "name": name if buyer is None else buyer.name,
        "buyer_lines": () if buyer is None else buyer.lines,
        "buyer_tax_id": "" if buyer is None else buyer.tax_id,
    }


def moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%d %H:%M}"


def _no_fetching(url: str) -> Any:
    """The page is whole: nothing that a text in it names is read."""
    raise ValueError(f"{url[:64]!r} is not fetched")
