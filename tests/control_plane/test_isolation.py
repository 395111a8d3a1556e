"""Every REST operation and page of the console, for callers who have no business with a tenant.

The operations come from the OpenAPI document and the URL table, so a new one is in the matrix at once; an address with
a part that this test cannot name is a failure. What a stranger hears of a thing that exists must be what they hear of
one that does not, nothing of it may stand in any answer, and nothing may change.
"""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django.plugin import DjangoDbBlocker

from billing import price_actions, tax_actions
from billing.cost_models import CostTag
from billing.models import Cut, CutUsage, Invoice, PriceBook
from control_plane.access import actions as access
from control_plane.access import list_actions
from control_plane.access_reports import actions as reports
from control_plane.access_reports.months import Month
from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.audit.models import AuditEntry
from control_plane.outbox import in_request
from control_plane.outbox.models import Delivery
from control_plane.placement import driving
from control_plane.topics import actions as topics
from control_plane.topics import queries as topic_queries
from control_plane.webhooks import actions as webhooks
from payments import actions as receivables
from penstock.rules.access import Acl, Scope
from quotas.account_actions import set_account_limits
from quotas.models import Budget
from tenants import actions, tokens
from tenants.factors import queries as factors
from tenants.models import (
    ApiKey,
    Membership,
    OperatorToken,
    OrganisationMember,
    ServiceAccount,
    Session,
    Tenant,
)
from tenants.organisations import actions as organisations
from tenants.people import actions as people
from tenants.roles import Standing
from tests.control_plane.api.test_hostile_input import BODIES, OPERATIONS, VALID
from tests.control_plane.billing import invoice_rows
from tests.control_plane.hostile import some_of
from tests.control_plane.rows_of_a_module import rows_of_a_module
from tests.control_plane.steps import walk
from tests.control_plane.test_permissions import ABOUT_NO_TENANT, FREE, MAY, OPERATOR, PEOPLE
from tests.control_plane.world import (
    ACTOR,
    Answer,
    House,
    call,
    everything_delivered,
    make_house,
    make_organisation,
    make_person,
    with_verifying_key,
)
from web.urls import urlpatterns

pytestmark = pytest.mark.django_db

CANARY = "canary-7c1e"
"""In every name that the watched tenant gives: it may stand in no answer to others."""
BEGINNING = datetime(2020, 1, 1, tzinfo=UTC)
MALFORMED = (
    "",
    "Bearer",
    "Bearer ",
    "Basic b3duZXI6cGFzcw==",
    "Bearer pss_",
    "Bearer pso_" + "x" * 5_000,
    "Bearer penstock_test_AAAAAAAAAAAA_BBBB",
    "Bearer \u00e9\u00ff",
    "Bearer pss_a, Bearer pss_b",
)


STOPPING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("suspended", {"suspended": True}),
    ("closed", {"closed_at": BEGINNING}),
)
MONTH = Month(2004, 2)
"""That of no other date in these tests."""


KINDS = {"kind": "topic"}
"""Parts of addresses that name no thing."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A tenant that has one thing of every kind, each known by a name or an id."""

    house: House
    things: dict[str, str]
    """The name of an address's part -> the thing's id."""
    ended: dict[str, str] = field(repr=False)
    """Tokens that were good once, by what ended them."""
    narrow: dict[str, tuple[Standing, str]] = field(repr=False)
    """Keys of this tenant for which its topics do not exist, with what they are."""

    @property
    def tenant(self) -> Tenant:
        return self.house.tenant


