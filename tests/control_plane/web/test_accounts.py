"""The account's page, the page of a reset link, and operators' pages of people and operators."""

import re

import pytest
from django.test import Client

from penstock.contract.ids import SYSTEM_TENANT
from tenants import actions, queries
from tenants.accounts import actions as accounts
from tenants.accounts import queries as account_queries
from tenants.models import Person, Session
from tests.control_plane.world import ACTOR, PASSWORD
from web.formats import browser

pytestmark = pytest.mark.django_db

NEW = "another horse, another battery"
EMAIL = "ann@example.com"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture
def ann() -> Client:
    """Ann's browser, after she has signed up."""
    client = Client(headers={"User-Agent": FIREFOX})
    client.post("/sign-up", {"email": EMAIL, "password": PASSWORD, "tenant": "acme"})
    return client


def signed_in_again() -> Client:
    client = Client()
    assert client.post("/sign-in", {"email": EMAIL, "password": PASSWORD}).status_code == 302
    return client


@pytest.fixture
def olga() -> Client:
    """An operator's browser."""
    client = Client()
    token = actions.create_operator(ACTOR, name="olga", tenant=SYSTEM_TENANT)
    client.post("/operator/sign-in", {"token": token})
    return client


def person() -> Person:
    return Person.objects.get(email=EMAIL)


def test_the_page_lists_sign_ins_and_ends_one_or_all_others(ann: Client) -> None:
    others = [signed_in_again() for _ in range(3)]
    text = ann.get("/account").content.decode()
    assert "Firefox on Linux" in text and text.count(">here<") == 1 and "127.0.0.1" in text
    ids = re.findall(r"/account/sign-ins/(sin_\w+)/end", text)
    assert len(ids) == 3, "one's own is not offered"
    assert ann.post(f"/account/sign-ins/{ids[0]}/end")["Location"] == "/account"
    assert sum(client.get("/t/acme").status_code == 200 for client in others) == 2
    ann.post("/account/sign-ins/end-others")
    assert all(client.get("/t/acme").status_code == 302 for client in others)
    assert ann.get("/t/acme").status_code == 200


def test_another_persons_sign_in_is_not_ended(ann: Client) -> None:
    bob = Client()
    bob.post("/sign-up", {"email": "bob@example.com", "password": PASSWORD, "tenant": "other"})
    (row,) = account_queries.sign_ins(person())
    assert bob.post(f"/account/sign-ins/{row.public_id}/end").status_code == 404
    assert ann.get("/t/acme").status_code == 200


def test_the_password_is_changed_and_the_browser_stays_signed_in(ann: Client) -> None:
    other = signed_in_again()
    assert ann.post("/account", {"present": PASSWORD, "new": NEW})["Location"] == "/account"
    assert "One other sign-in has ended" in ann.get("/account").content.decode()
    assert other.get("/t/acme").status_code == 302
    assert Client().post("/sign-in", {"email": EMAIL, "password": PASSWORD}).status_code == 422
    assert Client().post("/sign-in", {"email": EMAIL, "password": NEW}).status_code == 302


def test_what_is_wrong_stands_at_its_field_and_no_password_comes_back(ann: Client) -> None:
    for given, said in (
        ({"present": "a wrong one", "new": NEW}, "This is not your password"),
        ({"present": PASSWORD, "new": "short"}, "too short"),
    ):
        answer = ann.post("/account", given)
        text = answer.content.decode()
        assert answer.status_code == 422 and said in text
        assert not any(secret in text for secret in given.values() if secret != "short")


def test_guessing_the_password_on_the_page_is_slowed_down(ann: Client) -> None:
    statuses = {ann.post("/account", {"present": "wrong", "new": NEW}).status_code for _ in range(22)}
    assert statuses == {422, 429}


@pytest.mark.parametrize("path", ["/account", "/account/sign-ins/end-others", "/account/sign-ins/sin_x/end"])
def test_an_account_is_for_who_has_signed_in(path: str) -> None:
    assert Client().post(path)["Location"].startswith("/sign-in")


