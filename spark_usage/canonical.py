"""Rows as their digest sees them: compact JSON in the order of the schema, a line feed after each."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_usage.datasets import DataSet


def canonical_lines(dataset: DataSet, rows: pa.RecordBatch) -> pa.StringArray:
    """One line a row, with its line feed."""
    parts: list[Any] = []
    for at, (name, kind) in enumerate(dataset.columns):
        parts += ["," if at else "{", f"{json.dumps(name)}:", _texts(kind, rows.column(name))]
    return pc.binary_join_element_wise(*parts, "}\n", "")


def text_bytes(texts: pa.StringArray) -> memoryview:
    """All of them, one after the other."""
    offsets = memoryview(texts.buffers()[1]).cast("i")[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(texts.buffers()[2] or b"")[offsets[0] : offsets[-1]]


def repeated_key(dataset: DataSet, rows: pa.RecordBatch) -> list[Any] | None:
    """The key of a row that has the same one as the row before it."""
    keys = [rows.column(name) for name in dataset.key_names]
    same: Any = True
    for key in keys:
        before, here = key.slice(0, len(key) - 1), key.slice(1)
        both = pc.and_(pc.is_null(before), pc.is_null(here))
        same = pc.and_(pc.or_(pc.fill_null(pc.equal(before, here), False), both), same)
    at = pc.index(same, True).as_py() if len(rows) > 1 else -1
    return None if at < 0 else [key[at].as_py() for key in keys]


def _texts(kind: str, column: pa.Array) -> pa.Array:
    """The column's values as JSON."""
    if kind in _AS_JSON:
        # Few values in many rows: each is written once.
        encoded = column.dictionary_encode()
        texts = pa.array([json.dumps(_AS_JSON[kind](one), ensure_ascii=False) for one in encoded.dictionary])
        return pc.fill_null(texts.take(encoded.indices), "null")
    texts = column.cast(pa.string())
    if kind not in ("int", "boolean"):  # others may be beyond what JSON's readers hold in a number
        texts = pc.binary_join_element_wise('"', texts, '"', "")
    return pc.fill_null(texts, "null")


def _time(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


_AS_JSON: dict[str, Callable[[Any], str]] = {
    "string": lambda one: one.as_py(),
    "timestamp": lambda one: _time(one.as_py()),
    "date": lambda one: date.isoformat(one.as_py()),
    "binary": lambda one: _bytes(one.as_py()),
}
