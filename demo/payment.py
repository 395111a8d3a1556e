"""One tenant pays its invoices through the stand-in for Stripe on this machine: it has prices of its own, which make
them large enough to be charged, and saves a payment method on the stand-in's page.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import requests

from demo.bills import Bill
from demo.reach import ca_file
from demo.servers import StripeAccount
from demo.stripe_server import COLLECTED
from demo.tenants import Tenant
from penstock.contract.errors import NotFound, PenstockError
from penstock.rest.client import RestClient

CARRIER = "UA"
STAND_IN = "a stand-in for Stripe on this machine"
PRICE_BOOK = {
    "format": 2,
    "name": "demo-paid",
    "version": 1,
    "currency": "USD",
    "minor_digits": 2,
    "meters": [
        {
            "meter": "messages_in",
            "unit": "thousand",
            "unit_size": 1_000,
            "free": 0,
            "model": "graduated",
            "tiers": [{"up_to": 100, "unit_price": "100"}, {"up_to": None, "unit_price": "1"}],
        },
        {
            "meter": "bytes_in",
            "unit": "GB",
            "unit_size": 1_000_000_000,
            "free": 0,
            "model": "unit",
            "tiers": [{"up_to": None, "unit_price": "0.1"}],
        },
    ],
    "fees": [{"fee": "account", "month": "50"}],
    "minimum_month": "0",
}
"""A month's fee comes to nothing in a run's minutes, so the first hundred messages cost 0.10 USD each."""
_FOR_NO_ONE_ELSE = "2100-01-01T00:00:00Z"
"""From then on it would hold for tenants without a book of their own."""
_CENT_MICRO = 10_000
_PAID_S = 120.0
_CALL_S = 60.0
_POLL_S = 0.5


class NotPaid(PenstockError):
    """An invoice was not paid in time."""

    remedy: ClassVar[str] = (
        "Read the outputs of the worker (penstock dev status names the files) and of the stand-in: "
        "servers/stripe/stripe.log in the demo's folder."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """What became of one tenant's invoices at the stand-in. No money has moved."""

    through: str = STAND_IN
    tenant: str
    """Its carrier."""
    invoices: tuple[str, ...]
    states: tuple[str, ...]
    """Of the invoices' receivables, in the same order."""
    invoiced_cents: int
    collected_cents: int
    """By the stand-in's own count, of everyone."""

    @property
    def agrees(self) -> bool:
        """All are paid, and it collected what was invoiced."""
        return (
            bool(self.invoices)
            and set(self.states) == {"paid"}
            and self.collected_cents == self.invoiced_cents > 0
        )

    def __str__(self) -> str:
        return (
            f"{self.tenant}, which has prices of its own, owed {_dollars(self.invoiced_cents)}"
            f" by {' and '.join(self.invoices)}: {', '.join(sorted(set(self.states)))}."
            f" {_dollars(self.collected_cents)} collected by {self.through}"
        )


class Till:
    """Where the tenant's invoices are paid."""

    def __init__(self, account: StripeAccount) -> None:
        self._account = account

    def open(self, api_url: str, operator_token: str, tenants: Sequence[Tenant]) -> None:
        """The tenant gets its prices, for the period that begins now, and saves a payment method. Raises what the
        service or the stand-in refuses with.
        """
        self._call("POST", "/v1/webhook_endpoints", {"url": f"{api_url}/hooks/stripe"})
        tenant = _payer(tenants)
        with RestClient(api_url, operator_token, ca_file(), timeout_s=_CALL_S) as rest:
            book = rest.post("/v1/price-books", {"document": PRICE_BOOK, "effective_from": _FOR_NO_ONE_ELSE})
            rest.patch(f"/v1/tenants/{tenant.id}/terms", {"price_book_sha256": book["sha256"]})
            rest.post("/v1/billing/cuts", {"tenant": tenant.id})
        with RestClient(api_url, ca_file=ca_file(), timeout_s=_CALL_S) as door:
            token = door.post("/v1/sign-in", {"email": tenant.email, "password": tenant.password})["token"]
        with RestClient(api_url, token, ca_file(), tenant=tenant.id, timeout_s=_CALL_S) as rest:
            page = rest.post("/v1/payment-method/page", {"page": "setup"})["url"]
        # As its button does. It leads back to the console, where no one is signed in.
        requests.post(page, timeout=_CALL_S, allow_redirects=False).raise_for_status()

    def wait_paid(self, api_url: str, bills: Sequence[Bill], tell: Callable[[int], None]) -> Payment:
        """Wait until each of the tenant's invoices is paid. Raises `NotPaid` naming those that are not."""
        (bill,) = [one for one in bills if one.tenant.carrier == CARRIER]
        ids = tuple(str(invoice["id"]) for invoice in bill.invoices)
        deadline = time.monotonic() + _PAID_S
        with RestClient(api_url, bill.tenant.api_key, ca_file(), timeout_s=_CALL_S) as rest:
            while True:
                asked = [_receivable(rest, invoice) for invoice in ids]
                late = [
                    f"{one['invoice']} is {one['state']} {one['problem']}".strip()
                    for one in asked
                    if one["state"] != "paid"
                ]
                tell(len(ids) - len(late))
                if not late:
                    break
                if time.monotonic() > deadline:
                    raise NotPaid("\n".join(late))
                time.sleep(_POLL_S)
        return Payment(
            tenant=bill.tenant.carrier,
            invoices=ids,
            states=tuple(str(one["state"]) for one in asked),
            invoiced_cents=sum(int(invoice["total_micro"]) for invoice in bill.invoices) // _CENT_MICRO,
            collected_cents=int(self._call("GET", COLLECTED)["collected_cents"]),
        )

    def _call(self, method: str, path: str, form: Mapping[str, str] | None = None) -> Any:
        answer = requests.request(
            method,
            f"{self._account.api_base}{path}",
            data=form,
            headers={"Authorization": f"Bearer {self._account.key_file.read_text().strip()}"},
            timeout=_CALL_S,
        )
        answer.raise_for_status()
        return answer.json()


def _payer(tenants: Sequence[Tenant]) -> Tenant:
    return next(tenant for tenant in tenants if tenant.carrier == CARRIER)


def _receivable(rest: RestClient, invoice: str) -> dict[str, Any]:
    """Before the first round of payments there is none: it is open then."""
    try:
        return dict(rest.get(f"/v1/invoices/{invoice}/payment"))
    except NotFound:
        return {"invoice": invoice, "state": "open", "problem": ""}


def _dollars(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02} USD"
