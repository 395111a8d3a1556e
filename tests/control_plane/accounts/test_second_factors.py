"""Second factors: codes, passkeys and recovery codes; at sign-in, over REST, and what strangers cannot do with them."""

import json
import re
from typing import Any

import msgspec
import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from control_plane import config
from control_plane.audit.models import AuditEntry
from control_plane.mail.models import Mail
from control_plane.rate_counters import counters
from daemon.settings import Secret
from penstock.contract.errors import InvalidRequest, NotFound
from penstock.contract.ids import SYSTEM_TENANT
from tenants import actions as tenants
from tenants.factors import actions, queries
from tenants.models import FactorSetup, PendingSignIn, Person, Session
from tenants.sign_in.confirming import confirm
from tests.control_plane.accounts.software_passkey import SoftwarePasskey
from tests.control_plane.world import ACTOR, PASSWORD, call
from tests.one_time_codes import code_of
from web import sessions

pytestmark = pytest.mark.django_db
EMAIL = "ann@example.com"


@pytest.fixture
def ann() -> Client:
    """Ann's browser, after she has signed up."""
    client = Client()
    client.post("/sign-up", {"email": EMAIL, "password": PASSWORD, "tenant": "acme"})
    return client


def person() -> Person:
    return Person.objects.get(email=EMAIL)


def add_codes(ann: Client) -> tuple[str, list[str]]:
    """The secret of the app, and the recovery codes."""
    page = ann.get("/account/second-factors/codes").content.decode()
    (shown,) = re.findall(r'id="the-key">([A-Z2-7 ]+)<', page)
    secret = shown.replace(" ", "")
    # An earlier code than the next ones: each counts once.
    given = {"code": code_of(secret, steps=-1), "present": PASSWORD}
    answer = ann.post("/account/second-factors/codes", given)
    assert answer.status_code == 200, answer.content.decode()
    return secret, re.findall(r"\b\d{8}\b", answer.content.decode())


def options_on(page: bytes) -> dict[str, Any]:
    (found,) = re.findall(r'<script id="passkey-options"[^>]*>(.*?)</script>', page.decode())
    asked: dict[str, Any] = json.loads(found)
    return asked


def add_passkey(ann: Client, passkey: SoftwarePasskey, name: str = "laptop") -> Any:
    options = options_on(ann.get("/account/second-factors/passkey").content)
    given = {"name": name, "present": PASSWORD, "answer": json.dumps(passkey.create(options))}
    return ann.post("/account/second-factors/passkey", given)


def with_password() -> Client:
    """A browser in which the password was given, and that is asked for the second factor."""
    client = Client()
    answer = client.post("/sign-in?", {"email": EMAIL, "password": PASSWORD, "next": "/account"})
    assert answer["Location"] == "/sign-in/second-factor?next=/account"
    assert client.get("/account").status_code == 302, "not signed in yet"
    return client


def give_code(client: Client, code: str) -> Any:
    return client.post("/sign-in/second-factor", {"code": code, "next": "/account"})


# -- codes ----------------------------------------------------------------------------------------------


def test_signing_in_asks_for_a_code_once_the_app_is_set_up(ann: Client) -> None:
    secret, codes = add_codes(ann)
    assert len(set(codes)) == 10
    client = with_password()
    assert "One more proof" in client.get("/sign-in/second-factor").content.decode()
    assert give_code(client, "000000").status_code == 422
    code = code_of(secret)
    assert give_code(client, f"{code[:3]} {code[3:]}")["Location"] == "/account"
    assert client.get("/account").status_code == 200
    again = give_code(with_password(), code)
    assert again.status_code == 422 and "used before" in again.content.decode(), "a code counts once"
    assert ann.get("/account").status_code == 200, "who set it up stays signed in"


def test_neither_the_apps_secret_nor_recovery_codes_are_readable_in_the_database(ann: Client) -> None:
    secret, codes = add_codes(ann)
    kept = repr([list(model.objects.values_list()) for model in (Authenticator, FactorSetup, AuditEntry)])
    assert secret not in kept and not any(code in kept for code in codes)