def watched_tenant() -> Watched:
    house = with_verifying_key(make_house(CANARY))
    tenant = house.tenant
    owner = Membership.objects.get(tenant=tenant, role="owner").person
    by_owner = Actor(kind=ActorKind.PERSON, id=owner.public_id, request_id="r", source="192.0.2.7")
    topic = topics.create_topic(ACTOR, tenant, name=f"{CANARY}.orders", partitions=2, settings={})
    binned = topics.create_topic(ACTOR, tenant, name=f"{CANARY}.binned", partitions=1, settings={})
    binned.on_brokers, binned.binned_at = True, timezone.now()
    binned.purge_at = binned.binned_at + timedelta(days=7)
    binned.save()
    CostTag.objects.create(tenant=tenant, kind="topic", name=topic.name, key="team", value="blue")
    account = list_actions.create_account(by_owner, tenant, name=f"{CANARY}-account")
    for limited in (account, None):
        set_account_limits(ACTOR, tenant, limited, {"produce_bytes_per_s": 1_000})
    key, _ = access.create_key(ACTOR, tenant, name=f"{CANARY} key", topic_prefix=CANARY)
    _, group = list_actions.create_group(by_owner, tenant, name=f"{CANARY}-group", members=[])
    entry = Acl(
        effect="deny", principal=f"service_account:{account.public_id}", resource="topic", name=CANARY
    )
    _, (acl,) = list_actions.add_acls(by_owner, tenant, [entry])
    url = f"https://{CANARY}.example.com/hook"
    webhook, _ = webhooks.create(by_owner, tenant, name=f"{CANARY}-webhook", url=url, events=["audit.*"])
    budget = Budget.objects.create(
        tenant=tenant,
        name=f"{CANARY}-budget",
        period="month",
        measure="bytes",
        amount=1,
        thresholds=[],
        policy="notify",
    )
    invitation, _ = people.invite(by_owner, tenant, email=f"invited@{CANARY}.example", role="developer")
    member, _ = make_person(f"member@{CANARY}.example")
    Membership.objects.create(tenant=tenant, person=member, role="developer")
    factor = Authenticator.objects.create(
        user=owner, type=Authenticator.Type.WEBAUTHN, data={"name": f"{CANARY} passkey"}
    )
    organisation = make_organisation(house, f"{CANARY}-organisation", owning=True)
    OrganisationMember.objects.create(organisation=organisation, person=member, role="auditor")
    asked, _ = organisations.invite(by_owner, organisation, email=f"asked@{CANARY}.example", role="auditor")
    canary_address: dict[str, str | bool] = {
        **dict.fromkeys(tax_actions.FIELDS, CANARY),
        "country": "DE",
        "tax_id_type": "eu_vat",
        "email": f"invoices@{CANARY}.example",
        "no_mail": False,
    }
    tax_actions.set_address(ACTOR, tenant, now=timezone.now(), **canary_address)
    report = reports.make(tenant, MONTH)
    assert report is not None
    invoice, credit_note = _billed(tenant)
    return Watched(
        house=house,
        things={
            "tenant": tenant.public_id,
            "organisation": organisation.public_id,
            "invitation_of_organisation": asked.public_id,
            "name": topic.name,
            "topic": binned.public_id,
            "key": key.public_id,
            "account": account.public_id,
            "group": group.public_id,
            "acl": acl.public_id,
            "month": report.month,
            "webhook": webhook.public_id,
            "budget": budget.public_id,
            "invitation": invitation.public_id,
            "person": member.public_id,
            "factor": factors.public_id_of(factor),
            "sign_in": Session.objects.get(person=owner).public_id,
            "invoice": invoice,
            "credit_note": credit_note,
        },
        ended=_credentials_that_ended(tenant),
        narrow=_keys_for_other_names(tenant, account),
    )


