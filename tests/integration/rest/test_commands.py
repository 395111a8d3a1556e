"""What commands say of the control plane's answers."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, little_server

KEY = "penstock_test_" + "x" * 40


def topic(delivered_generation: int, *conditions: str) -> dict[str, Any]:
    return {
        "id": "top_1",
        "name": "orders",
        "topic_id": "0" * 32,
        "partitions": 3,
        "settings": {"replication": 3, "min_insync_replicas": 2, "durability": "fsync"},
        "generation": 1,
        "delivered_generation": delivered_generation,
        "conditions": [{"type": "delivery", "reason": "x", "message": told} for told in conditions],
    }


@pytest.mark.parametrize(
    ("answer", "said", "unsaid"),
    [
        (topic(1), "Created orders: 3 partitions", "have not"),
        (
            topic(0, "replication: 3 brokers required, 2 active"),
            "not done so: replication: 3 brokers",
            "Created",
        ),
        (topic(0), "no answer of the brokers yet", "Created"),
    ],
)
def test_a_topic_is_created_only_when_the_brokers_have_it(
    answer: dict[str, Any], said: str, unsaid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with little_server(lambda _: Answer(status=201, body=answer)) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", KEY)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        ran = CliRunner().invoke(cli, ["topic", "create", "orders", "--partitions", "3"])
    assert said in ran.output and unsaid not in ran.output, ran.output


BROKER = {
    "state": "active",
    "use": "serve",
    "leaders": 1,
    "replicas": 2,
    "zone": "a",
    "host": "",
    "conditions": [],
    "warnings": [],
}
LOSS = {
    "tenant": "ten_1",
    "topic": "orders",
    "topic_id": "0" * 32,
    "log_generation": 2,
    "offset": 5,
    "known_end_offset": 6,
    "leader": 1,
    "declared_ms": 0,
    "asked_by": "",
}


FEATURES = {
    "level": 1,
    "levels": [
        {"level": 1, "release": "0.1", "brings": "what there was"},
        {"level": 2, "release": "0.2", "brings": "what is new"},
    ],
    "brokers": [
        {"id": 1, "state": "active", "version": "0.2.0", "level_min": 1, "level_max": 2},
        {"id": 2, "state": "active", "version": "", "level_min": 1, "level_max": 1},
        {"id": 3, "state": "fenced", "version": "", "level_min": 1, "level_max": 1},
    ],
}


def as_operator(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PENSTOCK_API_URL", url)
    monkeypatch.setenv("PENSTOCK_API_KEY", KEY)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", "pso_x")


def test_features_shows_what_is_in_force_what_brokers_support_and_what_comes_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with little_server(lambda _: Answer(body=FEATURES)) as server:
        as_operator(monkeypatch, server.url)
        ran = CliRunner().invoke(cli, ["cluster", "features"])
    assert ran.exit_code == 0, ran.output
    lines = ran.output.splitlines()
    assert "Feature level 1 is in force." in lines
    rows = [line.split("\t") for line in lines]
    assert ["1", "active", "0.2.0", "levels 1 to 2"] in rows
    assert ["2", "active", "-", "level 1"] in rows
    assert ["3", "fenced", "-", "-"] in rows
    assert "Level 2 (since 0.2): what is new." in lines


def test_a_level_is_raised_only_by_one_who_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    with little_server(lambda _: Answer(body=FEATURES)) as server:
        as_operator(monkeypatch, server.url)
        unasked = CliRunner().invoke(cli, ["cluster", "features", "--raise", "2"])
        assert unasked.exit_code == 2 and "say --yes" in unasked.output
        assert [asked.method for asked in server.asked] == ["GET"]
        ran = CliRunner().invoke(cli, ["cluster", "features", "--raise", "2", "--yes"])
    assert ran.exit_code == 0, ran.output
    assert (server.asked[-1].method, server.asked[-1].path) == ("PATCH", "/v1/cluster/features")
    assert server.asked[-1].body == {"level": 2}


def test_brokers_are_listed_by_a_control_plane_that_does_not_say_their_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers = {"items": [{"id": 1, "client_address": "b:1", **BROKER}], "next": None}
    with little_server(lambda _: Answer(body=brokers)) as server:
        as_operator(monkeypatch, server.url)
        ran = CliRunner().invoke(cli, ["cluster", "brokers"])
    assert ran.exit_code == 0, ran.output
    assert ran.output.splitlines()[-1].split("\t")[:7] == ["1", "active", "serve", "1", "2", "a", "-"]


@pytest.mark.parametrize(
    ("command", "name", "items"),
    [
        (["cluster", "brokers"], "brokers", [{"id": n, "client_address": "b:1", **BROKER} for n in range(3)]),
        (["partition", "losses"], "losses", [{"partition": n, **LOSS} for n in range(3)]),
        (["usage", "--by", "topic"], "usage", [{"topic": f"t{n}", "meters": {}} for n in range(3)]),
    ],
)
def test_a_command_shows_every_page_of_its_list(
    command: list[str],
    name: str,
    items: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pages(asked: Asked) -> Answer:
        if "cursor=c2" in asked.path:
            return Answer(body={"items": items[2:], "next": None})
        return Answer(body={"items": items[:2], "next": "c2"})

    with little_server(pages) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", KEY)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        monkeypatch.setenv("PENSTOCK_OPERATOR_TOKEN", "pso_x")
        ran = CliRunner().invoke(cli, ["--json", *command])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.output)[name] == items
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("hosts", "rows"),
    [
        (["", ""], [["0", "a", "-", "b:1"], ["1", "a", "-", "b:1"]]),
        (["rack-7", ""], [["0", "a", "rack-7", "-", "b:1"], ["1", "a", "own", "-", "b:1"]]),
    ],
    ids=["none is named", "one is named"],
)
def test_brokers_are_listed_with_their_hosts_where_any_is_named_and_each_warning_once(
    hosts: list[str], rows: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "zone a has no active broker; new partitions and moves use the other 1"
    items = [
        {"id": number, "client_address": "b:1", **BROKER, "host": host, "warnings": [told]}
        for number, host in enumerate(hosts)
    ]
    with little_server(lambda _: Answer(body={"items": items, "next": None})) as server:
        as_operator(monkeypatch, server.url)
        ran = CliRunner().invoke(cli, ["cluster", "brokers"])
    listed = [line.split("\t") for line in ran.stdout.splitlines()]
    assert [[row[0], *row[5:-1]] for row in listed] == rows
    assert ran.stderr.splitlines() == [f"Warning: {told}."]
