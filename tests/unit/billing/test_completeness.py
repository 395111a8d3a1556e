"""What keeps an invoice a draft, gap by gap, from rows alone."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date

import pytest

from billing.completeness import (
    METERS,
    Coverage,
    PartitionRef,
    Usage,
    Vector,
    billable_quantities,
    find_gaps,
    reversals,
)

MESSAGES, BYTES = METERS
DAY, NEXT_DAY = date(2026, 11, 19), date(2026, 11, 20)
ORDERS: PartitionRef = ("orders-id", 0)
"""The partition of each row that does not say another."""


def coverage(
    start: int, end: int, *, topic: str = "orders", partition: int = 0, generation: int = 1
) -> Coverage:
    return Coverage(
        topic_id=f"{topic}-id",
        topic=topic,
        partition=partition,
        log_generation=generation,
        start_offset=start,
        end_offset=end,
        covered=True,
        reason="",
        missing="",
    )


def gap(start: int, end: int, *, reason: str = "no cut reading", missing: str = "") -> Coverage:
    return replace(coverage(start, end), covered=False, reason=reason, missing=missing)


def row(
    meter: str,
    first: int,
    end: int,
    *,
    quantity: int | None = None,
    day: date = DAY,
    topic: str = "orders",
    partition: int = 0,
) -> Usage:
    return Usage(
        topic_id=f"{topic}-id",
        partition=partition,
        day=day,
        meter=meter,
        quantity=end - first if quantity is None else quantity,
        first_offset=first,
        end_offset=end,
    )


def counted(
    first: int, end: int, *, day: date = DAY, topic: str = "orders", partition: int = 0
) -> list[Usage]:
    """A day's rows of both meters."""
    return [row(meter, first, end, day=day, topic=topic, partition=partition) for meter in METERS]


def lost(first: int, end: int, *, day: date = DAY, partition: int = 0) -> list[Usage]:
    """What a declared loss takes back of a day, of both meters."""
    return [row(meter, first, end, quantity=first - end, day=day, partition=partition) for meter in METERS]


def vector(end: int, *, topic: str = "orders", partition: int = 0, generation: int = 1) -> Vector:
    return {(f"{topic}-id", partition, generation): end}


def gaps(
    ends: Vector,
    found: Sequence[Coverage],
    usage: Sequence[Usage],
    *,
    previous: Vector | None = None,
    waived: Collection[PartitionRef] = (),
) -> list[str]:
    return find_gaps(ends, previous or {}, found, usage, waived)


# -- an invoice that may be issued ----------------------------------------------------------------------------


def test_nothing_at_all_may_be_issued() -> None:
    assert gaps({}, [], []) == []


@pytest.mark.parametrize(
    "usage",
    [
        counted(0, 100),
        [*counted(0, 40), *counted(40, 100, day=NEXT_DAY)],
        [*counted(40, 100, day=NEXT_DAY), *counted(0, 40)],
        [*counted(0, 1), *counted(1, 99), *counted(99, 100)],
    ],
    ids=["one day", "two days", "days in any order", "days of one message"],
)
def test_a_partition_counted_from_its_start_to_the_cut_may_be_issued(usage: list[Usage]) -> None:
    assert gaps(vector(100), [coverage(0, 100)], usage) == []


def test_a_partition_without_a_message_needs_no_usage() -> None:
    assert gaps(vector(0), [coverage(0, 0)], []) == []
    assert gaps(vector(70), [coverage(70, 70)], [], previous=vector(70)) == []


def test_offsets_that_count_nothing_are_covered_all_the_same() -> None:
    aborted = [row(meter, 40, 100, quantity=0) for meter in METERS]
    assert gaps(vector(100), [coverage(0, 100)], [*counted(0, 40), *aborted]) == []
    assert gaps(vector(100), [coverage(0, 100)], counted(0, 40)) == [
        f"orders-0: {meter} is counted up to offset 40 of 100" for meter in METERS
    ]


# -- the vector against the coverage --------------------------------------------------------------------------


@pytest.mark.parametrize("end", [99, 101], ids=["short of the cut", "beyond the cut"])
def test_coverage_that_ends_elsewhere_than_the_cut_is_named(end: int) -> None:
    assert gaps(vector(100), [coverage(0, end)], counted(0, end)) == [
        f"orders-0: covered up to offset {end}, cut at 100"
    ]


