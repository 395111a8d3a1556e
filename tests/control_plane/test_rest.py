"""The REST frame: problems, paging, idempotency, credentials, limits, the document."""

import hashlib
import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from control_plane.access import actions as access
from control_plane.api import idempotency
from control_plane.api.models import IdempotentRequest
from control_plane.audit import queries as audit
from control_plane.keyed_digests import keyed_digest
from control_plane.outbox import conditions, delivery, in_request, registry
from control_plane.outbox.models import Delivery
from control_plane.outbox.registry import Delivered
from control_plane.processes import actions as processes
from control_plane.processes.models import Heartbeat
from control_plane.rest import health
from control_plane.rest.topics import ChangedTopic
from control_plane.rest.views import answer_change
from control_plane.topics import actions as topics
from control_plane.topics import observed
from control_plane.topics.models import Topic
from penstock.contract.errors import BrokerUnavailable, LimitExceeded, PenstockError, Throttled
from penstock.contract.ids import SYSTEM_TENANT
from tenants import actions
from tenants.models import ApiKey, Person, Tenant
from tests.control_plane.world import ACTOR, PASSWORD, call, make_person, make_tenant, metrics_text

pytestmark = pytest.mark.django_db

SIGN_UP = {"email": "ann@example.com", "password": PASSWORD, "tenant": "acme"}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker runs here, so no request waits for one."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def key(tenant: Tenant) -> str:
    return access.create_key(ACTOR, tenant, name="app")[1].reveal()


def assert_problem(answer: Any, status: int, code: str, detail: str = "") -> None:
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code", "fields"} == answer.body.keys() - {"limit"}
    assert (answer.body["status"], answer.body["code"]) == (status, code)
    assert detail in answer.body["detail"]


def test_a_new_person_has_a_tenant_and_a_session_that_sees_it() -> None:
    made = call("POST", "/v1/sign-up", SIGN_UP)
    assert made.status == 201
    token = made.body["token"]
    assert token.startswith("pss_")
    assert made.body["tenant"]["delivered"] is False
    assert made.body["tenant"]["token"] == {"object": made.body["tenant"]["id"], "generation": 1}
    listed = call("GET", "/v1/tenants", token=token)
    assert [item["name"] for item in listed.body["items"]] == ["acme"]
    signed_in = call("POST", "/v1/sign-in", {"email": "ann@example.com", "password": PASSWORD})
    assert signed_in.status == 200
    assert call("POST", "/v1/sign-out", token=token).status == 204
    assert_problem(call("GET", "/v1/tenants", token=token), 401, "unauthenticated", "the sign-in has ended")
    assert call("GET", "/v1/tenants", token=signed_in.body["token"]).status == 200


def test_a_wrong_password_is_refused_without_saying_what_was_wrong() -> None:
    call("POST", "/v1/sign-up", SIGN_UP)
    for email in ("ann@example.com", "bob@example.com"):
        answer = call("POST", "/v1/sign-in", {"email": email, "password": "wrong"})
        assert_problem(answer, 401, "unauthenticated", "the e-mail address or the password is wrong")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_taken_name_is_a_problem_that_names_the_field() -> None:
    call("POST", "/v1/sign-up", SIGN_UP)
    answer = call("POST", "/v1/sign-up", {**SIGN_UP, "email": "bob@example.com"})
    assert_problem(answer, 409, "already_exists", "tenant: the name 'acme' is taken")
    assert answer.body["fields"] == {"tenant": ["the name 'acme' is taken"]}
    assert Person.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "email"),
        ({**SIGN_UP, "extra": 1}, "extra"),
        ({**SIGN_UP, "email": 5}, "email"),
        ({**SIGN_UP, "email": "no"}, "email"),
        ({**SIGN_UP, "password": "short"}, "password"),
        ({**SIGN_UP, "tenant": "a b"}, "tenant"),
        ([], "body"),
    ],
)
def test_wrong_input_is_refused_by_field_and_makes_nothing(body: Any, field: str) -> None:
    answer = call("POST", "/v1/sign-up", body)
    assert_problem(answer, 400, "invalid_request")
    assert field in answer.body["fields"]
    assert not Person.objects.exists()


