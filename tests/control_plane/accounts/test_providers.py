"""Signing in with a real provider of OpenID Connect, and with one that lies."""

import base64
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import jwt
import msgspec
import pytest
from django.test import Client
from django.utils import timezone
from joserfc.jwk import RSAKey

from control_plane import config
from control_plane.audit.models import AuditEntry
from control_plane.config import ProviderConfig
from control_plane.mail.models import Mail
from daemon.settings import Secret
from penstock.contract.errors import Unauthenticated
from penstock.contract.ids import SYSTEM_TENANT
from tenants import actions as tenants
from tenants.addresses import queries as addresses
from tenants.factors import actions as factors
from tenants.models import Person, ProviderAttempt, ProviderIdentity, Session
from tenants.providers import actions, oidc
from tests.control_plane.world import PASSWORD
from tests.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, oidc_provider
from tests.one_time_codes import code_of

pytestmark = pytest.mark.django_db
EMAIL = "ann@example.com"
BACK = "http://127.0.0.1:8080/sign-in/with/acme/back"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with oidc_provider(BACK) as running:
        known = ProviderConfig(
            id="acme",
            name="Acme",
            issuer=running.issuer,
            client_id=CLIENT_ID,
            client_secret=Secret(CLIENT_SECRET),
        )
        configured = msgspec.structs.replace(config.current(), sign_in_providers=(known,))
        monkeypatch.setattr(config, "current", lambda: configured)
        yield running


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def at_provider(url: str) -> str:
    """Where the provider sends a browser that says yes there: the path and query of this service."""
    opener = urllib.request.build_opener(_Stay)
    try:
        opener.open(f"{url}&sure=1", timeout=30)
    except urllib.error.HTTPError as answer:
        assert answer.code == 302, answer.read()
        location = str(answer.headers["Location"])
        answer.close()
        assert location.startswith(BACK), location
        return location.removeprefix("http://127.0.0.1:8080")
    raise AssertionError("the provider sent nobody back")


def enter(client: Client, page: str = "/sign-in/with/acme?next=/account") -> Any:
    return client.get(at_provider(client.get(page)["Location"]))


def known(email: str = EMAIL) -> Person:
    person, _, _ = tenants.sign_up(
        email=email, password=PASSWORD, tenant_name=email.split("@")[0], request_id="", source=""
    )
    return person


def signed_in() -> Client:
    client = Client()
    client.post("/sign-in", {"email": EMAIL, "password": PASSWORD})
    return client


def link(client: Client) -> Any:
    page = client.post("/account/link/acme", {"present": PASSWORD}).content.decode()
    url = page.split('class="button first" href="')[1].split('"')[0].replace("&amp;", "&")
    return client.get(at_provider(url))


def audited() -> list[str]:
    rows = AuditEntry.objects.filter(tenant=SYSTEM_TENANT).order_by("sequence")
    return [entry.action for entry in rows]


# -- an honest provider ---------------------------------------------------------------------------------


def test_a_new_person_is_made_of_a_verified_address_and_comes_again(provider: Provider) -> None:
    client = Client()
    assert "Sign in with Acme" in client.get("/sign-in").content.decode()
    assert enter(client)["Location"] == "/account"
    person = Person.objects.get(email=EMAIL)
    assert addresses.is_proved(person) and not person.has_usable_password()
    assert client.get("/account").status_code == 200
    again = Client()
    assert enter(again)["Location"] == "/account"
    assert Person.objects.count() == 1 and Session.objects.count() == 2
    assert audited() == ["person.verify", "person.provider_link"]
    provider.email = "moved@example.com"
    assert enter(Client())["Location"] == "/account", "the subject counts, not the address"
    assert not Person.objects.filter(email="moved@example.com").exists()


