"""Answers of a service that means harm: pages that never end, and JSON that no stack holds."""

from itertools import cycle
from typing import Any

import pytest

from penstock.contract.errors import InternalError, InvalidRequest, NotFound, PenstockError, TimedOut
from penstock.rest.client import RestClient
from tests.integration.rest.little_server import Answer, little_server

DEEP = b"[" * 100_000


@pytest.mark.parametrize("cursors", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_pages_that_go_in_a_circle_are_refused_when_it_closes(cursors: list[str]) -> None:
    turns = cycle(cursors)
    with (
        little_server(lambda _: Answer(body={"items": [1], "next": next(turns)})) as server,
        RestClient(server.url) as rest,
    ):
        items = rest.items("/v1/billing/chain")
        with pytest.raises(InternalError, match="names itself or one before it"):
            for _ in range(1_000):
                next(items)
    assert len(server.asked) == len(cursors) + 1


@pytest.mark.parametrize("following", [1, True, ["a"], {"a": 1}, "\ud800", "a\n"])
def test_a_next_page_without_a_name_is_refused(following: Any) -> None:
    with (
        little_server(lambda _: Answer(body={"items": [], "next": following})) as server,
        RestClient(server.url) as rest,
        pytest.raises(InternalError, match="has no name"),
    ):
        list(rest.items("/v1/billing/chain"))


@pytest.mark.parametrize("body", [DEEP, b'{"a":' * 100_000, b'{"items":' + DEEP])
def test_an_answer_nested_too_deep_is_refused(body: bytes) -> None:
    with little_server(lambda _: Answer(body=body)) as server, RestClient(server.url) as rest:
        with pytest.raises(InvalidRequest, match="nested too deep"):
            rest.get("/v1/invoices/inv_1")
        with pytest.raises(InternalError, match="nested too deep"):
            rest.post("/v1/topics", {"name": "orders"})


@pytest.mark.parametrize(
    ("status", "kind"), [(400, InvalidRequest), (404, NotFound), (500, InternalError), (503, PenstockError)]
)
def test_a_refusal_nested_too_deep_is_told_by_its_status(status: int, kind: type[PenstockError]) -> None:
    with (
        little_server(lambda _: Answer(status=status, body=DEEP)) as server,
        RestClient(server.url, timeout_s=3) as rest,
        pytest.raises(kind, match=f"status {status}"),
    ):
        rest.get("/v1/invoices/inv_1")


def test_a_read_that_ends_without_an_answer_tells_the_refusal_before_it() -> None:
    answers = iter([Answer(status=503, body={"detail": "the brokers are away"}), Answer(wait_s=60)])
    with (
        little_server(lambda _: next(answers)) as server,
        RestClient(server.url, timeout_s=3) as rest,
        pytest.raises(TimedOut, match=r"no answer within 3 s; before that: .*the brokers are away"),
    ):
        rest.get("/v1/invoices/inv_1")
