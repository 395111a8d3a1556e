"""How much a broker carries already, in one number, and the draw of two of which the one that carries less is taken.

What brokers report of bytes and connections is some seconds old. If each new topic went to the broker that was emptiest
then, all of them would go to the same one. Of two drawn at random the one with less is nearly as good, and spreads them
(Mitzenmacher: The Power of Two Choices in Randomized Load Balancing, 2001). The draw is a hash, so that the same topic
is placed the same way again.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Protocol


class Loaded(Protocol):
    """What must be known of a broker."""

    @property
    def id(self) -> int: ...
    @property
    def replicas(self) -> int: ...
    @property
    def leaders(self) -> int: ...
    @property
    def log_bytes(self) -> int: ...
    @property
    def bytes_per_s(self) -> int: ...
    @property
    def connections(self) -> int: ...


def storing(brokers: Sequence[Loaded]) -> dict[int, int]:
    """What each carries by what it stores, in replicas: the mean of its replicas and of its bytes, each of those
    counted as the mean broker's replicas have them. Replicas alone where no bytes are known."""
    return _in_units(
        brokers,
        {broker.id: broker.replicas for broker in brokers},
        [{broker.id: broker.log_bytes for broker in brokers}],
    )


def serving(brokers: Sequence[Loaded]) -> dict[int, int]:
    """The same by what it serves, in leaders: leaders, bytes a second, and connections."""
    return _in_units(
        brokers,
        {broker.id: broker.leaders for broker in brokers},
        [
            {broker.id: broker.bytes_per_s for broker in brokers},
            {broker.id: broker.connections for broker in brokers},
        ],
    )


def _in_units(
    brokers: Sequence[Loaded], counted: Mapping[int, int], measured: Sequence[Mapping[int, int]]
) -> dict[int, int]:
    total = sum(counted.values())
    known = [values for values in measured if any(values.values())]
    if not total or not known:
        return dict(counted)
    return {
        broker.id: (
            counted[broker.id] + sum(values[broker.id] * total // sum(values.values()) for values in known)
        )
        // (1 + len(known))
        for broker in brokers
    }


def less_of_two(among: Sequence[int], loads: Mapping[int, int], draw: bytes, turn: int) -> int:
    """Two of these by the hash of `draw` and `turn`, and of them the one with the lower load."""
    if len(among) <= 2:
        return min(among, key=lambda number: (loads[number], number))
    drawn = int.from_bytes(blake2b(draw + turn.to_bytes(8, "big"), digest_size=16).digest(), "big")
    first = drawn % len(among)
    second = (first + 1 + (drawn >> 64) % (len(among) - 1)) % len(among)
    return min(among[first], among[second], key=lambda number: (loads[number], number))
