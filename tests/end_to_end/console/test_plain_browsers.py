"""A browser without scripts, a long address, and messages of a megabyte."""

import os

import pytest
from playwright.sync_api import Browser, expect

from penstock import Client
from tests.end_to_end.console.conftest import PASSWORD, NewVisitor, Visitor
from tests.end_to_end.console.service import Service
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.processes]

PAGE_BYTES_MAX = 300_000
LONG = f"{'a-very-long-name-of-somebody' * 2}@department.of.a.very.long.company.example"


def look(visitor: Visitor, name: str) -> None:
    """A picture of the page, wide and narrow, for whoever asks for them."""
    folder = os.environ.get("PENSTOCK_TEST_PICTURES")
    if folder:
        for width in (1440, 390):
            visitor.page.set_viewport_size({"width": width, "height": 900})
            visitor.page.screenshot(path=f"{folder}/{name}-{width}.png", full_page=True)
        visitor.page.set_viewport_size({"width": 1440, "height": 900})


def test_sign_out_stays_in_the_bar_beside_a_long_address(new_visitor: NewVisitor) -> None:
    visitor = new_visitor()
    visitor.go("/sign-up")
    look(visitor, "sign-up")
    visitor.page.get_by_label("E-mail address").fill(LONG)
    visitor.page.get_by_label("Password").fill(PASSWORD)
    visitor.page.get_by_label("Name of your tenant").fill("long-address")
    visitor.page.get_by_role("button", name="Create account").click()
    visitor.page.wait_for_url("**/t/long-address")
    bar = visitor.page.locator(".rail").bounding_box()
    button = visitor.page.locator(".rail-foot").get_by_role("button", name="Sign out").bounding_box()
    assert bar is not None and button is not None
    assert button["x"] + button["width"] <= bar["x"] + bar["width"]
    look(visitor, "overview")
    visitor.go("/t/long-address/usage")
    look(visitor, "usage")


def test_large_messages_make_a_small_page_and_each_is_there_whole(visitor: Visitor, service: Service) -> None:
    visitor.make_topic("large", partitions=1)
    key = visitor.make_key("large")
    value = b"0123456789" * 90_000
    with (
        Client(bootstrap=service.bootstrap, api_key=key) as client,
        client.producer(compression="none") as producer,
    ):
        for delivery in [producer.send("large", value) for _ in range(20)]:
            delivery.result(timeout=PATIENCE_S)
    visitor.here("/topics/large/messages")
    expect(visitor.page.locator("details.message")).to_have_count(20)
    assert len(visitor.page.content()) < PAGE_BYTES_MAX
    visitor.page.locator("details.message").first.locator("summary").click()
    look(visitor, "messages")
    visitor.page.get_by_role("link", name="Show more of it").first.click()
    expect(visitor.page.get_by_role("heading", level=1)).to_contain_text("Offset")
    look(visitor, "message")
    with visitor.page.expect_download() as download:
        visitor.page.get_by_role("link", name="Save the value").click()
    assert download.value.path().read_bytes() == value


def test_without_scripts_pages_show_what_the_brokers_say(
    visitor: Visitor, browser: Browser, service: Service
) -> None:
    visitor.make_topic("orders", partitions=1)
    visitor.send("orders", "one")
    context = browser.new_context(
        java_script_enabled=False, storage_state=visitor.context.storage_state(), viewport=None
    )
    try:
        page = context.new_page()
        for path, said in (
            ("", "Messages stored"),
            ("/topics/orders", "every partition can be written"),
            ("/groups", "No groups"),
        ):
            page.goto(f"{service.url}/t/{visitor.tenant}{path}")
            expect(page.get_by_text(said).first).to_be_visible()
            expect(page.get_by_text("Asking the brokers")).to_have_count(0)
            if folder := os.environ.get("PENSTOCK_TEST_PICTURES"):
                page.screenshot(path=f"{folder}/unscripted{path.replace('/', '-')}.png", full_page=True)
    finally:
        context.close()