def test_what_is_no_json_or_no_address_or_no_method_is_a_problem_too(key: str) -> None:
    from django.test import Client

    answer = Client().post(
        "/v1/topics", "{", content_type="application/json", headers={"Authorization": f"Bearer {key}"}
    )
    assert answer.status_code == 400 and answer.headers["Content-Type"] == "application/problem+json"
    assert_problem(call("GET", "/v1/no-such-thing"), 404, "not_found", "/v1/no-such-thing")
    assert_problem(call("PUT", "/v1/topics", {}, token=key), 405, "invalid_request")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "penstock_test_short",
        "pss_" + "0" * 43,
        "pso_" + "0" * 43,
        "penstock_test_" + "0" * 12 + "_" + "0" * 49,
    ],
)
def test_a_credential_that_is_none_is_refused_without_repeating_it(token: str) -> None:
    answer = call("GET", "/v1/topics", token=token)
    assert_problem(answer, 401, "unauthenticated")
    assert not token or token not in answer.body["detail"]
    assert_problem(call("GET", "/v1/topics"), 401, "unauthenticated")


def test_revoked_and_expired_keys_and_those_of_a_suspended_tenant_are_refused_by_name(tenant: Tenant) -> None:
    revoked, text = access.create_key(ACTOR, tenant, name="a")
    actions.revoke_key(ACTOR, revoked)
    assert_problem(call("GET", "/v1/topics", token=text.reveal()), 401, "unauthenticated", "was revoked")
    expired, text = access.create_key(ACTOR, tenant, name="b", expires_at=timezone.now() + timedelta(hours=1))
    assert call("GET", "/v1/topics", token=text.reveal()).status == 200
    ApiKey.objects.filter(pk=expired.pk).update(expires_at=timezone.now())
    assert_problem(call("GET", "/v1/topics", token=text.reveal()), 401, "unauthenticated", "has expired")
    _, text = access.create_key(ACTOR, tenant, name="c")
    actions.set_suspended(ACTOR, tenant, True)
    assert_problem(call("GET", "/v1/topics", token=text.reveal()), 401, "unauthenticated", "is suspended")


def test_a_key_is_shown_once_and_its_use_is_noted(tenant: Tenant, key: str) -> None:
    made = call(
        "POST", "/v1/keys", {"name": "n", "topic_prefix": "orders", "operations": ["consume"]}, token=key
    )
    assert made.status == 202 and made.body["key"].startswith("penstock_test_")
    shown = call("GET", f"/v1/keys/{made.body['id']}", token=key).body
    assert "key" not in shown and shown["last_used_at"] is None
    assert shown["bindings"] == [{"topic_prefix": "orders", "operations": ["consume"]}]
    assert call("GET", "/v1/topics", token=made.body["key"]).status == 200
    assert call("GET", f"/v1/keys/{made.body['id']}", token=key).body["last_used_at"] is not None
    revoked = call("DELETE", f"/v1/keys/{made.body['id']}", token=key)
    assert revoked.status == 202 and revoked.body["revoked_at"] is not None
    assert revoked.body["token"]["generation"] == 2


def test_topics_over_rest_from_creation_to_deletion(key: str) -> None:
    made = call("POST", "/v1/topics", {"name": "orders", "partitions": 2}, token=key)
    assert made.status == 202 and made.body["token"] == {"object": made.body["id"], "generation": 1}
    assert made.body["delivered"] is False
    changed = call("PATCH", "/v1/topics/orders", {"settings": {"retention_ms": -1}}, token=key)
    assert changed.body["settings"]["retention_ms"] == -1 and changed.body["generation"] == 2
    assert_problem(
        call("POST", "/v1/topics", {"name": "orders"}, token=key),
        409,
        "already_exists",
        "topic 'orders' exists",
    )
    answer = call("POST", "/v1/topics", {"name": "x", "settings": {"retention": 1}}, token=key)
    assert_problem(answer, 400, "invalid_request", "retention: no such topic setting")
    assert call("DELETE", "/v1/topics/orders", token=key).status == 202
    assert_problem(call("GET", "/v1/topics/orders", token=key), 404, "not_found", "topic 'orders'")


def test_a_bound_key_sees_its_topics_only(tenant: Tenant, key: str) -> None:
    for name in ("orders.eu", "orders.us", "returns"):
        topics.create_topic(ACTOR, tenant, name=name, partitions=1, settings={})
    _, text = access.create_key(ACTOR, tenant, name="b", topic_prefix="orders.")
    listed = call("GET", "/v1/topics", token=text.reveal()).body["items"]
    assert [item["name"] for item in listed] == ["orders.eu", "orders.us"]
    assert_problem(call("GET", "/v1/topics/returns", token=text.reveal()), 404, "not_found")


