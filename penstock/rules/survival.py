"""What a topic survives: how many failures its replication allows, and whether a whole zone or host may go. Pure.

A message is acknowledged (`acks=all`) when every replica of the in-sync set has it, and these are at least
`min_insync_replicas`. What is promised is what holds for the smallest such set, whichever replicas are in it.
"""

from dataclasses import dataclass

from penstock.contract.topic_settings import Durability
from penstock.rules.domains import Crowd


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """Numbers of brokers at one time. Of zones and hosts None = where the copies are is not known."""

    failures_without_loss: int
    """So many may lose what they store, and every acknowledged message is still there."""
    failures_while_writable: int
    """So many copies may be away, and `acks=all` is still taken."""
    zone_without_loss: bool | None
    """Any one zone may lose all that it stores."""
    zone_while_writable: bool | None
    """Any one zone may be away."""
    host_without_loss: bool | None
    host_while_writable: bool | None
    text: str
    """The same for people."""


def survival(
    *, replication: int, min_insync_replicas: int, durability: Durability, together: Crowd | None
) -> Survival:
    """`together`: the most copies that any partition has in one zone, and on one host; None = not known."""
    lossless, writable = min_insync_replicas - 1, replication - min_insync_replicas
    zone = None if together is None else _domain(together.in_zone, lossless, writable)
    host = None if together is None else _domain(together.on_host, lossless, writable)
    text = f"{_losses(replication, lossless, durability)} {_writes(replication, writable)}"
    if together is not None and replication > 1:
        text = f"{text} {_domains(replication, together, lossless, writable)}"
    return Survival(
        failures_without_loss=lossless,
        failures_while_writable=writable,
        zone_without_loss=None if zone is None else zone[0],
        zone_while_writable=None if zone is None else zone[1],
        host_without_loss=None if host is None else host[0],
        host_while_writable=None if host is None else host[1],
        text=text,
    )


def _domain(copies: int, lossless: int, writable: int) -> tuple[bool, bool]:
    return copies <= lossless, copies <= writable


def _losses(replication: int, lossless: int, durability: Durability) -> str:
    what = "disk" if durability is Durability.FSYNC else "power or disk"
    if replication == 1:
        return "There is one copy: messages are lost with the disk of its broker."
    if lossless == 0:
        return f"A message may be acknowledged with one copy, and is lost if that broker loses its {what}."
    brokers = "1 broker loses its" if lossless == 1 else f"{lossless} brokers lose their"
    return f"Nothing acknowledged is lost if {brokers} {what}."


def _writes(replication: int, writable: int) -> str:
    if replication == 1:
        return "Nothing is written or read while that broker is away."
    if writable == 0:
        return "Writes are refused while any copy is away."
    return f"Writes go on while {writable} cop{'y is' if writable == 1 else 'ies are'} away."


def _domains(replication: int, together: Crowd, lossless: int, writable: int) -> str:
    zone = _domain_lost("zone", together.in_zone, replication, lossless, writable)
    if together.in_zone == together.on_host:
        return zone
    return f"{zone} {_domain_lost('host', together.on_host, replication, lossless, writable)}"


def _domain_lost(domain: str, copies: int, replication: int, lossless: int, writable: int) -> str:
    safe, taking = _domain(copies, lossless, writable)
    if safe:
        then = "writes go on" if taking else "writes are refused until enough copies are back"
        return f"A whole {domain} may be lost: nothing is lost with it, and {then}."
    if copies == 1:
        return f"No two copies share a {domain}."
    return f"A {domain} has {copies} of {replication} copies: what was acknowledged last may be lost with it."
