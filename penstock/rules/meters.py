"""The meters that usage is counted by, and by which rule a quantity on an invoice can be shown to be right."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """How far a tenant can check a quantity that it is billed."""

    LOG = "log"
    """Proven: counted again from the log, offset by offset."""
    BOUNDED = "bounded"
    """Recomputed from the invoice's rows by topic and day, none above what the log and the clock allow."""
    STATED = "stated"
    """Recomputed from the invoice's rows; what the rows say is the service's word."""


@dataclass(frozen=True, slots=True)
class Meter:
    """`items`: what one of its quantity is, in the plural. `by_topic`: whether it is counted by topic."""

    items: str
    rule: Rule
    by_topic: bool = True


RETAINED = "retained_byte_minutes"
REPLICATED = "replicated_byte_minutes"
PARTITIONS = "partition_minutes"
REQUESTS = "requests"
MESSAGES_OWN_ZONE, BYTES_OWN_ZONE = "messages_out_own_zone", "bytes_out_own_zone"
MESSAGES_OTHER_ZONE, BYTES_OTHER_ZONE = "messages_out_other_zone", "bytes_out_other_zone"
CONNECTIONS = "connection_ms"
THROTTLED = "throttled_ms"
LEADERLESS = "leaderless_ms"
"""Time in which partitions had no leader. It is in the data sets of usage and is none: service levels show it."""

METERS: Mapping[str, Meter] = {
    "messages_in": Meter("messages", Rule.LOG),
    "bytes_in": Meter("bytes", Rule.LOG),
    RETAINED: Meter("byte-minutes", Rule.BOUNDED),
    REPLICATED: Meter("byte-minutes", Rule.BOUNDED),
    PARTITIONS: Meter("minutes", Rule.BOUNDED),
    REQUESTS: Meter("requests", Rule.STATED, by_topic=False),
    MESSAGES_OWN_ZONE: Meter("messages", Rule.STATED),
    MESSAGES_OTHER_ZONE: Meter("messages", Rule.STATED),
    BYTES_OWN_ZONE: Meter("bytes", Rule.STATED),
    BYTES_OTHER_ZONE: Meter("bytes", Rule.STATED),
    CONNECTIONS: Meter("milliseconds", Rule.STATED, by_topic=False),
    THROTTLED: Meter("milliseconds", Rule.STATED),
}
"""Those that can be priced."""
BY_ZONE = frozenset({MESSAGES_OWN_ZONE, MESSAGES_OTHER_ZONE, BYTES_OWN_ZONE, BYTES_OTHER_ZONE})
"""Parts of `messages_out` and `bytes_out`."""
MEASURED = frozenset(name for name, meter in METERS.items() if meter.rule is not Rule.LOG)
"""Those that invoices divide by topic and day, without offsets."""


def in_order(names: Iterable[str]) -> list[str]:
    """As people read them: what came in, what went out, what is kept, and the rest; unknown ones last."""
    return sorted(names, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))


_ORDER = {
    name: position
    for position, name in enumerate(
        dict.fromkeys(("messages_in", "bytes_in", "messages_out", "bytes_out", *METERS))
    )
}

GB_HOUR = 60 * 10**9
"""In byte-minutes."""
HOUR_MINUTES = 60
HOUR_MS = 3_600_000
SECOND_MS = 1_000


def decimal_text(quantity: int, unit: int) -> str:
    """`quantity / unit` with at most three places, rounded down: `1.25`, `0.004`; `<0.001` for what is less."""
    whole, part = divmod(quantity, unit)
    places = f"{part * 1_000 // unit:03d}".rstrip("0")
    if quantity and not whole and not places:
        return "<0.001"
    return f"{whole:,}{'.' + places if places else ''}"


def items_of(meter: str) -> str:
    """What one of its quantity is, in the plural; a meter of another book than ours may have any name."""
    known = METERS.get(meter)
    if known is not None:
        return known.items
    return "bytes" if meter.startswith("bytes") else "messages"