def test_a_partition_of_the_cut_without_coverage_is_named() -> None:
    ends = {**vector(100), **vector(5, partition=1), **vector(7, topic="returns")}
    assert gaps(ends, [coverage(0, 100)], counted(0, 100)) == [
        "orders-1 (topic orders-id): its cut reading at offset 5 is not in the data sets",
        "returns-id-0: its cut reading at offset 7 is not in the data sets",
    ]
    named = find_gaps(ends, {}, [coverage(0, 100)], counted(0, 100), names={"returns-id": "returns"})
    assert named[1] == "returns-0 (topic returns-id): its cut reading at offset 7 is not in the data sets"


def test_coverage_of_another_log_generation_is_not_that_of_the_cut() -> None:
    assert gaps(vector(100, generation=2), [coverage(0, 100)], counted(0, 100)) == [
        "orders-0 (topic orders-id): its cut reading at offset 100 is not in the data sets",
        "orders-0: covered up to offset 100, and not in the cut",
    ]


@pytest.mark.parametrize(
    "more",
    [coverage(0, 5, partition=1), coverage(0, 5, topic="returns")],
    ids=["another partition", "another topic"],
)
def test_usage_of_a_partition_that_is_not_in_the_cut_is_named(more: Coverage) -> None:
    usage = [*counted(0, 100), *counted(0, 5, topic=more.topic, partition=more.partition)]
    assert gaps(vector(100), [coverage(0, 100), more], usage) == [
        f"{more.name}: covered up to offset 5, and not in the cut"
    ]


def test_an_empty_partition_that_is_not_in_the_cut_keeps_no_draft() -> None:
    assert gaps(vector(100), [coverage(0, 100), coverage(0, 0, partition=1)], counted(0, 100)) == []


@pytest.mark.parametrize(
    ("missing", "named"), [("", "no cut reading"), ("__usage-1@7", "no cut reading (__usage-1@7)")]
)
def test_a_gap_is_named_with_what_is_missing_and_nothing_else_of_its_partition(
    missing: str, named: str
) -> None:
    assert gaps(vector(100), [gap(3, 90, missing=missing)], counted(0, 20)) == [f"orders-0: gap: {named}"]


def test_a_gap_is_named_of_a_partition_that_is_not_in_the_cut() -> None:
    assert gaps({}, [gap(0, 0)], []) == ["orders-0: gap: no cut reading"]


# -- where the period begins ----------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", [1, 2])
def test_a_period_begins_where_the_cut_before_ended_in_whatever_generation(generation: int) -> None:
    ends = vector(100, generation=generation)
    found = [coverage(40, 100, generation=generation)]
    assert gaps(ends, found, counted(40, 100), previous=vector(40)) == []


@pytest.mark.parametrize("start", [39, 41], ids=["before it", "behind it"])
def test_a_period_that_begins_elsewhere_than_the_cut_before_ended_is_named(start: int) -> None:
    assert gaps(vector(100), [coverage(start, 100)], counted(start, 100), previous=vector(40)) == [
        f"orders-0: counted from offset {start}, the previous cut ended at 40"
    ]


@pytest.mark.parametrize(
    "previous",
    [{}, vector(40, partition=1), vector(40, topic="returns")],
    ids=["no cut before", "a cut of another partition", "a cut of another topic"],
)
def test_a_partition_that_was_in_no_cut_before_begins_at_offset_0(previous: Vector) -> None:
    assert gaps(vector(100), [coverage(0, 100)], counted(0, 100), previous=previous) == []
    assert gaps(vector(100), [coverage(40, 100)], counted(40, 100), previous=previous) == [
        "orders-0: counted from offset 40, the previous cut ended at 0"
    ]


def test_each_partition_begins_where_it_ended_itself() -> None:
    places = [("orders", 0), ("orders", 1), ("returns", 0), ("returns", 1)]
    ends: dict[tuple[str, int, int], int] = {}
    previous: dict[tuple[str, int, int], int] = {}
    found, usage = [], []
    for number, (topic, partition) in enumerate(places, 1):
        previous |= vector(10 * number, topic=topic, partition=partition)
        ends |= vector(100 * number, topic=topic, partition=partition)
        found.append(coverage(10 * number, 100 * number, topic=topic, partition=partition))
        usage += counted(10 * number, 100 * number, topic=topic, partition=partition)
    assert gaps(ends, found, usage, previous=previous) == []
    del previous["orders-id", 1, 1]
    assert gaps(ends, found, usage, previous=previous) == [
        "orders-1: counted from offset 20, the previous cut ended at 0"
    ]


