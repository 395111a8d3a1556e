"""Every page of the console asks the database as often for 200 rows of what it lists as for one."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing.models import PriceBook
from control_plane.audit.models import AuditEntry
from control_plane.brokers import client as brokers
from control_plane.outbox import in_request
from control_plane.rate_counters import counters
from tenants.models import (
    AddressChange,
    AddressProof,
    Invitation,
    OperatorToken,
    PasswordReset,
    PendingSignUp,
    Person,
)
from tenants.roles import Standing
from tenants.tokens import token_hash
from tests.control_plane.web.filling import FAR, Described, described, fill
from tests.control_plane.world import House, make_house
from web import broker_access
from web.urls import urlpatterns

pytestmark = pytest.mark.django_db

ROWS = 200
LISTED_MAX = 128
"""Rows of tables and foldable entries on one page, headings included: a longer list is not read but searched."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """How a page is asked for. `lists`: it shows more where there is more. `few`: a real service has few of them, and
    the page shows them all."""

    lists: bool = False
    few: bool = False
    status: int = 200
    query: str = ""


LISTS = Page(lists=True)
ONE = Page()
AWAY = Page(status=503)
"""It is about what brokers hold, and no brokers run here."""
GROUP = "?name=readers"
PAGES = {
    "home": Page(status=302),
    "sign-in": Page(status=302),
    "sign-up": ONE,
    "new-tenant": ONE,
    "second-factor": Page(status=302),
    "provider": Page(status=404),
    "provider-back": Page(status=404),
    "link-provider": Page(status=404),
    "unlink-provider": Page(status=404),
    "finish-sign-up": ONE,
    "forgot": ONE,
    "prove-address": ONE,
    "account": LISTS,
    "change-address": ONE,
    "confirm-address": ONE,
    "take-back-address": ONE,
    "require-factors": LISTS,
    "add-codes": ONE,
    "add-passkey": Page(status=400),
    "recovery-codes": Page(status=404),
    "remove-factor": Page(status=404),
    "reset": ONE,
    "join": ONE,
    # Its newest changes are as many for one row of each kind as for 200.
    "overview": ONE,
    "overview-live": ONE,
    "topics": LISTS,
    "topics-live": LISTS,
    "new-topic": ONE,
    "topic": ONE,
    "topic-live": ONE,
    "topic-groups": ONE,
    "topic-groups-live": ONE,
    "topic-access": LISTS,
    "edit-topic": ONE,
    "topic-history": LISTS,
    "restore-settings": ONE,
    "delete-topic": ONE,
    "bin": LISTS,
    "restore-topic": ONE,
    "purge-topic": ONE,
    "messages": ONE,
    "tail": Page(query="?after=0:0"),
    "message": AWAY,
    "message-value": AWAY,
    "produce": ONE,
    "groups": ONE,
    "groups-live": ONE,
    "group": Page(query=GROUP),
    "group-live": Page(query=GROUP),
    "reset-group": Page(status=503, query=GROUP),
    "keys": LISTS,
    "new-key": ONE,
    "revoke-key": ONE,
    "access": LISTS,
    "access-default": ONE,
    "access-reports": LISTS,
    "access-report": LISTS,
    "access-report-file": LISTS,
    "invoice-file": ONE,
    "credit-note-pdf": Page(status=404),
    "verifying-keys": LISTS,
    "new-verifying-key": ONE,
    "access-history": LISTS,
    "restore-access": ONE,
    "removed": LISTS,
    "remove-entry": ONE,
    "restore-entry": ONE,
    "restore-account": ONE,
    "group-history": LISTS,
    "restore-principal-group": ONE,
    "restore-key": ONE,
    "new-entry": ONE,
    "who-may": Page(lists=True, query="?operation=consume&resource=topic&name=topic-000"),
    "each-account-limits": ONE,
    "account-limits": ONE,
    "new-account": ONE,
    "delete-account": ONE,
    "new-principal-group": ONE,
    "principal-group": ONE,
    "budgets": LISTS,
    "new-budget": ONE,
    "edit-budget": ONE,
    "remove-budget": ONE,
    "webhooks": LISTS,
    "new-webhook": ONE,
    "webhook": LISTS,
    "edit-webhook": ONE,
    "rotate-webhook": ONE,
    "delete-webhook": ONE,
    "usage": LISTS,
    "costs": LISTS,
    "costs-file": LISTS,
    "cost-tags": LISTS,
    "set-cost-tags": ONE,
    "service-level": ONE,
    "service-level-pdf": Page(status=404),
    "tax-address": ONE,
    "invoices": LISTS,
    "invoice": LISTS,
    "line-evidence": LISTS,
    "proof": ONE,
    "close-tenant": ONE,
    "people": LISTS,
    "organisations": LISTS,
    "new-organisation": ONE,
    "organisation": LISTS,
    "organisation-audit": LISTS,
    "organisation-audit-chain": ONE,
    "edit-organisation": ONE,
    "delete-organisation": ONE,
    "move-in": LISTS,
    "move-out": ONE,
    "invite-member": ONE,
    "remove-member": ONE,
    "invite": ONE,
    "remove-person": LISTS,
    "audit": Page(lists=True, query="?action=acl.delete"),
    "audit-chain": ONE,
    "audit-topic": ONE,
    "operator": Page(lists=True, few=True),
    "operator-live": Page(lists=True, few=True),
    "operator-partitions": LISTS,
    "operator-tenants": LISTS,
    "operator-tenant": ONE,
    "operator-terms": LISTS,
    "closed-invoices": ONE,
    "operator-receivables": LISTS,
    "operator-receivables-csv": LISTS,
    "operator-receivable-credit": ONE,
    "operator-receivable-void": ONE,
    "operator-coupons": LISTS,
    "operator-new-coupon": ONE,
    "operator-coupon": LISTS,
    "operator-margins": Page(lists=True, query="?period=2026-01"),
    "operator-infrastructure": LISTS,
    "operator-price-books": ONE,
    "operator-price-book": ONE,
    "operator-new-price-book": ONE,
    "operator-organisations": LISTS,
    "operator-organisation": LISTS,
    "operator-people": LISTS,
    "operator-person": LISTS,
    "operators": LISTS,
    "revoke-operator": ONE,
    "operator-sign-in": Page(status=302),
}
POSTS = {
    "sign-out",
    "end-other-sign-ins",
    "end-sign-in",
    "rotate-key",
    "access-report-mails",
    "delete-principal-group",
    "ping-webhook",
    "switch-audit-topic",
    "switch-webhook",
    "reopen-tenant",
    "protect-tenant",
    "ask-for-proof",
    "withdraw-address",
    "require-no-factors",
    "operator-remove-factors",
    "verify",
    "withdraw-invitation",
    "change-role",
    "withdraw-member",
    "member-role",
    "operator-suspend",
    "operator-receivable-retry",
    "operator-end-coupon",
    "operator-undo-import",
    "operator-person-limit",
    "operator-reset",
    "operator-sign-out",
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One answer, and what it asked of the database."""

    status: int
    length: int
    listed: int
    statements: tuple[str, ...]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    monkeypatch.setattr(broker_access, "DELIVERED_S", 0.0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Described]:
    with described() as (cluster, client):
        monkeypatch.setattr(brokers, "client", lambda: client)
        yield cluster


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    owner = owner_of(made)
    Invitation.objects.create(
        tenant=made.tenant,
        public_id="ivt_known",
        email="known@acme.example",
        role="auditor",
        token_hash=token_hash("known"),
        expires_at=FAR,
    )
    PendingSignUp.objects.create(
        public_id="psu_known",
        email="new@acme.example",
        tenant_name="new",
        token_hash=token_hash("known"),
        expires_at=FAR,
    )
    AddressProof.objects.create(
        person=owner,
        public_id="psv_known",
        email=owner.email,
        token_hash=token_hash("known"),
        expires_at=FAR,
    )
    for state in ("waiting", "confirmed"):
        AddressChange.objects.create(
            person=owner,
            public_id=f"adc_{state}",
            before="before@acme.example",
            after="after@acme.example",
            token_hash=token_hash("known" if state == "waiting" else "used"),
            undo_hash=token_hash("known") if state == "confirmed" else None,
            expires_at=FAR,
            confirmed_at=None if state == "waiting" else owner.created_at,
            undo_until=None if state == "waiting" else FAR,
        )
    PasswordReset.objects.create(
        person=owner, public_id="rst_known", token_hash=token_hash("known"), expires_at=FAR
    )
    fill(made.tenant, owner, range(1))
    return made