def test_pages_hold_every_item_once_in_order(tenant: Tenant, key: str) -> None:
    for number in range(7):
        topics.create_topic(ACTOR, tenant, name=f"t{number}", partitions=1, settings={})
    names, cursor = [], None
    for _ in range(4):
        query = "?limit=3" + (f"&cursor={cursor}" if cursor else "")
        page = call("GET", f"/v1/topics{query}", token=key).body
        names += [item["name"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert names == [f"t{number}" for number in range(7)]
    exact = call("GET", "/v1/topics?limit=7", token=key).body
    assert len(exact["items"]) == 7 and exact["next"] is None


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limit=-1", "cursor=x", "cursor=MSAx%21"]
)
def test_a_page_that_cannot_be_is_refused(key: str, query: str) -> None:
    assert_problem(call("GET", f"/v1/topics?{query}", token=key), 400, "invalid_request", query.split("=")[0])


def test_a_post_with_its_key_again_gets_the_first_answer_and_makes_nothing(key: str) -> None:
    first = call("POST", "/v1/topics", {"name": "orders"}, token=key, Idempotency_Key="k1")
    again = call("POST", "/v1/topics", {"name": "orders"}, token=key, Idempotency_Key="k1")
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["Idempotency-Replayed"] == "true" and "Idempotency-Replayed" not in first.headers
    assert Topic.objects.count() == 1
    refused = call("POST", "/v1/topics", {"name": "orders"}, token=key, Idempotency_Key="k2")
    replayed = call("POST", "/v1/topics", {"name": "orders"}, token=key, Idempotency_Key="k2")
    assert refused.status == 409
    assert_problem(replayed, 409, "already_exists", "topic 'orders' exists")


def test_an_answer_is_kept_for_a_day_also_of_a_caller_who_is_gone(
    tenant: Tenant, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, text = access.create_key(ACTOR, tenant, name="gone")
    call("POST", "/v1/topics", {"name": "orders"}, token=text.reveal(), Idempotency_Key="k1")
    call("POST", "/v1/topics", {"name": "theirs"}, token=key, Idempotency_Key="k1")
    IdempotentRequest.objects.update(started_at=timezone.now() - idempotency.KEPT)
    monkeypatch.setattr(idempotency, "_FORGOTTEN_MAX", 0)
    again = call("POST", "/v1/topics", {"name": "other"}, token=key, Idempotency_Key="k1")
    assert again.body["name"] == "other", "its own was to be forgotten, and others came before it"
    assert IdempotentRequest.objects.count() == 2
    monkeypatch.setattr(idempotency, "_FORGOTTEN_MAX", 100)
    call("POST", "/v1/topics", {"name": "more"}, token=key, Idempotency_Key="k2")
    assert {row.key for row in IdempotentRequest.objects.all()} == {"k1", "k2"}
    assert IdempotentRequest.objects.count() == 2


def test_an_idempotency_key_with_another_request_is_refused(tenant: Tenant, key: str) -> None:
    call("POST", "/v1/topics", {"name": "orders"}, token=key, Idempotency_Key="k1")
    other = call("POST", "/v1/topics", {"name": "other"}, token=key, Idempotency_Key="k1")
    assert_problem(other, 400, "invalid_request", "another request has used this key")
    _, text = access.create_key(ACTOR, tenant, name="second")
    theirs = call("POST", "/v1/topics", {"name": "theirs"}, token=text.reveal(), Idempotency_Key="k1")
    assert theirs.status == 202
    assert_problem(
        call("POST", "/v1/topics", {"name": "x"}, token=key, Idempotency_Key="k" * 256),
        400,
        "invalid_request",
    )


def test_what_is_kept_of_a_request_cannot_be_compared_with_a_guess(key: str) -> None:
    """A body may hold a password. Who reads the database has no key to try words with."""
    path = "/v1/topics"
    answer = call("POST", path, {"name": "orders"}, token=key, Idempotency_Key="k1")
    assert answer.status in (201, 202)
    tenant = Tenant.objects.get(name="acme").public_id
    request = b"\n".join((b"POST", f"{path} {tenant} ".encode(), json.dumps({"name": "orders"}).encode()))
    kept = IdempotentRequest.objects.get(key="k1").digest
    assert kept != hashlib.sha256(request).hexdigest()
    assert kept == keyed_digest("idempotency", request)
    assert kept != keyed_digest("webhook-address", request), "each purpose has a key of its own"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_answer_that_asks_for_a_repetition_is_not_kept(status: int) -> None:
    first = idempotency.begin("c", "k1", method="POST", path="/", body=b"")
    idempotency.finish(first, status, {"code": "throttled"})
    again = idempotency.begin("c", "k1", method="POST", path="/", body=b"")
    assert again.status is None and again.pk != first.pk


def test_after_a_fault_of_the_service_the_key_may_be_used_again(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any, **named: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as during:
        during.setattr(topics, "create_topic", broken)
        with pytest.raises(ZeroDivisionError):
            call("POST", "/v1/topics", {"name": "orders"}, token=key, Idempotency_Key="k1")
    answer = call("POST", "/v1/topics", {"name": "orders"}, token=key, Idempotency_Key="k1")
    assert answer.status == 202 and "Idempotency-Replayed" not in answer.headers


def test_an_idempotency_key_in_another_tenant_is_refused() -> None:
    person, token = make_person("ann@acme.example")
    first, second = (actions.create_tenant(ACTOR, name=name, owner=person) for name in ("acme", "umbrella"))
    body = {"name": "orders"}
    assert call("POST", "/v1/topics", body, token=token, tenant=first, Idempotency_Key="k1").status == 202
    another = call("POST", "/v1/topics", body, token=token, tenant=second, Idempotency_Key="k1")
    assert_problem(another, 400, "invalid_request", "another request has used this key")


def test_an_idempotency_key_with_another_condition_is_refused(tenant: Tenant) -> None:
    token = actions.create_operator(ACTOR, name="op", tenant=SYSTEM_TENANT)
    path = f"/v1/tenants/{tenant.public_id}/suspend"
    assert call("POST", path, token=token, Idempotency_Key="k1", If_Match='"1"').status == 202
    another = call("POST", path, token=token, Idempotency_Key="k1", If_Match='"9"')
    assert_problem(another, 400, "invalid_request", "another request has used this key")


def test_the_services_own_tenant_is_neither_suspended_nor_limited(tenant: Tenant) -> None:
    own = actions.create_tenant(ACTOR, name="penstock-system", public_id=SYSTEM_TENANT)
    token = actions.create_operator(ACTOR, name="op", tenant=SYSTEM_TENANT)
    for method, path, body in (
        ("POST", f"/v1/tenants/{SYSTEM_TENANT}/suspend", None),
        ("PATCH", "/v1/quotas", {"partitions_max": 1}),
    ):
        answer = call(method, path, body, token=token, tenant=own)
        assert_problem(answer, 400, "invalid_request", "the service's own tenant")
    own.refresh_from_db()
    assert (own.suspended, own.generation) == (False, 1)


def test_a_secret_is_not_kept_for_the_repetition_of_its_request(key: str) -> None:
    made = call("POST", "/v1/keys", {"name": "n"}, token=key, Idempotency_Key="k1")
    again = call("POST", "/v1/keys", {"name": "n"}, token=key, Idempotency_Key="k1")
    assert_problem(again, 409, "already_exists", f"{made.body['id']} was made by the first request")
    assert made.body["key"] not in repr(list(IdempotentRequest.objects.values_list()))
    assert ApiKey.objects.filter(name="n").count() == 1


def test_a_request_at_work_is_waited_for_and_one_that_died_is_replaced(key: str) -> None:
    body = {"name": "orders"}
    call("POST", "/v1/topics", body, token=key, Idempotency_Key="k1")
    Topic.objects.all().delete()
    IdempotentRequest.objects.update(status=None, answer=None)
    waiting = call("POST", "/v1/topics", body, token=key, Idempotency_Key="k1")
    assert_problem(waiting, 429, "throttled", "still running")
    assert waiting.headers["Retry-After"] == "1"
    IdempotentRequest.objects.update(started_at=timezone.now() - idempotency.ABANDONED)
    of_another = partial(idempotency.begin, "another", "k1", method="POST", path="/", body=b"")
    of_another()
    IdempotentRequest.objects.filter(caller="another").update(
        started_at=timezone.now() - idempotency.ABANDONED
    )
    assert of_another().status is None
    with pytest.raises(Throttled, match="still running"):
        of_another()
    assert call("POST", "/v1/topics", body, token=key, Idempotency_Key="k1").status == 202


def test_too_many_requests_are_told_when_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from control_plane.rest.throttles import SignInThrottle

    monkeypatch.setattr(SignInThrottle, "rate", "3/minute", raising=False)
    body = {"email": "ann@example.com", "password": "x"}
    statuses = [call("POST", "/v1/sign-in", body).status for _ in range(3)]
    answer = call("POST", "/v1/sign-in", body)
    assert statuses == [401] * 3
    assert_problem(
        answer, 429, "throttled", "too many requests: rest:sign-in of this address is 3 a minute, and 3"
    )
    assert answer.body["limit"] == "rest:sign-in"
    assert f"clears in {answer.headers['Retry-After']} s" in answer.body["detail"]
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert call("POST", "/v1/sign-in", {**body, "email": "bob@example.com"}).status == 401


def test_a_person_of_two_tenants_names_one(tenant: Tenant) -> None:
    person, token = make_person("ann@example.com")
    actions.create_tenant(ACTOR, name="one", owner=person)
    assert call("GET", "/v1/topics", token=token).status == 200
    made = call("POST", "/v1/tenants", {"name": "two"}, token=token)
    assert made.status == 202
    assert_problem(
        call("GET", "/v1/topics", token=token), 400, "invalid_request", "Penstock-Tenant: you have 2"
    )
    assert call("GET", "/v1/topics", token=token, tenant=made.body["id"]).status == 200
    assert_problem(call("GET", "/v1/topics", token=token, tenant=tenant), 404, "not_found")


def test_every_answer_has_a_request_id_and_keeps_a_plain_one(key: str) -> None:
    assert len(call("GET", "/v1/topics", token=key).headers["X-Request-Id"]) == 16
    assert call("GET", "/healthz", X_Request_Id="mine-1").headers["X-Request-Id"] == "mine-1"
    assert call("GET", "/healthz", X_Request_Id="a b\r").headers["X-Request-Id"] != "a b\r"


def test_readiness_names_what_is_missing() -> None:
    answer = call("GET", "/readyz")
    assert answer.status == 503
    assert answer.body["checks"]["database"] == "ok"
    assert answer.body["checks"]["worker"] == "no heartbeat yet"
    assert answer.body["checks"]["brokers"].startswith("failed: no answer from")
    assert call("GET", "/healthz").body == {"status": "ok"}


def test_readiness_says_that_no_worker_runs_and_what_that_means() -> None:
    processes.beat("ready")
    assert call("GET", "/readyz").body["checks"]["worker"] == "ok"
    Heartbeat.objects.update(at=timezone.now() - timedelta(seconds=60))
    found = call("GET", "/readyz").body["checks"]["worker"]
    assert found == "no heartbeat for 60 s: changes wait until a worker runs"


def test_requests_are_logged_and_probes_of_machines_are_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="control_plane.requests"):
        for path in ("/healthz", "/readyz", "/v1/openapi.json"):
            call("GET", path)
    assert [vars(record)["path"] for record in caplog.records] == ["/v1/openapi.json"]


def test_metrics_count_requests_by_route(key: str) -> None:
    call("GET", "/v1/topics/orders", token=key)
    text = metrics_text()
    assert 'penstock_http_requests_total{method="GET",route="v1/topics/<str:name>",status="404"}' in text
    assert "penstock_outbox_waiting" in text and text.endswith("# EOF\n")


def test_the_openapi_document_validates_and_tells_every_address(tmp_path: Any) -> None:
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(tmp_path / "openapi.yaml"))
    document = call("GET", "/v1/openapi.json").body
    assert document["openapi"].startswith("3.")
    assert {"/v1/sign-up", "/v1/topics", "/v1/topics/{name}", "/v1/keys/{key}", "/v1/audit"} <= set(
        document["paths"]
    )
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            responses = operation["responses"]
            assert any(status.startswith("2") for status in responses), (path, method)
            # The list of anchors is for everyone and takes nothing that could be refused.
            assert "401" in responses or path == "/v1/anchors", (path, method)


def test_who_makes_a_topic_that_brokers_refuse_is_told_why(tenant: Tenant, key: str) -> None:
    topic = topics.create_topic(ACTOR, tenant, name="orders", partitions=1, settings={})
    observed.put_condition(
        topic.public_id, conditions.DELIVERY, "invalid_request", "3 brokers required, 2 active"
    )
    Topic.objects.update(topic_id="ab" * 16)
    answer = answer_change(topic, topics.KIND_TOPIC, ChangedTopic, 201)
    assert answer.data["topic_id"] == "ab" * 16, "a delivery may change it"
    assert answer.status_code == 202 and answer.data["delivered"] is False
    assert [one["message"] for one in answer.data["conditions"]] == ["3 brokers required, 2 active"]


class Answering:
    """Delivers topics to brokers that answer as a test says."""

    def __init__(self) -> None:
        self.refusal: PenstockError | None = None
        self.asked = 0

    def deliver(self, object_id: str, generation: int) -> Delivered:
        self.asked += 1
        if self.refusal is not None:
            raise self.refusal
        return Delivered(generation=generation, revision=3)

    def delivered(self, object_id: str, done: Delivered) -> None:
        observed.note_delivered({object_id: done})

    def failed(self, object_id: str, reason: str, message: str) -> None:
        observed.put_condition(object_id, conditions.DELIVERY, reason, message)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    made = Answering()
    monkeypatch.setitem(registry._deliverers, topics.KIND_TOPIC, made)
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (20.0,))
    return made


