"""REST against hostile text in every field, body, header, address and query: refused as a problem or harmless.

A field of a body and a parameter meet a third of the values in a run, by chance, and a parameter of very many
operations meets two of them in each; under FULL=1 each meets all of them. One test an operation, whose failure names
the field.
"""

import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker

from billing.price_actions import STANDARD_PRICE_BOOK
from control_plane.outbox import in_request
from control_plane.placement import driving, planning
from control_plane.topics import actions as topics
from control_plane.topics.models import Topic
from penstock.contract.errors import ErrorCode
from tenants.models import Organisation, Session, Tenant
from tenants.roles import Standing
from tests.control_plane.api.document import document as openapi_document
from tests.control_plane.hostile import some_of
from tests.control_plane.rows_of_a_module import rows_of_a_module, undone
from tests.control_plane.steps import walk
from tests.control_plane.world import (
    ACTOR,
    PASSWORD,
    House,
    call,
    everything_delivered,
    make_house,
    make_organisation,
    with_verifying_key,
)

pytestmark = pytest.mark.django_db

HOSTILE = {
    "markup": '"><script>alert(1)</script><img src=x onerror=alert(1)>',
    "nul": "a\0b",
    "control": "a\x1b[2J\r\nSet-Cookie: a=b\x07\x7f\x9b31m",
    "right-to-left": "abc\u202egnp.exe\u2066\u200b",
    "not a character": "\ud800",
    "template": "{{ 7*7 }}{% debug %}${7*7}",
    "quotes": "'; DROP TABLE tenants_tenant; --",
    "path": "../../../etc/passwd",
    "long": "x" * 100_000,
    "combining": "e" + "\u0301" * 5_000,
    "blank": " \t\u00a0\u2003",
}
WRONG: dict[str, Any] = {
    "nothing": None,
    "number": 10**400,
    "negative": -1,
    "list": [[[]]],
    "object": {"$gt": ""},
    "truth": True,
    "real": 1.5,
    "exponent": 1e308,
}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    monkeypatch.setattr(driving, "ASK_S", 0.01)
    monkeypatch.setattr(planning, "ASK_S", 0.01)


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[House]:
    with rows_of_a_module(django_db_blocker):
        house = with_verifying_key(make_house("acme"))
        topics.create_topic(ACTOR, house.tenant, name="orders", partitions=3, settings={})
        make_organisation(house, "acme")
        everything_delivered()
        yield house


@pytest.fixture
def house(made: House) -> House:
    return deepcopy(made)


def _operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    document = openapi_document()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, {**operation, "components": document["components"]["schemas"]}


