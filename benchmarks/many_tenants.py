"""1,000 tenants with 10,000 topics: what they cost at rest, and how long a newcomer and a change wait beside them.

`TENANTS=20` in the environment takes fewer, each with its ten topics: a look whether it works, and no figure.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import penstock
from benchmarks.figures import Benchmark, Measured, median
from benchmarks.whole_service import Rest, WholeService
from local.service_processes import environment_for
from penstock.admin.blocking import Admin
from penstock.rest.client import RestClient

TENANTS = int(os.environ.get("TENANTS", 1_000))
TOPICS = 10
"""Of each tenant."""
PARTITIONS = 3
"""Of each topic."""
_SIGN_UPS = 5
_CHANGES = 60
_REST_S = 45.0
"""Rounds of half a minute and more are in it."""
_SETTLED_S = 45.0
"""Until wake-ups of what the sweep has delivered are done, and checkpoints of new partitions are written."""
_ROWS_S = 900.0
"""A bound against hanging: what is late is measured, and misses its goal."""


def many_tenants(folder: Path) -> list[Measured]:
    """Everything is measured on an empty service first, then beside the others."""
    with WholeService(folder) as service:
        _tell("the service is up")
        _sign_up_ms(service, "warm")
        few_ms = [_sign_up_ms(service, f"few{number}") for number in range(_SIGN_UPS)]
        change_few_ms = _changes_ms(service, "few")
        empty = service.rest(_REST_S)
        _tell(f"empty: newcomers {few_ms} ms, change {median(change_few_ms)} ms, {empty}")
        _tell(f"tenants: {_rows(service, '--tenants', str(TENANTS))}")
        time.sleep(_SETTLED_S)
        idle = service.rest(_REST_S)
        _tell(f"beside the tenants: {idle}")
        made = _rows(service, "--topics", str(TOPICS), "--partitions", str(PARTITIONS))
        if made["topics"] < TENANTS * TOPICS:
            raise RuntimeError(f"the brokers have {made['topics']} topics")
        time.sleep(_SETTLED_S)
        full = service.rest(_REST_S)
        _tell(f"topics: {made}; beside them: {full}")
        many_ms = [_sign_up_ms(service, f"many{number}") for number in range(_SIGN_UPS)]
        change_many_ms = _changes_ms(service, "many")
    brokers = [name for name in full.rss if name.startswith("broker")]
    return [
        Measured(
            name="reconcile_10k_topics_s",
            value=made["delivered_s"],
            unit="s until brokers have what the database has",
            beside={name: made[name] for name in ("rows_s", "described_s", "compared_s", "compared_cpu_s")},
        ),
        Measured(
            name="reconcile_at_rest_core_percent",
            value=full.percent["worker"],
            unit="% of a core, the worker",
            beside={"empty": empty.percent["worker"], **_all(full)},
        ),
        Measured(
            name="sign_up_to_first_message_ms",
            value=median(many_ms),
            unit="ms",
            beside={"max_ms": max(many_ms), "empty_ms": median(few_ms), "empty_max_ms": max(few_ms)},
        ),
        Measured(
            name="change_beside_10k_topics_ratio",
            value=median(change_many_ms) / median(change_few_ms),
            unit="ratio of medians",
            beside={"empty_ms": median(change_few_ms), "many_ms": median(change_many_ms)},
        ),
        Measured(
            name="broker_rss_10k_topics_mb",
            value=max(full.rss[name] for name in brokers) / 1e6,
            unit="MB, the broker that has most",
            beside={"empty_mb": max(empty.rss[name] for name in brokers) / 1e6},
        ),
        Measured(
            name="idle_tenants_1000_rss_mb",
            value=(sum(idle.rss.values()) - sum(empty.rss.values())) / 1e6 * 1_000 / TENANTS,
            unit="MB more, all processes",
            beside={name: (idle.rss[name] - empty.rss[name]) / 1e6 for name in idle.rss},
        ),
        Measured(
            name="idle_tenants_1000_core_percent",
            value=(sum(idle.percent.values()) - sum(empty.percent.values())) * 1_000 / TENANTS,
            unit="% of a core more, all processes",
            beside={name: idle.percent[name] - empty.percent[name] for name in idle.percent},
        ),
    ]


def _tell(what: str) -> None:
    """How far it is, since it takes minutes."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _all(seen: Rest) -> dict[str, float]:
    return {name: value for name, value in seen.percent.items() if name != "worker"}


def _rows(service: WholeService, *arguments: str) -> dict[str, Any]:
    """It says on standard error how far it is."""
    environment = environment_for(service.dev.service, "rows")
    command = [sys.executable, "-m", "benchmarks.tenant_rows", *arguments]
    ran = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, timeout=_ROWS_S, check=True
    )
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _sign_up_ms(service: WholeService, name: str) -> float:
    """From the request of a newcomer to the acknowledgement of their first message, by three copies on disk."""
    began = time.monotonic()
    with RestClient(service.api_url) as rest:
        wanted = {"email": f"{name}@example.com", "password": "a horse, a battery", "tenant": name}
        token = str(rest.post("/v1/sign-up", wanted)["token"])
    with RestClient(service.api_url, token) as rest:
        admin = Admin(rest)
        key = admin.create_key("app").api_key
        admin.create_topic("first", 1)
        with (
            penstock.Client(bootstrap=service.bootstrap, api_key=key) as client,
            client.producer(linger_ms=0) as producer,
        ):
            producer.send("first", b"first").result(30)
            return (time.monotonic() - began) * 1000


def _changes_ms(service: WholeService, name: str) -> list[float]:
    """Milliseconds of a setting's change, until the brokers have it."""
    took = []
    with RestClient(service.api_url, service.api_key) as rest:
        admin = Admin(rest)
        admin.create_topic(name, 1)
        for number in range(_CHANGES):
            began = time.monotonic()
            topic = admin.update_topic(name, {"retention_ms": 86_400_000 + number})
            took.append((time.monotonic() - began) * 1000)
            if not topic.delivered:
                raise RuntimeError(f"{topic.name}: {topic.conditions}")
    return took


BENCHMARK = Benchmark(
    figures=(
        "reconcile_10k_topics_s",
        "reconcile_at_rest_core_percent",
        "sign_up_to_first_message_ms",
        "change_beside_10k_topics_ratio",
        "broker_rss_10k_topics_mb",
        "idle_tenants_1000_rss_mb",
        "idle_tenants_1000_core_percent",
    ),
    run=many_tenants,
    seconds=480,
    quick=False,
)
