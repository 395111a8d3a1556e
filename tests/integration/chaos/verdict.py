"""What must hold of the values that a fresh consumer read, whatever the brokers went through."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from penstock import Receipt
from tests.integration.chaos.writers import origin_of

Receipts = Mapping[int, Receipt]
"""Receipts of one writer, by the number of its message."""


def check_values(acknowledged: Mapping[int, Receipts], stored: Sequence[Sequence[bytes]]) -> None:
    """Each acknowledged value is stored once, where its receipt says, and each writer's values are in order.

    `acknowledged` by writer; `stored` holds all values of each partition, from offset 0 without gaps. A value
    that was not acknowledged may be there, but not twice, and not out of order. Raises `AssertionError`.
    """
    seen = Counter(itertools.chain.from_iterable(stored))
    doubled = [value for value, times in seen.items() if times > 1]
    assert not doubled, f"{len(doubled)} values are stored twice, such as {doubled[0]!r}"
    places = {origin_of(v): (p, offset) for p, values in enumerate(stored) for offset, v in enumerate(values)}
    for writer, receipts in acknowledged.items():
        lost = [number for number in receipts if (writer, number) not in places]
        assert not lost, f"writer {writer}: {len(lost)} acknowledged values are lost, such as {lost[:5]}"
        for number, receipt in receipts.items():
            place = places[writer, number]
            told = (receipt.partition, receipt.offset)
            assert place == told, f"writer {writer}: value {number} is at {place}, its receipt says {told}"
    for partition, values in enumerate(stored):
        newest: dict[int, int] = {}
        for value in values:
            writer, number = origin_of(value)
            assert number > newest.get(writer, -1), f"partition {partition}: {value!r} is out of order"
            newest[writer] = number
