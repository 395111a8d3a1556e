"""Asks Stripe Tax for drafts, one at a time: as in `payments.sending`, a month's invoices keep no other task waiting.

A delivery of the outbox asks, stores the answer and finalizes the draft. Asking changes nothing at Stripe, so a call
without an answer is simply made again, with the same idempotency key; one that was refused has another.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from billing import invoice_actions, tax_actions
from billing.models import Invoice
from billing.tax_models import TaxCalculation
from control_plane import config
from control_plane.outbox import actions as outbox
from control_plane.outbox import queries as outbox_queries
from control_plane.outbox.registry import Delivered
from payments.currencies import unit_micro
from payments.sending import NO_ANSWER_FIRST, NO_ANSWER_MAX, REFUSED_FIRST, REFUSED_MAX
from payments.stripe_adapter import Gateway, configured
from payments.stripe_shapes import AnsweredFault, Refused
from payments.stripe_tax_calls import Calculation, TaxedAnswer, TaxPart, TaxQuestion
from penstock.contract import documents, tax_documents
from penstock.contract.errors import ConfigurationError, InvalidRequest, PenstockError
from penstock.rules.stated_tax import coin_micro, tax_faults

KIND_TAX = "tax_calculation"
IN_FLIGHT_MAX = 1
OFF = "payment through Stripe is off, and this period's prices have its tax stated by Stripe Tax; turn it on"
_log = logging.getLogger(__name__)


def to_ask(now: datetime) -> QuerySet[TaxCalculation]:
    """What was not asked yet or is to be asked again now, longest waiting first."""
    rows = TaxCalculation.objects.filter(unsent_since__isnull=False, invoice__status=Invoice.Status.DRAFT)
    due = rows.filter(Q(retry_at=None) | Q(retry_at__lte=now))
    return due.order_by("unsent_since", "pk")


def ask_next() -> bool:
    """Give the longest waiting question to the outbox; False: none is due, or enough are there."""
    if outbox_queries.untried_of(KIND_TAX) >= IN_FLIGHT_MAX:
        return False
    with transaction.atomic():
        row = (
            to_ask(timezone.now())
            .select_for_update(of=("self",), no_key=True)
            .select_related("invoice", "tenant")
            .first()
        )
        if row is None:
            return False
        row.generation += 1
        row.unsent_since = row.retry_at = None
        row.save(update_fields=["generation", "unsent_since", "retry_at"])
        outbox.enqueue(
            kind=KIND_TAX,
            object_id=row.invoice.public_id,
            tenant=row.tenant.public_id,
            generation=row.generation,
        )
    return True


class TaxAsker:
    """The outbox's deliverer of questions to Stripe Tax."""

    def __init__(self, gateway: Callable[[], Gateway | None] = configured) -> None:
        self._gateway = gateway

    def deliver(self, object_id: str, generation: int) -> Delivered:
        """It raises nothing that it expects: what was not answered is marked to be asked again."""
        row = TaxCalculation.objects.select_related("invoice__cut").get(invoice__public_id=object_id)
        if row.statement is None and row.invoice.status == Invoice.Status.DRAFT:
            self._ask(row)
        return Delivered(generation=max(generation, row.generation))

    def delivered(self, object_id: str, done: Delivered) -> None:
        """The next question has its turn."""
        transaction.on_commit(ask_next, robust=True)

    def failed(self, object_id: str, reason: str, message: str) -> None:
        pass  # a fault of the service; the outbox row has it

    def _ask(self, row: TaxCalculation) -> None:
        try:
            gateway = self._gateway()
            if gateway is None:
                raise Refused(OFF)
            made = gateway.tax.calculate(
                _question(row), f"{row.invoice.public_id}/tax/{row.question}/{row.key_version}"
            )
            statement = _statement(row, made)
        except AnsweredFault as fault:
            self._later(row, str(fault), refused=False, another_key=True)
        except (Refused, ConfigurationError) as refused:
            # Stripe would repeat a refusal for a day, also of what was since corrected there.
            self._later(row, refused.message, refused=True, another_key=True)
        except PenstockError as error:
            self._later(row, error.message, refused=False)
        else:
            tax_actions.store(row.invoice.public_id, row.question, statement)
            invoice_actions.finalize(row.invoice.cut.public_id)

    def _later(self, row: TaxCalculation, problem: str, *, refused: bool, another_key: bool = False) -> None:
        first, most = (REFUSED_FIRST, REFUSED_MAX) if refused else (NO_ANSWER_FIRST, NO_ANSWER_MAX)
        pause: timedelta = min(most, first * 2 ** min(row.failures, 20))
        invoice = row.invoice.public_id
        if refused and problem != row.problem:
            _log.error("the tax of an invoice is not stated", extra={"invoice": invoice, "problem": problem})
        tax_actions.ask_later(invoice, row.question, problem, timezone.now(), pause, another_key=another_key)


def _question(row: TaxCalculation) -> TaxQuestion:
    asked = row.request
    unit = unit_micro(asked["currency"])
    for line in asked["lines"]:
        if line["base_micro"] % unit:
            raise Refused(
                f"Stripe Tax: {line['line']} is no whole number of what Stripe counts {asked['currency']} in"
            )
    return TaxQuestion(
        currency=asked["currency"],
        lines=[(line["line"], line["base_micro"] // unit) for line in asked["lines"]],
        address=asked["address"],
        tax_ids=asked["tax_ids"],
        tax_at_s=asked["tax_at_ms"] // 1_000,
        tax_code=config.current().payments.stripe_tax_code,
    )


def _statement(row: TaxCalculation, made: Calculation) -> tax_documents.TaxStatement:
    """Raises `Refused` for what no invoice can hold: once stored, it would be in the draft's way for good."""
    asked = row.request
    unit = unit_micro(asked["currency"])
    statement = tax_documents.TaxStatement(
        by="stripe_tax",
        calculation=made.id,
        tax_at_ms=asked["tax_at_ms"],
        address=tax_documents.BillingAddress(**asked["address"]),
        tax_ids=tuple(tax_documents.TaxId(**one) for one in asked["tax_ids"]),
        lines=tuple(_line(one, unit) for one in made.lines),
    )
    for line in statement.lines:
        for fault in tax_faults(line, coin_micro(asked["currency"])):
            raise Refused(f"Stripe Tax: {made.id}, tax of {line.line}: {fault}; it is not used")
    try:
        return documents.read_document(documents.plain(statement), tax_documents.TaxStatement, made.id)
    except InvalidRequest as error:
        raise Refused(f"Stripe Tax: {error.message}; it is not used") from None


def _line(one: TaxedAnswer, unit: int) -> tax_documents.StatedTaxLine:
    return tax_documents.StatedTaxLine(
        line=one.line,
        base_micro=one.amount * unit,
        tax_micro=one.tax * unit,
        parts=tuple(_part(part, unit) for part in one.parts),
    )


def _part(one: TaxPart, unit: int) -> tax_documents.StatedTaxPart:
    return tax_documents.StatedTaxPart(
        country=one.country,
        state=one.state,
        jurisdiction=one.jurisdiction,
        level=one.level,
        tax=one.tax,
        percent=one.percent,
        taxable_micro=one.taxable * unit,
        amount_micro=one.amount * unit,
        reason=one.reason,
    )
