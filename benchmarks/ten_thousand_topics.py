"""A tenant with 10,000 topics: how long a page of their list takes, and an apply of a file that changes nothing.

`TOPICS=2000` in the environment takes fewer, in thousands: a look whether it works, and no figure.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import Benchmark, Measured, median, percentile
from benchmarks.whole_service import WholeService
from penstock.admin.blocking import Admin
from penstock.admin.objects import NewTopic
from penstock.contract.limits import PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, TOPICS_PER_CALL_MAX
from penstock.rest.client import RestClient

TOPICS = int(os.environ.get("TOPICS", 10_000))
_TURNS = 3
"""Through all pages, and of the apply."""
_CALL_S = 120.0
_SETTLED_S = 8.0


def ten_thousand_topics(folder: Path) -> list[Measured]:
    with WholeService(folder) as service:
        service.allow(2 * TOPICS)
        with RestClient(service.api_url, service.api_key, timeout_s=_CALL_S) as rest:
            admin = Admin(rest)
            began = time.monotonic()
            for first in range(0, TOPICS, TOPICS_PER_CALL_MAX):
                asked = [NewTopic(_name(first + number), 1) for number in range(TOPICS_PER_CALL_MAX)]
                refused = [one for one in admin.create_topics(asked) if one.topic is None]
                if refused:
                    raise RuntimeError(f"{len(refused)} topics were refused: {refused[0]}")
                _tell(f"{first + len(asked)} topics are made")
            made_s = time.monotonic() - began
            time.sleep(_SETTLED_S)
            pages_ms = _pages_ms(rest, PAGE_ITEMS_DEFAULT)
            large_ms = _pages_ms(rest, PAGE_ITEMS_MAX)
            _tell(f"pages: p50 {median(pages_ms):.0f} ms, p99 {percentile(pages_ms, 0.99):.0f} ms")
        apply_s = [_apply_s(service, folder) for _ in range(_TURNS)]
        _tell(f"applies of no change: {', '.join(f'{one:.1f}' for one in apply_s)} s")
    return [
        Measured(
            name="list_10k_topics_p99_ms",
            value=percentile(pages_ms, 0.99),
            unit=f"ms, a page of {PAGE_ITEMS_DEFAULT}",
            beside={
                "p50_ms": median(pages_ms),
                "max_ms": max(pages_ms),
                f"p50_of_{PAGE_ITEMS_MAX}_ms": median(large_ms),
                f"max_of_{PAGE_ITEMS_MAX}_ms": max(large_ms),
                "made_s": made_s,
            },
        ),
        Measured(
            name="apply_10k_unchanged_s",
            value=median(apply_s),
            unit="s",
            beside={"min_s": min(apply_s), "max_s": max(apply_s)},
        ),
    ]


def _tell(what: str) -> None:
    """How far it is, since it takes minutes."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def _name(number: int) -> str:
    return f"topic-{number:05d}"


def _pages_ms(rest: RestClient, items: int) -> list[float]:
    """Milliseconds of every page, from the first to the last, several times."""
    took = []
    for _ in range(_TURNS):
        cursor: str | None = None
        seen = 0
        while True:
            began = time.monotonic()
            page = rest.get("/v1/topics", {"limit": items, "cursor": cursor})
            took.append((time.monotonic() - began) * 1000)
            seen += len(page["items"])
            cursor = page["next"]
            if cursor is None:
                break
        if seen != TOPICS:
            raise RuntimeError(f"{seen} topics listed")
    return took


def _apply_s(service: WholeService, folder: Path) -> float:
    """The command as a person runs it, its start included."""
    file = folder / "team.yaml"
    with file.open("w") as output:
        output.write("topics:\n")
        output.writelines(
            f"  - name: {_name(number)}\n    partitions: 1\n    settings:\n      durability: fsync\n"
            for number in range(TOPICS)
        )
    environment = {
        **os.environ,
        "PENSTOCK_API_URL": service.api_url,
        "PENSTOCK_API_KEY": service.api_key,
        "PENSTOCK_BOOTSTRAP": ",".join(service.bootstrap),
    }
    command = [sys.executable, "-m", "penstock.cli", "apply", "-f", str(file), "--yes", "--json"]
    began = time.monotonic()
    ran = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=_CALL_S)
    took = time.monotonic() - began
    if json.loads(ran.stdout) != {"changes": [], "applied": 0}:
        raise RuntimeError(f"the file changed something: {ran.stdout[:300]!r}")
    return took


BENCHMARK = Benchmark(
    figures=("list_10k_topics_p99_ms", "apply_10k_unchanged_s"),
    run=ten_thousand_topics,
    seconds=150,
    quick=False,
)
