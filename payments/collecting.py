"""Brings Stripe to what a receivable says, and what Stripe says of money to the receivable: one delivery of the outbox.

A delivery looks before it acts: it asks Stripe what is there, makes what is missing, and asks again. So it may end at
any point and begin again, here or in another process. An invoice is finalized only when its items and its total are
ours.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import F

from billing.models import CreditNote
from control_plane.outbox.registry import Delivered
from payments import actions
from payments.actions import KIND_RECEIVABLE, Kind, Source
from payments.currencies import unit_micro, whole_coins
from payments.models import TEXT_LENGTH_MAX, Receivable, StripeCustomer
from payments.states import OWED, State
from payments.stripe_adapter import (
    AnsweredFault,
    Declined,
    Gateway,
    Method,
    StripeInvoice,
    configured,
)
from penstock.contract.errors import ConfigurationError, InvalidRequest, OutcomeUnknown
from tenants.models import Tenant

__all__ = ["KIND_RECEIVABLE", "Collector", "ensure_customer", "refresh_method"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A line, a charge or a credit note as an item of Stripe's invoice. `amount` is in Stripe's minor units."""

    id: str
    amount: int
    title: str
    is_note: bool = False


class Collector:
    """The outbox's deliverer of receivables."""

    def __init__(self, gateway: Callable[[], Gateway | None] = configured) -> None:
        self._gateway = gateway

    def deliver(self, object_id: str, generation: int) -> Delivered:
        """Raises `PenstockError` when Stripe did not answer, or has something else than we do."""
        gateway = self._gateway()
        if gateway is None:
            raise ConfigurationError("payments.stripe_key_file: payment through Stripe is off")
        row = Receivable.objects.select_related("tenant", "invoice__price_book").get(public_id=object_id)
        try:
            _Collection(gateway, row).run()
        except AnsweredFault as fault:
            Receivable.objects.filter(pk=row.pk).update(key_version=F("key_version") + 1)
            raise OutcomeUnknown(str(fault)) from None
        return Delivered(generation=max(generation, row.generation))

    def delivered(self, object_id: str, done: Delivered) -> None:
        pass  # what Stripe says was stored as it was said

    def failed(self, object_id: str, reason: str, message: str) -> None:
        pass  # the outbox row has it