def _keys_for_other_names(tenant: Tenant, denied: ServiceAccount) -> dict[str, tuple[Standing, str]]:
    """`denied`: an account to which the list denies every topic that begins with the canary."""
    other = "another."
    made = {
        "bound to another prefix": (
            Standing.BOUND_KEY,
            access.create_key(ACTOR, tenant, name="prefix", topic_prefix=other),
        ),
        "bound to another topic": (
            Standing.BOUND_KEY,
            access.create_key(
                ACTOR,
                tenant,
                name="topic",
                scopes=[Scope(resource="topic", name=f"{CANARY}.order", literal=True)],
            ),
        ),
        "verifying another prefix": (
            Standing.VERIFYING_KEY,
            access.create_verifying_key(ACTOR, tenant, name="proof", topic_prefix=other),
        ),
        "of an account that is denied": (
            Standing.KEY,
            access.create_key(ACTOR, tenant, name="denied", account=denied),
        ),
    }
    return {what: (standing, text.reveal()) for what, (standing, (_, text)) in made.items()}


def _credentials_that_ended(tenant: Tenant) -> dict[str, str]:
    now = timezone.now()
    owner = Membership.objects.get(tenant=tenant, role="owner").person
    expired, text_of_expired = access.create_key(ACTOR, tenant, name="expired")
    revoked, text_of_revoked = access.create_key(ACTOR, tenant, name="revoked")
    ApiKey.objects.filter(pk=expired.pk).update(expires_at=now - timedelta(seconds=1))
    ApiKey.objects.filter(pk=revoked.pk).update(revoked_at=now)
    session, signed_out = (tokens.new_token(tokens.SESSION_PREFIX) for _ in range(2))
    Session.objects.create(
        person=owner,
        token_hash=tokens.token_hash(session),
        source="192.0.2.1",
        browser="test",
        expires_at=now - timedelta(seconds=1),
    )
    operator = actions.create_operator(ACTOR, name="gone", tenant=tenant.public_id)
    OperatorToken.objects.filter(name="gone").update(revoked_at=now)
    return {
        "expired key": text_of_expired.reveal(),
        "revoked key": text_of_revoked.reveal(),
        "expired session": session,
        "session that was signed out": signed_out,
        "revoked operator": operator,
    }


def _billed(tenant: Tenant) -> tuple[str, str]:
    """The ids of an issued invoice and of a credit note to it."""
    if not PriceBook.objects.exists():
        price_actions.publish_first_price_book(BEGINNING)
    number = Invoice.objects.count()
    numbers = range(number, number + 1)
    cuts = invoice_rows.add_cuts(tenant, numbers, start=BEGINNING)
    entry = audit.record(ACTOR, tenant=tenant.public_id, action="invoice.issue", object_id=f"inv_{number}")
    drafts = invoice_rows.add_drafts(numbers, cuts, [PriceBook.objects.get()])
    invoice_rows.issue(drafts, BEGINNING, [(entry.sequence, entry.hash)])
    invoices = list(Invoice.objects.filter(tenant=tenant).select_related("price_book"))
    invoice_rows.credit(numbers, invoices, cuts)
    receivables.open_receivable(invoices[0])
    return f"inv_{number}", f"cn_{number}"


@dataclass(frozen=True, kw_only=True)
class Operation:
    method: str
    path: str
    """As /v1/topics/{name}."""
    fields: tuple[str, ...]

    @property
    def parts(self) -> list[str]:
        return [part for part in re.findall(r"\{(\w+)\}", self.path) if part not in KINDS]

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and "{" not in self.path

    @property
    def route(self) -> str:
        """As the URL table has it."""
        return re.sub(r"\{(\w+)\}", lambda part: f"<{_type_of(part[1])}:{part[1]}>", self.path).lstrip("/")

    @property
    def may(self) -> frozenset[Standing]:
        return MAY[self.method, self.route]

    @property
    def body(self) -> dict[str, Any] | None:
        return {name: VALID[name] for name in self.fields} if self.fields else None

    def address(self, things: dict[str, str]) -> str:
        if "organisation" in self.parts:
            things = {**things, "invitation": things["invitation_of_organisation"]}
        named = {**things, **KINDS}
        return re.sub(r"\{(\w+)\}", lambda part: named[part[1]], self.path)


def _type_of(part: str) -> str:
    return "int" if part == "broker" else "str"


