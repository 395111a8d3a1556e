"""Stripe's objects as payments know them, and how its refusals are distinguished. Amounts are minor units, as it
counts.
"""

from dataclasses import dataclass

from penstock.contract.errors import BrokerUnavailable, InvalidRequest


class Refused(InvalidRequest):
    """Stripe refuses the call for good: it is the same the next time. The message says why, and what to do."""


class KeyRefused(BrokerUnavailable):
    """Stripe refuses the key, or what the key may do: every call, until another key is configured."""


class AnsweredFault(Exception):
    """Stripe answered with a fault, and gives the same answer to this idempotency key again for a day."""


class Declined(Exception):
    """The payment method was refused. The text is for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditNotes:
    """The credit notes of an invoice that are in force."""

    ours: dict[str, int]
    """Amounts by our credit note's id."""
    by_hand: int
    """The sum of those that have no mark of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How a customer pays."""

    id: str
    label: str
    """As `visa ending in 4242`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    id: str
    line: str
    """Id of our line or credit note; empty: it is not of ours."""
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeInvoice:
    id: str
    customer: str
    receivable: str
    """Id of our receivable; empty: it is not of ours."""
    status: str
    """draft, open, paid, uncollectible or void."""
    currency: str
    total: int
    amount_due: int
    """What Stripe asks for; it is 0 where it is less than Stripe charges."""
    starting_balance: int
    """What its customer owed at Stripe beside it, before it was finalized. Negative: has in credit."""
    ending_balance: int | None
    """The same after it was finalized; None: it is not."""
    amount_paid: int
    amount_remaining: int
    credited: int
    """By credit notes after it was finalized."""
    credited_unpaid: int
    """The part of it that lowered the invoice before it was paid."""
    paid_at_s: int
    """When it became paid; 0: it is not."""
    url: str

    @property
    def moved(self) -> int:
        """What finalizing it moved to its customer's balance, to be asked for with the next one; negative: from it."""
        return 0 if self.ending_balance is None else self.ending_balance - self.starting_balance


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """A payment, a refund or a dispute."""

    id: str
    amount: int
    at_s: int
    payment: str = ""
    """Of a refund or a dispute: the id of the payment."""
    returned: bool = False
    """Of a refund: it failed. Of a dispute: it was won."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A webhook's event, as far as it is kept: what it says is asked for again."""

    id: str
    type: str
    customer: str
    object_id: str
    invoice: str
    payment: str
