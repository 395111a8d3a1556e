"""Changes of people's addresses: asked for, confirmed, taken back; and what strangers and thieves get of them."""

import re
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.test import Client
from django.utils import timezone

from control_plane.audit.models import AuditEntry
from control_plane.mail import sending
from control_plane.mail.models import Mail
from penstock.contract.errors import AlreadyExists
from penstock.contract.ids import SYSTEM_TENANT
from tenants import actions as tenants
from tenants.accounts import actions as accounts
from tenants.addresses import queries
from tenants.models import AddressChange, PasswordReset, Person, ProviderIdentity, Session
from tests.control_plane.accounts.conftest import link_in
from tests.control_plane.world import ACTOR, PASSWORD, call, make_person
from tests.mail_server import MailServer, text_of

pytestmark = pytest.mark.django_db
OLD, NEW = "ann@example.com", "ann@new.example"
ANOTHER = "another horse, another battery"


@pytest.fixture
def ann() -> str:
    """The token of Ann's sign-in."""
    _, _, token = tenants.sign_up(email=OLD, password=PASSWORD, tenant_name="acme", request_id="", source="")
    return token


def ask(token: str, email: str = NEW, **given: str) -> int:
    body = {"email": email, "present": PASSWORD, **given}
    return call("POST", "/v1/email/change", body, token=token).status


def changed(ann: str, mails: MailServer, email: str = NEW) -> str:
    """Ann has the address; the token of the link that takes it back."""
    before = Person.objects.get().email
    assert ask(ann, email) == 200
    token = link_in(mails, email).rsplit("/", 1)[1]
    assert call("POST", "/v1/email/confirm", {"token": token}, token=ann).status == 200
    return link_in(mails, before).rsplit("/", 1)[1]


def actions_logged() -> list[str]:
    rows = AuditEntry.objects.filter(tenant=SYSTEM_TENANT, action__startswith="person.email")
    return [row.action for row in rows.order_by("sequence")]


def test_the_new_address_is_the_persons_once_they_use_its_link_signed_in(ann: str, mails: MailServer) -> None:
    person = Person.objects.get()
    other = tenants.open_session(person, source="", browser="")
    accounts.make_reset(ACTOR, person)
    assert ask(ann, f"  {NEW.upper()} ") == 200
    waiting = call("GET", "/v1/email", token=ann)
    assert waiting.body["email"] == OLD and waiting.body["change"]["email"] == NEW
    link = link_in(mails, NEW)
    token = link.rsplit("/", 1)[1]
    assert call("POST", "/v1/email/confirm", {"token": token}).status == 401
    stranger = make_person("stranger@else.example")[1]
    assert call("POST", "/v1/email/confirm", {"token": token}, token=stranger).status == 404
    assert Person.objects.filter(email=OLD).exists(), "who mistypes an address gives it nothing"
    answer = call("POST", "/v1/email/confirm", {"token": token}, token=ann)
    assert answer.body == {"email": NEW, "verified": True, "change": None}
    assert answer.headers["ETag"] != waiting.headers["ETag"]
    assert call("POST", "/v1/email/confirm", {"token": token}, token=ann).status == 404, "once"
    assert call("GET", "/v1/email", token=ann).status == 200
    assert call("GET", "/v1/email", token=other).status == 401
    assert not PasswordReset.objects.filter(ended_at=None).exists()
    assert call("POST", "/v1/sign-in", {"email": OLD, "password": PASSWORD}).status == 401
    assert call("POST", "/v1/sign-in", {"email": NEW, "password": PASSWORD}).status == 200
    assert [row.email for row in EmailAddress.objects.all()] == [NEW]
    assert actions_logged() == ["person.email_ask", "person.email"]
    sending.send_due()
    said = " ".join(text_of(mails.to(OLD)[-1]).split())
    assert NEW in said and "take it back until" in said


def test_in_the_console_the_button_counts_and_not_the_look(ann: str, mails: MailServer) -> None:
    browser = Client()
    browser.cookies["penstock"] = ann
    assert browser.get("/account/address").status_code == 200
    wrong = browser.post("/account/address", {"email": NEW, "present": "wrong"})
    assert wrong.status_code == 422 and not AddressChange.objects.exists()
    assert browser.post("/account/address", {"email": NEW, "present": PASSWORD})["Location"] == "/account"
    assert NEW in browser.get("/account").content.decode()
    link = link_in(mails, NEW)
    assert Client().get(link)["Location"] == f"/sign-in?next={link}"
    assert NEW in browser.get(link).content.decode() and Person.objects.get().email == OLD
    assert browser.post(link)["Location"] == "/account"
    assert Person.objects.get().email == NEW
    undo = link_in(mails, OLD)
    thief = Client()
    assert OLD in thief.get(undo).content.decode() and Person.objects.get().email == NEW
    to_reset = thief.post(undo)["Location"]
    assert to_reset.startswith("/reset/") and Person.objects.get().email == OLD
    assert browser.get("/account").status_code == 302, "signed out"
    assert thief.post(to_reset, {"new": ANOTHER})["Location"] == "/sign-in"
    assert thief.get(undo).status_code == 404, "once"