def test_an_operator_makes_a_link_and_the_person_chooses_a_password(ann: Client, olga: Client) -> None:
    text = olga.get("/operator/people?q=ann@").content.decode()
    assert EMAIL in text
    page = f"/operator/people/{person().public_id}"
    assert "acme" in olga.get(page).content.decode()
    (link,) = re.findall(r"/reset/(psr_\w+)", olga.post(f"{page}/reset").content.decode())
    assert link not in olga.get(page).content.decode()
    stranger = Client()
    assert EMAIL in stranger.get(f"/reset/{link}").content.decode()
    assert stranger.post(f"/reset/{link}", {"new": "short"}).status_code == 422
    assert stranger.post(f"/reset/{link}", {"new": NEW})["Location"] == "/sign-in"
    assert ann.get("/t/acme").status_code == 302, "who had signed in before is out"
    assert stranger.get(f"/reset/{link}").status_code == 404
    assert stranger.post("/sign-in", {"email": EMAIL, "password": NEW}).status_code == 302


def test_a_link_that_leads_nowhere_is_told(ann: Client) -> None:
    answer = Client().get("/reset/psr_nothing")
    assert answer.status_code == 404 and "ask for a new one" in answer.content.decode()


def test_an_operator_revokes_another_and_the_last_one_stays(olga: Client) -> None:
    assert "the last token cannot be revoked" in olga.get("/operator/operators").content.decode()
    actions.create_operator(ACTOR, name="pete", tenant=SYSTEM_TENANT)
    own, other = queries.operators().order_by("pk")
    page = f"/operator/operators/{other.public_id}/revoke"
    assert "pete" in olga.get(page).content.decode() and queries.operators().count() == 2
    assert "The token of pete is revoked" in olga.post(page, follow=True).content.decode()
    assert olga.post(page).status_code == 404
    answer = olga.post(f"/operator/operators/{own.public_id}/revoke")
    assert answer.status_code == 422 and "olga is the last one" in answer.content.decode()
    assert olga.get("/operator").status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/operator/people"),
        ("GET", "/operator/people/{person}"),
        ("POST", "/operator/people/{person}/reset"),
        ("GET", "/operator/operators"),
        ("POST", "/operator/operators/{operator}/revoke"),
    ],
)
def test_people_and_operators_are_for_operators(ann: Client, method: str, path: str) -> None:
    for name in ("olga", "pete"):
        actions.create_operator(ACTOR, name=name, tenant=SYSTEM_TENANT)
    operator = queries.operators().order_by("pk")[0]
    path = path.format(person=person().public_id, operator=operator.public_id)
    for client in (Client(), ann):
        assert client.generic(method, path)["Location"] == "/operator/sign-in"
    assert queries.operators().count() == 2 and not person().resets.exists()


def test_a_sign_in_that_has_ended_is_not_listed(ann: Client) -> None:
    signed_in_again()
    mine = Session.objects.order_by("pk")[0]
    Session.objects.exclude(pk=mine.pk).update(expires_at=mine.created_at)
    assert "End all others" not in ann.get("/account").content.decode()


def test_a_link_is_not_taken_by_another_word_of_the_same_length(ann: Client) -> None:
    _, token = accounts.make_reset(ACTOR, person())
    assert Client().get(f"/reset/{token[:-1]}").status_code == 404
    assert Client().get(f"/reset/{token}").status_code == 200


@pytest.mark.parametrize(
    ("agent", "shown"),
    [
        (FIREFOX, "Firefox on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18 Safari/605.1.15",
            "Safari on macOS",
        ),
        (
            "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        ("curl/8.14.1", "curl/8.14.1"),
        ("penstock 0.2.0 on anns-laptop", "penstock on anns-laptop"),
        ("", "unknown"),
        ("   ", "unknown"),
    ],
)
def test_browsers_are_named_shortly(agent: str, shown: str) -> None:
    assert browser(agent) == shown
