"""A newcomer's way: from the door to the first message, a key for a program, a group that reads."""

import pytest
from playwright.sync_api import expect

import penstock
from tests.end_to_end.console.conftest import NewVisitor, Visitor
from tests.end_to_end.console.service import Service
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def test_a_newcomer_signs_up_and_sees_the_first_message_arrive(new_visitor: NewVisitor) -> None:
    anna = new_visitor()
    anna.go("/")
    anna.page.get_by_role("link", name="Create an account").click()
    anna.sign_up()
    anna.page.get_by_role("link", name="New topic").click()
    anna.page.get_by_label("Name", exact=True).fill("orders")
    anna.page.get_by_role("button", name="Create topic").click()
    expect(anna.page.get_by_role("heading", name="orders")).to_be_visible()
    expect(anna.page.get_by_text("every partition can be written")).to_be_visible()

    anna.page.get_by_role("link", name="Messages").click()
    expect(anna.page.get_by_text("No messages yet")).to_be_visible()

    # Another window of the same person sends; the first shows it by itself.
    second = anna.context.new_page()
    second.goto(f"{anna.url}/t/{anna.tenant}/topics/orders/send")
    second.get_by_label("Value", exact=True).fill('{"book": "one", "price": 12.50}')
    second.get_by_label("Key").fill("anna")
    second.get_by_role("button", name="Send message").click()
    expect(second.get_by_text("Accepted at offset 0 of partition")).to_be_visible()

    message = anna.page.locator("details.message")
    expect(message).to_have_count(1)
    expect(anna.page.get_by_text("No messages yet")).to_have_count(0)
    message.locator("summary").click()
    expect(message.locator("pre").first).to_have_text('{\n  "book": "one",\n  "price": 12.50\n}')


def test_a_key_is_shown_once_works_and_is_refused_after_it_is_revoked(
    visitor: Visitor, service: Service
) -> None:
    visitor.make_topic("orders")
    text = visitor.make_key("a program")
    with (
        penstock.Client(bootstrap=service.bootstrap, api_key=text) as client,
        client.producer() as producer,
    ):
        receipt = producer.send("orders", b"from a program", key=b"k").result(timeout=PATIENCE_S)
    visitor.here(f"/topics/orders/messages?partition={receipt.partition}&at=offset&offset={receipt.offset}")
    expect(visitor.page.locator("details.message")).to_contain_text("from a program")

    visitor.here("/keys")
    assert text not in visitor.page.content()
    visitor.page.get_by_role("link", name="Revoke a program").click()
    visitor.page.get_by_role("button", name="Revoke key").click()
    expect(visitor.page.get_by_role("status")).to_contain_text("revoked")
    with (
        penstock.Client(bootstrap=service.bootstrap, api_key=text) as client,
        pytest.raises(penstock.Unauthenticated),
    ):
        client.topics()


def test_messages_are_found_by_offset_time_and_key(visitor: Visitor, service: Service) -> None:
    visitor.make_topic("orders")
    text = visitor.make_key("loader")
    with penstock.Client(bootstrap=service.bootstrap, api_key=text) as client, client.producer() as producer:
        for number in range(30):
            key = b"bo" if number % 2 else b"anna"
            producer.send(
                "orders", b"number %d" % number, key=key, timestamp_ms=1_357_000_000_000 + number * 60_000
            )
    found = visitor.page.locator("details.message")
    visitor.here("/topics/orders/messages?at=key&key=bo&limit=50")
    expect(found).to_have_count(15)
    visitor.here("/topics/orders/messages?at=key&key=nobody")
    expect(visitor.page.get_by_text("No message with this key")).to_be_visible()
    visitor.here("/topics/orders/messages?at=beginning&limit=50")
    expect(found).to_have_count(30)
    expect(found.first).to_contain_text("number 0")
    visitor.here("/topics/orders/messages?at=time&time=2013-01-01T00:51:40&limit=50")
    expect(found).to_have_count(5)
    expect(found.first).to_contain_text("number 25")
    visitor.here("/topics/orders/messages?at=offset&offset=many")
    expect(visitor.page.get_by_text("enter a whole number")).to_be_visible()
    visitor.expected = ("422",)


def test_a_groups_offsets_are_moved_after_a_preview(visitor: Visitor, service: Service) -> None:
    visitor.make_topic("orders", partitions=1)
    text = visitor.make_key("reader")
    with penstock.Client(bootstrap=service.bootstrap, api_key=text) as client:
        with client.producer() as producer:
            for number in range(10):
                producer.send("orders", b"%d" % number)
        with client.consumer("orders", group="night shift") as consumer:
            seen = 0
            while seen < 10:
                seen += len(consumer.poll(timeout=5))
        assert client.group("night shift").offsets == {("orders", 0): 10}

    visitor.here("/groups")
    visitor.page.get_by_role("link", name="night shift").click()
    expect(visitor.page.get_by_text("messages not read yet")).to_be_visible()
    visitor.page.get_by_role("link", name="Move offsets").click()
    visitor.page.get_by_role("button", name="Preview").click()
    expect(visitor.page.get_by_text("10 read again")).to_be_visible()
    visitor.page.get_by_role("button", name="Move offsets in 1 partition").click()
    expect(visitor.page.get_by_role("status").first).to_contain_text("moved in 1 partition")
    with penstock.Client(bootstrap=service.bootstrap, api_key=text) as client:
        assert client.group("night shift").offsets == {("orders", 0): 0}


def test_a_topic_is_edited_and_deleted_by_its_typed_name(visitor: Visitor) -> None:
    visitor.make_topic("orders", partitions=1)
    expect(visitor.page.get_by_text("Nothing was read back from the disks yet")).to_be_visible()
    visitor.page.get_by_role("link", name="Settings", exact=True).click()
    visitor.page.get_by_label("Partitions").fill("4")
    visitor.page.get_by_role("button", name="Save").click()
    expect(visitor.page.locator("table.cards tbody tr")).to_have_count(4)
    visitor.page.get_by_role("link", name="Delete", exact=True).click()
    visitor.page.get_by_label("Type the topic's name").fill("orders")
    visitor.page.get_by_role("button", name="Delete topic").click()
    expect(visitor.page.get_by_role("heading", name="No topics yet")).to_be_visible()
