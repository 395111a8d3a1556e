"""Memory that a broker frees stays its own: glibc gives the space of large frames back to the kernel at once, and the
next frame pays for fresh pages, some two hundred and fifty a megabyte (decision 95).
"""

from daemon import allocator
from daemon.allocator import Option
from penstock.contract.limits import MIB

KEPT_BYTES = 64 * MIB
"""Free space at the end of the heap that stays."""
_MAPPED_BYTES = 32 * MIB
"""The most that glibc takes. What is larger has pages of its own."""
_GROWTH_BYTES = 1 * MIB
"""The heap grows by so much more than is asked for."""


def keep_freed_memory() -> bool:
    """Tell the allocator of this process. False: it is none of glibc's, and stays as it is."""
    return allocator.tell(
        {
            Option.MMAP_THRESHOLD: _MAPPED_BYTES,
            Option.TRIM_THRESHOLD: KEPT_BYTES,
            Option.TOP_PAD: _GROWTH_BYTES,
        }
    )
