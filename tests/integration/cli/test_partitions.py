"""`penstock partition`: what an operator is told before and after a loss is declared."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.__main__ import run
from penstock.cli.exit_codes import ExitCode
from tests.integration.rest.little_server import Answer, Asked, LittleServer, little_server

TOPIC = "0123456789abcdef0123456789abcdef"
LOSS = {
    "tenant": "tn_1",
    "topic": "orders",
    "topic_id": TOPIC,
    "partition": 0,
    "kind": "forced election",
    "log_generation": 2,
    "leader": 3,
    "leader_epoch": 6,
    "offset": 70,
    "known_end_offset": 100,
    "asked_by": "",
    "declared_ms": 1_795_176_000_000,
}


def answering(asked: Asked) -> Answer:
    if asked.method == "GET":
        return Answer(body={"items": [LOSS], "next": None})
    return Answer(body={"declared": bool(asked.body.get("accept_loss")), "loss": LOSS})


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[LittleServer]:
    token = tmp_path / "operator.token"
    token.write_text("pso_secret\n")
    with little_server(answering) as server:
        monkeypatch.setenv("PENSTOCK_API_URL", server.url)
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
        monkeypatch.chdir(tmp_path)
        yield server


def test_losses_are_listed(service: LittleServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["partition", "losses", "--token-file", "operator.token"]) == ExitCode.OK
    told = capsys.readouterr().out
    assert "orders-0" in told
    assert "all copies were back" in told
    assert service.asked[0].headers["Authorization"] == "Bearer pso_secret"


def test_a_dry_run_declares_nothing(service: LittleServer, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["partition", "elect", TOPIC, "0", "--broker", "3", "--dry-run", "--token-file", "operator.token"]
    assert run(words) == ExitCode.OK
    assert "70 offsets; 30 behind them" in capsys.readouterr().out
    assert [asked.body for asked in service.asked] == [{"topic_id": TOPIC, "partition": 0, "broker": 3}]


def test_a_loss_is_declared_after_it_was_told_what_is_lost(
    service: LittleServer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--json", "partition", "repair", TOPIC, "0", "--yes", "--token-file", "operator.token"]
    assert run(words) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == {"declared": True, "loss": LOSS}
    demand = {"topic_id": TOPIC, "partition": 0}
    assert [asked.body for asked in service.asked] == [demand, {**demand, "accept_loss": True}]


def test_nothing_is_declared_unasked(service: LittleServer, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--json", "partition", "repair", TOPIC, "0", "--token-file", "operator.token"]
    assert run(words) == ExitCode.USAGE
    assert [asked.body for asked in service.asked] == [{"topic_id": TOPIC, "partition": 0}]
    assert run(["partition", "losses", "--token-file", "no.token"]) != ExitCode.OK
    assert "no.token" in capsys.readouterr().err