def owner_of(house: House) -> Person:
    return Person.objects.get(email="owner@acme.example")


def signed_in(house: House) -> Client:
    """The owner, who is an operator too."""
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    client.post("/operator/sign-in", {"token": house.credentials[Standing.OPERATOR]})
    return client


def version_of(page: str) -> int:
    """The oldest one that can be restored there: the number of its audit entry."""
    actions = {
        "restore-settings": "topic.update",
        "restore-access": "acl.delete",
        "restore-principal-group": "principal_group.change",
    }
    found = AuditEntry.objects.filter(action=actions.get(page, "")).order_by("sequence").first()
    return 0 if found is None else found.sequence


def address_of(house: House, name: str, route: str) -> str:
    known = {
        "organisation": "org_0" if route.startswith("operator/") else "organisation-000",
        "moved": "ten_of_organisation_0",
        "tenant": house.tenant.public_id if route.startswith("operator/") else "acme",
        "name": "topic-000",
        "topic": "top_binned_0",
        "key": "key_0",
        "invoice": "inv_0",
        "credit_note": "cn_0",
        "coupon": "COUPON-0",
        "partition": "0",
        "offset": "0",
        "meter": "messages_in",
        "member": owner_of(house).public_id,
        "token": "known",
        "token_id": OperatorToken.objects.get(name="op").public_id,
        "invitation": "ivt_0",
        "acl": "acl_gone_0" if name == "restore-entry" else "acl_0",
        "month": "now",
        "form": "csv",
        "account": "sa_gone_0" if name == "restore-account" else "sa_0",
        "webhook": "whk_0",
        "budget": "bud_0",
        "book": PriceBook.objects.order_by("pk")[0].sha256,
        "cost_import": "cim_0",
        "group": "grp_0",
        "sign_in": "sin_0",
        "factor": "0",
        "provider": "acme",
        "identity": "idn_0",
        "version": str(version_of(name)),
    }
    arguments = [known[argument] for argument in re.findall(r"<(?:str|int):(\w+)>", route)]
    return reverse(f"web:{name}", args=arguments)


