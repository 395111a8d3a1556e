"""What a flood of REST calls costs the web application: one tenant's callers ask again as soon as they are answered.

The clients have ordinary priority, and what is counted is processor time, so other programs on the machine change less
of it than of any latency. Beside it stand the same clients before a server that does nothing but refuse.
"""

import http.client
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.cluster import cpu_s
from benchmarks.figures import Benchmark, Measured
from benchmarks.whole_service import WholeService

CALLERS = 24
CALLS_PER_S = 20
"""That the tenant may make."""
SECONDS = 10.0
_WARM_UP_S = 6.0
"""A new limit counts within 5 s."""
_CALL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """By the second, and percent of a core."""

    answered: float
    refused: float
    server_percent: float
    clients_percent: float


def rest_flood(folder: Path) -> list[Measured]:
    with WholeService(folder) as service:
        with service.operator(service.own_tenant()) as operator:
            operator.patch("/v1/quotas", {"rest_calls_per_s": CALLS_PER_S})
        found = _flood(service.api_url, service.api_key, service.processes("web"))
    with subprocess.Popen([sys.executable, "-m", "benchmarks.refusing"], stdout=subprocess.PIPE) as refusing:
        assert refusing.stdout is not None
        port = int(refusing.stdout.readline())
        floor = _flood(f"http://127.0.0.1:{port}", "none", [psutil.Process(refusing.pid)])
        refusing.kill()
    return [
        Measured(
            name="rest_flood_core_percent",
            value=found.server_percent,
            unit=f"% of a core, the web application before {CALLERS} callers",
            beside={
                "answered_per_s": found.answered,
                "refused_per_s": found.refused,
                "clients_percent": found.clients_percent,
                "floor_percent": floor.server_percent,
                "floor_refused_per_s": floor.refused,
                "floor_clients_percent": floor.clients_percent,
            },
        )
    ]


def _flood(url: str, api_key: str, server: list[psutil.Process]) -> Flood:
    got: Counter[bool] = Counter()
    counting, ended = threading.Lock(), threading.Event()
    threads = [
        threading.Thread(target=_call, args=(url, api_key, got, counting, ended)) for _ in range(CALLERS)
    ]
    for thread in threads:
        thread.start()
    try:
        time.sleep(_WARM_UP_S)
        before, began = Counter(got), time.monotonic()
        used, own = sum(map(cpu_s, server)), time.process_time()
        time.sleep(SECONDS)
        took = time.monotonic() - began
        used, own = sum(map(cpu_s, server)) - used, time.process_time() - own
        after = Counter(got)
    finally:
        ended.set()
        for thread in threads:
            thread.join(_CALL_S)
    return Flood(
        answered=(after[True] - before[True]) / took,
        refused=(after[False] - before[False]) / took,
        server_percent=100 * used / took,
        clients_percent=100 * own / took,
    )


def _call(
    url: str, api_key: str, got: Counter[bool], counting: threading.Lock, ended: threading.Event
) -> None:
    """Ask for the tenant's topics again and again, whatever the answer is."""
    at = urlsplit(url)
    with closing(http.client.HTTPConnection(str(at.hostname), at.port, timeout=_CALL_S)) as connection:
        while not ended.is_set():
            connection.request("GET", "/v1/topics?limit=100", headers={"Authorization": f"Bearer {api_key}"})
            answer = connection.getresponse()
            answer.read()
            with counting:
                got[answer.status < 400] += 1


BENCHMARK = Benchmark(figures=("rest_flood_core_percent",), run=rest_flood, seconds=80, quick=False)
