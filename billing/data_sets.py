"""Reads published data sets (docs/data-sets.md): checks the manifest, and the files against the manifest.

It does not depend on who wrote them. A data set with one wrong file, row or check is refused as a whole.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from daemon.data_set_store import DataSetStore, StoreUnavailable

FORMATS = (1, 2)
"""Of manifests. In the first one a data set is one window, and all files are of the run itself."""
ALL_ROWS = ""
"""The window of a manifest without windows."""
CUT_WINDOWS = 64
_POINTER = re.compile(r"current(?:-(\d{1,18}))?\.json")
_RUN = re.compile(r"[0-9a-f]{32}\Z")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,199}\.parquet\Z")
ROWS_MAX = 20_000_000
"""A run is imported in one transaction, and its rows are in memory at once."""

QUANTITY = "decimal(38,0)"
SCHEMAS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "usage_hour": (
        ("tenant", "string"),
        ("topic_id", "string"),
        ("topic", "string"),
        ("partition", "int"),
        ("log_generation", "long"),
        ("hour", "timestamp"),
        ("principal", "long"),
        ("group", "string"),
        ("meter", "string"),
        ("quantity", QUANTITY),
    ),
    "usage_day": (
        ("tenant", "string"),
        ("topic_id", "string"),
        ("topic", "string"),
        ("day", "date"),
        ("meter", "string"),
        ("quantity", QUANTITY),
        ("partitions", "int"),
    ),
    "principal_day": (
        ("tenant", "string"),
        ("topic_id", "string"),
        ("topic", "string"),
        ("day", "date"),
        ("principal", "long"),
        ("group", "string"),
        ("meter", "string"),
        ("quantity", QUANTITY),
    ),
    "usage_minute": (
        ("tenant", "string"),
        ("topic_id", "string"),
        ("topic", "string"),
        ("minute", "long"),
        ("meter", "string"),
        ("quantity", QUANTITY),
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
}
"""The columns of each data set in order, with the type names of manifests."""


_SAME_TYPES = {"bigint": "long", "integer": "int", "varchar": "string"}
"""Other type names that manifests may have."""


class DataSetRefused(Exception):
    """The data set cannot be imported; the message names it, the fact and what is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Windows of one run of one data set, checked. Rows come as dictionaries of Python values."""

    name: str
    run_id: str
    digest: str
    code_version: str
    inputs: Mapping[str, Any]
    rows: list[dict[str, Any]]
    windows: Collection[str] | None
    """The windows that were read; None: all of the data set."""

    def has(self, window: str) -> bool:
        """Whether the rows of this window were read."""
        return self.windows is None or window in self.windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest whose form and conservation checks are right. Its files are not read yet."""

    name: str
    run_id: str
    digest: str
    code_version: str
    inputs: Mapping[str, Any]
    windows: Mapping[str, "Window"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of a data set. Equal digests mean equal rows."""

    rows: int
    digest: str
    files: tuple[tuple[str, str, int, str], ...]
    """(run that it rests in, name, bytes, sha256)."""


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


def cut_window(cut_id: str) -> str:
    """The window of `cut_usage` and `cut_coverage` that a cut's rows are in."""
    return f"{zlib.crc32(cut_id.encode()) % CUT_WINDOWS:02}"


def changed_windows(manifest: Manifest, imported: Mapping[str, str]) -> frozenset[str]:
    """The windows whose digests differ from those that were imported, with those that are gone."""
    digests = {name: window.digest for name, window in manifest.windows.items()}
    return frozenset(name for name in {*digests, *imported} if digests.get(name) != imported.get(name))


def read_data_set(store: DataSetStore, manifest: Manifest, windows: Collection[str] | None = None) -> DataSet:
    """The rows of a run, or of these windows of it, after every file was compared with its manifest. Raises
    `DataSetRefused`.
    """
    rows: list[dict[str, Any]] = []
    for name, window in sorted(manifest.windows.items()):
        if windows is None or name in windows:
            before = len(rows)
            for file in window.files:
                rows += _rows_of_file(store, manifest, *file)
                if len(rows) > ROWS_MAX:
                    raise DataSetRefused(f"{manifest.name} run {manifest.run_id}: over {ROWS_MAX} rows")
            if len(rows) - before != window.rows:
                raise DataSetRefused(
                    f"{manifest.name} run {manifest.run_id}: {len(rows) - before} rows, "
                    f"its manifest says {window.rows}{f' in the window {name}' if name else ''}"
                )
    return DataSet(
        name=manifest.name,
        run_id=manifest.run_id,
        digest=manifest.digest,
        code_version=manifest.code_version,
        inputs=manifest.inputs,
        rows=rows,
        windows=windows,
    )


def _rows_of_file(
    store: DataSetStore, manifest: Manifest, run_id: str, file_name: str, size: int, sha256: str
) -> Iterator[dict[str, Any]]:
    wanted = SCHEMAS[manifest.name]
    named = f"{manifest.name} run {manifest.run_id}"
    try:
        content = store.file(manifest.name, run_id, file_name)
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
    return (_plain(row) for row in table.to_pylist())


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
    for field, required in (("dataset", name), ("run_id", run_id)):
        if fields.get(field) != required:
            raise DataSetRefused(
                f"{named}: its manifest says {field} {fields.get(field)!r}, {required!r} required"
            )
    if fields.get("format") not in FORMATS:
        raise DataSetRefused(f"{named}: its manifest says format {fields.get('format')!r}, 1 or 2 required")
    try:
        schema = tuple(
            (str(column["name"]), _SAME_TYPES.get(column["type"], str(column["type"])))
            for column in fields["schema"]
        )
        checks = list(fields["conservation"])
        failed = [check for check in checks if check["holds"] is not True]
        windows = _windows(run_id, fields)
        manifest = Manifest(
            name=name,
            run_id=run_id,
            digest=str(fields["digest"]),
            code_version=str(fields["code_version"]),
            inputs=dict(fields["inputs"]),
            windows=windows,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataSetRefused(
            f"{named}: its manifest is incomplete: {type(error).__name__} {error}"
        ) from error
    if schema != SCHEMAS[name]:
        raise DataSetRefused(f"{named}: columns {_shown(schema)}; {_shown(SCHEMAS[name])} required")
    if failed:
        raise DataSetRefused(f"{named}: does not conserve: {json.dumps(failed[0], default=str)[:300]}")
    for window in windows.values():
        for run, file_name, _, _ in window.files:
            if not _FILE.match(file_name) or not _RUN.match(run):
                raise DataSetRefused(f"{named}: {file_name!r} is no name of one of its files")
    if sum(window.rows for window in windows.values()) != int(fields["rows"]):
        raise DataSetRefused(f"{named}: its windows do not have the rows that its manifest says")
    return manifest


def _windows(run_id: str, fields: Mapping[str, Any]) -> dict[str, Window]:
    """Raises `KeyError`, `TypeError` and `ValueError` for a manifest that is incomplete."""
    given = fields["windows"] if fields["format"] == 2 else [{"window": ALL_ROWS, **fields}]
    files: dict[str, list[tuple[str, str, int, str]]] = {str(window["window"]): [] for window in given}
    for file in fields["files"]:
        of = str(file["window"]) if fields["format"] == 2 else ALL_ROWS
        files[of].append(
            (str(file.get("run", run_id)), str(file["name"]), int(file["bytes"]), str(file["sha256"]))
        )
    return {
        str(window["window"]): Window(
            rows=int(window["rows"]), digest=str(window["digest"]), files=tuple(files[str(window["window"])])
        )
        for window in given
    }


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
