"""The Locust file of `benchmarks/load`, run for some seconds against brokers of the test's own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.brokers import Brokers, Tenant, brokers
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
TOPIC = "load"
USERS = 5
MESSAGES = 1_000


def test_five_users_get_everything_back_that_was_acknowledged(tmp_path: Path) -> None:
    with brokers(tmp_path / "cluster", settings={"metering": True}, internal_topics=True) as cluster:
        tenant = cluster.tenant("tn_load")
        cluster.create_topic(tenant, TOPIC, 3)
        report = tmp_path / "report.json"
        done = _run_locust(cluster, tenant, report)
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        told = json.loads(report.read_text())
        acknowledged = set(told["acknowledged"])
        assert told["users"] == USERS, output
        assert len(acknowledged) >= MESSAGES, output
        assert acknowledged <= set(told["consumed"]), output
        assert acknowledged <= _stored(cluster, tenant, len(acknowledged)), cluster.last_words()


def _run_locust(cluster: Brokers, tenant: Tenant, report: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "locust", "-f", str(ROOT / "benchmarks/load/locustfile.py")]
    command += [
        "--headless",
        "--only-summary",
        "-u",
        str(USERS),
        "-r",
        str(USERS),
        "-t",
        f"{PATIENCE_S / 2:.0f}s",
    ]
    command += [
        "--stop-timeout",
        "60",
        "--messages",
        str(MESSAGES),
        "--topic",
        TOPIC,
        "--report",
        str(report),
    ]
    settings = {
        "PENSTOCK_BOOTSTRAP": ",".join(cluster.bootstrap),
        "PENSTOCK_API_KEY": tenant.api_key,
        "GRPC_VERBOSITY": "ERROR",
    }
    return subprocess.run(
        command,
        cwd=report.parent,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def _stored(cluster: Brokers, tenant: Tenant, at_least: int) -> set[str]:
    """What a consumer finds that has read nothing before."""
    found: set[str] = set()
    with cluster.client(tenant) as client, client.consumer(TOPIC) as consumer:
        while messages := consumer.poll(
            max_messages=10_000, timeout=3.0 if len(found) >= at_least else PATIENCE_S
        ):
            found.update((message.value or b"").partition(b" ")[0].decode() for message in messages)
    return found
