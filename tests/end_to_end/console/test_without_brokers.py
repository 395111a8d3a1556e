"""All brokers are gone: every page says so and what to do, nothing is a fault, and it goes on when they are back."""

import pytest
from playwright.sync_api import expect

from tests.end_to_end.console.conftest import NewVisitor, Visitor
from tests.end_to_end.console.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.processes]

CANNOT = "The brokers cannot be reached now."
WAIT_MS = 60_000


def test_every_page_says_what_is_wrong_and_goes_on_when_brokers_are_back(
    visitor: Visitor, new_visitor: NewVisitor, service: Service
) -> None:
    visitor.make_topic("orders", partitions=1)
    visitor.send("orders", "before")
    operator = new_visitor()
    operator.go("/operator")
    operator.page.get_by_label("Operator's token").fill(service.operator_token)
    operator.page.get_by_role("button", name="Sign in").click()
    page = visitor.page
    statuses: list[tuple[str, int]] = []
    for one in (page, operator.page):
        one.on("response", lambda response: statuses.append((response.url, response.status)))
    visitor.expected = operator.expected = ("503",)
    with service.brokers_killed():
        for path in ("", "/topics/orders", "/groups", "/topics/orders/messages"):
            visitor.here(path)
            expect(page.get_by_text(CANNOT).first).to_be_visible(timeout=WAIT_MS)
        expect(page.get_by_text("Nothing was changed.").first).to_be_visible()
        for path in ("/topics", "/keys", "/usage", "/invoices", "/people", "/audit"):
            visitor.here(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.get_by_text(CANNOT)).to_have_count(0)
        operator.go("/operator")
        expect(operator.page.get_by_text(CANNOT)).to_be_visible(timeout=WAIT_MS)
        # What is wanted is kept, and comes to the brokers when they are back.
        visitor.here("/new-topic")
        page.get_by_label("Name", exact=True).fill("later")
        page.get_by_role("button", name="Create topic").click()
        expect(page.locator(".notice")).to_contain_text("Topic later is not made yet: ", timeout=WAIT_MS)
        visitor.here("/topics/orders")
    assert [one for one in statuses if one[1] >= 500 and one[1] != 503] == []
    # By itself: nobody reloads.
    expect(page.get_by_text("every partition can be written")).to_be_visible(timeout=WAIT_MS)
    visitor.here("/topics/later")
    expect(page.get_by_text("every partition can be written")).to_be_visible(timeout=WAIT_MS)
    visitor.here("/topics/orders/messages?at=beginning")
    expect(page.locator("details.message")).to_contain_text("before")
