"""The pipeline's configuration: the service's one JSON file, PENSTOCK_SERVER_* in the environment above it, read once
and frozen.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from daemon import settings
from daemon.data_set_store import BucketSettings, DataSetStore
from daemon.data_set_stores import open_store
from daemon.server_tls import ServerTls, check_database
from daemon.settings import Refused, Secret, Settings
from penstock.contract.errors import ConfigurationError

VARIABLE = "PENSTOCK_CONFIG"
ENVIRONMENT_PREFIX = "PENSTOCK_SERVER_"


class BrokersConfiguration(Settings, frozen=True, kw_only=True):
    """Where `__usage` is read."""

    bootstrap: Annotated[tuple[str, ...], Meta(min_length=1)]
    """host:port of client listeners."""
    ca_file: Path | None = None
    """Authorities of the certificates of client listeners, PEM; on a Spark cluster the same path on every worker."""


_SECRET = re.compile(r"(?i)secret|password|passphrase|token|credential|access[._-]?key|api[._-]?key")
OWN_CONF = frozenset(
    {
        *("spark.app.name", "spark.master", "spark.pyspark.python", "spark.executorEnv.TZ"),
        *("spark.sql.session.timeZone", "spark.sql.parquet.outputTimestampType", "spark.submit.pyFiles"),
    }
)
"""Spark's settings that the pipeline makes itself: with others its results would be wrong."""


class SparkConfiguration(Settings, frozen=True, kw_only=True):
    """Where it computes."""

    master: Annotated[str, Meta(min_length=1)] = "local[2]"
    """Spark's master: `local[2]`, `spark://host:port`, `k8s://https://host:port` and so on."""
    python: Path | None = None
    """Python of driver and workers, the same path on all of them; that of the runner unless given."""
    conf: Mapping[str, str] = {}
    """Further settings of Spark, name and text; none that the pipeline makes itself, and no secrets."""
    executor_wait_s: Annotated[float, Meta(gt=0)] = 60.0
    """A round on a cluster fails when it has had no executor for so long."""

    def __post_init__(self) -> None:
        for name in self.conf:
            if not name.startswith("spark."):
                raise Refused("conf", f"{name}: a name that begins with spark. required")
            if name in OWN_CONF:
                raise Refused("conf", f"{name}: the pipeline sets it itself; leave it out")
            if _SECRET.search(name):
                raise Refused(
                    "conf",
                    f"{name}: a secret would stand on a command line; "
                    "put it into spark-defaults.conf in the folder that SPARK_CONF_DIR names",
                )

    @property
    def on_cluster(self) -> bool:
        """Whether other processes than the driver's compute."""
        return not re.fullmatch(r"local(\[[^]]*\])?", self.master)


class Configuration(Settings, frozen=True, kw_only=True):
    """What the pipeline needs of the service's file. Times in seconds."""

    file: Path
    """The file itself; it stands in no file."""
    brokers: BrokersConfiguration
    """The brokers."""
    usage_key_file: Path
    """File with the key of the service account of the system tenant, which alone may read `__usage`."""
    datasets: Path
    """Folder of bronze and of the data sets; on a Spark cluster the same path on driver and workers."""
    data_set_bucket: BucketSettings | None = None
    """Bucket where data sets are published instead of the folder, as an object."""
    spark: SparkConfiguration = SparkConfiguration()
    """Spark."""
    pipeline_interval_s: Annotated[float, Meta(gt=0)] = 10.0
    """Between two rounds at least; after a long round up to half a minute. A wake-up ends the pause."""
    bronze_days: Annotated[int, Meta(ge=62, le=100_000)] | None = 400
    """Days that the pipeline keeps its copies of records of `__usage` after the day of their append; null keeps them
    permanently, as brokers do. Longer than invoices can be disputed: a month, its payment and 150 days of a payer's
    dispute are some 215 days, and a yearly audit asks for 13 months."""
    database_url: Secret = Secret("")
    """Where the lease is that lets one of several runners work: the service's PostgreSQL. Without one, or with SQLite,
    runners of one host take turns by a lock on a file of the data sets' folder."""
    database_tls: ServerTls | None = None
    """TLS to that PostgreSQL, which checks its certificate and host name; required off loopback."""
    runner_listen: Annotated[str, Meta(min_length=1)] = "127.0.0.1:0"
    """host:port of the runner's /healthz, /readyz and /metrics; port 0 chooses one."""
    state: Path | None = None
    """Folder for small files of this host's processes; the folder of this file unless given."""

    def __post_init__(self) -> None:
        settings.host_of("runner_listen", self.runner_listen)
        check_database(self.database_url, self.database_tls)

    @property
    def state_directory(self) -> Path:
        """Folder of the heartbeat."""
        return self.state or self.file.parent

    def open_store(self) -> DataSetStore:
        """Where published data sets rest. Raises `StoreUnavailable`."""
        return open_store(self.datasets, self.data_set_bucket)


OF_CONTROL_PLANE = frozenset(
    {
        *("brokers.internal", "brokers.pepper_file", "brokers.pepper_version"),
        *("brokers.pepper_folder", "brokers.pepper_days"),
        *(
            "celery_broker_url",
            "environment",
            "identity",
            "listen",
            "mail",
            "webhooks",
            "operator_token_file",
            "invoices",
            "payments",
            "price_book_file",
        ),
        *(
            "public_url",
            "reconcile_interval_s",
            "redis_tls",
            "secret_key",
            "sign_in_providers",
            "trusted_proxies",
            "prober_listen",
            "service_levels",
            "web_metrics_listen",
            "worker_listen",
        ),
    }
)
"""Settings in the same file that only the web application and the worker read."""


def read(file: Path, environment: Mapping[str, str] | None = None) -> Configuration:
    """The settings in `file`, those of the environment above them. Raises `ConfigurationError`."""
    return settings.read(
        file,
        Configuration,
        given={"file": str(file.absolute())},
        environment=environment,
        prefix=ENVIRONMENT_PREFIX,
        others=OF_CONTROL_PLANE,
    )


def from_environment() -> Configuration:
    """The configuration of this process. Raises `ConfigurationError`."""
    name = os.environ.get(VARIABLE)
    if not name:
        raise ConfigurationError(f"{VARIABLE}: missing; it names the configuration file")
    return read(Path(name), os.environ)
