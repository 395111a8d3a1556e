"""Which addresses are for programs: REST and the probes. All others are the console's, for people."""

REST = "/v1/"
PROBES = ("/healthz", "/readyz")
"""Machines ask these every few seconds, and raise an alarm themselves when an answer is bad."""


def for_programs(path: str) -> bool:
    return path.startswith((REST, *PROBES))