def test_an_app_is_set_up_by_its_first_code_and_the_password_only(ann: Client) -> None:
    page = ann.get("/account/second-factors/codes").content.decode()
    (shown,) = re.findall(r'id="the-key">([A-Z2-7 ]+)<', page)
    secret = shown.replace(" ", "")
    assert "<svg" in page and "<?xml" not in page
    for given in ({"code": "12345", "present": PASSWORD}, {"code": code_of(secret), "present": "wrong"}):
        answer = ann.post("/account/second-factors/codes", given)
        assert answer.status_code == 422 and shown in answer.content.decode(), (
            "the same secret is tried again"
        )
    assert not queries.are_asked_for(person())
    ann.post("/account/second-factors/codes", {"code": code_of(secret), "present": PASSWORD})
    assert queries.are_asked_for(person())
    assert ann.get("/account/second-factors/codes").status_code == 409


def test_a_recovery_code_signs_in_once_and_the_person_hears_of_it(ann: Client) -> None:
    _, codes = add_codes(ann)
    assert give_code(with_password(), codes[3])["Location"] == "/account"
    assert give_code(with_password(), codes[3]).status_code == 422
    assert queries.recovery_codes_left(person()) == 9
    assert Mail.objects.filter(to=EMAIL, subject="A recovery code was used").count() == 1


def test_new_recovery_codes_take_the_place_of_the_earlier_ones(ann: Client) -> None:
    _, codes = add_codes(ann)
    assert ann.post("/account/second-factors/recovery-codes", {"present": "wrong"}).status_code == 422
    page = ann.post("/account/second-factors/recovery-codes", {"present": PASSWORD}).content.decode()
    new = re.findall(r"\b\d{8}\b", page)
    assert len(new) == 10 and not {*new} & {*codes}
    assert give_code(with_password(), codes[0]).status_code == 422
    assert give_code(with_password(), new[0])["Location"] == "/account"


def test_wrong_codes_are_counted_over_all_sign_ins_and_then_even_the_right_one_is_not_taken(
    ann: Client,
) -> None:
    secret, _ = add_codes(ann)
    statuses = [give_code(with_password(), "000000").status_code for _ in range(10)]
    assert statuses == [422] * 10
    counters().forget_all()  # those of passwords and addresses: this is about codes
    answer = give_code(with_password(), code_of(secret))
    assert answer.status_code == 429 and "wait an hour" in answer.content.decode()
    assert (
        call("POST", "/v1/sign-in", {"email": EMAIL, "password": PASSWORD, "code": code_of(secret)}).status
        == 429
    )
    wrong = AuditEntry.objects.filter(tenant=SYSTEM_TENANT, action="sign_in.wrong_code")
    assert wrong.count() == 10


def test_over_rest_the_code_comes_with_the_password(ann: Client) -> None:
    secret, codes = add_codes(ann)
    given = {"email": EMAIL, "password": PASSWORD}
    missing = call("POST", "/v1/sign-in", given)
    assert missing.status == 401 and "a code of your app" in missing.body["detail"]
    assert call("POST", "/v1/sign-in", {**given, "code": "000000"}).status == 401
    assert call("POST", "/v1/sign-in", {**given, "code": codes[0]}).status == 200
    assert call("POST", "/v1/sign-in", {**given, "code": code_of(secret)}).status == 200
    without = call("POST", "/v1/sign-in", {**given, "password": "wrong", "code": codes[1]})
    assert without.status == 401 and queries.recovery_codes_left(person()) == 9, "nothing is spent"


def test_who_waits_for_the_second_factor_is_out_when_the_password_changes(ann: Client) -> None:
    secret, _ = add_codes(ann)
    client = with_password()
    ann.post("/account", {"present": PASSWORD, "new": "another horse, another battery"})
    assert give_code(client, code_of(secret))["Location"] == "/sign-in"
    assert not PendingSignIn.objects.filter(ended_at=None).exists()