def test_a_change_is_delivered_in_its_request(answering: Answering, key: str) -> None:
    made = call("POST", "/v1/topics", {"name": "orders"}, token=key)
    assert made.status == 201 and made.body["delivered"] and made.body["delivered_generation"] == 1
    assert call("PATCH", "/v1/topics/orders", {"partitions": 2}, token=key).status == 200
    assert call("DELETE", "/v1/topics/orders", token=key).status == 200
    assert answering.asked == 3


def test_a_new_topic_that_the_brokers_refuse_is_answered_with_their_refusal_and_not_left_behind(
    answering: Answering, tenant: Tenant, key: str
) -> None:
    answering.refusal = LimitExceeded(
        "partitions_max of the tenant is 10, 10 are used and 1 more is asked for"
    )
    wanted = {"name": "orders"}
    answer = call("POST", "/v1/topics", wanted, token=key, Idempotency_Key="k1")
    assert_problem(answer, 422, "limit_exceeded", "10 are used and 1 more")
    assert call("GET", "/v1/topics", token=key).body["items"] == []
    assert not Delivery.objects.filter(kind=topics.KIND_TOPIC).exists()
    assert {"topic.create", "topic.refused"} <= {entry.action for entry in audit.entries(tenant.public_id)}
    again = call("POST", "/v1/topics", wanted, token=key, Idempotency_Key="k1")
    assert (again.status, answering.asked) == (422, 1)
    answering.refusal = None
    assert call("POST", "/v1/topics", wanted, token=key).status == 201


