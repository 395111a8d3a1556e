"""File descriptors of the process: every connection takes one, and so does every open file of the log."""

import resource

DESCRIPTORS_MAX = 1_048_576
"""Beyond this more would be no use, and some systems call no limit a number that they do not take."""


def raise_descriptor_limit() -> int:
    """Raise this process's limit as far as it may be raised without privileges; how many it may have open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        return allowed
    return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft
