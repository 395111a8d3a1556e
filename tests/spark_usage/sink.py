"""Bronze on disk as Spark's file sink leaves it, without Spark."""

import json
import os
import time
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_usage.sink_log import FOLDER, entry_of, read_log

DAY_MS = 86_400_000


def day_of(number: int) -> date:
    """The day that begins so many days after 1970."""
    return date.fromordinal(date(1970, 1, 1).toordinal() + number)


class Sink:
    """A file a batch, an entry of the log for each, and one with all before it for each tenth."""

    def __init__(self, data: Path, checksums: bool = False) -> None:
        """`checksums`: files beside the others, as Spark has them; with these Spark cannot read it."""
        self.data = data
        self._checksums = checksums
        (data / FOLDER).mkdir(parents=True)
        self._batches = 0

    def write(self, rows: pa.Table, day: int) -> None:
        """A file that was written on this day."""
        file = self.data / f"part-00000-{self._batches:08}-c000.snappy.parquet"
        pq.write_table(rows, file, compression="snappy")
        line = json.loads(entry_of(file).line) | {"modificationTime": day * DAY_MS + 1}
        lines = [json.dumps(line).encode()]
        name = str(self._batches)
        if self._batches % 10 == 9:
            # As Spark: what the last such entry names, and the entries after it.
            lines = [entry.line for entry in read_log(self.data).entries] + lines
            name += ".compact"
        (self.data / FOLDER / name).write_bytes(b"\n".join([b"v1", *lines]))
        if self._checksums:
            (self.data / f".{file.name}.crc").write_bytes(b"crc")
            (self.data / FOLDER / f".{name}.crc").write_bytes(b"crc")
        self._batches += 1


def age_unnamed(data: Path) -> None:
    """As if more than an hour had gone by since the log named these files."""
    named = {entry.name for entry in read_log(data).entries}
    for file in data.glob("*.parquet"):
        if file.name not in named:
            os.utime(file, (time.time() - 4_000, time.time() - 4_000))