def test_a_person_links_a_provider_and_signs_in_with_it(provider: Provider) -> None:
    person, client = known(), signed_in()
    assert client.post("/account/link/acme", {"present": "wrong"}).status_code == 422
    assert link(client)["Location"] == "/account"
    assert enter(Client())["Location"] == "/account"
    assert ProviderIdentity.objects.get().person == person
    assert Mail.objects.filter(to=EMAIL, subject="A new way to sign in").exists()
    (row,) = ProviderIdentity.objects.all()
    remove = f"/account/identities/{row.public_id}/remove"
    assert client.post(remove, {"present": "wrong"}).status_code == 422 and ProviderIdentity.objects.exists()
    assert client.post(remove, {"present": PASSWORD}).status_code == 302
    assert audited()[-1] == "person.provider_unlink"
    assert "has an account here" in notice_for(enter_refused())


def enter_refused() -> Client:
    """A browser that was sent to the sign-in page."""
    client = Client()
    assert enter(client)["Location"] == "/sign-in"
    return client


def notice_for(client: Client) -> str:
    """What the next page says."""
    return client.get("/sign-in").content.decode()


def test_the_second_factor_is_asked_for_here_too(provider: Provider) -> None:
    person, client = known(), signed_in()
    link(client)
    token = client.cookies["penstock"].value
    secret = factors.begin_totp(person, token=token)
    from control_plane.audit.actor import Actor, ActorKind

    actor = Actor(kind=ActorKind.PERSON, id=person.public_id)
    factors.add_totp(actor, person, code=code_of(secret, steps=-1), token=token)
    other = Client()
    assert enter(other)["Location"] == "/sign-in/second-factor?next=/account"
    assert other.get("/account").status_code == 302
    answer = other.post("/sign-in/second-factor", {"code": code_of(secret), "next": "/account"})
    assert answer["Location"] == "/account"


def test_the_only_way_in_is_not_taken_away(provider: Provider) -> None:
    client = Client()
    enter(client)
    (row,) = ProviderIdentity.objects.all()
    answer = client.post(f"/account/identities/{row.public_id}/remove")
    assert answer.status_code == 422 and "only way in" in answer.content.decode()


def test_a_provider_that_is_configured_no_more_is_no_way_in(provider: Provider) -> None:
    client = Client()
    enter(client)
    (row,) = ProviderIdentity.objects.all()
    gone = ProviderIdentity.objects.create(
        public_id="idn_gone", person=row.person, issuer="https://gone.example", subject="1"
    )
    answer = client.post(f"/account/identities/{row.public_id}/remove")
    assert answer.status_code == 422 and "only way in" in answer.content.decode()
    assert client.post(f"/account/identities/{gone.public_id}/remove").status_code == 302
    assert [one.pk for one in ProviderIdentity.objects.all()] == [row.pk]


def test_another_persons_identity_is_not_found_and_not_linked_twice(provider: Provider) -> None:
    enter(Client())
    known("bob@example.com")
    bob = Client()
    bob.post("/sign-in", {"email": "bob@example.com", "password": PASSWORD})
    (row,) = ProviderIdentity.objects.all()
    assert bob.get(f"/account/identities/{row.public_id}/remove").status_code == 404
    assert link(bob)["Location"] == "/account"
    assert "is linked already" in bob.get("/account").content.decode()
    assert ProviderIdentity.objects.count() == 1


def test_a_provider_that_takes_the_secret_in_the_form_alone_gets_it_there(provider: Provider) -> None:
    provider.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert enter(Client())["Location"] == "/account"


def test_the_same_subject_of_another_provider_is_another_person(provider: Provider) -> None:
    bob = known("bob@example.com")
    other = ProviderIdentity.objects.create(
        public_id="idn_bob", person=bob, issuer="https://other.example", subject=provider.subject
    )
    assert enter(Client())["Location"] == "/account"
    mine = ProviderIdentity.objects.exclude(pk=other.pk).get()
    assert mine.person.email == EMAIL and mine.subject == other.subject


def test_a_provider_opens_no_account_that_is_closed(provider: Provider) -> None:
    enter(Client())
    sessions = Session.objects.count()
    Person.objects.update(is_active=False)
    assert "this account is closed" in notice_for(enter_refused()).lower()
    assert Session.objects.count() == sessions


# -- a provider that lies -------------------------------------------------------------------------------


