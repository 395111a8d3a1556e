"""What one tenant's hostile load does to another: p99 of its acknowledgements beside that in peace, and its throughput.

Each kind of load is measured several times, each time right after a time of peace on the same brokers; what counts is
the median of the ratios of these pairs. The service's work is judged, not that of who calls it: the hostile clients
stand in a session of the lowest priority, and a process for each processor that only spins stands in another, in peace
as beside the load. So processors are never idle and never cold, and what clients use is taken from the spinning. The
neighbour's own clients are the same in both. `spinning` is one more such process and no call: the measure's own noise.
`rest_floor` are the clients of `rest` before a server that only refuses: what no service could do better. Of
`rest_by_call` the tenant's limit is by number of calls alone.

`KINDS=rest,storm` in the environment measures only these.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

import penstock.asyncio
from benchmarks.event_loop import run
from benchmarks.figures import Benchmark, Measured, median, percentile
from benchmarks.hostile import ANSWERED, LOADS, REFUSED
from local import service_processes
from local.layout import DataDirectory
from local.profile import read_api_key
from local.service import DevService
from local.service_processes import RUNNER
from penstock.admin.blocking import Admin
from penstock.admin.objects import NewTopic
from penstock.rest.client import RestClient

BROKERS = 3
SECONDS = 4
RATE_S = 3
ROUNDS = 3
PER_S = 200
"""What leaves the machine idle for the most part: the load is to be seen, not the processor's end."""
MESSAGE_BYTES = 1_000
TOPICS = 400
PARTITIONS = 1_000
"""Of the hostile tenant's first topic; the others have one."""
OLD_MESSAGES = 1_000
OLD_MESSAGE_BYTES = 64 * 1024
QUOTA_BYTES_PER_S = 1 << 20
"""Of the hostile tenant, which tries to send tens of times that."""
QUOTA_CALLS_PER_S = 20
"""Of REST, as the plan that is free; it calls as often as it is answered."""
QUOTA_PROCESSOR_MS_PER_S = 100
"""As the plan that is free."""
TOPIC = "victim"
_WARM_UP_S = 2.0
FRESH_S = 5.0
"""A changed limit counts within so long."""
_END_S = 60.0
_DELIVERED_S = 120.0
FLOOR = "rest_floor"
FLOODED = "rest"
"""The load whose clients it has."""
BY_CALL = "rest_by_call"
BESIDE = (FLOOR, BY_CALL)
"""Clients of the same load, which are not judged."""
KINDS = (*LOADS, *BESIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A service with its two tenants: the victim, which is the service's first account, and the hostile one."""

    bootstrap: list[str]
    api_url: str
    api_key: str
    hostile_key: str
    hostile_topics: list[str]
    refusing_url: str
    """Of the server that refuses every call."""
    hostile_tenant: str
    operator: str

    def allow_processor_time(self, ms_per_s: int) -> None:
        """Of REST, to the hostile tenant; 0 = no limit."""
        with RestClient(self.api_url, self.operator, tenant=self.hostile_tenant, timeout_s=_END_S) as rest:
            rest.patch("/v1/quotas", {"rest_processor_ms_per_s": ms_per_s})
        time.sleep(FRESH_S)

    def make_topic(self, name: str, partitions: int) -> None:
        """A topic of the victim's, known to every broker on return."""
        with RestClient(self.api_url, self.api_key, timeout_s=_END_S) as rest:
            admin = Admin(rest)
            admin.wait_for_topic(admin.create_topic(name, partitions), timeout=_DELIVERED_S)


def chosen_kinds() -> list[str]:
    """All, or those that `KINDS` in the environment names."""
    wanted = [kind for kind in os.environ.get("KINDS", "").split(",") if kind]
    unknown = [kind for kind in wanted if kind not in KINDS]
    if unknown:
        raise ValueError(f"KINDS: {', '.join(unknown)}: not one of {', '.join(KINDS)}")
    return wanted or list(KINDS)


def noisy_neighbour(folder: Path) -> list[Measured]:
    """The worst ratios of latency and throughput, with each load's beside them."""
    kinds = chosen_kinds()
    slower: dict[str, float] = {}
    kept: dict[str, float] = {}
    beside: dict[str, float] = {}
    with _service(folder) as house:
        house.make_topic(TOPIC, 3)
        run(_acks(house))
        idle = _times(house, changing=False)
        print(
            f"  processors otherwise idle: p99 {idle.p99_ms:.0f} ms, {idle.rate / 1e6:.1f} MB/s",
            file=sys.stderr,
            flush=True,
        )
        for kind in kinds:
            if kind == BY_CALL:
                house.allow_processor_time(0)
            with _spinning(house):
                rounds = [_round(house, kind) for _ in range(ROUNDS)]
            if kind == BY_CALL:
                house.allow_processor_time(QUOTA_PROCESSOR_MS_PER_S)
            slower[kind] = median([one.hurt.p99_ms / one.peace.p99_ms for one in rounds])
            kept[kind] = median([one.hurt.rate / one.peace.rate for one in rounds])
            beside |= {
                f"{kind}_ratio": slower[kind],
                f"{kind}_ms": median([one.hurt.p99_ms for one in rounds]),
                f"{kind}_peace_ms": median([one.peace.p99_ms for one in rounds]),
            }
            print(_line(kind, rounds, slower[kind], kept[kind]), file=sys.stderr, flush=True)
    judged = [kind for kind in kinds if kind not in BESIDE] or kinds
    return [
        Measured(
            name="noisy_neighbour",
            value=max(slower[kind] for kind in judged),
            unit="x of p99 in peace",
            beside=beside,
        ),
        Measured(
            name="noisy_neighbour_throughput",
            value=min(kept[kind] for kind in judged),
            unit="x of bytes a second in peace",
            beside={f"{kind}_ratio": ratio for kind, ratio in kept.items()},
        ),
    ]


def _line(kind: str, rounds: "list[Round]", slower: float, kept: float) -> str:
    got = ", ".join(
        f"{sum(one.got.get(what, 0) for one in rounds) / sum(one.taken_s for one in rounds):.0f} {what}"
        for what in (ANSWERED, REFUSED)
    )
    spent = ", ".join(
        f"{who} {median([one.peace.cores[who] for one in rounds]):.2f} -> "
        f"{median([one.hurt.cores[who] for one in rounds]):.2f}"
        for who in rounds[0].hurt.cores
    )
    singly = " ".join(f"{one.hurt.p99_ms:.0f}/{one.peace.p99_ms:.0f}" for one in rounds)
    rates = " ".join(f"{one.hurt.rate / 1e6:.1f}/{one.peace.rate / 1e6:.1f}" for one in rounds)
    return (
        f"  {kind}: p99 {slower:.2f} times ({singly} ms), throughput {kept:.2f} times ({rates} MB/s);"
        f" it got {got} a second; cores, peace -> load: {spent}"
    )


@contextmanager
def _service(folder: Path) -> Iterator[House]:
    """A whole service without its usage pipeline, whose start alone would be seen."""
    os.environ["PENSTOCK_PROFILE_FILE"] = str(folder / "profiles.toml")
    directory = DataDirectory(folder / "service")
    service = DevService(directory)
    refusing = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.refusing"], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert refusing.stdout is not None
        port = int(refusing.stdout.readline())
        up = service.up(BROKERS, lambda done, steps, note: None)
        service_processes.stop(service.service, [RUNNER], _END_S)
        operator = service.service.operator_token_file.read_text(encoding="ascii").strip()
        bootstrap = [broker.client_address for broker in up.cluster.spec.brokers]
        tenant, key, topics = _hostile_tenant(up.spec.api_url, operator, bootstrap)
        yield House(
            bootstrap=bootstrap,
            api_url=up.spec.api_url,
            api_key=str(read_api_key(directory)),
            hostile_key=key,
            hostile_topics=topics,
            refusing_url=f"http://127.0.0.1:{port}",
            hostile_tenant=tenant,
            operator=operator,
        )
    finally:
        refusing.kill()
        refusing.communicate()
        service.down()


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The neighbour in peace, or beside a load."""

    p99_ms: float
    rate: float
    cores: dict[str, float]
    """While its acknowledgements were timed: processors that each kind of process used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    peace: Times
    hurt: Times
    got: dict[str, int]
    """What the hostile clients got in `taken_s`."""
    taken_s: float


def _round(house: House, kind: str) -> Round:
    """The neighbour in peace, and right after it beside the load."""
    changing = kind in ("watches", "together")
    peace = _times(house, changing=changing)
    began = time.monotonic()
    process = _hostile(house, kind)
    try:
        time.sleep(_WARM_UP_S)
        hurt = _times(house, changing=changing)
        if process.poll() is not None:
            raise RuntimeError(f"the load {kind} ended with {process.returncode}")
        process.send_signal(signal.SIGTERM)
        taken_s = time.monotonic() - began
        said, _ = process.communicate(timeout=_END_S)
    finally:
        process.kill()
        process.wait()
    time.sleep(_WARM_UP_S)
    return Round(peace=peace, hurt=hurt, got=json.loads(said), taken_s=taken_s)


@contextmanager
def _spinning(house: House) -> Iterator[None]:
    """A process for each processor that takes what no other wants."""
    processes = [_hostile(house, "spinning") for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _hostile(house: House, kind: str) -> subprocess.Popen[bytes]:
    load = FLOODED if kind in BESIDE else kind
    api_url = house.refusing_url if kind == FLOOR else house.api_url
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks.hostile", load),
            *("--bootstrap", ",".join(house.bootstrap), "--api-url", api_url),
            *("--api-key", house.hostile_key, "--topics", ",".join(house.hostile_topics)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _times(house: House, *, changing: bool) -> Times:
    began, before = time.monotonic(), _processor_s()
    taken_ms = run(_acks(house, changing=changing))
    took_s, after = time.monotonic() - began, _processor_s()
    cores = {who: max(0.0, after[who] - before[who]) / took_s for who in after}
    return Times(p99_ms=percentile(taken_ms, 0.99), rate=run(_rate(house)), cores=cores)


def _processor_s() -> dict[str, float]:
    """Processor time so far of the service's processes, of the hostile clients, and of what this process is itself: the
    neighbour's clients.
    """
    spent = dict.fromkeys(("brokers", "web", "worker", "hostile", "refusing", "neighbour"), 0.0)
    own = time.process_time()
    for process in psutil.Process().children(recursive=True):
        try:
            times, arguments = process.cpu_times(), " ".join(process.cmdline())
        except psutil.Error:
            continue  # it has just ended
        who = next((who for who in ("hostile", "web", "worker") if f" {who}" in arguments), "brokers")
        who = next((own for own in ("hostile", "refusing") if f"benchmarks.{own}" in arguments), who)
        spent[who] += times.user + times.system
    return spent | {"neighbour": own}


def _hostile_tenant(api_url: str, operator: str, bootstrap: list[str]) -> tuple[str, str, list[str]]:
    """Its id, key and topics; the first has old messages in partition 0."""
    account = {"email": "hostile@bench.example", "password": "a horse, a battery", "tenant": "hostile"}
    with RestClient(api_url, timeout_s=_END_S) as rest:
        made = rest.post("/v1/sign-up", account)
    with RestClient(api_url, operator, tenant=made["tenant"]["id"], timeout_s=_END_S) as rest:
        rest.patch("/v1/quotas", {"plan": "dedicated"})
        names = [f"topic-{number}" for number in range(TOPICS)]
        with RestClient(api_url, made["token"], timeout_s=_END_S) as hostile:
            admin = Admin(hostile)
            admin.create_topics([NewTopic(name, PARTITIONS if name == names[0] else 1) for name in names])
            for topic in admin.topics():
                admin.wait_for_topic(topic, timeout=_DELIVERED_S)
            key = admin.create_key("hostile")
            admin.wait_for_key(key)
        run(_fill(bootstrap, key.api_key, names[0]))
        quota = {"produce_bytes_per_s": QUOTA_BYTES_PER_S, "rest_calls_per_s": QUOTA_CALLS_PER_S}
        quota["rest_processor_ms_per_s"] = QUOTA_PROCESSOR_MS_PER_S
        rest.patch("/v1/quotas", quota)
    return made["tenant"]["id"], key.api_key, names


async def _fill(bootstrap: list[str], api_key: str, topic: str) -> None:
    value = os.urandom(OLD_MESSAGE_BYTES)
    async with (
        penstock.asyncio.Client(bootstrap=bootstrap, api_key=api_key) as client,
        client.producer(compression="none") as producer,
    ):
        for delivery in [await producer.send(topic, value, partition=0) for _ in range(OLD_MESSAGES)]:
            await delivery


async def _rate(house: House) -> float:
    """Bytes a second that are acknowledged when as much is sent as the brokers take."""
    value, acknowledged = os.urandom(10 * MESSAGE_BYTES), 0
    client = penstock.asyncio.Client(bootstrap=house.bootstrap, api_key=house.api_key)

    def count(delivery: penstock.asyncio.Delivery) -> None:
        nonlocal acknowledged
        acknowledged += len(value)

    async with client, client.producer(linger_ms=5, compression="none") as producer:
        await (await producer.send(TOPIC, value, partition=0))
        began, number = time.perf_counter(), 0
        while time.perf_counter() - began < RATE_S:
            (await producer.send(TOPIC, value, partition=number % 3)).add_done_callback(count)
            number += 1
        taken_s, bytes_in_time = time.perf_counter() - began, acknowledged
        await producer.flush(_END_S)
    return bytes_in_time / taken_s


async def _acks(house: House, *, changing: bool = False) -> list[float]:
    """Milliseconds from `send` to receipt, one a message; `changing`: a topic of the victim's is made each second."""
    total = SECONDS * PER_S
    taken: list[float] = []
    padding = os.urandom(MESSAGE_BYTES)
    client = penstock.asyncio.Client(bootstrap=house.bootstrap, api_key=house.api_key)

    def acknowledged(sent_at: float, delivery: penstock.asyncio.Delivery) -> None:
        taken.append((time.perf_counter() - sent_at) * 1e3)

    async with client, client.producer(linger_ms=0, compression="none") as producer:
        for partition in range(3):
            await (await producer.send(TOPIC, padding, partition=partition))
        began = time.perf_counter()
        for number in range(total):
            ahead = began + number / PER_S - time.perf_counter()
            if ahead > 0:
                await asyncio.sleep(ahead)
            if changing and number % PER_S == 0:
                await asyncio.to_thread(house.make_topic, f"victim-{time.monotonic_ns()}", 1)
                began = time.perf_counter() - number / PER_S
            sent_at = time.perf_counter()
            delivery = await producer.send(TOPIC, padding, partition=number % 3)
            delivery.add_done_callback(partial(acknowledged, sent_at))
        await producer.flush(_END_S)
    return taken


BENCHMARK = Benchmark(
    figures=("noisy_neighbour", "noisy_neighbour_throughput"), run=noisy_neighbour, seconds=720, quick=False
)
