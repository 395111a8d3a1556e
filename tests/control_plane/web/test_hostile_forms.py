"""Every form and parameter of the console against hostile text: a page in answer, the text shown as text, no fault.

A field and an address meet two of the texts in a run, by chance, and all of them under FULL=1.
"""

import re
from copy import deepcopy
from datetime import timedelta
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from control_plane.access import actions as access
from control_plane.access import list_actions
from control_plane.access.models import AclEntry, PrincipalGroup
from control_plane.audit.models import AuditEntry
from control_plane.outbox import in_request
from control_plane.rate_counters import counters
from control_plane.topics import actions as topics
from control_plane.topics import queries as topic_queries
from control_plane.topics.models import Topic
from penstock.rules.access import Acl
from quotas.models import Budget
from tenants import actions
from tenants.accounts import actions as accounts
from tenants.models import (
    AddressChange,
    AddressProof,
    ApiKey,
    Invitation,
    OperatorToken,
    PasswordReset,
    PendingSignUp,
    Person,
    ServiceAccount,
    Session,
)
from tenants.roles import Standing
from tenants.tokens import token_hash
from tests.control_plane.hostile import some_of
from tests.control_plane.world import ACTOR, House, everything_delivered, make_house, make_organisation
from web import assets, broker_access, views
from web.forms.fields import TEXT_MAX
from web.urls import urlpatterns
from web.views import operators

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Response

pytestmark = pytest.mark.django_db

HOSTILE = {
    "markup": '"><script>alert(1)</script><img src=x onerror=alert(1)>',
    "nul": "a\0b",
    "control": "a\x1b[2J\r\nSet-Cookie: a=b\x07\x7f",
    "right-to-left": "abc\u202egnp.exe\u2066\u200b",
    "template": "{{ 1337*1337 }}{% debug %}",
    "quotes": "'; DROP TABLE tenants_tenant; --",
    "digits": "9" * 5_000,
    "other digits": "٣" * 10,
    "negative": "-1",
    "long": "x" * 100_000,
    "invalid": "\udcff\udcfe",
}
TEMPLATES = Path(assets.__file__).parent / "templates"
INVITED = "psi_known"
RESET = "psr_known"
DOORS = ("sign-in", "sign-up", "operator-sign-in")


