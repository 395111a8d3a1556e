"""Stripe in memory in a process of its own: it remembers what a killed process asked of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.managers import BaseManager
from random import Random
from typing import Any

import stripe

from demo.fake_stripe import FAULTS, FakeStripe


class StripeApart:
    """What others may ask of it."""

    def __init__(self) -> None:
        self._fake = FakeStripe()

    def answer(self, method: str, url: str, headers: dict[str, str], body: str) -> tuple[str, int] | None:
        """The call's answer and status; None: no answer came."""
        try:
            return self._fake.answer(method, url, headers, body)
        except stripe.APIConnectionError:
            return None

    def fail(self, seed: int, count: int) -> None:
        """The next calls that change something meet these faults."""
        self._fake.faults[:] = Random(seed).choices([*FAULTS, ""], k=count)

    def heal(self) -> None:
        """No more faults. Every customer has named a card, and pays what is open."""
        self._fake.faults.clear()
        for customer in self._fake.all("customer"):
            if not customer["invoice_settings"]["default_payment_method"]:
                self._fake.give_method(customer["id"])
        for invoice in self._fake.all("invoice"):
            if invoice["status"] == "open":
                self._fake.pay_on_page(invoice["id"])

    def collected_cents(self) -> int:
        """What was charged, less what was given back."""
        return self._fake.collected_cents()


class _Manager(BaseManager):
    pass


_Manager.register("StripeApart", StripeApart)


class HttpClient(stripe.HTTPClient):
    """By which the library calls it."""

    name = "apart"

    def __init__(self, apart: StripeApart) -> None:
        super().__init__()
        self._apart = apart

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None, post_data: Any = None, **_: Any
    ) -> tuple[str, int, Mapping[str, str]]:
        answered = self._apart.answer(method.lower(), url, dict(headers or {}), post_data or "")
        if answered is None:
            raise stripe.APIConnectionError("timed out")  # type: ignore[no-untyped-call]
        return *answered, {"Request-Id": "req_1"}

    def close(self) -> None:
        pass


@contextmanager
def stripe_apart() -> Iterator[StripeApart]:
    with _Manager() as manager:
        made: StripeApart = manager.StripeApart()  # type: ignore[attr-defined]
        yield made
