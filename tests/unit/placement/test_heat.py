"""When a partition is hot."""

import pytest

from data_plane.placement.heat import HOT_BYTES_PER_S, Heat, heat_of, median_of


def heat(
    bytes_per_s: int = HOT_BYTES_PER_S,
    *,
    of_broker_percent: int = 0,
    of_tenant_percent: int = 0,
    topic_median: int | None = None,
    slow_downs_per_s: float = 0.0,
) -> tuple[Heat, ...]:
    return heat_of(
        bytes_per_s,
        of_broker_percent=of_broker_percent,
        of_tenant_percent=of_tenant_percent,
        topic_median=topic_median,
        slow_downs_per_s=slow_downs_per_s,
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"of_broker_percent": 40}, Heat.OF_BROKER),
        ({"of_tenant_percent": 50}, Heat.OF_TENANT),
        ({"topic_median": HOT_BYTES_PER_S // 4}, Heat.OF_TOPIC),
        ({"topic_median": 0}, Heat.OF_TOPIC),
    ],
)
def test_a_large_share_is_hot_from_the_floor_on(given: dict[str, int], reason: Heat) -> None:
    assert heat(**given) == (reason,)
    assert heat(HOT_BYTES_PER_S - 1, **given) == ()


def test_just_below_each_bound_nothing_is_hot() -> None:
    median = HOT_BYTES_PER_S // 4 + 1
    assert heat(of_broker_percent=39, of_tenant_percent=49, topic_median=median, slow_downs_per_s=0.19) == ()


def test_one_that_is_slowed_is_hot_whatever_its_rate() -> None:
    assert heat(0, slow_downs_per_s=0.2) == (Heat.SLOWED,)


def test_all_reasons_are_named() -> None:
    found = heat(2**30, of_broker_percent=90, of_tenant_percent=90, topic_median=5, slow_downs_per_s=9)
    assert found == tuple(Heat)


@pytest.mark.parametrize(
    ("rates", "partitions", "median"),
    [([9, 9], 2, None), ([9], 3, 0), ([1, 2, 9], 3, 2), ([5, 1, 3, 9], 4, 3), ([7, 8, 9], 9, 0), ([], 4, 0)],
)
def test_partitions_without_a_rate_count_as_at_rest(
    rates: list[int], partitions: int, median: int | None
) -> None:
    assert median_of(rates, partitions) == median
