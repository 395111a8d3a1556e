"""A round from the brokers on: what is new in `__usage` into bronze, then bronze into the data sets."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from daemon.data_set_store import DataSetStore
from penstock import Client, NotFound
from penstock.contract.errors import ConfigurationError
from spark_usage import bronze, cluster, compaction, datasets
from spark_usage.compaction import Compacted
from spark_usage.configuration import Configuration
from spark_usage.expiry import Expired, expire
from spark_usage.lease import RunnerLease
from spark_usage.manifest import Catalog, CheckFailed
from spark_usage.rest import at_rest
from spark_usage.rounds import Round, fold
from spark_usage.session import start_session
from spark_usage.sink_log import Mark, newest_entry, read_log
from spark_usage.source import Offsets, end_offsets
from spark_usage.states import Unrepeatable, find_ground
from spark_usage.stream_repair import Irreparable, repair
from spark_usage.windowed import Progress

T = TypeVar("T")
log = logging.getLogger(__name__)
_ASK_S = 15.0
_WHOLE_LOOK_S = 60.0
"""Between looks at everything that was published and read, while the ends of `__usage` stay."""
_TIDY_S = 3_600
"""Between two looks at bronze that found nothing to tidy up, while no batch comes."""
SPARK_FOLDER = ".spark"


class NotYet(Exception):
    """The key or the topic that the pipeline reads does not exist yet. The setup of the service creates it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidied:
    """What a turn did, and what bronze has after it."""

    compacted: Compacted
    expired: Expired
    files: int
    oldest: str
    """The oldest day that has records; empty without records."""