def test_no_address_opens_an_account_that_is_there_whatever_the_provider_says(provider: Provider) -> None:
    known()
    assert "has an account here" in notice_for(enter_refused())
    assert not ProviderIdentity.objects.exists() and not Session.objects.filter(browser="").exclude(
        person__email=EMAIL
    )


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_address_that_is_not_verified_makes_no_person(provider: Provider, verified: object) -> None:
    provider.email_verified = verified
    assert "verify it there first" in notice_for(enter_refused())
    assert not Person.objects.exists()


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"aud": [CLIENT_ID, "another"]},
        {"aud": CLIENT_ID, "azp": "another"},
        {"nonce": "another"},
        {"iss": "https://accounts.example"},
        {"exp": timedelta(hours=-1)},
        {"iat": timedelta(hours=1)},
        {"sub": ""},
        {"sub": "x" * 256},
        {"sub": "ann\0"},
        {"sub": "\ud800"},
        {"nonce": "\ud800"},
        {"aud": [CLIENT_ID, 7]},
        {"iat": []},
    ],
    ids=lambda claims: " ".join(claims),
)
def test_a_token_of_which_one_claim_is_wrong_is_not_believed(
    provider: Provider, claims: dict[str, Any]
) -> None:
    enter(Client())
    sessions = Session.objects.count()
    now = time.time()
    provider.claims = {
        name: int(now + value.total_seconds()) if isinstance(value, timedelta) else value
        for name, value in claims.items()
    }
    said = notice_for(enter_refused())
    assert "The sign-in with Acme failed" in said
    assert Session.objects.count() == sessions and audited()[-1] == "sign_in.provider_refused"


def test_a_token_that_another_key_signed_is_not_believed(provider: Provider) -> None:
    provider.signs_with = RSAKey.generate_key(2048, {"kid": "one"})
    enter_refused()
    assert not Person.objects.exists() and audited() == ["sign_in.provider_refused"]


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://accounts.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": 7},
        {"jwks_uri": "https://[::1"},
        {"jwks_uri": "http://127.0.0.1:1/a key\n"},
        {"token_endpoint": "http://127.0.0.1:99999999/token"},
        {"authorization_endpoint": "https://[::1"},
        {"token_endpoint_auth_methods_supported": None},
        {"token_endpoint_auth_methods_supported": 7},
    ],
    ids=lambda one: " ".join(one),
)
def test_a_provider_that_says_of_itself_what_it_is_not_is_not_asked(
    provider: Provider, discovery: dict[str, Any]
) -> None:
    provider.discovery = discovery
    client = Client()
    page = client.get("/sign-in/with/acme")["Location"]
    if page != "/sign-in":
        page = client.get(at_provider(page))["Location"]
    assert page == "/sign-in" and not Person.objects.exists()


