"""The stand-in for Stripe as a server on loopback: its API, its pages for customers, and webhooks.

The pages are those on which a payment method is saved, methods are changed (the portal), and an invoice is paid.

Usage: python -m demo.stripe_server --port PORT --key-file FILE --webhook-secret-file FILE. No money moves: it keeps
everything in memory, and forgets it when it ends. Beside what `FakeStripe` knows it
answers `POST /v1/webhook_endpoints`: where events go, and `GET /stand-in/collected`: what it has charged, in cents.
All but the pages needs the key.
"""

import argparse
import json
import secrets
import threading
import time
from collections.abc import Sequence
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

import stripe

from demo.fake_stripe import FakeStripe, Object
from local.free_ports import HOST
from penstock.rules.addresses import is_loopback

COLLECTED = "/stand-in/collected"
_ENDPOINTS = "/v1/webhook_endpoints"
_PAGE, _PORTAL, _INVOICE = "/checkout/", "/portal/", "/invoice/"
_PAGES = (_PAGE, _PORTAL, _INVOICE)
_BODY_BYTES_MAX = 1024 * 1024
_HOOK_S = 10.0
_HOOK_PAUSE_S = 0.5
_HOOK_TRIES = 60
_LOOK = """<!doctype html><meta charset="utf-8"><title>Stand-in for Stripe</title>
<style>body {{ font: 16px/1.5 sans-serif; max-width: 36rem; margin: 4rem auto; padding: 0 1rem }}</style>
<h1>A stand-in for Stripe on this machine</h1>
<p><strong>This is not Stripe, and no money moves.</strong> It is part of Penstock's demo.</p>
{body}
"""
_FORM = """<form method="post"><p>Customer {customer} saves a card for its invoices.</p>
<button>Save the test card visa 4242</button></form>"""
_DONE = "<p>A card was saved on this page.</p>"
_NOTHING = "<p>There is no such page.</p>"
_METHODS = """<p>Stripe's portal would be here. Customer {customer} pays by:</p><ul>{methods}</ul>
<form method="post"><button name="add" value="1">Save the test card visa 4242</button></form>
<p><a href="{back}">Back to Penstock</a></p>"""
_METHOD = """<li>{label} <form method="post" style="display: inline">
<button name="remove" value="{id}">Remove</button></form></li>"""
_OPEN = """<p>Stripe's page of an invoice would be here. {title}: {amount} {currency} are to be paid.</p>
<form method="post"><button>Pay with the test card visa 4242</button></form>"""
_CLOSED = "<p>{title}: it is {status}, and nothing is to be paid here. You may close this page.</p>"


