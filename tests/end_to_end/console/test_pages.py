"""Every page: accessible, without complaint, within the width of a phone; light and dark.

A run looks at a page in the width of a phone or of a desk, by chance, at the colours of its other theme a third of the
times, and at all of it under FULL=1.
"""

import random
from collections.abc import Sequence
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

import penstock
from tests.conftest import FULL
from tests.control_plane.hostile import some_of
from tests.end_to_end.accessible import serious
from tests.end_to_end.console.conftest import NewVisitor, Visitor
from tests.end_to_end.console.service import Service
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.processes]

COLOURS = ("color-contrast", "link-in-text-block")
"""Rules of axe that ask for colours."""
COLOURS_SHARES = 3
"""One of so many looks at a page is at the colours of its other theme, too."""
DOORS = ("/sign-in", "/sign-up", "/operator/sign-in")
PAGES = (
    *("", "/topics", "/new-topic", "/topics/orders", "/topics/orders/messages", "/topics/orders/send"),
    *("/topics/orders/settings", "/topics/orders/delete", "/groups", "/group?name=workers"),
    *("/group/reset?name=workers", "/keys?all=1", "/new-key", "/usage", "/invoices", "/audit"),
    *("/people", "/invite", "/topics/orders/groups", "/topics/orders/access", "/new-budget"),
)
EMPTY = ("", "/topics", "/groups", "/keys", "/usage", "/invoices")
WIDTHS: tuple[tuple[int, Sequence[tuple[Literal["light", "dark"], Sequence[str]]]], ...] = (
    (1440, (("light", ()), ("dark", COLOURS))),
    (390, (("dark", ()), ("light", COLOURS))),
)
"""Width of the window, and the themes in it with the rules to look by (none named: all); another theme of the same
width differs in its colours alone.
"""
OPERATORS = ("/operator", "/operator/partitions", "/operator/tenants")


def look(visitor: Visitor, path: str) -> None:
    """Open the page, let its live parts arrive, and examine it."""
    opened(visitor, path)
    examine(visitor.page)


def look_in_both_themes(visitor: Visitor, path: str) -> None:
    """Open the page once, and examine it as `examine_in_both_themes` does."""
    opened(visitor, path)
    examine_in_both_themes(visitor.page)


def opened(visitor: Visitor, path: str) -> None:
    visitor.go(path)
    expect(visitor.page.get_by_text("Asking the brokers")).to_have_count(0)


def examine(page: Page, how: str = "", only: Sequence[str] = ()) -> None:
    where = f"{page.url} {how}"
    fits(page, where)
    assert serious(page, only) == [], where


def fits(page: Page, where: str) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
        f"{where}: wider than the window"
    )


def examine_in_both_themes(page: Page) -> None:
    """In one of the widths with one theme in full, and by chance the colours of the other theme: what differs between
    them is style alone. In both widths, each with both themes, in the long form. In each width it fits into the window.
    """
    drawn = some_of(WIDTHS, 1)
    themes_looked_at = None if FULL or random.randrange(COLOURS_SHARES) == 0 else 1
    for width, themes in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        fits(page, f"{page.url} {width}")
        for theme, only in themes[:themes_looked_at] if (width, themes) in drawn else ():
            # No motion: colours are looked at when they have changed, not on the way.
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
            assert (page.evaluate("innerWidth"), dark) == (width, theme == "dark")
            examine(page, f"{width} {theme}", only)


def test_every_door_and_empty_page_is_accessible_and_fits(new_visitor: NewVisitor) -> None:
    visitor = new_visitor()
    for path in DOORS:
        look_in_both_themes(visitor, path)
    visitor.sign_up()
    for path in EMPTY:
        look_in_both_themes(visitor, f"/t/{visitor.tenant}{path}")


