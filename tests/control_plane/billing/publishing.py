"""Publishes data sets as docs/data-sets.md says, so that tests can say anything with them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from billing.data_sets import SCHEMAS
from daemon.data_set_store import FolderStore

_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
    "decimal(38,0)": pa.decimal128(38, 0),
}


def publish_windows(datasets: Path, name: str, windows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """As `publish`, with a file a window and as the pipeline does it: those that an earlier run has rest there."""
    rows = [row for window in windows.values() for row in window]
    earlier = _files_by_digest(datasets / name)
    folder = publish(datasets, name, rows, manifest={"format": 2, "windows": [], "files": []})
    told = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    whole = folder / "part-0.parquet"
    for window, of_window in sorted(windows.items()):
        digest = hashlib.sha256(repr([sorted(row.items()) for row in of_window]).encode()).hexdigest()
        told["windows"].append({"window": window, "rows": len(of_window), "digest": digest})
        entry = earlier.get((window, digest))
        if entry is None:
            file = folder / f"{window}-part.parquet"
            content = [dict(row) for row in of_window]
            pq.write_table(pa.Table.from_pylist(content, schema=pq.read_schema(whole)), file)
            data = file.read_bytes()
            entry = {
                "window": window,
                "name": file.name,
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
        told["files"].append(entry)
    whole.unlink()
    (folder / "manifest.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


def _files_by_digest(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(window, its digest) -> the entry of its file, of all runs."""
    found = {}
    for manifest in folder.glob("run=*/manifest.json"):
        told = json.loads(manifest.read_text(encoding="utf-8"))
        digests = {one["window"]: one["digest"] for one in told.get("windows", ())}
        for file in told["files"]:
            if "window" in file:
                found[file["window"], digests[file["window"]]] = {"run": told["run_id"], **file}
    return found


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


class Bucket:
    """The data sets of a folder as those of a bucket: it has files, and no folder."""

    def __init__(self, datasets: Path) -> None:
        self._store = FolderStore(datasets)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
