"""Where the compiled record codec comes from: aiokafka's extension, loaded with the first batch.

Brokers never load it. Its parser reads up to `READ_PAST_BYTES` behind the end of a hostile block (it checks a
bound before a varint, not within, and not before a header's name), so it is only ever given a buffer with
that much zeroed space behind it; all its other reads are checked. Lengths near 2**63 make it ask for that much
memory, which fails at once.
"""

import sys
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any

READ_PAST_BYTES = 64
"""Three varints of ten bytes at most, rounded up generously."""


_LENGTHS_FIT = sys.maxsize >= 2**63 - 1


@dataclass(frozen=True, slots=True)
class CompiledCodec:
    """The extension's two classes and the error it raises on purpose."""

    builder: Any
    batch: Any
    corrupt: type[Exception]


@cache
def compiled_codec() -> CompiledCodec | None:
    """The extension, or none where it is not installed or where its 64-bit lengths do not fit."""
    if not _LENGTHS_FIT:
        return None
    try:
        from aiokafka.record._crecords import default_records
    except ImportError:
        return None
    return CompiledCodec(
        default_records.DefaultRecordBatchBuilder,
        default_records.DefaultRecordBatch,
        default_records.CorruptRecordException,
    )


def codec_name() -> str:
    """`compiled` or `python`: what builds and parses records here, by what is installed: loading it takes a while."""
    package = find_spec("aiokafka") if _LENGTHS_FIT else None
    folders = [] if package is None else package.submodule_search_locations or []
    found = PathFinder.find_spec("default_records", [f"{folder}/record/_crecords" for folder in folders])
    return "python" if found is None else "compiled"
