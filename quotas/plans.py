"""Plans: the limits of a tenant that has none of its own. Pure."""

from dataclasses import dataclass

from penstock.contract.limits import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that brokers enforce. 0 = no limit."""

    produce_bytes_per_s: int
    """Bytes of batches as sent, over all brokers."""
    partitions_max: int
    """Partitions of all the tenant's topics."""


STANDARD = Limits(produce_bytes_per_s=64 * MIB, partitions_max=1_000)
SYSTEM = Limits(produce_bytes_per_s=0, partitions_max=0)
