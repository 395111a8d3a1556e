"""Links in e-mails: signing up, forgotten passwords and proofs of addresses; and that strangers learn nothing."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.mail import sending
from control_plane.mail.models import Mail
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from tenants import actions as tenants
from tenants.accounts import actions as accounts
from tenants.addresses import actions, queries
from tenants.models import AddressProof, Membership, PasswordReset, PendingSignUp, Person, Tenant
from tests.control_plane.accounts.conftest import link_in
from tests.control_plane.world import PASSWORD, call, make_house
from tests.mail_server import MailServer, text_of

pytestmark = pytest.mark.django_db
EMAIL = "ann@example.com"
NEW = "another horse, another battery"


def known(email: str = EMAIL) -> Person:
    person, _, _ = tenants.sign_up(
        email=email, password=PASSWORD, tenant_name=email.split("@")[0], request_id="", source=""
    )
    return person


def audited() -> list[str]:
    rows = AuditEntry.objects.filter(tenant=SYSTEM_TENANT, action__startswith="person.")
    return [entry.action for entry in rows.order_by("sequence")]


def plain(page: bytes) -> str:
    """A page without what differs from one request to the next."""
    lines = page.decode().splitlines()
    return "\n".join(line for line in lines if "csrf" not in line and "X-CSRFToken" not in line)


# -- signing up -----------------------------------------------------------------------------------------


def test_signing_up_by_a_link_makes_a_person_whose_address_is_proved(mails: MailServer) -> None:
    browser = Client()
    answer = browser.post("/sign-up", {"email": EMAIL, "tenant": "acme"})
    assert answer.status_code == 200 and "penstock" not in answer.cookies
    assert not Person.objects.exists() and not Tenant.objects.filter(name="acme").exists()
    link = link_in(mails, EMAIL)
    assert EMAIL in browser.get(link).content.decode() and not Person.objects.exists(), (
        "to look makes nothing"
    )
    assert browser.post(link, {"password": "short", "tenant": "acme"}).status_code == 422
    assert browser.post(link, {"password": PASSWORD, "tenant": "acme"})["Location"] == "/t/acme"
    assert browser.get("/t/acme").status_code == 200
    assert queries.is_proved(Person.objects.get(email=EMAIL))
    assert browser.get(link).status_code == 404, "once"
    assert audited() == ["person.sign_up_link", "person.verify"]


def test_signing_up_tells_nobody_whether_an_address_is_known(mails: MailServer) -> None:
    known()
    answers = [Client().post("/sign-up", {"email": e, "tenant": "new"}) for e in (EMAIL, "bob@example.com")]
    pages = [plain(one.content).replace(EMAIL, "X").replace("bob@example.com", "X") for one in answers]
    assert [one.status_code for one in answers] == [200, 200] and pages[0] == pages[1]
    over_rest = [
        call("POST", "/v1/sign-up", {"email": e, "password": PASSWORD, "tenant": "new"})
        for e in (EMAIL, "bob@example.com")
    ]
    assert [one.status for one in over_rest] == [202, 202]
    assert [one.body for one in over_rest] == [{"to": EMAIL}, {"to": "bob@example.com"}]
    sending.send_due()
    assert [one["Subject"] for one in mails.to(EMAIL)] == ["You have an account already"] * 2
    assert [one["Subject"] for one in mails.to("bob@example.com")] == ["Finish your sign-up"] * 2


def test_a_name_that_is_taken_meanwhile_is_chosen_anew_with_the_same_link(mails: MailServer) -> None:
    browser = Client()
    browser.post("/sign-up", {"email": EMAIL, "tenant": "acme"})
    link = link_in(mails, EMAIL)
    make_house("acme")
    answer = browser.post(link, {"password": PASSWORD, "tenant": "acme"})
    assert answer.status_code == 422 and "is taken" in answer.content.decode()
    assert not Person.objects.filter(email=EMAIL).exists()
    assert browser.post(link, {"password": PASSWORD, "tenant": "acme-2"})["Location"] == "/t/acme-2"


def test_over_rest_a_sign_up_is_finished_with_the_token(mails: MailServer) -> None:
    call("POST", "/v1/sign-up", {"email": EMAIL, "tenant": "acme"})
    token = link_in(mails, EMAIL).rsplit("/", 1)[1]
    answer = call("POST", "/v1/sign-up/finish", {"token": token, "password": PASSWORD})
    assert answer.status == 201 and answer.body["tenant"]["name"] == "acme"
    assert call("GET", "/v1/tenants", token=answer.body["token"]).status == 200
    assert call("POST", "/v1/sign-up/finish", {"token": token, "password": PASSWORD}).status == 404


def test_an_address_gets_three_links_an_hour_and_the_page_says_the_same(mails: MailServer) -> None:
    for _ in range(5):
        assert Client().post("/sign-up", {"email": EMAIL, "tenant": "acme"}).status_code == 200
    assert Mail.objects.filter(to=EMAIL).count() == PendingSignUp.objects.count() == 3


def test_a_link_to_sign_up_ends_after_a_day(mails: MailServer) -> None:
    actions.ask_to_sign_up(email=EMAIL, tenant_name="acme", request_id="", source="")
    link = link_in(mails, EMAIL)
    PendingSignUp.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert Client().get(link).status_code == 404


def test_without_a_mail_server_signing_up_takes_effect_at_once_and_proves_nothing() -> None:
    browser = Client()
    given = {"email": EMAIL, "password": PASSWORD, "tenant": "acme"}
    assert browser.post("/sign-up", given)["Location"] == "/t/acme"
    assert not queries.is_proved(Person.objects.get(email=EMAIL))
    assert "not verified" not in browser.get("/account").content.decode(), "it could not be proved"


def test_addresses_that_look_alike_cannot_be_two_people() -> None:
    for address in ("ann@exаmple.com", "аnn@example.com", "ann@例え.jp"):  # the first two with a Cyrillic a
        with pytest.raises(InvalidRequest, match=r"email: .* (ASCII form|is no e-mail address)"):
            tenants.checked_email(address)
    assert tenants.checked_email("ann@xn--exmple-4nf.com") == "ann@xn--exmple-4nf.com"
    with pytest.raises(InvalidRequest, match="tenant: "):
        tenants.checked_tenant_name("аcme")


# -- forgotten passwords --------------------------------------------------------------------------------


def test_a_forgotten_password_is_chosen_anew_by_a_link_which_proves_the_address(mails: MailServer) -> None:
    person = known()
    other = Client()
    other.post("/sign-in", {"email": EMAIL, "password": PASSWORD})
    browser = Client()
    assert browser.post("/forgot", {"email": f" {EMAIL.upper()}"}).status_code == 200
    link = link_in(mails, EMAIL)
    assert browser.post(link, {"new": NEW})["Location"] == "/sign-in"
    assert other.get("/account").status_code == 302, "every sign-in has ended"
    assert browser.post("/sign-in", {"email": EMAIL, "password": NEW}).status_code == 302
    assert queries.is_proved(person)
    assert audited() == ["person.reset_mail", "person.verify", "person.password"]
    sending.send_due()
    assert [one["Subject"] for one in mails.to(EMAIL)] == [
        "Choose a new password",
        "Your password was changed",
    ]


def test_a_forgotten_password_tells_nobody_whether_an_address_is_known(mails: MailServer) -> None:
    known()
    pages = [
        plain(Client().post("/forgot", {"email": e}).content).replace(e, "X")
        for e in (EMAIL, "nobody@example.com")
    ]
    assert pages[0] == pages[1]
    over_rest = [call("POST", "/v1/password/forgot", {"email": e}) for e in (EMAIL, "nobody@example.com")]
    assert [one.status for one in over_rest] == [202, 202]
    assert not Mail.objects.exclude(to=EMAIL).exists()


def test_a_link_that_an_operator_made_proves_no_address(mails: MailServer) -> None:
    person = known()
    _, token = accounts.make_reset(tenants_actor(person), person)
    accounts.reset_password(token, new=NEW, request_id="", source="")
    assert not queries.is_proved(person)


def test_a_stranger_who_asks_again_and_again_ends_no_link_and_fills_no_mailbox(mails: MailServer) -> None:
    known()
    Client().post("/forgot", {"email": EMAIL})
    first = link_in(mails, EMAIL)
    for _ in range(5):
        Client().post("/forgot", {"email": EMAIL})
    assert PasswordReset.objects.count() == 3
    assert Client().get(first).status_code == 200


def test_asking_for_e_mails_is_slowed_down(mails: MailServer) -> None:
    client = Client()
    pages = {client.post("/forgot", {"email": f"a{n}@example.com"}).status_code for n in range(21)}
    assert pages == {200, 429}
    calls = {call("POST", "/v1/password/forgot", {"email": "a@example.com"}).status for _ in range(21)}
    assert calls == {202, 429}


def test_over_rest_a_password_is_reset_with_the_token(mails: MailServer) -> None:
    known()
    call("POST", "/v1/password/forgot", {"email": EMAIL})
    token = link_in(mails, EMAIL).rsplit("/", 1)[1]
    assert call("POST", "/v1/password/reset", {"token": token, "new": NEW}).status == 204
    assert call("POST", "/v1/sign-in", {"email": EMAIL, "password": NEW}).status == 200
    assert call("POST", "/v1/password/reset", {"token": token, "new": NEW}).status == 404


# -- proofs of addresses, and invitations ---------------------------------------------------------------


def test_an_address_is_proved_by_the_button_behind_its_link(mails: MailServer) -> None:
    person = known()
    browser = Client()
    browser.post("/sign-in", {"email": EMAIL, "password": PASSWORD})
    assert "not verified" in browser.get("/account").content.decode()
    assert browser.post("/account/verify")["Location"] == "/account"
    link = link_in(mails, EMAIL)
    assert Client().get(link).status_code == 200 and not queries.is_proved(person), (
        "a program that opens links"
    )
    Client().post(link)
    assert queries.is_proved(person)
    assert ">verified<" in browser.get("/account").content.decode()
    with pytest.raises(NotFound):
        actions.prove(link.rsplit("/", 1)[1], request_id="", source="")
    with pytest.raises(InvalidRequest, match="verified already"):
        actions.ask_for_proof(tenants_actor(person), person)
    assert not AddressProof.objects.filter(ended_at=None).exists()


def test_an_invitation_is_mailed_to_the_person_and_shown_to_nobody_else(mails: MailServer) -> None:
    house = make_house("acme")
    owner = next(token for standing, token in house.credentials.items() if standing.value == "owner")
    answer = call(
        "POST", "/v1/invitations", {"email": EMAIL, "role": "auditor"}, token=owner, tenant=house.tenant
    )
    assert answer.status == 201 and answer.body["token"] is None and answer.body["link"] is None
    link = link_in(mails, EMAIL)
    assert "owner@acme.example invites you to the tenant acme as auditor" in " ".join(
        text_of(mails.to(EMAIL)[-1]).split()
    )
    assert Client().post(link, {"password": PASSWORD})["Location"] == "/t/acme"
    person = Person.objects.get(email=EMAIL)
    assert queries.is_proved(person) and Membership.objects.get(person=person).role == "auditor"


def tenants_actor(person: Person) -> Actor:
    return Actor(kind=ActorKind.PERSON, id=person.public_id)