_FIELDS = {(method, path): names for method, path, names in BODIES}
MATRIX = [
    pytest.param(operation, id=f"{method} {path}")
    for method, path, _ in OPERATIONS
    for operation in [Operation(method=method, path=path, fields=_FIELDS.get((method, path), ()))]
    if operation.route not in FREE
]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker and no broker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    monkeypatch.setattr(driving, "ASK_S", 0.01)
    monkeypatch.setattr(topic_queries, "ASK_S", 0.01)


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[tuple[Watched, House]]:
    with rows_of_a_module(django_db_blocker):
        found = watched_tenant()
        everything_delivered()
        yield found, with_verifying_key(make_house("umbrella"))


@pytest.fixture
def watched(made: tuple[Watched, House]) -> Watched:
    return deepcopy(made[0])


@pytest.fixture
def stranger(made: tuple[Watched, House]) -> House:
    return deepcopy(made[1])


def test_the_matrix_holds_every_operation_of_the_table() -> None:
    rows = {(row.values[0].method, row.values[0].route) for row in MATRIX}  # type: ignore[union-attr]
    assert rows == MAY.keys()


# -- REST -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", MATRIX)
def test_an_operation_is_for_the_tenants_own_and_tells_others_nothing(
    operation: Operation, watched: Watched, stranger: House
) -> None:
    before = _state(watched.tenant)
    with walk() as step:
        with step("credentials that do not hold"):
            _refuse_what_does_not_hold(operation, watched)
        with step("strangers"):
            _tell_strangers_nothing(operation, watched, stranger)
        if {"name", "topic"} & set(operation.parts):
            with step("keys for another name"):
                _tell_keys_for_another_name_nothing(operation, watched)
        if operation.is_list:
            with step("a stranger's list"):
                _list_nothing_to_strangers(operation, watched, stranger)
            with step("the list of a key for another name"):
                _list_no_topic_to_keys_for_another_name(operation, watched)
        with step("after all others"):
            assert _state(watched.tenant) == before
        with step("the tenant's own"):
            _show_its_own(operation, watched)


def _refuse_what_does_not_hold(operation: Operation, watched: Watched) -> None:
    """Texts that are no credential, those that ended and a tenant that stopped meet each operation by chance: one
    place judges them.
    """
    address = operation.address(_any_things(watched))
    living = [watched.house.credentials[standing] for standing in (Standing.KEY, Standing.BOUND_KEY)]

    def refused(column: str, *, known: str = "", **headers: str) -> None:
        answer = call(operation.method, address, operation.body, **headers)
        assert answer.status == 401, (column, answer.status, answer.body)
        assert answer.headers["WWW-Authenticate"] == "Bearer", column
        _assert_tells_nothing(answer, address + known, watched)

    refused("anonymous")
    for text in some_of(MALFORMED, 1):
        refused(f"malformed {text[:40]!r}", Authorization=text, Penstock_Tenant=watched.tenant.public_id)
    for column, token in some_of(list(watched.ended.items()), 1):
        refused(column, Authorization=f"Bearer {token}", Penstock_Tenant=watched.tenant.public_id)
    stopped = Tenant.objects.filter(pk=watched.tenant.pk)
    for column, change in some_of(STOPPING, 1):
        stopped.update(**change)
        for token in some_of(living, 1):
            # Who has the key knows whose it is.
            refused(column, known=watched.tenant.public_id, Authorization=f"Bearer {token}")
        stopped.update(suspended=False, closed_at=None)