# -- every offset once, by both meters ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranges", "reached"),
    [
        ([], 10),
        ([(10, 99)], 99),
        ([(10, 101)], 101),
        ([(11, 100)], 10),
        ([(9, 100)], 10),
        ([(10, 40), (41, 100)], 40),
        ([(10, 40), (39, 100)], 40),
        ([(10, 40), (10, 100)], 40),
        ([(10, 100), (100, 120)], 120),
    ],
    ids=[
        *("nothing", "too few", "too many", "begins late", "begins early"),
        *("a hole", "an overlap", "twice", "a day beyond the cut"),
    ],
)
@pytest.mark.parametrize("meter", METERS)
def test_a_meter_that_does_not_count_each_offset_once_is_named(
    meter: str, ranges: list[tuple[int, int]], reached: int
) -> None:
    (other,) = [name for name in METERS if name != meter]
    usage = [row(other, 10, 100), *(row(meter, first, end) for first, end in ranges)]
    told = gaps(vector(100), [coverage(10, 100)], usage, previous=vector(10))
    assert told == [f"orders-0: {meter} is counted up to offset {reached} of 100"]


@pytest.mark.parametrize(
    ("of_messages", "of_bytes", "named"),
    [
        ([(0, 40), (40, 100)], [(0, 100)], "offsets 0 to 40"),
        ([(0, 100)], [(0, 40), (40, 100)], "offsets 0 to 40"),
        ([(0, 40), (40, 70), (70, 100)], [(0, 40), (40, 60), (60, 100)], "offsets 40 to 60"),
    ],
)
def test_offsets_that_the_meters_divide_differently_are_named(
    of_messages: list[tuple[int, int]], of_bytes: list[tuple[int, int]], named: str
) -> None:
    usage = [row(MESSAGES, *bounds) for bounds in of_messages] + [row(BYTES, *bounds) for bounds in of_bytes]
    assert gaps(vector(100), [coverage(0, 100)], usage) == [
        f"orders-0: {named} of {DAY} are counted by one meter alone"
    ]


def test_offsets_that_the_meters_count_on_different_days_are_named() -> None:
    usage = [row(MESSAGES, 0, 100, day=NEXT_DAY), row(BYTES, 0, 100)]
    assert gaps(vector(100), [coverage(0, 100)], usage) == [
        f"orders-0: offsets 0 to 100 of {DAY} are counted by one meter alone"
    ]


@pytest.mark.parametrize("place", [("returns", 0), ("orders", 1)])
def test_usage_without_coverage_is_named(place: tuple[str, int]) -> None:
    topic, partition = place
    stray = counted(0, 5, topic=topic, partition=partition)
    assert gaps(vector(100), [coverage(0, 100)], [*counted(0, 100), *stray]) == [
        f"{topic}-{partition} (topic {topic}-id): usage without coverage"
        if topic == "orders"
        else f"{topic}-id-{partition}: usage without coverage"
    ]


def test_each_partition_is_held_against_its_own_usage() -> None:
    ends = {**vector(100), **vector(60, partition=1)}
    found = [coverage(0, 100), coverage(0, 60, partition=1)]
    assert gaps(ends, found, [*counted(0, 60), *counted(0, 100, partition=1)]) == [
        *(f"orders-0: {meter} is counted up to offset 60 of 100" for meter in METERS),
        *(f"orders-1: {meter} is counted up to offset 100 of 60" for meter in METERS),
    ]


# -- declared losses ------------------------------------------------------------------------------------------

EARLIER_DAY, LATER_DAY = lost(60, 80), lost(80, 100, day=NEXT_DAY)
"""A loss that begins at offset 60, of what a cut before had counted up to 100."""


@pytest.mark.parametrize(
    "taken",
    [[*EARLIER_DAY, *LATER_DAY], [*LATER_DAY, *EARLIER_DAY]],
    ids=["earlier day first", "later day first"],
)
def test_what_comes_after_a_loss_of_two_days_is_counted_from_where_the_loss_begins(
    taken: list[Usage],
) -> None:
    ends, found = vector(75, generation=2), [coverage(100, 75, generation=2)]
    assert gaps(ends, found, [*taken, *counted(60, 75)], previous=vector(100)) == []
    assert gaps(ends, found, [*taken, *counted(61, 75)], previous=vector(100)) == [
        f"orders-0: {meter} is counted up to offset 60 of 75" for meter in METERS
    ]


def test_a_loss_behind_which_nothing_came_needs_no_usage() -> None:
    ends, found = vector(60, generation=2), [coverage(100, 60, generation=2)]
    assert gaps(ends, found, [*EARLIER_DAY, *LATER_DAY], previous=vector(100)) == []
    assert gaps(ends, found, [], previous=vector(100)) == [
        f"orders-0: {meter} is counted up to offset 100 of 60" for meter in METERS
    ]


