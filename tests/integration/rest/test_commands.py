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
