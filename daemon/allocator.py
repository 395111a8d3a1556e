"""Options of glibc's allocator for large pieces of memory, which a process sets for itself."""

import ctypes
from collections.abc import Mapping
from enum import IntEnum


class Option(IntEnum):
    """Numbers of malloc.h."""

    TRIM_THRESHOLD = -1
    TOP_PAD = -2
    MMAP_THRESHOLD = -3


def tell(options: Mapping[Option, int]) -> bool:
    """Set options of this process's allocator, in bytes. False: it is none of glibc's, and stays as it is."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    taken = [mallopt(ctypes.c_int(option), ctypes.c_int(size)) for option, size in options.items()]
    return all(taken)
