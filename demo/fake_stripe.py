"""A stand-in for Stripe in memory, behind the library's `HTTPClient` or over HTTP (`demo.stripe_server`): customers,
methods, items, invoices, credit notes, refunds, payments, sessions, Stripe Tax, and idempotency keys as Stripe treats
them.

Faults are taken from `faults`, one a call that changes something: `timeout` (nothing was done), `timeout after commit`,
`conflict` (409), `rate` (429), `fault` (500, kept under the idempotency key), `fault after commit`.

Less than `LEAST` is not charged: such an invoice is paid when it is finalized, and its customer owes it beside the next
one, as a positive balance.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import stripe

from demo import fake_stripe_tax

Object = dict[str, Any]
FAULTS = ("timeout", "timeout after commit", "conflict", "rate", "fault", "fault after commit")
LEAST = 50
_WITHOUT_TIME = ("tax.calculation", "tax.calculation_line_item", "tax.transaction_line_item")


class _Refused(Exception):
    def __init__(self, status: int, kind: str, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code


@dataclass(slots=True)
class FakeStripe:
    """One account. `http_client` is what the library calls it through."""

    objects: dict[str, Object] = field(default_factory=dict)
    """By id, in the order of their making."""
    faults: list[str] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    keys: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    declines: bool = False
    """Whether payment methods are declined."""
    refuses: str = ""
    """Calls whose path has this in it are refused with 400, which is kept under the idempotency key; `key`: each call
    with 401.
    """
    number: int = 0
    checkout_url: str = "https://checkout.stripe.example/c"
    """Where customers name a payment method; `{session}` in it becomes the session's id."""
    portal_url: str = "https://billing.stripe.example/p"
    """Where customers change their payment methods; `{session}` as above."""
    invoice_url: str = "https://invoice.stripe.example/{invoice}"
    """Where an invoice is paid."""

    @property
    def http_client(self) -> stripe.HTTPClient:
        return _Client(self)

    def all(self, kind: str) -> list[Object]:
        """What was made of a kind, oldest first."""
        return [one for one in self.objects.values() if one["object"] == kind]

    def give_method(self, customer: str, last4: str = "4242") -> Object:
        """The customer has named a card on Stripe's page."""
        made = self.make(
            "pm", "payment_method", customer=customer, type="card", card={"brand": "visa", "last4": last4}
        )
        self.objects[customer]["invoice_settings"]["default_payment_method"] = made["id"]
        return made

    def take_method(self, method: str) -> None:
        """The customer has removed a card on Stripe's page."""
        customer = self.objects[self.objects.pop(method)["customer"]]
        if customer["invoice_settings"]["default_payment_method"] == method:
            customer["invoice_settings"]["default_payment_method"] = None

    def pay_on_page(self, invoice: str) -> None:
        """The customer paid on the page of the invoice."""
        self._charge(self.objects[invoice], self.objects[invoice]["amount_remaining"])

    def delete_customer(self, customer: str) -> None:
        """Someone has deleted the customer on Stripe's own pages. Stripe still answers its id."""
        for method in [one["id"] for one in self.all("payment_method") if one["customer"] == customer]:
            del self.objects[method]
        self.objects[customer] = {"id": customer, "object": "customer", "deleted": True, "metadata": {}}

    def change_by_hand(self, what: str, invoice: str, **members: Any) -> Object:
        """Someone has done this to an invoice on Stripe's own pages: `finalize`, `void`, `mark_uncollectible`, `pay`
        (out of band), `delete` or `credit_notes`.
        """
        if what == "credit_notes":
            return self._do("post", ["credit_notes"], {"invoice": invoice, **members})
        if what == "delete":
            return self._do("delete", ["invoices", invoice], {})
        return self._do(
            "post", ["invoices", invoice, what], {"paid_out_of_band": "true"} if what == "pay" else {}
        )

    def void_note(self, note: str) -> None:
        """Someone has taken back a credit note of an invoice that is open."""
        row = self.objects[note]
        row["status"] = "void"
        invoice = self._in(row["invoice"], "open")
        invoice["pre_payment_credit_notes_amount"] -= row["amount"]
        invoice["amount_remaining"] += row["amount"]
        invoice["amount_due"] += row["amount"]

    def refund_by_hand(self, invoice: str, amount: int) -> Object:
        """Someone has given back a part of what was paid, on Stripe's own pages, without a credit note."""
        return self.make(
            "re", "refund", payment_intent=self._intent_of(invoice), amount=amount, status="succeeded"
        )

    def dispute(self, invoice: str) -> Object:
        """The payer's bank has taken back what was left of the payment."""
        (paid,) = [one for one in self.all("invoice_payment") if one["invoice"] == invoice]
        intent = self._intent_of(invoice)
        back = sum(
            one["amount"]
            for one in self.all("refund")
            if one["payment_intent"] == intent and one["status"] != "failed"
        )
        return self.make(
            "dp",
            "dispute",
            payment_intent=intent,
            amount=paid["amount_paid"] - back,
            status="needs_response",
        )

    def _intent_of(self, invoice: str) -> str:
        (paid,) = [one for one in self.all("invoice_payment") if one["invoice"] == invoice]
        return str(paid["payment"]["payment_intent"])

    def charged(self, invoice: str) -> int:
        """What was charged for the invoice."""
        return sum(one["amount_paid"] for one in self.all("invoice_payment") if one["invoice"] == invoice)

    def collected_cents(self) -> int:
        """What was charged, less what was given back."""
        charged = sum(int(one["amount_paid"]) for one in self.all("invoice_payment"))
        back = sum(int(one["amount"]) for one in self.all("refund") if one["status"] != "failed")
        return charged - back

    def answer(self, method: str, url: str, headers: Mapping[str, str], body: str) -> tuple[str, int]:
        """The call's answer and status. Raises as the network does."""
        parts = urlsplit(url)
        params = _form(body if method == "post" else parts.query)
        self.calls.append((method, parts.path))
        if self.refuses == "key":
            return _error(401, "invalid_request_error", "Invalid API Key provided: sk_test_****fake")
        refused = bool(self.refuses and self.refuses in parts.path)
        if method == "get":
            return _CANNOT if refused else self._did(method, parts.path, params)
        key = headers.get("Idempotency-Key", "")
        digest = f"{method} {parts.path} {sorted(params.items())!r}"
        if key in self.keys:
            before, status, text = self.keys[key]
            if before != digest:
                return _error(400, "idempotency_error", "Keys for idempotent requests can only be used once")
            return text, status
        if refused:
            self.keys[key] = (digest, _CANNOT[1], _CANNOT[0])
            return _CANNOT
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "timeout":
            raise stripe.APIConnectionError("timed out")  # type: ignore[no-untyped-call]
        if fault in ("conflict", "rate"):
            status = 409 if fault == "conflict" else 429
            return _error(status, "invalid_request_error" if status == 409 else "rate_limit_error", fault)
        if fault == "fault":
            text, status = _error(500, "api_error", "something went wrong")
        else:
            text, status = self._did(method, parts.path, params)
        if fault == "fault after commit":
            text, status = _error(500, "api_error", "something went wrong")
        if key:
            self.keys[key] = (digest, status, text)
        if fault == "timeout after commit":
            raise stripe.APIConnectionError("timed out")  # type: ignore[no-untyped-call]
        return text, status

    def _did(self, method: str, path: str, params: dict[str, Any]) -> tuple[str, int]:
        try:
            return json.dumps(self._do(method, path.removeprefix("/v1/").split("/"), params)), 200
        except _Refused as refused:
            return _error(refused.status, refused.kind, str(refused), refused.code)

    def _do(self, method: str, path: list[str], params: dict[str, Any]) -> Object:
        match (method, *path):
            case ("post", "customers"):
                return self.make(
                    "cus", "customer", invoice_settings={"default_payment_method": None}, balance=0, **params
                )
            case ("get", "customers", "search"):
                wanted = params["query"].split("'")[3]
                return _list(
                    [one for one in self.all("customer") if wanted in one["metadata"].values()],
                    "search_result",
                )
            case ("get", "customers", customer):
                return self._get(customer)
            case ("get", "customers", customer, "payment_methods"):
                self._customer(customer)
                return _list([one for one in self.all("payment_method") if one["customer"] == customer])
            case ("post", "checkout", "sessions"):
                made = self.make("cs", "checkout.session", **params)
                made["url"] = self.checkout_url.format(session=made["id"])
                return made
            case ("post", "billing_portal", "sessions"):
                made = self.make("bps", "billing_portal.session", **params)
                made["url"] = self.portal_url.format(session=made["id"])
                return made
            case ("post", "invoices"):
                return self._new_invoice(params)
            case ("get", "invoices"):
                return self._page(
                    "invoice",
                    params,
                    lambda one: (
                        params.get("customer", one["customer"]) == one["customer"]
                        and params.get("status", one["status"]) == one["status"]
                    ),
                )
            case ("get", "invoices", invoice):
                return self._get(invoice)
            case ("delete", "invoices", invoice):
                self._in(invoice, "draft")
                for item in [one for one in self.all("invoiceitem") if one["invoice"] == invoice]:
                    del self.objects[item["id"]]
                del self.objects[invoice]
                return {"id": invoice, "object": "invoice", "deleted": True}
            case ("post", "invoiceitems"):
                self._in(params["invoice"], "draft")
                params["amount"] = int(params["amount"])
                made = self.make("ii", "invoiceitem", **params)
                self._sum(self.objects[params["invoice"]])
                return made
            case ("get", "invoiceitems"):
                return self._page("invoiceitem", params, lambda one: one["invoice"] == params["invoice"])
            case ("post", "invoices", invoice, "finalize"):
                row = self._in(invoice, "draft")
                self._customer(row["customer"])
                self._sum(row)
                due = row["total"] + row["starting_balance"]
                row["ending_balance"] = self.objects[row["customer"]]["balance"] = 0 if due >= LEAST else due
                row["status"] = "open" if row["amount_due"] > 0 else "paid"
                row["hosted_invoice_url"] = self.invoice_url.format(invoice=invoice)
                return row
            case ("post", "invoices", invoice, "pay"):
                return self._pay(invoice, params)
            case ("post", "invoices", invoice, "void"):
                row = self._in(invoice, "open", "uncollectible")
                row.update(status="void", amount_remaining=0)
                return row
            case ("post", "invoices", invoice, "mark_uncollectible"):
                row = self._in(invoice, "open")
                row["status"] = "uncollectible"
                return row
            case ("post", "credit_notes"):
                return self._credit(params)
            case ("get", "credit_notes"):
                return self._page("credit_note", params, lambda one: one["invoice"] == params["invoice"])
            case ("post", "tax", "calculations"):
                return fake_stripe_tax.calculate(self, params)
            case ("get", "tax", "calculations", calculation, "line_items"):
                return self._page(
                    "tax.calculation_line_item", params, lambda one: one["calculation"] == calculation
                )
            case ("post", "tax", "transactions", "create_from_calculation"):
                return fake_stripe_tax.report(self, params)
            case ("post", "tax", "transactions", "create_reversal"):
                return fake_stripe_tax.reverse(self, params)
            case ("get", "tax", "transactions", found, "line_items"):
                return self._page(
                    "tax.transaction_line_item", params, lambda one: one["transaction"] == found
                )
            case ("get", "invoice_payments"):
                return self._page("invoice_payment", params, lambda one: one["invoice"] == params["invoice"])
            case ("get", "refunds"):
                return self._page(
                    "refund",
                    params,
                    lambda one: params.get("payment_intent", one["payment_intent"]) == one["payment_intent"],
                )
            case ("get", "disputes"):
                return self._page(
                    "dispute",
                    params,
                    lambda one: params.get("payment_intent", one["payment_intent"]) == one["payment_intent"],
                )
            case _:
                raise _Refused(404, "invalid_request_error", f"Unrecognized request URL ({method} {path})")

    def refuse(self, message: str, code: str = "") -> Exception:
        return _Refused(400, "invalid_request_error", message, code)

    def make(self, prefix: str, kind: str, **members: Any) -> Object:
        self.number += 1
        made = {
            "id": f"{prefix}_{self.number}",
            "object": kind,
            **(
                {}
                if kind in _WITHOUT_TIME
                else {"date" if kind == "invoiceitem" else "created": int(time.time())}
            ),
            "livemode": False,
            "metadata": {},
            **members,
        }
        self.objects[made["id"]] = made
        return made

    def _get(self, object_id: str) -> Object:
        if object_id not in self.objects:
            raise _Refused(404, "invalid_request_error", f"No such object: {object_id}", "resource_missing")
        return self.objects[object_id]

    def _customer(self, customer: str) -> Object:
        """Raises for one that was deleted, as Stripe refuses what is to be made of it."""
        row = self._get(customer)
        if row.get("deleted"):
            raise _Refused(
                400, "invalid_request_error", f"No such customer: '{customer}'", "resource_missing"
            )
        return row

    def _in(self, invoice: str, *statuses: str) -> Object:
        row = self._get(invoice)
        if row["status"] not in statuses:
            raise _Refused(
                400, "invalid_request_error", f"{invoice} is {row['status']}", "invoice_not_editable"
            )
        return row

    def _page(self, kind: str, params: dict[str, Any], wanted: Callable[[Object], bool]) -> Object:
        since_s = int(params.get("created", {}).get("gte", 0))
        rows = [
            one for one in reversed(self.all(kind)) if wanted(one) and one.get("created", since_s) >= since_s
        ]
        after = params.get("starting_after")
        if after is not None:
            rows = rows[[one["id"] for one in rows].index(after) + 1 :]
        limit = int(params.get("limit", 10))
        return {**_list(rows[:limit]), "has_more": len(rows) > limit}

    def _new_invoice(self, params: dict[str, Any]) -> Object:
        self._customer(params["customer"])
        return self.make(
            "in",
            "invoice",
            status="draft",
            total=0,
            amount_due=0,
            starting_balance=0,
            ending_balance=None,
            amount_paid=0,
            amount_remaining=0,
            pre_payment_credit_notes_amount=0,
            post_payment_credit_notes_amount=0,
            hosted_invoice_url=None,
            **params,
        )

    def _sum(self, invoice: Object) -> None:
        items = [one["amount"] for one in self.all("invoiceitem") if one["invoice"] == invoice["id"]]
        invoice["starting_balance"] = self.objects.get(invoice["customer"], {}).get("balance", 0)
        invoice["total"] = sum(items)
        due = invoice["total"] + invoice["starting_balance"]
        invoice["amount_due"] = invoice["amount_remaining"] = due if due >= LEAST else 0

    def _pay(self, invoice: str, params: dict[str, Any]) -> Object:
        row = self._in(invoice, "open", "uncollectible")
        if params.get("paid_out_of_band") != "true":
            self._customer(row["customer"])
        else:
            row.update(status="paid", amount_remaining=0)
            return row
        if row["amount_remaining"] < LEAST:
            raise _Refused(
                400, "invalid_request_error", "Amount must be at least $0.50 usd", "amount_too_small"
            )
        if self.declines:
            raise _Refused(402, "card_error", "Your card was declined.", "card_declined")
        self._get(params["payment_method"])
        self._charge(row, row["amount_remaining"])
        return row

    def _charge(self, row: Object, amount: int) -> None:
        intent = self.make("pi", "payment_intent", amount=amount)
        self.make(
            "inpay",
            "invoice_payment",
            invoice=row["id"],
            status="paid",
            amount_paid=amount,
            amount_requested=amount,
            payment={"type": "payment_intent", "payment_intent": intent["id"]},
            status_transitions={"paid_at": int(time.time()), "canceled_at": None},
        )
        row.update(status="paid", amount_paid=amount, amount_remaining=0)

    def _credit(self, params: dict[str, Any]) -> Object:
        row = self._in(params["invoice"], "open", "paid", "uncollectible")
        amount = int(params["amount"])
        if row["status"] == "paid":
            refund = int(params.get("refund_amount", 0))
            if refund + int(params.get("out_of_band_amount", 0)) != amount:
                raise _Refused(
                    400, "invalid_request_error", "The sum of refund and out of band must be the amount"
                )
            row["post_payment_credit_notes_amount"] += amount
            if refund:
                (paid,) = [one for one in self.all("invoice_payment") if one["invoice"] == row["id"]]
                intent = paid["payment"]["payment_intent"]
                self.make("re", "refund", payment_intent=intent, amount=refund, status="succeeded")
        else:
            row["pre_payment_credit_notes_amount"] += amount
            row["amount_remaining"] -= amount
            row["amount_due"] -= amount
            if row["amount_remaining"] == 0:
                row["status"] = "paid"
        return self.make("cn", "credit_note", status="issued", **{**params, "amount": amount})


