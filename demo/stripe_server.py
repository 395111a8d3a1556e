"""The stand-in for Stripe as a server on loopback: its API, the page on which a payment method is saved, and webhooks.

Usage: python -m demo.stripe_server --port PORT --key-file FILE --webhook-secret-file FILE. No money moves: it keeps
everything in memory, and forgets it when it ends. Beside what `FakeStripe` knows it
answers `POST /v1/webhook_endpoints`: where events go, and `GET /stand-in/collected`: what it has charged, in cents.
All but the page needs the key.
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
_PAGE = "/checkout/"
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


class StandIn(ThreadingHTTPServer):
    """Serves from its construction's port on; one call at a time changes the account."""

    daemon_threads = True

    def __init__(self, port: int, key: str, webhook_secret: str) -> None:
        super().__init__((HOST, port), _Handler)
        self.key, self.lock = key, threading.Lock()
        self.fake = FakeStripe(checkout_url=f"http://{HOST}:{self.server_port}{_PAGE}{{session}}")
        self._webhook_secret, self._endpoint = webhook_secret, ""

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
        if self._endpoint:
            threading.Thread(
                target=self._send, args=(self._endpoint, "checkout.session.completed", session), daemon=True
            ).start()

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
        if self.path.startswith(_PAGE):
            self._page(saved=False)
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
        if self.path.startswith(_PAGE):
            self._page(saved=True)
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

    def _page(self, *, saved: bool) -> None:
        with self.server.lock:
            session = self.server.fake.objects.get(self.path.removeprefix(_PAGE))
            if session is None or session["object"] != "checkout.session":
                self._html("<p>There is no such page.</p>", 404)
            elif session.get("status") == "complete":
                self._html(_DONE, 410 if saved else 200)
            elif saved:
                self.server.save_method(session)
                self.send_response(303)
                self.send_header("Location", session["success_url"])
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self._html(_FORM.format(customer=escape(session["customer"])), 200)

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
