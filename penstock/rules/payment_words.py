"""What people read of the state of an invoice's payment: in the console, on paper, in e-mails and in a terminal."""

from collections.abc import Mapping

PAYMENT_WORDS: Mapping[str, str] = {
    "open": "open",
    "past_due": "past due",
    "paid": "paid",
    "uncollectible": "given up",
    "void": "void",
}
