"""Stripe's API as payments need it. It, `stripe_tax_calls` and `stripe_faults` alone know the library `stripe`.

Amounts are minor units of the currency, as Stripe counts. Every call that changes something has an idempotency key. A
call that got no answer raises `OutcomeUnknown`; what became of it is asked for before it is repeated.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import stripe

from control_plane import config
from payments.stripe_faults import translated
from payments.stripe_shapes import CreditNotes, Event, Item, Method, Money, Refused, StripeInvoice
from payments.stripe_tax_calls import TaxCalls
from penstock.contract.errors import ConfigurationError, Forbidden, InvalidRequest
from penstock.rules.addresses import is_loopback

RECEIVABLE = "penstock_receivable"
LINE = "penstock_line"
CREDIT_NOTE = "penstock_credit_note"
TENANT = "penstock_tenant"
"""Names in Stripe's metadata, by which an object of ours is found there."""
TIMEOUT_S = 6.0
"""Of one call. A delivery ends at its first call without an answer, so within its lease."""
PAGE = 100
TAKEN = ("needs_response", "under_review", "won", "lost")
"""Statuses of disputes in which the money was taken from our account."""
SIGNATURE_TOLERANCE_S = 300


class Gateway:
    """Stripe with one account's key, at the address of its API."""

    def __init__(self, key: str, http_client: stripe.HTTPClient, api_base: str) -> None:
        self._api = stripe.StripeClient(
            key, http_client=http_client, max_network_retries=0, base_addresses={"api": api_base}
        ).v1
        self.tax = TaxCalls(self._api.tax)

    def find_customer(self, tenant: str) -> str | None:
        """The customer that was made for the tenant. One that is younger than a minute may not be found yet."""
        with translated():
            found = self._api.customers.search({"query": f"metadata['{TENANT}']:'{tenant}'", "limit": 1}).data
        return found[0].id if found else None

    def create_customer(self, tenant: str, name: str, key: str) -> str:
        """Within a day the same customer for the same key."""
        with translated():
            made = self._api.customers.create(
                {"name": name, "metadata": {TENANT: tenant}}, {"idempotency_key": key}
            )
        return made.id

    def has_customer(self, customer: str) -> bool:
        """False: it was deleted. Raises `Refused` where the account never had it."""
        with translated():
            try:
                return not _plain(self._api.customers.retrieve(customer)).get("deleted")
            except stripe.InvalidRequestError as error:
                if error.code != "resource_missing":
                    raise
        raise Refused(
            f"{customer} is not a customer of this Stripe account: put the key of the account that made it into the "
            "file of payments.stripe_key_file, or note payments by bank"
        )

    def method(self, customer: str) -> Method | None:
        """The customer's default payment method, else its newest; None: it has none."""
        with translated():
            settings = _plain(self._api.customers.retrieve(customer)).get("invoice_settings") or {}
            default = _id(settings.get("default_payment_method"))
            methods = self._api.customers.payment_methods.list(customer, {"limit": PAGE}).data
        chosen = next((one for one in methods if one.id == default), methods[0] if methods else None)
        return None if chosen is None else Method(id=chosen.id, label=_label(chosen))

    def setup_link(self, customer: str, currency: str, back: str) -> str:
        """Stripe's page on which the customer names a payment method. It ends after a day."""
        with translated():
            made = self._api.checkout.sessions.create(
                {
                    "mode": "setup",
                    "customer": customer,
                    "currency": currency.lower(),
                    "success_url": back,
                    "cancel_url": back,
                }
            )
        return str(made.url)

    def portal_link(self, customer: str, back: str) -> str:
        """Stripe's page on which the customer changes its payment methods. It ends after minutes."""
        with translated():
            return self._api.billing_portal.sessions.create({"customer": customer, "return_url": back}).url

    def find_invoice(self, customer: str, receivable: str) -> StripeInvoice | None:
        """The customer's invoice for the receivable, unless it is void. Stripe's lists have everything that was
        made.
        """
        with translated():
            for one in self._api.invoices.list({"customer": customer, "limit": PAGE}).auto_paging_iter():
                if _metadata(one).get(RECEIVABLE) == receivable and one.status != "void":
                    return _invoice(one)
        return None

    def invoice(self, invoice: str) -> StripeInvoice:
        """Raises `InvalidRequest` if there is none."""
        with translated():
            return _invoice(self._api.invoices.retrieve(invoice))

    def known_invoice(self, invoice: str) -> StripeInvoice | None:
        """None: there is none, since a draft was deleted."""
        with translated():
            try:
                return _invoice(self._api.invoices.retrieve(invoice))
            except stripe.InvalidRequestError as error:
                if error.code == "resource_missing":
                    return None
                raise

    def invoices(
        self, *, status: str = "", since_s: int = 0, after: str = ""
    ) -> tuple[list[StripeInvoice], str]:
        """A page of the account's that are of ours, newest first, and after what the next page begins; empty: it is the
        last one. Of a status, or made since a time.
        """
        with translated():
            page = self._api.invoices.list(
                {
                    "limit": PAGE,
                    **({"status": status} if status else {}),
                    **({"created": {"gte": since_s}} if since_s else {}),
                    **({"starting_after": after} if after else {}),
                }
            )
            found = [_invoice(one) for one in page.data if RECEIVABLE in _metadata(one)]
            return found, page.data[-1].id if page.has_more else ""

    def create_invoice(
        self, customer: str, receivable: str, currency: str, title: str, key: str
    ) -> StripeInvoice:
        """An empty draft, which Stripe does not advance by itself."""
        with translated():
            made = self._api.invoices.create(
                {
                    "customer": customer,
                    "currency": currency.lower(),
                    "auto_advance": False,
                    "collection_method": "charge_automatically",
                    "pending_invoice_items_behavior": "exclude",
                    "description": title,
                    "metadata": {RECEIVABLE: receivable},
                },
                {"idempotency_key": key},
            )
        return _invoice(made)

    def items(self, invoice: str) -> list[Item]:
        """Everything on the invoice."""
        with translated():
            listed = self._api.invoice_items.list({"invoice": invoice, "limit": PAGE})
            return [
                Item(id=one.id, line=_metadata(one).get(LINE, ""), amount=one.amount)
                for one in listed.auto_paging_iter()
            ]

    def add_item(
        self, customer: str, invoice: str, line: str, *, amount: int, currency: str, title: str, key: str
    ) -> None:
        """Add a finished line to a draft."""
        with translated():
            self._api.invoice_items.create(
                {
                    "customer": customer,
                    "invoice": invoice,
                    "amount": amount,
                    "currency": currency.lower(),
                    "description": title,
                    "metadata": {LINE: line},
                },
                {"idempotency_key": key},
            )

    def discard(self, invoice: str, key: str) -> None:
        """Delete a draft."""
        with translated():
            self._api.invoices.delete(invoice, options={"idempotency_key": key})

    def finalize(self, invoice: str, key: str) -> StripeInvoice:
        with translated():
            made = self._api.invoices.finalize_invoice(
                invoice, {"auto_advance": False}, {"idempotency_key": key}
            )
        return _invoice(made)

    def pay(self, invoice: str, method: str, key: str) -> StripeInvoice:
        """Charge the payment method. Raises `Declined`."""
        with translated():
            made = self._api.invoices.pay(
                invoice, {"payment_method": method, "off_session": True}, {"idempotency_key": key}
            )
        return _invoice(made)

    def paid_elsewhere(self, invoice: str, key: str) -> StripeInvoice:
        """It was paid without Stripe."""
        with translated():
            return _invoice(
                self._api.invoices.pay(invoice, {"paid_out_of_band": True}, {"idempotency_key": key})
            )

    def void(self, invoice: str, key: str) -> StripeInvoice:
        with translated():
            return _invoice(self._api.invoices.void_invoice(invoice, options={"idempotency_key": key}))

    def give_up(self, invoice: str, key: str) -> StripeInvoice:
        """Mark it as uncollectible."""
        with translated():
            return _invoice(self._api.invoices.mark_uncollectible(invoice, options={"idempotency_key": key}))

    def credit_notes(self, invoice: str) -> CreditNotes:
        """The credit notes of an invoice, made after it was finalized."""
        ours: dict[str, int] = {}
        by_hand = 0
        with translated():
            listed = self._api.credit_notes.list({"invoice": invoice, "limit": PAGE})
            for note in listed.auto_paging_iter():
                if note.status != "issued":
                    continue
                mark = _metadata(note).get(CREDIT_NOTE)
                if mark is None:
                    by_hand += note.amount
                else:
                    ours[mark] = note.amount
        return CreditNotes(ours=ours, by_hand=by_hand)

    def voided_notes(self, invoice: str, note: str) -> int:
        """How many credit notes for ours were made there and taken back since."""
        with translated():
            listed = self._api.credit_notes.list({"invoice": invoice, "limit": PAGE})
            return sum(
                one.status == "void" and _metadata(one).get(CREDIT_NOTE) == note
                for one in listed.auto_paging_iter()
            )

    def credit(
        self, invoice: str, note: str, *, amount: int, refunded: int, elsewhere: int, key: str
    ) -> None:
        """Lower a finalized invoice by `amount`. Of a paid one `refunded` goes back to the payment method, and
        `elsewhere` is given back without Stripe."""
        split: dict[str, Any] = {}
        if refunded:
            split["refund_amount"] = refunded
        if elsewhere:
            split["out_of_band_amount"] = elsewhere
        with translated():
            self._api.credit_notes.create(
                {"invoice": invoice, "amount": amount, "metadata": {CREDIT_NOTE: note}, **split},  # type: ignore[typeddict-item]
                {"idempotency_key": key},
            )

    def payments(self, invoice: str) -> list[Money]:
        """What was paid through Stripe for the invoice."""
        with translated():
            listed = self._api.invoice_payments.list({"invoice": invoice, "status": "paid", "limit": PAGE})
            return [
                Money(
                    id=_id(_plain(one.payment).get("payment_intent")),
                    amount=one.amount_paid or 0,
                    at_s=one.status_transitions.paid_at or one.created,
                )
                for one in listed.auto_paging_iter()
                if one.payment.type == "payment_intent"
            ]

    def refunds(self, payment: str) -> list[Money]:
        """What was given back of a payment, by credit notes or by hand, also what did not arrive."""
        with translated():
            listed = self._api.refunds.list({"payment_intent": payment, "limit": PAGE})
            return [_refund(one) for one in listed.auto_paging_iter()]

    def disputes(self, payment: str) -> list[Money]:
        """What the payer's bank took back of a payment, also what was returned since. An inquiry takes nothing."""
        with translated():
            listed = self._api.disputes.list({"payment_intent": payment, "limit": PAGE})
            return [_dispute(one) for one in listed.auto_paging_iter() if one.status in TAKEN]

    def given_back(self, kind: str, since_s: int, after: str = "") -> tuple[list[Money], str]:
        """A page of the account's `refunds` or `disputes` since a time, and after what the next page begins."""
        params: Any = {
            "created": {"gte": since_s},
            "limit": PAGE,
            **({"starting_after": after} if after else {}),
        }
        with translated():
            if kind == "refunds":
                refunds = self._api.refunds.list(params)
                return [_refund(one) for one in refunds.data], refunds.data[-1].id if refunds.has_more else ""
            disputes = self._api.disputes.list(params)
            found = [_dispute(one) for one in disputes.data if one.status in TAKEN]
            return found, disputes.data[-1].id if disputes.has_more else ""


