"""Reads published data sets (docs/data-sets.md): checks the manifest, and the files against the manifest.

It does not depend on who wrote them. A data set with one wrong file, row or check is refused as a whole.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from daemon.data_set_store import DataSetStore, StoreUnavailable

FORMAT = 1
_POINTER = re.compile(r"current(?:-(\d{1,18}))?\.json")
_RUN = re.compile(r"[0-9a-f]{32}\Z")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,199}\.parquet\Z")
ROWS_MAX = 20_000_000
"""A run is imported in one transaction, and its rows are in memory at once."""

QUANTITY = "decimal(38,0)"
SCHEMAS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "usage_day": (
        ("tenant", "string"),
        ("topic_id", "string"),
        ("topic", "string"),
        ("day", "date"),
        ("meter", "string"),
        ("quantity", QUANTITY),
        ("partitions", "int"),
    ),
    "cut_usage": (
        ("cut_id", "string"),
        ("tenant", "string"),
        ("topic_id", "string"),
        ("topic", "string"),
        ("partition", "int"),
        ("log_generation", "long"),
        ("day", "date"),
        ("meter", "string"),
        ("quantity", QUANTITY),
        ("first_offset", "long"),
        ("end_offset", "long"),
    ),
    "cut_coverage": (
        ("cut_id", "string"),
        ("tenant", "string"),
        ("topic_id", "string"),
        ("topic", "string"),
        ("partition", "int"),
        ("log_generation", "long"),
        ("start_offset", "long"),
        ("end_offset", "long"),
        ("status", "string"),
        ("reason", "string"),
        ("missing", "string"),
    ),
    "seal": (
        ("tenant", "string"),
        ("topic_id", "string"),
        ("partition", "int"),
        ("log_generation", "long"),
        ("base_offset", "long"),
        ("end_offset", "long"),
        ("seal", "binary"),
        ("src_partition", "int"),
        ("src_offset", "long"),
    ),
    "coverage_issue": (
        ("src_partition", "int"),
        ("first_missing", "long"),
        ("missing", "long"),
    ),
    "sla_5m": (
        ("tenant", "string"),
        ("operation", "string"),
        ("window", "timestamp"),
        ("valid", "long"),
        ("bad", "long"),
    ),
    "sla_minute": (
        ("tenant", "string"),
        ("operation", "string"),
        ("minute", "long"),
        ("valid", "long"),
        ("bad", "long"),
        ("succeeded_seconds", "long"),
        ("failed_seconds", "long"),
    ),
    "sla_slow_5m": (
        ("tenant", "string"),
        ("operation", "string"),
        ("window", "timestamp"),
        ("over_ms", "int"),
        ("slow", "long"),
    ),
    "latency_day": (
        ("tenant", "string"),
        ("operation", "string"),
        ("day", "date"),
        ("bucket", "int"),
        ("requests", "long"),
    ),
    "cost_hour": (
        ("tenant", "string"),
        ("asset", "string"),
        ("hour", "timestamp"),
        ("method", "string"),
        ("bytes", QUANTITY),
        ("cost_micro", QUANTITY),
    ),
}
"""The columns of each data set in order, with the type names of manifests."""


_SAME_TYPES = {"bigint": "long", "integer": "int", "varchar": "string"}
"""Other type names that manifests may have."""


class DataSetRefused(Exception):
    """The data set cannot be imported; the message names it, the fact and what is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One run of one data set, checked. Rows come as dictionaries of Python values."""

    name: str
    run_id: str
    digest: str
    code_version: str
    inputs: Mapping[str, Any]
    rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest whose form and conservation checks are right. Its files are not read yet."""

    name: str
    run_id: str
    digest: str
    code_version: str
    inputs: Mapping[str, Any]
    row_count: int
    files: tuple[tuple[str, int, str], ...]
    """(name, bytes, sha256)."""


def current_manifest(store: DataSetStore, name: str) -> Manifest | None:
    """The manifest of the run that counts now; None when none was published yet. Raises `DataSetRefused`."""
    try:
        content = store.current(name)
        if content is None:
            return None
        run_id = json.loads(content).get("run_id")
    except (StoreUnavailable, ValueError, AttributeError) as error:
        raise DataSetRefused(f"{name}: current.json cannot be read: {error}") from error
    if not isinstance(run_id, str) or not _RUN.match(run_id):
        raise DataSetRefused(f"{name}: current.json names the run {run_id!r}, 32 hex digits required")
    return _manifest(store, name, run_id)


