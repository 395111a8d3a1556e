"""The stand-in's pages for customers: each says what it is, a click does what it says, and an event tells of it."""

import threading
from collections.abc import Iterator
from queue import Queue

import pytest
import requests

from demo.fake_stripe import Object
from demo.stripe_server import StandIn

WAIT_S = 30.0


class Watched(StandIn):
    """Its events come here, and go nowhere."""

    def __init__(self) -> None:
        super().__init__(0, "key", "secret")
        self.add_endpoint("http://127.0.0.1:1/hooks")
        self.events: Queue[tuple[str, Object]] = Queue()
        self.customer = self.fake.make(
            "cus", "customer", invoice_settings={"default_payment_method": None}, balance=0
        )

    def _send(self, endpoint: str, kind: str, thing: Object) -> None:
        self.events.put((kind, thing))

    def call(self, path: str, form: dict[str, str]) -> Object:
        answer = requests.post(
            f"http://127.0.0.1:{self.server_port}/v1/{path}",
            data=form,
            headers={"Authorization": "Bearer key"},
            timeout=WAIT_S,
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@pytest.fixture
def stand_in() -> Iterator[Watched]:
    with Watched() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_the_portal_adds_and_removes_cards_and_leads_back(stand_in: Watched) -> None:
    customer = stand_in.customer["id"]
    made = stand_in.call(
        "billing_portal/sessions", {"customer": customer, "return_url": "http://127.0.0.1/t/a?b&c"}
    )
    page = requests.get(made["url"], timeout=WAIT_S).text
    assert (
        "This is not Stripe" in page
        and "nothing yet" in page
        and 'href="http://127.0.0.1/t/a?b&amp;c"' in page
    )
    page = requests.post(made["url"], data={"add": "1"}, timeout=WAIT_S).text
    assert "visa 4242" in page
    kind, method = stand_in.events.get(timeout=WAIT_S)
    assert (kind, method["customer"]) == ("payment_method.attached", customer)
    foreign = stand_in.fake.make("pm", "payment_method", customer="cus_other", type="card", card={})
    requests.post(made["url"], data={"remove": foreign["id"]}, timeout=WAIT_S)
    assert foreign["id"] in stand_in.fake.objects, "a card of another customer stays"
    page = requests.post(made["url"], data={"remove": method["id"]}, timeout=WAIT_S).text
    assert "nothing yet" in page
    assert stand_in.events.get(timeout=WAIT_S)[0] == "customer.updated"
    assert stand_in.customer["invoice_settings"]["default_payment_method"] is None


def test_an_open_invoice_is_paid_on_its_page_once(stand_in: Watched) -> None:
    invoice = stand_in.call(
        "invoices", {"customer": stand_in.customer["id"], "currency": "usd", "description": "No. 7 <b>"}
    )
    address = f"http://127.0.0.1:{stand_in.server_port}/invoice/{invoice['id']}"
    assert "it is draft" in requests.get(address, timeout=WAIT_S).text
    stand_in.call(
        "invoiceitems", {"customer": "x", "invoice": invoice["id"], "amount": "1234", "currency": "usd"}
    )
    final = stand_in.call(f"invoices/{invoice['id']}/finalize", {})
    assert final["hosted_invoice_url"] == address
    page = requests.get(address, timeout=WAIT_S).text
    assert "No. 7 &lt;b&gt;: 12.34 USD are to be paid" in page
    assert "it is paid" in requests.post(address, timeout=WAIT_S).text
    kind, told = stand_in.events.get(timeout=WAIT_S)
    assert (kind, told["id"], told["status"]) == ("invoice.paid", invoice["id"], "paid")
    assert requests.post(address, timeout=WAIT_S).status_code == 410
    assert stand_in.fake.collected_cents() == 1234


@pytest.mark.parametrize("path", ["invoice/cus_1", "portal/in_1", "checkout/cus_1", "portal/"])
def test_what_is_not_there_has_no_page(stand_in: Watched, path: str) -> None:
    answer = requests.get(f"http://127.0.0.1:{stand_in.server_port}/{path}", timeout=WAIT_S)
    assert (answer.status_code, "There is no such page" in answer.text) == (404, True)