def test_no_answer_shows_whether_the_address_has_an_account(ann: str, mails: MailServer) -> None:
    make_person("bob@example.com")
    answers = [
        call("POST", "/v1/email/change", {"email": email, "present": PASSWORD}, token=ann)
        for email in ("bob@example.com", "free@example.com")
    ]
    assert [one.status for one in answers] == [200, 200]
    assert [one.body["change"].pop("email") for one in answers] == ["bob@example.com", "free@example.com"]
    assert answers[0].body.keys() == answers[1].body.keys()
    assert {*answers[0].body["change"]} == {*answers[1].body["change"]} == {"expires_at"}
    ask(ann, "bob@example.com")
    assert call("GET", "/v1/email", token=ann).body["change"]["email"] == "bob@example.com"
    sending.send_due()
    assert {one["Subject"] for one in mails.to("bob@example.com")} == {"This address has an account already"}
    assert not re.search(r"/address/psc_", text_of(mails.to("bob@example.com")[0]))


def test_an_address_that_is_taken_meanwhile_is_refused_to_its_reader_only(
    ann: str, mails: MailServer
) -> None:
    ask(ann)
    token = link_in(mails, NEW).rsplit("/", 1)[1]
    make_person(NEW)
    assert call("POST", "/v1/email/confirm", {"token": token}, token=ann).status == 409
    assert Person.objects.filter(email=OLD).exists() and "person.email" not in actions_logged()


def test_the_password_is_wanted_and_a_code_some_time_after_signing_in(ann: str) -> None:
    assert ask(ann, present="wrong") == 400
    assert ask(ann, present="") == 400
    assert not AddressChange.objects.exists()


def test_a_person_without_a_password_has_to_have_signed_in_just_now(mails: MailServer) -> None:
    person, _ = make_person("oidc@example.com")
    person.set_unusable_password()
    person.save()
    token = tenants.open_session(person, source="", browser="")
    assert ask(token, present="") == 200
    Session.objects.update(created_at=timezone.now() - timedelta(minutes=16))
    answer = call("POST", "/v1/email/change", {"email": "x@example.com"}, token=token)
    assert answer.status == 400 and "sign out and in again" in answer.body["detail"]


@pytest.mark.parametrize(
    "email",
    [
        "аnn@example.com",
        "ann@exаmple.com",
        "ann",
        "",
        "a@b",
        "a@example.com\r\nBcc: x@y.example",
        "a" * 250 + "@b.cc",
    ],
)
def test_what_is_no_address_or_looks_like_another_is_refused_as_at_sign_up(ann: str, email: str) -> None:
    assert ask(ann, email) == 400
    assert not Mail.objects.exists()


def test_ones_own_address_is_no_change(ann: str) -> None:
    assert ask(ann, OLD.upper()) == 400


def test_a_newer_change_a_withdrawal_a_new_password_and_a_day_end_the_one_before(
    ann: str, mails: MailServer
) -> None:
    def token_to(email: str) -> str:
        assert ask(ann, email) == 200
        return link_in(mails, email).rsplit("/", 1)[1]

    def is_refused(token: str) -> bool:
        return call("POST", "/v1/email/confirm", {"token": token}, token=ann).status == 404

    first = token_to("one@example.com")
    second = token_to("two@example.com")
    assert is_refused(first)
    tag = call("GET", "/v1/email", token=ann).headers["ETag"]
    assert call("DELETE", "/v1/email/change", token=ann, If_Match='"other"').status == 412
    assert call("DELETE", "/v1/email/change", token=ann, If_Match=tag).status == 204
    assert call("DELETE", "/v1/email/change", token=ann).status == 404
    assert is_refused(second)
    third = token_to("three@example.com")
    AddressChange.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert is_refused(third)
    fourth = token_to("four@example.com")
    accounts.change_password(ACTOR, Person.objects.get(), present=PASSWORD, new=ANOTHER, keep=ann)
    assert is_refused(fourth)


def test_an_address_gets_three_e_mails_an_hour_and_the_first_links_go_on(ann: str, mails: MailServer) -> None:
    assert [ask(ann) for _ in range(5)] == [200, 200, 200, 429, 429]
    assert Mail.objects.filter(to=NEW).count() == 3
    token = link_in(mails, NEW).rsplit("/", 1)[1]
    assert call("POST", "/v1/email/confirm", {"token": token}, token=ann).status == 200


