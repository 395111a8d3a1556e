"""The REST client against a real HTTP server: kept connections, refusals, deadlines, repetitions, pages, TLS."""

import os
import socket
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local.free_ports import HOST
from penstock.admin.blocking import Admin
from penstock.admin.objects import NewKey
from penstock.contract.errors import (
    AlreadyExists,
    ConfigurationError,
    InternalError,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    PenstockError,
    Throttled,
    TimedOut,
    Unauthenticated,
)
from penstock.rest.client import RestClient, segment
from penstock.rest.problems import ServiceUnavailable
from tests.integration.operations.certificates import make_certificate

from .little_server import Answer, Answering, Asked, little_server

KEY = "penstock_dev_a_b"


def in_turn(answers: Iterable[Answer]) -> Answering:
    """Each request gets the next answer; there must be enough."""
    left = iter(answers)
    return lambda asked: next(left)


def test_requests_carry_key_tenant_and_body_and_share_a_connection() -> None:
    with (
        little_server(lambda asked: Answer(body={"path": asked.path})) as server,
        RestClient(server.url + "/base/", KEY, tenant="tn_1") as rest,
    ):
        assert rest.get("/v1/topics", {"by": ["a", "b"], "from": None, "flag": True}) == {
            "path": "/base/v1/topics?by=a%2Cb&flag=true"
        }
        assert rest.post("/v1/topics", {"name": "grüße"}) == {"path": "/base/v1/topics"}
        rest.patch(f"/v1/topics/{segment('a/b c')}", {"x": 1})
        rest.delete("/v1/topics/t")
    assert [asked.method for asked in server.asked] == ["GET", "POST", "PATCH", "DELETE"]
    assert {asked.headers["Authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
    assert {asked.headers["Penstock-Tenant"] for asked in server.asked} == {"tn_1"}
    assert server.asked[1].body == {"name": "grüße"}
    assert server.asked[2].path == "/base/v1/topics/a%2Fb%20c"
    assert {asked.connection for asked in server.asked} == {1}
    assert [("Idempotency-Key" in asked.headers) for asked in server.asked] == [False, True, False, False]


def test_an_empty_answer_is_none() -> None:
    with little_server(lambda _: Answer(status=204)) as server, RestClient(server.url) as rest:
        assert rest.delete("/v1/keys/k") is None


@pytest.mark.parametrize(
    ("answer", "kind", "part"),
    [
        (Answer(status=400, body={"detail": "no", "code": "invalid_request"}), InvalidRequest, "no"),
        (Answer(status=401, body={"title": "No valid credential"}), Unauthenticated, "No valid credential"),
        (Answer(status=404, body={"detail": "gone", "code": "not_found"}), NotFound, "gone"),
        (Answer(status=409, body={"detail": "taken", "code": "ALREADY_EXISTS"}), AlreadyExists, "taken"),
        (
            Answer(status=422, body={"detail": "too many", "code": "limit_exceeded"}),
            LimitExceeded,
            "too many",
        ),
        (Answer(status=418, body=b"<html>tea</html>"), InvalidRequest, "status 418: <html>tea</html>"),
        (Answer(status=500, body=b""), InternalError, "status 500"),
        (Answer(status=400, body={"detail": "x", "code": "no such code"}), InvalidRequest, "x"),
        (Answer(status=302, body=None, headers={"Location": "/"}), InternalError, "status 302"),
        (Answer(body=b"not json"), InternalError, "no JSON"),
    ],
)
def test_a_problem_document_becomes_the_error_of_its_code(
    answer: Answer, kind: type[PenstockError], part: str
) -> None:
    with little_server(lambda _: answer) as server, RestClient(server.url) as rest:
        with pytest.raises(kind) as refused:
            rest.get("/v1/x")
        assert type(refused.value) is kind
        assert part in refused.value.message
    assert len(server.asked) == 1


def test_fields_of_a_problem_stand_in_the_message_once() -> None:
    body = {
        "detail": "name: too long",
        "fields": {"name": ["too long"], "partitions": ["a number", "above 0"]},
    }
    with (
        little_server(lambda _: Answer(status=400, body=body)) as server,
        RestClient(server.url) as rest,
        pytest.raises(InvalidRequest) as refused,
    ):
        rest.post("/v1/topics")
    assert refused.value.message == "name: too long\n  partitions: a number; above 0"


def test_a_change_that_was_refused_for_now_is_sent_again_with_its_idempotency_key() -> None:
    answers = [
        Answer(status=503, body={"detail": "starting"}),
        Answer(status=429, body={"detail": "slowly"}, headers={"Retry-After": "0.01"}),
        Answer(status=201, body={"id": 1}),
    ]
    with little_server(in_turn(answers)) as server, RestClient(server.url) as rest:
        assert rest.post("/v1/topics", {"name": "t"}) == {"id": 1}
    assert len({asked.headers["Idempotency-Key"] for asked in server.asked}) == 1
    assert len(server.asked) == 3


def test_when_the_time_is_up_the_last_refusal_is_told() -> None:
    busy = Answer(status=429, body={"detail": "slowly"}, headers={"Retry-After": "60"})
    with (
        little_server(lambda _: busy) as server,
        RestClient(server.url, timeout_s=0.5) as rest,
        pytest.raises(Throttled, match="slowly"),
    ):
        rest.post("/v1/topics")
    assert len(server.asked) == 1


@pytest.mark.parametrize("method", ["get", "post", "patch", "delete"])
def test_a_lost_answer_is_asked_for_again(method: str) -> None:
    answers = [Answer(cut=True), Answer(body={"again": True})]
    with little_server(in_turn(answers)) as server, RestClient(server.url) as rest:
        call: Any = getattr(rest, method)
        assert call("/v1/x", {}) == {"again": True} if method in ("post", "patch") else call("/v1/x")
    assert len(server.asked) == 2


def test_a_deletion_whose_answer_was_lost_and_whose_object_is_gone_was_done() -> None:
    answers = [Answer(cut=True), Answer(status=404, body={"code": "not_found"})]
    with little_server(in_turn(answers)) as server, RestClient(server.url) as rest:
        assert rest.delete("/v1/topics/t") is None


def test_a_change_without_any_answer_is_of_unknown_outcome_and_a_read_is_unavailable() -> None:
    with little_server(lambda _: Answer(cut=True)) as server, RestClient(server.url, timeout_s=0.5) as rest:
        with pytest.raises(OutcomeUnknown, match="the answer was lost"):
            rest.post("/v1/topics")
        with pytest.raises(ServiceUnavailable, match="no answer"):
            rest.get("/v1/topics")


def test_deadlines_hold_however_slow_the_service_is() -> None:
    with little_server(lambda _: Answer(wait_s=20)) as server, RestClient(server.url, timeout_s=0.3) as rest:
        with pytest.raises(TimedOut, match=r"no answer within 0\.3 s"):
            rest.get("/v1/x")
        with pytest.raises(OutcomeUnknown):
            rest.patch("/v1/x", {})


def test_nobody_listening_is_told_as_such() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        url = f"http://{HOST}:{taken.getsockname()[1]}"
        with (
            RestClient(url, timeout_s=0.3) as rest,
            pytest.raises(ServiceUnavailable, match="cannot be reached"),
        ):
            rest.post("/v1/topics")


def test_a_change_that_had_no_time_to_leave_is_no_unknown_outcome() -> None:
    with little_server(lambda _: Answer(body={})) as server, RestClient(server.url) as rest:
        with pytest.raises(ServiceUnavailable, match="cannot be reached: the time was up"):
            rest.post("/v1/topics", timeout_s=1e-9)
        rest.post("/v1/topics")
        with pytest.raises(ServiceUnavailable, match="cannot be reached: the time was up"):
            rest.post("/v1/topics", timeout_s=1e-9)  # on the connection that was kept
    assert len(server.asked) == 1


def test_a_kept_connection_that_the_service_closed_is_replaced_without_a_word() -> None:
    with little_server(lambda _: Answer(body={}, close=True)) as server, RestClient(server.url) as rest:
        for _ in range(3):
            rest.get("/v1/x")
    assert len({asked.connection for asked in server.asked}) == 3


def test_an_answer_that_ends_too_early_is_no_answer() -> None:
    cut = Answer(body=b"{", headers={"Content-Length": "10"}, close=True)
    with little_server(in_turn([cut, Answer(body={"whole": 1})])) as server, RestClient(server.url) as rest:
        assert rest.get("/v1/x") == {"whole": 1}


def test_lists_are_read_page_after_page() -> None:
    def pages(asked: Asked) -> Answer:
        if "cursor=c2" in asked.path:
            return Answer(body={"items": [3], "next": None})
        return Answer(body={"items": [1, 2], "next": "c2"})

    with little_server(pages) as server, RestClient(server.url) as rest:
        assert list(rest.items("/v1/topics", {"limit": 2})) == [1, 2, 3]
    assert [asked.path for asked in server.asked] == ["/v1/topics?limit=2", "/v1/topics?limit=2&cursor=c2"]


@pytest.mark.parametrize("body", [[], {"items": 3}, {"items": [], "next": "same"}])
def test_pages_that_are_none_or_never_end_are_refused(body: Any) -> None:
    with (
        little_server(lambda _: Answer(body=body)) as server,
        RestClient(server.url) as rest,
        pytest.raises(InternalError),
    ):
        list(rest.items("/v1/topics"))
    assert len(server.asked) <= 2


def test_a_forked_child_opens_connections_of_its_own() -> None:
    with little_server(lambda _: Answer(body={})) as server, RestClient(server.url) as rest:
        rest.get("/v1/parent")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                rest.get("/v1/child")
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        rest.get("/v1/parent")
    by_path = {(asked.path, asked.connection) for asked in server.asked}
    assert by_path == {("/v1/parent", 1), ("/v1/child", 2)}


@pytest.mark.parametrize(
    ("url", "part"),
    [
        (None, "api_url: no address"),
        ("ftp://127.0.0.1", "is not http"),
        ("http://127.0.0.1:x", "api_url"),
        ("http://example.org", "without TLS the API key would be readable"),
        ("http://127.0.0.1/?a=b", "is not http"),
    ],
)
def test_addresses_that_cannot_be_are_refused_before_anything_is_sent(url: str | None, part: str) -> None:
    with pytest.raises(ConfigurationError, match=part):
        RestClient(url, KEY)


def test_tls_demands_a_certificate_that_the_ca_file_vouches_for(tmp_path: Path) -> None:
    ours, theirs = make_certificate(tmp_path, "ours"), make_certificate(tmp_path, "theirs")
    files = (str(ours.certificate), str(ours.key))
    with little_server(lambda _: Answer(body={"tls": 1}), certificate=files) as server:
        with RestClient(server.url, KEY, str(ours.certificate)) as rest:
            assert rest.get("/v1/x") == {"tls": 1}
        with (
            RestClient(server.url, KEY, str(theirs.certificate)) as rest,
            pytest.raises(ConfigurationError, match="certificate is not trusted"),
        ):
            rest.get("/v1/x")
    with pytest.raises(ConfigurationError, match="ca_file"):
        RestClient("https://127.0.0.1:1", KEY, str(tmp_path / "none.pem"))


def test_no_key_is_ever_shown(tmp_path: Path) -> None:
    with little_server(lambda _: Answer(status=500, body=b"")) as server, RestClient(server.url, KEY) as rest:
        with pytest.raises(InternalError) as refused:
            rest.post("/v1/x")
        assert KEY not in str(refused.value) and KEY not in repr(rest)


def test_topics_and_keys_are_read_from_their_answers() -> None:
    topic = {
        "id": "top_1",
        "name": "orders",
        "topic_id": "00" * 16,
        "partitions": 3,
        "settings": {"replication": 3},
        "conditions": [{"type": "Placed", "reason": "no_room"}],
        "generation": 2,
        "delivered_generation": 1,
    }
    key = {"id": "key_1", "name": "shop", "key": KEY, "delivered": True}

    def answering(asked: Asked) -> Answer:
        return Answer(status=201, body=topic if asked.path == "/v1/topics" else key)

    with little_server(answering) as server:
        admin = Admin(RestClient(server.url))
        made = admin.create_topic("orders", 3, retention_ms=-1)
        new = admin.create_key("shop", topic_prefix="or", operations=["produce"])
        admin.close()
    assert (made.name, made.partitions, made.delivered) == ("orders", 3, False)
    assert made.conditions[0]["reason"] == "no_room"
    assert (new.id, new.api_key) == ("key_1", KEY)
    assert KEY not in repr(new)
    assert server.asked[0].body == {"name": "orders", "partitions": 3, "settings": {"retention_ms": -1}}
    assert server.asked[1].body == {"name": "shop", "topic_prefix": "or", "operations": ["produce"]}


def test_a_change_is_waited_for_until_the_brokers_have_it() -> None:
    topic = {"id": "top_1", "name": "t", "partitions": 1, "generation": 2}
    key = {"id": "k1", "name": "k", "key": KEY}
    answers = [
        Answer(status=202, body=topic | {"delivered_generation": 1}),
        Answer(body=topic | {"delivered_generation": 1}),
        Answer(body=topic | {"generation": 3, "delivered_generation": 2}),
        Answer(status=202, body=key | {"delivered": False}),
        Answer(body=key | {"delivered": False}),
        Answer(body=key | {"delivered": True}),
    ]
    with little_server(in_turn(answers)) as server, RestClient(server.url) as rest:
        admin = Admin(rest)
        asked_for = admin.update_topic("t", partitions=2)
        found = admin.wait_for_topic(asked_for)
        assert (found.generation, found.delivered_generation) == (3, 2)
        assert admin.wait_for_topic(replace(asked_for, delivered_generation=2)).delivered  # no call
        admin.wait_for_key(admin.create_key("k"))
    assert [(asked.method, asked.path) for asked in server.asked] == [
        ("PATCH", "/v1/topics/t"),
        *[("GET", "/v1/topics/t")] * 2,
        ("POST", "/v1/keys"),
        *[("GET", "/v1/keys/k1")] * 2,
    ]


def test_a_change_that_never_arrives_is_told_with_its_reason() -> None:
    late = {
        "id": "top_1",
        "name": "t",
        "partitions": 1,
        "generation": 2,
        "delivered_generation": 1,
        "conditions": [{"type": "Placed", "message": "too few brokers are active"}],
    }
    with little_server(lambda _: Answer(body=late)) as server, RestClient(server.url) as rest:
        admin = Admin(rest)
        with pytest.raises(TimedOut, match=r"topic t: .* not have .*; too few brokers are active"):
            admin.wait_for_topic(admin.topic("t"), timeout=0.3)
        with pytest.raises(TimedOut, match="key k1"):
            admin.wait_for_key(NewKey(id="k1", name="k", api_key=KEY, delivered=False), timeout=0.0)


def test_an_answer_that_is_something_else_is_a_fault_of_the_service() -> None:
    with little_server(lambda _: Answer(body={"id": 1})) as server:
        admin = Admin(RestClient(server.url))
        with pytest.raises(InternalError, match="no topic"):
            admin.topic("orders")
        admin.close()
