"""Two tenants in two browsers, hostile names, and sessions."""

import pytest
from playwright.sync_api import expect

import penstock
from tests.end_to_end.console.conftest import NewVisitor, Visitor
from tests.end_to_end.console.service import Service
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.processes]

MARKUP = "<img src=x onerror=alert(1)>"
TURNED = "\u202egnihton\u202c"


def test_two_tenants_in_two_browsers_see_nothing_of_each_other(new_visitor: NewVisitor) -> None:
    anna, boris = new_visitor(), new_visitor()
    anna.sign_up()
    boris.sign_up()
    anna.make_topic("annas-plans", partitions=1)
    anna.send("annas-plans", "a secret of Anna's")
    boris.make_topic("annas-plans", partitions=1)
    boris.expected = ("404",)
    for path in ("", "/topics", "/groups", "/keys", "/usage", "/invoices", "/audit"):
        boris.here(path)
        assert anna.tenant not in boris.page.content()
    boris.here("/topics/annas-plans/messages?at=beginning")
    expect(boris.page.get_by_text("This topic has no messages")).to_be_visible()
    for path in ("", "/topics/annas-plans", "/topics/annas-plans/messages", "/keys", "/audit", "/invoices"):
        boris.go(f"/t/{anna.tenant}{path}")
        expect(boris.page.get_by_role("heading", name="There is nothing here")).to_be_visible()


def test_hostile_names_and_messages_are_shown_as_text(visitor: Visitor, service: Service) -> None:
    visitor.make_topic("orders", partitions=1)
    text = visitor.make_key(MARKUP)
    group = f"group {MARKUP}"
    with penstock.Client(bootstrap=service.bootstrap, api_key=text) as client:
        with client.producer() as producer:
            producer.send(
                "orders",
                f'{{"html": "{MARKUP}", "turned": "{TURNED}"}}'.encode(),
                key=MARKUP.encode(),
                headers=[(MARKUP, TURNED.encode())],
            ).result(timeout=PATIENCE_S)
            producer.send("orders", f"</pre><script>alert(2)</script>{TURNED}\x00".encode()).result(
                timeout=PATIENCE_S
            )
        with client.consumer("orders", group=group) as consumer:
            assert consumer.poll(timeout=PATIENCE_S)

    visitor.here("/topics/orders/messages?at=beginning")
    messages = visitor.page.locator("details.message")
    expect(messages).to_have_count(2)
    for number in range(2):
        messages.nth(number).locator("summary").click()
    expect(messages.nth(0).locator("pre").first).to_contain_text(MARKUP)
    expect(messages.nth(0).locator("pre").first).to_contain_text("\\u202egnihton\\u202c")
    expect(messages.nth(1).locator("pre").first).to_contain_text("</pre><script>alert(2)</script>")

    for path in ("/keys", "/audit", "/groups", ""):
        visitor.here(path)
        visitor.page.wait_for_load_state("networkidle")
        assert visitor.page.locator("img").count() == 0
    visitor.here("/groups")
    visitor.page.get_by_role("link", name=MARKUP).click()
    expect(visitor.page.get_by_role("heading", level=1)).to_contain_text(MARKUP)
    expect(visitor.page.get_by_text("messages not read yet")).to_be_visible()


def test_a_session_is_out_of_reach_for_scripts_and_ends_with_signing_out(visitor: Visitor) -> None:
    cookies = {cookie.get("name"): cookie for cookie in visitor.context.cookies()}
    assert cookies["penstock"].get("httpOnly") is True
    assert cookies["penstock"].get("sameSite") == "Lax"
    assert "pss_" not in str(visitor.page.evaluate("document.cookie"))
    kept = str(cookies["penstock"].get("value"))
    visitor.page.get_by_role("button", name="Sign out").first.click()
    visitor.page.wait_for_url("**/sign-in")
    visitor.context.add_cookies([{"name": "penstock", "value": kept, "url": visitor.url}])
    visitor.here()
    assert "/sign-in" in visitor.page.url


def test_a_wrong_password_says_so_and_nothing_more(new_visitor: NewVisitor) -> None:
    somebody = new_visitor()
    somebody.expected = ("422",)
    somebody.go("/sign-in")
    somebody.page.get_by_label("E-mail address").fill("nobody@acme.example")
    somebody.page.get_by_label("Password").fill("not the password")
    somebody.page.get_by_role("button", name="Sign in").click()
    expect(somebody.page.get_by_role("alert")).to_contain_text("The e-mail address or the password is wrong")


def test_the_theme_is_chosen_and_kept(visitor: Visitor) -> None:
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = visitor.page.evaluate(background)
    visitor.page.get_by_role("button", name="Light or dark").first.click()
    dark = visitor.page.evaluate(background)
    assert dark != light
    visitor.here("/topics")
    assert visitor.page.evaluate(background) == dark
