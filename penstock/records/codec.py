"""Which codec builds and parses records here: our own where it is compiled, else aiokafka's extension.

Our own (`record_block`) is native code where the cores are compiled, and twice as fast as aiokafka's there. Pure
Python needs the extension for its speed; without it our own runs in the interpreter. All write and read the same bytes.

aiokafka's is loaded with the first batch; brokers never load it. Its parser reads up to `READ_PAST_BYTES` behind the
end of a hostile block (it checks a bound before a varint, not within, and not before a header's name), so it is only
ever given a buffer with that much zeroed space behind it; all its other reads are checked. Lengths near 2**63 make it
ask for that much memory, which fails at once.
"""

import sys
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any

from penstock.build import CORES

READ_PAST_BYTES = 64
"""Three varints of ten bytes at most, rounded up generously."""


_LENGTHS_FIT = sys.maxsize >= 2**63 - 1
_OWN_IS_NATIVE = CORES == "compiled"


@dataclass(frozen=True, slots=True)
class ExtensionCodec:
    """aiokafka's two classes and the error that its parser raises on purpose."""

    builder: Any
    batch: Any
    corrupt: type[Exception]


def chosen_extension() -> ExtensionCodec | None:
    """aiokafka's codec where it is to be used; none where our own is."""
    return None if _OWN_IS_NATIVE else extension_codec()


@cache
def extension_codec() -> ExtensionCodec | None:
    """aiokafka's codec, or none where it is not installed or where its 64-bit lengths do not fit."""
    if not _LENGTHS_FIT:
        return None
    try:
        from aiokafka.record._crecords import default_records
    except ImportError:
        return None
    return ExtensionCodec(
        default_records.DefaultRecordBatchBuilder,
        default_records.DefaultRecordBatch,
        default_records.CorruptRecordException,
    )


def codec_name() -> str:
    """`compiled` or `python`: what builds and parses records here, by what is installed: loading it takes a while."""
    if _OWN_IS_NATIVE:
        return "compiled"
    package = find_spec("aiokafka") if _LENGTHS_FIT else None
    folders = [] if package is None else package.submodule_search_locations or []
    found = PathFinder.find_spec("default_records", [f"{folder}/record/_crecords" for folder in folders])
    return "python" if found is None else "compiled"
