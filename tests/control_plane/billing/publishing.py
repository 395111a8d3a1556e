"""Publishes data sets as docs/data-sets.md says, so that tests can say anything with them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from billing.data_sets import SCHEMAS

_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
    "decimal(38,0)": pa.decimal128(38, 0),
}


def publish(
    datasets: Path,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    run: str = "",
    manifest: Mapping[str, Any] | None = None,
    columns: Sequence[tuple[str, str]] | None = None,
) -> Path:
    """Write a run and make it the current one; the folder of the run. `manifest` replaces fields of the manifest."""
    columns = SCHEMAS[name] if columns is None else columns
    schema = pa.schema([(column, _ARROW[kind]) for column, kind in columns])
    content = repr([sorted(row.items()) for row in rows])
    run_id = (hashlib.sha256(f"{run}{content}".encode()).hexdigest())[:32]
    folder = datasets / name / f"run={run_id}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "part-0.parquet"
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), file)
    data = file.read_bytes()
    fields = {
        "dataset": name,
        "format": 1,
        "run_id": run_id,
        "code_version": "test",
        "inputs": {"__usage": {"0": 1}},
        "schema": [{"name": column, "type": kind} for column, kind in columns],
        "rows": len(rows),
        "digest": hashlib.sha256(content.encode()).hexdigest(),
        "files": [{"name": file.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}],
        "conservation": [{"name": "sums", "holds": True, "left": "1", "right": "1"}],
        "made_at": "2026-11-20T00:00:00Z",
    }
    fields.update(manifest or {})
    (folder / "manifest.json").write_text(json.dumps(fields), encoding="utf-8")
    (datasets / name / "current.json").write_text(json.dumps({"run_id": run_id}), encoding="utf-8")
    return folder
