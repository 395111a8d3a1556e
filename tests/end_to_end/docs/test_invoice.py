"""From the first message to a proven invoice, in the browser; by the service whose pipeline runs for the pages."""

import pytest
from playwright.sync_api import expect

import penstock
from local.wake_ups import WakeUps
from penstock.rest.client import RestClient
from tests.end_to_end.accessible import serious
from tests.end_to_end.console.conftest import Visitor, browser, new_visitor, visitor
from tests.end_to_end.console.test_pages import look
from tests.end_to_end.docs.conftest import Running
from tests.waiting import wait_until

__all__ = ["browser", "new_visitor", "visitor"]  # fixtures

pytestmark = [pytest.mark.slow, pytest.mark.processes]

MESSAGES = 3_000


def end_period(service: Running, tenant: str) -> str:
    """The operator's call; returns the invoice."""
    with RestClient(service.url, service.operator_token) as operator:
        (cut,) = operator.post("/v1/billing/cuts", {"tenant": tenant})["items"]
    return str(cut["invoice"])


def test_messages_become_an_invoice_that_the_browser_sees_proven(visitor: Visitor, service: Running) -> None:
    visitor.make_topic("orders")
    text = visitor.make_key("loader")
    with penstock.Client(bootstrap=service.bootstrap, api_key=text) as client, client.producer() as producer:
        for number in range(MESSAGES):
            producer.send("orders", b'{"order": %d}' % number, key=b"%d" % (number % 17))
    visitor.here()
    tenant = visitor.page.locator(".facts .id").inner_text()
    with service.pipeline_paused():
        invoice = end_period(service, tenant)
        visitor.here(f"/invoices/{invoice}")
        expect(visitor.page.get_by_text("draft", exact=True)).to_be_visible()
    wake_ups = WakeUps(service.datasets)
    with RestClient(service.url, service.operator_token, tenant=tenant) as operator:

        def issued() -> bool:
            wake_ups.look()
            return bool(operator.get(f"/v1/invoices/{invoice}")["status"] == "issued")

        wait_until("the invoice is issued", issued)
    visitor.page.reload()
    expect(visitor.page.get_by_text("issued", exact=True)).to_be_visible()
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
