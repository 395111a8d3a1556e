"""`penstock webhook …` over the real REST interface, with couriers that send."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane import config
from control_plane.couriers.couriers import Couriers
from control_plane.webhooks.line import WebhookLine
from penstock.cli.__main__ import run
from tenants.roles import Standing
from tests.control_plane.webhooks.hooked import types
from tests.control_plane.world import House, make_house
from tests.webhook_receiver import Receiver, Reply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

Command = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def house(transactional_db: None) -> House:
    return make_house("acme")


@pytest.fixture
def command(
    house: House,
    endpoint: Receiver,
    live_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Command]:
    """`penstock webhook …` as the tenant's owner: exit code, JSON, what stands on the error stream."""
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.OWNER])
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "profiles.toml"))

    def call(*arguments: str) -> tuple[int, dict[str, Any], str]:
        code = run(["webhook", *arguments, "--json"])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else {}, said.err

    running = Couriers(
        WebhookLine(allowed=config.current().webhook_networks, ca_file=endpoint.ca_file), every_s=0.05
    )
    running.start()
    yield call
    running.stop(10.0)


def test_a_webhook_is_made_tested_read_rotated_and_deleted(
    command: Command, endpoint: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    code, made, _ = command("create", "siem", "--url", endpoint.url)
    assert code == 0 and made["secret"].startswith("whsec_") and made["events"] == ["audit.*"]
    endpoint.wait_for(1)
    assert types(endpoint, made["secret"]) == ["audit.webhook.create"]
    code, pinged, _ = command("ping", made["id"], "--timeout", "60")
    assert (code, pinged["event_type"], pinged["status"]) == (0, "webhook.ping", 200)
    endpoint.script = lambda got: Reply(status=500)
    code, pinged, _ = command("ping", made["id"], "--timeout", "60")
    assert (code, pinged["status"], pinged["error"]) == (5, 500, "it answered 500")
    assert command("change", made["id"], "--state", "off")[1]["state"] == "off"
    assert command("list")[1]["webhooks"][0]["reason"] == "asked"
    code, log, _ = command("log", made["id"])
    assert pinged["event_id"] in [one["event_id"] for one in log["attempts"]]
    assert command("resume", made["id"], "--skip-waiting")[1]["state"] == "on"
    assert command("rotate", made["id"], "--overlap-s", "0")[1]["secret"] != made["secret"]
    for shown in ("list", "show", "log"):
        capsys.readouterr()
        assert run(["webhook", shown, *([] if shown == "list" else [made["id"]])]) == 0
        assert "siem" in capsys.readouterr().out or shown == "log"
    assert command("delete", made["id"])[0] == 2, "it asks before"
    assert command("delete", made["id"], "--yes")[1]["deleted"]
    assert command("show", made["id"])[0] == 3


def test_a_key_has_no_webhooks(house: House, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.KEY])
    code, _, error = command("list")
    assert code == 4 and "webhooks.read is not for key" in error
    assert command("change", "whk_x")[0] == 2
