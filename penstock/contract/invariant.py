"""Invariants that stay on in production (RL138)."""


class InvariantBroken(Exception):
    """Our own bug: the partition or process stops and keeps the evidence."""


def invariant(holds: bool, claim: str) -> None:
    """Raise `InvariantBroken` with `claim` (a sentence that should have been true) unless `holds`."""
    if not holds:
        raise InvariantBroken(claim)
