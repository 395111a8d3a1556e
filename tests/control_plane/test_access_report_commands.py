"""`penstock access report` and `reports` over the real REST interface."""

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from control_plane.access import list_actions
from control_plane.access_reports import actions
from control_plane.access_reports.models import AccessReport
from control_plane.access_reports.months import Month
from penstock.cli import access_reports
from penstock.cli.__main__ import run
from tenants.roles import Standing
from tests.control_plane.world import ACTOR, House, make_house

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def house(transactional_db: None) -> House:
    made = make_house("acme")
    list_actions.create_account(ACTOR, made.tenant, name="=1+1")
    actions.make(made.tenant, Month(2026, 10), datetime(2026, 11, 1, 0, 6, tzinfo=UTC))
    return made


@pytest.fixture
def command(
    house: House,
    live_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """`penstock access …` as the tenant's auditor: exit code, what stands on both streams."""
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.AUDITOR])
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    monkeypatch.setenv("PENSTOCK_PROFILE_FILE", str(tmp_path / "profiles.toml"))

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(["access", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_a_report_is_shown_as_rows_as_json_and_for_spreadsheets(command: Command) -> None:
    code, out, error = command("report", "--month", "2026-10")
    assert code == 0 and "unused\tservice_account\t=1+1\thas no valid key" in out
    assert "people\towner@acme.example\towner\tnone\t" in out
    assert "acme, made" in error and AccessReport.objects.get().sha256 in error
    code, out, _ = command("report", "--month", "2026-10", "--json")
    assert code == 0 and json.loads(out)["report"]["month"] == "2026-10"
    code, out, _ = command("report", "--csv")
    rows = list(csv.reader(io.StringIO(out)))
    assert code == 0 and rows[1][3] == "now"
    assert "'=1+1" in {cell for row in rows for cell in row}
    assert command("report", "--csv", "--json")[0] == 2
    assert command("report", "--month", "2026-09")[0] == 3


def test_reports_are_listed_and_keys_may_not_read_them(
    house: House, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = command("reports")
    assert code == 0 and out.startswith("2026-10\t")
    assert len(json.loads(command("reports", "--json")[1])["reports"]) == 1
    monkeypatch.setenv("PENSTOCK_API_KEY", house.credentials[Standing.KEY])
    code, _, error = command("report")
    assert code == 4 and "access.report is not for key" in error


def test_a_report_that_is_not_its_digests_is_not_shown(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_reports, "digest", lambda report: "0" * 64)
    code, out, error = command("report")
    assert (code, out) == (5, "") and "not the one that its digest is of" in error