def _tell_strangers_nothing(operation: Operation, watched: Watched, stranger: House) -> None:
    """Each standing asks for the thing. Two of them, by chance, also ask for one that is not there, to compare, and
    name the tenant.
    """
    real = _any_things(watched)
    nothing = {part: _like(thing) for part, thing in real.items()}
    named_in_address = {"tenant", "organisation"} & set(operation.parts)
    drawn = _drawn_callers(operation)
    for standing in sorted(operation.may - OPERATOR):
        token = stranger.credentials[standing]
        if operation.parts and "broker" not in operation.parts:
            answer = call(operation.method, operation.address(real), operation.body, token=token)
            assert answer.status == 404, (standing, answer.body)
            _assert_tells_nothing(answer, operation.address(real), watched)
            if standing in drawn:
                absent = call(operation.method, operation.address(nothing), operation.body, token=token)
                assert _without_ids(answer, real) == _without_ids(absent, nothing), standing
        if operation.route in ABOUT_NO_TENANT or named_in_address or standing not in drawn:
            continue
        address, tenant = operation.address(real), watched.tenant.public_id
        answer = call(operation.method, address, operation.body, token=token, tenant=tenant)
        assert answer.status == 404, (standing, answer.body)
        _assert_tells_nothing(answer, address + tenant, watched)
        absent = call(operation.method, address, operation.body, token=token, tenant=_like(tenant))
        assert _without_ids(answer, real) == _without_ids(absent, nothing), standing


def _drawn_callers(operation: Operation) -> list[Standing]:
    """A person and a key of those that may: one class reads which tenant a caller names."""
    kinds = (sorted(operation.may & PEOPLE), sorted(operation.may - PEOPLE - OPERATOR))
    return [standing for kind in kinds for standing in some_of(kind, min(1, len(kind)))]


def _list_nothing_to_strangers(operation: Operation, watched: Watched, stranger: House) -> None:
    for standing in sorted(operation.may - OPERATOR):
        answer = call("GET", operation.path, token=stranger.credentials[standing])
        assert answer.status not in (401, 403), answer.body
        _assert_tells_nothing(answer, "", watched)


def _show_its_own(operation: Operation, watched: Watched) -> None:
    """Without this step, a matrix whose things were misnamed would hold."""
    things = _any_things(watched)
    if operation.may == OPERATOR or not set(operation.parts) <= watched.things.keys():
        token, tenant = watched.house.credentials[Standing.OPERATOR], watched.tenant
    elif Standing.OWNER in operation.may:
        token, tenant = watched.house.credentials[Standing.OWNER], watched.tenant
    else:
        raise AssertionError(f"nobody of the tenant may {operation}")
    answer = call(operation.method, operation.address(things), operation.body, token=token, tenant=tenant)
    assert answer.status not in (401, 403), answer.body
    if operation.parts and set(operation.parts) <= watched.things.keys():
        said = answer.body["detail"] if answer.status == 404 else ""
        known = (
            "'person:us_nothing'" in said
            or said.startswith(("version 1 of", "service level "))
            or "before it is issued" in said
            or "has no PDF" in said
        )
        assert answer.status != 404 or known, said


NARROW = (
    "bound to another prefix",
    "bound to another topic",
    "verifying another prefix",
    "of an account that is denied",
)


def _tell_keys_for_another_name_nothing(operation: Operation, watched: Watched) -> None:
    """They hear of a topic what they would of none."""
    real = _any_things(watched)
    nothing = {**real, **{part: _like(real[part]) for part in ("name", "topic")}}
    for what in NARROW:
        standing, token = watched.narrow[what]
        heard = [
            call(operation.method, operation.address(things), operation.body, token=token)
            for things in (real, nothing)
        ]
        status = 404 if standing in operation.may else 403
        assert heard[0].status == status, (what, heard[0].status, heard[0].body)
        assert _without_ids(heard[0], real) == _without_ids(heard[1], nothing), what


