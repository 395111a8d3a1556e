"""Writes receivables and payments: what is owed of issued invoices, what came, and what operators decide.

Every change is made under the tenant's row lock, with its audit entry. What Stripe must hear of is marked on the
receivable, also while payment through Stripe is off; `payments.sending` gives it to the outbox.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from billing.models import Invoice
from control_plane import config
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, system
from payments import queries
from payments.currencies import whole_coins
from payments.models import REFERENCE_LENGTH_MAX, TEXT_LENGTH_MAX, Payment, Receivable
from payments.states import MOVES, OWED, State, settled
from penstock.contract.errors import AlreadyExists, InvalidRequest
from penstock.rules.names import check_printable_name
from tenants.models import Tenant

ACTOR = system("payments")
DAY = timedelta(days=1)
Kind, Source = Payment.Kind, Payment.Source


@contextmanager
def locked(receivable: str) -> Iterator[Receivable]:
    """The receivable in a transaction, under its tenant's lock, which guards all of the tenant's money."""
    tenant = Receivable.objects.values_list("tenant", flat=True).get(public_id=receivable)
    with transaction.atomic():
        owner = Tenant.objects.select_for_update(no_key=True).get(pk=tenant)
        row = Receivable.objects.select_for_update(no_key=True).get(public_id=receivable)
        row.tenant = owner
        yield row


def open_receivable(invoice: Invoice) -> Receivable:
    """Begin to ask for an issued invoice. One of less than a coin is paid at once. Doing it again changes nothing."""
    settings = config.current().payments
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update(no_key=True).get(pk=invoice.tenant.pk)
        known = Receivable.objects.filter(invoice=invoice).first()
        if known is not None:
            return known
        if invoice.issued_at is None or invoice.total_micro is None:
            raise InvalidRequest(f"{invoice.public_id}: an issued invoice required, this one is a draft")
        row = Receivable(
            tenant=tenant,
            invoice=invoice,
            state=State.OPEN,
            currency=invoice.price_book.currency,
            total_micro=whole_coins(invoice.total_micro, invoice.price_book.currency),
            # Counted from now for an invoice that is older than payments: it was not asked for before.
            mail_due=invoice.total_micro > 0,
            due_at=max(invoice.issued_at, timezone.now()) + timedelta(days=settings.due_days),
        )
        row.save()
        audit.record(
            ACTOR,
            tenant=tenant.public_id,
            action="receivable.open",
            object_id=row.public_id,
            after={
                "invoice": invoice.public_id,
                "total_micro": row.total_micro,
                "currency": row.currency,
                "due_at": row.due_at.isoformat(),
            },
        )
        update_state(ACTOR, row, timezone.now())
        if row.state in OWED:
            tell_stripe(row)
        return row


def update_state(actor: Actor, row: Receivable, now: datetime) -> None:
    """Move the row to the state that follows from its money and the time. The caller has locked it."""
    before = State(row.state)
    # What waits to be carried cannot be paid yet.
    after = settled(
        before, row.balance, due_at=max(row.due_at, now + DAY) if row.waits else row.due_at, now=now
    )
    if after is not before:
        move(actor, row, after, now)


def move(actor: Actor, row: Receivable, state: State, now: datetime, **facts: str | int) -> None:
    """Change the state, by `MOVES`. The caller has locked the row."""
    before = State(row.state)
    if state not in MOVES[before]:
        raise InvalidRequest(f"{row.invoice.public_id}: it is {before}, so it cannot become {state}")
    row.state = state
    row.closed_at = None if state in OWED else now
    row.save(update_fields=["state", "closed_at"])
    audit.record(
        actor,
        tenant=row.tenant.public_id,
        action=f"receivable.{state}",
        object_id=row.public_id,
        before={"state": before},
        after={"state": state, "invoice": row.invoice.public_id, **facts},
    )


def tell_stripe(row: Receivable, *, at_once: bool = True) -> None:
    """Stripe must hear of the row's change, once it is the row's turn, and payment through Stripe is on. Not `at_once`:
    where Stripe refused it before, not until it is tried again in any case. The caller has locked the row.
    """
    target = row if row.carried_by is None else row.carried_by
    if target.unsent_since is None:
        target.unsent_since = timezone.now()
    if at_once:
        target.retry_at = None
    target.save(update_fields=["unsent_since", "retry_at"])


def ask_for_it_alone(receivable: str) -> None:
    """Payment through Stripe is off: what waited to be carried is due as another invoice is, and paid by bank."""
    with locked(receivable) as row:
        row.waits = False
        row.due_at = max(row.due_at, timezone.now() + timedelta(days=config.current().payments.due_days))
        row.save(update_fields=["waits", "due_at"])
        tell_stripe(row)


def follow_credits(receivable: str) -> None:
    """Lower what is asked for by the invoice's credit notes. Doing it again changes nothing, and so does a credit note
    of an invoice that an operator took back.
    """
    with locked(receivable) as row:
        noted = queries.credited_micro(row.invoice)
        if noted == row.noted_micro or row.voided_micro:
            return
        # A loss that was seen after a credit was granted is credited as it was billed: no more than all is given back.
        exact = max(0, (row.invoice.total_micro or 0) - noted)
        credited = row.total_micro - whole_coins(exact, row.currency)
        before, row.credited_micro, row.noted_micro = row.credited_micro, credited, noted
        row.save(update_fields=["credited_micro", "noted_micro"])
        audit.record(
            ACTOR,
            tenant=row.tenant.public_id,
            action="receivable.credit",
            object_id=row.public_id,
            before={"credited_micro": before},
            after={"credited_micro": credited, "invoice": row.invoice.public_id},
        )
        update_state(ACTOR, row, timezone.now())
        tell_stripe(row)


def note_money(
    actor: Actor,
    row: Receivable,
    kind: Payment.Kind,
    source: Payment.Source,
    *,
    reference: str,
    amount_micro: int,
    at: datetime,
) -> Payment:
    """Count a payment, or what was given or taken back of it, once for its reference. The caller has locked the row.

    Raises `AlreadyExists` if the reference is of another receivable or amount.
    """
    known = Payment.objects.filter(tenant=row.tenant, kind=kind, source=source, reference=reference).first()
    if known is not None:
        if (known.receivable_id, known.amount_micro) != (row.pk, amount_micro):
            raise AlreadyExists(f"reference: {reference[:60]} is a {kind} of {known.amount_micro} already")
        return known
    made = Payment.objects.create(
        tenant=row.tenant,
        receivable=row,
        kind=kind,
        source=source,
        reference=reference,
        amount_micro=amount_micro,
        at=at,
    )
    if kind == Kind.PAYMENT:
        row.paid_micro += amount_micro
    elif kind in (Kind.REFUND, Kind.DISPUTE):
        row.refunded_micro += amount_micro
    else:
        row.refunded_micro -= amount_micro
    row.save(update_fields=["paid_micro", "refunded_micro"])
    audit.record(
        actor,
        tenant=row.tenant.public_id,
        action=f"receivable.{'pay' if kind == Kind.PAYMENT else kind}",
        object_id=row.public_id,
        after={
            "payment": made.public_id,
            "invoice": row.invoice.public_id,
            "source": source,
            "reference": reference,
            "amount_micro": amount_micro,
        },
    )
    update_state(actor, row, timezone.now())
    return made


def mark_paid(actor: Actor, invoice: Invoice, *, reference: str) -> Receivable:
    """All that is open came by bank. The same reference again changes nothing.

    Raises `InvalidRequest` when nothing is open.
    """
    check_printable_name("reference", reference, REFERENCE_LENGTH_MAX)
    with locked(queries.receivable_of(invoice).public_id) as row:
        known = row.payments.filter(kind=Kind.PAYMENT, source=Source.BANK, reference=reference).first()
        if known is not None:
            return row
        if row.open_micro == 0 or row.state == State.VOID:
            raise InvalidRequest(f"{invoice.public_id}: it is {row.state}, and nothing of it is open")
        note_money(
            actor,
            row,
            Kind.PAYMENT,
            Source.BANK,
            reference=reference,
            amount_micro=row.open_micro,
            at=timezone.now(),
        )
        tell_stripe(row)
        return row


def mark_refunded(actor: Actor, invoice: Invoice, *, reference: str) -> Receivable:
    """What credit notes left overpaid was given back by bank. The same reference again changes nothing.

    Raises `InvalidRequest` when nothing is to be refunded, or when Stripe has the payment: then Stripe gives it back.
    """
    check_printable_name("reference", reference, REFERENCE_LENGTH_MAX)
    with locked(queries.receivable_of(invoice).public_id) as row:
        if row.payments.filter(kind=Kind.REFUND, source=Source.BANK, reference=reference).exists():
            return row
        if row.overpaid_micro == 0:
            raise InvalidRequest(
                f"{invoice.public_id}: nothing is to be refunded; a credit note must lower it first"
            )
        # What Stripe could not give back is given back by bank, too.
        by_bank = queries.kept_outside_micro(row) + queries.failed_refunds_micro(row)
        if by_bank < row.overpaid_micro:
            raise InvalidRequest(
                f"{invoice.public_id}: {row.overpaid_micro} is to be refunded and {by_bank} was paid by bank; "
                "Stripe refunds what was paid there"
            )
        note_money(
            actor,
            row,
            Kind.REFUND,
            Source.BANK,
            reference=reference,
            amount_micro=row.overpaid_micro,
            at=timezone.now(),
        )
        tell_stripe(row)
        return row


def give_up(actor: Actor, invoice: Invoice, *, reason: str) -> Receivable:
    """It is not asked for any more. Its amount stays what it is. Doing it again changes nothing."""
    check_printable_name("reason", reason, TEXT_LENGTH_MAX)
    with locked(queries.receivable_of(invoice).public_id) as row:
        if row.state == State.UNCOLLECTIBLE:
            return row
        if row.open_micro == 0:
            raise InvalidRequest(f"{invoice.public_id}: it is {row.state}, and nothing of it is open")
        move(actor, row, State.UNCOLLECTIBLE, timezone.now(), reason=reason)
        tell_stripe(row)
        return row


def void(actor: Actor, invoice: Invoice, *, reason: str) -> Receivable:
    """Take the invoice back: nothing of it is asked for, now or later. Its number and its document stay, what it used
    of prepaid credit stays used, and later credit notes of it change nothing. Doing it again changes nothing.

    Raises `InvalidRequest` when something was paid: a credit note gives back what was paid.
    """
    check_printable_name("reason", reason, TEXT_LENGTH_MAX)
    receivable = queries.receivable_of(invoice).public_id
    follow_credits(receivable)
    with locked(receivable) as row:
        if row.state == State.VOID:
            return row
        if row.state == State.PAID or row.paid_micro > row.refunded_micro:
            kept = row.paid_micro - row.refunded_micro
            raise InvalidRequest(
                f"{invoice.public_id}: it is {row.state}{f', and {kept} of it is paid' if kept else ''}; "
                "only an unpaid invoice becomes void, and a credit note gives back what was paid"
            )
        before, row.voided_micro = row.voided_micro, row.asked_micro
        row.waits = False
        row.save(update_fields=["voided_micro", "waits"])
        move(actor, row, State.VOID, timezone.now(), reason=reason, voided_micro=row.voided_micro - before)
        tell_stripe(row)
        return row


def try_again(actor: Actor, invoice: Invoice) -> Receivable:
    """Compare with Stripe at once, and charge the payment method once more; where payment through Stripe is off, once
    it is on. If someone has changed its invoice at Stripe, that one is taken away there and another one is made.
    """
    with locked(queries.receivable_of(invoice).public_id) as row:
        if row.state in OWED and row.charged >= row.charge:
            row.charge += 1
            row.save(update_fields=["charge"])
        if row.state in OWED and row.changed_there:
            row.asked_again = True
            row.save(update_fields=["asked_again"])
        tell_stripe(row)
        audit.record(
            actor,
            tenant=row.tenant.public_id,
            action="receivable.retry",
            object_id=row.public_id,
            before={"problem": row.problem},
            after={"invoice": row.invoice.public_id},
        )
        return row
