"""Several people in one tenant: invited by a link, they may do what the role says; operators set limits."""

import pytest
from playwright.sync_api import expect

from tests.end_to_end.accessible import serious
from tests.end_to_end.console.conftest import PASSWORD, NewVisitor, Visitor
from tests.end_to_end.console.service import Service
from tests.end_to_end.console.test_pages import look

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def test_somebody_is_invited_by_a_link_and_does_what_the_role_says(
    visitor: Visitor, new_visitor: NewVisitor
) -> None:
    visitor.make_topic("orders", partitions=1)
    visitor.here("/people")
    visitor.page.get_by_role("link", name="Invite a person").click()
    address = f"zoe@{visitor.tenant}.example"
    visitor.page.get_by_label("E-mail address").fill(address)
    visitor.page.get_by_role("radio", name="auditor").check()
    visitor.page.get_by_role("button", name="Make the invitation").click()
    link = visitor.page.locator("#the-link").inner_text()
    assert serious(visitor.page) == []

    zoe = new_visitor()
    zoe.page.goto(link)
    expect(zoe.page.get_by_role("heading", name=f"Join {visitor.tenant}")).to_be_visible()
    assert serious(zoe.page) == []
    zoe.page.get_by_label("Choose a password").fill(PASSWORD)
    zoe.page.get_by_role("button", name="Create account and join").click()
    zoe.page.wait_for_url(f"**/t/{visitor.tenant}")
    expect(zoe.page.get_by_text("your role is auditor")).to_be_visible()
    zoe.go(f"/t/{visitor.tenant}/topics")
    expect(zoe.page.get_by_role("link", name="New topic")).to_have_count(0)

    visitor.here("/people")
    row = visitor.page.get_by_role("row", name=address)
    row.get_by_role("combobox").select_option("developer")
    row.get_by_role("button", name="Change").click()
    expect(visitor.page.get_by_role("status")).to_contain_text(f"{address} is developer now")
    zoe.page.reload()
    expect(zoe.page.get_by_role("link", name="New topic")).to_be_visible()

    visitor.page.get_by_role("row", name=address).get_by_role("link", name="Remove").click()
    visitor.page.get_by_role("button", name="Remove").click()
    expect(visitor.page.get_by_role("row", name=address)).to_have_count(0)
    zoe.expected = ("404",)
    zoe.page.reload()
    expect(zoe.page.get_by_role("heading", name="There is nothing here")).to_be_visible()


def test_an_operator_sets_a_limit_and_the_tenant_meets_it(
    visitor: Visitor, new_visitor: NewVisitor, service: Service
) -> None:
    operator = new_visitor()
    operator.go("/operator")
    operator.page.get_by_label("Operator's token").fill(service.operator_token)
    operator.page.get_by_role("button", name="Sign in").click()
    operator.page.get_by_role("link", name="Tenants").first.click()
    operator.page.get_by_role("searchbox").fill(visitor.tenant)
    operator.page.get_by_role("button", name="Search").click()
    operator.page.get_by_role("link", name=visitor.tenant).click()
    operator.page.get_by_label("Partitions").fill("2")
    operator.page.get_by_role("button", name="Set the limits").click()
    expect(operator.page.get_by_role("status")).to_contain_text("has new limits")
    expect(operator.page.get_by_text("quota.set")).to_be_visible()
    look(operator, operator.page.url.removeprefix(service.url))

    visitor.expected = ("422",)
    visitor.here("/new-topic")
    visitor.page.get_by_label("Name", exact=True).fill("orders")
    visitor.page.get_by_label("Partitions").fill("3")
    visitor.page.get_by_role("button", name="Create topic").click()
    expect(visitor.page.locator("main")).to_contain_text("2")
    visitor.page.get_by_label("Partitions").fill("2")
    visitor.page.get_by_role("button", name="Create topic").click()
    visitor.page.wait_for_url("**/topics/orders")
