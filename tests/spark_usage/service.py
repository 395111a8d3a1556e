"""Three real brokers with the internal topics, the key of the system tenant, and a configuration for the pipeline."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import Client
from penstock.contract.ids import SYSTEM_TENANT
from spark_usage import configuration
from tests.integration.brokers import Brokers, Tenant, brokers
from tests.integration.operations.certificates import Certificate
from tests.waiting import PATIENCE_S

DEFAULT_SPARK = {"master": "local[2]"}
PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    brokers: Brokers
    api_key: str
    config_file: Path

    @property
    def configuration(self) -> configuration.Configuration:
        return configuration.read(self.config_file)

    @property
    def source_options(self) -> dict[str, str]:
        return {
            "bootstrap": ",".join(self.brokers.bootstrap),
            "api_key_file": str(self.configuration.usage_key_file),
        }

    def client(self) -> Client:
        """With the key of the system tenant."""
        return self.brokers.client(Tenant(name=SYSTEM_TENANT, api_key=self.api_key))

    def write(self, values: Sequence[bytes]) -> None:
        """Put records into `__usage`, in turn over its partitions."""
        with self.client() as client, client.producer() as producer:
            deliveries = [
                producer.send("__usage", value, partition=number % 3) for number, value in enumerate(values)
            ]
            for delivery in deliveries:
                delivery.result(timeout=PATIENCE_S)

    def runner(self) -> "subprocess.Popen[str]":
        """The runner, as `process`."""
        return self.process("penstock.cli", "server", "runner", "--config", str(self.config_file))

    def process(self, *arguments: str) -> "subprocess.Popen[str]":
        """A process of the pipeline, which leads a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=PROJECT,
            env={**os.environ, configuration.VARIABLE: str(self.config_file)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


@contextmanager
def service(
    folder: Path,
    *,
    metering: bool = False,
    certificate: Certificate | None = None,
    spark: Mapping[str, Any] = DEFAULT_SPARK,
) -> Iterator[Service]:
    """`metering`: the brokers write usage of their own into `__usage`. With a certificate clients need TLS."""
    settings = {"metering": metering, **(certificate.settings if certificate else {})}
    with brokers(folder / "brokers", settings=settings, internal_topics=True) as cluster:
        key = cluster.another_key(SYSTEM_TENANT).api_key
        key_file = folder / "usage.key"
        key_file.write_text(key + "\n")
        config_file = folder / "penstock.json"
        config_file.write_text(
            json.dumps(
                {
                    "brokers": {
                        "bootstrap": cluster.bootstrap,
                        "ca_file": str(certificate.certificate) if certificate else None,
                    },
                    "datasets": str(folder / "datasets"),
                    "usage_key_file": str(key_file),
                    "spark": dict(spark),
                    "pipeline_interval_s": 1,
                }
            )
        )
        yield Service(brokers=cluster, api_key=key, config_file=config_file)
