"""What commands say of the control plane's answers."""

from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, little_server

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
