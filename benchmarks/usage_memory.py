"""How much memory the usage pipeline takes, round after round: `python -m benchmarks.usage_memory --rounds 40`.

Three real brokers hold `__usage`; each round reads the records of some made-up minutes, as the runner does it.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import psutil

from benchmarks.cluster import BenchCluster
from benchmarks.figures import Benchmark, Measured
from benchmarks.usage_load import FILE_MS, Load
from local.provisioning import new_key, put_key
from penstock import Client, Producer
from penstock.contract.ids import SYSTEM_TENANT
from penstock.records.batch import Buffer
from spark_usage import configuration
from spark_usage.bronze import TOPIC
from spark_usage.lease import lease_of
from spark_usage.pipeline import Pipeline

ROUNDS = 40
_EARLY = 10
"""The round whose memory later ones are compared with: caches are full by then."""
_MIB = 2**20
_SEND_S = 60.0


def memory(
    folder: Path, rounds: int = ROUNDS, conf: Mapping[str, str] = MappingProxyType({})
) -> list[Measured]:
    """Mebibytes of the driver's Java after the last round; beside it the most, and what its Python took."""
    with usage_brokers(folder, conf) as (file, client):
        return _rounds(configuration.read(file), client, rounds)


@contextmanager
def usage_brokers(
    folder: Path, conf: Mapping[str, str] = MappingProxyType({}), **settings: object
) -> Iterator[tuple[Path, Client]]:
    """Three brokers with `__usage` within the block: the pipeline's configuration file, with these settings of Spark
    (`conf`) and of the pipeline, and a client that may write.
    """
    folder = folder.absolute()
    with BenchCluster(folder) as cluster:
        key = new_key()
        put_key(cluster.directory, cluster.admin, key, tenant=SYSTEM_TENANT, name="usage")
        (folder / "usage.key").write_text(key.reveal(), encoding="utf-8")
        file = folder / "penstock.json"
        file.write_text(
            json.dumps(
                {
                    "brokers": {"bootstrap": cluster.bootstrap.split(",")},
                    "datasets": str(folder / "datasets"),
                    "usage_key_file": str(folder / "usage.key"),
                    "spark": {"conf": dict(conf)},
                    **settings,
                }
            ),
            encoding="utf-8",
        )
        with Client(bootstrap=cluster.bootstrap.split(","), api_key=key.reveal()) as client:
            yield file, client


def _rounds(chosen: configuration.Configuration, client: Client, rounds: int) -> list[Measured]:
    chosen.datasets.mkdir(parents=True, exist_ok=True)
    lease = lease_of(chosen)
    lease.hold()
    load, pipeline = Load(), Pipeline(chosen)
    java: list[float] = []
    python: list[float] = []
    began = time.monotonic()
    try:
        pipeline.take_over(lease)
        with client.producer() as producer:
            for number in range(1, rounds + 1):
                write(producer, load, number * FILE_MS)
                pipeline.round_or_again()
                pipeline.tidy(lambda: True)
                java.append(_java().memory_info().rss / _MIB)
                python.append(psutil.Process().memory_info().rss / _MIB)
                print(
                    f"  {number}: Java {java[-1]:.0f} MiB, Python {python[-1]:.0f} MiB",
                    file=sys.stderr,
                    flush=True,
                )
    finally:
        pipeline.close()
        lease.release()
    early = min(_EARLY, rounds) - 1
    beside = {
        "max_mib": max(java), f"after_{early + 1}_rounds_mib": java[early], "python_mib": python[-1],
        f"python_after_{early + 1}_rounds_mib": python[early], "rounds": rounds,
        "round_s": (time.monotonic() - began) / rounds,
    }  # fmt: skip
    return [Measured(name="usage_java_mib", value=java[-1], unit="MiB", beside=beside)]


def write(producer: Producer[Buffer, Buffer], load: Load, until_ms: int) -> dict[str, int]:
    """The records of the time up to `until_ms` since the load's start, acknowledged on return. Returns partition of
    `__usage` -> offset after the last of them; brokers write records of their own among them.
    """
    sent = []
    for row in load.rows(until_ms):
        value, partition = row["record"], row["src_partition"]
        assert isinstance(value, bytes) and isinstance(partition, int)
        sent.append(producer.send(TOPIC, value, partition=partition))
    receipts = [delivery.result(timeout=_SEND_S) for delivery in sent]
    return {str(receipt.partition): receipt.offset + 1 for receipt in receipts}


def _java() -> psutil.Process:
    return next(process for process in psutil.Process().children(recursive=True) if process.name() == "java")


MEMORY = Benchmark(figures=("usage_java_mib",), run=memory, seconds=240, quick=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.usage_memory", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--conf", nargs="*", default=[], metavar="NAME=VALUE", help="settings of Spark beside ours"
    )
    parser.add_argument("--folder", type=Path, default=Path("var"))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="bench-") as folder:
        for measured in memory(Path(folder), chosen.rounds, dict(pair.split("=", 1) for pair in chosen.conf)):
            print(measured.line())


if __name__ == "__main__":
    main()
