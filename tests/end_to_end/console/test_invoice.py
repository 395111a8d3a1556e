"""From the first message to a proven invoice, in the browser; with one real round of the pipeline."""

import json
import time
import urllib.request

import pytest
from playwright.sync_api import expect

import penstock
from tests.end_to_end.console.conftest import Visitor
from tests.end_to_end.console.service import Service
from tests.end_to_end.console.test_pages import look, serious
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.processes]

MESSAGES = 3_000


def end_period(service: Service, tenant: str) -> str:
    """The operator's call; returns the invoice once the cut's vector is there."""
    request = urllib.request.Request(
        f"{service.url}/v1/billing/cuts",
        data=json.dumps({"tenant": tenant}).encode(),
        headers={"Authorization": f"Bearer {service.operator_token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        (cut,) = json.load(answer)["items"]
    return str(cut["invoice"])


def test_messages_become_an_invoice_that_the_browser_sees_proven(visitor: Visitor, service: Service) -> None:
    visitor.make_topic("orders")
    text = visitor.make_key("loader")
    with penstock.Client(bootstrap=service.bootstrap, api_key=text) as client, client.producer() as producer:
        for number in range(MESSAGES):
            producer.send("orders", b'{"order": %d}' % number, key=b"%d" % (number % 17))
    visitor.here()
    tenant = visitor.page.locator(".facts .id").inner_text()
    invoice = end_period(service, tenant)
    visitor.here(f"/invoices/{invoice}")
    expect(visitor.page.get_by_text("draft", exact=True)).to_be_visible()
    service.pipeline_once()

    issued = visitor.page.get_by_text("issued", exact=True)
    deadline = time.monotonic() + PATIENCE_S
    while not issued.count() and time.monotonic() < deadline:
        visitor.page.wait_for_timeout(500)
        visitor.page.reload()
    expect(issued).to_be_visible()
    line = visitor.page.locator("details.line").first
    expect(line).to_contain_text(f"{MESSAGES:,} messages")
    line.locator("summary").click()
    expect(line.locator("tfoot")).to_contain_text(f"{MESSAGES:,}")
    visitor.page.get_by_role("button", name="Verify").click()
    expect(visitor.page.get_by_text("Proven.")).to_be_visible()
    assert serious(visitor.page) == []
    visitor.here()
    flow = visitor.page.locator("section", has_text="The last hour")
    expect(flow.get_by_text(f"{MESSAGES:,}")).to_be_visible()
    expect(flow.get_by_text("Bytes a ")).to_be_visible()
    for path in ("/usage", "/invoices", ""):
        look(visitor, f"/t/{visitor.tenant}{path}")
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/usage", "/invoices", f"/invoices/{invoice}"):
        look(visitor, f"/t/{visitor.tenant}{path}")