def test_an_address_that_got_its_e_mails_of_the_hour_is_refused_and_what_waits_stays(
    ann: str, mails: MailServer
) -> None:
    taken, free = "bob@example.com", "free@example.com"
    make_person(taken)
    for address in (taken, free):
        assert [ask(ann, address) for _ in range(3)] == [200] * 3
    assert ask(ann) == 200
    token = link_in(mails, NEW).rsplit("/", 1)[1]
    said = set()
    for address in (taken, free):
        answer = call("POST", "/v1/email/change", {"email": address, "present": PASSWORD}, token=ann)
        assert answer.status == 429 and answer.headers["Retry-After"] == "3600"
        said.add(answer.body["detail"].replace(address, ""))
    assert len(said) == 1, "it does not show which one has an account"
    browser = Client()
    browser.cookies["penstock"] = ann
    page = browser.post("/account/address", {"email": free, "present": PASSWORD})
    assert page.status_code == 429 and "is on its way" not in page.content.decode()
    assert call("GET", "/v1/email", token=ann).body["change"]["email"] == NEW
    assert call("POST", "/v1/email/confirm", {"token": token}, token=ann).status == 200


# -- taken back -----------------------------------------------------------------------------------------


def test_the_address_before_takes_all_of_a_thiefs_change_back(ann: str, mails: MailServer) -> None:
    undo = changed(ann, mails)
    person = Person.objects.get()
    ProviderIdentity.objects.create(public_id="idn_1", person=person, issuer="https://id", subject="thief")
    later = changed(ann, mails, "third@example.com")
    answer = call("POST", "/v1/email/take-back", {"token": undo})
    assert answer.status == 200 and answer.body["email"] == OLD
    assert not Session.objects.exists() and not ProviderIdentity.objects.exists()
    assert call("POST", "/v1/sign-in", {"email": OLD, "password": PASSWORD}).status == 401
    for token in (undo, later):
        assert call("POST", "/v1/email/take-back", {"token": token}).status == 404
    given = {"token": answer.body["token"], "new": ANOTHER}
    assert call("POST", "/v1/password/reset", given).status == 204
    assert call("POST", "/v1/sign-in", {"email": OLD, "password": ANOTHER}).status == 200
    assert actions_logged()[-1] == "person.email_undo"
    sending.send_due()
    assert "changed back" in mails.to("third@example.com")[-1]["Subject"]


def test_a_provider_that_was_linked_before_the_change_opens_nothing_once_it_is_taken_back(
    ann: str, mails: MailServer
) -> None:
    person = Person.objects.get()
    ProviderIdentity.objects.create(public_id="idn_1", person=person, issuer="https://id", subject="thief")
    undo = changed(ann, mails)
    said = " ".join(text_of(mails.to(OLD)[-1]).split())
    assert "no provider opens it any more until you link it again" in said
    assert call("POST", "/v1/email/take-back", {"token": undo}).status == 200
    assert not ProviderIdentity.objects.exists()
    assert AuditEntry.objects.get(action="person.email_undo").after["providers_unlinked"] == 1


def test_an_earlier_change_can_still_be_taken_back_after_a_later_one_was(ann: str, mails: MailServer) -> None:
    first = changed(ann, mails)
    second = changed(ann, mails, "third@example.com")
    assert call("POST", "/v1/email/take-back", {"token": second}).body["email"] == NEW
    assert call("POST", "/v1/email/take-back", {"token": first}).body["email"] == OLD


def test_for_seven_days_the_address_before_is_kept_and_then_free(ann: str, mails: MailServer) -> None:
    undo = changed(ann, mails)
    with pytest.raises(AlreadyExists):
        tenants.add_person(OLD, "!")
    bob = make_person("bob@example.com")
    call("POST", "/v1/sign-up", {"email": OLD, "tenant": "other"})
    sending.send_due()
    assert mails.to(OLD)[-1]["Subject"] == "You have an account already"
    AddressChange.objects.update(undo_until=timezone.now() - timedelta(seconds=1))
    assert call("POST", "/v1/email/take-back", {"token": undo}).status == 404
    assert tenants.add_person(OLD, "!").email == OLD
    assert bob[0].email == "bob@example.com"


def test_the_person_themselves_may_go_back_before_the_days_end(ann: str, mails: MailServer) -> None:
    changed(ann, mails)
    changed(ann, mails, OLD)
    assert Person.objects.get().email == OLD


def test_without_a_mail_server_the_links_are_in_files_and_prove_nothing(ann: str) -> None:
    assert ask(ann) == 200
    (found,) = re.findall(r"/address/(psc_\w+)", Mail.objects.get(to=NEW).text)
    assert call("POST", "/v1/email/confirm", {"token": found}, token=ann).body["verified"] is False
    assert not queries.is_proved(Person.objects.get())


def test_no_token_of_a_link_is_kept(ann: str, mails: MailServer) -> None:
    undo = changed(ann, mails)
    kept = repr([list(AddressChange.objects.values_list()), list(AuditEntry.objects.values_list("after"))])
    assert undo not in kept and "psc_" not in kept
