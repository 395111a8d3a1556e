"""`penstock limits`: what is asked of the service, and what is shown of its answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.__main__ import cli
from penstock.cli.exit_codes import ExitCode
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

ONE = {
    "service_account": "sa_1",
    "name": "robot",
    "produce_bytes_per_s": 1_000,
    "consume_bytes_per_s": None,
    "requests_per_s": None,
    "effective": {"produce_bytes_per_s": 1_000, "consume_bytes_per_s": 0, "requests_per_s": 9},
}
EACH = {
    **dict.fromkeys(["service_account", "name", "produce_bytes_per_s", "consume_bytes_per_s"]),
    "requests_per_s": 9,
    "effective": {"produce_bytes_per_s": 0, "consume_bytes_per_s": 0, "requests_per_s": 9},
}


def answered(asked: Asked) -> Answer:
    if asked.path.startswith("/v1/service-account-limits/default"):
        return Answer(body={**EACH, "delivered": True})
    if asked.path.startswith("/v1/service-account-limits"):
        return Answer(body={"items": [ONE], "next": None})
    return Answer(body={**ONE, "delivered": False})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LittleServer]:
    with little_server(answered) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_API_KEY", "penstock_test_" + "x" * 40)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        yield server


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["limits", *arguments])


def test_those_that_have_limits_are_listed_with_what_each_other_one_has(service: LittleServer) -> None:
    ran = run("list")
    assert ran.exit_code == 0, ran.output
    lines = [line.split() for line in ran.output.splitlines()]
    assert ["sa_1", "robot", "1000", "(the", "tenant's)", "(9)"] in lines, ran.output
    assert ["each", "other", "the", "tenant's", "the", "tenant's", "9"] in lines, ran.output
    assert json.loads(CliRunner().invoke(cli, ["--json", "limits", "list"]).output)["limits"] == [ONE]


def test_limits_are_set_as_a_whole_with_the_key_or_an_operators_token(
    service: LittleServer, tmp_path: Path
) -> None:
    ran = run("set", "sa_1", "--produce-bytes-per-s", "1000")
    assert ran.exit_code == 0 and "The brokers do not have it yet" in ran.output, ran.output
    (asked,) = service.asked
    assert (asked.method, asked.path) == ("PUT", "/v1/service-accounts/sa_1/limits")
    assert asked.body == {
        "produce_bytes_per_s": 1_000,
        "consume_bytes_per_s": None,
        "requests_per_s": None,
    }
    assert asked.headers["Authorization"].startswith("Bearer penstock_test_")
    token = tmp_path / "operator.token"
    token.write_text("pso_1")
    assert run("remove", "--tenant", "tn_1", "--token-file", str(token)).exit_code == 0
    headers = service.asked[1].headers
    assert (headers["Authorization"], headers["Penstock-Tenant"]) == ("Bearer pso_1", "tn_1")
    assert (service.asked[1].method, service.asked[1].path) == (
        "DELETE",
        "/v1/service-account-limits/default",
    )


def test_no_limit_and_values_that_cannot_be_are_refused_before_anything_is_asked(
    service: LittleServer,
) -> None:
    for arguments in ([], ["--requests-per-s", "-1"], ["--requests-per-s", "many"]):
        assert run("set", "sa_1", *arguments).exit_code == ExitCode.USAGE
    assert not service.asked