def test_every_page_is_accessible_and_fits(visitor: Visitor, service: Service) -> None:
    visitor.make_topic("orders")
    text = visitor.make_key("a program")
    examine_in_both_themes(visitor.page)
    with penstock.Client(bootstrap=service.bootstrap, api_key=text) as client:
        with client.producer() as producer:
            producer.send("orders", b'{"a": 1}', key=b"k").result(timeout=PATIENCE_S)
        with client.consumer("orders", group="workers") as consumer:
            assert consumer.poll(timeout=PATIENCE_S)
    for path in PAGES:
        look_in_both_themes(visitor, f"/t/{visitor.tenant}{path}")
    visitor.here("/topics/orders/messages?at=beginning")
    visitor.page.locator("details.message summary").first.click()
    examine_in_both_themes(visitor.page)


def test_the_longest_names_fit(visitor: Visitor) -> None:
    topic = "w" * 249
    visitor.make_topic(topic, partitions=1)
    visitor.make_key("W" * 100)
    for path in ("", "/topics", f"/topics/{topic}", f"/topics/{topic}/delete", "/keys", "/audit"):
        look_in_both_themes(visitor, f"/t/{visitor.tenant}{path}")


def test_the_partitions_of_a_wide_topic_come_in_pages(visitor: Visitor) -> None:
    visitor.make_topic("wide", partitions=70)
    rows = visitor.page.locator("table.cards tbody tr")
    expect(rows).to_have_count(50)
    visitor.page.get_by_role("link", name="Next").click()
    expect(rows).to_have_count(20)
    expect(rows.first.get_by_role("link")).to_have_text("50")
    with visitor.page.expect_response("**/topics/wide/live**"):
        pass
    expect(rows).to_have_count(20)


def test_the_operators_pages_show_brokers_and_partitions(new_visitor: NewVisitor, service: Service) -> None:
    operator = new_visitor()
    operator.go("/operator")
    operator.page.get_by_label("Operator's token").fill(service.operator_token)
    operator.page.get_by_role("button", name="Sign in").click()
    expect(operator.page.locator("table").first.get_by_text("active")).to_have_count(3)
    operator.page.get_by_role("link", name="Partitions").first.click()
    expect(operator.page.get_by_text("__usage").first).to_be_visible()
    for path in OPERATORS:
        look(operator, path)


def test_the_keyboard_reaches_content_search_menu_and_palette(visitor: Visitor) -> None:
    visitor.make_topic("orders")
    visitor.here("/topics")
    visitor.page.keyboard.press("Tab")
    expect(visitor.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    visitor.page.keyboard.press("Enter")
    visitor.page.keyboard.press("/")
    expect(visitor.page.get_by_role("searchbox")).to_be_focused()
    visitor.page.keyboard.type("ord")
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url("**q=ord*")
    expect(visitor.page.get_by_role("link", name="orders")).to_be_visible()
    visitor.page.keyboard.press("Control+k")
    visitor.page.keyboard.type("key")
    chosen = visitor.page.get_by_role("dialog").get_by_role("option", selected=True)
    expect(chosen).to_contain_text("Keys")
    examine(visitor.page, "with the palette")
    visitor.page.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("Keys that verify")
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url("**/verifying-keys")
    visitor.page.keyboard.press("Control+k")
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.get_by_role("dialog")).to_be_hidden()


def test_it_works_without_scripts(service: Service, new_visitor: NewVisitor) -> None:
    visitor = new_visitor()
    visitor.sign_up()
    visitor.make_topic("orders")
    plain = visitor.context.browser
    assert plain is not None
    context = plain.new_context(java_script_enabled=False, storage_state=visitor.context.storage_state())
    page = context.new_page()
    page.goto(f"{service.url}/t/{visitor.tenant}/topics/orders/send")
    page.get_by_label("Value", exact=True).fill("no script")
    page.get_by_role("button", name="Send message").click()
    expect(page.get_by_text("Accepted at offset")).to_be_visible()
    page.goto(f"{service.url}/t/{visitor.tenant}/topics/orders/messages")
    expect(page.locator("details.message")).to_contain_text("no script")
    context.close()