class _Forms(HTMLParser):
    """The forms of a page that send: (address, fields with their values)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self._inside = False
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("method", "get").lower() == "post"
            if self._inside:
                self.found.append((given.get("action", ""), {}))
        elif self._inside and tag in ("input", "select", "textarea", "button") and given.get("name"):
            value = "on" if given.get("type") == "checkbox" else given.get("value", "")
            if given.get("type") == "radio" and "checked" in given:
                self.found[-1][1].pop(given["name"], None)
            self.found[-1][1].setdefault(given["name"], value)
            self._select = given["name"] if tag == "select" else self._select
        elif (
            self._inside and tag == "option" and ("selected" in given or not self.found[-1][1][self._select])
        ):
            # As a browser: the one that is selected, else the first.
            self.found[-1][1][self._select] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False


def _version_of(house: House, route: str) -> int:
    """Of what the route restores: the number of the audit entry that made it."""
    made = {"topics": "topic.create", "access/history": "acl.create", "groups": "principal_group.create"}
    action = next((action for part, action in made.items() if f"/{part}/" in route), "")
    found = AuditEntry.objects.filter(tenant=house.tenant.public_id, action=action).first()
    return 0 if found is None else found.sequence


def _arguments(house: House, route: str) -> list[str]:
    known = {
        "organisation": "org_nothing" if route.startswith("operator/") else "acme-group",
        "moved": house.tenant.public_id,
        "tenant": house.tenant.public_id if route.startswith("operator/") else "acme",
        "name": "orders",
        "topic": "top_binned",
        "key": ApiKey.objects.filter(tenant=house.tenant).latest("pk").public_id,
        "invoice": "inv_nothing",
        "credit_note": "cn_nothing",
        "partition": "0",
        "offset": "0",
        "meter": "messages_in",
        "member": Person.objects.get(email="billing@acme.example").public_id,
        "invitation": Invitation.objects.get(tenant=house.tenant).public_id,
        "token": RESET if route.startswith("reset/") else INVITED,
        "sign_in": Session.objects.get(public_id="sin_other").public_id,
        "token_id": OperatorToken.objects.get().public_id,
        "provider": "acme",
        "identity": "idn_nothing",
        "factor": "0",
        "acl": AclEntry.objects.get(tenant=house.tenant).public_id,
        "webhook": "whk_nothing",
        "coupon": "COUPON-NONE",
        "book": "0" * 64,
        "cost_import": "cim_nothing",
        "budget": Budget.objects.get_or_create(
            tenant=house.tenant,
            public_id="bud_0",
            defaults={
                "name": "b",
                "period": "day",
                "measure": "bytes",
                "amount": 1,
                "thresholds": [],
                "policy": "notify",
            },
        )[0].public_id,
        "month": "now",
        "form": "csv",
        "account": ServiceAccount.objects.get(tenant=house.tenant).public_id,
        "group": PrincipalGroup.objects.get(tenant=house.tenant).public_id,
        "version": str(_version_of(house, route)),
    }
    return [known[name] for name in re.findall(r"<(?:str|int):(\w+)>", route)]


def _forms(house: House) -> dict[str, dict[str, str]]:
    """Address -> fields of every form that a stranger, an owner or an operator is shown."""
    found: dict[str, dict[str, str]] = {}
    for client in (Client(), signed_in(house)):
        for pattern in urlpatterns:
            address = reverse(f"web:{pattern.name}", args=_arguments(house, str(pattern.pattern)))
            response = client.get(address, {"name": "readers"} if "group" in str(pattern.name) else {})
            forms = _Forms()
            forms.feed(response.content.decode())
            for action, fields in forms.found:
                found.setdefault(action or address, {}).update(fields)
    return found


def signed_in(house: House, *, csrf: bool = False) -> Client:
    client = Client(enforce_csrf_checks=csrf)
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    client.post("/operator/sign-in", {"token": house.credentials[Standing.OPERATOR]})
    return client


def assert_a_page(response: "Response") -> None:
    assert response.status_code < 500 or response.status_code == 503, response.content[:500]
    text = response.content.decode()
    assert "<script>alert" not in text and "<img src=x" not in text and "1787569" not in text
    assert "a" not in response.cookies


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no brokers run here, so nothing waits for them."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    monkeypatch.setattr(broker_access, "DELIVERED_S", 0.0)
    monkeypatch.setattr(operators, "TIMEOUT_S", 0.05)
    monkeypatch.setattr(topic_queries, "ASK_S", 0.05)


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    topics.create_topic(ACTOR, made.tenant, name="orders", partitions=3, settings={})
    binned = topics.create_topic(ACTOR, made.tenant, name="binned", partitions=1, settings={})
    Topic.objects.filter(pk=binned.pk).update(
        public_id="top_binned",
        on_brokers=True,
        binned_at=timezone.now(),
        purge_at=timezone.now() + timedelta(days=7),
    )
    access.create_key(ACTOR, made.tenant, name="latest")
    account = list_actions.create_account(ACTOR, made.tenant, name="billing")
    list_actions.create_group(ACTOR, made.tenant, name="programs", members=[])
    principal = f"service_account:{account.public_id}"
    entry = Acl(effect="allow", principal=principal, resource="topic", name="orders", literal=True)
    list_actions.add_acls(ACTOR, made.tenant, [entry])
    Invitation.objects.create(
        tenant=made.tenant,
        public_id="ivt_known",
        email="invited@else.example",
        role="auditor",
        token_hash=token_hash(INVITED),
        expires_at=timezone.now() + timedelta(days=1),
    )
    owner = Person.objects.get(email="owner@acme.example")
    _, held = accounts.make_reset(ACTOR, owner)
    PasswordReset.objects.filter(token_hash=token_hash(held)).update(token_hash=token_hash(RESET))
    PendingSignUp.objects.create(
        public_id="psu_known",
        email="new@else.example",
        tenant_name="new",
        token_hash=token_hash(INVITED),
        expires_at=timezone.now() + timedelta(days=1),
    )
    AddressProof.objects.create(
        person=owner,
        public_id="psv_known",
        email=owner.email,
        token_hash=token_hash(INVITED),
        expires_at=timezone.now() + timedelta(days=1),
    )
    for name in ("waiting", "confirmed"):
        AddressChange.objects.create(
            person=owner,
            public_id=f"adc_{name}",
            before="before@else.example",
            after="after@else.example",
            token_hash=token_hash(INVITED if name == "waiting" else "used"),
            undo_hash=token_hash(INVITED) if name == "confirmed" else None,
            expires_at=timezone.now() + timedelta(days=1),
            confirmed_at=None if name == "waiting" else timezone.now(),
            undo_until=None if name == "waiting" else timezone.now() + timedelta(days=1),
        )
    Session.objects.create(
        person=owner,
        public_id="sin_other",
        token_hash="other",
        source="192.0.2.1",
        browser=HOSTILE["markup"],
        expires_at=timezone.now() + timedelta(days=1),
    )
    make_organisation(made, "acme-group", owning=True)
    everything_delivered()
    return made


def test_every_form_asks_for_its_token(house: House) -> None:
    forms = _forms(house)
    before = (Session.objects.count(), ApiKey.objects.count(), Topic.objects.count())
    assert {"/sign-in", "/sign-up", "/sign-out", "/new-tenant", "/t/acme/new-topic", "/account"} <= set(forms)
    assert {"/t/acme/bin/top_binned/restore", "/t/acme/bin/top_binned/purge"} <= set(forms)
    assert {"/account/address", f"/address/{INVITED}", f"/address/take-back/{INVITED}"} <= set(forms)
    assert {f"/reset/{RESET}", "/account/sign-ins/sin_other/end"} <= set(forms)
    assert all("csrfmiddlewaretoken" in fields for fields in forms.values()), forms
    for client in (signed_in(house, csrf=True), Client(enforce_csrf_checks=True)):
        client.cookies["penstock-csrf"] = "Q" * 32
        for address, fields in forms.items():
            for token in some_of((None, "", "a" * 64, "b" * 32), 2):
                given = {name: value for name, value in fields.items() if name != "csrfmiddlewaretoken"}
                given |= {} if token is None else {"csrfmiddlewaretoken": token}
                response = client.post(address, given)
                assert response.status_code == 403, address
    assert (Session.objects.count(), ApiKey.objects.count(), Topic.objects.count()) == before


def test_every_address_that_takes_a_form_asks_for_its_token(house: House) -> None:
    client = signed_in(house)
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = client.cookies
    for pattern in urlpatterns:
        address = reverse(f"web:{pattern.name}", args=_arguments(house, str(pattern.pattern)))
        assert strict.post(address).status_code == 403, address


def test_hostile_text_in_any_field_of_any_form_is_answered_with_a_page(house: House) -> None:
    for address, fields in _forms(house).items():
        if address.endswith("sign-out"):
            continue
        stranger = address.strip("/") in ("sign-in", "sign-up") or address.startswith(
            ("/join/", "/reset/", "/sign-up/", "/verify/")
        )
        known = SimpleCookie() if stranger else signed_in(house).cookies
        for field in [name for name in fields if name != "csrfmiddlewaretoken"]:
            for text in some_of(list(HOSTILE.values()), 2):
                counters().forget_all()
                raw = text.encode("utf-8", "surrogateescape")
                body = "&".join(
                    f"{name}={quote(raw if name == field else value.encode())}"
                    for name, value in fields.items()
                )
                client = Client()
                # As a browser that has just come: what an answer changes in them is not kept.
                client.cookies = deepcopy(known)
                response = client.post(address, body, content_type="application/x-www-form-urlencoded")
                assert_a_page(response)
    assert Topic.objects.filter(name="orders", tenant=house.tenant, deleted_at=None).exists()


def test_hostile_text_in_any_address_and_parameter_is_answered_with_a_page(house: House) -> None:
    client = signed_in(house)
    names = sorted(
        {
            name
            for module in vars(views).values()
            if getattr(module, "__file__", None)
            for name in re.findall(r"GET\.get\(\"(\w+)\"", Path(module.__file__).read_text())
        }
        | {
            name
            for template in TEMPLATES.rglob("*.html")
            for name in re.findall(r"pager\.html\" with .*?name=\"(\w+)\"", template.read_text())
        }
        | {"page", "partition", "at", "offset", "time", "key", "limit", "to"}
    )
    assert {"q", "before", "days", "name", "invited", "topics", "credits"} <= set(names)
    for pattern in urlpatterns:
        arguments = _arguments(house, str(pattern.pattern))
        for text in some_of(list(HOSTILE.values()), 2):
            raw = quote(text[:5_000].encode("utf-8", "surrogateescape"), safe="")
            for position in range(len(arguments)):
                address = reverse(f"web:{pattern.name}", args=arguments)
                address = address.replace(arguments[position], raw)
                assert_a_page(client.get(address))
            address = reverse(f"web:{pattern.name}", args=arguments)
            assert_a_page(client.get(f"{address}?{'&'.join(f'{name}={raw}' for name in names)}"))


def test_cookies_that_nobody_gave_out_are_passed_over(house: House) -> None:
    client = Client()
    for text in [r'"\000"', "pss_", "pss_" + "x" * 10_000, r'"\303\274"', r'"\""', "eyJ9:1:2"]:
        names = ("penstock", "penstock-operator", "penstock-notice", "penstock-theme", "penstock-csrf")
        # As a header: Python's own cookies refuse to hold some of these.
        sent = {"Cookie": "; ".join(f"{name}={text}" for name in names)}
        assert client.get("/t/acme", headers=sent).status_code == 302
        assert client.get("/sign-in", headers=sent).status_code == 200
        assert client.get("/operator", headers=sent).status_code in (302, 403)


def test_guessing_many_peoples_passwords_or_an_operators_token_from_one_address_is_slowed_down() -> None:
    for address, given in (
        (
            "/sign-in",
            [{"email": f"person{n}@acme.example", "password": "guess it at last"} for n in range(70)],
        ),
        ("/operator/sign-in", [{"token": f"pso_guess{n}"} for n in range(70)]),
    ):
        answers = [Client().post(address, fields).status_code for fields in given]
        assert answers[0] == 422 and answers[-1] == 429, address


def test_a_session_planted_before_signing_in_is_ended_by_it(house: House) -> None:
    """A planted session of the attacker's own is not merged with the person's, and does not outlive the sign-in."""
    password = "a horse, a battery"
    _, _, token = actions.sign_up(
        email="new@acme.example", password=password, tenant_name="newcomers", request_id="", source=""
    )
    victim = Client()
    victim.cookies["penstock"] = house.credentials[Standing.OWNER]
    before = victim.get("/sign-up").cookies["penstock-csrf"].value
    answer = victim.post("/sign-in", {"email": "new@acme.example", "password": password})
    assert victim.cookies["penstock"].value not in (house.credentials[Standing.OWNER], token)
    assert answer.cookies["penstock-csrf"].value != before
    attacker = Client()
    attacker.cookies["penstock"] = house.credentials[Standing.OWNER]
    assert attacker.get("/t/newcomers").status_code == 302
    assert attacker.get("/t/acme").status_code == 302


@pytest.mark.parametrize("prefix", ["x" * (TEXT_MAX + 1), "orders\0"])
def test_a_prefix_that_cannot_be_makes_no_key_for_all_topics(house: House, prefix: str) -> None:
    before = ApiKey.objects.count()
    response = signed_in(house).post(
        "/t/acme/new-key",
        {"name": "bound", "lifetime": "30", "scope": "some", "topic_prefix": prefix, "may_consume": "on"},
    )
    assert response.status_code == 422
    assert ApiKey.objects.count() == before