def read_data_set(store: DataSetStore, manifest: Manifest) -> DataSet:
    """The rows of a run, after every file was compared with its manifest. Raises `DataSetRefused`."""
    wanted = SCHEMAS[manifest.name]
    named = f"{manifest.name} run {manifest.run_id}"
    rows: list[dict[str, Any]] = []
    for file_name, size, sha256 in manifest.files:
        try:
            content = store.file(manifest.name, manifest.run_id, file_name)
        except StoreUnavailable as error:
            raise DataSetRefused(f"{named}: file {file_name} cannot be read: {error}") from error
        if content is None:
            raise DataSetRefused(f"{named}: file {file_name}: No such file")
        if len(content) != size or hashlib.sha256(content).hexdigest() != sha256:
            raise DataSetRefused(
                f"{named}: file {file_name} is not the one of its manifest (bytes or sha256 differ)"
            )
        try:
            # The path's `run=…` is no column: the file alone is read.
            table = _in_microseconds(pq.ParquetFile(pa.BufferReader(content)).read())
        except (pa.ArrowException, OSError) as error:
            raise DataSetRefused(f"{named}: file {file_name}: no Parquet: {error}") from error
        columns = tuple((field.name, _type_name(field.type)) for field in table.schema)
        if columns != wanted:
            raise DataSetRefused(
                f"{named}: file {file_name} has the columns {_shown(columns)}; {_shown(wanted)} required"
            )
        rows.extend(_plain(row) for row in table.to_pylist())
        if len(rows) > ROWS_MAX:
            raise DataSetRefused(f"{named}: over {ROWS_MAX} rows")
    if len(rows) != manifest.row_count:
        raise DataSetRefused(f"{named}: {len(rows)} rows, its manifest says {manifest.row_count}")
    return DataSet(
        name=manifest.name,
        run_id=manifest.run_id,
        digest=manifest.digest,
        code_version=manifest.code_version,
        inputs=manifest.inputs,
        rows=rows,
    )


def _manifest(store: DataSetStore, name: str, run_id: str) -> Manifest:
    named = f"{name} run {run_id}"
    try:
        content = store.manifest(name, run_id)
        if content is None:
            raise DataSetRefused(f"{named}: has no manifest")
        fields = json.loads(content)
    except (StoreUnavailable, ValueError) as error:
        raise DataSetRefused(f"{named}: its manifest cannot be read: {error}") from error
    if not isinstance(fields, dict):
        raise DataSetRefused(f"{named}: its manifest is no object")
    for field, required in (("dataset", name), ("format", FORMAT), ("run_id", run_id)):
        if fields.get(field) != required:
            raise DataSetRefused(
                f"{named}: its manifest says {field} {fields.get(field)!r}, {required!r} required"
            )
    try:
        schema = tuple(
            (str(column["name"]), _SAME_TYPES.get(column["type"], str(column["type"])))
            for column in fields["schema"]
        )
        checks = list(fields["conservation"])
        failed = [check for check in checks if check["holds"] is not True]
        files = tuple(
            (str(file["name"]), int(file["bytes"]), str(file["sha256"])) for file in fields["files"]
        )
        manifest = Manifest(
            name=name,
            run_id=run_id,
            digest=str(fields["digest"]),
            code_version=str(fields["code_version"]),
            inputs=dict(fields["inputs"]),
            row_count=int(fields["rows"]),
            files=files,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataSetRefused(
            f"{named}: its manifest is incomplete: {type(error).__name__} {error}"
        ) from error
    if schema != SCHEMAS[name]:
        raise DataSetRefused(f"{named}: columns {_shown(schema)}; {_shown(SCHEMAS[name])} required")
    if failed:
        raise DataSetRefused(f"{named}: does not conserve: {json.dumps(failed[0], default=str)[:300]}")
    for file_name, _, _ in files:
        if not _FILE.match(file_name):
            raise DataSetRefused(f"{named}: {file_name!r} is no name of one of its files")
    return manifest


def _in_microseconds(table: pa.Table) -> pa.Table:
    """Times as Python's datetime holds them."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit != "us":
            exact = field.with_type(pa.timestamp("us", field.type.tz))
            table = table.set_column(index, exact, table.column(index).cast(exact.type))
    return table


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Whole numbers for decimals, UTC for times that name no zone (Spark writes UTC)."""
    for name, value in row.items():
        if isinstance(value, Decimal):
            row[name] = int(value)
        elif isinstance(value, datetime) and value.tzinfo is None:
            row[name] = value.replace(tzinfo=UTC)
    return row


def _type_name(kind: pa.DataType) -> str:
    """The manifest's name of an Arrow type; anything else as Arrow calls it."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "binary"
    if pa.types.is_int32(kind):
        return "int"
    if pa.types.is_int64(kind):
        return "long"
    if pa.types.is_date32(kind):
        return "date"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return str(kind)


def _shown(schema: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in schema)