class _Collection:
    """One delivery of one receivable."""

    def __init__(self, gateway: Gateway, row: Receivable) -> None:
        self._gateway, self._row = gateway, row
        self._unit_micro = unit_micro(row.currency)

    def run(self) -> None:
        row = self._row
        customer = ensure_customer(self._gateway, row.tenant, row.key_version)
        found = self._find(customer)
        if found is None:
            if row.state not in OWED or row.open_micro == 0:
                return
            book = row.invoice.price_book
            found = self._gateway.create_invoice(
                customer,
                row.public_id,
                row.currency,
                f"Invoice no. {row.invoice.number}, prices {book.name} {book.version}",
                self._key("invoice"),
            )
        if found.customer != customer or found.receivable != row.public_id or found.currency != row.currency:
            raise self._problem(f"{found.id} at Stripe is of another customer, receivable or currency")
        self._note_invoice(found)
        if found.status == "draft":
            if row.state not in OWED or row.open_micro == 0:
                self._gateway.discard(found.id, self._key("discard"))
                self._note_invoice(None)
                return
            found = self._finalized(customer, found)
            Receivable.objects.filter(pk=row.pk).update(problem="")
        found = self._credited(found)
        found = self._settled(found)
        self._note_invoice(found)
        self._note_money(found)

    def _find(self, customer: str) -> StripeInvoice | None:
        row = self._row
        if row.stripe_invoice:
            found = self._gateway.known_invoice(row.stripe_invoice)
            if found is None and row.state in OWED and row.open_micro:
                raise self._problem(f"{row.stripe_invoice} is not at Stripe any more")
            if found is None:
                # A draft of ours that was discarded, though the answer was lost.
                self._note_invoice(None)
            return found
        return self._gateway.find_invoice(customer, self._row.public_id)

    def _finalized(self, customer: str, draft: StripeInvoice) -> StripeInvoice:
        row = self._row
        wanted = {part.id: part for part in self._parts()}
        there = {item.line for item in self._gateway.items(draft.id)}
        for part in wanted.values():
            if part.id not in there and part.amount:
                self._gateway.add_item(
                    customer,
                    draft.id,
                    part.id,
                    amount=part.amount,
                    currency=row.currency,
                    title=part.title,
                    key=self._key(f"item/{part.id}"),
                )
        items = self._gateway.items(draft.id)
        draft = self._gateway.invoice(draft.id)
        expected = {part.id: part.amount for part in wanted.values() if part.amount}
        if sorted((item.line, item.amount) for item in items) != sorted(expected.items()):
            raise self._problem(
                f"{draft.id} has other items at Stripe than the invoice has lines; not finalized"
            )
        owed = (row.total_micro - row.credited_micro) // self._unit_micro
        if draft.total != owed or sum(expected.values()) != owed:
            raise self._problem(
                f"{draft.id} has a total of {draft.total} at Stripe, {owed} required; not finalized"
            )
        return self._gateway.finalize(draft.id, self._key("finalize"))

    def _credited(self, found: StripeInvoice) -> StripeInvoice:
        """Take credit notes to Stripe that came after the invoice was finalized."""
        row = self._row
        if found.status not in ("open", "paid", "uncollectible") or row.credited_micro == 0:
            return found
        if row.state == State.VOID and found.status != "paid":
            return self._gateway.void(found.id, self._key("void"))
        there = {item.line for item in self._gateway.items(found.id)} | set(
            self._gateway.credit_notes(found.id)
        )
        for part in self._parts():
            if not part.is_note or part.id in there or not part.amount:
                continue
            amount = -part.amount
            elsewhere = refunded = 0
            if found.status == "paid":
                through_stripe = sum(payment.amount for payment in self._gateway.payments(found.id))
                refunded = amount if through_stripe else 0
                elsewhere = amount - refunded
            self._gateway.credit(
                found.id,
                part.id,
                amount=amount,
                refunded=refunded,
                elsewhere=elsewhere,
                key=self._key(f"credit/{part.id}"),
            )
            found = self._gateway.invoice(found.id)
        return found

    def _settled(self, found: StripeInvoice) -> StripeInvoice:
        """Bring Stripe's invoice to the receivable's state, or charge the tenant's payment method."""
        row = self._row
        if found.status in ("paid", "void"):
            return found
        if row.state == State.PAID:
            return self._gateway.paid_elsewhere(found.id, self._key("elsewhere"))
        if row.state == State.UNCOLLECTIBLE and found.status == "open":
            return self._gateway.give_up(found.id, self._key("give_up"))
        if row.state not in OWED or row.charged >= row.charge:
            return found
        method = refresh_method(self._gateway, row.tenant)
        if method is None:
            return found
        try:
            found = self._gateway.pay(found.id, method.id, self._key(f"pay/{row.charge}"))
        except Declined as declined:
            self._note_charge(f"{method.label} was declined: {declined}")
            return self._gateway.invoice(found.id)
        self._note_charge("")
        return found

    def _parts(self) -> list[_Part]:
        """Lines, charges, and those credit notes that the receivable counts, in whole coins: each ends where the sum up
        to it does, so that all of them are what is asked for, and each is less than a coin from what it is. A newer
        credit note comes behind, with the next generation.
        """
        parts: list[_Part] = []
        sum_micro = before_micro = 0
        for part_id, amount_micro, title, is_note in self._exact_parts():
            sum_micro += amount_micro
            asked_micro = whole_coins(sum_micro, self._row.currency)
            amount = (asked_micro - before_micro) // self._unit_micro
            parts.append(_Part(id=part_id, amount=amount, title=title, is_note=is_note))
            before_micro = asked_micro
        return parts

    def _exact_parts(self) -> Iterator[tuple[str, int, str, bool]]:
        """Id, micro-units, title, and whether it is a credit note."""
        invoice, left = self._row.invoice, self._row.noted_micro
        for line in invoice.lines.order_by("position"):
            yield line.line_id, line.amount_micro, f"{line.meter}: {line.quantity:,}", False
        for charge in invoice.charges:
            yield charge["id"], charge["amount_micro"], f"{charge['kind']}: {charge['name']}", False
        for note in CreditNote.objects.filter(invoice=invoice).order_by("number"):
            if note.total_micro <= left:
                left -= note.total_micro
                yield note.public_id, -note.total_micro, f"Credit note no. {note.number}", True

    def _key(self, what: str) -> str:
        return f"{self._row.public_id}/{what}/{self._row.key_version}"

    def _problem(self, text: str) -> InvalidRequest:
        """Note what keeps the receivable from being collected, and log it once. The caller raises the result."""
        fresh = Receivable.objects.filter(pk=self._row.pk).exclude(problem=text[:TEXT_LENGTH_MAX])
        if fresh.update(problem=text[:TEXT_LENGTH_MAX]):
            _log.error(
                "an invoice is not collected",
                extra={"invoice": self._row.invoice.public_id, "problem": text},
            )
        return InvalidRequest(f"{self._row.invoice.public_id}: {text}")

    def _note_invoice(self, found: StripeInvoice | None) -> None:
        with actions.locked(self._row.public_id) as row:
            row.stripe_invoice = "" if found is None else found.id
            row.stripe_state = "" if found is None else found.status
            row.pay_url = found.url if found is not None and found.status == "open" else ""
            row.save(update_fields=["stripe_invoice", "stripe_state", "pay_url"])

    def _note_charge(self, problem: str) -> None:
        Receivable.objects.filter(pk=self._row.pk).update(
            charged=self._row.charge, problem=problem[:TEXT_LENGTH_MAX]
        )

    def _note_money(self, found: StripeInvoice) -> None:
        """Count what was paid and refunded through Stripe."""
        paid = self._gateway.payments(found.id)
        refunds = [refund for payment in paid for refund in self._gateway.refunds(payment.id)]
        with actions.locked(self._row.public_id) as row:
            for kind, rows in ((Kind.PAYMENT, paid), (Kind.REFUND, refunds)):
                for one in rows:
                    actions.note_money(
                        actions.ACTOR,
                        row,
                        kind,
                        Source.STRIPE,
                        reference=one.id,
                        amount_micro=one.amount * self._unit_micro,
                        at=datetime.fromtimestamp(one.at_s, UTC),
                    )
            if paid and row.problem:
                row.problem = ""
                row.save(update_fields=["problem"])
            if paid and found.status == "paid" and row.state in OWED:
                _log.error(
                    "Stripe has an invoice as paid of which something is open",
                    extra={"invoice": row.invoice.public_id, "open_micro": row.open_micro},
                )


def ensure_customer(gateway: Gateway, tenant: Tenant, version: int = 1) -> str:
    """Stripe's id of the tenant, which is made a customer there if it is none. No transaction is open. Raises
    `AnsweredFault` too: another `version` is needed then.
    """
    known = StripeCustomer.objects.filter(tenant=tenant).first()
    if known is not None:
        return known.stripe_id
    found = gateway.find_customer(tenant.public_id) or gateway.create_customer(
        tenant.public_id, tenant.name, f"customer/{tenant.public_id}/{version}"
    )
    with transaction.atomic():
        owner = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row, _ = StripeCustomer.objects.get_or_create(tenant=owner, defaults={"stripe_id": found})
    return row.stripe_id


def refresh_method(gateway: Gateway, tenant: Tenant) -> Method | None:
    """How the tenant pays at Stripe now; it is stored. A new way makes what is owed be charged once more."""
    customer = ensure_customer(gateway, tenant)
    method = gateway.method(customer)
    fresh = "" if method is None else method.id
    with transaction.atomic():
        owner = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row = StripeCustomer.objects.get(tenant=owner)
        if row.method_id != fresh:
            row.method_id, row.method = fresh, "" if method is None else method.label
            row.save(update_fields=["method_id", "method"])
    return method
