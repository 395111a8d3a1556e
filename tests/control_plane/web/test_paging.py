"""Lists in pages: links keep what was searched for and where another list of the page is."""

from html import unescape

import pytest
from django.test import Client

from tenants.models import Membership, Person
from tenants.roles import Standing
from tests.control_plane.web.filling import fill
from tests.control_plane.web.test_pages import signed_in, text_of
from tests.control_plane.world import House, make_house

pytestmark = pytest.mark.django_db


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    fill(made.tenant, Person.objects.get(email="owner@acme.example"), range(60))
    return made


@pytest.fixture
def owner(house: House) -> Client:
    return signed_in(house)


def page(client: Client, address: str) -> str:
    return unescape(text_of(client.get(address)))


def test_the_next_page_of_a_search_is_of_that_search(owner: Client) -> None:
    assert 'href="?q=topic-0&page=2"' in page(owner, "/t/acme/topics?q=topic-0")
    second = page(owner, "/t/acme/topics?q=topic-0&page=2")
    assert "51–60 of 60" in second and 'href="?q=topic-0&page=1"' in second


def test_each_list_of_a_page_is_turned_alone(owner: Client) -> None:
    text = page(owner, "/t/acme/people?page=2")
    assert "51–65 of 65" in text and "1–50 of 60" in text
    assert 'href="?page=2&invited=2#invited"' in text and 'id="invited"' in text
    assert "51–60 of 60" in page(owner, "/t/acme/people?page=2&invited=2")


def test_an_owner_beside_one_on_another_page_may_get_another_role(house: House, owner: Client) -> None:
    assert "Leave" not in page(owner, "/t/acme/people"), "the last owner stays"
    Membership.objects.filter(tenant=house.tenant, person__email="person-059@acme.example").update(
        role="owner"
    )
    assert "Leave" in page(owner, "/t/acme/people")


def test_all_other_sign_ins_can_be_ended_from_any_page_of_them(owner: Client) -> None:
    for address in ("/account", "/account?page=2"):
        assert "End all others" in page(owner, address)
    assert "51–61 of 61" in page(owner, "/account?page=2")


def test_many_keys_that_end_with_their_maker_are_counted_and_the_first_named(
    house: House, owner: Client
) -> None:
    person = Person.objects.get(email="owner@acme.example").public_id
    text = page(owner, f"/t/acme/people/{person}/remove")
    assert "There are 60; these are the first 20." in text and text.count("<li><bdi>program") == 20


@pytest.mark.parametrize("number", ["0", "-1", "999999999999", "x", "\0", "٣"])
def test_a_page_that_is_not_there_is_the_nearest(owner: Client, number: str) -> None:
    assert "of 60" in text_of(owner.get("/t/acme/topics", {"page": number}))
    assert owner.get("/t/acme/people", {"invited": number}).status_code == 200


def test_an_operators_lists_come_in_pages(house: House) -> None:
    operator = Client()
    operator.post("/operator/sign-in", {"token": house.credentials[Standing.OPERATOR]})
    assert "51–61 of 61" in page(operator, "/operator/operators?page=2")
    person = Person.objects.get(email="owner@acme.example").public_id
    assert "51–100 of 121" in page(operator, f"/operator/people/{person}?page=2")