OPERATIONS = list(_operations())
VALID: dict[str, Any] = {
    "service_level": {
        "target_parts": 999_000_000,
        "tiers": [{"below_parts": 990_000_000, "basis_points": 1_000}],
    },
    "email": "new@acme.example",
    "password": PASSWORD,
    "present": "not the password until now",
    "new": "a longer horse, a battery",
    "tenant": "newcomers",
    "invitation": "psi_nothing",
    "code": "000000",
    "present_code": "000000",
    "second_factor_required": True,
    "second_factor_grace_days": 7,
    "deletion_protection": True,
    "token": "psi_nothing",
    "role": "auditor",
    "name": "fresh",
    "display_name": "Fresh & Sons",
    "partitions": 4,
    "settings": {},
    "topics": [{"name": "fresh", "partitions": 4, "settings": {}}],
    "expires_at": "2999-01-01T00:00:00Z",
    "topic_prefix": "orders",
    "operations": ["produce"],
    "produce_bytes_per_s": 1_000,
    "consume_bytes_per_s": 1_000,
    "partitions_max": 100,
    "topics_max": 100,
    "retention_ms": 86_400_000,
    "retention_ms_max": 0,
    "message_bytes_max": 0,
    "service_accounts_max": 0,
    "bin_days": 7,
    "rest_calls_per_s": 0,
    "rest_processor_ms_per_s": 0,
    "connections_max": 0,
    "groups_max": 0,
    "requests_per_s": 0,
    "connection_attempts_per_s": 0,
    "rate_burst_ms": 0,
    "rate_floor_percent": 0,
    "storage_bytes_max": 0,
    "partition_changes_per_hour": 0,
    "broker_processor_ms_per_s": 0,
    "keys_max": 0,
    "plan": "committed",
    "plan_version": 1,
    "limits": {"partitions_max": 100},
    "end": "2026-01-01T00:00:00Z",
    "topic_id": "0" * 32,
    "partition": 0,
    "broker": 1,
    "accept_loss": False,
    "document": json.loads(STANDARD_PRICE_BOOK.read_text(encoding="utf-8")),
    "effective_from": "2999-01-01T00:00:00Z",
    "dry_run": True,
    "waive": ["0" * 32 + "-0"],
    "reason": "its disk is lost",
    "level": 1,
    "default": "allow",
    "effect": "allow",
    "principal": "everyone",
    "resource": "topic",
    "pattern": "prefix",
    "addresses": ["10.0.0.0/8"],
    "preset": "producer",
    "group_prefix": "workers",
    "scopes": [{"resource": "topic", "pattern": "prefix", "name": "orders", "operations": ["produce"]}],
    "service_account": "sa_nothing",
    "overlap_s": 60,
    "to_owners": False,
    "to_me": True,
    "url": "https://hooks.example.com/hook",
    "events": ["audit.*"],
    "state": "off",
    "skip_waiting": True,
    "members": ["person:us_nothing"],
    "kind": "rebalance",
    "cell": "",
    "brokers": [1],
    "hosts": [],
    "mode": "advise",
    "bytes_per_s": 2**26,
    "moves_at_once": 10,
    "version": 1,
    "at": "2026-01-01T00:00:00Z",
    "leave_out_gone": True,
    "page": "setup",
    "discounts": [],
    "credits": [],
    "tax": None,
    "price_book_sha256": None,
    "terms": {"discounts": [], "credits": [], "tax": None},
    "periods": 1,
    "basis_points": 1_000,
    "amount_micro": 0,
    "currency": "",
    "days": 30,
    "uses_max": 5,
    "from_at": "2026-01-01T00:00:00Z",
    "until_at": "2999-01-01T00:00:00Z",
    "legal_name": "Acme Limited",
    "no_mail": False,
    "parts": [{"part": "messages_in"}],
    "reference": "bank 1",
    "period": "month",
    "measure": "bytes",
    "amount": 1_000,
    "counts_reads": False,
    "policy": "notify",
    "thresholds": [50, 100],
    "slow_bytes_per_s": 0,
    "topic": "",
    "driver": "bytes",
    "price_micro": 1_000,
    "per": "month",
    "capacity_month": None,
    "source": "cloud",
    "cost_column": "EffectiveCost",
    "csv": "BillingCurrency,ChargePeriodStart,ChargePeriodEnd,EffectiveCost,ServiceCategory,ServiceName\n"
    "USD,2026-11-03T00:00:00Z,2026-11-04T00:00:00Z,1.25,Compute,EC2\n",
    "tags": {"team": "fresh"},
    "country": "DE",
    "postal_code": "10115",
    "city": "Berlin",
    "line1": "Invalidenstr. 1",
    "line2": "",
    "tax_id_type": "eu_vat",
    "tax_id": "DE123456789",
    "costs": [
        {
            "name": "fresh",
            "kind": "hosts",
            "price_micro": 1,
            "per": "month",
            "currency": "USD",
            "from_at": "2026-01-01T00:00:00Z",
        }
    ],
}
"""Of every field of every request: a new field without a value here is a failure of the test below."""


