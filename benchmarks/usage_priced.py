"""How long a message takes to be in what a tenant's running period costs: `make bench ONLY=usage_priced_s`.

A service as `make dev` starts it, with its usage pipeline. Each message is sent at another moment of the rounds, and
`GET /v1/prices` is asked until the quantity has it.
"""

import os
import time
from pathlib import Path

from benchmarks.cluster import cpu_s
from benchmarks.figures import Benchmark, Measured, median
from local import service_processes
from local.layout import DataDirectory
from local.profile import read_api_key
from local.service import DevService
from penstock import Client
from penstock.contract.errors import NotFound
from penstock.rest.client import RestClient

_TOPIC = "priced"
_BROKERS = 3
_MESSAGES = 4
_STEP_S = 7.0
"""Between a message that was priced and the next, times its number: messages come at different moments of a round."""
_POLL_S = 0.25
_WITHIN_S = 300.0


def priced(folder: Path) -> list[Measured]:
    """Seconds from `send` to the price: the longest of four messages. The first of all, for which Spark starts, stands
    beside it.
    """
    folder = folder.absolute()
    os.environ["PENSTOCK_PROFILE_FILE"] = str(folder / "profiles.toml")
    service = DevService(DataDirectory(folder / "service"))
    try:
        up = service.up(_BROKERS, lambda done, steps, note: None)
        key = read_api_key(service.directory)
        assert key is not None
        bootstrap = [broker.client_address for broker in up.cluster.spec.brokers]
        with (
            RestClient(up.spec.api_url, key, timeout_s=30.0) as rest,
            Client(bootstrap=bootstrap, api_key=key) as client,
            client.producer() as producer,
        ):
            rest.post("/v1/topics", {"name": _TOPIC, "partitions": 1})
            took: list[float] = []
            for number in range(_MESSAGES + 1):
                time.sleep(_STEP_S * number)
                began = time.monotonic()
                producer.send(_TOPIC, b"priced").result(timeout=30)
                _wait(rest, number + 1, began)
                took.append(time.monotonic() - began)
        runner = service_processes.find(service.service, service_processes.RUNNER)
        busy = 0.0 if runner is None else cpu_s(runner.process)
    finally:
        service.down()
    cold, rest_of = took[0], took[1:]
    beside = {"first_s": cold, "median_s": median(rest_of), "runner_processor_s": busy}
    return [
        Measured(
            name="usage_priced_s", value=max(rest_of), unit="s", beside=beside, details={"each_s": rest_of}
        )
    ]


def _wait(rest: RestClient, messages: int, began: float) -> None:
    """Until the running cost has so many."""
    while True:
        try:
            lines = rest.get("/v1/prices")["lines"]
        except NotFound:
            lines = []  # the first bill run publishes them
        if sum(int(line["quantity"]) for line in lines if line["meter"] == "messages_in") >= messages:
            return
        if time.monotonic() - began > _WITHIN_S:
            raise TimeoutError(f"{messages} messages are not priced after {_WITHIN_S:g} s")
        time.sleep(_POLL_S)


BENCHMARK = Benchmark(figures=("usage_priced_s",), run=priced, seconds=240, quick=False)