def look_at_all(house: House, client: Client) -> dict[str, Seen]:
    seen = {}
    for pattern in urlpatterns:
        name = str(pattern.name)
        if name not in PAGES:
            continue
        counters().forget_all()
        address = address_of(house, name, str(pattern.pattern)) + PAGES[name].query
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(address)
            # What is streamed asks while it is read.
            content = answer.getvalue() if answer.streaming else answer.content
        statements = tuple(re.sub(r"'[^']*'|\b\d+\b", "?", one["sql"]) for one in captured.captured_queries)
        # The menu of one's tenants and the navigation stand on every page, and scroll.
        menus = r'<details class="switcher">.*?</details>|<nav aria-label="Pages.*?</nav>'
        shown = re.sub(menus, "", content.decode(), flags=re.DOTALL)
        if shown.startswith("<!doctype html>"):
            # A template that takes another one's block by mistake shows a part of the page alone.
            assert shown.count("<main") == shown.count("</main>") == shown.count("<h1") == 1, name
        seen[name] = Seen(
            status=answer.status_code,
            length=len(shown),
            listed=len(re.findall(r"<tr>|<li>|<details", shown)),
            statements=statements,
        )
    return seen


def test_every_address_is_a_page_that_is_looked_at_or_takes_posts_only(house: House) -> None:
    client = signed_in(house)
    routes = {str(pattern.name): str(pattern.pattern) for pattern in urlpatterns}
    assert set(routes) == PAGES.keys() | POSTS
    for name in POSTS - PAGES.keys():
        assert client.get(address_of(house, name, routes[name])).status_code == 405, name


def test_every_page_asks_the_database_as_often_for_200_rows_as_for_one(
    house: House, cluster: Described
) -> None:
    client = signed_in(house)
    look_at_all(house, client)  # what a process asks once
    few = look_at_all(house, client)
    fill(house.tenant, owner_of(house), range(1, ROWS))
    cluster.count = ROWS
    many = look_at_all(house, client)
    for name, page in PAGES.items():
        assert (few[name].status, many[name].status) == (page.status, page.status), name
        if page.lists:
            # A row more may be shorter than the others: a list of entries that are written in other words.
            more_rows = many[name].listed > few[name].listed
            assert more_rows or many[name].length > few[name].length, f"{name} lists nothing"
    more = {
        name: (Counter(many[name].statements) - Counter(few[name].statements)).most_common(3)
        for name in PAGES
        if len(many[name].statements) != len(few[name].statements)
    }
    assert not more, more
    long = {
        name: seen.listed for name, seen in many.items() if seen.listed > LISTED_MAX and not PAGES[name].few
    }
    assert not long, f"too long to read: {long}"