def _list_no_topic_to_keys_for_another_name(operation: Operation, watched: Watched) -> None:
    """One of them, by chance, where the tenant's own list names no topic either."""
    topics_of_it = {f"{CANARY}.orders", f"{CANARY}.binned", watched.things["topic"]}

    def listed(answer: Answer) -> set[str]:
        said = json.dumps(answer.body) if isinstance(answer.body, dict | list) else str(answer.body)
        return {topic for topic in topics_of_it if topic in said}

    whole = call("GET", operation.path, token=watched.house.credentials[Standing.OWNER])
    for what in NARROW if listed(whole) else some_of(NARROW, 1):
        standing, token = watched.narrow[what]
        answer = call("GET", operation.path, token=token)
        assert (answer.status == 403) == (standing not in operation.may), (what, answer.body)
        assert not listed(answer), what


def _any_things(watched: Watched) -> dict[str, str]:
    """With names for what belongs to no tenant."""
    of_operators = {
        "broker": "1",
        "move": "mov_none",
        "cut": "cut_none",
        "plan": "pln_none",
        "cell": "none",
        "coupon": "NONE-00",
        "cost": "cost_none",
        "cost_import": "cim_none",
        "exclusion": "exc_none",
    }
    return {**watched.things, **of_operators}


def _like(thing: str) -> str:
    """Another name of the same form and length."""
    return thing[:-3] + ("zzz" if thing[-3:] != "zzz" else "yyy")


def _without_ids(answer: Answer, things: dict[str, str]) -> tuple[int, str]:
    said = json.dumps(answer.body)
    for thing in sorted(
        things.values(), key=len, reverse=True
    ):  # a short one may stand at the end of a long one
        said = said.replace(thing, "…")
    return answer.status, said


def _assert_tells_nothing(answer: Answer, asked: str, watched: Watched) -> None:
    """No name and no id of the tenant stands in the answer, but what the question named."""
    said = json.dumps(answer.body) if isinstance(answer.body, dict | list) else str(answer.body)
    for thing in sorted(watched.things.values(), key=len, reverse=True):
        if thing in asked:
            said = said.replace(thing, "…")
    for thing in (CANARY, *watched.things.values()):
        assert thing not in said, thing
    assert all(CANARY not in value for value in answer.headers.values())


def _state(tenant: Tenant) -> tuple[int, int, int, int]:
    """What any change of the tenant would change."""
    entries = AuditEntry.objects.filter(tenant=tenant.public_id).count()
    deliveries = Delivery.objects.filter(tenant=tenant.public_id).count()
    keys = ApiKey.objects.filter(tenant=tenant, revoked_at=None).count()
    return entries, deliveries, keys, Session.objects.count()


# -- the console ----------------------------------------------------------------------------------------


def _pages() -> list[Any]:
    """(name, parts behind the tenant) of every address below /t/."""
    found = []
    for pattern in urlpatterns:
        route = str(pattern.pattern)
        if route.startswith("t/"):
            parts = re.findall(r"<\w+:(\w+)>", route)[1:]
            found.append(pytest.param(str(pattern.name), parts, id=route))
    return found


PAGES = _pages()
_AS_IN_REST = {"member": "person"}
_OF_ANY = {"partition": "0", "offset": "0", "meter": "messages_in", "version": "0", "form": "csv"}
_MADE_BY = {
    "restore-settings": "topic.create",
    "restore-access": "acl.create",
    "restore-principal-group": "principal_group.create",
}
"""Page -> the action whose audit entry is the version that it restores."""


def page_of(watched: Watched, name: str, parts: list[str], *, tenant: str, real: bool = True) -> str:
    values = []
    for part in parts:
        if part == "version":
            made = AuditEntry.objects.filter(tenant=watched.tenant.public_id, action=_MADE_BY[name])
            values.append(str(made.order_by("sequence")[0].sequence))
            continue
        kind = _AS_IN_REST.get(part, part)
        thing = _OF_ANY.get(part) or watched.things[kind]
        values.append(thing if real or part in _OF_ANY else _like(thing))
    return reverse(f"web:{name}", args=[tenant, *values])


def _browser(token: str) -> Client:
    client = Client()
    client.cookies["penstock"] = token
    return client