class Pipeline:
    """One Spark session and what it reads and writes. Close it at the end."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._spark: SparkSession | None = None
        self._client: Client | None = None
        self._store: DataSetStore | None = None
        self._cancelled = False
        self._number = 0
        self._rested: Round | None = None
        """What the last look at everything found; None when there was something to do."""
        self._looked = 0.0
        self._tidied: tuple[object, ...] = ()
        """What was there when there was nothing to tidy up."""

    @property
    def datasets(self) -> Path:
        return self._configuration.datasets

    def take_over(self, lease: RunnerLease) -> None:
        """Write as the runner that holds this lease from now on; what earlier ones still publish counts no more. Raises
        `StoreUnavailable`, `Unavailable`.

        A lease from a backup has a number that does not count beside what was published since.
        """
        before = Catalog(self.datasets, self.store).greatest_number()
        if before >= lease.number:
            log.warning(
                "the lease has a number that is too low", extra={"number": lease.number, "seen": before}
            )
            lease.exceed(before)
        self._number = lease.number
        Catalog(self.datasets, self.store, self._number).take_over()

    @property
    def store(self) -> DataSetStore:
        """Where data sets are published. Raises `StoreUnavailable`."""
        if self._store is None:
            self._store = self._configuration.open_store()
        return self._store

    @property
    def started(self) -> bool:
        """Whether there is a session."""
        return self._spark is not None

    def start(self) -> SparkSession:
        """The session; it takes seconds to start. Raises `ClusterLost`."""
        if self._spark is None:
            self.datasets.mkdir(parents=True, exist_ok=True)
            self._spark = start_session(self._configuration.spark, self.datasets / SPARK_FOLDER)
        return self._spark

    def round(self, *, again: bool = False, progress: Progress = lambda line: None) -> Round:
        """Read what is new and fold. Raises `NotYet`, `CheckFailed`, `ClusterLost`, `StoreUnavailable`, and what the
        SDK and Spark raise.
        """
        wanted = self.reported()
        if not again and (found := self._at_rest(wanted)) is not None:
            return found
        spark = self.start()
        with cluster.with_executors(spark, self._configuration.spark.executor_wait_s):
            self._repair(wanted)
            if wanted != bronze.committed_offsets(self.datasets):
                began = time.monotonic()
                rows = bronze.ingest(spark, self.datasets, self._source_options())
                progress(f"{'bronze':15} {rows:8} new records{time.monotonic() - began:17.1f} s")
            return fold(
                spark,
                self.datasets,
                again=again,
                progress=progress,
                store=self.store,
                number=self._number,
            )

    def _repair(self, ends: Offsets) -> None:
        """What a full disk left of bronze's stream. Raises as `stream_repair.repair` and `find_ground`."""

        def ground() -> Mapping[str, int]:
            expired = read_log(bronze.BronzeFolders(self.datasets).data).expired
            pinned = find_ground(Catalog(self.datasets, self.store, self._number), expired)
            return {} if pinned is None else pinned.offsets

        repair(self.datasets, ends, ground)

    def tidy(self, allowed: Callable[[], bool]) -> Tidied | None:
        """A turn of what keeps bronze small, after a round: days that are over are compacted, and when none is left,
        days before the kept ones expire where Spark runs. None: nothing to do since the last look. `allowed` is asked
        before anything changes. Raises as `compaction.compact` and `expiry.expire`.
        """
        data = bronze.BronzeFolders(self.datasets).data
        seen = (newest_entry(data), compaction.today(), int(time.time() // _TIDY_S), self.started)
        if seen == self._tidied:
            return None
        catalog = Catalog(self.datasets, self.store, self._number)
        last = catalog.current(datasets.BOOT.name)
        if last is None or not last["inputs"].get("bronze") or not last["inputs"]["read_until"]:
            return None
        compacted = compaction.compact(
            data, Mark(**last["inputs"]["bronze"]), compaction.today(), allowed=allowed
        )
        expired = Expired()
        days = self._configuration.bronze_days
        if days is not None and self._spark is not None and not compacted.waiting:
            # By two clocks, the brokers' and this one's: one of them alone expires nothing when it is ahead.
            read_until = date.fromisoformat(last["inputs"]["read_until"])
            first_kept = min(compaction.today(), read_until) - timedelta(days=days)
            expired = expire(
                self._spark, self.datasets, self.store, self._number, first_kept, allowed=allowed
            )
        if not (compacted.merged or expired.files):
            self._tidied = seen
        log = read_log(data)
        oldest = min((entry.day for entry in (*log.settled, *log.fresh)), default=None)
        return Tidied(
            compacted=compacted,
            expired=expired,
            files=len(log.entries),
            oldest="" if oldest is None else oldest.isoformat(),
        )

    def look_or_again(self) -> Round | None:
        """The round when there is nothing to do, without Spark; None when there is. Raises `NotYet`,
        `StoreUnavailable`, and what the SDK raises twice.
        """
        return self._or_again(lambda: self._at_rest(self.reported()))

    def round_or_again(self, *, again: bool = False, progress: Progress = lambda line: None) -> Round:
        """A round, and a second one when the first failed for a reason that may be over: a broker that failed, a Spark
        worker that was late. Raises as `round`.
        """
        return self._or_again(lambda: self.round(again=again, progress=progress))

    def _at_rest(self, ends: Offsets) -> Round | None:
        """With old bronze a look at all of it takes most of a second, so looks in between ask for the ends alone."""
        now = time.monotonic()
        if self._rested is not None and self._rested.offsets == ends and now - self._looked < _WHOLE_LOOK_S:
            return self._rested
        catalog = Catalog(self.datasets, self.store, self._number)
        self._rested, self._looked = at_rest(self.datasets, catalog, ends), now
        return self._rested

    def _or_again(self, do: Callable[[], T]) -> T:
        try:
            return do()
        except (NotYet, CheckFailed, Irreparable, Unrepeatable, ConfigurationError):
            raise
        except Exception as error:
            if self._cancelled:
                raise
            log.warning("the round failed and is tried once more: %s", error, exc_info=True)
            self.forget_connections()
            Catalog(self.datasets, self.store).forget_fetched()
            return do()

    def reported(self) -> Offsets:
        """The ends of `__usage`, by the brokers. Raises `NotYet`."""
        key_file = self._configuration.usage_key_file
        if not key_file.exists():
            raise NotYet(f"{key_file}: the service account's key is not there yet")
        if self._client is None:
            key = key_file.read_text(encoding="utf-8").strip()
            brokers = self._configuration.brokers
            ca_file = None if brokers.ca_file is None else str(brokers.ca_file)
            self._client = Client(bootstrap=brokers.bootstrap, api_key=key, ca_file=ca_file)
        try:
            return end_offsets(self._client, bronze.TOPIC, _ASK_S)
        except NotFound as error:
            raise NotYet(str(error)) from error

    def forget_connections(self) -> None:
        """Connect again: to the brokers with the present key, and to a Spark cluster as a new application. A master
        that was started again does not know the one before, and gives it no executor.
        """
        if self._client is not None:
            self._client.close(0)
            self._client = None
        if self._configuration.spark.on_cluster:
            self._stop_spark()

    def cancel(self) -> None:
        """End what Spark is doing; the round under way fails, and is not tried again."""
        self._cancelled = True
        if self._spark is not None:
            self._spark.sparkContext.cancelAllJobs()

    def close(self) -> None:
        self.forget_connections()
        self._stop_spark()

    def _stop_spark(self) -> None:
        if self._spark is not None:
            self._spark.stop()
            self._spark = None

    def _source_options(self) -> dict[str, str]:
        """Paths of secrets, never secrets: Spark shows options in plans and in its event log."""
        options = {
            "bootstrap": ",".join(self._configuration.brokers.bootstrap),
            "api_key_file": str(self._configuration.usage_key_file),
        }
        if self._configuration.brokers.ca_file is not None:
            options["ca_file"] = str(self._configuration.brokers.ca_file)
        return options