def test_a_pending_sign_in_is_no_session(ann: Client) -> None:
    add_codes(ann)
    client = with_password()
    token = client.cookies["penstock-pending"].value
    assert call("GET", "/v1/tenants", token=token).status == 401
    client.cookies["penstock"] = token
    assert client.get("/account").status_code == 302


def test_without_a_pending_sign_in_the_page_leads_to_the_beginning() -> None:
    assert Client().get("/sign-in/second-factor")["Location"] == "/sign-in"
    assert give_code(Client(), "000000")["Location"] == "/sign-in"


def test_the_page_that_was_asked_for_is_one_of_this_service(ann: Client) -> None:
    _, codes = add_codes(ann)
    answer = with_password().post(
        "/sign-in/second-factor", {"code": codes[0], "next": "https://evil.example/"}
    )
    assert answer["Location"] == "/"


# -- passkeys -------------------------------------------------------------------------------------------


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service has a host name: browsers take no passkeys for an IP address."""
    configured = msgspec.structs.replace(config.current(), public_url="https://penstock.example")
    monkeypatch.setattr(config, "current", lambda: configured)
    monkeypatch.setattr(sessions, "secure", lambda: False)


def sign_with(client: Client, passkey: SoftwarePasskey) -> Any:
    options = options_on(client.get("/sign-in/second-factor").content)
    given = {"answer": json.dumps(passkey.get(options)), "next": "/account"}
    return client.post("/sign-in/second-factor", given)


def test_a_passkey_signs_in(named: None, ann: Client) -> None:
    other, passkey = Client(), SoftwarePasskey()
    other.post("/sign-in", {"email": EMAIL, "password": PASSWORD})
    page = add_passkey(ann, passkey).content.decode()
    assert len(re.findall(r"\b\d{8}\b", page)) == 10, "recovery codes come with the first factor"
    assert other.get("/account").status_code == 302, "it was made without one"
    assert sign_with(with_password(), passkey)["Location"] == "/account"
    assert "laptop" in ann.get("/account").content.decode()
    assert Authenticator.objects.get(type="webauthn").last_used_at is not None


@pytest.mark.parametrize(
    "stranger",
    [
        SoftwarePasskey(),
        SoftwarePasskey(origin="https://penstock.example.evil.example"),
        SoftwarePasskey(rp_id="evil.example"),
    ],
    ids=["another key", "another origin", "another party"],
)
def test_what_another_passkey_or_page_signed_is_refused(
    named: None, ann: Client, stranger: SoftwarePasskey
) -> None:
    passkey = SoftwarePasskey()
    add_passkey(ann, passkey)
    if (stranger.origin, stranger.rp_id) != (passkey.origin, passkey.rp_id):
        stranger.key, stranger.id = passkey.key, passkey.id
    answer = sign_with(with_password(), stranger)
    assert answer.status_code == 422 and "does not fit" in answer.content.decode()


def test_what_a_passkey_signed_counts_once(named: None, ann: Client) -> None:
    passkey = SoftwarePasskey()
    add_passkey(ann, passkey)
    client = with_password()
    signed = json.dumps(passkey.get(options_on(client.get("/sign-in/second-factor").content)))
    assert client.post("/sign-in/second-factor", {"answer": signed})["Location"] == "/"
    again = with_password()
    again.get("/sign-in/second-factor")
    assert again.post("/sign-in/second-factor", {"answer": signed}).status_code == 422


def test_a_copied_passkey_shows_by_its_counter(named: None, ann: Client) -> None:
    passkey = SoftwarePasskey()
    add_passkey(ann, passkey)
    copy = SoftwarePasskey(id=passkey.id, key=passkey.key, count=0)
    assert sign_with(with_password(), passkey).status_code == 302
    answer = sign_with(with_password(), copy)
    assert answer.status_code == 422 and "copied" in answer.content.decode()


@pytest.mark.parametrize(
    "answer", ["", "x", "[]", "{}", '{"response": 7}', '{"id": "a", "rawId": "a", "response": {}}']
)
def test_an_answer_that_is_none_is_refused(named: None, ann: Client, answer: str) -> None:
    add_passkey(ann, SoftwarePasskey())
    client = with_password()
    client.get("/sign-in/second-factor")
    assert client.post("/sign-in/second-factor", {"answer": answer}).status_code == 422
    given = {"name": "x", "present": PASSWORD, "answer": answer}
    ann.get("/account/second-factors/passkey")
    assert ann.post("/account/second-factors/passkey", given).status_code == 422


def test_a_passkey_of_one_person_is_none_of_another(named: None, ann: Client) -> None:
    add_passkey(ann, SoftwarePasskey())
    bob = Client()
    bob.post("/sign-up", {"email": "bob@example.com", "password": PASSWORD, "tenant": "bobs"})
    stranger = SoftwarePasskey()
    add_passkey(bob, stranger)
    assert sign_with(with_password(), stranger).status_code == 422
    (row,) = queries.factors(person())
    assert bob.get(f"/account/second-factors/{row.pk}/remove").status_code == 404
    assert bob.post(f"/account/second-factors/{row.pk}/remove", {"present": PASSWORD}).status_code == 404
    with pytest.raises(NotFound):
        actions.remove(ACTOR, Person.objects.get(email="bob@example.com"), row.pk)


def test_a_service_without_a_host_name_offers_no_passkeys(ann: Client) -> None:
    assert "Browsers take no passkeys here" in ann.get("/account").content.decode()
    assert ann.get("/account/second-factors/passkey").status_code == 400


# -- removing -------------------------------------------------------------------------------------------


def test_the_last_factor_goes_with_the_recovery_codes_and_the_password(ann: Client) -> None:
    add_codes(ann)
    (row,) = queries.factors(person())
    page = f"/account/second-factors/{row.pk}/remove"
    assert ann.post(page, {"present": "wrong"}).status_code == 422
    assert ann.post(page, {"present": PASSWORD})["Location"] == "/account"
    assert not Authenticator.objects.exists()
    assert Client().post("/sign-in", {"email": EMAIL, "password": PASSWORD})["Location"] == "/"
    subjects = list(Mail.objects.filter(to=EMAIL).order_by("pk").values_list("subject", flat=True))
    assert subjects == ["Your sign-in has a new second factor", "A second factor was removed"]


def test_an_operator_removes_the_factors_of_a_person_who_lost_them(ann: Client) -> None:
    add_codes(ann)
    olga = Client()
    olga.post(
        "/operator/sign-in", {"token": tenants.create_operator(ACTOR, name="olga", tenant=SYSTEM_TENANT)}
    )
    page = f"/operator/people/{person().public_id}"
    assert "codes of an app" in olga.get(page).content.decode()
    assert ann.post(f"{page}/remove-factors")["Location"] == "/operator/sign-in", "for operators"
    assert olga.post(f"{page}/remove-factors")["Location"] == page
    assert not queries.are_asked_for(person())


def test_who_has_no_password_changes_factors_just_after_signing_in_only(ann: Client) -> None:
    someone = person()
    someone.set_unusable_password()
    someone.save()
    token = ann.cookies["penstock"].value
    confirm(ACTOR, someone, present="", code="", token=token)
    Session.objects.update(created_at="2026-01-01T00:00:00Z")
    with pytest.raises(InvalidRequest, match="sign out and in again"):
        confirm(ACTOR, someone, present="", code="", token=token)


def test_another_secret_key_makes_codes_unreadable_and_says_so(
    ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, _ = add_codes(ann)
    configured = msgspec.structs.replace(config.current(), secret_key=Secret("another"))
    monkeypatch.setattr(config, "current", lambda: configured)
    answer = give_code(with_password(), code_of(secret))
    assert answer.status_code == 422 and "an operator can remove it" in answer.content.decode()
