"""`penstock key` against a little server that answers as the service does."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

WRITER, PROOF = (
    {
        "id": f"key_{name}", "name": name, "created_at": "2026-01-15T00:00:00Z", "expires_at": None, "revoked_at": None,
        "service_account": None, "principal": "person:per_1", "bindings": [], "conditions": [],
        "scopes": [{"resource": "topic", "name": "", "pattern": "prefix", "operations": operations}],
        "generation": 1, "delivered_generation": 1, "delivered": True,
    }
    for name, operations in (("shop", ["produce"]), ("auditors", ["verify"]))
)  # fmt: skip


def answered(asked: Asked) -> Answer:
    if asked.path.split("?")[0] == "/v1/keys:verifying":
        return Answer(body={"items": [PROOF], "next": None})
    return Answer(body={"items": [WRITER, PROOF], "next": None})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        yield server


@pytest.mark.parametrize(
    ("arguments", "path", "ids"),
    [
        ([], "/v1/keys", ["key_shop", "key_auditors"]),
        (["--verifying"], "/v1/keys:verifying", ["key_auditors"]),
    ],
)
def test_keys_that_prove_invoices_are_listed_at_an_address_of_their_own(
    service: LittleServer, arguments: list[str], path: str, ids: list[str]
) -> None:
    ran = CliRunner().invoke(cli, ["key", "list", *arguments, "--json"])
    assert ran.exit_code == 0, ran.output
    assert [key["id"] for key in json.loads(ran.stdout)["keys"]] == ids
    assert service.asked[-1].path.split("?")[0] == path
    shown = CliRunner().invoke(cli, ["key", "list", *arguments])
    assert [line.split("\t")[0] for line in shown.stdout.splitlines()][-len(ids) :] == ids
