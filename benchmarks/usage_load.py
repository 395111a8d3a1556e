"""A made-up `__usage`: six partitions that are always written to, metered as brokers do, and bronze of it on disk."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_plane.contract import usage_pb2 as pb
from data_plane.metering.readings import MeterPeriods
from spark_usage import bronze

BROKERS = 3
PARTITIONS = 6
"""Each broker leads two."""
PRINCIPALS = 2
"""That write to each partition in each minute."""
DAY_MS = 86_400_000
FILE_MS = 300_000
"""A file of bronze holds so much time: a service whose rounds take five minutes, or whose driver is asked so often."""
START_MS = 20_000 * DAY_MS
_MINUTE_MS = 60_000
EACH_MS = MeterPeriods().changed_ms
_MESSAGES = 50
"""Of a principal between two readings."""
_BYTES = 50_000


class _Odometer:
    """One partition, as its leader counts it."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._topic_id = f"bench-{number}".encode().ljust(16, b"-")
        self._at = -1
        self._messages = 0
        self._size = 0
        self._rows: dict[int, tuple[int, int]] = {}

    def write(self, now_ms: int) -> None:
        if now_ms // _MINUTE_MS != self._at // _MINUTE_MS:
            self._rows = {}
        self._at = now_ms
        for principal in range(1, PRINCIPALS + 1):
            messages, size = self._rows.get(principal, (0, 0))
            self._rows[principal] = (messages + _MESSAGES, size + _BYTES)
            self._messages, self._size = self._messages + _MESSAGES, self._size + _BYTES

    def read(self, kind: int) -> pb.Reading:
        minute = self._at // _MINUTE_MS
        return pb.Reading(
            tenant="tn_bench",
            topic_id=self._topic_id,
            topic=f"bench-{self._number}",
            partition=0,
            log_generation=1,
            end_offset=self._messages,
            accepted_ms=self._at,
            totals=[self._messages, self._size, 0, 0, 0, 0],
            minute_rows=[
                pb.PrincipalRow(minute=minute, principal=principal, messages=messages, bytes=size)
                for principal, (messages, size) in self._rows.items()
            ],
            kind=pb.ReadingKind.Name(kind),
        )


class Load:
    """`__usage` from its first record on: each broker writes one record each ten seconds, to a partition of its own."""

    def __init__(
        self, brokers: int = BROKERS, partitions: int = PARTITIONS, start_ms: int = START_MS
    ) -> None:
        self._led = [
            [_Odometer(number) for number in range(broker, partitions, brokers)] for broker in range(brokers)
        ]
        self._start_ms = start_ms
        self._now_ms = start_ms
        self._offset = 0
        self.readings = 0
        self.each_ms = EACH_MS
        """From one record of a broker to its next."""

    @property
    def offsets(self) -> dict[str, int]:
        """Partition of `__usage` -> next offset."""
        return {str(broker): self._offset for broker in range(len(self._led))}

    def rows(self, until_ms: int) -> Iterator[dict[str, object]]:
        """Rows of bronze of the time up to `until_ms` since the load's start."""
        while self._now_ms < self._start_ms + until_ms:
            self._now_ms += self.each_ms
            for broker, odometers in enumerate(self._led):
                readings = [reading for odometer in odometers for reading in self._read(odometer)]
                self.readings += len(readings)
                record = pb.UsageRecord(
                    broker_id=broker + 1,
                    boot_id=f"boot-{broker + 1}",
                    sequence=self._offset + 1,
                    made_ms=self._now_ms,
                    readings=readings,
                )
                yield {
                    "src_partition": broker,
                    "src_offset": self._offset,
                    "ingest_date": self._now_ms // DAY_MS,
                    "broker_id": record.broker_id,
                    "boot_id": record.boot_id,
                    "sequence": record.sequence,
                    "made_ms": record.made_ms,
                    "record": record.SerializeToString(),
                }
            self._offset += 1

    def _read(self, odometer: _Odometer) -> Iterator[pb.Reading]:
        """Writes up to half of the time since the last reading; where a minute ended in them, its end is read too."""
        written_ms = self._now_ms - self.each_ms // 2
        minute_ms = written_ms // _MINUTE_MS * _MINUTE_MS
        if written_ms - minute_ms < self.each_ms and minute_ms > self._start_ms:
            odometer.write(minute_ms - 1)
            yield odometer.read(pb.MINUTE_END)
        odometer.write(written_ms)
        yield odometer.read(pb.PERIODIC)


class Bronze:
    """Bronze in `datasets` as the stream leaves it, for as many days as are asked for."""

    def __init__(self, datasets: Path, file_ms: int = FILE_MS) -> None:
        self.load = Load()
        self._data = bronze.BronzeFolders(datasets).data
        self.file_ms = file_ms
        self._ended_ms = 0
        self._files: list[Path] = []
        (self._data / "_spark_metadata").mkdir(parents=True)

    @property
    def files(self) -> int:
        return len(self._files)

    def grow(self, days: float) -> None:
        """Until it holds so many days."""
        while self._ended_ms < days * DAY_MS:
            self._ended_ms += self.file_ms
            file = self._data / f"part-{len(self._files):06}.parquet"
            table = pa.Table.from_pylist(list(self.load.rows(self._ended_ms)), schema=bronze.SCHEMA)
            pq.write_table(table, file, compression="zstd")
            self._files.append(file)
        tell_files(self._data, self._files)

    def age(self, days: int) -> None:
        """As many files as a service of these days has, further names of those that are there: a look reads none."""
        made = list(self._files)
        while len(self._files) < days * DAY_MS // self.file_ms:
            file = self._data / f"part-{len(self._files):06}.parquet"
            os.link(made[len(self._files) % len(made)], file)
            self._files.append(file)
        tell_files(self._data, self._files)

    def commit(self) -> None:
        """What is there, as the stream's checkpoint says it."""
        checkpoint = bronze.BronzeFolders(self._data.parent).checkpoint
        for part, content in (
            ("offsets", ["v1", "{}", json.dumps(self.load.offsets)]),
            ("commits", ["v1", "{}"]),
        ):
            (checkpoint / part).mkdir(parents=True, exist_ok=True)
            (checkpoint / part / "0").write_text("\n".join(content))


def tell_files(data: Path, files: Sequence[Path]) -> None:
    """Spark's own log of the folder, as one entry."""
    entries = [
        json.dumps(
            {
                "path": file.absolute().as_uri(),
                "size": file.stat().st_size,
                "isDir": False,
                "modificationTime": int(time.time() * 1000),
                "blockReplication": 1,
                "blockSize": 33_554_432,
                "action": "add",
            }
        )
        for file in files
    ]
    (data / "_spark_metadata" / "0").write_text("\n".join(["v1", *entries]))
