"""How long a topic takes from the request over REST to its first acknowledged message, and with how many calls."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import penstock
from benchmarks.figures import Benchmark, Measured, median, percentile
from data_plane.contract.admin_client import AdminClient
from local.layout import DataDirectory
from local.profile import read_api_key
from local.provisioning import admin_of
from local.service import DevService, ServiceUp
from penstock.admin.blocking import Admin
from penstock.admin.objects import NewTopic
from penstock.contract.topic_settings import TopicSettings
from penstock.rest.client import RestClient

BROKERS = 3
TOPICS = 150
TOGETHER = 1_000
"""Topics of one call."""
PARTITIONS = 3
TURNS = 3
OTHERS = 10_000
"""Topics of another tenant, for the second half."""
_OTHERS_TENANT = "tn_others"
_MADE_AT_ONCE = 8
_SETTLED_S = 20.0
"""Spark has started by then."""


def topic_creation(folder: Path) -> list[Measured]:
    """150 topics one after the other, then 150 beside 10,000 of another tenant, on a whole embedded service."""
    directory = DataDirectory(folder / "service")
    service = DevService(directory)
    try:
        up = service.up(BROKERS, lambda done, steps, note: None)
        time.sleep(_SETTLED_S)
        few_ms, calls = _create(directory, up, "few")
        with admin_of(directory) as admin:
            _make_others(admin)
        many_ms, _ = _create(directory, up, "many")
    finally:
        service.down()
    return [
        Measured(name="topic_create_p50_ms", value=median(few_ms), unit="ms", beside={"max_ms": max(few_ms)}),
        Measured(name="topic_create_p99_ms", value=percentile(few_ms, 0.99), unit="ms"),
        Measured(
            name="broker_calls_per_change",
            value=sum(calls.values()) / TOPICS,
            unit="calls",
            beside={name: number / TOPICS for name, number in sorted(calls.items())},
        ),
        Measured(
            name="topic_create_many_ratio",
            value=median(many_ms) / median(few_ms),
            unit="ratio",
            beside={"p50_ms": median(many_ms), "p99_ms": percentile(many_ms, 0.99)},
        ),
    ]


def topics_in_one_call(folder: Path) -> list[Measured]:
    """1,000 topics of 3 partitions in one request over REST, three times on one service; every time other names."""
    directory = DataDirectory(folder / "service")
    service = DevService(directory)
    took_s = []
    try:
        up = service.up(BROKERS, lambda done, steps, note: None)
        time.sleep(_SETTLED_S)
        _allow(service, up, TURNS * TOGETHER * PARTITIONS)
        with RestClient(up.spec.api_url, read_api_key(directory), timeout_s=60.0) as rest:
            admin = Admin(rest)
            for turn in range(TURNS):
                asked = [NewTopic(f"turn-{turn}-{number}", PARTITIONS) for number in range(TOGETHER)]
                began = time.monotonic()
                outcomes = admin.create_topics(asked)
                took_s.append(time.monotonic() - began)
                late = [one for one in outcomes if one.topic is None or not one.topic.delivered]
                if late:
                    raise RuntimeError(f"{len(late)} not made in time: {late[0]}")
    finally:
        service.down()
    beside = {"first_s": took_s[0], "max_s": max(took_s)}
    return [Measured(name="topics_created_1000_s", value=median(took_s), unit="s", beside=beside)]


def _allow(service: DevService, up: ServiceUp, partitions: int) -> None:
    """The tenant may have so many, and those that it has."""
    token = service.service.operator_token_file.read_text(encoding="ascii").strip()
    with RestClient(up.spec.api_url, read_api_key(service.directory)) as own:
        tenant = str(next(own.items("/v1/tenants"))["id"])
    with RestClient(up.spec.api_url, token, tenant=tenant) as operator:
        limit = operator.get("/v1/quotas")["partitions_max"] + partitions
        if not operator.patch("/v1/quotas", {"partitions_max": limit})["delivered"]:
            raise RuntimeError("the brokers have not got the limit")


def _create(directory: DataDirectory, up: ServiceUp, prefix: str) -> tuple[list[float], dict[str, float]]:
    """Milliseconds of each, and the web process's calls to the brokers by name."""
    api_key = read_api_key(directory)
    bootstrap = [broker.client_address for broker in up.cluster.spec.brokers]
    took_ms = []
    with (
        RestClient(up.spec.api_url, api_key) as rest,
        penstock.Client(bootstrap=bootstrap, api_key=api_key) as client,
        client.producer(linger_ms=0) as producer,
    ):
        admin = Admin(rest)
        before = _calls(up)
        for number in range(TOPICS):
            began = time.monotonic()
            topic = admin.create_topic(f"{prefix}-{number}", 1)
            if not topic.delivered:
                raise RuntimeError(f"{topic.name}: {topic.conditions}")
            producer.send(topic.name, b"first").result(30)
            took_ms.append((time.monotonic() - began) * 1000)
        after = _calls(up)
    return took_ms, {name: after[name] - before.get(name, 0.0) for name in after}


def _calls(up: ServiceUp) -> dict[str, float]:
    """From the web process's /metrics."""
    with urlopen(f"http://{up.spec.web_metrics_address}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    named = (line.partition('{call="')[2] for line in lines if line.startswith("penstock_broker_calls{"))
    return {name: float(rest.rpartition(" ")[2]) for name, _, rest in (one.partition('"') for one in named)}


def _make_others(admin: AdminClient) -> None:
    admin.put_tenant(_OTHERS_TENANT)
    ids = sorted(broker.id for broker in admin.describe_cluster().brokers)

    def make(number: int) -> None:
        turn = number % len(ids)
        admin.create_topic(
            _OTHERS_TENANT,
            f"other-{number}",
            TopicSettings(),
            [ids[turn:] + ids[:turn]],
            topic_id=number.to_bytes(16, "big"),  # with it a call whose answer is late may be repeated
            timeout_s=60.0,
        )

    with ThreadPoolExecutor(_MADE_AT_ONCE) as pool:
        list(pool.map(make, range(OTHERS)))


BENCHMARK = Benchmark(
    figures=(
        "topic_create_p50_ms",
        "topic_create_p99_ms",
        "broker_calls_per_change",
        "topic_create_many_ratio",
    ),
    run=topic_creation,
    seconds=600,
    quick=False,
)

TOGETHER_BENCHMARK = Benchmark(
    figures=("topics_created_1000_s",), run=topics_in_one_call, seconds=60, quick=False
)
