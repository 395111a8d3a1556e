"""Numbers that are unique for the issuer of invoices, over all tenants: `INV-000001`, `EU-CN-000001`. Pure.

Each kind of document has a series of its own, and an issuer may put a prefix before both. In a series every number is
taken once, in the order of issuing.
"""

import re
from dataclasses import dataclass

INVOICES, CREDIT_NOTES = "INV", "CN"
_FORM = re.compile(r"(?:[A-Z0-9]{1,20}-)?(INV|CN)-([0-9]{6,18})\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerNumber:
    """A number that was read: `kind` is `INV` or `CN`, `series` what stands before the last dash."""

    kind: str
    series: str
    count: int


def series_of(kind: str, prefix: str) -> str:
    """The series of a kind, `EU-INV`; without a prefix the kind alone."""
    return f"{prefix}-{kind}" if prefix else kind


def issuer_number(series: str, count: int) -> str:
    return f"{series}-{count:06d}"


def read_issuer_number(text: str) -> IssuerNumber | None:
    """None: it is no such number, or another spelling of one."""
    form = _FORM.match(text)
    if form is None:
        return None
    series, count = text.rpartition("-")[0], int(form[2])
    if text != issuer_number(series, count) or not count:
        return None
    return IssuerNumber(kind=form[1], series=series, count=count)