def read_event(body: bytes, signature: str, secret: str) -> Event:
    """The event of a webhook call. Raises `Forbidden` when the signature is not right or too old, and
    `InvalidRequest` when the body is no event."""
    try:
        stripe.WebhookSignature.verify_header(body, signature, secret, SIGNATURE_TOLERANCE_S)
        event = stripe.Webhook.construct_event_without_verification(body)
        thing = _plain(event)["data"]["object"]
        kind = str(thing.get("object", ""))
        found = Event(
            id=str(event["id"])[:255],
            type=str(event["type"])[:120],
            customer=(str(thing["id"]) if kind == "customer" else _id(thing.get("customer")))[:255],
            object_id=str(thing.get("id") or "")[:255],
            invoice=(str(thing["id"]) if kind == "invoice" else _id(thing.get("invoice")))[:255],
            payment=_id(thing.get("payment_intent"))[:255],
        )
    except stripe.SignatureVerificationError:
        raise Forbidden(
            "Stripe-Signature: no signature of this body by the configured secret, or too old"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidRequest("body: an event of Stripe required") from None
    return found


def configured() -> Gateway | None:
    """Stripe by the configuration; None: payment through Stripe is off. Raises `ConfigurationError`."""
    settings = config.current().payments
    if settings.stripe_key_file is None:
        return None
    return _gateway(secret_of("payments.stripe_key_file", settings.stripe_key_file), settings.stripe_api_base)


def webhook_secret() -> str | None:
    """What Stripe signs webhooks with; None: it is not configured. Raises `ConfigurationError`."""
    file = config.current().payments.stripe_webhook_secret_file
    return None if file is None else secret_of("payments.stripe_webhook_secret_file", file)


def secret_of(setting: str, file: Path) -> str:
    """The secret in the file, which is read each time: another one is taken up without a restart."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{setting}: {file} cannot be read: {type(error).__name__}") from None
    if not text or not text.isascii() or not text.isprintable():
        raise ConfigurationError(f"{setting}: {file} has no secret of printable ASCII in it")
    return text


def http_client() -> stripe.HTTPClient:
    """What calls go through."""
    return stripe.RequestsClient(timeout=TIMEOUT_S)


@cache
def _gateway(key: str, api_base: str) -> Gateway:
    return Gateway(key, http_client(), api_base)


def _id(value: Any) -> str:
    """The id of what Stripe gives as an id or as the whole object."""
    if value is None:
        return ""
    return value if isinstance(value, str) else str(value["id"])


def _metadata(thing: stripe.StripeObject) -> Mapping[str, str]:
    found = _plain(thing).get("metadata") or {}
    return {str(name): str(value) for name, value in found.items()}


def _plain(thing: stripe.StripeObject) -> dict[str, Any]:
    """All of it, as the JSON was: members that an answer lacks are absent, as the library's types do not say."""
    return dict(thing.to_dict())


def _invoice(one: stripe.Invoice) -> StripeInvoice:
    # It becomes a link of the console. Without TLS it leads to a stand-in on this machine alone.
    url = str(_plain(one).get("hosted_invoice_url") or "")
    is_fit = url.startswith("https://") or (
        url.startswith("http://") and is_loopback(urlsplit(url).hostname or "")
    )
    return StripeInvoice(
        id=str(one.id),
        customer=_id(_plain(one).get("customer")),
        receivable=_metadata(one).get(RECEIVABLE, ""),
        status=str(one.status),
        currency=one.currency.upper(),
        total=one.total,
        amount_due=one.amount_due,
        starting_balance=int(_plain(one).get("starting_balance") or 0),
        ending_balance=_plain(one).get("ending_balance"),
        amount_paid=one.amount_paid,
        amount_remaining=one.amount_remaining,
        credited=one.pre_payment_credit_notes_amount + one.post_payment_credit_notes_amount,
        credited_unpaid=one.pre_payment_credit_notes_amount,
        paid_at_s=int((_plain(one).get("status_transitions") or {}).get("paid_at") or 0),
        url=url if is_fit else "",
    )


def _refund(one: stripe.Refund) -> Money:
    return Money(
        id=one.id,
        amount=one.amount,
        at_s=one.created,
        payment=_id(_plain(one).get("payment_intent")),
        returned=one.status in ("failed", "canceled"),
    )


def _dispute(one: stripe.Dispute) -> Money:
    return Money(
        id=one.id,
        amount=one.amount,
        at_s=one.created,
        payment=_id(_plain(one).get("payment_intent")),
        returned=one.status == "won",
    )


def _label(method: stripe.PaymentMethod) -> str:
    detail = _plain(method).get(method.type) or {}
    brand = detail.get("brand") or detail.get("bank_name") or method.type.replace("_", " ")
    last4 = detail.get("last4")
    return (f"{brand} ending in {last4}" if last4 else str(brand))[:200]
