"""How far three loaded brokers together go above a budget, and how far they stop below it.

Each round a fresh budget of messages that takes some seconds of full load; counted are acknowledged messages until no
broker has let one in for some seconds.
"""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import penstock
from benchmarks.cluster import BenchCluster
from benchmarks.figures import Benchmark, Measured
from penstock.contract.errors import LimitExceeded
from penstock.rules.budgets import MONTH, PARTS, REFUSE_PRODUCE, Budget

MESSAGES = 200_000
MESSAGE_BYTES = 100
PARTITIONS = 3
ROUNDS = 4
_QUIET_S = 6.0
"""All brokers are asked for so long after the first refusal: what idle ones give back is used too."""
_ROUND_S = 60.0
_FLUSH_S = 60.0


@dataclass(slots=True)
class _Counted:
    acknowledged: int = 0
    refused: int = 0
    first_refusal: float = 0.0


def _send(client: penstock.Client, partition: int, counted: _Counted, ends: float) -> None:
    """As fast as the client lets it, to one partition: each has its leader at another broker."""
    payload = os.urandom(MESSAGE_BYTES)
    lock = threading.Lock()

    def done(delivery: penstock.Delivery) -> None:
        failed = delivery.exception()
        with lock:
            if failed is None:
                counted.acknowledged += 1
            elif isinstance(failed, LimitExceeded):
                counted.refused += 1
                counted.first_refusal = counted.first_refusal or time.monotonic()

    with client.producer(compression="none", linger_ms=5, batch_bytes=16_000) as producer:
        while time.monotonic() < ends:
            producer.send("budgeted", payload, partition=partition).add_done_callback(done)
            if counted.first_refusal:
                if time.monotonic() > counted.first_refusal + _QUIET_S:
                    break
                time.sleep(0.02)
        producer.flush(_FLUSH_S)


def budgets(folder: Path) -> list[Measured]:
    """The worst of the rounds."""
    overs: list[float] = []
    seconds: list[float] = []
    with BenchCluster(folder) as cluster:
        cluster.topic("budgeted", PARTITIONS, assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        with penstock.Client(bootstrap=cluster.bootstrap, api_key=cluster.api_key) as client:
            for number in range(1, ROUNDS + 1):
                budget = Budget(
                    budget_id=f"bud_{number}",
                    name=f"round {number}",
                    period=MONTH,
                    amount=MESSAGES,
                    unit="messages",
                    policy=REFUSE_PRODUCE,
                    message_in=PARTS,
                )
                cluster.admin.wait_until_seen(
                    cluster.admin.put_tenant(cluster.spec.tenant, generation=number, budgets=[budget])
                )
                began = time.monotonic()
                counted = [_Counted() for _ in range(PARTITIONS)]
                threads = [
                    threading.Thread(
                        target=_send, args=(client, partition, counted[partition], began + _ROUND_S)
                    )
                    for partition in range(PARTITIONS)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                if not all(one.refused for one in counted):
                    raise RuntimeError("the budget stopped nothing within a round")
                used = sum(one.acknowledged for one in counted)
                overs.append(100 * (used - MESSAGES) / MESSAGES)
                seconds.append(min(one.first_refusal for one in counted) - began)
    return [
        Measured(
            name="budget_overshoot_percent",
            value=max(0.0, *overs),
            unit="% above a budget of 200,000 messages, three brokers loaded",
            beside={"least": min(overs), "most": max(overs), "seconds_to_full": max(seconds)},
        )
    ]


BENCHMARK = Benchmark(figures=("budget_overshoot_percent",), run=budgets, seconds=100)
