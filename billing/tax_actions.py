"""Tax that is stated: where tenants are, what Stripe Tax is asked for a draft, and its answer.

A draft's tax is asked for once everything else of it is certain, so an answer is for what the invoice says. The answer
is compared with the question whenever the draft is finalized: another address or other lines are asked for again.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from django.db import transaction
from django.db.models import F

from billing.models import Invoice, TenantTerms
from billing.tax_models import TEXT_LENGTH_MAX, TaxAddress, TaxCalculation
from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor
from penstock.contract import documents, tax_documents
from penstock.contract.errors import InvalidRequest
from penstock.rules import charges
from penstock.rules.stated_tax import TaxedLine, coin_micro
from penstock.rules.timestamps import time_ms
from tenants.models import Tenant

STRIPE_TAX: Literal["stripe_tax"] = "stripe_tax"
ADDRESS = ("country", "state", "postal_code", "city", "line1", "line2")
PROFILE: dict[str, str | bool] = {"legal_name": "", "email": "", "no_mail": False}
"""What else a billing profile says, and what it says where it was left out."""
FIELDS = (*ADDRESS, "tax_id_type", "tax_id", *PROFILE)
OLDEST_RATES = timedelta(days=30)
"""Stripe Tax knows rates of up to 31 days ago."""
NO_ADDRESS = (
    "the tenant has no address for taxes; it gives one with `penstock payment address`, or on the console's page of"
    " invoices"
)
NOT_ASKED = "Stripe Tax has not calculated the tax yet"
_EMAIL = re.compile(r"[^@\s,;<>]{1,64}@[^@\s,;<>]{1,189}")
_COUNTRY = re.compile(r"[A-Z]{2}")
_TAX_ID_TYPE = re.compile(r"[a-z]{2,4}(_[a-z]{2,8}){1,2}")


class TaxNotStatedError(Exception):
    """The invoice stays a draft; the text is its gap. `ask`: whether Stripe Tax is to be asked now, and what."""

    def __init__(self, gap: str, ask: dict[str, object] | None = None) -> None:
        super().__init__(gap)
        self.gap = gap
        self.ask = ask


def address_of(tenant: Tenant) -> TaxAddress | None:
    """Where the tenant is for taxes; None: it has not said."""
    return TaxAddress.objects.filter(tenant=tenant).first()


def forget_address(actor: Actor, tenant: Tenant) -> None:
    """Before the tenant is purged. Issued invoices keep the address that they were taxed by, and the audit log what was
    set. Doing it again changes nothing.
    """
    with transaction.atomic():
        owner = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if TaxAddress.objects.filter(tenant=owner).delete()[0]:
            audit.record(
                actor, tenant=owner.public_id, action="tax_address.remove", object_id=owner.public_id
            )


def set_address(actor: Actor, tenant: Tenant, *, now: datetime, **given: str | bool) -> TaxAddress:
    """Set the tenant's billing profile, for invoices that are not issued yet. The same again changes nothing.

    `given`: every name of `FIELDS`; those of `PROFILE` may be left out. Raises `InvalidRequest`.
    """
    given = PROFILE | given
    _check({name: value for name, value in given.items() if isinstance(value, str)})
    with transaction.atomic():
        owner = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row = address_of(owner)
        before = None if row is None else {name: getattr(row, name) for name in FIELDS}
        if row is not None and before == given:
            return row
        row = row or TaxAddress(tenant=owner)
        for name, value in given.items():
            setattr(row, name, value)
        row.changed_at = now
        row.save()
        audit.record(
            actor,
            tenant=owner.public_id,
            action="tax_address.set",
            object_id=owner.public_id,
            before=before,
            after=dict(given),
        )
    return row


def _check(given: dict[str, str]) -> None:
    if not _COUNTRY.fullmatch(given["country"]):
        raise InvalidRequest("country: two capital letters of ISO 3166-1 required, as DE")
    for name, value in given.items():
        length_max: int | None = getattr(TaxAddress._meta.get_field(name), "max_length", None)
        if length_max is not None and len(value) > length_max:
            raise InvalidRequest(f"{name}: {len(value):,} characters, at most {length_max} allowed")
        if value != value.strip() or not value.isprintable():
            raise InvalidRequest(f"{name}: begins or ends with a space, or has a control character")
    if given["email"] and not _EMAIL.fullmatch(given["email"]):
        raise InvalidRequest("email: an address as name@company.example required")
    if bool(given["tax_id"]) != bool(given["tax_id_type"]):
        raise InvalidRequest("tax_id: a number and its type together, or neither")
    if given["tax_id_type"] and not _TAX_ID_TYPE.fullmatch(given["tax_id_type"]):
        raise InvalidRequest("tax_id_type: a type as Stripe calls it required, as eu_vat or us_ein")


def tax_by(tenant: Tenant) -> str:
    """How a period that begins now is taxed: `none`, `table` or `stripe_tax`."""
    own = TenantTerms.objects.filter(tenant=tenant).order_by("-revision").first()
    if own is not None and own.document["tax"] is not None:
        return "table"
    return STRIPE_TAX if config.current().payments.stripe_tax else "none"


def by_configuration(terms: documents.Terms) -> documents.Terms:
    """The terms of a period that begins now: with tax that is stated, where no table taxes and Stripe Tax is on."""
    if terms.tax is not None or not config.current().payments.stripe_tax:
        return terms
    return documents.Terms(
        discounts=terms.discounts, credits=terms.credits, tax=None, tax_stated_by=STRIPE_TAX
    )


def statement_for(
    invoice: Invoice, currency: str, lines: Sequence[TaxedLine], now: datetime
) -> tax_documents.TaxStatement | None:
    """What Stripe Tax says of these lines; None: nothing is taxed. Raises `TaxNotStatedError`."""
    if not lines:
        return None
    where = address_of(invoice.tenant)
    if where is None:
        raise TaxNotStatedError(NO_ADDRESS)
    known = TaxCalculation.objects.filter(invoice=invoice).first()
    ends = invoice.cut.period_end
    wanted: dict[str, object] = {
        "currency": currency,
        "address": {name: getattr(where, name) for name in ADDRESS},
        "tax_ids": [{"type": where.tax_id_type, "value": where.tax_id}] if where.tax_id else [],
        "lines": [{"line": one.line, "base_micro": one.base_micro} for one in lines],
    }
    if known is None or {**known.request, "tax_at_ms": 0} != {**wanted, "tax_at_ms": 0}:
        # The rates are those of the period's end, or the oldest that Stripe Tax knows.
        asked = {**wanted, "tax_at_ms": time_ms(max(ends, now - OLDEST_RATES))}
        raise TaxNotStatedError(NOT_ASKED, asked)
    if known.statement is None:
        raise TaxNotStatedError(f"{NOT_ASKED}: {known.problem}" if known.problem else NOT_ASKED)
    return documents.read_document(known.statement, tax_documents.TaxStatement, "statement")


def stated(statement: tax_documents.TaxStatement, currency: str) -> charges.StatedTax:
    """As the rules of charges take it."""
    return charges.StatedTax(
        country=statement.address.country,
        calculation=statement.calculation,
        base_micro=sum(line.base_micro for line in statement.lines),
        tax_micro=sum(line.tax_micro for line in statement.lines),
        coin_micro=coin_micro(currency),
    )


def ask(invoice: Invoice, request: dict[str, object], now: datetime) -> None:
    """Have Stripe Tax asked for the draft, once it is its turn. The caller holds the tenant's row lock."""
    # Who gives questions to the outbox holds this row alone, and counts in it.
    row = TaxCalculation.objects.select_for_update(no_key=True).filter(invoice=invoice).first()
    row = row or TaxCalculation(invoice=invoice, tenant=invoice.tenant, question=0)
    row.question += 1
    row.request, row.statement, row.problem = request, None, ""
    row.unsent_since, row.retry_at, row.failures = now, None, 0
    row.save()


def store(invoice: str, question: int, statement: tax_documents.TaxStatement) -> None:
    """Store the answer to that question. One to an older question is dropped."""
    TaxCalculation.objects.filter(invoice__public_id=invoice, question=question).update(
        statement=documents.plain(statement), problem="", unsent_since=None, retry_at=None, failures=0
    )


def ask_later(
    invoice: str, question: int, problem: str, now: datetime, pause: timedelta, *, another_key: bool
) -> None:
    """It was not answered: it is asked again after the pause, and the draft says why it waits."""
    problem = problem[:TEXT_LENGTH_MAX]
    with transaction.atomic():
        rows = TaxCalculation.objects.filter(
            invoice__public_id=invoice, question=question, statement__isnull=True
        )
        asked_again = rows.update(
            problem=problem,
            unsent_since=now,
            retry_at=now + pause,
            failures=F("failures") + 1,
            key_version=F("key_version") + (1 if another_key else 0),
        )
        if asked_again:
            drafts = Invoice.objects.filter(public_id=invoice, status=Invoice.Status.DRAFT)
            drafts.update(gaps=[f"{NOT_ASKED}: {problem}"])
