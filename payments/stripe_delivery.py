"""One delivery of one receivable to Stripe, with those that it carries.

It looks before it acts: it asks Stripe what is there, makes what is missing, and asks again. So it may end at any point
and begin again, here or in another process. An invoice is finalized only when its items, its total and what Stripe
asks for are ours.
"""

from collections.abc import Sequence

from payments import carrying, queries, stripe_money
from payments.currencies import least_charge_micro, unit_micro
from payments.customers import ensure_customer, refresh_method
from payments.models import TEXT_LENGTH_MAX, Receivable, StripeCustomer
from payments.states import OWED, State
from payments.stripe_adapter import RECEIVABLE, Gateway
from payments.stripe_items import Part, parts_of
from payments.stripe_shapes import CreditNotes, Declined, StripeInvoice
from penstock.rules.rating import grouped_amount

ENDED = ("paid", "uncollectible", "void")


class Uncollected(Exception):
    """What is there keeps the receivable from being collected. The text says what to do."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class ChangedThere(Uncollected):
    """Someone has changed it at Stripe so that it cannot be collected as it is. Reminders wait for an operator."""


class LoweredThere(ChangedThere):
    """A credit note was made at Stripe that is not here."""


class Collection:
    """`run` raises what Stripe refuses or does not answer, and `Uncollected`."""

    def __init__(self, gateway: Gateway, row: Receivable) -> None:
        self._gateway = gateway
        self._row = row
        self._unit_micro = unit_micro(row.currency)
        self._declined: str | None = None
        """None: nothing was charged. Empty: it was."""
        self._found: StripeInvoice | None = None
        """Stripe's invoice, as it was seen first."""

    def run(self) -> None:
        try:
            self._run()
        except ChangedThere as changed:
            if not self._is_made_again() and not self._is_settled(changed):
                raise

    def _is_made_again(self) -> bool:
        """As an operator has asked: what was changed at Stripe goes, and another invoice is made there. Not where
        something was paid with it.
        """
        row, found = self._row, self._found
        if not row.asked_again or row.state not in OWED:
            return False
        if found is not None:
            if found.amount_paid or found.status == "paid":
                return False
            if found.status == "draft":
                self._gateway.discard(found.id, self._key("discard"))
            elif found.status != "void":
                self._gateway.void(found.id, self._key("void"))
        carrying.ask_again(row.public_id)
        self._note_problem("")
        return True

    def _is_settled(self, changed: ChangedThere) -> bool:
        """Count the money of what was changed. True: nothing is left to be decided."""
        found = self._found
        if found is None or found.status == "draft" or found.receivable != self._row.public_id:
            return False
        stripe_money.follow(self._gateway, self._row.public_id, found)
        now = Receivable.objects.select_related("tenant", "invoice__price_book").get(pk=self._row.pk)
        trouble = stripe_money.trouble(now)
        if trouble:
            changed.problem = trouble
        if now.state in OWED or trouble or (isinstance(changed, LoweredThere) and now.state == State.PAID):
            return False
        self._note_problem("")
        return True

    def _run(self) -> None:
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
        self._found = found
        self._note_invoice(found)
        self._group = queries.with_group(row)
        if found.currency != row.currency:
            raise Uncollected(
                f"{found.id} at Stripe is in {found.currency}, and the invoice in {row.currency}"
            )
        if found.receivable != row.public_id:
            raise ChangedThere(
                f"{found.id} has no mark of this invoice at Stripe any more: set {RECEIVABLE} of its metadata to "
                f"{row.public_id} there, or have it made again with {self._retry}"
            )
        if found.customer != customer and self._is_of_former(found):
            return
        if found.status == "draft":
            if row.state not in OWED or not carrying.is_enough(self._group):
                self._gateway.discard(found.id, self._key("discard"))
                self._put_back()
                return
            found = self._finalized(customer, found)
        if found.moved and row.state in OWED:
            raise ChangedThere(
                f"finalizing {found.id} moved {found.moved} to its customer's balance at Stripe, which asks for it "
                f"with another invoice. Set the balance back there, and then {self._decide}"
            )
        if self._is_taken_away(found):
            self._put_back()
            return
        found = self._credited(found)
        if self._is_too_little(found):
            self._gateway.void(found.id, self._key("void"))
            self._put_back()
            return
        if row.state in (State.PAID, State.UNCOLLECTIBLE) and found.status == "open":
            found = self._without_carried(found)
        if found.status == "uncollectible" and row.state in OWED:
            raise ChangedThere(
                f"{found.id} was marked as uncollectible at Stripe: {self._decide}, or have it asked for again with "
                f"{self._retry}"
            )
        found = self._settled(found)
        self._note_invoice(found)
        stripe_money.follow(self._gateway, row.public_id, found)
        if found.status in ENDED:
            carrying.release(row.public_id)
        self._note_problem(self._declined, found)

    def _put_back(self) -> None:
        carrying.put_back(self._row.public_id)
        self._note_problem("")

    def _find(self, customer: str) -> StripeInvoice | None:
        row = self._row
        if row.stripe_invoice:
            found = self._gateway.known_invoice(row.stripe_invoice)
            if found is None:
                is_owed = row.state in OWED and row.open_micro
                if is_owed and carrying.is_enough(queries.with_group(row)):
                    raise ChangedThere(
                        f"{row.stripe_invoice} was deleted at Stripe: have it made again with {self._retry}, or "
                        f"{self._decide}"
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
            raise ChangedThere(
                f"{draft.id} has other items at Stripe than the invoice has lines; not finalized. Delete them there, "
                f"or have the draft made again with {self._retry}"
            )
        owed = carrying.open_of(self._group) // self._unit_micro
        if draft.total != owed or sum(amount for _, amount in expected) != owed:
            raise ChangedThere(
                f"{draft.id} has a total of {draft.total} at Stripe, {owed} required; not finalized. Take away there "
                f"what changes it (a discount, a tax), or have the draft made again with {self._retry}"
            )
        if draft.starting_balance:
            raise ChangedThere(
                f"the customer of {draft.id} has a balance of {draft.starting_balance} at Stripe, which its invoice "
                "would take in; not finalized. Set the balance to 0 there"
            )
        if draft.amount_due != owed:
            raise Uncollected(
                f"Stripe would ask for {draft.amount_due} of the {owed} of {draft.id}; not finalized. If it is less "
                f"than Stripe charges in the currency, {self._decide}"
            )
        return self._gateway.finalize(draft.id, self._key("finalize"))

    def _is_taken_away(self, found: StripeInvoice) -> bool:
        """Whether it is void there because too little was left of it, though the answer was lost."""
        row = self._row
        if found.status != "void" or row.state not in OWED or row.open_micro == 0:
            return False
        if carrying.is_enough(self._group):
            raise ChangedThere(
                f"{found.id} was voided at Stripe: {self._decide}, or have it asked for again with {self._retry}"
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
        items = {item.line for item in self._gateway.items(found.id)}
        expected = sum(part.amount for part in parts if part.id in items)
        if row.state in OWED and found.status == "open" and found.total != expected:
            raise ChangedThere(
                f"{found.id} was finalized at Stripe with a total of {found.total}, and its lines are {expected}: have "
                f"it made again with {self._retry}, or take it back with `penstock payment void "
                f"{row.invoice.public_id}`"
            )
        notes = self._gateway.credit_notes(found.id)
        there = items | set(notes.ours)
        by_hand = self._credited_by_hand(parts, notes)
        owed = sum(
            part.amount for part in parts if not part.lowers or (part.id in there and not part.by_bank)
        )
        for part in parts:
            if not part.lowers or part.id in there or not part.amount:
                continue
            if part.by_bank and found.status == "paid":
                continue  # both came; the receivable shows that it is overpaid
            owed += 0 if part.by_bank else part.amount
            # Someone has credited it there already.
            covered = min(by_hand, -part.amount)
            by_hand -= covered
            amount = -part.amount - covered
            if not amount:
                continue
            refunded = self._to_refund(found, amount, owed)
            voided = self._gateway.voided_notes(found.id, part.id)
            self._gateway.credit(
                found.id,
                part.id,
                amount=amount,
                refunded=refunded,
                elsewhere=amount - refunded if found.status == "paid" else 0,
                key=self._key(f"credit/{part.id}{f'/{voided}' if voided else ''}"),
            )
            found = self._gateway.invoice(found.id)
        if by_hand and row.state in (*OWED, State.PAID):
            shown = f"{grouped_amount(by_hand * self._unit_micro, 6)} {row.currency}"
            raise LoweredThere(
                f"{found.id} was lowered by {shown} at Stripe with a credit note that is not here. Issue one with "
                f"`penstock billing credit {row.invoice.public_id} --amount {shown.split()[0]}`, or void that one at "
                "Stripe"
            )
        return found

    def _credited_by_hand(self, parts: Sequence[Part], notes: CreditNotes) -> int:
        """The amount that credit notes made at Stripe have taken off beyond ours. Ours may be of a receivable that this
        one carries no more.
        """
        covered = sum(
            -part.amount - notes.ours[part.id] for part in parts if part.lowers and part.id in notes.ours
        )
        return notes.by_hand - covered

    def _is_of_former(self, found: StripeInvoice) -> bool:
        """Whether it was of a customer that was deleted at Stripe, and is taken away, to be asked of the new one."""
        row = self._row
        if found.customer not in StripeCustomer.objects.get(tenant=row.tenant).former_ids:
            raise Uncollected(
                f"{found.id} at Stripe is of another customer than the tenant's. Put the key of the account that made "
                f"it into the file of payments.stripe_key_file, or {self._decide}"
            )
        if row.state not in OWED or found.amount_paid or found.status in ("paid", "void"):
            return False
        if found.status == "draft":
            self._gateway.discard(found.id, self._key("discard"))
        else:
            self._gateway.void(found.id, self._key("void"))
        carrying.ask_again(row.public_id)
        self._note_problem("")
        return True

    @property
    def _retry(self) -> str:
        return f"`penstock payment retry {self._row.invoice.public_id}`"

    @property
    def _decide(self) -> str:
        """What an operator can do without Stripe."""
        name = self._row.invoice.public_id
        return (
            f"note a payment by bank with `penstock payment paid {name}`, give it up with `penstock payment give-up "
            f"{name}`, or take it back with `penstock payment void {name}`"
        )

    def _without_carried(self, found: StripeInvoice) -> StripeInvoice:
        """The carrier is closed without Stripe, so what it carries and is owed waits for another one."""
        there = self._gateway.credit_notes(found.id).ours
        for one in self._group[1:]:
            note = _carried_on(one)
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
        by_bank = sum(map(queries.kept_outside_micro, self._group)) // self._unit_micro
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


def _carried_on(row: Receivable) -> str:
    return f"{row.public_id}/carried on"


__all__ = ["ChangedThere", "Collection", "Part", "Uncollected"]