def test_a_provider_that_is_away_is_said_to_be(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    away = msgspec.structs.replace(config.current().sign_in_providers[0], issuer="http://127.0.0.1:1")
    configured = msgspec.structs.replace(config.current(), sign_in_providers=(away,))
    monkeypatch.setattr(config, "current", lambda: configured)
    client = Client()
    assert client.get("/sign-in/with/acme")["Location"] == "/sign-in"
    assert "The sign-in with Acme failed" in notice_for(client)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"302 Found\r\nLocation: {own}/moved", "status 302"),
        (b"200 OK\r\nContent-Length: 300002\r\n\r\n{}" + b" " * 300_000, "at most 262144 bytes"),
        (b"200 OK\r\nContent-Length: 2\r\n\r\n[]", "a JSON object"),
    ],
)
def test_an_answer_that_leads_away_or_is_too_long_is_not_believed(
    provider: Provider, answer: bytes, why: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = f"http://127.0.0.1:{server.getsockname()[1]}"

        def reply() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 " + answer.replace(b"{own}", own.encode()) + b"\r\n\r\n")

        thread = threading.Thread(target=reply, name="reply")
        thread.start()
        lying = msgspec.structs.replace(config.current().sign_in_providers[0], issuer=own)
        try:
            with pytest.raises(oidc.ProviderRefused, match=why):
                oidc.start_url(lying, state="s", nonce="n", verifier="v")
        finally:
            thread.join()


def test_a_provider_that_answers_byte_by_byte_is_ended(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte comes soon enough, and the answer never."""
    monkeypatch.setattr(oidc, "TIMEOUT_S", 0.3)
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n{}")
                while not ended.wait(0.02):
                    connection.sendall(b" ")

        thread = threading.Thread(target=drip, name="drip")
        thread.start()
        slow = msgspec.structs.replace(
            config.current().sign_in_providers[0], issuer=f"http://127.0.0.1:{server.getsockname()[1]}"
        )
        try:
            with pytest.raises(oidc.ProviderRefused, match="no whole answer within"):
                oidc.start_url(slow, state="s", nonce="n", verifier="v")
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize(
    ("issuer", "url", "taken"),
    [
        ("https://id.example", "https://id.example/keys", True),
        ("https://id.example", "http://127.0.0.1:8080/keys", False),
        ("https://id.example", "http://[::1]/keys", False),
        ("https://127.0.0.1", "http://127.0.0.1:8080/keys", False),
        ("http://127.0.0.1:9", "http://127.0.0.1:8080/keys", True),
        ("http://127.0.0.1:9", "http://10.0.0.1/keys", False),
        ("http://127.0.0.1:9", "file:///etc/passwd", False),
    ],
)
def test_only_a_provider_on_this_host_leads_to_what_listens_on_this_host(
    issuer: str, url: str, taken: bool
) -> None:
    known_as = ProviderConfig(
        id="acme", name="Acme", issuer=issuer, client_id="c", client_secret=Secret("s" * 40)
    )
    if taken:
        assert oidc._endpoint(known_as, {"jwks_uri": url}, "jwks_uri") == url
        return
    with pytest.raises(oidc.ProviderRefused, match="jwks_uri: an https URL required"):
        oidc._endpoint(known_as, {"jwks_uri": url}, "jwks_uri")


# -- answers that are not this browser's ----------------------------------------------------------------


def test_the_answer_to_another_browsers_question_is_not_taken(provider: Provider) -> None:
    attacker, victim = Client(), Client()
    back = at_provider(attacker.get("/sign-in/with/acme")["Location"])
    assert victim.get(back)["Location"] == "/sign-in", "it would sign the victim in as the attacker"
    victim.get("/sign-in/with/acme")
    assert victim.get(back)["Location"] == "/sign-in"
    assert not Session.objects.exists()


def test_an_attempt_is_over_after_its_time_and_of_its_own_provider_alone(provider: Provider) -> None:
    client, acme = Client(), config.current().sign_in_providers[0]
    back = at_provider(client.get("/sign-in/with/acme")["Location"])
    token = client.cookies["penstock-attempt"].value
    with pytest.raises(Unauthenticated):
        actions.take(msgspec.structs.replace(acme, id="other"), token)
    ProviderAttempt.objects.update(expires_at=timezone.now())
    assert client.get(back)["Location"] == "/sign-in"
    assert not Session.objects.exists()
    client.get("/sign-in/with/acme")
    assert ProviderAttempt.objects.count() == 1, "what is over goes"


def test_an_answer_is_taken_once(provider: Provider) -> None:
    client = Client()
    back = at_provider(client.get("/sign-in/with/acme")["Location"])
    kept = client.cookies["penstock-attempt"].value
    assert client.get(back)["Location"] == "/"
    client.cookies["penstock-attempt"] = kept
    assert client.get(back)["Location"] == "/account", "who is signed in sees it there"
    assert Session.objects.count() == 1 and not ProviderAttempt.objects.exists()


def test_a_link_begun_by_one_person_is_not_finished_by_another(provider: Provider) -> None:
    known()
    ann = signed_in()
    page = ann.post("/account/link/acme", {"present": PASSWORD}).content.decode()
    url = page.split('class="button first" href="')[1].split('"')[0].replace("&amp;", "&")
    back = at_provider(url)
    ann.post("/sign-out")
    known("bob@example.com")
    ann.post("/sign-in", {"email": "bob@example.com", "password": PASSWORD})
    ann.get(back)
    assert not ProviderIdentity.objects.exists()


def test_a_sign_in_that_ends_while_the_provider_answers_links_nothing(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    known()
    ann = signed_in()
    identify = oidc.identify

    def slow(*given: Any, **named: Any) -> oidc.Identity:
        found = identify(*given, **named)
        Session.objects.all().delete()  # as a change of the address that is taken back does
        signed_in()  # elsewhere
        return found

    monkeypatch.setattr(oidc, "identify", slow)
    link(ann)
    assert not ProviderIdentity.objects.exists() and "person.provider_link" not in audited()


def test_an_identity_that_is_taken_away_while_it_signs_in_opens_nothing(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(Client())
    sessions = Session.objects.count()
    lock = tenants.lock_person

    def late(person: Person) -> Person:
        locked = lock(person)
        ProviderIdentity.objects.all().delete()
        return locked

    monkeypatch.setattr("tenants.providers.actions.lock_person", late)
    assert enter(Client())["Location"] == "/sign-in"
    assert Session.objects.count() == sessions


def test_the_page_to_go_to_is_one_of_this_service(provider: Provider) -> None:
    assert enter(Client(), "/sign-in/with/acme?next=https://evil.example/")["Location"] == "/"


def test_an_unknown_provider_is_no_page() -> None:
    for path in ("/sign-in/with/other", "/sign-in/with/other/back"):
        assert Client().get(path).status_code == 404


# -- tokens made by hand --------------------------------------------------------------------------------


def made_by_hand(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def test_a_token_without_a_signature_or_signed_with_a_published_key_as_secret_is_not_believed() -> None:
    known_as = ProviderConfig(
        id="acme", name="Acme", issuer="https://id.example", client_id="c", client_secret=Secret("s" * 40)
    )
    now = int(time.time())
    claims = {"iss": "https://id.example", "aud": "c", "sub": "1", "iat": now, "exp": now + 60, "nonce": "n"}
    keys = {"keys": [RSAKey.generate_key(2048, {"kid": "one"}).as_dict(private=False)]}
    for token in (
        made_by_hand({"alg": "none"}, claims),
        made_by_hand({"alg": "None", "kid": "one"}, claims),
        jwt.encode(claims, "s" * 40, "HS256", headers={"kid": "one"}),
        made_by_hand({"alg": "RS256", "kid": "two"}, claims),
        made_by_hand({"alg": "RS256", "kid": "one"}, claims, b"x" * 256),
        "",
        "a.b.c",
    ):
        with pytest.raises(oidc.ProviderRefused):
            oidc.identity_in(known_as, token, keys=keys, nonce="n")
    own = RSAKey.generate_key(2048, {"kid": "one"})
    private = jwt.PyJWK.from_dict(dict(own.as_dict(private=True)))
    signed = jwt.encode(claims, private, "RS256", headers={"kid": "one"})
    twice = {"keys": [own.as_dict(private=False)] * 2}
    with pytest.raises(oidc.ProviderRefused, match="publishes no such key"):
        oidc.identity_in(known_as, signed, keys=twice, nonce="n")
    for said, taken in (
        ({}, True),
        ({"alg": "none"}, False),
        ({"use": "enc"}, False),
        ({"alg": "HS256"}, False),
    ):
        published = {"keys": [own.as_dict(private=False) | said]}
        if taken:
            assert oidc.identity_in(known_as, signed, keys=published, nonce="n").subject == "1"
            continue
        with pytest.raises(oidc.ProviderRefused):
            oidc.identity_in(known_as, signed, keys=published, nonce="n")
    wrong: dict[str, Any]
    for wrong in (
        {},
        {"keys": []},
        {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]},
        {"keys": 7},
        {"keys": [7]},
        {"keys": [{}]},
        {"keys": [{"kty": "RSA", "n": 7, "e": None}]},
    ):
        with pytest.raises(oidc.ProviderRefused):
            oidc.identity_in(known_as, jwt.encode(claims, "s" * 40, "HS256"), keys=wrong, nonce="n")