def _fields(operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody")
    if body is None:
        return {}
    schema = body["content"]["application/json"]["schema"]
    properties: dict[str, Any] = operation["components"][schema["$ref"].rpartition("/")[2]]["properties"]
    return properties


BODIES = [
    (method, path, tuple(_fields(operation))) for method, path, operation in OPERATIONS if _fields(operation)
]
FIELDS = {(method, path): names for method, path, names in BODIES}
QUERIES = {
    (method, path): tuple(p["name"] for p in operation.get("parameters", ()) if p["in"] == "query")
    for method, path, operation in OPERATIONS
}
WALKS = [
    pytest.param(method, path, id=f"{method} {path}")
    for method, path, _ in OPERATIONS
    if (method, path) in FIELDS or QUERIES[method, path] or "{" in path
]
OF_MANY_QUERIES = {"cursor", "dry_run", "limit"}
"""Parameters of more than fifty operations each, which one class reads for all of them."""


def assert_refused_or_harmless(answer: Any) -> None:
    """Not a fault; a refusal is a problem document that can be shown on a terminal."""
    assert answer.status < 500 or answer.body["code"] == "broker_unavailable", answer.body
    if answer.status >= 400:
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.body["status"] == answer.status
        assert answer.body["code"].upper() in ErrorCode.__members__
        assert len(json.dumps(answer.body, ensure_ascii=False)) < 4_000
        shown = answer.body["detail"]
        assert not any(
            sign < " " or "\x7f" <= sign <= "\x9f" or sign in "\u202e\u2066\u200b" for sign in shown
        ), shown


def credential(house: House, method: str, path: str) -> dict[str, Any]:
    """Who may do most there."""
    if path in ("/v1/sign-up", "/v1/sign-in"):
        return {}
    operators = (
        path.startswith(("/v1/billing", "/v1/cluster", "/v1/coupons", "/v1/margins", "/v1/placement"))
        or (method, path)
        in (
            ("PATCH", "/v1/quotas"),
            ("POST", "/v1/plans"),
        )
        or ("service-account" in path and path.endswith(("/limits", "/default")) and method != "GET")
    )
    if operators or path.endswith(("/suspend", "/resume", "/terms", "/terms/preview")):
        return {"token": house.credentials[Standing.OPERATOR], "tenant": house.tenant}
    return {"token": house.credentials[Standing.OWNER]}


def filled(path: str, house: House) -> str:
    return (
        path.replace("{name}", "orders")
        .replace("{kind}", "topic")
        .replace("{organisation}", Organisation.objects.earliest("pk").public_id)
        .replace("{tenant}", house.tenant.public_id)
        .replace("{", "")
        .replace("}", "")
    )


def test_every_field_of_every_request_is_known_here() -> None:
    assert {name for _, _, names in BODIES for name in names} == set(VALID)


def test_some_parameters_are_of_many_queries() -> None:
    number = Counter(name for names in QUERIES.values() for name in names)
    assert {name for name in number if number[name] > 50} == OF_MANY_QUERIES


@pytest.mark.parametrize(("method", "path"), WALKS)
def test_hostile_text_anywhere_in_a_request_is_refused_or_harmless(
    method: str, path: str, house: House
) -> None:
    with walk() as step:
        for field in FIELDS.get((method, path), ()):
            with step(f"field {field}"), undone():
                _send_hostile_values(method, path, field, house)
        for parameter in QUERIES[method, path]:
            with step(f"query {parameter}"), undone():
                _ask_hostile_questions(method, path, parameter, house)
        if "{" in path:
            with step("address"), undone():
                _name_what_is_no_name(method, path, house)


def _send_hostile_values(method: str, path: str, field: str, house: House) -> None:
    good: dict[str, Any] = {name: VALID[name] for name in FIELDS[method, path]}
    if path.endswith("/sign-up"):
        del good["tenant" if field == "invitation" else "invitation"]
    if path.endswith("/cuts"):
        good["tenant"] = house.tenant.public_id
    if path.endswith("/cost-imports"):
        del good["csv" if field == "costs" else "costs"]
    who = credential(house, method, path)
    for value in some_of([*HOSTILE.values(), *WRONG.values()], 6):
        variants: list[Any] = [value]
        if field == "settings":
            variants += [{str(value)[:1_000]: 1}, {"retention_ms": value}, {"retention_ms": {"a": value}}]
        if field == "service_level":
            variants += [
                VALID[field] | {name: value} for name in ("name", "tiers", "latency", "target_parts")
            ]
        if field == "operations":
            variants += [[value], ["produce"] * 100]
        for variant in variants:
            answer = call(method, filled(path, house), {**good, field: variant}, **who)
            assert_refused_or_harmless(answer)
    assert Tenant.objects.filter(name="acme").exists()


def _ask_hostile_questions(method: str, path: str, parameter: str, house: House) -> None:
    who = credential(house, method, path)
    values = [value.encode("utf-8", "surrogatepass") for value in HOSTILE.values()]
    values += [
        b"\xff\xfe",
        b"9" * 5_000,
        "٣".encode(),
        b"MSA5OTk5OTk5OTk5OTk5OTk5OTk5",
        b"MSAtMQ",
        b"MSAgMQ",
        b"\xc3",
    ]
    for value in some_of(values, 2 if parameter in OF_MANY_QUERIES else 6):
        answer = call(method, f"{filled(path, house)}?{parameter}={quote(value)}", **who)
        assert_refused_or_harmless(answer)


def _name_what_is_no_name(method: str, path: str, house: House) -> None:
    """With what no database takes, and more by chance: the address of a thing has most often three operations."""
    who = credential(house, method, path)
    body: dict[str, Any] | None = {} if method in ("POST", "PATCH") else None
    others = [text for name, text in HOSTILE.items() if name != "nul"]
    for value in (HOSTILE["nul"], *some_of([*others, "", ".", "..", "%00", "a/b"], 3)):
        hostile = quote(value.encode("utf-8", "surrogatepass"), safe="")
        address = path[: path.index("{")] + hostile + path[path.index("}") + 1 :]
        assert_refused_or_harmless(call(method, address, body, **who))
    assert Topic.objects.filter(name="orders", deleted_at=None).exists()


OF_OTHER_TYPES = [
    ("/v1/topics", {"name": 5}, "name: text required"),
    ("/v1/topics", {"name": "x", "partitions": "4"}, "partitions: a whole number required"),
    ("/v1/topics", {"name": "x", "partitions": "1_0"}, "partitions: a whole number required"),
    ("/v1/topics", {"name": "x", "partitions": "٣"}, "partitions: a whole number required"),
    ("/v1/topics", {"name": "x", "partitions": True}, "partitions: a whole number required"),
    ("/v1/topics", {"name": "x", "partitions": 3.5}, "partitions: a whole number required"),
    ("/v1/topics:batch", {"topics": [{"name": 5}]}, "topics.0.name: text required"),
    ("/v1/keys", {"name": "x", "topic_prefix": 7}, "topic_prefix: text required"),
    ("/v1/keys", {"name": "x", "operations": ["produce", 1]}, "operations: text required"),
    ("/v1/keys", {"name": "x", "expires_at": 2999}, "expires_at: text required"),
    ("/v1/invitations", {"email": "a@b.example", "role": ["owner"]}, "role: text required"),
    (
        "/v1/cluster/losses",
        {"topic_id": "0" * 32, "partition": 0, "accept_loss": "yes"},
        "accept_loss: true or false required",
    ),
    (
        "/v1/cluster/losses",
        {"topic_id": "0" * 32, "partition": 0, "accept_loss": 1},
        "accept_loss: true or false required",
    ),
    (
        "/v1/price-books",
        {"document": {}, "effective_from": "2999-01-01", "dry_run": "off"},
        "dry_run: true or false required",
    ),
]


@pytest.mark.parametrize(("path", "body", "said"), OF_OTHER_TYPES)
def test_a_value_of_another_type_is_not_taken_for_the_right_one(
    path: str, body: dict[str, Any], said: str, house: House
) -> None:
    standing = Standing.OPERATOR if path in ("/v1/cluster/losses", "/v1/price-books") else Standing.OWNER
    answer = call("POST", path, body, token=house.credentials[standing])
    assert (answer.status, answer.body["detail"]) == (400, said)
    assert list(answer.body["fields"]) == [said.partition(":")[0]]


BROKEN_BODIES: dict[str, tuple[str, bytes, int]] = {
    "no JSON": ("application/json", b"{", 400),
    "nothing": ("application/json", b"", 400),
    "a list": ("application/json", b"[]", 400),
    "a number": ("application/json", b"1", 400),
    "null": ("application/json", b"null", 400),
    "not a number": ("application/json", b'{"name": "x", "partitions": NaN}', 400),
    "infinity": ("application/json", b'{"name": "x", "partitions": Infinity}', 400),
    "digits": ("application/json", b'{"name": "x", "partitions": ' + b"9" * 10_000 + b"}", 400),
    "wrong encoding": ("application/json", b'{"name": "\xff\xfe"}', 400),
    "UTF-16": ("application/json", '{"name": "x"}'.encode("utf-16"), 400),
    "UTF-16 as told": ("application/json; charset=utf-16", '{"name": "x"}'.encode("utf-16"), 400),
    "deep lists": ("application/json", b"[" * 100_000, 400),
    "deep objects": ("application/json", b'{"name":' * 50_000 + b"1" + b"}" * 50_000, 400),
    "deep settings": (
        "application/json",
        b'{"name": "x", "settings": {"retention_ms": ' + b'{"a":' * 400 + b"1" + b"}" * 400 + b"}}",
        400,
    ),
    "a key twice": ("application/json", b'{"name": "x", "name": "y"}', 400),
    "a key twice inside": (
        "application/json",
        b'{"name": "x", "settings": {"retention_ms": 1, "retention_ms": -1}}',
        400,
    ),
    "a form": ("application/x-www-form-urlencoded", b"name=x", 415),
    "parts": ("multipart/form-data; boundary=b", b"--b\r\n\r\n--b--", 415),
    "XML": ("application/xml", b"<name>x</name>", 415),
    "no type": ("", b'{"name": "x"}', 415),
    "garbled type": ("\x01/;;=", b'{"name": "x"}', 415),
    "huge": ("application/json", b'{"name": "' + b"x" * 3_000_000 + b'"}', 400),
    "huge and blank": ("application/json", b" " * 3_000_000 + b'{"name": "x"}', 400),
}


@pytest.mark.parametrize("what", BROKEN_BODIES)
def test_a_body_that_cannot_be_is_a_problem_and_makes_nothing(what: str, house: House) -> None:
    kind, body, status = BROKEN_BODIES[what]
    key = house.credentials[Standing.KEY]
    response = Client().generic(
        "POST", "/v1/topics", body, content_type=kind, headers={"Authorization": f"Bearer {key}"}
    )
    assert response.status_code == status, response.content[:300]
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["status"] == status and len(response.content) < 2_000
    assert Topic.objects.filter(tenant=house.tenant).count() == 1


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "bearer  ",
        "Basic YTpi",
        "Bearer a b c",
        "Bearer \x00",
        "Bearer \xff\xfe",
        "Bearer pss_\x00",
        "Bearer pso_" + "x" * 50_000,
        "Bearer penstock_test_" + "9" * 50_000,
        "Bearer penstock_test_\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00_" + "0" * 49,
        "Digest username=a",
        ",Bearer x",
    ],
)
def test_a_malformed_authorization_is_refused_and_not_repeated(header: str, house: House) -> None:
    answer = call("GET", "/v1/topics", Authorization=header)
    assert_refused_or_harmless(answer)
    if "\0" not in header:
        assert (answer.status, answer.body["code"]) == (401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert len(header) < 20 or header[7:] not in str(answer.body)


@pytest.mark.parametrize("standing", list(Standing))
def test_no_header_leads_into_another_tenant(standing: Standing, house: House) -> None:
    other = make_house("umbrella")
    topics.create_topic(ACTOR, other.tenant, name="secret-plans", partitions=1, settings={})
    token = house.credentials[standing]
    for named in [
        other.tenant.public_id,
        *HOSTILE.values(),
        "",
        f"{house.tenant.public_id},{other.tenant.public_id}",
    ]:
        named = named.encode("utf-8", "replace").decode("latin-1")[:8_000].replace("\r", "").replace("\n", "")
        answer = call("GET", "/v1/topics", token=token, tenant=named)
        assert_refused_or_harmless(answer)
        if standing is not Standing.OPERATOR:
            assert answer.status == (400 if "\0" in named else 404), named
            assert "secret-plans" not in str(answer.body)


def test_an_idempotency_key_is_its_callers_alone_and_any_text_is_refused_or_harmless(house: House) -> None:
    other = make_house("umbrella")
    body = {"name": "fresh"}
    mine = call("POST", "/v1/topics", body, token=house.credentials[Standing.KEY], Idempotency_Key="one")
    others = call("POST", "/v1/topics", body, token=other.credentials[Standing.KEY], Idempotency_Key="one")
    assert (mine.status, others.status) == (202, 202) and mine.body["id"] != others.body["id"]
    assert "Idempotency-Replayed" not in others.headers
    # An operator's key for one tenant gives nothing of its answer to the same request for another.
    operator = {"token": house.credentials[Standing.OPERATOR], "Idempotency_Key": "two"}
    suspended = [
        call("POST", f"/v1/tenants/{tenant.public_id}/suspend", **operator)
        for tenant in (house.tenant, other.tenant)
    ]
    assert [answer.status for answer in suspended] == [202, 400]
    for value in [*HOSTILE.values(), "", "x" * 256]:
        given = value.encode("utf-8", "replace").decode("latin-1")
        answer = call(
            "POST",
            "/v1/topics",
            {"name": "x"},
            token=other.credentials[Standing.OWNER],
            Idempotency_Key=given,
        )
        assert_refused_or_harmless(answer)


def test_guessing_a_password_over_rest_is_slowed_down_and_others_are_not(house: House) -> None:
    def attempt(email: str) -> int:
        return call("POST", "/v1/sign-in", {"email": email, "password": "guess it at last"}).status

    before = Session.objects.count()
    spellings = ["ann@acme.example", " ANN@acme.example ", "Ann@Acme.Example"]
    answers = [attempt(spellings[number % 3]) for number in range(40)]
    assert answers[:30] == [401] * 30 and set(answers[30:]) == {429}
    assert attempt("bob@acme.example") == 401
    assert Session.objects.count() == before
