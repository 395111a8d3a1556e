"""One delivery of one receivable to Stripe, with those that it carries.

It looks before it acts: it asks Stripe what is there, makes what is missing, and asks again. So it may end at any point
and begin again, here or in another process. An invoice is finalized only when its items, its total and what Stripe
asks for are ours.
"""

from payments import carrying, queries, stripe_money
from payments.actions import Source
from payments.currencies import least_charge_micro, unit_micro
from payments.customers import ensure_customer, refresh_method
from payments.models import TEXT_LENGTH_MAX, Receivable
from payments.states import OWED, State
from payments.stripe_adapter import Gateway
from payments.stripe_items import Part, parts_of
from payments.stripe_shapes import Declined, StripeInvoice

ENDED = ("paid", "uncollectible", "void")


class Uncollected(Exception):
    """What is there keeps the receivable from being collected. The text says what to do."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Collection:
    """`run` raises what Stripe refuses or does not answer, and `Uncollected`."""

    def __init__(self, gateway: Gateway, row: Receivable) -> None:
        self._gateway, self._row = gateway, row
        self._unit_micro = unit_micro(row.currency)
        self._declined: str | None = None
        """None: nothing was charged. Empty: it was."""

    def run(self) -> None:
        row = self._row
        if row.carried_by is not None:
            return
        if row.waits and not carrying.gathered(row.public_id):
            self._note_problem("")
            return
        customer = ensure_customer(self._gateway, row.tenant)
        found = self._find(customer) or self._created(customer)
        if found is None:
            if row.state not in OWED:
                carrying.release(row.public_id)
            self._note_problem("")
            return
        if found.customer != customer or found.receivable != row.public_id or found.currency != row.currency:
            raise Uncollected(
                f"{found.id} at Stripe is of another customer, receivable or currency; correct its metadata there"
            )
        self._note_invoice(found)
        self._group = queries.with_group(row)
        if found.status == "draft":
            if row.state not in OWED or not carrying.is_enough(self._group):
                self._gateway.discard(found.id, self._key("discard"))
                carrying.put_back(row.public_id)
                return
            found = self._finalized(customer, found)
        if found.moved:
            raise Uncollected(
                f"finalizing {found.id} moved {found.moved} to its customer's balance at Stripe, which asks for "
                "it with "
                "another invoice; set the balance back there, and note this one as paid by bank or give it up"
            )
        if self._is_taken_away(found):
            carrying.put_back(row.public_id)
            return
        found = self._credited(found)
        if self._is_too_little(found):
            self._gateway.void(found.id, self._key("void"))
            carrying.put_back(row.public_id)
            return
        if row.state in (State.PAID, State.UNCOLLECTIBLE) and found.status == "open":
            found = self._without_carried(found)
        found = self._settled(found)
        self._note_invoice(found)
        stripe_money.follow(self._gateway, row.public_id, found)
        if found.status in ENDED:
            carrying.release(row.public_id)
        self._note_problem(self._declined, found)

    def _find(self, customer: str) -> StripeInvoice | None:
        row = self._row
        if row.stripe_invoice:
            found = self._gateway.known_invoice(row.stripe_invoice)
            if found is None:
                is_owed = row.state in OWED and row.open_micro
                if is_owed and carrying.is_enough(queries.with_group(row)):
                    raise Uncollected(
                        f"{row.stripe_invoice} is not at Stripe any more; note a payment by bank, or give the "
                        "invoice up"
                    )
                # A draft of ours that was discarded, also as too little, though the answer was lost.
                carrying.put_back(row.public_id)
            return found
        return self._gateway.find_invoice(customer, row.public_id)

    def _created(self, customer: str) -> StripeInvoice | None:
        """None: there is nothing to ask for, or too little for Stripe to charge."""
        row = self._row
        if row.state not in OWED or row.open_micro == 0 or row.stripe_invoice:
            return None
        if not carrying.gathered(row.public_id):
            return None
        book = row.invoice.price_book
        return self._gateway.create_invoice(
            customer,
            row.public_id,
            row.currency,
            f"Invoice no. {row.invoice.number}, prices {book.name} {book.version}",
            self._key("invoice"),
        )

    def _finalized(self, customer: str, draft: StripeInvoice) -> StripeInvoice:
        row = self._row
        wanted = {part.id: part for part in parts_of(self._group) if part.amount}
        there = {item.line for item in self._gateway.items(draft.id)}
        for part in wanted.values():
            if part.id not in there:
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
        expected = sorted((part.id, part.amount) for part in wanted.values())
        if sorted((item.line, item.amount) for item in items) != expected:
            raise Uncollected(
                f"{draft.id} has other items at Stripe than the invoice has lines; not finalized. Delete them there"
            )
        owed = carrying.open_of(self._group) // self._unit_micro
        if draft.total != owed or sum(amount for _, amount in expected) != owed:
            raise Uncollected(
                f"{draft.id} has a total of {draft.total} at Stripe, {owed} required; not finalized"
            )
        if draft.starting_balance:
            raise Uncollected(
                f"the customer of {draft.id} has a balance of {draft.starting_balance} at Stripe, which its invoice "
                "would take in; not finalized. Set the balance to 0 there"
            )
        if draft.amount_due != owed:
            raise Uncollected(
                f"Stripe would ask for {draft.amount_due} of the {owed} of {draft.id}; not finalized. If it is "
                "less than "
                "Stripe charges in the currency, note it as paid by bank, or give it up"
            )
        return self._gateway.finalize(draft.id, self._key("finalize"))

    def _is_taken_away(self, found: StripeInvoice) -> bool:
        """Whether it is void there because too little was left of it, though the answer was lost."""
        row = self._row
        if found.status != "void" or row.state not in OWED or row.open_micro == 0:
            return False
        if carrying.is_enough(self._group):
            raise Uncollected(
                f"{found.id} was voided at Stripe; note a payment by bank, issue a credit note, or give the invoice up"
            )
        return True

    def _is_too_little(self, found: StripeInvoice) -> bool:
        """Whether credit notes have left less than Stripe charges."""
        left = found.amount_remaining * self._unit_micro
        return (
            self._row.state in OWED
            and found.status == "open"
            and not found.amount_paid
            and 0 < left < least_charge_micro(self._row.currency)
        )

    def _credited(self, found: StripeInvoice) -> StripeInvoice:
        """Take to Stripe what has lowered the invoice since it was finalized."""
        row = self._row
        if found.status not in ("open", "paid", "uncollectible"):
            return found
        if row.state == State.VOID and found.status != "paid":
            return self._gateway.void(found.id, self._key("void"))
        parts = parts_of(self._group)
        if not any(part.lowers for part in parts):
            return found
        there = {item.line for item in self._gateway.items(found.id)} | set(
            self._gateway.credit_notes(found.id)
        )
        owed = sum(
            part.amount for part in parts if not part.lowers or (part.id in there and not part.by_bank)
        )
        for part in parts:
            if not part.lowers or part.id in there or not part.amount:
                continue
            if part.by_bank and found.status == "paid":
                continue  # both came; the receivable shows that it is overpaid
            owed += 0 if part.by_bank else part.amount
            refunded = self._to_refund(found, -part.amount, owed)
            self._gateway.credit(
                found.id,
                part.id,
                amount=-part.amount,
                refunded=refunded,
                elsewhere=-part.amount - refunded if found.status == "paid" else 0,
                key=self._key(f"credit/{part.id}"),
            )
            found = self._gateway.invoice(found.id)
        return found

    def _without_carried(self, found: StripeInvoice) -> StripeInvoice:
        """The carrier is closed without Stripe, so what it carries and is owed waits for another one."""
        there = self._gateway.credit_notes(found.id)
        for one in self._group[1:]:
            note = f"{one.public_id}/carried on"
            if one.state in OWED and one.open_micro and note not in there:
                amount = one.open_micro // self._unit_micro
                key = self._key(f"credit/{note}")
                self._gateway.credit(found.id, note, amount=amount, refunded=0, elsewhere=0, key=key)
                found = self._gateway.invoice(found.id)
        return found

    def _to_refund(self, found: StripeInvoice, amount: int, owed: int) -> int:
        """How much of a credit note Stripe gives back: what is paid beyond `owed`, also counting what was given back
        there by hand."""
        if found.status != "paid":
            return 0
        kept = 0
        for payment in self._gateway.payments(found.id):
            back = [*self._gateway.refunds(payment.id), *self._gateway.disputes(payment.id)]
            kept += payment.amount - sum(one.amount for one in back if not one.returned)
        by_bank = sum(queries.kept_micro(one, Source.BANK) for one in self._group) // self._unit_micro
        return max(0, min(amount, kept, kept + by_bank - owed))

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
            self._declined = ""
        except Declined as declined:
            self._declined = f"{method.label} was declined: {declined}"
            found = self._gateway.invoice(found.id)
        Receivable.objects.filter(pk=row.pk).update(charged=row.charge)
        return found

    def _key(self, what: str) -> str:
        return f"{self._row.public_id}/{what}/{self._row.key_version}"

    def _note_invoice(self, found: StripeInvoice) -> None:
        Receivable.objects.filter(pk=self._row.pk).update(
            stripe_invoice=found.id,
            stripe_state=found.status,
            pay_url=found.url if found.status == "open" else "",
        )

    def _note_problem(self, declined: str | None, found: StripeInvoice | None = None) -> None:
        """What is to be known of a receivable whose delivery got to its end. A decline stays until it is charged
        again.
        """
        row = Receivable.objects.get(pk=self._row.pk)
        problem = row.problem if declined is None and not row.refused else declined or ""
        if row.state not in OWED:
            problem = ""
        if found is not None:
            problem = stripe_money.trouble(row) or problem
        if problem != row.problem:
            Receivable.objects.filter(pk=row.pk).update(problem=problem[:TEXT_LENGTH_MAX])


__all__ = ["Collection", "Part", "Uncollected"]
