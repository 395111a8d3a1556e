"""How pages travel, and what they show where no scripts run."""

import gzip
import re

import pytest
from django.test import Client

from control_plane.topics import actions as topics
from tenants.roles import Standing
from tests.control_plane.web.test_pages import signed_in
from tests.control_plane.world import ACTOR, House, make_house
from web import decoding

pytestmark = pytest.mark.django_db
GZIP = {"Accept-Encoding": "gzip"}


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    topics.create_topic(ACTOR, made.tenant, name="orders", partitions=1, settings={})
    return made


def test_pages_travel_compressed(house: House) -> None:
    response = signed_in(house).get("/t/acme", headers=GZIP)
    assert response["Content-Encoding"] == "gzip"
    assert b"acme" in gzip.decompress(response.content)
    assert "Content-Encoding" not in signed_in(house).get("/t/acme")


def test_answers_to_programs_stay_as_they_are() -> None:
    assert "Content-Encoding" not in Client().get("/v1/openapi.json", headers=GZIP)


def test_a_file_whose_address_names_its_content_is_kept_for_a_year() -> None:
    page = Client().get("/sign-in").content.decode()
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    assert addresses
    for address in addresses:
        for wanted, kept in ((address, True), (address.replace("?v=", "?v=0"), False)):
            response = Client().get(wanted, headers=GZIP)
            assert response.status_code == 200
            assert ("immutable" in response["Cache-Control"]) is kept, wanted
            response.close()


@pytest.mark.parametrize("page", ["", "/topics/orders", "/groups", "/group?name=billing"])
def test_a_page_without_scripts_is_sent_to_the_brokers_answer(house: House, page: str) -> None:
    client = signed_in(house)
    first = client.get(f"/t/acme{page}").content.decode()
    refresh = re.search(r'<noscript><meta http-equiv="refresh" content="0;url=([^"]+)"></noscript>', first)
    assert refresh is not None
    address = f"/t/acme{page.partition('?')[0]}" + refresh[1].replace("&amp;", "&")
    answered = client.get(address)
    assert answered.status_code == 200
    text = answered.content.decode()
    assert "Asking the brokers" not in text
    assert "The brokers cannot be reached now." in text, "no broker runs here, and the page says so"


def test_the_answer_without_scripts_keeps_the_permission_table(house: House) -> None:
    assert signed_in(house, Standing.BILLING).get("/t/acme/groups?now=1").status_code == 403


def test_a_page_of_large_messages_is_small() -> None:
    for content in (b"x" * 1_000_000, bytes(range(256)) * 4_000):
        shown = decoding.decode(content, decoding.LISTED_MAX)
        assert shown.shortened and shown.size == len(content)
        assert len(shown.whole) < 4_000


@pytest.mark.parametrize("place", ["9/0", "0/x", "x/0", "0/9999999999999999999"])
@pytest.mark.parametrize("more", ["", "/value"])
def test_a_message_that_cannot_be_is_not_found(house: House, place: str, more: str) -> None:
    assert signed_in(house).get(f"/t/acme/topics/orders/messages/{place}{more}").status_code == 404