def test_a_new_topic_that_the_brokers_cannot_make_now_is_kept_and_made_later(
    answering: Answering, key: str
) -> None:
    answering.refusal = BrokerUnavailable("3 brokers required, 2 active")
    answer = call("POST", "/v1/topics", {"name": "orders"}, token=key)
    assert answer.status == 202 and answer.body["delivered"] is False
    assert [one["reason"] for one in answer.body["conditions"]] == ["broker_unavailable"]
    answering.refusal = None
    Delivery.objects.update(next_attempt_at=timezone.now())
    assert delivery.deliver(topics.KIND_TOPIC, answer.body["id"])
    seen = call("GET", "/v1/topics/orders", token=key).body
    assert (seen["delivered_generation"], seen["conditions"]) == (1, [])


def test_a_topic_that_no_cluster_of_this_size_can_hold_is_refused_at_once(key: str) -> None:
    wanted = {"name": "orders", "settings": {"replication": 5}}
    answer = call("POST", "/v1/topics", wanted, token=key)
    assert_problem(answer, 422, "limit_exceeded", "the cluster has 3; at most 3 possible")
    assert answer.body["fields"].keys() == {"replication"}
    assert call("GET", "/v1/topics", token=key).body["items"] == []


def test_a_full_disk_under_the_embedded_database_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "sqlite":
        return
    assert call("GET", "/readyz").body["checks"]["database"] == "ok"
    monkeypatch.setattr(health, "FREE_BYTES_MIN", 2**62)
    answer = call("GET", "/readyz")
    assert answer.status == 503 and "changes fail" in answer.body["checks"]["database"]