def _both(client: Client, address: str) -> list[tuple[str, int, str, str]]:
    """What a GET and a POST of the page come to: method, status, where it leads, the page."""
    heard = []
    for method in ("GET", "POST"):
        response = client.generic(method, address)
        # Tokens against forged forms, and the request's id, are other ones each time.
        page = re.sub(r"\b\w{64}\b|\b[0-9a-f]{16}\b", "", response.content.decode())
        heard.append((method, response.status_code, response.headers.get("Location", ""), page))
    return heard


@pytest.mark.parametrize(("name", "parts"), PAGES)
def test_a_page_is_for_the_tenants_own_and_tells_others_nothing(
    name: str, parts: list[str], watched: Watched, stranger: House
) -> None:
    before = _state(watched.tenant)
    with walk() as step:
        with step("sessions that do not hold"):
            _lead_to_the_door(name, parts, watched)
        with step("strangers"):
            _show_strangers_what_is_not_there(name, parts, watched, stranger)
        with step("after all others"):
            assert _state(watched.tenant) == before
        with step("the owner"):
            _show_the_owner(name, parts, watched)


def _lead_to_the_door(name: str, parts: list[str], watched: Watched) -> None:
    address = page_of(watched, name, parts, tenant=CANARY)
    cookies = ["nonsense", "pss_" + "x" * 5_000, "\u00e9", *watched.ended.values()]
    cookies += [watched.house.credentials[standing] for standing in (Standing.KEY, Standing.OPERATOR)]
    for cookie in ("", *some_of(cookies, 1)):
        for method, status, leads_to, page in _both(_browser(cookie), address):
            assert status in (302, 405), (cookie[:20], method, status)
            assert status == 405 or leads_to.startswith("/sign-in"), (cookie[:20], leads_to)
            assert CANARY not in page


def _show_strangers_what_is_not_there(name: str, parts: list[str], watched: Watched, stranger: House) -> None:
    browser = _browser(stranger.credentials[Standing.OWNER])
    real = page_of(watched, name, parts, tenant=CANARY)
    nothing = page_of(watched, name, parts, tenant=_like(CANARY))
    pairs = [(real, nothing)]
    if set(parts) - _OF_ANY.keys():
        theirs, nobodys = (
            page_of(watched, name, parts, tenant="umbrella", real=known) for known in (True, False)
        )
        pairs.append((theirs, nobodys))
    for existing, missing in pairs:
        for there, absent in zip(_both(browser, existing), _both(browser, missing), strict=True):
            assert there[1] in (404, 405), there[:3]
            assert there[1:3] == absent[1:3]
            assert _blind(there[3], watched) == _blind(absent[3], watched)
            assert CANARY not in _blind(there[3], watched)


def _blind(page: str, watched: Watched) -> str:
    """The page without what its address named."""
    for thing in (*watched.things.values(), CANARY):
        page = page.replace(thing, "…").replace(_like(thing), "…")
    return page


def _show_the_owner(name: str, parts: list[str], watched: Watched) -> None:
    CutUsage.objects.create(
        cut=Cut.objects.get(tenant=watched.tenant),
        tenant=watched.tenant,
        topic_id="0" * 32,
        topic="orders",
        partition=0,
        log_generation=1,
        day=BEGINNING.date(),
        meter="messages_in",
        quantity=5,
        first_offset=0,
        end_offset=9,
    )
    # It was there in the month that is asked for.
    Tenant.objects.filter(pk=watched.tenant.pk).update(created_at=datetime(2004, 1, 1, tzinfo=UTC))
    owner = _browser(watched.house.credentials[Standing.OWNER])
    address = page_of(watched, name, parts, tenant=CANARY)
    shown = owner.get(address, {"name": "readers"})
    is_without_document = shown.status_code == 404 and "has no PDF" in shown.content.decode()
    assert shown.status_code not in (302, 403, 404) or is_without_document
