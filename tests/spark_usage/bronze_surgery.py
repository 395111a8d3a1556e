"""Takes a record out of bronze on disk, as if it had never been read: for tests that a loss is named."""

import json
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_usage.bronze import BronzeFolders


def drop_record(datasets: Path, partition: int, offset: int) -> bytes:
    """Remove the record at this place of `__usage`; its bytes. Raises `LookupError` when it is not there."""
    data = BronzeFolders(datasets).data
    for file in sorted(data.glob("*.parquet")):
        rows = pq.read_table(file)
        wanted = pc.and_(pc.equal(rows["src_partition"], partition), pc.equal(rows["src_offset"], offset))
        found = rows.filter(wanted)
        if found.num_rows:
            pq.write_table(rows.filter(pc.invert(wanted)), file)
            _forget_checksum(file)
            _tell_size(data / "_spark_metadata", file)
            record = found["record"][0].as_py()
            assert isinstance(record, bytes)
            return record
    raise LookupError(f"__usage-{partition}@{offset} is not in bronze")


def _tell_size(log: Path, file: Path) -> None:
    """The sink's log names each file with its size, which readers believe."""
    for entry in log.iterdir():
        if not entry.name.split(".")[0].isdigit():
            continue
        version, *lines = entry.read_text().splitlines()
        actions = [json.loads(line) for line in lines]
        for action in actions:
            if action["path"].endswith(f"/{file.name}"):
                action["size"] = file.stat().st_size
        entry.write_text("\n".join([version, *(json.dumps(action) for action in actions)]))
        _forget_checksum(entry)


def _forget_checksum(file: Path) -> None:
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