class StandIn(ThreadingHTTPServer):
    """Serves from its construction's port on; one call at a time changes the account."""

    daemon_threads = True

    def __init__(self, port: int, key: str, webhook_secret: str) -> None:
        super().__init__((HOST, port), _Handler)
        self.key = key
        self.lock = threading.Lock()
        here = f"http://{HOST}:{self.server_port}"
        self.fake = FakeStripe(
            checkout_url=f"{here}{_PAGE}{{session}}",
            portal_url=f"{here}{_PORTAL}{{session}}",
            invoice_url=f"{here}{_INVOICE}{{invoice}}",
        )
        self._webhook_secret = webhook_secret
        self._endpoint = ""

    def add_endpoint(self, url: str) -> bool:
        """Events go there from now on; False: it is not on this machine."""
        if not is_loopback(urlsplit(url).hostname or ""):
            return False
        self._endpoint = url
        return True

    def save_method(self, session: Object) -> None:
        """The customer saves a card on the session's page, once."""
        session["status"] = "complete"
        self.fake.give_method(session["customer"])
        self._tell("checkout.session.completed", session)

    def change_methods(self, customer: str, *, remove: str) -> None:
        """The customer saves the test card on the portal, or removes one that is theirs."""
        if not remove:
            self._tell("payment_method.attached", self.fake.give_method(customer))
        elif self.fake.objects.get(remove, {}).get("customer") == customer:
            self.fake.take_method(remove)
            self._tell("customer.updated", self.fake.objects[customer])

    def pay(self, invoice: Object) -> None:
        """The customer pays the open invoice on its page."""
        self.fake.pay_on_page(invoice["id"])
        self._tell("invoice.paid", invoice)

    def _tell(self, kind: str, thing: Object) -> None:
        if self._endpoint:
            threading.Thread(target=self._send, args=(self._endpoint, kind, dict(thing)), daemon=True).start()

    def _send(self, endpoint: str, kind: str, thing: Object) -> None:
        """Signed as Stripe signs, and again until it is taken."""
        event = {
            "id": f"evt_{secrets.token_hex(8)}",
            "object": "event",
            "type": kind,
            "data": {"object": thing},
        }
        body = json.dumps(event)
        for _ in range(_HOOK_TRIES):
            signature = stripe.WebhookSignature.generate_signature_header(
                body, self._webhook_secret, int(time.time())
            )
            headers = {"Content-Type": "application/json", "Stripe-Signature": str(signature)}
            try:
                with urlopen(Request(endpoint, body.encode(), headers), timeout=_HOOK_S):
                    return
            except (URLError, OSError) as error:
                print(f"{endpoint}: {event['id']} was not taken: {error}", flush=True)
            time.sleep(_HOOK_PAUSE_S)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn

    def do_GET(self) -> None:
        if self.path.startswith(_PAGES):
            self._page(None)
        elif self._has_key():
            if self.path == COLLECTED:
                with self.server.lock:
                    self._json(json.dumps({"collected_cents": self.server.fake.collected_cents()}), 200)
            else:
                self._call("get", "")

    def do_DELETE(self) -> None:
        if self._has_key():
            self._call("delete", "")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > _BODY_BYTES_MAX:
            self.close_connection = True
            self._refuse(413, f"Content-Length of at most {_BODY_BYTES_MAX} required")
            return
        body = self.rfile.read(int(length)).decode(errors="replace")
        if self.path.startswith(_PAGES):
            self._page({name: values[0] for name, values in parse_qs(body).items()})
        elif self._has_key():
            if self.path == _ENDPOINTS:
                (url,) = parse_qs(body).get("url", [""])[:1]
                if self.server.add_endpoint(url):
                    self._json(json.dumps({"object": "webhook_endpoint", "url": url}), 200)
                else:
                    self._refuse(400, "url: an address of this machine required")
            else:
                self._call("post", body)

    def _call(self, method: str, body: str) -> None:
        headers = {"Idempotency-Key": self.headers.get("Idempotency-Key", "")}
        try:
            with self.server.lock:
                text, status = self.server.fake.answer(method, self.path, headers, body)
        except (KeyError, IndexError, ValueError) as error:
            self._refuse(400, f"a member is missing or not as required: {error}")
            return
        self._json(text, status)

    def _page(self, sent: dict[str, str] | None) -> None:
        """`sent`: the members of the form of the page; None: it is looked at."""
        with self.server.lock:
            for prefix, kind, page in (
                (_PAGE, "checkout.session", self._checkout),
                (_PORTAL, "billing_portal.session", self._portal),
                (_INVOICE, "invoice", self._invoice),
            ):
                found = self.server.fake.objects.get(self.path.removeprefix(prefix))
                if self.path.startswith(prefix) and found is not None and found["object"] == kind:
                    page(found, sent)
                    return
            self._html(_NOTHING, 404)

    def _checkout(self, session: Object, sent: dict[str, str] | None) -> None:
        if session.get("status") == "complete":
            self._html(_DONE, 200 if sent is None else 410)
        elif sent is None:
            self._html(_FORM.format(customer=escape(session["customer"])), 200)
        else:
            self.server.save_method(session)
            self._go_to(session["success_url"])

    def _portal(self, session: Object, sent: dict[str, str] | None) -> None:
        if sent is not None:
            self.server.change_methods(session["customer"], remove=sent.get("remove", ""))
            self._go_to(self.path)
            return
        mine = [
            one for one in self.server.fake.all("payment_method") if one["customer"] == session["customer"]
        ]
        rows = [
            _METHOD.format(
                label=escape(f"{one['card']['brand']} {one['card']['last4']}"), id=escape(one["id"])
            )
            for one in mine
        ]
        methods = "".join(rows) or "<li>nothing yet</li>"
        back = escape(session["return_url"])
        self._html(_METHODS.format(customer=escape(session["customer"]), methods=methods, back=back), 200)

    def _invoice(self, invoice: Object, sent: dict[str, str] | None) -> None:
        is_open = invoice["status"] == "open"
        if sent is not None and is_open:
            self.server.pay(invoice)
            self._go_to(self.path)
            return
        title, left = escape(invoice.get("description") or invoice["id"]), int(invoice["amount_remaining"])
        amount = f"{left // 100}.{left % 100:02}"
        shown = _OPEN.format(title=title, amount=amount, currency=escape(invoice["currency"].upper()))
        closed = _CLOSED.format(title=title, status=escape(invoice["status"]))
        self._html(shown if is_open else closed, 200 if sent is None else 410)

    def _go_to(self, url: str) -> None:
        self.send_response(303)
        self.send_header("Location", url)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _has_key(self) -> bool:
        if secrets.compare_digest(
            self.headers.get("Authorization", "").encode(), f"Bearer {self.server.key}".encode()
        ):
            return True
        self._refuse(401, "the demo's key required")
        return False

    def _refuse(self, status: int, message: str) -> None:
        self._json(json.dumps({"error": {"type": "invalid_request_error", "message": message}}), status)

    def _html(self, body: str, status: int) -> None:
        self._answer(_LOOK.format(body=body), status, "text/html; charset=utf-8")

    def _json(self, text: str, status: int) -> None:
        self._answer(text, status, "application/json")

    def _answer(self, text: str, status: int, kind: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m demo.stripe_server")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--key-file", type=Path, required=True)
    parser.add_argument("--webhook-secret-file", type=Path, required=True)
    options = parser.parse_args(arguments)
    StandIn(
        options.port, options.key_file.read_text().strip(), options.webhook_secret_file.read_text().strip()
    ).serve_forever()


if __name__ == "__main__":
    main()