@pytest.mark.parametrize("meter", METERS)
def test_a_loss_that_one_meter_lacks_is_named(meter: str) -> None:
    taken = [one for one in lost(60, 100) if one.meter != meter]
    ends, found = vector(75, generation=2), [coverage(100, 75, generation=2)]
    assert gaps(ends, found, [*taken, *counted(60, 75)], previous=vector(100)) == [
        f"orders-0: {meter} is counted up to offset 100 of 75"
    ]


def test_the_loss_of_another_partition_does_not_move_where_this_one_begins() -> None:
    ends = {**vector(120), **vector(60, partition=1, generation=2)}
    found = [coverage(100, 120), coverage(100, 60, partition=1, generation=2)]
    previous = {**vector(100), **vector(100, partition=1)}
    taken = lost(60, 100, partition=1)
    assert gaps(ends, found, [*taken, *counted(100, 120)], previous=previous) == []
    assert gaps(ends, found, [*taken, *counted(60, 120)], previous=previous) == [
        f"orders-0: {meter} is counted up to offset 100 of 120" for meter in METERS
    ]


# -- what was given up ----------------------------------------------------------------------------------------

BAD: dict[str, tuple[Vector, list[Coverage], list[Usage]]] = {
    "no coverage": (vector(100), [], []),
    "a gap": (vector(100), [gap(0, 100)], []),
    "another end": (vector(100), [coverage(0, 99)], counted(0, 99)),
    "another start": (vector(100), [coverage(9, 100)], counted(9, 100)),
    "not in the cut": ({}, [coverage(0, 100)], counted(0, 100)),
    "no usage": (vector(100), [coverage(0, 100)], []),
    "usage alone": ({}, [], counted(0, 100)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_partition_that_is_given_up_keeps_no_draft_and_its_neighbours_do(name: str) -> None:
    ends, found, usage = BAD[name]
    assert gaps(ends, found, usage, waived=[ORDERS]) == []
    neighbours: list[PartitionRef] = [("orders-id", 1), ("returns-id", 0)]
    assert gaps(ends, found, usage, waived=neighbours) == gaps(ends, found, usage) != []


def test_every_partition_that_is_given_up_is_passed_over() -> None:
    ends = {**vector(100), **vector(5, partition=1), **vector(7, topic="returns")}
    waived: list[PartitionRef] = [("orders-id", 1), ("returns-id", 0)]
    assert gaps(ends, [coverage(0, 100)], counted(0, 100), waived=waived) == []
    assert gaps(ends, [coverage(0, 100)], counted(0, 100), waived=waived[:1]) == [
        "returns-id-0: its cut reading at offset 7 is not in the data sets"
    ]


# -- quantities -----------------------------------------------------------------------------------------------


def test_quantities_are_summed_by_meter_over_days_and_partitions() -> None:
    usage = [
        row(MESSAGES, 0, 40),
        row(BYTES, 0, 40, quantity=4_000),
        row(MESSAGES, 40, 50, day=NEXT_DAY),
        row(BYTES, 40, 50, quantity=700, day=NEXT_DAY),
        row(MESSAGES, 0, 3, partition=1),
        row(BYTES, 0, 3, quantity=90, topic="returns"),
    ]
    assert billable_quantities(usage) == {BYTES: 4_790, MESSAGES: 53}
    assert list(billable_quantities(usage)) == [BYTES, MESSAGES]
    assert billable_quantities([]) == {}


def test_quantities_leave_out_what_a_loss_takes_back() -> None:
    assert billable_quantities([*lost(60, 100), *counted(60, 75)]) == {BYTES: 15, MESSAGES: 15}
    assert billable_quantities(lost(60, 100)) == {}


def test_a_quantity_of_nothing_is_a_quantity() -> None:
    assert billable_quantities([row(MESSAGES, 0, 9, quantity=0)]) == {MESSAGES: 0}


def test_quantities_leave_out_every_partition_that_is_given_up_and_no_other() -> None:
    usage = [*counted(0, 100), *counted(0, 5, partition=1), *counted(0, 7, topic="returns")]
    assert billable_quantities(usage, [("orders-id", 1)]) == {BYTES: 107, MESSAGES: 107}
    assert billable_quantities(usage, [("orders-id", 1), ("returns-id", 0)]) == {BYTES: 100, MESSAGES: 100}
    assert billable_quantities(usage, [("returns-id", 1)]) == {BYTES: 112, MESSAGES: 112}


def test_taken_back_is_what_counts_below_zero() -> None:
    nothing = row(MESSAGES, 50, 60, quantity=0)
    assert reversals([*counted(0, 10), nothing, *lost(60, 100)]) == lost(60, 100)
    assert reversals([nothing]) == []
