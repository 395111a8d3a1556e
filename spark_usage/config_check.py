"""What `penstock config check` looks at in the configuration of the usage pipeline."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from daemon.config_check import (
    Finding,
    bindable,
    is_absent,
    ok,
    private,
    reachable,
    read_values,
    usable_folder,
    wrong,
)
from daemon.data_set_store import StoreUnavailable
from spark_usage import configuration, datasets
from spark_usage.configuration import Configuration


class RunnerKind:
    """See `daemon.config_check.Kind`."""

    name = "runner"

    def recognizes(self, values: Mapping[str, Any]) -> bool:
        return "datasets" in values

    def check(self, file: Path, environment: Mapping[str, str], *, connect: bool) -> Iterator[Finding]:
        config, found = read_values(
            file,
            Configuration,
            environment,
            prefix=configuration.ENVIRONMENT_PREFIX,
            others=configuration.OF_CONTROL_PLANE,
            given={"file": str(file.absolute())},
        )
        yield from found
        if config is None:
            return
        yield ok("the file", "every value is possible")
        if is_absent(config.usage_key_file):
            yield ok("usage_key_file", f"{config.usage_key_file} is not there yet; the runner waits for it")
        else:
            yield private("usage_key_file", config.usage_key_file)
        yield usable_folder("datasets", config.datasets)
        yield usable_folder("state", config.state_directory)
        yield _java(environment)
        yield bindable("runner_listen", config.runner_listen)
        if connect:
            for address in config.brokers.bootstrap:
                yield reachable("brokers.bootstrap", address)
            yield _ask_store(config)
            if urlsplit(config.database_url).scheme == "postgresql":
                yield _ask_database(config)


RUNNER = RunnerKind()


def _java(environment: Mapping[str, str]) -> Finding:
    home = environment.get("JAVA_HOME")
    if home and not os.access(Path(home) / "bin/java", os.X_OK):
        return wrong("JAVA_HOME", f"{home} has no bin/java; name the home of a Java 17")
    if not home and shutil.which("java", path=environment.get("PATH", "")) is None:
        return wrong("JAVA_HOME", "Spark finds no Java; install Java 17, and give its home")
    return ok("JAVA_HOME", "there is a Java for Spark")


def _ask_store(config: Configuration) -> Finding:
    try:
        config.open_store().current(datasets.USAGE_DAY.name)
    except StoreUnavailable as error:
        return wrong("datasets", f"data sets cannot be read: {error}; correct datasets or data_set_bucket")
    return ok("datasets", "the store of data sets answers")


def _ask_database(config: Configuration) -> Finding:
    from spark_usage.lease import DatabaseLease, Unavailable

    try:
        DatabaseLease(config.database_url, config.database_tls).look()
    except Unavailable as error:
        return wrong(
            "database_url",
            f"the lease cannot be had there: {error}; start the database, or correct the address",
        )
    return ok("database_url", "the database answers, and has the table of leases")
