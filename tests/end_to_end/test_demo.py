"""The demo, shortened, over the end of a month: every number agrees and nothing is left running."""

import calendar
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from local import processes, service_processes
from local.layout import DataDirectory
from local.service_layout import ServiceDirectory
from tests.integration.installed import ROOT
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

FLIGHTS, CARRIERS = 12_000, 6
SECONDS = 24
"""Half of them lie before midnight."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's user can get to, which pytest's own folders do not let it."""
    with tempfile.TemporaryDirectory(prefix="penstock-demo-", dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def month_end() -> datetime:
    """The middle of producing is the end of this month."""
    now = datetime.now(UTC)
    last = calendar.monthrange(now.year, now.month)[1]
    return now.replace(day=last, hour=23, minute=59, second=60 - SECONDS // 2, microsecond=0)


def run_demo(data: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "demo", "--once", "--data", str(data), *options],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )


def test_messages_on_both_sides_of_a_months_end_are_billed_once_and_proven(folder: Path) -> None:
    start = month_end()
    data = folder / "my demo"
    ended = run_demo(
        data,
        *("--flights", str(FLIGHTS), "--carriers", str(CARRIERS), "--seconds", str(SECONDS)),
        *("--clock-start", start.strftime("%Y-%m-%dT%H:%M:%SZ")),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    summary = json.loads((data / "summary.json").read_text())
    assert summary["produced"] == summary["consumed_distinct"] == FLIGHTS
    assert summary["metered_messages"] == summary["invoiced_messages"] == FLIGHTS
    assert (summary["duplicates_in_log"], summary["order_violations"]) == (0, 0)
    assert summary["metered_bytes"] == summary["log_bytes"] > 0
    assert summary["tenants"] == CARRIERS
    # One tenant has an invoice more: a period ended when its own prices began.
    assert summary["verified_invoices"] == summary["invoices"] == 2 * summary["tenants"] + 1
    payment = summary["payment"]
    assert payment["through"] == "a stand-in for Stripe on this machine"
    assert payment["states"] == ["paid"] * 3 and len(payment["invoices"]) == 3
    assert payment["collected_cents"] == payment["invoiced_cents"] > 50
    assert "USD collected by a stand-in for Stripe on this machine; no money moved." in ended.stderr
    months = summary["invoiced_by_month"]
    assert next(iter(months)) == start.strftime("%Y-%m") and len(months) == 2
    assert min(months.values()) > 0, months

    directory = DataDirectory(data / "service")
    service = ServiceDirectory(directory)
    assert [processes.find(directory.config_file(broker)) for broker in (1, 2, 3)] == [None] * 3
    assert [service_processes.find(service, process) for process in service_processes.PROCESSES] == [None] * 4
    assert not (data / "servers" / "servers.json").exists()


def test_a_folder_that_holds_something_else_is_left_alone(folder: Path) -> None:
    (folder / "letter.txt").write_text("dear")
    ended = run_demo(folder)
    assert ended.returncode != 0
    assert "holds something else" in ended.stdout + ended.stderr
    assert [file.name for file in folder.iterdir()] == ["letter.txt"]