class _Client(stripe.HTTPClient):
    name = "fake"

    def __init__(self, fake: FakeStripe) -> None:
        super().__init__()
        self._fake = fake

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None, post_data: Any = None, **_: Any
    ) -> tuple[str, int, Mapping[str, str]]:
        text, status = self._fake.answer(method.lower(), url, headers or {}, post_data or "")
        return text, status, {"Request-Id": "req_1"}

    def close(self) -> None:
        pass


def _form(text: str) -> dict[str, Any]:
    """Members with their nesting, as `metadata[name]` and `line_items[0][amount]`."""
    found: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        outer, *inner = name.replace("]", "").split("[")
        at, last = found, outer
        for step in inner:
            at, last = at.setdefault(last, {}), step
        at[last] = value
    return {name: _as_list(value) for name, value in found.items()}


def _as_list(value: Any) -> Any:
    """Members that are numbered from 0 are a list."""
    if not isinstance(value, dict):
        return value
    members = {name: _as_list(one) for name, one in value.items()}
    numbered = bool(members) and list(members) == [str(at) for at in range(len(members))]
    return list(members.values()) if numbered else members


def _list(rows: list[Object], kind: str = "list") -> Object:
    return {"object": kind, "url": "/v1/x", "has_more": False, "data": rows}


def _error(status: int, kind: str, message: str, code: str = "") -> tuple[str, int]:
    return json.dumps({"error": {"type": kind, "message": message, "code": code or None}}), status


_CANNOT = _error(400, "invalid_request_error", "This account cannot do that")
