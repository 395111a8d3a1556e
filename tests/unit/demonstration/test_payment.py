"""The stand-in for Stripe over HTTP: its page, its signed webhook, and when what it collected agrees."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests
import stripe

from demo.payment import PRICE_BOOK, Payment
from demo.stripe_server import COLLECTED, StandIn
from payments.stripe_adapter import Gateway, read_event
from penstock.contract.errors import Forbidden
from penstock.rules.rating import PriceBook

KEY, SECRET = "sk_test_demo", "whsec_demo"
GOOD = Payment(
    tenant="UA",
    invoices=("inv_1", "inv_2"),
    states=("paid", "paid"),
    invoiced_cents=6_857,
    collected_cents=6_857,
)


@contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    """Its address, within the block."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Hook(BaseHTTPRequestHandler):
    """Notes one call."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, _HookServer)
        self.server.called = (body, self.headers["Stripe-Signature"])
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.server.heard.set()


class _HookServer(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Hook)
        self.heard = threading.Event()
        self.called = (b"", "")


def test_a_customer_saves_a_method_and_pays_through_the_stand_in() -> None:
    hook = _HookServer()
    with serving(StandIn(0, KEY, SECRET)) as api, serving(hook) as hook_url:
        authorized = {"Authorization": f"Bearer {KEY}"}

        def point(url: str) -> int:
            return requests.post(
                f"{api}/v1/webhook_endpoints", {"url": url}, headers=authorized, timeout=5
            ).status_code

        assert (point("https://example.com/hook"), point(f"{hook_url}/hooks/stripe")) == (400, 200)
        gateway = Gateway(KEY, stripe.RequestsClient(timeout=5), api)
        customer = gateway.create_customer("tn_1", "carrier-UA", "customer/tn_1")
        assert gateway.method(customer) is None
        page = gateway.setup_link(customer, "USD", "http://127.0.0.1:1/back")
        shown = requests.get(page, timeout=5).text
        assert "A stand-in for Stripe on this machine" in shown and "no money moves" in shown
        saved = [requests.post(page, timeout=5, allow_redirects=False) for _ in range(2)]
        assert [one.status_code for one in saved] == [303, 410]
        assert saved[0].headers["Location"] == "http://127.0.0.1:1/back"
        method = gateway.method(customer)
        assert method is not None and method.label == "visa ending in 4242"
        assert hook.heard.wait(5)
        event = read_event(*hook.called, SECRET)
        assert (event.type, event.customer) == ("checkout.session.completed", customer)
        with pytest.raises(Forbidden):
            read_event(*hook.called, "whsec_other")
        invoice = gateway.create_invoice(customer, "rcv_1", "USD", "no. 1", "invoice/1").id
        gateway.add_item(
            customer, invoice, "line", amount=6_857, currency="USD", title="a line", key="item/1"
        )
        gateway.finalize(invoice, "finalize/1")
        assert gateway.pay(invoice, method.id, "pay/1").status == "paid"
        collected = requests.get(f"{api}{COLLECTED}", headers=authorized, timeout=5)
        assert collected.json() == {"collected_cents": 6_857}


def test_without_its_key_it_tells_and_changes_nothing() -> None:
    with serving(StandIn(0, KEY, SECRET)) as api:
        for method, path in (("get", COLLECTED), ("post", "/v1/customers"), ("delete", "/v1/invoices/in_1")):
            for headers in ({}, {"Authorization": "Bearer sk_test_other"}):
                assert requests.request(method, f"{api}{path}", headers=headers, timeout=5).status_code == 401
        assert requests.post(f"{api}/checkout/cs_1", timeout=5).status_code == 404
        lacking = requests.post(
            f"{api}/v1/invoiceitems", headers={"Authorization": f"Bearer {KEY}"}, timeout=5
        )
        assert lacking.status_code == 400


def test_a_payment_agrees_only_if_all_is_paid_and_collected() -> None:
    assert GOOD.agrees and "68.57 USD collected by a stand-in for Stripe on this machine" in str(GOOD)
    for other in (
        replace(GOOD, states=("paid", "open")),
        replace(GOOD, collected_cents=6_856),
        replace(GOOD, collected_cents=6_858),
        replace(GOOD, invoiced_cents=0, collected_cents=0),
        replace(GOOD, invoices=(), states=()),
    ):
        assert not other.agrees, other


def test_the_payers_prices_are_a_price_book() -> None:
    book = PriceBook.read(json.loads(json.dumps(PRICE_BOOK)))
    assert (book.currency, book.fees[0].month_micro) == ("USD", 50_000_000)
