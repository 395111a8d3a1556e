"""`penstock usage` asks for what its options say, and shows what stands in the answer."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from click.testing import CliRunner, Result

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

BY_HOUR: dict[str, Any] = {
    "hour": "2026-01-31T08:00:00Z",
    "principal": "account:sa_1",
    "principal_name": "shop",
    "meters": {"messages_in": {"quantity": 1_200}, "bytes_in": {"quantity": 90_000}},
}
BY_TOPIC: dict[str, Any] = {
    "topic": "orders",
    "meters": {"messages_in": {"quantity": 7, "billed": 5, "provisional": 2}},
}


def answer(asked: Asked) -> Answer:
    items = [BY_HOUR] if "hour" in asked.path else [BY_TOPIC]
    return Answer(body={"items": items, "next": None})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answer) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["usage", *arguments])


def rows(done: Result) -> list[list[str]]:
    assert done.exit_code == 0, done.output
    return [line.split("\t") for line in done.stdout.splitlines()]


def query(service: LittleServer) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(service.asked[-1].path).query))


def test_hours_and_principals_are_asked_for_with_times_and_shown_without_what_is_billed(
    service: LittleServer,
) -> None:
    done = ran("--by", "hour,principal", "--from", "2026-01-31T08:00", "--to", "2026-02-01")
    assert rows(done) == [["2026-01-31T08:00:00Z", "shop", "1200", "90000", "0", "0"]]
    asked = query(service)
    assert (asked["by"], asked["from"], asked["to"]) == (
        "hour,principal",
        "2026-01-31T08:00:00Z",
        "2026-02-01",
    )


def test_topics_are_shown_with_what_is_billed(service: LittleServer) -> None:
    assert rows(ran("--by", "topic")) == [["orders", "7", "0", "0", "0", "in part"]]


def test_groups_that_there_are_not_are_refused_before_anything_is_asked(service: LittleServer) -> None:
    for by in ("second", "hour,hour", "total,day"):
        done = ran("--by", by)
        assert done.exit_code == 2 and "hour, minute, principal" in done.output
    assert service.asked == []
